from allocator.cluster.snapshot import Snapshot
from allocator.model import Claim, CounterConsumption, CounterSet, Device, Taint
from allocator.outcome import Outcome, Refused
from cel.values.quantity import Quantity
from tests.builders import (
    a_claim,
    a_device,
    a_request,
    a_result,
    a_slice,
    a_snapshot,
    an_allocated_claim,
    an_alternative,
    everywhere,
    first_available,
    kubernetes,
    on_node,
)
from tests.unit.allocator.answers import decide, funnel, names, shortage

ON = kubernetes(DRADeviceCompatibilityGroups=True)
INCOMPATIBLE = "are incompatible with what is allocated of their counter set"


def grouped(name: str, *groups: str, counter_set: str = "set-0", amount: str = "1") -> Device:
    consumes = CounterConsumption(counter_set, {"m": Quantity.parse(amount)}, groups)
    return a_device(name, consumes_counters=(consumes,))


def cluster(*members: Device, held: tuple[Claim, ...] = (), memory: str = "8") -> Snapshot:
    sets = tuple(CounterSet(f"set-{n}", {"m": Quantity.parse(memory)}) for n in range(2))
    slices = (
        a_slice(name="sets", slice_count=2, counter_sets=sets),
        a_slice(*members, name="devices", slice_count=2),
    )
    return a_snapshot(*slices, held=held, features=ON)


def for_two(snapshot: Snapshot) -> Outcome:
    return decide(snapshot, a_claim(a_request(count=2)))


def test_devices_with_a_common_group_go_together() -> None:
    assert names(for_two(cluster(grouped("x", "a", "b"), grouped("y", "b", "c")))) == ["x", "y"]


def test_devices_without_a_common_group_do_not() -> None:
    assert names(for_two(cluster(grouped("x", "a"), grouped("y", "b"), grouped("z", "a")))) == ["x", "z"]
    assert isinstance(for_two(cluster(grouped("x", "a"), grouped("y", "b"))), Refused)


def test_all_devices_need_one_common_group() -> None:
    chain = grouped("x", "a", "b"), grouped("y", "b", "c"), grouped("z", "c", "a")
    assert isinstance(decide(cluster(*chain), a_claim(a_request(count=3))), Refused)
    assert names(decide(cluster(*chain, grouped("w", "b")), a_claim(a_request(count=3)))) == ["x", "y", "w"]


def test_count_that_nobody_can_have_is_no_work_for_the_other_alternatives() -> None:
    either = first_available("r", an_alternative("many", count=2**62), an_alternative("two", count=2))
    outcome = decide(cluster(grouped("x", "a"), grouped("y", "b")), a_claim(either, a_request("other")))
    assert isinstance(outcome, Refused)
    assert outcome.steps < 1_000


def test_device_without_groups_goes_with_its_like_only() -> None:
    assert names(for_two(cluster(grouped("x"), grouped("y", "a"), grouped("z")))) == ["x", "z"]
    assert names(for_two(cluster(grouped("y", "a"), grouped("x"), grouped("z", "a")))) == ["y", "z"]


def test_groups_are_of_each_counter_set() -> None:
    assert names(for_two(cluster(grouped("x", "a"), grouped("y", "b", counter_set="set-1")))) == ["x", "y"]


def test_device_has_to_go_with_all_of_its_counter_sets() -> None:
    amounts = {"m": Quantity.parse("1")}
    both = (CounterConsumption("set-0", amounts, ("a",)), CounterConsumption("set-1", amounts, ("b",)))
    spanning = a_device("both", consumes_counters=both)
    other = grouped("other", "c", counter_set="set-1")
    assert isinstance(for_two(cluster(spanning, other)), Refused)
    assert names(for_two(cluster(spanning, other, grouped("fits", "b", counter_set="set-1")))) == ["both", "fits"]


def test_devices_without_counters_are_not_concerned() -> None:
    assert names(for_two(cluster(grouped("x", "a"), a_device("plain")))) == ["x", "plain"]


