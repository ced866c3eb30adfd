from collections.abc import Iterable
from typing import Any

import pytest

from allocator.cluster.snapshot import Snapshot
from allocator.gates import Features
from allocator.model import Claim, CounterConsumption, CounterSet, Device, Slice
from allocator.outcome import Refused
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    POOL,
    a_claim,
    a_device,
    a_node,
    a_request,
    a_result,
    a_slice,
    a_snapshot,
    all_devices,
    an_allocated_claim,
    everywhere,
    kubernetes,
    labelled,
    match,
    on_node,
    per_device,
    where,
)
from tests.unit.allocator.answers import blocked, by_request, conflict, decide, funnel, names, shortage

LACKING = "need more of their counters than is left"


def a_set(name: str = "gpu-0", **counters: str) -> CounterSet:
    return CounterSet(name, {counter: Quantity.parse(text) for counter, text in counters.items()})


def takes(counter_set: str = "gpu-0", **counters: str) -> CounterConsumption:
    return CounterConsumption(counter_set, {counter: Quantity.parse(text) for counter, text in counters.items()})


def a_part(name: str, *consumes: CounterConsumption, **more: Any) -> Device:
    return a_device(name, consumes_counters=consumes, **more)


def parts(**memory: str) -> list[Device]:
    """Partitions of gpu-0 that take so much memory each."""
    return [a_part(name, takes(memory=amount)) for name, amount in memory.items()]


def cluster(
    sets: Iterable[CounterSet], *members: Device | str, held: Iterable[Claim] = (), features: Features | None = None
) -> Snapshot:
    """One pool: a slice with the counter sets and one with the devices."""
    slices = (
        a_slice(name="sets", slice_count=2, counter_sets=tuple(sets)),
        a_slice(*members, name="devices", slice_count=2),
    )
    return a_snapshot(*slices, held=held, features=features or kubernetes())


def test_devices_are_given_as_long_as_their_counters_last() -> None:
    snapshot = cluster([a_set(memory="4")], *parts(a="2", b="2", c="2"))
    assert names(decide(snapshot, a_claim(a_request(count=2)))) == ["a", "b"]
    assert conflict(decide(snapshot, a_claim(a_request(count=3))))


def test_exact_fit_is_a_fit() -> None:
    snapshot = cluster([a_set(memory="40Gi")], *parts(a="20Gi", b="20480Mi"))
    assert names(decide(snapshot, a_claim(a_request(count=2)))) == ["a", "b"]


def test_smallest_amount_too_much_is_too_much() -> None:
    snapshot = cluster([a_set(memory="1")], *parts(a="500m", b="500000001n"))
    assert conflict(decide(snapshot, a_claim(a_request(count=2))))


def test_every_counter_has_to_last() -> None:
    sets = [a_set(memory="8", slices="2")]
    members = [a_part(name, takes(memory="1", slices="1")) for name in "abc"]
    assert names(decide(cluster(sets, *members), a_claim(a_request(count=2)))) == ["a", "b"]
    assert conflict(decide(cluster(sets, *members), a_claim(a_request(count=3))))


def test_device_that_does_not_fit_gives_way_to_a_later_one_that_does() -> None:
    snapshot = cluster([a_set(memory="4")], *parts(large="3", medium="2", small="1"))
    claim = a_claim(a_request("a"), a_request("b"))
    assert by_request(decide(snapshot, claim)) == {"a": ["large"], "b": ["small"]}


def test_device_that_fits_gives_way_where_the_rest_would_not_fit_beside_it() -> None:
    snapshot = cluster([a_set(memory="4")], *parts(large="3", medium="2", other="2"))
    assert names(decide(snapshot, a_claim(a_request(count=2)))) == ["medium", "other"]


def test_devices_without_counters_are_not_concerned() -> None:
    snapshot = cluster([a_set(memory="1")], *parts(a="1", b="1"), "whole")
    assert names(decide(snapshot, a_claim(a_request(count=2)))) == ["a", "whole"]


def test_picks_of_all_claims_add_up() -> None:
    snapshot = cluster([a_set(memory="4")], *parts(a="2", b="2", c="2"))
    claims = [a_claim(name=name) for name in "xyz"]
    assert names(decide(snapshot, *claims[:2])) == ["a", "b"]
    assert conflict(decide(snapshot, *claims))


def test_device_may_take_of_several_sets() -> None:
    sets = [a_set("gpu-0", memory="2"), a_set("gpu-1", memory="1")]
    both = takes("gpu-0", memory="1"), takes("gpu-1", memory="1")
    members = [a_part("a", *both), a_part("b", *both), a_part("c", takes("gpu-0", memory="1"))]
    assert names(decide(cluster(sets, *members), a_claim(a_request(count=2)))) == ["a", "c"]


