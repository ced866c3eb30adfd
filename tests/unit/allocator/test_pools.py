from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product

import pytest

from allocator.cluster.pools import Pool, SliceIndex
from allocator.fleet.fleet import Fleet
from allocator.gates import Features
from allocator.model import NOWHERE, CounterConsumption, CounterSet, Node, PoolID, Slice, Term
from allocator.outcome import InvalidPool
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    POOL,
    a_claim,
    a_device,
    a_node,
    a_request,
    a_slice,
    a_snapshot,
    a_term,
    all_devices,
    an_allocated_claim,
    everywhere,
    kubernetes,
    labelled,
    on_node,
    per_device,
    requires,
    where,
)
from tests.unit.allocator.answers import decide, invalid_pools, names, refusal, shortage

HERE, THERE = on_node("node-0"), on_node("node-1")
V1_36, V1_37 = Features.of("1.36"), Features.of("1.37")


def seen(*slices: Slice, node: Node | None = None, features: Features = V1_37) -> Sequence[Pool]:
    """The pools that the node sees of the slices of a cluster."""
    return SliceIndex(features.release, slices).pools(node or a_node(labels={"region": "1"}), features)


def reported(pools: Sequence[Pool]) -> list[tuple[str, str, list[str]]]:
    """(driver, pool, its devices in order) for each pool."""
    return [(*pool.id, [device.name for slice_ in pool.slices for device in slice_.devices]) for pool in pools]


def device_names(*slices: Slice, features: Features = V1_37) -> list[str]:
    return [name for *_, members in reported(seen(*slices, features=features)) for name in members]


def counters(**amounts: str) -> CounterSet:
    return CounterSet("memory", {name: Quantity.parse(text) for name, text in amounts.items()})


def consuming(counter_set: str, **amounts: str) -> tuple[CounterConsumption, ...]:
    return (CounterConsumption(counter_set, {name: Quantity.parse(text) for name, text in amounts.items()}),)


# -- which slices count


def test_slice_of_another_node_does_not_count() -> None:
    assert device_names(a_slice("here"), a_slice("there", pool="other", reach=THERE)) == ["here"]


def test_slice_for_all_nodes_counts() -> None:
    assert device_names(a_slice("shared", reach=everywhere())) == ["shared"]


def test_slice_by_node_selector_counts_where_it_matches() -> None:
    near, far = where(labelled(region="1")), where(labelled(region="2"))
    assert device_names(a_slice("near", reach=near), a_slice("far", pool="other", reach=far)) == ["near"]


def test_slice_without_any_node_selection_is_ignored() -> None:
    assert seen(a_slice("lost", reach=NOWHERE)) == ()


def test_slice_whose_devices_choose_counts_where_one_of_them_does() -> None:
    mixed = a_slice(a_device("far", reach=THERE), a_device("near", reach=HERE), reach=per_device())
    none = a_slice(a_device("x", reach=THERE), pool="other", reach=per_device())
    assert reported(seen(mixed, none)) == [(DRIVER, POOL, ["far", "near"])]


def test_node_selector_that_makes_no_sense_is_an_error_that_names_the_slice() -> None:
    nonsense = where(Term((requires("region", "Near", "1"),)))
    with pytest.raises(InvalidPool, match=r"slice slice-0: node selector: region: 'Near'"):
        seen(a_slice("x", reach=nonsense))
    with pytest.raises(InvalidPool, match=r"slice slice-0: node selector: region: 'Near'"):
        seen(a_slice(a_device("x", reach=nonsense), reach=per_device()))


def test_node_selector_that_makes_no_sense_is_not_read_where_it_does_not_count() -> None:
    nonsense = where(Term((requires("region", "Near", "1"),)))
    named_too = replace(nonsense, node_name="node-0")
    assert device_names(a_slice("x", reach=named_too)) == ["x"]
    chosen_before = a_slice(a_device("near", reach=HERE), a_device("odd", reach=nonsense), reach=per_device())
    assert device_names(chosen_before) == ["near", "odd"]


# -- generations


def test_newest_generation_counts() -> None:
    old, new = a_slice("old", name="a", generation=1), a_slice("new", name="b", generation=2)
    assert device_names(old, new) == device_names(new, old) == ["new"]


def test_old_generation_of_another_node_does_not_make_the_pool_incomplete() -> None:
    old, new = a_slice("old", name="a", generation=1, reach=THERE), a_slice("new", name="b", generation=2)
    assert [pool.missing for pool in seen(old, new)] == [""]


