"""ResourceClaims, and the templates that they are made of.

Source: k8s.io/api resource/v1 ResourceClaim, ResourceClaimTemplate and their validation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.allocation import ByText, StatusFields, build_allocation, check_status
from allocator.api.driver_config import CONFIG_MAX, ConfigFields, build_claim_config, check_count, check_opaque
from allocator.api.findings import Findings
from allocator.api.metadata import MetadataFields, check_metadata, check_template_metadata
from allocator.api.requests import (
    AlternativeFields,
    RequestFields,
    build_request,
    check_references,
    check_requests,
    request_names,
)
from allocator.model import Claim, Constraint
from cel.cache import LruCache

CONSTRAINTS_MAX = 32


class ConstraintFields(TypedDict, total=False):
    """An entry of spec.devices.constraints."""

    requests: list[str] | None
    matchAttribute: str | None
    distinctAttribute: str | None


class DeviceClaimFields(TypedDict, total=False):
    """spec.devices of a claim."""

    requests: list[RequestFields] | None
    constraints: list[ConstraintFields] | None
    config: list[ConfigFields] | None


class ClaimSpecFields(TypedDict, total=False):
    """spec of a ResourceClaim."""

    devices: DeviceClaimFields | None


class ClaimFields(TypedDict, total=False):
    """A ResourceClaim."""

    apiVersion: str
    kind: str
    metadata: MetadataFields | None
    spec: ClaimSpecFields | None
    status: StatusFields | None


class TemplateSpecFields(TypedDict, total=False):
    """spec of a ResourceClaimTemplate: a claim to be."""

    metadata: MetadataFields | None
    spec: ClaimSpecFields | None


class TemplateFields(TypedDict, total=False):
    """A ResourceClaimTemplate."""

    apiVersion: str
    kind: str
    metadata: MetadataFields | None
    spec: TemplateSpecFields | None


@dataclass(frozen=True, slots=True)
class ClaimTemplate:
    """A ResourceClaimTemplate."""

    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """labels, annotations: of the claims that are made of it."""
    spec: Mapping[str, object] = field(default_factory=dict)
    """Their spec, a raw object in the form of v1."""


def check_claim(fields: ClaimFields, findings: Findings) -> None:
    """The rules of a claim, its status included."""
    check_metadata(fields.get("metadata") or {}, is_namespaced=True, findings=findings)
    known = _check_claim_spec(fields.get("spec") or {}, "spec", findings)
    check_status(fields.get("status") or {}, known, findings)


def check_template(fields: TemplateFields, findings: Findings) -> None:
    """The rules of a template."""
    check_metadata(fields.get("metadata") or {}, is_namespaced=True, findings=findings)
    spec = fields.get("spec") or {}
    check_template_metadata(spec.get("metadata") or {}, "spec.metadata", findings)
    _check_claim_spec(spec.get("spec") or {}, "spec.spec", findings)


def _check_claim_spec(fields: ClaimSpecFields, path: str, findings: Findings) -> frozenset[str]:
    """The names of the claim's requests, after the rules of its spec."""
    devices, at = fields.get("devices") or {}, f"{path}.devices"
    requests = devices.get("requests") or []
    known = request_names(requests)
    check_requests(requests, f"{at}.requests", findings)
    _check_constraints(devices.get("constraints") or (), known, f"{at}.constraints", findings)
    config = devices.get("config") or ()
    check_count(len(config), CONFIG_MAX, f"{at}.config", findings)
    for index, entry in enumerate(config):
        check_references(entry.get("requests"), known, f"{at}.config[{index}].requests", findings)
        check_opaque(entry.get("opaque"), f"{at}.config[{index}]", findings)
    _check_derived_use(requests, devices.get("constraints") or (), f"{at}.requests", findings)
    return known


def _check_constraints(
    entries: Sequence[ConstraintFields], known: frozenset[str], path: str, findings: Findings
) -> None:
    check_count(len(entries), CONSTRAINTS_MAX, path, findings)
    for index, fields in enumerate(entries):
        at = f"{path}[{index}]"
        check_references(fields.get("requests"), known, f"{at}.requests", findings)
        match, distinct = fields.get("matchAttribute"), fields.get("distinctAttribute")
        if match is None and distinct is None and not findings.is_uncertain(at):
            findings.required(at, "must set matchAttribute or distinctAttribute")
        for name, attribute in (("matchAttribute", match), ("distinctAttribute", distinct)):
            if attribute is not None and (problem := names.fully_qualified_name(attribute)):
                findings.error(f"{at}.{name}", attribute, problem)


