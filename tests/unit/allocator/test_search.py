"""How much the search tries. Each case has an upper bound on its steps that a cliff would pass by far."""

import gc
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from allocator.allocate import allocate, share_id_of
from allocator.candidates import problem_of
from allocator.features.contract import attempt_of
from allocator.model import Claim, CounterConsumption, CounterSet, Device, Request, RequestPolicy, Slice
from allocator.outcome import Allocated, Exhausted, InvalidClaim, Outcome, Refused
from cel import Cancelled
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    a_claim,
    a_device,
    a_node,
    a_request,
    a_slice,
    a_snapshot,
    all_devices,
    an_allocated_claim,
    an_alternative,
    devices,
    distinct,
    first_available,
    kubernetes,
    match,
    strings,
)
from tests.unit.allocator.answers import by_request, decide, names

NUMA = f"{DRIVER}/numa"
ROOT = f"{DRIVER}/root"


def tried(outcome: Outcome, at_most: int) -> Outcome:
    """The outcome, reached within so many steps."""
    assert outcome.steps <= at_most, outcome
    return outcome


def refused(outcome: Outcome, at_most: int) -> None:
    assert isinstance(tried(outcome, at_most), Refused), outcome


def allocated(outcome: Outcome, at_most: int) -> list[str]:
    assert isinstance(tried(outcome, at_most), Allocated), outcome
    return names(outcome)


def claims(number: int, make: Callable[[int], Claim]) -> Iterable[Claim]:
    return [make(index) for index in range(number)]


# -- equal devices


def test_answer_that_comes_first_takes_a_step_for_each_device_and_each_request() -> None:
    assert len(allocated(decide(a_snapshot(a_slice(*devices(64))), a_claim(a_request(count=30))), 31)) == 30


@pytest.mark.parametrize("number", [5, 20, 31])
def test_one_device_more_than_there_are_is_refused_at_once(number: int) -> None:
    refused(decide(a_snapshot(a_slice(*devices(number))), a_claim(a_request(count=number + 1))), 3)


def test_one_device_more_than_there_are_over_two_requests_is_refused_at_once() -> None:
    refused(decide(a_snapshot(a_slice(*devices(20))), a_claim(a_request("a", 11), a_request("b", 10))), 60)


def test_three_requests_for_8_on_23_equal_devices_are_refused_at_once() -> None:
    requests = [a_request(f"r{n}", 8) for n in range(3)]
    refused(decide(a_snapshot(a_slice(*devices(23))), a_claim(*requests)), 60)
    refused(decide(a_snapshot(a_slice(*devices(23))), *(a_claim(one, name=one.name) for one in requests)), 60)


def test_ten_claims_for_2_on_19_equal_devices_are_refused_at_once() -> None:
    wanted = claims(10, lambda n: a_claim(a_request(count=2), name=f"claim-{n}"))
    refused(decide(a_snapshot(a_slice(*devices(19))), *wanted), 60)


def test_equal_devices_in_two_kinds_are_distinguished_but_once() -> None:
    members = [a_device(f"d{n:02}", {"big": n % 2 == 0}) for n in range(40)]
    big = 'device.attributes["gpu.example"].big'
    claim = a_claim(a_request("any", 20), a_request("big", 12, big))
    assert len(allocated(decide(a_snapshot(a_slice(*members)), claim), 400)) == 32
    refused(decide(a_snapshot(a_slice(*members[:30])), a_claim(a_request("any", 19), a_request("big", 12, big))), 400)


# -- constraints


def numa_groups(groups: int, size: int) -> Slice:
    return a_slice(*(a_device(f"g{n:02}-{k}", {"numa": n}) for n in range(groups) for k in range(size)))


def last_of(groups: Iterable[int], size: int) -> Claim:
    """A claim that holds the last device of these groups."""
    return an_allocated_claim(*(f"g{n:02}-{size - 1}" for n in groups))


def test_8_of_one_numa_group_are_found_past_groups_with_7_free() -> None:
    snapshot = a_snapshot(numa_groups(16, 8), held=[last_of(range(15), 8)])
    claim = a_claim(a_request(count=8), constraints=[match(NUMA)])
    assert allocated(decide(snapshot, claim), 150) == [f"g15-{k}" for k in range(8)]