def test_pool_vanishes_where_what_is_seen_of_it_is_incomplete_and_a_newer_generation_is_elsewhere() -> None:
    old = a_slice("old", name="a", generation=1, slice_count=2)
    new = a_slice("new", name="b", generation=2, reach=THERE)
    assert seen(old, new) == ()


def test_all_beside_a_pool_that_vanished_takes_what_is_left() -> None:
    old = a_slice("old", name="a", generation=1, slice_count=2)
    new = a_slice("new", name="b", generation=2, reach=THERE)
    assert names(decide(a_snapshot(old, new, a_slice("x", pool="other")), a_claim(all_devices()))) == ["x"]


def test_old_generation_that_is_complete_here_is_used_beside_a_newer_one_elsewhere_only_where_strict() -> None:
    old, new = a_slice("old", name="a", generation=1), a_slice("new", name="b", generation=2, reach=THERE)
    assert device_names(old, new) == []
    assert device_names(old, new, features=V1_37.strictly()) == ["old"]


def test_generations_of_two_pools_do_not_mix() -> None:
    one, other = a_slice("one", generation=1), a_slice("other", pool="other", generation=7)
    assert device_names(one, other) == ["other", "one"]


# -- completeness


def test_pool_with_too_few_slices_is_incomplete() -> None:
    (pool,) = seen(a_slice("x", slice_count=2))
    assert pool.missing == "1 of 2 slices of generation 1 exist"
    assert not pool.is_usable


def test_pool_with_too_many_slices_is_incomplete() -> None:
    (pool,) = seen(a_slice("x", name="a"), a_slice("y", name="b"))
    assert pool.missing == "2 of 1 slices of generation 1 exist"


def test_slices_of_other_nodes_complete_a_pool_but_are_not_offered() -> None:
    (pool,) = seen(a_slice("x", name="a", slice_count=2), a_slice("y", name="b", slice_count=2, reach=THERE))
    assert pool.is_usable
    assert [slice_.name for slice_ in pool.slices] == ["a"]
    assert [slice_.name for slice_ in pool.elsewhere] == ["b"]


def test_slices_of_an_older_generation_do_not_complete_a_pool() -> None:
    new = a_slice("x", name="a", generation=2, slice_count=2)
    (pool,) = seen(new, a_slice("y", name="b", generation=1, slice_count=2, reach=THERE))
    assert pool.missing


def test_one_device_is_not_taken_from_an_incomplete_pool() -> None:
    snapshot = a_snapshot(a_slice("x", slice_count=2), a_slice("y", pool="other"))
    assert names(decide(snapshot, a_claim())) == ["y"]
    assert shortage(decide(a_snapshot(a_slice("x", slice_count=2)), a_claim())).total == 0


# -- validity


def test_device_name_in_two_slices_of_the_node_makes_a_pool_invalid() -> None:
    (pool,) = seen(a_slice("x", name="a", slice_count=2), a_slice("y", "x", name="b", slice_count=2))
    assert pool.contradiction == "device name x is published more than once"
    assert not pool.is_usable


def test_device_name_on_two_nodes_does_not_make_a_pool_invalid() -> None:
    slices = a_slice("x", name="a", slice_count=2), a_slice("x", name="b", slice_count=2, reach=THERE)
    assert [pool.is_usable for pool in seen(*slices)] == [True]


def test_device_name_in_two_pools_does_not_make_them_invalid() -> None:
    assert device_names(a_slice("x"), a_slice("x", pool="other")) == ["x", "x"]


def test_incomplete_pool_is_not_searched_for_contradictions() -> None:
    (pool,) = seen(a_slice("x", name="a", slice_count=3), a_slice("x", name="b", slice_count=3))
    assert pool.missing
    assert not pool.contradiction


def test_other_pool_is_used_beside_an_invalid_one() -> None:
    assert names(decide(a_snapshot(a_slice("x", "x"), a_slice("y", pool="other")), a_claim())) == ["y"]


def test_invalid_pool_is_reported_where_nothing_is_found() -> None:
    outcome = decide(a_snapshot(a_slice("x", "x"), a_slice("y", pool="other")), a_claim(a_request(count=2)))
    found = invalid_pools(outcome)
    assert found.pools == ((PoolID(DRIVER, POOL), "device name x is published more than once"),)


