"""The random clusters themselves: what the other property tests rely on is there, and often enough."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import pytest

from allocator.model import Alternative, Device, DeviceResult
from allocator.outcome import InvalidClaim, InvalidPool
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.instances import ABOUT, about
from tests.properties.allocator.naive import AllViolates, answer
from tests.properties.allocator.naive_devices import CannotJudge
from tests.properties.allocator.naive_pools import pools_of

EACH = 40
NUMBER = EACH * len(ABOUT)


@cache
def sampled() -> list[Instance]:
    return [instance.strictly() for aspect in ABOUT for instance in about(aspect)("sample", EACH)]


def alternatives(instance: Instance) -> list[Alternative]:
    return [a for claim in instance.claims for request in claim.requests for a in request.alternatives]


def devices(instance: Instance) -> list[Device]:
    return [device for slice_ in instance.slices for device in slice_.devices]


def defects(instance: Instance) -> set[str]:
    try:
        return {pool.defect for node in instance.nodes for pool in pools_of(instance, node)}
    except InvalidPool:
        return set()


CONSTRUCTS: Mapping[str, Callable[[Instance], bool]] = MappingProxyType(
    {
        "several claims": lambda i: len(i.claims) > 1,
        "several requests of one claim": lambda i: any(len(claim.requests) > 1 for claim in i.claims),
        "more than one device wanted": lambda i: any(a.count > 1 for a in alternatives(i)),
        "all devices wanted": lambda i: any(a.mode == "All" for a in alternatives(i)),
        "several alternatives": lambda i: any(len(r.alternatives) > 1 for claim in i.claims for r in claim.requests),
        "admin access": lambda i: any(a.admin_access for a in alternatives(i)),
        "tolerations": lambda i: any(a.tolerations for a in alternatives(i)),
        "amounts wanted": lambda i: any(a.capacity for a in alternatives(i)),
        "derived attributes": lambda i: any(a.derived_attributes for a in alternatives(i)),
        "selectors": lambda i: any(a.selectors for a in alternatives(i)),
        "class with a selector": lambda i: any(a.class_name == "odd" for a in alternatives(i)),
        "matchAttribute": lambda i: any(c.match_attribute for claim in i.claims for c in claim.constraints),
        "distinctAttribute": lambda i: any(c.distinct_attribute for claim in i.claims for c in claim.constraints),
        "two constraints": lambda i: any(len(claim.constraints) > 1 for claim in i.claims),
        "constraint over some requests": lambda i: any(
            0 < len(c.requests) < len(claim.requests) for claim in i.claims for c in claim.constraints
        ),
        "configuration of a claim": lambda i: any(claim.config for claim in i.claims),
        "configuration of a class": lambda i: any(one.config for one in i.classes),
        "devices in use": lambda i: bool(i.held[0].allocation and i.held[0].allocation.results),
        "shares in use": lambda i: any(r.share_id for c in i.held if c.allocation for r in c.allocation.results),
        "several slices of a pool": lambda i: len({slice_.pool_id for slice_ in i.slices}) < len(i.slices),
        "devices that choose their nodes": lambda i: any(p.reach.per_device and p.devices for p in i.slices),
        "slices by node selector": lambda i: any(slice_.reach.node_selector for slice_ in i.slices),
        "counter slice": lambda i: any(slice_.counter_sets for slice_ in i.slices),
        "incomplete pool": lambda i: "incomplete" in defects(i),
        "invalid pool": lambda i: any(defect.startswith("invalid") for defect in defects(i)),
        "old generation": lambda i: len({slice_.generation for slice_ in i.slices}) > 1,
        "tainted device": lambda i: any(device.taints for device in devices(i)),
        "shared device": lambda i: any(device.allow_multiple_allocations for device in devices(i)),
        "request policy": lambda i: any(device.policies for device in devices(i)),
        "device that consumes counters": lambda i: any(device.consumes_counters for device in devices(i)),
        "compatibility groups": lambda i: any(
            consumes.compatibility_groups for device in devices(i) for consumes in device.consumes_counters
        ),
        "binding conditions": lambda i: any(device.binding_conditions for device in devices(i)),
        "skipped node operations": lambda i: any(slice_.skip_node_operations for slice_ in i.slices),
        "list attribute": lambda i: any(kind.endswith("s") for d in devices(i) for kind, _ in d.attributes.values()),
        "attribute under its full name": lambda i: any("a.example/numa" in device.attributes for device in devices(i)),
        "unknown field": lambda i: any(device.unknown_fields for device in devices(i)),
        "capacity under its full name": lambda i: any("/" in name for device in devices(i) for name in device.capacity),
        "amounts wanted under a full name": lambda i: any(
            "/" in name for a in alternatives(i) for name in a.capacity or ()
        ),
        "shares in use under a full name": lambda i: any(
            "/" in name for c in i.held if c.allocation for r in c.allocation.results for name in r.consumed_capacity
        ),
        "Kubernetes 1.38": lambda i: i.features.release.name == "1.38",
        "Kubernetes 1.36": lambda i: i.features.release.name == "1.36",
        "other gates than the default": lambda i: (
            i.features.gates != frozenset(gate for gate, is_on in i.features.release.gates.items() if is_on)
        ),
    }
)


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_construct_is_present(construct: str) -> None:
    times = sum(CONSTRUCTS[construct](instance) for instance in sampled())
    assert times >= NUMBER * 0.02


def outcome(instance: Instance) -> str:
    try:
        return "nothing" if answer(instance, instance.nodes[0]) is None else "allocated"
    except CannotJudge:
        return "device that cannot be judged"
    except AllViolates:
        return "all violates"
    except InvalidClaim:
        return "invalid claim"
    except InvalidPool:
        return "invalid pool"


@cache
def outcomes() -> Counter[str]:
    return Counter(outcome(instance) for instance in sampled())


def test_satisfiable_and_unsatisfiable_instances_are_both_frequent() -> None:
    assert outcomes()["allocated"] >= NUMBER * 0.3
    assert outcomes()["nothing"] >= NUMBER * 0.2


@pytest.mark.parametrize("fault", ["device that cannot be judged", "all violates", "invalid claim", "invalid pool"])
def test_every_fault_is_there_but_none_is_frequent(fault: str) -> None:
    assert NUMBER * 0.01 <= outcomes()[fault] <= NUMBER * 0.2


@cache
def results() -> list[tuple[Instance, DeviceResult]]:
    """What the satisfiable instances get on their first node."""
    able = [instance for instance in sampled() if outcome(instance) == "allocated"]
    answers = ((instance, answer(instance, instance.nodes[0]) or ()) for instance in able)
    return [(instance, result) for instance, found in answers for one in found for result in one.results]


GIVEN: Mapping[str, Callable[[DeviceResult, Device], object]] = MappingProxyType(
    {
        "subrequest": lambda result, _: "/" in result.request,
        "admin access": lambda result, _: result.admin_access,
        "tolerated taint": lambda result, device: result.tolerations and device.taints,
        "share": lambda result, _: result.consumed_capacity,
        "counters": lambda _, device: device.consumes_counters,
        "groups": lambda _, device: any(consumes.compatibility_groups for consumes in device.consumes_counters),
        "conditions": lambda result, _: result.binding_conditions,
        "operations": lambda result, _: result.skip_node_operations,
        "list attribute": lambda _, device: any(kind.endswith("s") for kind, _ in device.attributes.values()),
    }
)


@pytest.mark.parametrize("feature", GIVEN)
def test_feature_is_not_only_asked_for_but_given(feature: str) -> None:
    published = ((one, next(d for d in devices(instance) if d.id == one.id)) for instance, one in results())
    assert sum(bool(GIVEN[feature](result, device)) for result, device in published) >= 3


def test_answers_are_not_all_the_first_devices() -> None:
    """Where every request got what comes first, the order of the search would not matter."""
    skipping = 0
    for instance in sampled():
        if outcome(instance) == "allocated":
            usable = [pool for pool in pools_of(instance, instance.nodes[0]) if not pool.defect]
            first = [one.device.name for pool in usable for one in pool.devices]
            given = [result.device for owner, result in results() if owner is instance]
            skipping += given != first[: len(given)]
    assert skipping >= NUMBER * 0.1