def test_a_search_that_takes_picks_back_leaves_nothing_that_waits_for_the_garbage_collector() -> None:
    """With each pod it would find the search, its rules and what was in use."""
    snapshot = a_snapshot(numa_groups(16, 8), held=[last_of(range(15), 8)])
    claim = a_claim(a_request(count=8), constraints=[match(NUMA)])
    gc.collect()
    gc.disable()
    try:
        assert isinstance(decide(snapshot, claim), Allocated)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_8_of_one_numa_group_are_refused_where_all_groups_have_7_free() -> None:
    snapshot = a_snapshot(numa_groups(16, 8), held=[last_of(range(16), 8)])
    refused(decide(snapshot, a_claim(a_request(count=8), constraints=[match(NUMA)])), 10)


def test_two_requests_for_a_numa_group_each_are_refused_where_one_group_is_whole() -> None:
    snapshot = a_snapshot(numa_groups(16, 8), held=[last_of(range(15), 8)])
    claim = a_claim(a_request("a", 8), a_request("b", 8), constraints=[match(NUMA, "a"), match(NUMA, "b")])
    refused(decide(snapshot, claim), 300)


def of_types(last: Callable[[int], int]) -> Slice:
    """64 devices of each of five types with one value of `root` each, those of the last type as told."""
    members = [
        a_device(f"{kind}{n:02}", {"type": kind, "root": n if kind != "e" else last(n)})
        for kind in "abcde"
        for n in range(64)
    ]
    return a_slice(*members)


ONE_OF_EACH = a_claim(
    *(a_request(kind, 1, f'device.attributes["gpu.example"].type == "{kind}"') for kind in "abcde"),
    constraints=[match(ROOT)],
)


def test_five_requests_under_one_attribute_are_refused_where_the_last_type_never_matches() -> None:
    refused(decide(a_snapshot(of_types(lambda n: 100 + n)), ONE_OF_EACH), 100)


def test_five_requests_under_one_attribute_find_the_only_value_that_all_types_have() -> None:
    found = allocated(decide(a_snapshot(of_types(lambda _: 63)), ONE_OF_EACH), 800)
    assert found == ["a63", "b63", "c63", "d63", "e00"]


def test_more_distinct_values_than_there_are_is_refused_at_once() -> None:
    members = [a_device(f"d{n:02}", {"numa": n % 12}) for n in range(48)]
    refused(decide(a_snapshot(a_slice(*members)), a_claim(a_request(count=13), constraints=[distinct(NUMA)])), 20)


def test_more_distinct_values_than_there_are_over_three_requests_is_refused_soon() -> None:
    members = [a_device(f"d{n:02}", {"numa": n % 14}) for n in range(56)]
    claim = a_claim(*(a_request(f"r{n}", 5) for n in range(3)), constraints=[distinct(NUMA)])
    refused(decide(a_snapshot(a_slice(*members)), claim, budget_steps=3000), 2000)


def test_claim_that_a_later_one_makes_impossible_is_not_tried_with_every_twin() -> None:
    """The later claim fails whatever the first takes, but on states that are not all the same."""
    members = [a_device(f"d{n:02}", {"numa": n % 3}) for n in range(24)]
    first = a_claim(*(a_request(f"r{n}", 5) for n in range(4)), constraints=[match(NUMA, f"r{n}") for n in range(4)])
    refused(decide(a_snapshot(a_slice(*members)), first), 400)


def test_device_that_no_selector_can_judge_costs_no_more_than_others() -> None:
    members = [a_device(f"d{n:02}", {"numa": n, "ok": True}) for n in range(24)]
    snapshot = a_snapshot(a_slice(*members, "odd"))
    claim = a_claim(a_request("r", 25, 'device.attributes["gpu.example"].ok'), constraints=[distinct(NUMA)])
    refused(decide(snapshot, claim), 100)


def test_all_with_a_constraint_beside_a_large_request_costs_no_more_than_others() -> None:
    members = [a_device(f"d{n:02}", {"numa": n, "big": False}) for n in range(24)]
    snapshot = a_snapshot(a_slice(*members, a_device("big", {"numa": 99, "big": True})))
    small, big = ('!device.attributes["gpu.example"].big', 'device.attributes["gpu.example"].big')
    claim = a_claim(all_devices("all", big), a_request("r", 25, small), constraints=[distinct(NUMA)])
    refused(decide(snapshot, claim), 100)


# -- counters and shares


