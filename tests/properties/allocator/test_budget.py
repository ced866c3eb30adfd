"""The budget bounds what is done, whatever the claims: counted in calls of functions, which no machine changes."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from allocator.cluster.snapshot import Snapshot
from allocator.features.contract import attempt_of
from allocator.model import Alternative, Claim, CounterConsumption, CounterSet, Device, Request
from allocator.requests.candidates import MAX_RESULTS, problem_of
from allocator.search.backtracking import BudgetSpent, Memory, Search, Terms
from allocator.search.rules import Candidates
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    a_claim,
    a_device,
    a_node,
    a_slice,
    a_snapshot,
    an_alternative,
    distinct,
    first_available,
    kubernetes,
    match,
    strings,
)
from tests.properties.allocator.choices import Choices, Values

STEPS = 2_000
MOST_CALLS = 400
"""Of each step, in all versions of Python; half of that is usual."""

KINDS = ("counters", "shares", "lists", "alternatives", "plain")
LISTED = DRIVER + "/listed"
FEATURES = kubernetes(DRAListTypeAttributes=True, DRAConsumableCapacity=True)


def quantities(draw: Choices, number: int, least: int, most: int) -> dict[str, Quantity]:
    return {f"q{index}": Quantity.of(draw.pick(range(least, most))) for index in range(number)}


def a_member(draw: Choices, kind: str, number: int) -> Device:
    """A device that no other is like."""
    more: dict[str, Any] = {}
    if kind == "counters":
        sets = sorted({draw.pick(range(4)), draw.pick(range(4))})
        more["consumes_counters"] = tuple(CounterConsumption(f"set-{n}", quantities(draw, 4, 60, 400)) for n in sets)
    if kind == "shares":
        more = {
            "capacity": {f"q{n}": str(draw.pick(range(8, 20))) for n in range(4)},
            "allow_multiple_allocations": True,
        }
    values = [f"v{draw.pick(range(200))}" for _ in range(32 if kind == "lists" else 1)]
    attributes = {f"a{n}": draw.pick(range(8)) for n in range(3)}
    return a_device(f"d{number:03}", {**attributes, "number": number, "listed": strings(*values)}, **more)


def an_asked(draw: Choices, kind: str, name: str) -> Alternative:
    more: dict[str, Any] = {"capacity": quantities(draw, draw.pick(range(1, 5)), 1, 9)} if kind == "shares" else {}
    own = f'device.attributes["{DRIVER}"]'
    selector = draw.pick((f"{own}.a0 != {draw.pick(range(8))}", f"{own}.number % 2 == {draw.pick((0, 1))}", "true"))
    return an_alternative(name, count=draw.pick((1, 1, 1, 2)), selectors=(selector,), **more)


def a_wish(draw: Choices, kind: str, name: str) -> Request:
    if kind == "alternatives":
        return first_available(name, *(an_asked(draw, kind, f"s{number}") for number in range(8)))
    return Request(name, (an_asked(draw, kind, name),))


def a_knot(draw: Choices, kind: str) -> tuple[Snapshot, Claim]:
    """Many requests under many constraints, for devices that differ in everything."""
    members = [a_member(draw, kind, number) for number in range(draw.pick((16, 64, 128)))]
    sets = tuple(CounterSet(f"set-{n}", {f"q{i}": Quantity.of(1000) for i in range(4)}) for n in range(4))
    slices = a_slice(*members, name="a", slice_count=2), a_slice(name="b", slice_count=2, counter_sets=sets)
    names = [f"r{number}" for number in range(draw.pick((8, 12, 16)))]
    attributes = [LISTED, LISTED, *(f"{DRIVER}/a{n}" for n in range(3))]
    constraints = [
        draw.pick((match, distinct))(draw.pick(attributes), *sorted({draw.pick(names) for _ in range(3)}))
        for _ in range(draw.pick((4, 8, 12)))
    ]
    claim = a_claim(*(a_wish(draw, kind, name) for name in names), constraints=constraints)
    return a_snapshot(*slices, features=FEATURES), claim


def requests_of(snapshot: Snapshot, claim: Claim) -> tuple[tuple[Candidates, ...], ...]:
    return problem_of(snapshot, attempt_of(snapshot, snapshot.view(a_node()), lambda _: ""), [claim]).requests


def calls_of(function: Callable[[], object]) -> int:
    """How many functions are called, Python's own included."""
    count = 0

    def seen(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def searches(kind: str, number: int) -> Iterator[Search]:
    for snapshot, claim in Values(lambda draw: a_knot(draw, kind))(f"knots {kind}", number):
        yield Search(requests_of(snapshot, claim), Terms(STEPS, MAX_RESULTS))


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_takes_much_more_work_than_others(kind: str) -> None:
    spent = 0
    for search in searches(kind, 12):
        calls = calls_of(search.run)
        spent += search.steps >= STEPS
        assert calls <= MOST_CALLS * (search.steps + 200)
    assert spent, "none of the searches was long"


def test_budget_is_passed_by_little_also_where_steps_are_large() -> None:
    for kind in KINDS:
        for search in searches(kind, 6):
            if isinstance(search.run(), BudgetSpent):
                assert STEPS <= search.steps <= STEPS * 1.5


def test_states_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the oldest are forgotten."""
    snapshot, claim = next(Values(lambda draw: a_knot(draw, "plain"))("memory", 1))
    search = Search(requests_of(snapshot, claim), Terms(STEPS, MAX_RESULTS))
    memory: Memory = search.memory
    monkeypatch.setattr("allocator.search.backtracking.MOST_KEPT", 10 * memory.work_of_key[0])
    for number in range(25):
        memory.bury(0, number)
        memory.bury(0, number)
    assert [number for number in range(25) if memory.is_dead(number)] == list(range(15, 25))
