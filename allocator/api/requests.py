"""The requests of a claim: `exactly` one class of devices, or the first available of several alternatives.

Source: k8s.io/api resource/v1 DeviceRequest, ExactDeviceRequest, DeviceSubRequest and their validation; KEP-4816.
"""

from collections.abc import Mapping, Sequence

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.device import TolerationFields, build_toleration, check_toleration
from allocator.api.driver_config import (
    SelectorFields,
    build_selectors,
    check_count,
    check_expression,
    check_selectors,
)
from allocator.api.findings import Findings, duplicates
from allocator.api.schema import Int64, QuantityField
from allocator.model import Alternative, Request
from cel.values.quantity import Quantity

REQUESTS_MAX = 32
ALTERNATIVES_MAX = 8
DERIVED_ATTRIBUTES_MAX = 32


class CapacityRequestFields(TypedDict, total=False):
    """The capacity that a request asks of each device."""

    requests: dict[str, QuantityField] | None


class DerivedAttributeFields(TypedDict, total=False):
    """An entry of derivedAttributes."""

    name: str | None
    expression: str | None


class AlternativeFields(TypedDict, total=False):
    """What `exactly` and an entry of firstAvailable have in common."""

    deviceClassName: str | None
    selectors: list[SelectorFields] | None
    allocationMode: str | None
    count: Int64 | None
    tolerations: list[TolerationFields] | None
    capacity: CapacityRequestFields | None
    derivedAttributes: list[DerivedAttributeFields] | None


class ExactFields(AlternativeFields, total=False):
    """The `exactly` of a request."""

    adminAccess: bool | None


class SubrequestFields(AlternativeFields, total=False):
    """An entry of firstAvailable."""

    name: str | None


class RequestFields(TypedDict, total=False):
    """An entry of spec.devices.requests."""

    name: str | None
    exactly: ExactFields | None
    firstAvailable: list[SubrequestFields] | None


def request_names(entries: Sequence[RequestFields]) -> frozenset[str]:
    """All names that constraints, configuration and results may refer to: `request` and `request/subrequest`."""
    names: set[str] = set()
    for fields in entries:
        name = fields.get("name") or ""
        names.add(name)
        names.update(f"{name}/{subrequest.get('name') or ''}" for subrequest in fields.get("firstAvailable") or ())
    return frozenset(names)


def check_requests(entries: Sequence[RequestFields], path: str, findings: Findings) -> None:
    """The rules of a claim's requests."""
    check_count(len(entries), REQUESTS_MAX, path, findings)
    for index, fields in enumerate(entries):
        _check_request(fields, f"{path}[{index}]", findings)
    _check_unique([fields.get("name") for fields in entries], path, findings)


def _check_unique(given: Sequence[str | None], path: str, findings: Findings) -> None:
    for index, name in duplicates(name or number for number, name in enumerate(given)):
        findings.error(f"{path}[{index}]", name, "the name must be unique")


def _check_request(fields: RequestFields, path: str, findings: Findings) -> None:
    _check_name(fields.get("name"), f"{path}.name", findings)
    exactly, subrequests = fields.get("exactly"), fields.get("firstAvailable") or []
    if exactly is not None and subrequests:
        findings.error(path, None, "must not set both exactly and firstAvailable")
    elif exactly is None and not subrequests and not findings.is_uncertain(path):
        findings.required(path, "must set exactly one of exactly and firstAvailable")
    if exactly is not None:
        _check_alternative(exactly, f"{path}.exactly", findings)
    _check_subrequests(subrequests, f"{path}.firstAvailable", findings)


def _check_subrequests(entries: Sequence[SubrequestFields], path: str, findings: Findings) -> None:
    check_count(len(entries), ALTERNATIVES_MAX, path, findings)
    for index, fields in enumerate(entries):
        _check_name(fields.get("name"), f"{path}[{index}].name", findings)
        _check_alternative(fields, f"{path}[{index}]", findings)
    _check_unique([fields.get("name") for fields in entries], path, findings)


def _check_name(name: str | None, path: str, findings: Findings) -> None:
    if problem := names.short_name(name or ""):
        findings.error(path, name, problem)


