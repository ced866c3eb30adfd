"""The budget bounds what is done, whatever the claims: counted in calls of functions, which no machine changes."""

import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest

import cel
from allocator.allocate import allocate
from allocator.bits import Mask, bits
from allocator.candidates import MAX_RESULTS, problem_of
from allocator.cluster.snapshot import Snapshot
from allocator.explain.node_explanation import NodeExplanation, explain_on
from allocator.features.contract import attempt_of
from allocator.fleet.fleet import Fleet
from allocator.model import (
    Alternative,
    Claim,
    CounterConsumption,
    CounterSet,
    Device,
    Request,
    RequestPolicy,
    Taint,
    Toleration,
    ValidRange,
)
from allocator.outcome import FREE_STEPS, Allocated, Budget, Exhausted, NotTogether, Outcome, Refused
from allocator.policies import policy_of
from allocator.policies.contract import search_by
from allocator.search.backtracking import Answer, BudgetSpent, Memory, NotFound, OrderEffort, Search, Terms
from allocator.search.rules import Candidates, DeviceSlot, Pick
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    a_claim,
    a_device,
    a_node,
    a_request,
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

MOST_CALLS_BETWEEN_LOOKS = 100_000

ONE = Quantity.of(1)

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
    return calls_between(lambda _: function())