def test_counters_of_one_name_in_two_sets_are_apart() -> None:
    sets = [a_set("gpu-0", memory="1"), a_set("gpu-1", memory="1")]
    members = [a_part("a", takes("gpu-0", memory="1")), a_part("b", takes("gpu-1", memory="1"))]
    assert names(decide(cluster(sets, *members), a_claim(a_request(count=2)))) == ["a", "b"]


def test_counters_of_one_name_in_two_pools_are_apart() -> None:
    slices = [
        slice_
        for pool in ("p", "q")
        for slice_ in (
            a_slice(name="sets", pool=pool, slice_count=2, counter_sets=(a_set(memory="1"),)),
            a_slice(*parts(x="1"), name="devices", pool=pool, slice_count=2),
        )
    ]
    assert names(decide(a_snapshot(*slices), a_claim(a_request(count=2)))) == ["x", "x"]


def test_all_is_given_where_everything_fits_together() -> None:
    assert names(decide(cluster([a_set(memory="4")], *parts(a="2", b="2")), a_claim(all_devices()))) == ["a", "b"]
    assert conflict(decide(cluster([a_set(memory="3")], *parts(a="2", b="2")), a_claim(all_devices())))


def test_quantities_beyond_64_bits_are_exact() -> None:
    huge = str(2**63)
    snapshot = cluster([a_set(memory=str(2**64))], *parts(a=huge, b=huge, c="1"))
    assert names(decide(snapshot, a_claim(a_request(count=2)))) == ["a", "b"]
    assert conflict(decide(snapshot, a_claim(a_request(count=3))))


def test_device_that_takes_nothing_of_a_counter_always_fits() -> None:
    assert names(decide(cluster([a_set(memory="0")], *parts(a="0")), a_claim())) == ["a"]


# -- what is allocated


def test_allocated_devices_have_taken_their_counters() -> None:
    snapshot = cluster([a_set(memory="4")], *parts(a="3", b="2", c="1"), held=[an_allocated_claim("a")])
    assert names(decide(snapshot, a_claim())) == ["c"]
    found = shortage(decide(snapshot, a_claim(a_request(count=2))))
    assert funnel(found) == [("are in use", ["a"]), (LACKING, ["b"])]


def shared_pool(held: Iterable[Claim] = ()) -> Snapshot:
    """A pool over two nodes: counters for all, a device on each."""
    slices = (
        a_slice(name="sets", slice_count=3, counter_sets=(a_set(memory="3"),), reach=everywhere()),
        a_slice(*parts(here="2"), name="here", slice_count=3),
        a_slice(*parts(there="2"), name="there", slice_count=3, reach=on_node("node-1")),
    )
    return a_snapshot(*slices, held=held)


def test_devices_of_other_nodes_have_taken_their_counters_too() -> None:
    assert names(decide(shared_pool(), a_claim())) == ["here"]
    assert funnel(shortage(decide(shared_pool([an_allocated_claim("there")]), a_claim()))) == [(LACKING, ["here"])]


def test_counter_slice_of_another_node_counts() -> None:
    slices = (
        a_slice(name="sets", slice_count=2, counter_sets=(a_set(memory="1"),), reach=on_node("node-1")),
        a_slice(*parts(a="1", b="1"), name="devices", slice_count=2),
    )
    assert names(decide(a_snapshot(*slices), a_claim())) == ["a"]
    assert conflict(decide(a_snapshot(*slices), a_claim(a_request(count=2))))


def test_device_held_by_admin_access_has_taken_nothing() -> None:
    by_admin = an_allocated_claim(a_result("a", admin_access=True))
    snapshot = cluster([a_set(memory="2")], *parts(a="2", b="2"), held=[by_admin])
    assert names(decide(snapshot, a_claim())) == ["a"]


def test_device_that_is_not_published_any_more_has_taken_nothing() -> None:
    snapshot = cluster([a_set(memory="2")], *parts(b="2"), held=[an_allocated_claim("gone")])
    assert names(decide(snapshot, a_claim())) == ["b"]


def test_device_held_wholly_and_by_admin_access_has_taken_its_counters_once() -> None:
    held = [an_allocated_claim("a"), an_allocated_claim(a_result("a", admin_access=True), name="admin")]
    snapshot = cluster([a_set(memory="3")], *parts(a="2", b="1"), held=held)
    assert names(decide(snapshot, a_claim())) == ["b"]