def partitions(gpus: int, each: int, memory: int) -> tuple[Slice, Slice]:
    """GPUs with so many partitions, of which memory allows fewer."""
    sets = (CounterSet(f"gpu-{g}", {"memory": Quantity.parse(str(memory))}) for g in range(gpus))
    members = [
        a_device(f"p{g}-{n:02}", consumes_counters=(CounterConsumption(f"gpu-{g}", {"memory": Quantity.parse("1")}),))
        for g in range(gpus)
        for n in range(each)
    ]
    return a_slice(*members, name="a", slice_count=2), a_slice(name="b", slice_count=2, counter_sets=tuple(sets))


def test_57_partitions_of_56_are_refused_at_once() -> None:
    wanted = a_claim(a_request(count=29), name="a"), a_claim(a_request(count=28), name="b")
    refused(decide(a_snapshot(*partitions(8, 14, 7)), *wanted), 200)


def test_56_partitions_of_56_are_found() -> None:
    wanted = a_claim(a_request(count=28), name="a"), a_claim(a_request(count=28), name="b")
    assert len(allocated(decide(a_snapshot(*partitions(8, 14, 7)), *wanted), 200)) == 56


def shared(number: int) -> Slice:
    """Devices with 10 of a capacity."""
    policies = {"slots": RequestPolicy(default=Quantity.parse("1"))}
    members = [
        a_device(f"d{n:02}", capacity={"slots": "10"}, allow_multiple_allocations=True, policies=policies)
        for n in range(number)
    ]
    return a_slice(*members)


def shares(number: int, amount: str) -> Iterable[Claim]:
    wanted = a_request(capacity={"slots": Quantity.parse(amount)})
    return claims(number, lambda n: a_claim(wanted, name=f"claim-{n}"))


def test_share_more_than_one_device_has_room_for_is_refused_soon() -> None:
    refused(decide(a_snapshot(shared(1)), *shares(11, "1")), 100)
    assert len(allocated(decide(a_snapshot(shared(1)), *shares(10, "1")), 50)) == 10


def test_share_more_than_twelve_devices_have_room_for_is_refused_soon() -> None:
    refused(decide(a_snapshot(shared(12)), *shares(25, "4"), budget_steps=4000), 3000)


def test_shares_of_two_sizes_that_do_not_go_together_are_refused_soon() -> None:
    small = [replace(claim, name=f"small-{claim.name}") for claim in shares(11, "4")]
    refused(decide(a_snapshot(shared(12)), *small, *shares(13, "6"), budget_steps=6000), 4500)


# -- a few of the requests that have no answer by themselves


def unequal(number: int) -> list[Device]:
    """Shared devices of which no two are alike."""
    policies = {"slots": RequestPolicy(default=Quantity.parse("1"))}
    return [
        a_device(f"d{n:02}", capacity={"slots": f"{100 + n}"}, allow_multiple_allocations=True, policies=policies)
        for n in range(number)
    ]


def before(*others: Request, **more: Any) -> list[Claim]:
    """A claim for shares of many of the devices, and behind it one for these."""
    return [a_claim(*(a_request(f"r{n}", 3) for n in range(3)), name="first"), a_claim(*others, name="second", **more)]


def test_all_beside_a_device_in_use_is_refused_before_an_earlier_claim_is_tried() -> None:
    snapshot = a_snapshot(a_slice(*unequal(10)), held=[an_allocated_claim("d07")])
    refused(decide(snapshot, *before(all_devices()), budget_steps=3000), 1)


def test_constraint_that_one_request_cannot_meet_is_refused_before_an_earlier_claim_is_tried() -> None:
    members = [replace(device, attributes={"numa": ("int", n)}) for n, device in enumerate(unequal(10))]
    wanted = before(a_request(count=2), constraints=[match("numa")])
    refused(decide(a_snapshot(a_slice(*members)), *wanted, budget_steps=3000), 1)


def test_alternative_that_cannot_be_had_does_not_hide_that_the_other_one_cannot_either() -> None:
    """Both are refused at once by themselves, and would be enough in number together."""
    snapshot = a_snapshot(a_slice(*unequal(10)), held=[an_allocated_claim("d07")])
    wanted = before(first_available("r", all_devices("all").alternatives[0], an_alternative("many", count=10)))
    refused(decide(snapshot, *wanted, budget_steps=3000), 1)


