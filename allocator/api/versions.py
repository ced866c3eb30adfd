"""The versions of resource.k8s.io that are read, and what older ones call differently."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from allocator.api.findings import FieldError, Findings, Location

# Which kinds of resource.k8s.io which version serves in which release, and what replaced the ones that are gone.
#
# Source: k8s.io/api resource/*, the lifecycle markers of each type.


GROUP = "resource.k8s.io"

_CORE = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
_RULE = "DeviceTaintRule"


class Span(NamedTuple):
    """The minor releases of Kubernetes 1 from `introduced` on, and before `removed`, which is None for a stable API."""

    introduced: int
    removed: int | None = None


Served = Mapping[str, Mapping[str, Span]]
"""Of a group: version -> the kinds that an allocation depends on, with the releases whose API server can serve them."""

SERVED: Served = {
    "v1": {**dict.fromkeys(_CORE, Span(34)), _RULE: Span(37)},
    "v1beta2": {**dict.fromkeys(_CORE, Span(33, 39)), _RULE: Span(36, 42)},
    "v1beta1": dict.fromkeys(_CORE, Span(32, 38)),
    "v1alpha3": {**dict.fromkeys(_CORE, Span(31, 33)), _RULE: Span(33, 39)},
}
"""Of resource.k8s.io, the newest first."""

IGNORED_KINDS = frozenset({"ResourcePoolStatusRequest"})
"""Kinds of the group that no allocation depends on."""

_REPLACED = {
    "ResourceClass": "a DeviceClass (resource.k8s.io/v1) with selectors",
    "ResourceClaim": "a ResourceClaim (resource.k8s.io/v1) with spec.devices.requests",
    "ResourceClaimTemplate": "a ResourceClaimTemplate (resource.k8s.io/v1) with spec.spec.devices.requests",
    "ResourceSlice": "a ResourceSlice (resource.k8s.io/v1) with spec.pool and spec.devices",
    "ResourceClaimParameters": "the selectors and config of a ResourceClaim (resource.k8s.io/v1)",
    "ResourceClassParameters": "the selectors and config of a DeviceClass (resource.k8s.io/v1)",
    "PodScheduling": "nothing: the scheduler allocates by itself",
    "PodSchedulingContext": "nothing: the scheduler allocates by itself",
}
_GONE = {
    "v1alpha1": frozenset({"PodScheduling", "ResourceClaim", "ResourceClaimTemplate", "ResourceClass"}),
    "v1alpha2": frozenset(_REPLACED) - {"PodScheduling"},
    "v1alpha3": frozenset({"PodSchedulingContext"}),
}


def is_decoded(api_version: object, kind: object) -> bool:
    """Whether `decode` has to see the object: it is of the group, and not of a kind that no allocation depends on."""
    return isinstance(api_version, str) and api_version.split("/")[0] == GROUP and kind not in IGNORED_KINDS


def versions_of(kind: str, release: str, served: Served = SERVED) -> list[str]:
    """The versions in which that release, such as 1.36, can serve the kind, the newest first. served: by the group."""
    minor = int(release.partition(".")[2])
    spans = {version: kinds[kind] for version, kinds in served.items() if kind in kinds}
    return [one for one, (first, end) in spans.items() if first <= minor and (end is None or minor < end)]


def refusal(raw: Mapping[str, object]) -> FieldError | None:
    """Why the object's version and kind cannot be decoded; None where they can."""
    api_version, kind = raw.get("apiVersion"), raw.get("kind")
    if not isinstance(api_version, str) or not api_version:
        return FieldError("apiVersion", api_version, "must be a string such as resource.k8s.io/v1")
    if not isinstance(kind, str) or not kind:
        return FieldError("kind", kind, "must be a string such as ResourceClaim")
    group, _, version = api_version.partition("/")
    if group != GROUP:
        return FieldError("apiVersion", api_version, f"must be a version of {GROUP}")
    return None if kind in SERVED.get(version, ()) else _unserved(version, kind)


def _unserved(version: str, kind: str) -> FieldError:
    if kind in _GONE.get(version, ()):
        replaced = f"{version} is no longer served; it was replaced by {_REPLACED[kind]}"
        return FieldError("apiVersion", f"{GROUP}/{version}", replaced)
    versions = ", ".join(known for known, kinds in SERVED.items() if kind in kinds)
    if versions and (version in SERVED or version in _GONE):
        return FieldError(
            "apiVersion", f"{GROUP}/{version}", f"{version} never served {kind}; it is served by {versions}"
        )
    if versions:
        return FieldError("apiVersion", f"{GROUP}/{version}", f"is not a known version; {kind} is served by {versions}")
    kinds = ", ".join(sorted(SERVED["v1"]))
    return FieldError("kind", kind, f"is no kind of {GROUP} that an allocation depends on: these are {kinds}")