def test_admin_access_to_an_allocated_partition_needs_its_counters_a_second_time() -> None:
    claim = a_claim(a_request(admin_access=True))
    assert names(decide(cluster([a_set(memory="4")], *parts(a="2"), held=[an_allocated_claim("a")]), claim)) == ["a"]
    assert shortage(decide(cluster([a_set(memory="3")], *parts(a="2"), held=[an_allocated_claim("a")]), claim))


def over_allocated(features: Features) -> Snapshot:
    """gpu-0 has given away more than it has; gpu-1 has not."""
    sets = [a_set("gpu-0", memory="1"), a_set("gpu-1", memory="1")]
    parts_of_both = a_part("a", takes("gpu-0", memory="2")), a_part("b", takes("gpu-1", memory="1"))
    return cluster(sets, *parts_of_both, "whole", held=[an_allocated_claim("a")], features=features)


def test_over_allocated_counters_block_the_whole_pool_only_where_strict() -> None:
    assert names(decide(over_allocated(kubernetes()), a_claim())) == ["b"]
    assert names(decide(over_allocated(kubernetes(is_strict=True)), a_claim())) == ["whole"]


@pytest.mark.parametrize(
    ("memory", "members", "count", "strictly"),
    [
        pytest.param("-1", {"a": "0", "gives": "-5"}, 1, ["gives"], id="a counter below zero"),
        pytest.param("4", {"gives": "-5", "large": "8"}, 2, ["gives", "large"], id="room for a later one"),
        pytest.param("4", {"large": "8", "gives": "-5"}, 2, None, id="not for one before"),
        pytest.param("-1", {"gives": "-1", "a": "0", "b": "0"}, 3, ["gives", "a", "b"], id="no more than there is"),
        pytest.param("-1", {"gives": "-1", "a": "1", "b": "0"}, 2, ["gives", "b"], id="too little for the first"),
    ],
)
def test_device_that_consumes_less_than_nothing_makes_room_for_others_only_where_strict(
    memory: str, members: dict[str, str], count: int, strictly: list[str] | None
) -> None:
    """Each as the reference has it; not strict, it consumes nothing."""
    claim = a_claim(a_request(count=count))
    found = decide(cluster([a_set(memory=memory)], *parts(**members), features=kubernetes(is_strict=True)), claim)
    if strictly is None:
        assert isinstance(found, Refused)
    else:
        assert names(found) == strictly
    assert isinstance(decide(cluster([a_set(memory=memory)], *parts(**members)), claim), Refused)


def test_device_that_is_held_and_consumes_less_than_nothing_leaves_more_only_where_strict() -> None:
    members, held = parts(gives="-5", large="8"), [an_allocated_claim("gives")]
    claim = a_claim(a_request())
    strict = cluster([a_set(memory="4")], *members, held=held, features=kubernetes(is_strict=True))
    assert names(decide(strict, claim)) == ["large"]
    assert shortage(decide(cluster([a_set(memory="4")], *members, held=held), claim))


# -- shares


def a_shared_part(name: str, memory: str) -> Device:
    return a_part(name, takes(memory=memory), capacity={"slots": "4"}, allow_multiple_allocations=True)


ONE_SLOT = {"slots": Quantity.parse("1")}


def test_counters_are_charged_for_the_first_share_only() -> None:
    snapshot = cluster([a_set(memory="3")], a_shared_part("a", "2"), a_part("b", takes(memory="1")))
    claims = [a_claim(a_request(capacity=ONE_SLOT), name=f"share-{n}") for n in range(2)]
    last = a_claim(a_request("r", 1, "!device.allowMultipleAllocations"), name="whole")
    assert names(decide(snapshot, *claims, last)) == ["a", "a", "b"]


def test_counters_of_a_device_of_which_a_share_is_held_are_charged_already() -> None:
    share = a_result("a", share_id="s", consumed_capacity=ONE_SLOT)
    snapshot = cluster([a_set(memory="2")], a_shared_part("a", "2"), *parts(b="1"), held=[an_allocated_claim(share)])
    assert names(decide(snapshot, a_claim(a_request(capacity=ONE_SLOT)))) == ["a"]
    plain = a_claim(a_request("r", 1, "!device.allowMultipleAllocations"))
    assert funnel(shortage(decide(snapshot, plain)))[-1] == (LACKING, ["b"])