def test_incomplete_pool_is_a_plain_refusal() -> None:
    shortage(decide(a_snapshot(a_slice("x", slice_count=2)), a_claim()))


def test_counter_set_published_twice_makes_a_pool_invalid() -> None:
    sets = (a_slice(name=name, slice_count=2, counter_sets=(counters(m="1"),)) for name in "ab")
    (pool,) = seen(*sets)
    assert pool.contradiction == "counter set memory is published more than once"


def test_counter_set_published_twice_makes_a_pool_invalid_where_the_second_is_elsewhere() -> None:
    here = a_slice(name="a", slice_count=2, counter_sets=(counters(m="1"),))
    there = a_slice(name="b", slice_count=2, counter_sets=(counters(m="1"),), reach=THERE)
    (pool,) = seen(here, there)
    assert pool.contradiction


def test_counter_set_of_one_name_in_two_pools_is_fine() -> None:
    one = a_slice(name="a", counter_sets=(counters(m="1"),))
    other = a_slice(name="b", pool="other", counter_sets=(counters(m="1"),))
    assert all(pool.is_usable for pool in seen(one, other))


@pytest.mark.parametrize(
    ("consumes", "words"),
    [
        (consuming("bandwidth", m="1"), "device x consumes counter set bandwidth, which the pool does not publish"),
        (consuming("memory", m="1", n="1"), "device x consumes counter n of counter set memory, which the pool does"),
    ],
)
def test_counter_that_the_pool_does_not_publish_makes_it_invalid(
    consumes: tuple[CounterConsumption, ...], words: str
) -> None:
    sets = a_slice(name="a", slice_count=2, counter_sets=(counters(m="1"),))
    for reach in (HERE, THERE):
        (pool,) = seen(sets, a_slice(a_device("x", consumes_counters=consumes), name="b", slice_count=2, reach=reach))
        assert words in pool.contradiction


def test_counters_that_the_pool_publishes_make_it_valid() -> None:
    sets = a_slice(name="a", slice_count=2, counter_sets=(counters(m="1"),), reach=THERE)
    consumer = a_slice(a_device("x", consumes_counters=consuming("memory", m="1")), name="b", slice_count=2)
    (pool,) = seen(sets, consumer)
    assert pool.is_usable


def test_devices_in_a_slice_with_counter_sets_are_offered_by_the_oldest_release_only() -> None:
    slice_ = a_slice("x", counter_sets=(counters(m="1"),))
    assert shortage(decide(a_snapshot(slice_), a_claim())).total == 0
    oldest = kubernetes("1.34", DRAPartitionableDevices=True)
    assert names(decide(a_snapshot(slice_, features=oldest), a_claim())) == ["x"]


def test_devices_in_a_slice_with_counter_sets_contradict_nothing() -> None:
    sets = a_slice("x", "x", name="a", slice_count=2, counter_sets=(counters(m="1"),))
    assert names(decide(a_snapshot(sets, a_slice("x", name="b", slice_count=2)), a_claim())) == ["x"]


def test_devices_in_a_slice_with_counter_sets_need_no_feature() -> None:
    sets = a_slice("x", name="a", slice_count=2, counter_sets=(counters(m="1"),), skip_node_operations=("*",))
    assert names(decide(a_snapshot(sets, a_slice("y", name="b", slice_count=2)), a_claim())) == ["y"]


def test_counter_slice_of_another_node_belongs_to_the_pools_of_every_node_in_1_36_only() -> None:
    sets = a_slice(name="a", slice_count=2, counter_sets=(counters(m="1"),), reach=THERE)
    assert seen(sets, features=V1_37) == ()
    assert [pool.missing for pool in seen(sets, features=V1_36)] == ["1 of 2 slices of generation 1 exist"]


def test_all_is_stopped_by_the_unfinished_counter_pool_of_another_node_in_1_36_only() -> None:
    sets = a_slice(name="a", slice_count=2, pool="other", counter_sets=(counters(m="1"),), reach=THERE)
    assert names(decide(a_snapshot(sets, a_slice("x")), a_claim(all_devices()))) == ["x"]
    with pytest.raises(InvalidPool, match="being updated"):
        decide(a_snapshot(sets, a_slice("x"), features=V1_36), a_claim(all_devices()))


