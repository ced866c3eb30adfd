"""Free volumes, as they are found by what they are like and by node, are those that one would find one by one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.cluster.node_affinity import selects_leniently
from allocator.fleet.nodes import NodeTable
from allocator.model import Node, Requirement, Term
from cel.values.quantity import Quantity
from scheduler.core_v1.storage_objects import CSIDriver, CSIStorageCapacity, PersistentVolume
from scheduler.plugins.volume_matching import matching
from scheduler.state import storage
from scheduler.state.storage import NO_AMOUNT
from scheduler.state.volumes import Volumes
from tests.builders import a_node, kubernetes
from tests.storage import DRIVER, a_capacity, a_pv, a_pvc, a_storage_class, where_label

NODES = 6
KEYS, VALUES = ("zone", "host"), ("a", "b", "c")
EVERYWHERE = (1 << NODES) - 1

labels = st.fixed_dictionaries({}, optional={key: st.sampled_from(VALUES) for key in KEYS})
affinities = st.one_of(
    st.none(),
    st.builds(where_label, st.sampled_from(KEYS), st.sampled_from(VALUES), st.sampled_from(VALUES)),
)
names = st.sampled_from(["v0", "v1", "v2", "v3"])
volumes = st.builds(
    lambda name, size, affinity: a_pv(name, size=size, affinity=affinity),
    names,
    st.sampled_from(["1Gi", "2Gi"]),
    affinities,
)
events = st.lists(
    st.one_of(
        st.tuples(st.just("volume"), volumes),
        st.tuples(st.just("gone"), names),
        st.tuples(st.just("node"), st.tuples(st.integers(0, NODES - 1), labels)),
        st.tuples(st.just("ask"), st.none()),
    ),
    max_size=25,
)


@pytest.mark.parametrize("few_nodes", [0, 2, 8])
@given(events)
@settings(max_examples=60)
def test_any_history_offers_each_node_its_smallest_volume(few_nodes: int, history: Sequence[tuple[str, Any]]) -> None:
    """few_nodes: whether groups of volumes lie by node or not."""
    table = NodeTable()
    found, nodes, there = Volumes(table, kubernetes()), dict[int, Node](), dict[str, PersistentVolume]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "FEW_NODES", few_nodes)
        for event, value in [*history, ("ask", None)]:
            match event:
                case "volume":
                    found.set_volume(value)
                    there[value.name] = value
                case "gone":
                    found.remove_volume(value)
                    there.pop(value, None)
                case "node":
                    number, labels = value
                    nodes[number] = a_node(f"n{number}", labels)
                    table.set(number, nodes[number])
                case _:
                    agree(found, nodes, there.values())


def agree(found: Volumes, nodes: Mapping[int, Node], there: Iterable[PersistentVolume]) -> None:
    claim, larger = a_pvc(), a_pvc("w", size="2Gi")
    ((_, offers),) = matching(found, [claim], EVERYWHERE)
    (_, listed), _ = matching(found, [claim, larger], EVERYWHERE)
    for number, node in nodes.items():
        able = [volume for volume in there if volume.affinity is None or selects_leniently(volume.affinity, node)]
        offered = offers.on(number)
        assert bool(offers.nodes >> number & 1) is bool(able) is (offered is not None)
        assert offered == listed.on(number)
        if offered:
            assert offered in able
            assert offered.capacity.nanos == min(volume.capacity.nanos for volume in able)
    assert offers.nodes == listed.nodes
    assert not offers.nodes >> NODES


SIZES = ("1Gi", "2Gi", "3Gi", "1100Mi")
sizes = st.sampled_from(SIZES)
reports = st.lists(
    st.one_of(
        st.tuples(
            st.just("capacity"),
            st.builds(
                lambda name, size, key, value, amount: a_capacity(
                    name, size, Requirement(key, "In", (value,)), amount=amount
                ),
                st.sampled_from(["c0", "c1", "c2"]),
                sizes,
                st.sampled_from(KEYS),
                st.sampled_from(VALUES),
                st.sampled_from(["", *SIZES]),
            ),
        ),
        st.tuples(st.just("gone"), st.sampled_from(["c0", "c1", "c2"])),
        st.tuples(st.just("node"), st.tuples(st.integers(0, NODES - 1), labels)),
        st.tuples(st.just("ask"), sizes),
    ),
    max_size=25,
)


@given(reports)
@settings(max_examples=100)
def test_any_history_of_capacities_has_room_where_one_of_them_says_so(history: Sequence[tuple[str, Any]]) -> None:
    table = NodeTable()
    nodes, there = dict[int, Node](), dict[str, CSIStorageCapacity]()
    found = Volumes(table, kubernetes())
    found.set_driver(CSIDriver(DRIVER, publishes_capacity=True))
    for event, value in [*history, *(("ask", size) for size in SIZES)]:
        match event:
            case "capacity":
                found.set_capacity(value)
                there[value.name] = value
            case "gone":
                found.remove_capacity(("default", value))
                there.pop(value, None)
            case "node":
                number, has = value
                nodes[number] = a_node(f"n{number}", has)
                table.set(number, nodes[number])
            case _:
                have_room(found, nodes, list(there.values()), Quantity.parse(value))


def have_room(found: Volumes, nodes: Mapping[int, Node], there: Iterable[CSIStorageCapacity], size: Quantity) -> None:
    roomy, amounts = found.roomy(a_storage_class(), size), found.free_amounts(a_storage_class(), size)
    assert amounts is not None
    for number, node in nodes.items():
        able = [one for one in there if is_for(one, node) and one.largest and one.largest.nanos >= size.nanos]
        assert bool(roomy >> number & 1) is bool(able)
        first = min(able, key=lambda one: one.name, default=None)
        expected = NO_AMOUNT if first is None or first.amount is None else first.amount.ceil_int()
        assert amounts[number] == expected
    assert not roomy >> NODES


def is_for(capacity: CSIStorageCapacity, node: Node) -> bool:
    return selects_leniently((Term(tuple(capacity.topology or ())),), node)