def _check_alternative(fields: AlternativeFields, path: str, findings: Findings) -> None:
    if problem := names.long_name(fields.get("deviceClassName") or ""):
        findings.error(f"{path}.deviceClassName", fields.get("deviceClassName"), problem)
    check_selectors(fields.get("selectors"), f"{path}.selectors", findings)
    _check_mode(fields.get("allocationMode") or "", fields.get("count") or 0, path, findings)
    for index, toleration in enumerate(fields.get("tolerations") or ()):
        check_toleration(toleration, f"{path}.tolerations[{index}]", findings)
    _check_derived(fields.get("derivedAttributes") or (), f"{path}.derivedAttributes", findings)


def _check_mode(mode: str, count: int, path: str, findings: Findings) -> None:
    if mode not in {"ExactCount", "All"}:
        findings.error(f"{path}.allocationMode", mode, "must be ExactCount or All")
    elif mode == "All" and count:
        findings.error(f"{path}.count", count, "must be absent for allocationMode All")
    elif mode == "ExactCount" and count < 1:
        findings.error(f"{path}.count", count, "must be at least 1")


def _check_derived(entries: Sequence[DerivedAttributeFields], path: str, findings: Findings) -> None:
    check_count(len(entries), DERIVED_ATTRIBUTES_MAX, path, findings)
    for index, fields in enumerate(entries):
        if problem := names.fully_qualified_name(fields.get("name") or ""):
            findings.error(f"{path}[{index}].name", fields.get("name"), problem)
        check_expression(fields.get("expression") or "", f"{path}[{index}].expression", findings)
    _check_unique([fields.get("name") for fields in entries], path, findings)


def check_references(given: Sequence[str] | None, known: frozenset[str], path: str, findings: Findings) -> None:
    """A list of references to requests: existing names, each once. known: as `request_names` gives them."""
    check_count(len(given or ()), REQUESTS_MAX, path, findings)
    for index, name in enumerate(given or ()):
        check_reference(name, known, f"{path}[{index}]", findings)
    for index, duplicate in duplicates(given or ()):
        findings.error(f"{path}[{index}]", duplicate, "must be unique")


def check_reference(name: str, known: frozenset[str], path: str, findings: Findings) -> None:
    """A reference to a request or subrequest of the claim."""
    if name not in known:
        findings.error(path, name, "must be the name of a request of the claim, or request/subrequest")


def build_request(fields: RequestFields, path: str, findings: Findings) -> Request:
    """The request in the allocator's form; with both `exactly` and `firstAvailable`, only the latter counts."""
    name, exactly, entries = fields.get("name") or "", fields.get("exactly"), fields.get("firstAvailable")
    unknown = findings.carried_by(path)
    if exactly is not None and not entries:
        alternative = _alternative(exactly, name, f"{path}.exactly", findings, admin_access=exactly.get("adminAccess"))
        return Request(name, (alternative,), unknown_fields=unknown)
    alternatives = tuple(
        _alternative(entry, f"{name}/{entry.get('name') or ''}", f"{path}.firstAvailable[{index}]", findings)
        for index, entry in enumerate(entries or ())
    )
    return Request(name, alternatives, is_first_available=bool(alternatives), unknown_fields=unknown)


def _alternative(
    fields: AlternativeFields, name: str, path: str, findings: Findings, *, admin_access: bool | None = None
) -> Alternative:
    return Alternative(
        name=name,
        class_name=fields.get("deviceClassName") or "",
        selectors=build_selectors(fields.get("selectors")),
        mode=fields.get("allocationMode") or "",
        count=fields.get("count") or 0,
        admin_access=admin_access,
        tolerations=tuple(build_toleration(toleration) for toleration in fields.get("tolerations") or ()),
        capacity=_capacity(fields.get("capacity")),
        derived_attributes=tuple(
            (entry.get("name") or "", entry.get("expression") or "") for entry in fields.get("derivedAttributes") or ()
        ),
        unknown_fields=findings.carried_by(path),
    )


def _capacity(fields: CapacityRequestFields | None) -> Mapping[str, Quantity] | None:
    return None if fields is None else fields.get("requests") or {}
