"""What the API server of a release refuses beyond what all of them refuse: names, amounts and numbers of devices.

It refuses what is created, and what is changed. What was stored before passes as it is, so that these limits are
looked at here only, and no decision depends on them.
Source: pkg/apis/resource/validation and the declared limits of resource.k8s.io/v1 in Kubernetes 1.38.0-beta.0.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from allocator.api import names
from allocator.api.findings import step_text
from allocator.model import Claim, Device
from cel.values.quantity import Quantity
from scheduler.checks.contract import ObjectName, Observation
from scheduler.checks.manifests import Manifests, WaitingClaim, alternatives_of

AMOUNTS_MAX: Final = 32
"""Capacities that a request names, and that one result consumes."""

DIGITS_MAX: Final = 18
"""Of a number in a version: it fits into 64 bits whatever it is."""

Problem = tuple[str, str]
"""The field, and what is wrong with it."""


def beyond_limits(manifests: Manifests) -> Iterator[Observation]:
    """What the release refuses that releases before it store."""
    if not manifests.features.release.bounds_amounts_and_names:
        return
    release = manifests.features.release.name
    for subject, field, message in (*_of_devices(manifests), *_of_claims(manifests)):
        yield Observation(subject, f"{field}: {message}, since Kubernetes {release}", field)


def _of_devices(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    for slice_ in manifests.inventory.slices:
        subject = ObjectName("ResourceSlice", slice_.name)
        for number, device in enumerate(slice_.devices):
            for limit in _DEVICE_LIMITS:
                for field, message in limit.problems(device):
                    yield subject, f"spec.devices[{number}].{limit.field}{field}", message


def _of_claims(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    for (namespace, name), claim_object in sorted(manifests.inventory.claims.items()):
        stored = WaitingClaim(ObjectName("ResourceClaim", name, namespace), claim_object.claim, "spec")
        for field, message in (*_requests(stored), *_results(claim_object.claim)):
            yield stored.subject, field, message
    for asked in manifests.asked:
        if asked.subject.kind == "ResourceClaimTemplate":
            for field, message in _requests(asked):
                yield asked.subject, field, message


def _requests(asked: WaitingClaim) -> Iterator[Problem]:
    for at, way in alternatives_of(asked):
        yield from _amounts(way.capacity or {}, f"{at}.capacity.requests")
        for index, (name, _) in enumerate(way.derived_attributes):
            yield from _name(name, f"{at}.derivedAttributes[{index}].name")
    for number, constraint in enumerate(asked.claim.constraints):
        at = f"{asked.path}.devices.constraints[{number}]"
        for field, name in (
            ("matchAttribute", constraint.match_attribute),
            ("distinctAttribute", constraint.distinct_attribute),
        ):
            yield from _name(name, f"{at}.{field}") if name else ()


def _results(claim: Claim) -> Iterator[Problem]:
    for number, result in enumerate(claim.allocation.results if claim.allocation else ()):
        yield from _amounts(result.consumed_capacity, f"status.allocation.devices.results[{number}].consumedCapacity")


def _amounts(amounts: Mapping[str, Quantity], path: str) -> Iterator[Problem]:
    if len(amounts) > AMOUNTS_MAX:
        yield path, f"must not have more than {AMOUNTS_MAX} entries, has {len(amounts)}"
    for name, amount in amounts.items():
        yield from _name(name, f"{path}[{step_text(name)}]")
        if amount.sign < 0:
            yield f"{path}[{step_text(name)}]", f"must not be negative, is {amount}"


def _name(name: str, path: str) -> Iterator[Problem]:
    """A name of a capacity or an attribute: what `names.qualified_name` lets pass has one slash too many."""
    if problem := "must not have more than one slash" if name.count("/") > 1 else names.qualified_name(name):
        yield path, problem


def _keys(of: Mapping[str, object]) -> Iterator[Problem]:
    for name in of:
        yield from _name(name, f"[{step_text(name)}]")


def _versions(device: Device) -> Iterator[Problem]:
    for name, (type_, value) in device.attributes.items():
        versions: tuple[object, ...] = value if isinstance(value, tuple) else (value,)
        if type_ in ("version", "versions") and any(_has_long_number(str(one)) for one in versions):
            yield f"[{step_text(name)}].{type_}", f"numbers must not have more than {DIGITS_MAX} digits"


def _has_long_number(version: str) -> bool:
    """True for a number with too many digits before the build metadata, which has no numbers."""
    numbers, _, before_release = version.partition("+")[0].partition("-")
    return any(part.isdecimal() and len(part) > DIGITS_MAX for part in f"{numbers}.{before_release}".split("."))


def _terms(device: Device) -> Iterator[Problem]:
    terms = device.reach.node_selector
    if terms is not None and len(terms) != 1:
        yield "", f"must have exactly one term, has {len(terms)}"


def _capacity_keys(device: Device) -> Iterator[Problem]:
    entry: Any  # its types were checked when it was read
    for resource, entry in device.node_allocatable.items():
        key = (entry.get("mapping") or {}).get("capacityKey")
        yield from _name(key, f"[{step_text(resource)}].mapping.capacityKey") if isinstance(key, str) else ()


class _DeviceLimit(NamedTuple):
    """A field of a device, and what is wrong in it."""

    field: str
    problems: Callable[[Device], Iterator[Problem]]


_DEVICE_LIMITS: Final = (
    _DeviceLimit("attributes", lambda device: _keys(device.attributes)),
    _DeviceLimit("attributes", _versions),
    _DeviceLimit("capacity", lambda device: _keys(device.capacity)),
    _DeviceLimit("nodeSelector.nodeSelectorTerms", _terms),
    _DeviceLimit("nodeAllocatableResources", _capacity_keys),
)