def _check_derived_use(
    requests: Sequence[RequestFields], constraints: Sequence[ConstraintFields], path: str, findings: Findings
) -> None:
    used = {name for fields in constraints for name in (fields.get("matchAttribute"), fields.get("distinctAttribute"))}
    for index, request in enumerate(requests):
        for where, alternative in _alternatives(request):
            for number, derived in enumerate(alternative.get("derivedAttributes") or ()):
                if derived.get("name") not in used:
                    at = f"{path}[{index}].{where}.derivedAttributes[{number}].name"
                    findings.error(at, derived.get("name"), "must be the attribute of a constraint of the claim")


def _alternatives(request: RequestFields) -> Iterator[tuple[str, AlternativeFields]]:
    exactly = request.get("exactly")
    if exactly is not None:
        yield "exactly", exactly
    for index, subrequest in enumerate(request.get("firstAvailable") or ()):
        yield f"firstAvailable[{index}]", subrequest


def build_claim(fields: ClaimFields, findings: Findings) -> Claim:
    """The claim in the allocator's form."""
    metadata, spec = fields.get("metadata") or {}, fields.get("spec") or {}
    of_spec = _with_spec(spec, findings) if findings.unknown else _with_known_spec(spec)
    return Claim(
        namespace=metadata.get("namespace") or "",
        name=metadata.get("name") or "",
        uid=metadata.get("uid") or "",
        requests=of_spec.requests,
        constraints=of_spec.constraints,
        config=of_spec.config,
        allocation=build_allocation((fields.get("status") or {}).get("allocation")),
        unknown_fields=of_spec.unknown_fields,
    )


def _with_known_spec(spec: ClaimSpecFields) -> Claim:
    """The same of a spec without unknown fields: thousands of claims have equal ones, each claim again and again."""
    try:
        key = ByText(spec)
    except (RecursionError, ValueError):
        return _with_spec(spec, Findings())
    length = len(key.text)
    if length > _REMEMBERED:
        return _with_spec(spec, Findings())
    return _KNOWN.get(key, length, lambda: _with_spec(spec, Findings()))


_REMEMBERED = 1 << 12
"""Specs that are remembered, and characters of those that are."""

_MOST_CHARACTERS = 1 << 20
"""Of all of them together: what is kept takes more than twenty times as much memory."""

_KNOWN: LruCache[ByText[ClaimSpecFields], Claim] = LruCache(_REMEMBERED, _MOST_CHARACTERS)


def _with_spec(spec: ClaimSpecFields, findings: Findings) -> Claim:
    """A claim of the spec, without anything else."""
    devices = spec.get("devices") or {}
    requests, constraints = enumerate(devices.get("requests") or ()), enumerate(devices.get("constraints") or ())
    return Claim(
        namespace="",
        name="",
        uid="",
        requests=tuple(build_request(r, f"spec.devices.requests[{index}]", findings) for index, r in requests),
        constraints=tuple(_constraint(c, f"spec.devices.constraints[{index}]", findings) for index, c in constraints),
        config=build_claim_config(devices.get("config")),
        unknown_fields=findings.carried_by("spec"),
    )


def _constraint(fields: ConstraintFields, path: str, findings: Findings) -> Constraint:
    match, distinct = fields.get("matchAttribute") or "", fields.get("distinctAttribute") or ""
    return Constraint(tuple(fields.get("requests") or ()), match, distinct, findings.carried_by(path))


def build_template(fields: TemplateFields, raw: Mapping[str, object]) -> ClaimTemplate:
    """The template. raw: the object in the form of v1, of which the claims' spec is taken as it stands."""
    metadata, spec = fields.get("metadata") or {}, fields.get("spec") or {}
    labels = (spec.get("metadata") or {}).get("labels") or {}
    annotations = (spec.get("metadata") or {}).get("annotations") or {}
    raw_spec = raw.get("spec")
    claim_spec = raw_spec.get("spec") if isinstance(raw_spec, dict) else None
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or ""
    return ClaimTemplate(namespace, name, labels, annotations, claim_spec if isinstance(claim_spec, dict) else {})
