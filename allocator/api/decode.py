"""The one entry for objects of resource.k8s.io: raw JSON of any served version in, the allocator's model out.

Version and kind, conversion to v1, types, rules, model, in this order. All errors of an object are reported together;
unknown fields are warnings, and the allocator does not use what carries them.
What an API server stores keeps bounds. Whoever is asked about claims by strangers asks for the `excess` over them
first: decoding takes time and memory for each entry, and some for each that is wrong.
Source: the validation of resource.k8s.io; the bounds are those that `decode` checks by `check_count`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import TypedDict

from allocator.api import versions
from allocator.api.allocation import RESERVED_FOR_MAX, RESULT_CONFIG_MAX, RESULTS_MAX, ByText, Consumer, build_consumers
from allocator.api.device import CONDITIONS_MAX, TAINTS_MAX
from allocator.api.device_class import (
    ClassFields,
    RuleFields,
    TaintRule,
    build_class,
    build_rule,
    check_class,
    check_rule,
)
from allocator.api.driver_config import SELECTORS_MAX
from allocator.api.findings import FieldError, Findings, Location, UnknownField, path_of
from allocator.api.metadata import Metadata, MetadataFields, build_metadata, check_metadata
from allocator.api.requests import ALTERNATIVES_MAX, DERIVED_ATTRIBUTES_MAX, REQUESTS_MAX
from allocator.api.resource_claim import (
    CONSTRAINTS_MAX,
    ClaimFields,
    ClaimTemplate,
    TemplateFields,
    build_claim,
    build_template,
    check_claim,
    check_template,
)
from allocator.api.resource_slice import SliceFields, build_slice, check_slice
from allocator.api.schema import MOST_ERRORS, Reader, advice_on_place, typed
from allocator.model import Claim, DeviceClass, Slice
from cel.cache import LruCache

DraObject = Slice | DeviceClass | Claim | ClaimTemplate | TaintRule


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of one raw object."""

    object: DraObject | None
    """None where there are errors."""
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[UnknownField, ...] = ()
    notes: tuple[FieldError, ...] = ()
    """Rules that are broken where no decision depends on them."""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The object in the form of v1 with the API's defaults, as an API server would return it."""
    metadata: Metadata = field(default_factory=Metadata)
    reserved_for: tuple[Consumer, ...] = ()
    """Of a claim."""


@dataclass(frozen=True, slots=True)
class _Decoder:
    """How one kind is read; the fields differ by kind, and only these four know them."""

    reader: Reader[Any]
    check: Callable[[Any, Findings], None]
    build: Callable[[Any, Mapping[str, object], Findings], DraObject]


_DECODERS: Mapping[object, _Decoder] = {
    "ResourceSlice": _Decoder(Reader(SliceFields), check_slice, lambda fields, _, found: build_slice(fields, found)),
    "DeviceClass": _Decoder(Reader(ClassFields), check_class, lambda fields, _, found: build_class(fields, found)),
    "ResourceClaim": _Decoder(Reader(ClaimFields), check_claim, lambda fields, _, found: build_claim(fields, found)),
    "ResourceClaimTemplate": _Decoder(
        Reader(TemplateFields), check_template, lambda fields, raw, _: build_template(fields, raw)
    ),
    "DeviceTaintRule": _Decoder(Reader(RuleFields), check_rule, lambda fields, *_: build_rule(fields)),
}


def decode(
    raw: Mapping[str, object],
    *,
    validate: bool = True,
    apply_defaults: bool = True,
    allows_combined: bool = False,
    most_errors: int = MOST_ERRORS,
) -> Decoded:
    """The object of resource.k8s.io that `raw` holds, or all that is wrong with it.

    raw: as a JSON or YAML parser gives it; never changed. Recorded cases, which never went through an API server, need
    less: validate=False leaves out limits and required fields, apply_defaults=False the API's defaults.
    allows_combined: as in Findings. most_errors: as `typed` takes it. Never raises for any content. Cost: O(size).
    """
    refusal = versions.refusal(raw)
    if refusal is not None:
        return Decoded(None, errors=(refusal,))
    if raw["kind"] == "ResourceClaim" and validate and apply_defaults and not raw.get("status"):
        return _like_another(raw) or _decoded(raw)
    return _decoded(
        raw,
        validate=validate,
        apply_defaults=apply_defaults,
        allows_combined=allows_combined,
        most_errors=most_errors,
    )


def _decoded(
    raw: Mapping[str, object],
    *,
    validate: bool = True,
    apply_defaults: bool = True,
    allows_combined: bool = False,
    most_errors: int = MOST_ERRORS,
) -> Decoded:
    """The object of a served version and kind."""
    findings = Findings(allows_combined=allows_combined)
    kind = _DECODERS[raw["kind"]]
    converted = versions.to_v1(raw, findings)
    if apply_defaults:
        converted = versions.with_defaults(converted)
    fields = typed(kind.reader, converted, findings, most_errors)
    if fields is None:
        return Decoded(None, tuple(findings.errors), _advised(findings, raw), tuple(findings.notes), converted)
    if validate:
        kind.check(fields, findings)
    return Decoded(
        object=None if findings.errors else kind.build(fields, converted, findings),
        errors=tuple(findings.errors),
        warnings=_advised(findings, raw),
        notes=tuple(findings.notes),
        raw=converted,
        metadata=build_metadata(fields.get("metadata")),
        reserved_for=_consumers(fields) if raw["kind"] == "ResourceClaim" else (),
    )


