"""However a search ends, the next one begins afresh, and only the search for the whole decides."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy

import pytest

from allocator.allocate import allocate
from allocator.bits import Mask, bits
from allocator.candidates import MAX_RESULTS, Problem, problem_of
from allocator.cluster.snapshot import Snapshot
from allocator.features.contract import attempt_of
from allocator.model import Allocation, Claim, Device, Node
from allocator.outcome import Allocated, AllocationError, Exhausted
from allocator.search.backtracking import Poisoned, Search, Terms
from allocator.search.rules import Candidates, DeviceSlot, Pick, Rule
from tests.builders import DRIVER, a_claim, a_device, a_node, a_request, a_slice, a_snapshot, distinct, match
from tests.properties.allocator.choices import Choices, Values
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.instances import ABOUT, about

EACH = 30
"""Instances about each aspect."""


# -- what a search leaves behind


@pytest.mark.parametrize("aspect", ABOUT)
def test_rules_are_as_before_however_a_search_ends(aspect: str) -> None:
    def check(instance: Instance) -> None:
        snapshot = instance.snapshot()
        for node in instance.nodes:
            problem = problem_on(snapshot, node, instance.claims)
            if problem is None:
                continue
            rules = [rule for own in problem.requests for candidates in own for rule in candidates.rules]
            before = [fields_of(rule) for rule in rules]
            for terms in some_terms(is_exhaustive=problem.is_exhaustive):
                run(problem.requests, terms)
                assert [fields_of(rule) for rule in rules] == before

    about(aspect).hold_for("ends", EACH, check)


def problem_on(snapshot: Snapshot, node: Node, claims: Sequence[Claim]) -> Problem | None:
    """What there is to search, None where the attempt ends before."""
    try:
        return problem_of(snapshot, attempt_of(snapshot, snapshot.view(node), lambda _: ""), claims)
    except AllocationError:
        return None


def run(requests: Sequence[Sequence[Candidates]], terms: Terms) -> str:
    try:
        return type(Search(requests, terms).run()).__name__
    except (Poisoned, AllocationError) as error:
        return type(error).__name__


def some_terms(*, is_exhaustive: bool) -> Iterator[Terms]:
    """A search that is let run, one in another order, and some that are stopped on their way."""
    for steps in (1, 2, 3, 5, 8, 20_000):
        for order in (None, descending):
            yield Terms(steps, MAX_RESULTS, is_exhaustive, order=order)


def descending(_slot: DeviceSlot, domain: Mask, _picks: Sequence[Pick]) -> Iterable[int]:
    return sorted(bits(domain), reverse=True)


def fields_of(rule: Rule) -> Mapping[str, object]:
    names = [name for kind in type(rule).__mro__ for name in getattr(kind, "__slots__", ())]
    values = ((name, getattr(rule, name)) for name in names)
    return {name: deepcopy(value) if isinstance(value, list | dict | set) else value for name, value in values}


def test_searches_end_in_every_way() -> None:
    """So that what is said above is said of all of them."""
    ways = set()
    for aspect in ABOUT:
        for instance in about(aspect)("ends", EACH):
            for variant in (instance, instance.strictly()):
                problem = problem_on(variant.snapshot(), instance.nodes[0], instance.claims)
                if problem is not None:
                    ways |= {run(problem.requests, terms) for terms in some_terms(is_exhaustive=problem.is_exhaustive)}
    assert ways == {"Answer", "NotFound", "BudgetSpent", "Poisoned", "InvalidClaim"}


# -- what parts of the whole may say

Answer = tuple[Allocation, ...] | str | None


def answer(snapshot: Snapshot, claims: Sequence[Claim], limit_steps: int, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """The allocations, None where there are none, an error's text, or what is not known."""
    monkeypatch.setattr("allocator.search.backtracking.FIRST_TRY_STEPS", limit_steps)
    try:
        outcome = allocate(snapshot, a_node("node-0"), claims, budget_steps=20_000)
    except AllocationError as error:
        return str(error)
    if isinstance(outcome, Allocated):
        return outcome.allocations
    return "not known" if isinstance(outcome, Exhausted) else None


@pytest.mark.parametrize("aspect", ABOUT)
def test_impatience_changes_no_answer(aspect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(instance: Instance) -> None:
        snapshot = instance.snapshot()
        patient = answer(snapshot, instance.claims, 1 << 60, monkeypatch)
        for limit_steps in (1, 3):
            assert answer(snapshot, instance.claims, limit_steps, monkeypatch) == patient

    about(aspect).hold_for("limit_steps", EACH, check)


KINDS = 3


def a_tangle(draw: Choices) -> tuple[Sequence[Device], Claim]:
    """Requests that take long to reconcile, behind one whose selector fails on a device that another one takes."""
    number = draw.pick(range(9, 15))
    members = [a_device("g00", {"id": 0})]
    for index in range(1, number):
        kinds = {f"a{kind}": draw.pick(range(5)) for kind in range(KINDS)}
        members.append(a_device(f"g{index:02}", {"id": index, "ok": True, **kinds}))
    own = f'device.attributes["{DRIVER}"]'
    names = [f"h{index}" for index in range(draw.pick((4, 5)))]
    rests = [f"{own}.id % {draw.pick((2, 3))} == {draw.pick((0, 1))}" for _ in names]
    wanted = [a_request(name, 1, f"has({own}.ok) && {rest}") for name, rest in zip(names, rests, strict=True)]
    first = [a_request("only", 1, f"{own}.id == 0")] if not draw.rarely(5) else []
    constraints = [
        draw.pick((match, distinct))(f"{DRIVER}/a{kind}", *sorted({draw.pick(names), draw.pick(names)}))
        for kind in range(KINDS)
    ]
    return members, a_claim(*first, a_request("ok", 1, f"{own}.ok"), *wanted, constraints=constraints)


def test_device_that_only_a_part_meets_ends_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(tangle: tuple[Sequence[Device], Claim]) -> None:
        members, claim = tangle
        snapshot = a_snapshot(a_slice(*members))
        patient = answer(snapshot, [claim], 1 << 60, monkeypatch)
        assert patient != "not known"
        assert answer(snapshot, [claim], 30, monkeypatch) == patient

    Values(a_tangle).hold_for("tangle", 150, check)