# Objects of the older versions of resource.k8s.io in the fields of v1, and the API's defaults.
#
# Works on raw JSON objects, before anything is typed: what is not of the expected type is passed on for the fields to
# refuse. A field that the older version never had is reported as unknown and left out, even where v1 has it. The input
# is never changed; what needs no change is shared with it. Source: the conversions and defaults of resource.k8s.io in
# Kubernetes, v1alpha3 as of 1.31 to 1.33.


Json = dict[str, Any]
"""A JSON object whose fields have not been typed yet."""

_EXACT_FIELDS = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)

_BASIC_FIELDS = (
    "attributes",
    "capacity",
    "consumesCounters",
    "nodeName",
    "nodeSelector",
    "allNodes",
    "taints",
    "bindsToNode",
    "bindingConditions",
    "bindingFailureConditions",
    "allowMultipleAllocations",
)
_FLAT_VERSIONS = frozenset({"v1beta1", "v1alpha3"})
"""Versions whose requests have their fields in themselves, and whose devices have theirs in `basic`."""

_OF_A_REQUEST = re.compile(rf"spec(\.spec)?\.devices\.requests\[\d+\]\.(exactly|{'|'.join(_EXACT_FIELDS)})")
_OF_A_DEVICE = re.compile(rf"spec\.devices\[\d+\]\.(basic|{'|'.join(_BASIC_FIELDS)})")


def to_v1(raw: Mapping[str, object], findings: Findings) -> Json:
    """The object in the form of v1. raw: of a served version and kind."""
    version, kind = str(raw["apiVersion"]).rpartition("/")[2], raw["kind"]
    converted: Json = {**raw, "apiVersion": "resource.k8s.io/v1"}
    if kind == "ResourceSlice":
        if version in _FLAT_VERSIONS:
            converted = _mapped(converted, "spec", lambda spec: _slice_spec(spec, version, findings))
        return _mapped(converted, "spec", _with_newest_mappings)
    if version in _FLAT_VERSIONS:
        return _with_requests(converted, lambda at, request: _structured(request, at, findings))
    return converted


def advice_on(path: str, api_version: str) -> str:
    """Where an unknown field belongs that another version has elsewhere; empty for any other."""
    version, name = api_version.rpartition("/")[2], path.rpartition(".")[2]
    is_flat = version in _FLAT_VERSIONS
    if _OF_A_REQUEST.fullmatch(path) and is_flat == (name == "exactly"):
        return (
            f"in {version} its fields are in the request itself" if is_flat else f"in {version} it belongs in exactly"
        )
    if _OF_A_DEVICE.fullmatch(path) and is_flat != (name == "basic"):
        return f"in {version} it belongs in basic" if is_flat else f"in {version} its fields are in the device itself"
    return ""


def with_defaults(raw: Json) -> Json:
    """The object in the form of v1 with what the API server sets where it is silent: modes, counts, operators."""
    if raw["kind"] == "ResourceClaim":
        raw = _in_path(raw, ("status", "allocation", "devices"), lambda devices: _each(devices, "results", _tolerating))
    return _with_requests(raw, lambda _, request: _with_default_fields(request))


def _with_requests(raw: Json, change: Callable[[Location, Json], Json]) -> Json:
    """The claim or template with each of its requests changed; another kind as it is."""
    path = _DEVICES.get(str(raw["kind"]))
    if path is None:
        return raw
    at = (*path, "requests")
    return _in_path(raw, path, lambda devices: _each(devices, "requests", lambda i, item: change((*at, i), item)))


_DEVICES = {"ResourceClaim": ("spec", "devices"), "ResourceClaimTemplate": ("spec", "spec", "devices")}


def _in_path(holder: Json, path: tuple[str, ...], change: Callable[[Json], Json]) -> Json:
    """A copy of `holder` with the object at the path changed."""
    return _mapped(holder, path[0], lambda inner: _in_path(inner, path[1:], change)) if path else change(holder)


def _mapped(holder: Json, name: str, change: Callable[[Json], Json]) -> Json:
    """A copy of `holder` with the object in the field `name` changed, or `holder` where there is no such object."""
    value = holder.get(name)
    return {**holder, name: change(value)} if isinstance(value, dict) else holder