def test_whole_counter_pools_of_other_nodes_are_not_looked_at_node_by_node() -> None:
    def published(node: str) -> Sequence[Slice]:
        device = a_device("x", consumes_counters=consuming("memory", m="1"))
        sets = a_slice(name="a", slice_count=2, pool=node, counter_sets=(counters(m="1"),), reach=on_node(node))
        return sets, a_slice(device, name="b", slice_count=2, pool=node, reach=on_node(node))

    slices = [slice_ for number in range(20) for slice_ in published(f"node-{number}")]
    assert [pool.id.pool for pool in seen(*slices, node=a_node("node-3"), features=V1_36)] == ["node-3"]
    fleet = Fleet(a_snapshot(*slices, features=V1_36), [a_node(f"node-{number}") for number in range(20)])
    assert fleet.choose([a_claim(all_devices())], fleet.all)
    assert fleet.asked == 1
    fleet.remove_slice(slices[-1])
    with pytest.raises(InvalidPool, match=r"node-19 is being updated \(1 of 2"):
        fleet.choose([a_claim(all_devices())], fleet.all)
    fleet.add_slice(slices[-1])
    assert fleet.choose([a_claim(all_devices())], fleet.all)


def test_slice_of_devices_and_counters_that_is_published_again_is_seen_with_what_is_in_use_of_it() -> None:
    """As 1.34 has them, one slice offers both; an equal one that takes its place is another one."""
    device = a_device("x", consumes_counters=consuming("memory", m="1"))
    slice_ = a_slice(device, counter_sets=(counters(m="1"),), reach=HERE)
    fleet = Fleet(
        a_snapshot(slice_, features=Features.of("1.34", {"DRAPartitionableDevices": True})), [a_node("node-0")]
    )
    assert fleet.able([a_claim()])
    again = replace(slice_)
    fleet.remove_slice(slice_)
    fleet.add_slice(again)
    assert fleet.able([a_claim()])
    fleet.add_allocated([an_allocated_claim("x")])
    assert not fleet.able([a_claim()])


# -- gates


def test_slices_of_partitionable_devices_are_not_looked_at_without_their_gate() -> None:
    off = kubernetes(DRAPartitionableDevices=False)
    choosing = a_slice(a_device("x", reach=HERE), reach=per_device())
    assert seen(choosing, a_slice(pool="other", counter_sets=(counters(m="1"),)), features=off) == ()


def test_pool_lacks_its_counter_slice_without_the_gate() -> None:
    sets = a_slice(name="a", slice_count=2, counter_sets=(counters(m="1"),))
    (pool,) = seen(sets, a_slice("x", name="b", slice_count=2), features=kubernetes(DRAPartitionableDevices=False))
    assert pool.is_usable
    assert [slice_.name for slice_ in pool.elsewhere] == ["a"]


def test_counters_contradict_nothing_without_the_gate() -> None:
    consumer = a_slice(a_device("x", consumes_counters=consuming("memory", m="1")))
    assert [pool.is_usable for pool in seen(consumer, features=kubernetes(DRAPartitionableDevices=False))] == [True]
    assert [pool.is_usable for pool in seen(consumer)] == [False]


def grouped_pool() -> list[Slice]:
    grouped = a_device("grouped", consumes_counters=(CounterConsumption("memory", {}, ("a",)),))
    sets = a_slice(name="sets", slice_count=2, counter_sets=(counters(m="1"),))
    return [a_slice("plain", grouped, name="devices", slice_count=2), sets]


def test_slice_with_compatibility_groups_is_missing_from_its_pool_without_the_gate() -> None:
    (pool,) = seen(*grouped_pool())
    assert pool.missing == "1 of 2 slices of generation 1 exist"
    assert not seen(*grouped_pool(), features=kubernetes(DRADeviceCompatibilityGroups=True))[0].missing


def test_nothing_of_a_pool_with_compatibility_groups_is_had_without_the_gate() -> None:
    assert shortage(decide(a_snapshot(*grouped_pool()), a_claim())).total == 0
    with pytest.raises(InvalidPool, match="being updated"):
        decide(a_snapshot(*grouped_pool()), a_claim(all_devices()))


# -- order


def test_pools_are_in_order_of_driver_then_pool() -> None:
    slices = [a_slice("x", driver=d, pool=p) for d in ("b.example", "a.example") for p in ("2", "10", "1")]
    ids = [(pool.id.driver, pool.id.pool) for pool in seen(*slices)]
    assert ids == [(driver, pool) for driver in ("a.example", "b.example") for pool in ("1", "10", "2")]