def two_by_two(groups: int) -> list[Device]:
    """Groups of four devices each, in which two values of `root` occur twice; no other group has them."""
    return [
        replace(device, attributes={f"{DRIVER}/numa": ("int", n // 4), ROOT: ("int", n // 2)})
        for n, device in enumerate(unequal(4 * groups))
    ]


@pytest.mark.parametrize("others", [[], [a_request("more")]], ids=["request", "claim"])
def test_request_that_no_choice_satisfies_is_found_behind_an_earlier_claim(others: list[Request]) -> None:
    """Each of the two constraints could be met, both together could not, which only a search shows."""
    constraints = [match(NUMA, "three"), distinct(ROOT, "three")]
    wanted = before(a_request("three", 3), *others, constraints=constraints)
    refused(decide(a_snapshot(a_slice(*two_by_two(3))), *wanted, budget_steps=20_000), 1_200)


def test_requests_that_do_not_go_together_are_found_behind_an_earlier_claim() -> None:
    members = two_by_two(3)
    pair = [a_request("two", 2), a_request("one", 1)]
    constraints = [match(NUMA, "two", "one"), distinct(ROOT, "two", "one")]
    refused(decide(a_snapshot(a_slice(*members)), *before(*pair, constraints=constraints), budget_steps=20_000), 1_300)


def test_long_search_ends_with_its_first_answer_also_where_no_request_fails_by_itself() -> None:
    members = [a_device(f"d{n:02}", {"numa": n % 3}) for n in range(24)]
    snapshot = a_snapshot(a_slice(*members), held=[an_allocated_claim(*(f"d{n:02}" for n in range(0, 24, 7)))])
    claim = a_claim(*(a_request(f"r{n}", 3) for n in range(6)), constraints=[match(NUMA, f"r{n}") for n in range(6)])
    whole = decide(snapshot, claim)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("allocator.search.backtracking.FIRST_TRY_STEPS", 2)
        impatient = decide(snapshot, claim)
    assert impatient.steps > whole.steps
    assert names(impatient) == names(whole)


def for_the_last(*others: Request, **more: Any) -> Claim:
    """A claim of which a device is left to the last request only if none of the others has taken it."""
    number = a_request("number", 1, f'device.attributes["{DRIVER}"].id >= 0')
    last = a_request("last", 1, f'has(device.attributes["{DRIVER}"].last)')
    return a_claim(*others, number, last, **more)


@pytest.mark.parametrize("limit_steps", [*range(1, 13), 1000])
def test_device_that_ends_the_attempt_ends_it_however_soon_the_search_begins_anew(
    limit_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After d0, which the last request needs, every other one is tried for the number, as by kube-scheduler."""
    members = [
        a_device("d0", {"id": 0, "first": True, "last": True}),
        a_device("d1", {"id": 1, "first": True}),
        a_device("d2", {"id": 2}),
        a_device("d3"),
    ]
    claim = for_the_last(a_request("first", 1, f'has(device.attributes["{DRIVER}"].first)'))
    monkeypatch.setattr("allocator.search.backtracking.FIRST_TRY_STEPS", limit_steps)
    with pytest.raises(InvalidClaim, match=r"request number: selector #0 on device .*/d3: .* no such key: id"):
        decide(a_snapshot(a_slice(*members)), claim)


def test_device_that_ends_the_attempt_is_not_met_where_a_bound_shows_that_the_picks_have_no_answer() -> None:
    """Where strict it is, as by kube-scheduler, which tries d5 beside d1 and d2, though the last request needs d1."""
    members = [a_device(f"d{n}", {"id": n, "numa": (n + 1) // 2}) for n in (0, 2, 3, 4)]
    members.insert(1, a_device("d1", {"id": 1, "numa": 1, "last": True}))
    snapshot = a_snapshot(a_slice(*members, a_device("d5", {"numa": 3})))
    claim = for_the_last(a_request("pair", 2), constraints=[match(NUMA, "pair")])
    assert names(decide(snapshot, claim)) == ["d3", "d4", "d0", "d1"]
    with pytest.raises(InvalidClaim, match=r"request number: selector #0 on device .*/d5: .* no such key: id"):
        decide(replace(snapshot, features=snapshot.features.strictly()), claim)


# -- alternatives


def test_alternative_beyond_the_limit_of_a_claim_is_passed_over_without_a_device() -> None:
    request = first_available("r", an_alternative("huge", count=500), an_alternative("small", count=8))
    claim = a_claim(request)
    assert len(allocated(decide(a_snapshot(a_slice(*devices(600))), claim), 12)) == 8


def test_alternatives_beyond_the_limit_together_give_way_one_after_the_other() -> None:
    requests = [
        first_available(name, an_alternative("32", count=32), an_alternative("16", count=16)) for name in ("a", "b")
    ]
    outcome = decide(a_snapshot(a_slice(*devices(64))), a_claim(*requests))
    allocated(outcome, 200)
    assert {name: len(given) for name, given in by_request(outcome).items()} == {"a/16": 16, "b/16": 16}


def test_alternative_that_leaves_too_few_to_a_later_request_gives_way_at_once_where_every_choice_counts() -> None:
    members = [*devices(39, {"ok": True}), a_device("odd")]
    snapshot = a_snapshot(a_slice(*members), features=kubernetes(is_strict=True))
    first = (
        an_alternative("20", count=20, selectors=('device.attributes["gpu.example"].ok',)),
        an_alternative("2", count=2),
    )
    outcome = decide(snapshot, a_claim(first_available("a", *first), a_request("b", 20)), budget_steps=100)
    assert len(names(outcome)) == 22


def test_alternative_gives_way_at_once_also_where_its_claim_is_not_the_first() -> None:
    members = [*devices(40, {"ok": True}), a_device("odd")]
    snapshot = a_snapshot(a_slice(*members), features=kubernetes(is_strict=True))
    first = (
        an_alternative("20", count=20, selectors=('device.attributes["gpu.example"].ok',)),
        an_alternative("2", count=2),
    )
    before = a_claim(a_request("one"), name="before")
    outcome = decide(snapshot, before, a_claim(first_available("a", *first), a_request("b", 20)), budget_steps=150)
    assert len(names(outcome)) == 23


def test_order_counts_where_one_of_the_requests_has_devices_for_which_it_does() -> None:
    members = [a_device("listed", {"numa": strings("a"), "root": 0}), a_device("plain", {"numa": 1, "root": 1})]
    snapshot = a_snapshot(a_slice(*members))
    attempt = attempt_of(snapshot, snapshot.view(a_node()), share_id_of, lambda: False)
    for attribute, expected in ((NUMA, True), (ROOT, False)):
        claim = a_claim(a_request("one"), a_request("other"), constraints=[distinct(attribute, "one")])
        assert problem_of(snapshot, attempt, [claim]).is_exhaustive is expected


def test_eight_claims_with_alternatives_that_are_too_much_together_are_refused_soon() -> None:
    wanted = claims(
        8,
        lambda n: a_claim(
            first_available("r", an_alternative("more", count=16), an_alternative("less", count=8)), name=f"claim-{n}"
        ),
    )
    refused(decide(a_snapshot(a_slice(*devices(31))), *wanted), 500)


# -- budget, cancellation


def test_budget_that_is_spent_leaves_the_answer_open() -> None:
    snapshot = a_snapshot(a_slice(*devices(8)))
    assert decide(snapshot, a_claim(a_request(count=8)), budget_steps=4) == Exhausted(4, kubernetes())


def test_budget_is_passed_by_no_more_than_the_work_that_is_being_done() -> None:
    members = [a_device(f"d{n:02}", {"numa": n % 3}) for n in range(24)]
    claim = a_claim(*(a_request(f"r{n}", 5) for n in range(4)), constraints=[match(NUMA, f"r{n}") for n in range(4)])
    full = decide(a_snapshot(a_slice(*members)), claim).steps
    for budget in range(full - 1):
        outcome = decide(a_snapshot(a_slice(*members)), claim, budget_steps=budget)
        assert isinstance(outcome, Exhausted)
        assert outcome.steps <= budget + 10


def test_budget_that_is_just_enough_gives_the_answer() -> None:
    snapshot, claim = a_snapshot(a_slice(*devices(8))), a_claim(a_request(count=8))
    enough = decide(snapshot, claim).steps
    assert isinstance(decide(snapshot, claim, budget_steps=enough), Allocated)
    assert isinstance(decide(snapshot, claim, budget_steps=enough - 1), Exhausted)


def test_search_stops_as_soon_as_nobody_wants_its_answer() -> None:
    asked: list[None] = []

    def is_cancelled() -> bool:
        asked.append(None)
        return len(asked) == 6

    with pytest.raises(Cancelled, match="cancelled after 4 steps"):
        allocate(a_snapshot(a_slice(*devices(8))), a_node(), [a_claim(a_request(count=8))], is_cancelled=is_cancelled)
    assert len(asked) == 6