def _advised(findings: Findings, raw: Mapping[str, object]) -> tuple[UnknownField, ...]:
    """The unknown fields, each with where it belongs, as far as that is known."""
    version, type_ = str(raw["apiVersion"]), _DECODERS[raw["kind"]].reader.type
    paths = [one.path for one in findings.unknown]
    return tuple(
        UnknownField(path, versions.advice_on(path, version) or advice_on_place(path, type_)) for path in paths
    )


def _consumers(claim: ClaimFields) -> tuple[Consumer, ...]:
    return build_consumers((claim.get("status") or {}).get("reservedFor"))


_REMEMBERED = 1 << 12
"""Claims that are remembered, and characters of those that are."""

MOST_CHARACTERS = 1 << 20
"""Of all of them together, which may be gone: what is kept takes more than twenty times as much memory."""


def _like_another(raw: Mapping[str, object]) -> Decoded | None:
    """The claim by what was decoded of an equal one; None where anything is to be said of either."""
    try:
        rest = ByText({name: value for name, value in raw.items() if name != "metadata"})
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return None
    length = len(rest.text)
    like = _KNOWN.get(rest, length, lambda: _decoded_alone(rest.value)) if length <= _REMEMBERED else None
    metadata = _metadata_alone(raw.get("metadata"))
    if like is None or metadata is None:
        return None
    assert isinstance(like.object, Claim)
    claim = replace(like.object, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
    return Decoded(claim, raw={**raw, **like.raw, "metadata": raw["metadata"]}, metadata=metadata)


_KNOWN: LruCache[ByText[dict[str, object]], Decoded | None] = LruCache(_REMEMBERED, MOST_CHARACTERS)


def _decoded_alone(rest: Mapping[str, object]) -> Decoded | None:
    """A claim without its metadata: controllers make thousands that differ in nothing else."""
    decoded = _decoded({**rest, "metadata": {"name": "any"}})
    return None if decoded.errors or decoded.warnings or decoded.notes else decoded


def _metadata_alone(raw: object) -> Metadata | None:
    """The metadata of a claim; None where anything is to be said of it."""
    findings = Findings()
    fields = typed(_METADATA, {"metadata": raw}, findings)
    metadata = (fields or {}).get("metadata") or {}
    check_metadata(metadata, is_namespaced=True, findings=findings)
    return None if findings.errors or findings.unknown else build_metadata(metadata)


class _MetadataAloneFields(TypedDict, total=False):
    metadata: MetadataFields | None


_METADATA = Reader(_MetadataAloneFields)


LISTS: Mapping[str, int] = {
    "requests": REQUESTS_MAX,
    "firstAvailable": ALTERNATIVES_MAX,
    "selectors": SELECTORS_MAX,
    "derivedAttributes": DERIVED_ATTRIBUTES_MAX,
    "constraints": CONSTRAINTS_MAX,
    "config": RESULT_CONFIG_MAX,
    "results": RESULTS_MAX,
    "tolerations": TAINTS_MAX,
    "bindingConditions": CONDITIONS_MAX,
    "bindingFailureConditions": CONDITIONS_MAX,
    "reservedFor": RESERVED_FOR_MAX,
}
"""Entries of a list, by its field; of any other, such as one that is newer than this program, LIST_MAX."""

LIST_MAX = RESERVED_FOR_MAX
FIELDS_MAX = 64
"""Fields of an object, and entries of a map."""

LEVELS_MAX = 16
TEXT_MAX = 1 << 10
"""Characters of a text in a result: several times those of the longest name."""

_PARTS = (("spec", "devices"), ("status", "allocation", "devices"), ("status", "reservedFor"), ("status", "devices"))
_Excess = tuple[Location, int, str]


def excess(claim: Mapping[str, object]) -> FieldError | None:
    """The first part of a raw claim that exceeds a bound; None where all keep them.

    Free-form JSON has to be taken out before. Cost: O(what is within the bounds).
    """
    for part in _PARTS:
        value: object = claim
        for name in part:
            value = value.get(name) if isinstance(value, dict) else None
        if beyond := _excess(value, part[-1], LEVELS_MAX, in_results=False):
            location, number, message = beyond
            return FieldError(path_of((*part, *location)), number, message)
    return None


def _excess(value: object, field: str, levels: int, *, in_results: bool) -> _Excess | None:
    """Where below the field a bound is exceeded, by what number, and which."""
    if isinstance(value, str) and in_results and len(value) > TEXT_MAX:
        return (), len(value), f"must not be longer than {TEXT_MAX} characters"
    if not isinstance(value, dict | list):
        return None
    most = LISTS.get(field, LIST_MAX) if isinstance(value, list) else FIELDS_MAX
    if len(value) > most:
        return (), len(value), f"must not have more than {most} entries"
    if not levels:
        return (), LEVELS_MAX + 1, f"must not have more than {LEVELS_MAX} levels"
    if isinstance(value, list):
        return _in_entries(enumerate(value), field, levels, in_results=in_results or field == "results")
    return _in_entries(value.items(), field, levels, in_results=in_results)


def _in_entries(
    entries: Iterable[tuple[int | str, object]], field: str, levels: int, *, in_results: bool
) -> _Excess | None:
    for step, value in entries:
        if in_results and isinstance(step, str) and len(step) > TEXT_MAX:
            return (step,), len(step), f"a name must not be longer than {TEXT_MAX} characters"
        within = step if isinstance(step, str) else field
        if beyond := _excess(value, within, levels - 1, in_results=in_results):
            return (step, *beyond[0]), beyond[1], beyond[2]
    return None