def test_pools_of_one_name_belong_to_their_drivers() -> None:
    slices = a_slice("x", driver="b.example", slice_count=2), a_slice("y", driver="a.example")
    assert [(pool.id.driver, pool.is_usable) for pool in seen(*slices)] == [("a.example", True), ("b.example", False)]


def test_slices_of_a_pool_are_in_order_of_their_names_and_devices_as_they_are_listed() -> None:
    later, sooner = a_slice("c", "d", name="z", slice_count=2), a_slice("b", "a", name="y", slice_count=2)
    assert device_names(later, sooner) == device_names(sooner, later) == ["b", "a", "c", "d"]


def test_slices_elsewhere_are_in_order_of_their_names() -> None:
    away = [a_slice(name, name=name, slice_count=4, reach=THERE) for name in "cab"]
    (pool,) = seen(*away, a_slice("x", name="x", slice_count=4))
    assert [slice_.name for slice_ in pool.elsewhere] == ["a", "b", "c"]


def test_pools_with_binding_conditions_go_last_in_the_same_order() -> None:
    waiting = a_device("w", binding_conditions=("ready",), binding_failure_conditions=("failed",))
    slices = [a_slice(waiting, pool="a"), a_slice("x", pool="d"), a_slice(waiting, pool="b"), a_slice("y", pool="c")]
    assert [pool.id.pool for pool in seen(*slices)] == ["c", "d", "a", "b"]


def test_binding_conditions_of_a_slice_on_another_node_do_not_move_a_pool() -> None:
    waiting = a_device("w", binding_conditions=("ready",))
    first = a_slice("x", name="x", pool="a", slice_count=2), a_slice(waiting, pool="a", slice_count=2, reach=THERE)
    assert [pool.id.pool for pool in seen(*first, a_slice("y", pool="b"))] == ["a", "b"]


@pytest.mark.parametrize("release", ["1.36", "1.37", "1.38"])
@pytest.mark.parametrize("slice_count", [1, 2], ids=["invalid", "being updated"])
def test_binding_conditions_do_not_move_a_pool_that_offers_no_device(release: str, slice_count: int) -> None:
    waiting = a_device("w", binding_conditions=("ready",))
    first = a_slice(waiting, waiting, pool="a", slice_count=slice_count)
    assert [pool.id.pool for pool in seen(first, a_slice("y", pool="b"), features=Features.of(release))] == ["a", "b"]


def test_device_with_binding_conditions_keeps_its_place_inside_its_pool() -> None:
    waiting = a_device("w", binding_conditions=("ready",))
    assert device_names(a_slice(waiting, "x")) == ["w", "x"]


def test_binding_conditions_move_a_pool_without_their_gate_too() -> None:
    waiting = a_device("w", binding_conditions=("ready",))
    slices = a_slice("x", waiting, pool="a"), a_slice("y", pool="b")
    for is_on in (True, False):
        snapshot = a_snapshot(*slices, features=kubernetes(DRADeviceBindingConditions=is_on))
        assert names(decide(snapshot, a_claim())) == ["y"]


def test_of_slices_that_disagree_about_their_number_the_first_by_name_counts_those_of_one_node_first() -> None:
    one, two = a_slice("x", name="b", slice_count=2), a_slice("y", name="a")
    for slices in permutations((one, two)):
        assert [pool.missing for pool in seen(*slices)] == ["2 of 1 slices of generation 1 exist"]
    wide = replace(two, reach=everywhere())
    for slices in permutations((wide, one)):
        assert [pool.missing for pool in seen(*slices)] == [""]


@pytest.mark.parametrize("is_strict", [False, True])
def test_order_in_which_slices_are_seen_makes_no_difference_whatever_they_say(is_strict: bool) -> None:  # noqa: FBT001
    """Of four slices, each says another number, and some are of another generation or for all nodes."""
    features, node = kubernetes(is_strict=is_strict), a_node()
    for counts in product((1, 2, 3), repeat=3):
        for generation, reach in product((1, 2), (HERE, everywhere(), THERE)):
            slices = [
                a_slice(f"d{n}", name=name, slice_count=c)
                for n, (name, c) in enumerate(zip("cab", counts, strict=True))
            ]
            slices.append(a_slice("d", name="d", slice_count=2, generation=generation, reach=reach))
            answers = {
                str([(pool.missing, reported([pool])) for pool in seen(*order, node=node, features=features)])
                for order in permutations(slices)
            }
            assert len(answers) == 1, (counts, generation, reach)


