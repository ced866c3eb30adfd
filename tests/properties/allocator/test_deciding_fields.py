"""Whatever a feature looks at of devices and slices, nodes that differ in it are asked for themselves."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from allocator.features import FEATURES
from allocator.features.contract import Feature, NodeAttempt
from allocator.fleet.fleet import Fleet
from allocator.memo import deciding
from allocator.model import (
    Alternative,
    CounterConsumption,
    CounterSet,
    Device,
    Reach,
    RequestPolicy,
    Slice,
    Taint,
    ValidRange,
)
from allocator.outcome import Allocated
from allocator.search.rules import Stage
from cel.values.quantity import Quantity
from tests.builders import a_claim, a_device, a_node, a_request, a_slice, a_snapshot, amounts, kubernetes, on_node

ONE, AS_MUCH = Quantity.parse("1024"), Quantity.parse("1Ki")
COUNTERS = a_slice(name="counters", slice_count=2, counter_sets=(CounterSet("set", {"slots": ONE}),))
Refuses = Callable[[Sequence[Slice], Device], bool]
NAMES = {"name", "pool", "driver"}

# Two values of each field; a new field needs its pair here. What `==` takes for the same is not the same.
OF_DEVICE: dict[str, tuple[Any, Any]] = {
    "attributes": ({"x": ("string", "a")}, {"x": ("string", "b")}),
    "capacity": ({"memory": ONE}, {"memory": AS_MUCH}),
    "policies": (
        {"memory": RequestPolicy(ONE, (), ValidRange(ONE, ONE, ONE))},
        {"memory": RequestPolicy(ONE, (), ValidRange(ONE, ONE, AS_MUCH))},
    ),
    "allow_multiple_allocations": (False, True),
    "consumes_counters": (
        (CounterConsumption("set", {"slots": ONE}),),
        (CounterConsumption("set", {"slots": AS_MUCH}),),
    ),
    "reach": (Reach(all_nodes=True), Reach(node_name="another")),
    "taints": ((Taint("key", effect="None"),), (Taint("other", effect="None"),)),
    "binds_to_node": (False, True),
    "binding_conditions": ((), ("ready",)),
    "binding_failure_conditions": ((), ("failed",)),
    "node_allocatable": ({}, {"cpu": {"capacityMultiplier": 1}}),
    "unknown_fields": ((), ("new",)),
}
OF_SLICE: dict[str, tuple[Any, Any]] = {
    "slice_count": (1, True),
    "counter_sets": ((CounterSet("set", {"slots": ONE}),), (CounterSet("set", {"slots": AS_MUCH}),)),
    "skip_node_operations": ((), ("prepare",)),
    "unknown_fields": ((), ("new",)),
}
ELSEWHERE = {"generation", "reach", "devices"}  # the fields of slices that decide in another way


class Choosy(Feature):
    """Refuses the devices of which something is not as it wants."""

    def __init__(self, refuses: Refuses) -> None:
        self._refuses = refuses

    def reads(self, alternative: Alternative) -> Iterable[str]:
        return ("gpu.example/x",)

    def unusable(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        published = [slice_ for pool in attempt.view.pools for slice_ in pool.slices]
        refused = (self._refuses(published, device) << n for n, device in enumerate(attempt.view.devices))
        yield Stage("are not as they should be", sum(refused))


def same(slice_: Slice) -> dict[str, Any]:
    """What `a_slice` makes the slice of, beside its devices."""
    return {
        field.name: getattr(slice_, field.name) for field in fields(Slice) if field.init and field.name != "devices"
    }


def agrees(monkeypatch: pytest.MonkeyPatch, refuses: Refuses, pools: list[list[Slice]]) -> None:
    """Of two nodes with pools of these slices one can, and the fleet says so."""
    features = (*FEATURES, Choosy(refuses))
    for module in ("allocator.features", "allocator.candidates", "allocator.fleet.alike"):
        monkeypatch.setattr(f"{module}.FEATURES", features)
    claim = a_claim(a_request())
    nodes = [a_node(f"n{number}") for number in range(len(pools))]
    for order in (1, -1):
        placed = [
            a_slice(*slice_.devices, **{**same(slice_), "pool": node.name, "reach": on_node(node.name)})
            for pool, node in zip(pools[::order], nodes, strict=True)
            for slice_ in pool
        ]
        fleet = Fleet(a_snapshot(*placed, features=kubernetes(is_strict=True)), nodes)
        each = sum(isinstance(fleet.allocate(n, [claim]), Allocated) << n for n in range(len(nodes)))
        assert each.bit_count() == 1
        assert fleet.able([claim]) == each
        chosen = fleet.choose([claim], fleet.all)
        assert chosen is not None
        assert chosen.node is nodes[each.bit_length() - 1]
        assert fleet.choose([claim], fleet.all & ~each) is None


def is_(value: object, wanted: object) -> bool:
    return repr(value) == repr(wanted)


@pytest.mark.parametrize("field", OF_DEVICE)
def test_feature_may_read_any_field_of_a_device(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, refused = OF_DEVICE[field]
    pools = [[a_slice(replace(a_device(), **{field: value}))] for value in (kept, refused)]
    if field == "consumes_counters":
        pools = [[replace(pool[0], slice_count=2), COUNTERS] for pool in pools]
    agrees(monkeypatch, lambda _, device: is_(getattr(device, field), refused), pools)


@pytest.mark.parametrize("field", OF_SLICE)
def test_feature_may_read_any_field_of_a_slice(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, refused = OF_SLICE[field]
    pools = [[a_slice("gpu-0", **{field: value})] for value in (kept, refused)]
    if field == "counter_sets":
        pools = [[a_slice("gpu-0", slice_count=2), replace(COUNTERS, counter_sets=value)] for value in (kept, refused)]
    agrees(monkeypatch, lambda slices, _: any(is_(getattr(slice_, field), refused) for slice_ in slices), pools)


def test_every_field_has_its_pair() -> None:
    assert {field.name for field in fields(Device) if field.compare} == OF_DEVICE.keys() | NAMES
    assert {field.name for field in fields(Slice) if field.compare} == OF_SLICE.keys() | NAMES | ELSEWHERE


def test_field_that_is_excepted_has_to_be_there() -> None:
    with pytest.raises(AssertionError, match="colour"):
        deciding(Device, {"colour": "a device has none"})


def test_policies_that_differ_in_how_an_amount_is_written_are_two() -> None:
    """As kube-scheduler compares an amount with the default: by representation."""
    claim = a_claim(a_request(capacity=amounts(memory="1Ki")))
    slices, nodes = [], [a_node(f"n{number}") for number in range(2)]
    for node, default in zip(nodes, (ONE, AS_MUCH), strict=True):
        policy = RequestPolicy(default, (Quantity.parse("2Ki"), Quantity.parse("4Ki")))
        device = a_device(capacity={"memory": "8Ki"}, policies={"memory": policy}, allow_multiple_allocations=True)
        slices.append(a_slice(device, name=node.name, pool=node.name, reach=on_node(node.name)))
    fleet = Fleet(a_snapshot(*slices), nodes)
    each = [fleet.allocate(number, [claim]) for number in range(2)]
    assert fleet.able([claim]) == sum(isinstance(outcome, Allocated) << n for n, outcome in enumerate(each))