def _each(holder: Json, name: str, change: Callable[[int, Json], Json]) -> Json:
    """A copy of `holder` with the objects of the list in the field `name` changed."""
    values = holder.get(name)
    if not isinstance(values, list):
        return holder
    changed = [change(index, value) if isinstance(value, dict) else value for index, value in enumerate(values)]
    return {**holder, name: changed}


def _slice_spec(spec: Json, version: str, findings: Findings) -> Json:
    kept = dict(spec)
    if kept.get("nodeName") == "":
        del kept["nodeName"]
    if kept.get("allNodes") is False:
        del kept["allNodes"]
    return _each(kept, "devices", lambda index, device: _device(device, version, ("spec", "devices", index), findings))


def _device(device: Json, version: str, location: Location, findings: Findings) -> Json:
    basic = device.get("basic")
    for name in device:
        if name not in {"name", "basic"}:
            findings.unknown_field((*location, name))
    converted = {"name": device["name"]} if "name" in device else {}
    if isinstance(basic, dict):
        if "name" in basic:
            findings.unknown_field((*location, "basic", "name"))
        converted = {**basic, **converted}
    elif basic is not None:
        findings.wrong_type((*location, "basic"), basic, "must be an object")
    return _mapped(converted, "capacity", _valued) if version == "v1alpha3" else converted


def _with_newest_mappings(spec: Json) -> Json:
    """The slice with 1.36's alpha field nodeAllocatableResourceMappings as the field that replaced it in 1.37."""
    devices = spec.get("devices")
    is_there = isinstance(devices, list) and any(isinstance(one, dict) and _MAPPINGS in one for one in devices)
    return _each(spec, "devices", lambda _, device: _with_newest_mapping(device)) if is_there else spec


def _with_newest_mapping(device: Json) -> Json:
    mappings = device.get(_MAPPINGS)
    if not isinstance(mappings, dict) or "nodeAllocatableResources" in device:
        return device
    rest = {name: value for name, value in device.items() if name != _MAPPINGS}
    amounts = {name: {"mapping": _mapping(own)} for name, own in mappings.items() if own != {}}
    return {**rest, "nodeAllocatableResources": amounts}


_MAPPINGS = "nodeAllocatableResourceMappings"


def _mapping(own: object) -> object:
    if not isinstance(own, dict):
        return own
    rest = {name: value for name, value in own.items() if name != "allocationMultiplier"}
    multiplier = own.get("allocationMultiplier")
    if own.get("capacityKey") is None:
        return {**rest, "deviceMultiplier": multiplier}
    return {**rest, "capacityMultiplier": "1" if multiplier is None else multiplier}


def _valued(capacity: Json) -> Json:
    """v1alpha3's capacity, name -> quantity, as name -> {value}."""
    return {name: {"value": quantity} for name, quantity in capacity.items()}


def _structured(request: Json, location: Location, findings: Findings) -> Json:
    """A request whose flat fields have moved into `exactly`, if any of them is set."""
    if "exactly" in request:
        findings.unknown_field((*location, "exactly"))
    flat = {name: request[name] for name in _EXACT_FIELDS if name in request}
    rest = {name: value for name, value in request.items() if name not in flat and name != "exactly"}
    is_exact = any(_is_set(name, value) for name, value in flat.items())
    return {**rest, "exactly": flat} if is_exact else rest


def _is_set(name: str, value: object) -> bool:
    if name in {"deviceClassName", "allocationMode"}:
        return value is not None and value != ""
    return not _is_zero(value) if name == "count" else value is not None


def _is_zero(count: object) -> bool:
    return count is None or (type(count) is int and count == 0)


def _with_default_fields(request: Json) -> Json:
    with_exact = _mapped(request, "exactly", lambda exactly: _defaulted(0, exactly))
    return _each(with_exact, "firstAvailable", _defaulted)


def _defaulted(_: int, alternative: Json) -> Json:
    """The request with its mode, ExactCount unless given, and its count, 1 unless given for that mode."""
    mode = alternative.get("allocationMode")
    mode = "ExactCount" if mode is None or mode == "" else mode
    defaulted = {**_tolerating(0, alternative), "allocationMode": mode}
    if mode == "ExactCount" and _is_zero(alternative.get("count")):
        defaulted["count"] = 1
    return defaulted


def _tolerating(_: int, holder: Json) -> Json:
    """The request or result with the operators of its tolerations, Equal unless given."""
    return _each(holder, "tolerations", lambda _, toleration: {**toleration, "operator": _operator(toleration)})


def _operator(toleration: Json) -> object:
    operator = toleration.get("operator")
    return "Equal" if operator is None or operator == "" else operator