def test_slice_that_says_itself_who_reaches_it_may_leave_it_to_its_devices_too() -> None:
    both = replace(everywhere(), per_device=True)
    slice_ = a_slice(a_device("x", reach=HERE), a_device("y", reach=THERE), a_device("z"), reach=both)
    assert names(decide(a_snapshot(slice_), a_claim(all_devices()))) == ["x"]
    assert refusal(decide(a_snapshot(slice_, features=kubernetes(DRAPartitionableDevices=False)), a_claim()))
    elsewhere = a_slice(a_device("x", reach=HERE), reach=replace(THERE, per_device=True))
    assert refusal(decide(a_snapshot(elsewhere), a_claim()))


# -- pools over several nodes


def test_all_takes_the_devices_of_the_node_from_a_pool_over_several_nodes() -> None:
    slices = a_slice("x", name="a", slice_count=2), a_slice("y", name="b", slice_count=2, reach=THERE)
    assert names(decide(a_snapshot(*slices), a_claim(all_devices()))) == ["x"]
    assert names(decide(a_snapshot(*slices), a_claim(all_devices()), node=a_node("node-1"))) == ["y"]


def test_without_a_node_only_devices_for_all_nodes_are_seen() -> None:
    slices = a_slice("x"), a_slice("y", pool="other", reach=everywhere())
    view = a_snapshot(*slices).view(None)
    assert [device.name for device in view.devices] == ["y"]
    assert refusal(decide(a_snapshot(slices[0]), a_claim(), node=a_node("node-2")))


def test_node_without_a_name_has_no_labels_and_its_fields_are_not_asked_for() -> None:
    slices = (
        a_slice("a", pool="a"),
        a_slice("b", pool="b", reach=where(a_term(requires("zone", "DoesNotExist")))),
        a_slice("c", pool="c", reach=where(Term(fields=(requires("metadata.name", "In", "node-0"),)))),
    )
    assert [device.name for device in a_snapshot(*slices).view(a_node("")).devices] == ["b", "c"]


# -- pools that several nodes reach


def test_pool_that_all_nodes_reach_is_looked_at_once_until_it_changes() -> None:
    shared = a_slice("a", "a", name="shared", pool="shared", reach=everywhere())
    index = SliceIndex(V1_37.release, [shared, a_slice("b", pool="own", reach=HERE)])
    here, there = (index.pools(a_node(name), V1_37) for name in ("node-0", "node-1"))
    assert [pool.id.pool for pool in here] == ["own", "shared"]
    assert there == (here[1],)
    assert there[0] is here[1]
    assert here[1].contradiction == "device name a is published more than once"
    index.remove(shared)
    index.add(a_slice("a", name="shared", pool="shared", generation=2, reach=everywhere()))
    assert [pool.contradiction for pool in index.pools(a_node("node-1"), V1_37)] == [""]
    index.add(a_slice("c", name="there", pool="shared", generation=3, reach=THERE))
    assert index.pools(a_node("node-1"), V1_37)[0].slices[0].name == "there"
    assert [pool.id.pool for pool in index.pools(a_node("node-0"), V1_37)] == ["own"], "a newer generation is elsewhere"
    assert index.copy().pools(a_node("node-1"), V1_37) == index.pools(a_node("node-1"), V1_37)


def test_nothing_is_kept_of_pools_that_are_gone() -> None:
    index = SliceIndex(V1_37.release)
    for number in range(3):
        index.add(gone := a_slice("a", pool=f"pool-{number}", reach=everywhere()))
        index.pools(a_node(), V1_37)
        index.remove(gone)
    assert index._whole == {}


@pytest.mark.parametrize("features", [V1_36, V1_37], ids=["1.36", "1.37"])
def test_what_one_node_sees_of_a_pool_is_not_what_another_sees_of_it_that_reaches_less(features: Features) -> None:
    slices = [
        a_slice("a", name="one", slice_count=2, reach=everywhere()),
        a_slice("b", name="two", slice_count=2, reach=where(a_term(requires("region", "In", "1")))),
    ]
    index = SliceIndex(features.release, slices)
    nodes = [a_node(f"node-{number}", labels={"region": str(number % 2)}) for number in range(4)]
    for node in [*nodes, *reversed(nodes)]:
        assert reported(index.pools(node, features)) == reported(seen(*slices, node=node, features=features))
