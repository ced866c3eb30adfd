"""The one entry for objects of resource.k8s.io: raw JSON of any served version in, the allocator's model out.

Version and kind, conversion to v1, types, rules, model, in this order. All errors of an object are reported together;
unknown fields are warnings, and the allocator does not use what carries them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from typing_extensions import TypedDict

from allocator.api import versions
from allocator.api.allocation import Consumer, build_consumers
from allocator.api.device_class import (
    ClassFields,
    RuleFields,
    TaintRule,
    build_class,
    build_rule,
    check_class,
    check_rule,
)
from allocator.api.encode import ByText
from allocator.api.field_types import MOST_ERRORS, typed
from allocator.api.findings import FieldError, Findings, UnknownField
from allocator.api.metadata import Metadata, MetadataFields, build_metadata, check_metadata
from allocator.api.resource_claim import (
    ClaimFields,
    ClaimTemplate,
    TemplateFields,
    build_claim,
    build_template,
    check_claim,
    check_template,
)
from allocator.api.resource_slice import SliceFields, build_slice, check_slice
from allocator.api.schema import Reader, advice_on_place
from allocator.model import Claim, DeviceClass, Slice

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


def _like_another(raw: Mapping[str, object]) -> Decoded | None:
    """The claim by what was decoded of an equal one; None where anything is to be said of either."""
    try:
        rest = ByText({name: value for name, value in raw.items() if name != "metadata"})
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return None
    like = _decoded_once(rest) if len(rest.text) <= _REMEMBERED else None
    metadata = _metadata_alone(raw.get("metadata"))
    if like is None or metadata is None:
        return None
    assert isinstance(like.object, Claim)
    claim = replace(like.object, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
    return Decoded(claim, raw={**raw, **like.raw, "metadata": raw["metadata"]}, metadata=metadata)


@lru_cache(maxsize=_REMEMBERED)
def _decoded_once(rest: ByText[dict[str, object]]) -> Decoded | None:
    """A claim without its metadata: controllers make thousands that differ in nothing else."""
    decoded = _decoded({**rest.value, "metadata": {"name": "any"}})
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
