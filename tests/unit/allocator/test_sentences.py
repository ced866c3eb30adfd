"""The sentences that people read of conflicts, near misses and remedies; the facts come from the allocator."""

from collections.abc import Sequence

import pytest

from allocator.explain.node_explanation import (
    ClaimsReleased,
    Conflict,
    ConflictingConstraint,
    ConflictingRequest,
    ConstraintDropped,
    CountLowered,
    NodeExplanation,
    Remedy,
    TaintsTolerated,
    ToleratedTaint,
    explain_on,
)
from allocator.explain.offer import Offer
from allocator.explain.text import (
    OPERATOR,
    conflict_text,
    constraint_offer_text,
    left_text,
    near_miss,
    refusal_text,
    remedy_text,
    remedy_texts,
)
from allocator.model import Claim, CounterConsumption, CounterSet, DeviceID, Slice, Taint
from allocator.outcome import DeviceRefusal
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
    first_available,
    match,
)

NUMA = f"{DRIVER}/numa"
CARD = f"{DRIVER}/card"
TAINT = Taint("maintenance", "", "NoSchedule")
IS_GPU = f'device.attributes["{DRIVER}"].gpu'


def explained(*claims: Claim, slices: Sequence[Slice], held: Sequence[Claim] = ()) -> NodeExplanation:
    snapshot = a_snapshot(*slices, held=held)
    return explain_on(snapshot, a_node(), claims, {str(claim): claim for claim in held})


def because(*claims: Claim, slices: Sequence[Slice], held: Sequence[Claim] = ()) -> str:
    found = explained(*claims, slices=slices, held=held).conflict
    assert found is not None
    return conflict_text(found, "n7")


# -- conflicts


def test_request_that_is_short_of_devices() -> None:
    assert because(a_claim(a_request("gpus", 4)), slices=[a_slice(*devices(3))]) == (
        "Because request gpus needs 4 devices, and 3 are left on node n7, "
        "claim default/claim cannot be allocated there."
    )


def test_request_that_is_short_says_what_keeps_the_others_away() -> None:
    members = [*devices(2), a_device("t", taints=(TAINT,))]
    text = because(a_claim(a_request("gpus", 3)), slices=[a_slice(*members)], held=[an_allocated_claim("gpu-000")])
    assert (
        "needs 3 devices, and 1 is left on node n7 "
        "(2 more match, but 1 is tainted maintenance:NoSchedule and 1 is held by default/holder)"
    ) in text


def test_request_for_all_of_which_some_cannot_be_had() -> None:
    text = because(a_claim(all_devices("gpus")), slices=[a_slice(*devices(4))], held=[an_allocated_claim("gpu-000")])
    assert (
        "request gpus needs all of 4 devices on node n7, and 1 are unavailable: "
        "1 more matches, but is held by default/holder"
    ) in text


def test_request_for_all_of_none() -> None:
    text = because(a_claim(all_devices("gpus", "false")), slices=[a_slice("x")])
    assert "request gpus needs all devices that it matches, and it matches none on node n7" in text


def test_request_with_alternatives_says_what_each_lacks() -> None:
    request = first_available("r", an_alternative("five", count=5), an_alternative("four", count=4))
    text = because(a_claim(request), slices=[a_slice(*devices(3))])
    assert text.startswith(
        "Because request r as r/five needs 5 devices, and 3 are left on node n7; "
        "as r/four needs 4 devices, and 3 are left on node n7, claim"
    )