@pytest.mark.parametrize(("release", "is_charged_again"), [("1.37", False), ("1.36", True)])
def test_share_that_reports_no_capacity_keeps_the_counters_charged(release: str, *, is_charged_again: bool) -> None:
    shared = a_part("a", takes(memory="2"), allow_multiple_allocations=True)
    held = [an_allocated_claim(a_result("a", share_id="s"))]
    snapshot = cluster([a_set(memory="2")], shared, *parts(b="2"), held=held, features=kubernetes(release))
    assert isinstance(decide(snapshot, a_claim(a_request("r", 1, "!device.allowMultipleAllocations"))), Refused)
    assert isinstance(decide(snapshot, a_claim(a_request())), Refused) is is_charged_again


def test_share_that_is_given_back_gives_its_counters_back() -> None:
    """The first request could have a share of `a`, but then `whole` would find too little left."""
    is_whole = f'device.attributes["{DRIVER}"].whole'
    shared = a_device("a", {"whole": False}, consumes_counters=(takes(memory="1"),), allow_multiple_allocations=True)
    whole = a_device("whole", {"whole": True}, consumes_counters=(takes(memory="2"),))
    snapshot = cluster([a_set(memory="2")], shared, a_device("free", {"whole": False}), whole)
    claim = a_claim(a_request("any", 1, f"!{is_whole}"), a_request("whole", 1, is_whole))
    assert by_request(decide(snapshot, claim)) == {"any": ["free"], "whole": ["whole"]}


def test_second_share_that_is_given_back_leaves_the_counters_charged_for_the_first() -> None:
    """Two shares of `a` fit, but the third request then takes the device that the fourth needs."""
    shared = a_shared_part("a", "2")
    snapshot = cluster([a_set(memory="3")], shared, *parts(b="1", c="1"))
    is_shared = "device.allowMultipleAllocations"
    requests = [a_request(f"r{n}", 1, is_shared, capacity=ONE_SLOT) for n in range(2)]
    claim = a_claim(*requests, a_request("part", 1, f"!{is_shared}"))
    assert by_request(decide(snapshot, claim)) == {"r0": ["a"], "r1": ["a"], "part": ["b"]}
    assert conflict(decide(snapshot, a_claim(*requests, a_request("parts", 2, f"!{is_shared}"))))


# -- per-device node selection, gates


def test_partitions_choose_their_nodes_by_name_selector_or_all() -> None:
    near = {"named": on_node(), "selected": where(labelled(region="1")), "all": everywhere()}
    members = [a_device(name, reach=reach) for name, reach in {**near, "other": on_node("node-1")}.items()]
    outcome = decide(
        a_snapshot(a_slice(*members, reach=per_device())), a_claim(all_devices()), node=a_node(labels={"region": "1"})
    )
    assert names(outcome) == ["named", "selected", "all"]


def test_devices_with_counters_are_not_used_without_the_gate() -> None:
    off = kubernetes(DRAPartitionableDevices=False)
    snapshot = cluster([a_set(memory="4")], *parts(a="1"), "whole", features=off)
    assert names(decide(snapshot, a_claim())) == ["whole"]
    assert funnel(shortage(decide(snapshot, a_claim(a_request(count=2))))) == [
        ("consume counters, and DRAPartitionableDevices is off", ["a"])
    ]
    assert blocked(decide(snapshot, a_claim(all_devices()))).total == 2


def test_device_that_draws_on_a_counter_set_twice_is_charged_for_both() -> None:
    members = a_part("x", takes(memory="2"), takes(memory="3")), a_part("y", takes(memory="2"), takes(memory="2"))
    assert names(decide(cluster([a_set(memory="4")], *members), a_claim())) == ["y"]


def test_constraint_and_counters_hold_together() -> None:
    members = [
        a_device(f"d{n}", {"numa": numa}, consumes_counters=(takes(memory=memory),))
        for n, (numa, memory) in enumerate([(0, "3"), (0, "2"), (1, "2"), (1, "1")])
    ]
    claim = a_claim(a_request(count=2), constraints=[match(f"{DRIVER}/numa")])
    assert names(decide(cluster([a_set(memory="4")], *members), claim)) == ["d2", "d3"]


@pytest.mark.parametrize("order", [1, -1])
def test_order_of_the_slices_does_not_matter(order: int) -> None:
    slices: list[Slice] = [
        a_slice(name="sets", slice_count=2, counter_sets=(a_set(memory="2"),)),
        a_slice(*parts(a="2", b="2"), name="devices", slice_count=2),
    ]
    snapshot = a_snapshot(*slices[::order], held=[an_allocated_claim(a_result("a", pool=POOL))])
    assert shortage(decide(snapshot, a_claim())).left == 0