def calls_between(function: Callable[[Callable[[], int]], object]) -> int:
    """As `calls_of`; the function is given what says how many there were so far."""
    count = 0

    def seen(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        function(lambda: count)
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


def traced(function: Callable[[], object]) -> tuple[int, int]:
    """(bytes that are left, the most that there were) of what the function allocates."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_states_that_are_remembered_are_as_small_as_they_are_counted(kind: str) -> None:
    for search in searches(kind, 4):
        memory: Memory = search.memory
        left, _ = traced(search.run)
        assert left <= 40 * memory.kept + 100_000


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_prepared_to_remember_is_a_few_bytes_for_each_device_and_alternative(kind: str) -> None:
    for search in searches(kind, 4):
        alternatives = [one for request in search.requests for one in request]
        devices = max(one.mask.bit_length() for one in alternatives)
        _, most = traced(lambda: search.memory)  # noqa: B023
        assert most <= 20 * devices * len(alternatives) + 1_000 * devices + 100_000


def test_refusal_of_many_requests_is_no_more_work_than_they_are() -> None:
    """One device of 128 is missing; each two requests, and all that compete with each, could be looked at."""
    members = [a_device(f"d{n:03}") for n in range(128)]
    claims = [a_claim(a_request("r", 1), name=f"c{n:03}") for n in range(129)]
    snapshot = a_snapshot(a_slice(*members))
    answers: list[Outcome] = []
    calls = calls_of(lambda: answers.append(allocate(snapshot, a_node(), claims)))
    (refused,) = answers
    assert isinstance(refused, Refused)
    assert refused.cause == NotTogether(tuple(map(str, claims)), ("r",) * 129, 129, 128)
    assert calls <= MOST_CALLS * len(claims)


# -- what policies and selectors do is of the budget


ORDERING = ("pack", "spread", "least-fragmentation", "topology")


@pytest.mark.parametrize("policy", ORDERING)
@pytest.mark.parametrize("kind", KINDS)
def test_no_step_takes_much_more_work_than_others_whatever_the_policy(kind: str, policy: str) -> None:
    """Of all steps half are spent on orders at most; what is left searches on, as first-fit does."""
    for snapshot, claim in Values(lambda draw: a_knot(draw, kind))(f"knots {kind}", 4):
        attempt = attempt_of(snapshot, snapshot.view(a_node()), lambda _: "")
        problem, terms = problem_of(snapshot, attempt, [claim]), Terms(STEPS, MAX_RESULTS)
        chosen = policy_of(policy)
        chosen.order(attempt, problem.requests)  # prepares what is remembered of the view
        answers: list[Answer | NotFound | BudgetSpent] = []
        calls = calls_of(lambda: answers.append(search_by(chosen, attempt, problem.requests, terms)))  # noqa: B023
        assert calls <= MOST_CALLS * (answers[0].steps + 400)
        assert answers[0].steps <= STEPS * 1.5


def test_order_that_is_too_much_work_leaves_devices_as_they_are() -> None:
    asked: list[int] = []

    def descending(_slot: DeviceSlot, domain: Mask, _picks: Sequence[Pick]) -> Iterable[int]:
        asked.append(domain.bit_count())
        return sorted(bits(domain), reverse=True)

    snapshot, claim = a_snapshot(a_slice(*(a_device(f"d{n}") for n in range(8)))), a_claim(a_request(count=3))
    requests = requests_of(snapshot, claim)
    for device, times, expected in ((1, 3, {5, 6, 7}), (500, 1, {0, 1, 7}), (10_000, 0, {0, 1, 2})):
        asked.clear()
        terms = Terms(200, MAX_RESULTS, order=descending, order_effort=OrderEffort(device=device))
        found = Search(requests, terms).run()
        assert isinstance(found, Answer)
        assert (len(asked), {pick.device for pick in found.picks}) == (times, expected)


COSTLY = "lists.range(90).all(a, lists.range(90).all(b, a + b >= 0)) && device.attributes['{}'].number >= 0"


def costly(number: int) -> tuple[Snapshot, Claim]:
    """A selector of some 100,000 units, on devices that differ in what it reads."""
    members = [a_device(f"d{n:03}", {"number": n}) for n in range(number)]
    return a_snapshot(a_slice(*members)), a_claim(a_request("r", 1, COSTLY.format(DRIVER)))


def test_evaluations_are_charged_with_their_cost_however_often_they_are_asked_for() -> None:
    snapshot, claim = costly(24)
    first = allocate(snapshot, a_node(), [claim], budget_steps=1_000)
    assert isinstance(first, Exhausted)
    assert 1_000 <= first.steps <= 4_000, "one evaluation more than the budget has"
    again = allocate(snapshot, a_node(), [claim], budget_steps=1_000)
    assert again == first, "the answers are known by now, and count all the same"
    whole = allocate(snapshot, a_node(), [claim])
    assert isinstance(whole, Allocated)
    assert allocate(snapshot, a_node(), [claim]) == whole


def test_evaluation_that_ran_out_of_steps_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    judge = cel.Program.judge

    def counted(program: cel.Program, device: Device, is_cancelled: Callable[[], bool]) -> cel.Worked:
        asked.append(device.name)
        return judge(program, device, is_cancelled)

    monkeypatch.setattr(cel.Program, "judge", counted)
    snapshot, claim = costly(12)
    for _ in range(3):
        assert isinstance(allocate(snapshot, a_node(), [claim], budget_steps=0), Exhausted)
    assert len(asked) == len(set(asked)) < 12


def test_regular_expressions_are_charged_where_they_are_compiled() -> None:
    """Whoever compiled them first: a claim whose selectors have large ones ends within its steps, known or not."""
    snapshot = a_snapshot(a_slice(a_device("d")))
    costly = [
        a_claim(a_request("r", 1, *(f"!device.driver.matches('{one}x{number}\\\\pL{{30}}')" for one in range(4))))
        for number in range(4)
    ]
    outcomes = [allocate(snapshot, a_node(), costly, budget_steps=20_000) for _ in range(2)]
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], Exhausted)
    assert isinstance(allocate(snapshot, a_node(), costly[:1], budget_steps=200_000), Allocated)


WIDE: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "taints": (
        {"taints": tuple(Taint("k", f"v{n}", "NoSchedule") for n in range(16))},
        {"tolerations": tuple(Toleration("k", "Equal", f"v{n}") for n in range(16))},
    ),
    "ranges": (
        {
            "capacity": {f"c{n}": "900" for n in range(8)},
            "allow_multiple_allocations": True,
            "policies": {f"c{n}": RequestPolicy(ONE, valid_range=ValidRange(ONE, step=ONE)) for n in range(8)},
        },
        {},
    ),
}
"""What each of many devices has, and each of many alternatives; in a name."""


@pytest.mark.parametrize("kind", WIDE)
def test_no_attempt_works_long_without_a_look_at_the_time(kind: str) -> None:
    """Before its search as well, where all alternatives of all requests are held against all devices."""
    has, asks = WIDE[kind]
    snapshot = a_snapshot(a_slice(*(a_device(f"d{n}", **has) for n in range(128))))

    def alternative(number: int) -> Alternative:
        amounts: dict[str, Any] = {"capacity": {"c0": Quantity.of(number + 1)}} if kind == "ranges" else {}
        return an_alternative(f"a{number}", selectors=(f"device.driver != '{number}'",), **asks, **amounts)

    claim = a_claim(*(first_available(f"r{n}", *(alternative(4 * n + way) for way in range(4))) for n in range(16)))
    looks = [0]

    def look(now: Callable[[], int]) -> bool:
        looks.append(now())
        return False

    total = calls_between(lambda now: allocate(snapshot, a_node(), [claim], is_cancelled=lambda: look(now)))
    assert max(later - before for before, later in pairwise([*looks, total])) < MOST_CALLS_BETWEEN_LOOKS < total


def test_looks_at_the_time_come_between_constraints() -> None:
    """Before the search: of each claim, each constraint is held against all devices."""
    members = [a_device(f"d{n:03}", {f"a{at}": n for at in range(30)}) for n in range(128)]
    constraints = [distinct(f"{DRIVER}/a{at}") for at in range(30)]
    claims = [a_claim(a_request("r", 2), name=name, constraints=constraints) for name in ("a", "b", "c", "d")]
    looks = [0]

    def is_cancelled() -> bool:
        looks[0] += 1
        return False

    allocate(a_snapshot(a_slice(*members)), a_node(), claims, is_cancelled=is_cancelled, budget_steps=0)
    assert looks[0] >= len(claims) * len(constraints)


def test_ordinary_claims_pay_nothing_for_their_selectors() -> None:
    members = [a_device(f"d{n:03}", {"number": n}) for n in range(128)]
    claim = a_claim(*(a_request(f"r{n}", 1, f"device.attributes['{DRIVER}'].number >= {n}") for n in range(8)))
    outcome = allocate(a_snapshot(a_slice(*members)), a_node(), [claim])
    assert outcome.steps == 1 + 8 + 8, "a bound, and for each request an alternative and a device"


@pytest.mark.parametrize("kind", KINDS)
def test_explanation_takes_no_more_work_than_its_steps(kind: str) -> None:
    """Those of an attempt, and a fifth of what is usual for questions where the attempt has taken all of them."""
    spent = 0
    for snapshot, claim in Values(lambda draw: a_knot(draw, kind))(f"knots {kind}", 4):
        found: list[NodeExplanation] = []
        asked = partial(explain_on, snapshot, a_node(), [claim], {}, budget_steps=STEPS, all_steps=STEPS)
        calls = calls_of(lambda: found.append(asked()))  # noqa: B023
        spent += isinstance(found[0].answer, Exhausted)
        assert found[0].steps <= STEPS * 1.2 + 500
        assert calls <= MOST_CALLS * (found[0].steps + FREE_STEPS)
    assert spent, "none of the attempts took all of its steps"


def test_parts_of_selectors_are_explained_as_long_as_there_are_steps() -> None:
    snapshot, _ = costly(24)
    number = f"device.attributes['{DRIVER}'].number"
    costly_each = f"lists.range(90).all(a, lists.range(90).all(b, a + b + {number} >= 0))"
    claim = a_claim(a_request("r", 1, f"{costly_each} && {number} >= 0 && {number} < 0"))
    wide = explain_on(snapshot, a_node(), [claim], {})
    assert isinstance(wide.answer, Refused)
    assert [len(parts) for parts in wide.offer.funnels[0].operands.values()] == [3]
    for steps in (0, 1_000):
        narrow = explain_on(snapshot, a_node(), [claim], {}, all_steps=steps)
        assert isinstance(narrow.answer, Refused)
        assert not narrow.offer.funnels[0].operands
        assert narrow.steps <= narrow.answer.steps + steps + 3_000, "one evaluation more than there are steps for"


def test_amounts_of_shares_are_charged_however_often_they_are_asked_for() -> None:
    members = [a_device(f"d{n:03}", capacity={"q": str(n + 8)}, allow_multiple_allocations=True) for n in range(128)]
    snapshot = a_snapshot(a_slice(*members), features=FEATURES)
    claim = a_claim(*(a_request(f"r{n}", capacity={"q": Quantity.of(n + 1)}) for n in range(8)))
    spent = []
    for _ in range(2):
        budget = Budget()
        assert isinstance(allocate(snapshot, a_node(), [claim], budget=budget), Allocated)
        spent.append(budget.spent)
    assert spent[0] == spent[1] >= 8 * 128 * 10, "each amount of each device"
    claims = [replace(claim, name=f"c{n}", uid=f"u{n}") for n in range(40)]
    assert isinstance(allocate(snapshot, a_node(), claims, budget_steps=0), Exhausted)


def test_fleet_says_that_it_is_not_known_where_selectors_take_too_long() -> None:
    """Nodes are told apart by what their devices answer, which ends within the budget as well."""
    snapshot, claim = costly(24)
    fleet = Fleet(snapshot, [a_node()], budget_steps=100)
    assert fleet.choose([claim], fleet.all) is None
    ((outcome, nodes),) = fleet.unable_by_node([claim], fleet.all)
    assert isinstance(outcome, Exhausted)
    assert nodes == fleet.all