def test_no_value_with_enough_devices() -> None:
    members = [a_device(f"d{n}", {"numa": n // 3}) for n in range(6)]
    claim = a_claim(a_request("gpus", 4), constraints=[match(NUMA)])
    assert because(claim, slices=[a_slice(*members)]).startswith(
        f"Because request gpus needs 4 devices with one {NUMA}, and no value has more than 3 free on node n7, claim"
    )


def test_no_value_that_serves_several_requests() -> None:
    members = [a_device(f"{kind}{n}", {"numa": n, "gpu": kind == "g"}) for kind, n in ("g0", "g0", "n1", "n1")]
    members = [a_device(f"{m.name}-{number}", m.attributes) for number, m in enumerate(members)]
    claim = a_claim(a_request("gpus", 1, IS_GPU), a_request("nics", 1, f"!{IS_GPU}"), constraints=[match(NUMA)])
    assert (
        f"request gpus and request nics need 2 devices with one {NUMA}, "
        "and no value has enough for each of them on node n7: at most 1 together"
    ) in because(claim, slices=[a_slice(*members)])


def test_attribute_that_no_device_has() -> None:
    claim = a_claim(a_request("gpus"), constraints=[match(NUMA)])
    assert f"request gpus needs 1 device with one {NUMA}, and no device that is left on node n7 has that attribute" in (
        because(claim, slices=[a_slice("x")])
    )


def test_too_few_different_values() -> None:
    members = [a_device(f"d{n}", {"card": n % 2}) for n in range(6)]
    claim = a_claim(a_request("gpus", 3), constraints=[distinct(CARD)])
    assert (
        f"request gpus needs 3 devices with different values of {CARD}, and there are only 2 such values on node n7"
    ) in because(claim, slices=[a_slice(*members)])


def test_constraints_that_exclude_each_other() -> None:
    members = [
        a_device(f"d{n}", {"numa": numa, "card": card}) for n, (numa, card) in enumerate([(0, 0), (0, 0), (1, 1)])
    ]
    claim = a_claim(a_request("r", 2), constraints=[match(NUMA), distinct(CARD)])
    assert (
        f"request r needs 2 devices under matchAttribute {NUMA} and distinctAttribute {CARD}, "
        "and no choice of devices on node n7 satisfies that"
    ) in because(claim, slices=[a_slice(*members)])


def test_constraint_whose_values_do_not_report_why_is_named() -> None:
    takes = (CounterConsumption("set-0", {"memory": Quantity.parse("2")}),)
    here = [a_device(f"d{n}", {"numa": 0}, consumes_counters=takes) for n in range(2)]
    there = a_device("far", {"numa": 1})
    counters = CounterSet("set-0", {"memory": Quantity.parse("2")})
    slices = [a_slice(*here, there, slice_count=2), a_slice(name="sets", slice_count=2, counter_sets=(counters,))]
    text = because(a_claim(a_request("r", 2), constraints=[match(NUMA)]), slices=slices)
    assert f"request r needs 2 devices under matchAttribute {NUMA}, and no choice of devices on node n7" in text


def test_requests_of_several_claims_that_compete() -> None:
    claims = [a_claim(a_request("r", 2), name="a"), a_claim(a_request("r", 2), name="b")]
    assert because(*claims, slices=[a_slice(*devices(3))]) == (
        "Because request r of claim default/a and request r of claim default/b need 4 devices together, and only 3 on "
        "node n7 can serve any of them, claims default/a and default/b cannot be allocated there."
    )


def test_counters_that_do_not_suffice() -> None:
    takes = (CounterConsumption("set-0", {"memory": Quantity.parse("2")}),)
    members = [a_device(f"d{n}", consumes_counters=takes) for n in range(4)]
    counters = CounterSet("set-0", {"memory": Quantity.parse("5")})
    slices = [a_slice(*members, slice_count=2), a_slice(name="sets", slice_count=2, counter_sets=(counters,))]
    assert ("request r needs 3 devices, and those on node n7 need more counters than are left") in because(
        a_claim(a_request("r", 3)), slices=slices
    )


def test_requests_that_nothing_else_is_known_of() -> None:
    request = first_available("r", an_alternative("two", count=2), an_alternative("three", count=3))
    members = [a_device("s", capacity={"bandwidth": "1"}, allow_multiple_allocations=True), a_device("x")]
    text = because(a_claim(request, a_request("q", 2)), slices=[a_slice(*members)])
    assert (
        "request r and request q need 4 devices together, and no choice of devices on node n7 satisfies all of them"
    ) in text


def test_pools_that_cannot_be_used_are_reported_beside() -> None:
    text = because(a_claim(), slices=[a_slice("x", slice_count=2)])
    assert text.endswith(f" Pool {DRIVER}/pool-0 is being updated: 1 of 2 slices of generation 1 exist.")


def test_conflict_that_may_not_be_minimal_says_so() -> None:
    member = ConflictingRequest("ml/a", "r")
    conflict = Conflict((member,), False, Offer(), 1, None, ())
    assert conflict_text(conflict, "n7").endswith(" A smaller conflict may exist.")


# -- near misses and constraints


def miss(claim: Claim, *slices: Slice, held: Sequence[Claim] = ()) -> str:
    (funnel,) = explained(claim, slices=slices, held=held).offer.funnels
    return near_miss(funnel)


def test_near_miss_names_who_holds_what_is_missing() -> None:
    held = [an_allocated_claim("gpu-000", "gpu-001", name="a"), an_allocated_claim("gpu-002", name="b")]
    assert miss(a_claim(a_request("r", 3)), a_slice(*devices(5)), held=held) == (
        "2 of 3 found; 3 more match, but are held by default/a \N{MULTIPLICATION SIGN}2, default/b"
    )


def test_near_miss_names_the_capacity_that_is_short() -> None:
    member = a_device("x", capacity={"bandwidth": "10"}, allow_multiple_allocations=True)
    taken = a_result("x", share_id="s", consumed_capacity={"bandwidth": Quantity.parse("10")})
    assert miss(a_claim(), a_slice(member), held=[an_allocated_claim(taken)]) == (
        "0 of 1 found; 1 more matches, but has too little capacity left "
        "(every share takes all of capacity bandwidth, which has no request policy)"
    )


@pytest.mark.parametrize("claim", [a_claim(a_request("r", 2)), a_claim(a_request("r", 9))])
def test_without_others_that_match_there_is_no_near_miss(claim: Claim) -> None:
    assert miss(claim, a_slice(*devices(3))) == ""


def test_request_that_has_enough_misses_nothing() -> None:
    assert miss(a_claim(), a_slice(*devices(3)), held=[an_allocated_claim("gpu-000")]) == ""


def test_constraint_reports_the_devices_of_each_value() -> None:
    members = [a_device(f"d{n}", {"numa": n // 2}) for n in range(4)]
    claim = a_claim(a_request("a"), a_request("b"), constraints=[match(NUMA)])
    found = explained(claim, slices=[a_slice(*members, "bare")], held=[an_allocated_claim("d3")])
    assert constraint_offer_text(found.offer.constraints[0]) == (
        f"constraint #0: one {NUMA} for 2 devices of request a and request b: "
        "0 has 2 free of 2, 1 has 1 free of 2, 1 device without it"
    )


def test_constraint_with_many_values_reports_the_largest() -> None:
    members = [a_device(f"d{n}", {"card": n}) for n in range(10)]
    found = explained(a_claim(a_request("a"), constraints=[distinct(CARD)]), slices=[a_slice(*members)])
    text = constraint_offer_text(found.offer.constraints[0])
    assert text.startswith(f"constraint #0: different values of {CARD} for 1 device of request a: 0 has 1 free of 1, ")
    assert text.endswith("7 has 1 free of 1, and 2 more values")


def test_constraint_over_nothing_reports_so() -> None:
    found = explained(a_claim(constraints=[match(NUMA, "other")]), slices=[a_slice("x")])
    assert constraint_offer_text(found.offer.constraints[0]) == (
        f"constraint #0: one {NUMA} for 0 devices of no request: no device has it"
    )


# -- remedies

CONSTRAINT = ConflictingConstraint("ml/a", 1, "matchAttribute", NUMA)
TOLERATED = ToleratedTaint("ml/a", "r", "maintenance", "NoSchedule")


@pytest.mark.parametrize(
    ("remedy", "alone", "among_many"),
    [
        (CountLowered("ml/a", "r", 3, of_all=False), "request r: count 3", "request r of claim ml/a: count 3"),
        (
            CountLowered("ml/a", "r", 3, of_all=True),
            "request r: count 3 instead of all",
            "request r of claim ml/a: count 3 instead of all",
        ),
        (
            ConstraintDropped(CONSTRAINT),
            f"constraint #1 (matchAttribute {NUMA}) dropped",
            f"claim ml/a, constraint #1 (matchAttribute {NUMA}) dropped",
        ),
        (ClaimsReleased(("ml/x",)), "claim ml/x released", "claim ml/x released"),
        (ClaimsReleased(("x", "y", "z")), "claims x, y and z released", "claims x, y and z released"),
        (
            TaintsTolerated((TOLERATED,)),
            "taint maintenance:NoSchedule tolerated by request r",
            "taint maintenance:NoSchedule tolerated by request r of claim ml/a",
        ),
    ],
)
def test_remedy_is_reported_in_a_few_words(remedy: Remedy, alone: str, among_many: str) -> None:
    assert remedy_text(remedy) == alone
    assert remedy_text(remedy, has_many_claims=True) == among_many


def test_claims_of_which_any_one_will_do_share_a_line() -> None:
    one, other, both = ClaimsReleased(("ml/x",)), ClaimsReleased(("ml/y",)), ClaimsReleased(("ml/y", "ml/z"))
    count = CountLowered("ml/a", "r", 3, of_all=False)
    assert remedy_texts([count, one, other]) == ["request r: count 3", "any one of these claims released: ml/x, ml/y"]
    assert remedy_texts([one]) == ["claim ml/x released"]
    assert remedy_texts([both]) == ["claims ml/y and ml/z released"]


# -- numbers of one


@pytest.mark.parametrize(
    ("reason", "of_one"),
    [
        ("are in use", "is in use"),
        (
            "are incompatible with what is allocated of their counter set",
            "is incompatible with what is allocated of its counter set",
        ),
        ("have unknown fields", "has unknown fields"),
        ("consume counters, and X is off", "consumes counters, and X is off"),
        ("do not offer the requested capacity", "does not offer the requested capacity"),
        ("fail selector #0 of class gpu (false)", "fails selector #0 of class gpu (false)"),
        ("have too little capacity left", "has too little capacity left"),
        ("need more of their counters than is left", "needs more of its counters than is left"),
        ("skip node operations, and X is off", "skips node operations, and X is off"),
        ("stand elsewhere", "stand elsewhere"),
    ],
)
def test_one_device_is_reported_in_the_singular(reason: str, of_one: str) -> None:
    device = DeviceID(DRIVER, "pool-0", "x")
    assert refusal_text(DeviceRefusal(reason, 1, (device,)), reader=OPERATOR) == f"1 {of_one}"
    assert refusal_text(DeviceRefusal(reason, 2, (device, device)), reader=OPERATOR) == f"2 {reason}"


def test_number_of_devices_that_are_left_decides_the_verb() -> None:
    assert [left_text(number) for number in (0, 1, 2)] == ["0 are left", "1 is left", "2 are left"]