def test_groups_hold_over_claims() -> None:
    snapshot = cluster(grouped("x", "a"), grouped("y", "b"), grouped("z", "a"))
    assert names(decide(snapshot, a_claim(name="one"), a_claim(name="two"))) == ["x", "z"]


def test_allocated_devices_have_their_groups() -> None:
    held = (an_allocated_claim("x"),)
    snapshot = cluster(grouped("x", "a"), grouped("y", "b"), grouped("z", "a", "b"), held=held)
    assert names(decide(snapshot, a_claim())) == ["z"]
    found = shortage(for_two(snapshot))
    assert (INCOMPATIBLE, ["y"]) in funnel(found)


def test_allocated_devices_of_other_nodes_have_their_groups_too() -> None:
    eight = CounterSet("set-0", {"m": Quantity.parse("8")})
    slices = (
        a_slice(name="sets", slice_count=3, counter_sets=(eight,), reach=everywhere()),
        a_slice(grouped("there", "a"), name="there", slice_count=3, reach=on_node("node-1")),
        a_slice(grouped("x", "b"), grouped("y", "a"), name="here", slice_count=3),
    )
    snapshot = a_snapshot(*slices, held=[an_allocated_claim("there")], features=ON)
    assert names(decide(snapshot, a_claim())) == ["y"]


def test_device_held_by_admin_access_excludes_nobody() -> None:
    held = (an_allocated_claim(a_result("x", admin_access=True)),)
    snapshot = cluster(grouped("x", "a"), grouped("y", "b"), held=held)
    assert names(decide(snapshot, a_claim(a_request("r", 1, 'device.driver == "gpu.example"')))) == ["x"]


def test_device_that_is_refused_for_something_else_leaves_no_groups_behind() -> None:
    tainted = a_device(
        "x",
        consumes_counters=grouped("x", "a").consumes_counters,
        taints=(Taint("k", effect="NoSchedule"),),
    )
    assert names(for_two(cluster(tainted, grouped("y", "b"), grouped("z", "b")))) == ["y", "z"]
    greedy = grouped("x", "a", amount="9")
    assert names(for_two(cluster(greedy, grouped("y", "b"), grouped("z", "b")))) == ["y", "z"]


def test_groups_and_counters_hold_together() -> None:
    members = grouped("x", "a", amount="2"), grouped("y", "a", amount="2"), grouped("z", "a")
    assert names(for_two(cluster(*members, memory="3"))) == ["x", "z"]


def test_further_share_of_a_device_goes_with_the_first() -> None:
    shared = a_device("x", consumes_counters=grouped("x", "a").consumes_counters, allow_multiple_allocations=True)
    claims = [a_claim(name=name) for name in ("one", "two")]
    assert names(decide(cluster(shared, grouped("y", "b")), *claims)) == ["x", "x"]


def test_device_that_draws_on_a_counter_set_twice_needs_a_group_in_common_with_itself() -> None:
    def twice(name: str, *groups: str) -> Device:
        (first,), (second,) = grouped(name, "a").consumes_counters, grouped(name, *groups).consumes_counters
        return a_device(name, consumes_counters=(first, second))

    assert names(decide(cluster(twice("x", "b"), twice("y"), twice("z", "a", "b")), a_claim())) == ["z"]


def test_pool_with_groups_is_not_used_at_all_without_the_gate() -> None:
    sets = a_slice(name="sets", slice_count=2, counter_sets=(CounterSet("set-0", {"m": Quantity.parse("8")}),))
    with_groups = a_slice(grouped("x", "a"), grouped("y"), name="devices", slice_count=2)
    without = a_slice(grouped("x"), grouped("y"), name="devices", slice_count=2)
    assert shortage(decide(a_snapshot(sets, with_groups), a_claim())).total == 0
    assert names(decide(a_snapshot(sets, without), a_claim())) == ["x"]
