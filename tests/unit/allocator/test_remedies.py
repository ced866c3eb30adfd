"""What is said to be in each other's way is, and what is said to help does."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.allocate import allocate
from allocator.explain.node_explanation import (
    ClaimsReleased,
    Conflict,
    ConflictingConstraint,
    ConflictingRequest,
    ConstraintDropped,
    Correction,
    CountLowered,
    Member,
    NodeExplanation,
    Remedy,
    SelectorCorrected,
    SelectorsDropped,
    TaintsTolerated,
    ToleratedTaint,
    conflict_of,
    explain_on,
    remedies_of,
)
from allocator.explain.offer import Asking
from allocator.model import (
    Alternative,
    Claim,
    CounterConsumption,
    CounterSet,
    Device,
    Request,
    Slice,
    Taint,
    Toleration,
)
from allocator.outcome import Allocated, Exhausted, InvalidClaim, Outcome, Refused
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    a_claim,
    a_device,
    a_node,
    a_request,
    a_result,
    a_slice,
    a_snapshot,
    all_devices,
    an_allocated_claim,
    an_alternative,
    devices,
    distinct,
    everywhere,
    first_available,
    kubernetes,
    match,
    on_node,
)

NUMA = f"{DRIVER}/numa"
CARD = f"{DRIVER}/card"
MAINTENANCE = Taint("maintenance", "", "NoSchedule")
FAULTY = Taint("faulty", "", "NoExecute")
TAINTS = (*((),) * 9, (MAINTENANCE,), (FAULTY,), (MAINTENANCE, FAULTY))


def explained(
    *claims: Claim, slices: Sequence[Slice], held: Sequence[Claim] = (), all_steps: int = 100_000
) -> NodeExplanation:
    snapshot = a_snapshot(*slices, held=held)
    return explain_on(snapshot, a_node(), claims, {str(claim): claim for claim in held}, all_steps=all_steps)


def conflict(*claims: Claim, slices: Sequence[Slice], held: Sequence[Claim] = ()) -> Conflict:
    found = explained(*claims, slices=slices, held=held).conflict
    assert found is not None
    return found


# -- random instances


@st.composite
def a_small_device(draw: st.DrawFn, number: int) -> Device:
    attributes: dict[str, Any] = {"numa": draw(st.sampled_from((0, 0, 1))), "card": draw(st.integers(0, 2))}
    more: dict[str, Any] = {"taints": draw(st.sampled_from(TAINTS))}
    match draw(st.integers(0, 4)):
        case 0:
            counters = {"memory": Quantity.parse(draw(st.sampled_from(("1", "2", "3"))))}
            more["consumes_counters"] = (CounterConsumption("set-0", counters),)
        case 1:
            more |= {"capacity": {"bandwidth": "2"}, "allow_multiple_allocations": True}
    return a_device(f"dev-{number}", attributes, **more)


@st.composite
def some_slices(draw: st.DrawFn) -> tuple[Slice, ...]:
    members = [draw(a_small_device(number)) for number in range(draw(st.integers(4, 8)))]
    counters = CounterSet("set-0", {"memory": Quantity.parse(draw(st.sampled_from(("3", "4"))))})
    sets = a_slice(name="sets", slice_count=2, counter_sets=(counters,))
    return a_slice(*members, slice_count=2), sets


@st.composite
def a_small_request(draw: st.DrawFn, name: str) -> Request:
    selectors = draw(st.sampled_from(((), (), ('device.attributes["gpu.example"].numa == 0',))))
    match draw(st.integers(0, 15)):
        case 0:
            return all_devices(name, *selectors)
        case 1:
            one = an_alternative("one", count=draw(st.integers(1, 3)), selectors=selectors)
            return first_available(name, one, an_alternative("two", count=draw(st.integers(1, 3))))
        case _:
            return a_request(name, draw(st.sampled_from((1, 2, 2, 3, 3, 4))), *selectors)


@st.composite
def a_small_claim(draw: st.DrawFn, name: str) -> Claim:
    requests = [draw(a_small_request(f"r{number}")) for number in range(draw(st.sampled_from((1, 1, 2, 2, 3))))]
    own = draw(st.sampled_from(((), ("r0",))))
    pools = ((), (match(NUMA, *own),), (match(NUMA),), (match(CARD, *own),), (distinct(CARD, *own), match(NUMA)))
    constraints = draw(st.sampled_from(pools))
    return a_claim(*requests, name=name, constraints=constraints)


@st.composite
def some_holders(draw: st.DrawFn, published: Sequence[Slice]) -> tuple[Claim, ...]:
    """Up to three claims that have devices, or shares, of the slices."""
    found: dict[str, list[Any]] = {}
    for device in published[0].devices:
        holder = draw(st.sampled_from(("", "", "", "", "a", "b", "c")))
        share: dict[str, Any] = (
            {"share_id": "s", "consumed_capacity": device.capacity} if device.allow_multiple_allocations else {}
        )
        if holder:
            found.setdefault(holder, []).append(a_result(device.name, **share))
    return tuple(an_allocated_claim(*results, name=name) for name, results in found.items())


@st.composite
def refusals(draw: st.DrawFn) -> tuple[Asking, tuple[Claim, ...]]:
    """Claims that a node refuses."""
    published = draw(some_slices())
    held = draw(some_holders(published))
    claims = tuple(draw(a_small_claim(f"claim-{number}")) for number in range(draw(st.sampled_from((1, 1, 2)))))
    snapshot = a_snapshot(*published, held=held)
    return Asking(snapshot, a_node(), {str(claim): claim for claim in held}, all_steps=10**9), claims


def outcome(asking: Asking, claims: Sequence[Claim]) -> Outcome:
    return allocate(asking.snapshot, asking.node, claims)


@given(refusals())
@settings(max_examples=150)
def test_conflict_is_refused_and_each_part_of_it_is_not(refusal: tuple[Asking, tuple[Claim, ...]]) -> None:
    asking, claims = refusal
    if isinstance(outcome(asking, claims), Allocated):
        return
    found = conflict_of(asking, claims)
    assert found.is_minimal
    assert found.members
    assert isinstance(outcome(asking, only(claims, found.members)), Refused)
    for member in found.members:
        rest = [other for other in found.members if other != member]
        assert isinstance(outcome(asking, only(claims, rest)), Allocated)


def only(claims: Sequence[Claim], members: Sequence[Member]) -> list[Claim]:
    """The claims with these members and no others."""
    names = {(member.claim, member.request) for member in members if isinstance(member, ConflictingRequest)}
    places = {(member.claim, member.position) for member in members if isinstance(member, ConflictingConstraint)}
    return [
        replace(
            claim,
            requests=tuple(request for request in claim.requests if (str(claim), request.name) in names),
            constraints=tuple(c for place, c in enumerate(claim.constraints) if (str(claim), place) in places),
        )
        for claim in claims
    ]


@given(refusals())
@settings(max_examples=150)
def test_what_is_said_to_help_helps(refusal: tuple[Asking, tuple[Claim, ...]]) -> None:
    asking, claims = refusal
    if isinstance(outcome(asking, claims), Allocated):
        return
    for remedy in remedies_of(asking, claims):
        assert isinstance(outcome_after(remedy, asking, claims), Allocated), remedy


def outcome_after(remedy: Remedy, asking: Asking, claims: Sequence[Claim]) -> Outcome:
    """What the allocator says once a person has done as told."""
    snapshot = asking.snapshot
    match remedy:
        case CountLowered(claim, request, count):
            claims = edited(claims, claim, request, mode="ExactCount", count=count)
        case SelectorCorrected(claim, request, position, correction):
            own = list(selectors_of(claims, claim, request))
            own[position] = correction.expression
            claims = edited(claims, claim, request, selectors=tuple(own))
        case SelectorsDropped(claim, request, positions):
            own = [one for place, one in enumerate(selectors_of(claims, claim, request)) if place not in positions]
            claims = edited(claims, claim, request, selectors=tuple(own))
        case ConstraintDropped(ConflictingConstraint(name, position)):
            claims = [without(claim, position) if str(claim) == name else claim for claim in claims]
        case ClaimsReleased(names):
            left = [claim for name, claim in asking.held.items() if name not in names]
            snapshot = snapshot.with_usage_of(left)
        case TaintsTolerated(taints):
            for taint in taints:
                claims = tolerant(claims, taint)
    return allocate(snapshot, asking.node, claims)


def edited(claims: Sequence[Claim], claim: str, name: str, **changes: Any) -> list[Claim]:
    """The claims with another content of one alternative."""

    def of(alternative: Alternative) -> Alternative:
        return replace(alternative, **changes) if alternative.name == name else alternative

    return [
        replace(one, requests=tuple(replace(r, alternatives=tuple(map(of, r.alternatives))) for r in one.requests))
        if str(one) == claim
        else one
        for one in claims
    ]


def without(claim: Claim, position: int) -> Claim:
    constraints = list(claim.constraints)
    del constraints[position]
    return replace(claim, constraints=tuple(constraints))


def selectors_of(claims: Sequence[Claim], claim: str, name: str) -> Sequence[str]:
    every = [a for one in claims if str(one) == claim for r in one.requests for a in r.alternatives]
    (found,) = [tuple(one or "" for one in a.selectors) for a in every if a.name == name]
    return found


def tolerant(claims: Sequence[Claim], taint: ToleratedTaint) -> list[Claim]:
    every = [a for claim in claims if str(claim) == taint.claim for r in claim.requests for a in r.alternatives]
    (now,) = [alternative.tolerations for alternative in every if alternative.name == taint.request]
    own = Toleration(taint.key, "Exists", "", taint.effect)
    return edited(claims, taint.claim, taint.request, tolerations=(*now, own))


# -- conflicts


def requests_of(found: Conflict) -> list[str]:
    return [member.request for member in found.requests]


def test_request_that_is_too_large_alone_is_the_conflict() -> None:
    claim = a_claim(a_request("a", 1), a_request("b", 5), constraints=[match(NUMA)])
    found = conflict(claim, slices=[a_slice(*devices(3, {"numa": 0}))])
    assert found.members == (ConflictingRequest("default/claim", "b"),)
    assert (found.wanted, found.in_common, found.limits) == (5, 3, ())


def test_of_two_requests_that_are_too_large_the_first_is_the_conflict() -> None:
    claim = a_claim(a_request("a", 4), a_request("b", 5))
    assert requests_of(conflict(claim, slices=[a_slice(*devices(3))])) == ["a"]


def test_requests_that_compete_are_the_conflict_with_what_they_have_in_common() -> None:
    members = [a_device(f"d{n}", {"big": n < 3}) for n in range(6)]
    big = 'device.attributes["gpu.example"].big'
    claims = [
        a_claim(a_request("a", 2, big), a_request("small", 2, f"!{big}"), name="x"),
        a_claim(a_request("a", 2, big), name="y"),
    ]
    found = conflict(*claims, slices=[a_slice(*members)])
    assert found.members == (ConflictingRequest("default/x", "a"), ConflictingRequest("default/y", "a"))
    assert (found.wanted, found.in_common, found.limits) == (4, 3, ())


def test_request_and_constraint_that_exclude_each_other_are_the_conflict() -> None:
    members = [a_device(f"d{n}", {"numa": n // 2, "card": n}) for n in range(6)]
    claim = a_claim(a_request("a", 3), a_request("b"), constraints=[distinct(CARD), match(NUMA, "a")])
    found = conflict(claim, slices=[a_slice(*members)])
    assert found.members == (
        ConflictingRequest("default/claim", "a"),
        ConflictingConstraint("default/claim", 1, "matchAttribute", NUMA),
    )
    assert found.constraints == found.members[1:]
    assert found.in_common == 6


def partitions(number: int, memory: str) -> list[Slice]:
    """So many devices that take 2 each of one counter."""
    takes = (CounterConsumption("set-0", {"memory": Quantity.parse("2")}),)
    members = [a_device(f"d{n}", consumes_counters=takes) for n in range(number)]
    counters = CounterSet("set-0", {"memory": Quantity.parse(memory)})
    return [a_slice(*members, slice_count=2), a_slice(name="sets", slice_count=2, counter_sets=(counters,))]


def test_counters_are_named_where_devices_would_suffice_without_them() -> None:
    found = conflict(a_claim(a_request("a", 3)), slices=partitions(4, memory="5"))
    assert (found.wanted, found.in_common, found.limits) == (3, 4, ("counters",))


def test_counters_are_not_named_where_devices_would_not_suffice_without_them() -> None:
    found = conflict(a_claim(a_request("a", 5)), slices=partitions(4, memory="5"))
    assert found.limits == ()


def test_capacity_is_named_where_requests_want_too_much_of_one_device() -> None:
    member = a_device("x", capacity={"bandwidth": "10"}, allow_multiple_allocations=True)
    amount = {"bandwidth": Quantity.parse("6")}
    claim = a_claim(a_request("a", capacity=amount), a_request("b", capacity=amount))
    found = conflict(claim, slices=[a_slice(member)])
    assert requests_of(found) == ["a", "b"]
    assert (found.in_common, found.limits) == (None, ("capacity",))


def test_admin_access_competes_with_nobody() -> None:
    claim = a_claim(a_request("a", 2, admin_access=True))
    assert conflict(claim, slices=[a_slice("x")]).in_common is None


def test_conflict_of_which_a_part_ends_in_an_error_is_not_called_minimal() -> None:
    members = [a_device(f"d{n}", {"numa": n} if n else {}) for n in range(2)]
    fails = 'device.attributes["gpu.example"].numa == 0'
    claim = a_claim(a_request("a", 1, fails), a_request("b", 2))
    found = conflict(claim, slices=[a_slice(*members)])
    assert requests_of(found) == ["a", "b"]
    assert not found.is_minimal


def test_conflict_that_the_budget_does_not_suffice_for_is_all_that_was_asked_for() -> None:
    claim = a_claim(a_request("a", 1), a_request("b", 5))
    found = explained(claim, slices=[a_slice(*devices(3))], all_steps=0)
    assert found.conflict is not None
    assert (requests_of(found.conflict), found.conflict.is_minimal) == (["a", "b"], False)
    assert (found.remedies, found.is_whole) == ((), False)


# -- questions


def asking_without_classes(all_steps: int) -> Asking:
    """Answers a claim before any device is tried."""
    return Asking(a_snapshot(a_slice(*devices(2)), classes=()), a_node(), {}, all_steps=all_steps)


@pytest.mark.parametrize(("all_steps", "answer", "gaps"), [(-1, Exhausted, 1), (0, Exhausted, 1), (1, InvalidClaim, 0)])
def test_question_is_put_while_a_step_is_left(all_steps: int, answer: type, gaps: int) -> None:
    asking = asking_without_classes(all_steps)
    assert isinstance(asking.ask([a_claim()]), answer)
    assert asking.gaps == gaps


def test_questions_without_steps_use_up_the_budget_too() -> None:
    asking = asking_without_classes(250)
    answers = [type(asking.ask([a_claim()])) for _ in range(4)]
    assert answers == [InvalidClaim, InvalidClaim, InvalidClaim, Exhausted]


# -- remedies


def remedies(
    *claims: Claim, slices: Sequence[Slice], held: Sequence[Claim] = (), all_steps: int = 100_000
) -> tuple[Remedy, ...]:
    return explained(*claims, slices=slices, held=held, all_steps=all_steps).remedies


@pytest.mark.parametrize(("wanted", "there"), [(2, 1), (9, 5), (32, 31), (40, 32), (2**40, 33)])
def test_largest_count_that_fits_is_reported(wanted: int, there: int) -> None:
    claim = a_claim(a_request("a", wanted))
    snapshot = a_snapshot(a_slice(*devices(there)))
    asking = Asking(snapshot, a_node(), {})
    assert list(remedies_of(asking, [claim])) == [CountLowered("default/claim", "a", min(there, 32), of_all=False)]


def test_request_for_all_could_ask_for_those_that_can_be_had() -> None:
    found = remedies(a_claim(all_devices("a")), slices=[a_slice(*devices(4))], held=[an_allocated_claim("gpu-002")])
    assert found == (
        CountLowered("default/claim", "a", 3, of_all=True),
        ClaimsReleased(("default/holder",)),
    )


def test_each_alternative_has_a_count_of_its_own() -> None:
    request = first_available("r", an_alternative("five", count=5), an_alternative("four", count=4))
    assert remedies(a_claim(request), slices=[a_slice(*devices(2))]) == (
        CountLowered("default/claim", "r/five", 2, of_all=False),
        CountLowered("default/claim", "r/four", 2, of_all=False),
    )


def test_constraint_without_which_it_fits_is_reported() -> None:
    members = [a_device(f"d{n}", {"numa": n, "card": 0}) for n in range(2)]
    claim = a_claim(a_request("a", 2), constraints=[match(CARD), match(NUMA)])
    assert remedies(claim, slices=[a_slice(*members)]) == (
        CountLowered("default/claim", "a", 1, of_all=False),
        ConstraintDropped(ConflictingConstraint("default/claim", 1, "matchAttribute", NUMA)),
    )


def test_each_claim_whose_release_suffices_is_reported_the_largest_first() -> None:
    held = [an_allocated_claim("gpu-000", name="a"), an_allocated_claim("gpu-001", "gpu-002", name="b")]
    found = remedies(a_claim(), slices=[a_slice(*devices(3))], held=held)
    assert found == (ClaimsReleased(("default/b",)), ClaimsReleased(("default/a",)))


def test_claims_that_have_to_be_released_together_are_reported_without_those_that_can_be_spared() -> None:
    held = [an_allocated_claim(f"gpu-00{n}", name=name) for n, name in enumerate("abc")]
    held.append(an_allocated_claim(a_result("elsewhere", pool="other"), name="away"))
    members = [a_device(f"gpu-00{n}", {"numa": n % 2}) for n in range(3)]
    claim = a_claim(a_request("r", 2, 'device.attributes["gpu.example"].numa == 0'))
    found = remedies(claim, slices=[a_slice(*members)], held=held)
    assert found == (ClaimsReleased(("default/a", "default/c")),)


MODEL = 'device.attributes["gpu.example"].model'


def of_models(*models: str) -> list[Slice]:
    return [a_slice(*(a_device(f"d{n}", {"model": model, "numa": 0}) for n, model in enumerate(models)))]


@pytest.mark.parametrize(
    ("selector", "expression", "word", "by"),
    [
        (f'{MODEL} == "a100"', f'{MODEL} == "A100"', "a100", "A100"),
        (f"{MODEL} == 'A1000'", f"{MODEL} == 'A100'", "A1000", "A100"),
        ('device.attributes["gpu.example"].modle == "A100"', f'{MODEL} == "A100"', "modle", "model"),
        ('device.attributes["gpu.exmaple"].model == "A100"', f'{MODEL} == "A100"', "gpu.exmaple", "gpu.example"),
        ('device.driver == "gpu.examples"', 'device.driver == "gpu.example"', "gpu.examples", "gpu.example"),
    ],
)
def test_selector_with_a_word_that_no_device_has_is_corrected(
    selector: str, expression: str, word: str, by: str
) -> None:
    found = remedies(a_claim(a_request("a", 1, selector)), slices=of_models("A100", "H200"))
    corrected = SelectorCorrected("default/claim", "a", 0, Correction(expression, word, by))
    assert found == (corrected, SelectorsDropped("default/claim", "a", (0,)))


def test_value_of_which_devices_have_a_longer_one_is_corrected() -> None:
    found = remedies(a_claim(a_request("a", 1, f'{MODEL} == "A100"')), slices=of_models("A100-SXM4-80GB"))
    assert isinstance(found[0], SelectorCorrected)
    assert found[0].correction.by == "A100-SXM4-80GB"


def test_correction_that_does_not_help_is_not_reported() -> None:
    claim = a_claim(a_request("a", 3, f'{MODEL} == "a100"'))
    found = remedies(claim, slices=of_models("A100", "H200"))
    assert not any(isinstance(one, SelectorCorrected) for one in found)


def test_selector_without_which_it_fits_is_reported_alone() -> None:
    claim = a_claim(a_request("a", 1, f'{MODEL} == "none of these"', 'device.driver == "gpu.example"'))
    assert remedies(claim, slices=of_models("A100")) == (SelectorsDropped("default/claim", "a", (0,)),)


def test_selectors_that_have_to_go_together_are_reported_without_those_that_can_be_spared() -> None:
    no, yes = f'{MODEL} == "none of these"', 'device.driver == "gpu.example"'
    claim = a_claim(a_request("a", 1, no, yes, no))
    assert remedies(claim, slices=of_models("A100")) == (SelectorsDropped("default/claim", "a", (0, 2)),)


def test_of_two_sets_of_claims_the_shorter_is_reported() -> None:
    held = [an_allocated_claim(f"d{n}", name=f"c{n}") for n in (0, 1, 2, 5)]
    members = [a_device(f"d{n}", {"numa": n // 4}) for n in range(8)]
    claim = a_claim(a_request("r", 4), constraints=[match(NUMA)])
    held += [an_allocated_claim("d6", name="c6")]
    found = [one for one in remedies(claim, slices=[a_slice(*members)], held=held) if isinstance(one, ClaimsReleased)]
    assert found == [ClaimsReleased(("default/c5", "default/c6"))]


def test_set_of_claims_is_not_reported_where_the_budget_does_not_show_which_can_be_spared() -> None:
    held = [an_allocated_claim(f"gpu-{n:03}", name=f"c{n}") for n in range(60)]
    claim = a_claim(a_request("r", 30))
    found = explained(claim, slices=[a_slice(*devices(60))], held=held, all_steps=4_000)
    assert (found.remedies, found.is_whole) == ((), False)


def test_count_that_is_not_known_to_be_the_largest_leaves_a_gap() -> None:
    """One question goes to the conflict, two to the counts 4 and 6, and none is left for 5."""
    found = explained(a_claim(a_request("r", 8)), slices=[a_slice(*devices(5))], all_steps=250)
    assert found.remedies == (CountLowered("default/claim", "r", 4, of_all=False),)
    assert not found.is_whole


def test_release_of_a_claim_on_another_node_helps_where_counters_are_shared() -> None:
    takes = (CounterConsumption("set-0", {"memory": Quantity.parse("2")}),)
    counters = CounterSet("set-0", {"memory": Quantity.parse("2")})
    slices = [
        a_slice(a_device("here", consumes_counters=takes), name="0", slice_count=3),
        a_slice(a_device("there", consumes_counters=takes), name="1", slice_count=3, reach=on_node("node-1")),
        a_slice(name="2", slice_count=3, counter_sets=(counters,), reach=everywhere()),
    ]
    held = [an_allocated_claim("there")]
    assert remedies(a_claim(), slices=slices, held=held) == (ClaimsReleased(("default/holder",)),)


def test_admin_access_has_nothing_to_release() -> None:
    watcher = an_allocated_claim(a_result("gpu-000", admin_access=True))
    found = remedies(a_claim(a_request("r", 2)), slices=[a_slice(*devices(1))], held=[watcher])
    assert found == (CountLowered("default/claim", "r", 1, of_all=False),)


def tolerated(request: str, taint: Taint) -> ToleratedTaint:
    return ToleratedTaint("default/claim", request, taint.key, taint.effect)


def test_each_taint_whose_toleration_suffices_is_reported() -> None:
    members = [a_device("x", taints=(MAINTENANCE,)), a_device("y", taints=(FAULTY,))]
    assert remedies(a_claim(a_request("r")), slices=[a_slice(*members)]) == (
        TaintsTolerated((tolerated("r", MAINTENANCE),)),
        TaintsTolerated((tolerated("r", FAULTY),)),
    )


def test_taints_that_have_to_be_tolerated_together_are_reported() -> None:
    members = [a_device("x", taints=(MAINTENANCE, FAULTY)), a_device("y", taints=(Taint("note", "", "None"),))]
    claim = a_claim(a_request("r"), a_request("s"))
    (found,) = remedies(claim, slices=[a_slice(*members)])
    assert isinstance(found, TaintsTolerated)
    assert {(taint.key, taint.effect) for taint in found.taints} == {
        ("maintenance", "NoSchedule"),
        ("faulty", "NoExecute"),
    }
    assert len({taint.request for taint in found.taints}) == 1


def test_taint_that_several_requests_meet_is_tolerated_by_all_of_them() -> None:
    members = [a_device(name, taints=(MAINTENANCE,)) for name in "xy"]
    claim = a_claim(a_request("r"), a_request("s"))
    assert remedies(claim, slices=[a_slice(*members)]) == (
        TaintsTolerated((tolerated("r", MAINTENANCE), tolerated("s", MAINTENANCE))),
    )


def test_tolerated_taint_is_no_remedy() -> None:
    tolerations = (Toleration("maintenance", "Exists"),)
    claim = a_claim(a_request("r", 2, tolerations=tolerations))
    found = remedies(claim, slices=[a_slice(a_device("x", taints=(MAINTENANCE,)))])
    assert found == (CountLowered("default/claim", "r", 1, of_all=False),)


def test_where_nothing_helps_nothing_is_reported() -> None:
    found = explained(a_claim(a_request("r")), slices=[a_slice()])
    assert (found.remedies, found.is_whole) == ((), True)


# -- the whole story


def test_outcome_that_is_not_known_has_no_conflict() -> None:
    members = [a_device(f"d{n}", {"numa": n // 2, "card": n % 7}) for n in range(14)]
    claim = a_claim(a_request("a", 3), constraints=[match(NUMA), distinct(CARD)])
    snapshot = a_snapshot(a_slice(*members))
    found = explain_on(snapshot, a_node(), [claim], {}, budget_steps=0)
    assert isinstance(found.answer, Exhausted)
    assert found.conflict is None
    assert CountLowered("default/claim", "a", 2, of_all=False) in found.remedies


def test_error_that_ends_the_attempt_is_the_answer() -> None:
    snapshot = a_snapshot(a_slice("x"))
    found = explain_on(snapshot, a_node(), [a_claim(a_request(class_name="missing"))], {})
    assert "device class missing does not exist" in str(found.answer)
    assert found.offer.funnels == ()
    assert (found.conflict, found.remedies) == (None, ())


def test_error_that_a_device_makes_leaves_the_funnel() -> None:
    fails = 'device.attributes["gpu.example"].numa == 0'
    found = explained(a_claim(a_request("r", 1, fails)), slices=[a_slice("x")])
    assert "no such key" in str(found.answer)
    (funnel,) = found.offer.funnels
    assert [device.device for device in funnel.unjudged] == ["x"]


def test_funnel_of_every_alternative_is_reported() -> None:
    request = first_available("r", an_alternative("five", count=5), an_alternative("two", count=2))
    found = explained(a_claim(a_request("a"), request), slices=[a_slice(*devices(3))])
    assert [(f.request, f.mode, f.wanted, f.total, len(f.left)) for f in found.offer.funnels] == [
        ("a", "ExactCount", 1, 3, 3),
        ("r/five", "ExactCount", 5, 3, 3),
        ("r/two", "ExactCount", 2, 3, 3),
    ]


def test_alternative_that_was_passed_over_is_reported_with_its_reason() -> None:
    request = first_available("r", an_alternative("five", count=5), an_alternative("two", count=2))
    found = explained(a_claim(request), slices=[a_slice(*devices(3))])
    assert isinstance(found.answer, Allocated)
    ((claim, name, answer),) = [(one.claim, one.request, one.answer) for one in found.passed_over]
    assert (claim, name) == ("default/claim", "r/five")
    assert isinstance(answer, Refused)


def test_devices_that_match_but_are_held_or_tainted_are_counted() -> None:
    members = [*devices(3), a_device("t", taints=(MAINTENANCE,)), a_device("other", {"odd": True})]
    claim = a_claim(a_request("r", 5, '!("odd" in device.attributes["gpu.example"])'))
    found = explained(claim, slices=[a_slice(*members)], held=[an_allocated_claim("gpu-001")])
    (funnel,) = found.offer.funnels
    assert (funnel.total, funnel.matching, len(funnel.left)) == (5, 4, 2)


def test_values_of_a_constraint_are_counted_free_and_whoever_holds_them() -> None:
    members = [a_device(f"d{n}", {"numa": n // 3}) for n in range(6)]
    held = [an_allocated_claim("d0", "d4", "d5")]
    claim = a_claim(a_request("a", 3), constraints=[match(NUMA)])
    found = explained(claim, slices=[a_slice(*members, a_device("bare"))], held=held)
    (offered,) = found.offer.constraints
    assert (offered.field, offered.attribute, offered.requests) == ("matchAttribute", NUMA, ("a",))
    assert (offered.wanted, offered.best, offered.without) == (3, 2, 1)
    assert [(count.value, count.free, count.matching) for count in offered.values] == [("0", 2, 3), ("1", 1, 3)]


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (7, "7"), ("left", "left"), (("version", "1.0.0"), "1.0.0")],
)
def test_values_are_written_as_people_write_them(value: Any, text: str) -> None:
    claim = a_claim(a_request("a", 2), constraints=[match(NUMA)])
    found = explained(claim, slices=[a_slice(a_device("x", {"numa": value}))])
    assert [count.value for count in found.offer.constraints[0].values] == [text]


def test_list_counts_for_each_of_its_values_where_lists_compare() -> None:
    member = a_device("x", {"numa": ("strings", ("a", "b"))})
    claim = a_claim(a_request("a", 2), constraints=[match(NUMA)])
    for has_lists, values in (
        (True, ["a", "b"]),
        (False, ["a list (equal to nothing while DRAListTypeAttributes is off)"]),
    ):
        features = kubernetes("1.36", DRAListTypeAttributes=has_lists)
        found = explain_on(a_snapshot(a_slice(member), features=features), a_node(), [claim], {})
        assert [count.value for count in found.offer.constraints[0].values] == values


def test_pools_that_cannot_be_used_are_reported() -> None:
    slices = [a_slice("x", pool="half", slice_count=2), a_slice("y", "y", pool="twice"), a_slice("z", pool="good")]
    found = explained(a_claim(a_request("r", 2)), slices=slices)
    reported = {pool.pool: what for pool, what in found.offer.unusable}
    assert reported["half"].startswith("is being updated: ")
    assert reported["twice"].startswith("is invalid: ")
    assert "good" not in reported
