from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from allocator.allocate import allocate, share_id_of
from allocator.cluster.snapshot import Snapshot
from allocator.features.consumable_capacity import Unrepresentable, consumed_amount, consumed_by_share
from allocator.gates import RELEASES, Features
from allocator.model import Claim, Device, DeviceResult, Request, RequestPolicy, Taint, ValidRange
from allocator.outcome import FREE_STEPS, WORK_OF_A_STEP, Allocated, Budget, InvalidClaim, Refused
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
    distinct,
    first_available,
    kubernetes,
)
from tests.unit.allocator.answers import blocked, conflict, decide, funnel, names, refusal, results, shortage

STRICT = kubernetes(is_strict=True)


def q(text: str) -> Quantity:
    return Quantity.parse(text)


def a_range(minimum: str, maximum: str = "", step: str = "", default: str = "") -> RequestPolicy:
    bounds = ValidRange(q(minimum), q(maximum) if maximum else None, q(step) if step else None)
    return RequestPolicy(q(default or minimum), valid_range=bounds)


def values(default: str, *valid: str) -> RequestPolicy:
    return RequestPolicy(q(default), valid_values=tuple(map(q, valid)))


def amount(requested: str | None, policy: RequestPolicy | None, value: str = "10Gi", *, fractions: bool = True) -> str:
    """What a request takes of a capacity, as text."""
    wanted = None if requested is None else q(requested)
    return str(consumed_amount(wanted, q(value), policy, is_fractional=fractions))


# -- amounts


def test_without_a_request_a_share_takes_all_unless_the_policy_has_a_default() -> None:
    assert amount(None, None) == "10Gi"
    assert amount(None, RequestPolicy()) == "10Gi"
    assert amount(None, RequestPolicy(q("1Gi"))) == "1Gi"


def test_without_a_policy_a_share_takes_what_is_requested() -> None:
    assert amount("3", None) == "3"
    assert amount("700m", RequestPolicy(q("1"))) == "700m"


@pytest.mark.parametrize(
    ("requested", "taken"),
    [
        (None, "1Gi"),
        ("500Mi", "1Gi"),
        ("1500Mi", "3Gi"),
        ("3Gi", "3Gi"),
        ("3073Mi", "5Gi"),
        ("7Gi", "7Gi"),
        ("7500Mi", "9Gi"),
    ],
)
def test_range_with_steps_rounds_up(requested: str | None, taken: str) -> None:
    assert q(amount(requested, a_range("1Gi", "7Gi", "2Gi"))) == q(taken)


def test_range_without_steps_rounds_up_to_its_minimum_only() -> None:
    assert amount("1", a_range("2", "5")) == "2"
    assert amount("2500m", a_range("2", "5")) == "2500m"


@pytest.mark.parametrize(("requested", "taken"), [("0", "2"), ("2", "2"), ("3", "4"), ("8", "8"), ("9", "9")])
def test_valid_values_round_up_to_the_next_one(requested: str, taken: str) -> None:
    assert amount(requested, values("2", "2", "4", "8")) == taken


@pytest.mark.parametrize(
    ("requested", "with_fractions", "without"), [("250m", "300m", "1"), ("200m", "200m", "1"), ("100m", "200m", "200m")]
)
def test_ranges_count_in_thousandths_with_the_gate_for_fractions(
    requested: str, with_fractions: str, without: str
) -> None:
    policy = a_range("200m", "1", "100m")
    assert q(amount(requested, policy)) == q(with_fractions)
    assert q(amount(requested, policy, fractions=False)) == q(without)


def test_request_finer_than_thousandths_cannot_be_counted_with_the_gate_for_fractions() -> None:
    policy = a_range("1", "5", "1")
    assert amount("1000500u", policy, fractions=False) == "2"
    with pytest.raises(Unrepresentable, match="not a whole number of thousandths"):
        amount("1000500u", policy)


def test_bounds_finer_than_thousandths_are_counted_whole() -> None:
    assert amount("1500m", a_range("1", "5", "1500u")) == "2"


@pytest.mark.parametrize("requested", ["20E", str(2**63)])
def test_request_beyond_64_bits_cannot_be_counted(requested: str) -> None:
    for fractions in (True, False):
        with pytest.raises(Unrepresentable):
            amount(requested, a_range("1", step="2"), fractions=fractions)


def test_rounding_beyond_64_bits_cannot_be_counted() -> None:
    with pytest.raises(Unrepresentable, match=r"passes 2\*\*63-1"):
        amount(str(2**63 - 1), a_range("2", step="2"), fractions=False)


def test_step_of_more_digits_than_python_prints_cannot_be_counted() -> None:
    with pytest.raises(Unrepresentable, match="rounding 1 up to the step of the range passes"):
        amount("1", a_range("0", step="1e5000"))


def test_request_beyond_64_bits_is_fine_where_nothing_is_rounded() -> None:
    assert q(amount("20E", a_range("1"))) == q("20E")


def test_step_of_zero_is_reported_and_not_divided_by() -> None:
    with pytest.raises(Unrepresentable, match="step of the range is 0"):
        amount("3", a_range("1", "5", "0"))


# -- parts of a device


def part(
    device: Mapping[str, str], requested: Mapping[str, str], policies: Mapping[str, RequestPolicy] | None = None
) -> Mapping[str, Quantity] | None:
    member = a_device("x", capacity=device, policies=policies or {})
    return consumed_by_share(member, {name: q(text) for name, text in requested.items()}, kubernetes())


def test_part_has_every_capacity_of_the_device() -> None:
    assert part({"memory": "4", "slots": "2"}, {"memory": "1"}) == {"memory": q("1"), "slots": q("2")}
    assert part({}, {}) == {}


def test_capacity_that_the_device_does_not_have_cannot_be_had() -> None:
    assert part({"memory": "4"}, {"slots": "1"}) is None


LONG = f"{DRIVER}/memory"
"""The name `memory` of the driver's devices in full."""


@pytest.mark.parametrize("requested", ["memory", LONG])
@pytest.mark.parametrize("published", ["memory", LONG])
def test_a_capacity_without_domain_is_the_drivers_and_is_named_as_the_slice_names_it(
    published: str, requested: str
) -> None:
    assert part({published: "4"}, {requested: "1"}) == {published: q("1")}
    assert part({published: "4"}, {requested: "1"}, {published: values("4", "2", "4")}) == {published: q("2")}
    assert part({published: "4"}, {"other.example/memory": "1"}) is None


def test_a_capacity_of_another_domain_is_another_one() -> None:
    assert part({"other.example/memory": "4"}, {"memory": "1"}) is None
    assert part({"other.example/memory": "4", "memory": "2"}, {"memory": "1"}) == {
        "other.example/memory": q("4"),
        "memory": q("1"),
    }


def test_a_request_that_names_a_capacity_twice_is_reported_where_a_device_has_it() -> None:
    with pytest.raises(Unrepresentable, match=f"'{LONG}' is also requested as 'memory', its other name"):
        part({"memory": "4"}, {"memory": "1", LONG: "1"})
    assert part({"slots": "4"}, {"memory": "1", LONG: "1"}) is None
    elsewhere = a_device("x", capacity={"memory": "4", LONG: "4"}, driver="other.example")
    both = {"memory": q("1"), LONG: q("2")}
    assert consumed_by_share(elsewhere, both, kubernetes()) == both


def test_a_device_with_both_spellings_has_one_capacity_which_is_the_one_with_the_domain() -> None:
    twice, policies = {"memory": "10", LONG: "3"}, {"memory": values("2", "2"), LONG: a_range("1")}
    assert part(twice, {"memory": "2"}) == part(twice, {LONG: "2"}) == {LONG: q("2")}
    assert part(twice, {"memory": "5"}) is None
    assert part(twice, {"memory": "500m"}, policies) == {LONG: q("1")}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("published", "held"), [("memory", LONG), (LONG, "memory")])
def test_what_is_held_under_the_other_spelling_is_not_given_again(release: str, published: str, held: str) -> None:
    member = a_device("x", capacity={published: "10"}, allow_multiple_allocations=True)
    share = a_result("x", share_id="s", consumed_capacity={held: q("8")})
    on = {} if release in {"1.37", "1.38", "1.36"} else {"DRAConsumableCapacity": True}
    snapshot = a_snapshot(a_slice(member), held=[an_allocated_claim(share)], features=kubernetes(release, **on))
    assert isinstance(decide(snapshot, a_claim(wanting("4"))), Refused)
    (given,) = results(decide(snapshot, a_claim(a_request("gpus", capacity={held: q("2")}))))
    assert given.consumed_capacity == {published: q("2")}


@pytest.mark.parametrize(
    ("release", "is_strict", "is_given"),
    [("1.36", True, False), ("1.37", True, False), ("1.38", True, True), ("1.37", False, True)],
)
@pytest.mark.parametrize(("published", "asked"), [("memory", LONG), (LONG, "memory")])
def test_only_a_strict_request_before_1_38_has_to_spell_the_name_as_the_device_does(
    release: str, published: str, asked: str, *, is_strict: bool, is_given: bool
) -> None:
    device = a_device("x", capacity={published: "4"})
    share = consumed_by_share(device, {asked: q("2")}, kubernetes(release, is_strict=is_strict))
    assert share == ({published: q("2")} if is_given else None)


def test_two_claims_of_one_attempt_cannot_take_the_same_under_two_spellings() -> None:
    snapshot = a_snapshot(a_slice(a_shared(memory="10")))
    claims = [a_claim(a_request("gpus", capacity={name: q("8")}), name=name[:4]) for name in ("memory", LONG)]
    assert isinstance(decide(snapshot, *claims), Refused)


def test_a_request_for_less_than_nothing_ends_the_attempt_since_1_38() -> None:
    rounded = a_device("x", capacity={"memory": "4"}, policies={"memory": values("2", "2", "4")})
    assert consumed_by_share(rounded, {"memory": q("-1")}, kubernetes("1.37")) == {"memory": q("2")}
    with pytest.raises(Unrepresentable, match="an amount of -1 is negative"):
        consumed_by_share(rounded, {"memory": q("-1")}, kubernetes("1.38"))


@pytest.mark.parametrize(
    ("requested", "policy"),
    [
        ("5", None),
        ("4", a_range("1", "3")),
        ("3", a_range("1", "2", "1")),
        ("9", values("2", "2", "4", "8")),
        ("2500m", a_range("1", "2", "1")),
    ],
)
def test_amount_beyond_the_device_or_its_policy_cannot_be_had(requested: str, policy: RequestPolicy | None) -> None:
    assert part({"memory": "4"}, {"memory": requested}, {"memory": policy} if policy else {}) is None


def test_default_is_valid_even_where_it_is_no_valid_value() -> None:
    assert part({"memory": "4"}, {}, {"memory": values("3", "1", "2")}) == {"memory": q("3")}


@pytest.mark.parametrize(
    ("requested", "policy"),
    [
        (None, values("0.5Gi", "1Gi")),
        ("+3", values("3", "1", "2")),
        ("3", a_range("1", "2", "1", default="3")),
    ],
)
def test_default_is_valid_only_where_it_is_written_alike_and_held_as_a_small_number(
    requested: str | None, policy: RequestPolicy
) -> None:
    assert part({"memory": "4Gi"}, {"memory": requested} if requested else {}, {"memory": policy}) is None


def test_a_default_is_valid_whatever_its_form_since_1_38() -> None:
    member = a_device("x", capacity={"memory": "4Gi"}, policies={"memory": values("0.5Gi", "1Gi")})
    assert consumed_by_share(member, {}, kubernetes("1.38")) == {"memory": q("0.5Gi")}
    assert consumed_by_share(member, {}, kubernetes("1.37")) is None


def test_policy_is_asked_before_what_the_device_has() -> None:
    endless = RequestPolicy(valid_range=ValidRange(step=q("1")))
    with pytest.raises(Unrepresentable, match="the range has a step but no minimum"):
        part({"memory": "4"}, {"memory": "9"}, {"memory": endless})
    assert part({"memory": "1n"}, {}, {"memory": RequestPolicy(valid_range=ValidRange(step=q("1m")))}) is None


def test_negative_minimum_cannot_be_counted_in_thousandths() -> None:
    with pytest.raises(Unrepresentable, match="the minimum -500m is negative"):
        amount("1", a_range("-500m", step="1"))


def test_request_for_nothing_takes_nothing() -> None:
    assert part({"memory": "4"}, {"memory": "0"}) == {"memory": q("0")}


def test_negative_amount_cannot_be_counted() -> None:
    with pytest.raises(Unrepresentable, match=r"capacity 'gpu\.example/memory': an amount of -1 is negative"):
        part({"memory": "4"}, {"memory": "-1"})


def test_whole_device_with_a_negative_capacity_cannot_be_counted() -> None:
    snapshot = a_snapshot(a_slice(a_device("x", capacity={"memory": "-1"})))
    with pytest.raises(InvalidClaim, match=r"capacity 'gpu\.example/memory': an amount of -1 is negative"):
        decide(snapshot, a_claim())


# -- shares of devices


def a_shared(name: str = "x", memory: str = "4", policy: RequestPolicy | None = None) -> Device:
    policies = {"memory": policy} if policy else {}
    return a_device(name, capacity={"memory": memory}, allow_multiple_allocations=True, policies=policies)


def wanting(memory: str, name: str = "gpus", count: int = 1) -> Request:
    return a_request(name, count, capacity={"memory": q(memory)})


def shares(number: int, memory: str) -> list[Claim]:
    return [a_claim(wanting(memory), name=f"claim-{n}") for n in range(number)]


def held_share(device: str = "x", memory: str = "1", share_id: str = "s") -> DeviceResult:
    return a_result(device, share_id=share_id, consumed_capacity={"memory": q(memory)})


def test_share_has_an_id_and_says_what_it_consumes() -> None:
    (result,) = results(decide(a_snapshot(a_slice(a_shared())), a_claim(wanting("1"))))
    assert result.share_id
    assert result.consumed_capacity == {"memory": q("1")}


def test_share_of_a_device_without_capacity_has_an_id_only() -> None:
    member = a_device("x", allow_multiple_allocations=True)
    (result,) = results(decide(a_snapshot(a_slice(member)), a_claim()))
    assert result.share_id
    assert result.consumed_capacity == {}


def test_whole_device_has_neither() -> None:
    (result,) = results(decide(a_snapshot(a_slice(a_device("x", capacity={"memory": "4"}))), a_claim(wanting("1"))))
    assert (result.share_id, result.consumed_capacity) == ("", {})


def test_ids_of_shares_differ_by_claim_request_and_device_and_are_the_same_in_every_run() -> None:
    snapshot = a_snapshot(a_slice(a_shared("x"), a_shared("y")))
    claims = [a_claim(wanting("1", "a"), wanting("1", "b"), name=name) for name in ("one", "two")]
    claims.append(a_claim(wanting("1", "c", count=2), name="three"))
    ids = [result.share_id for result in results(decide(snapshot, *claims))]
    assert len(set(ids)) == 6
    assert ids == [result.share_id for result in results(decide(snapshot, *claims))]


def test_ids_of_shares_are_the_callers_if_it_wants() -> None:
    snapshot = a_snapshot(a_slice(a_shared()))
    outcome = allocate(snapshot, a_node(), [a_claim(wanting("1"))], share_id=lambda seed: f"<{seed}>")
    assert isinstance(outcome, Allocated)
    assert outcome.allocations[0].results[0].share_id == f"<uid-claim/gpus/{DRIVER}/pool-0/x>"
    assert share_id_of("seed") == share_id_of("seed") != share_id_of("other")


def test_picks_of_an_attempt_add_up() -> None:
    snapshot = a_snapshot(a_slice(a_shared()))
    assert names(decide(snapshot, *shares(4, "1"))) == ["x"] * 4
    assert conflict(decide(snapshot, *shares(5, "1")))
    assert names(decide(a_snapshot(a_slice(a_shared("x"), a_shared("y"))), *shares(3, "2"))) == ["x", "x", "y"]


def test_device_of_which_the_attempt_has_a_share_fails_without_its_twins() -> None:
    members = [a_device("no-candidate"), a_shared("x"), a_shared("y")]
    claims = [a_claim(wanting("2", count=count), name=f"claim-{n}") for n, count in enumerate((1, 1, 2))]
    assert names(decide(a_snapshot(a_slice(*members)), *claims)) == ["x", "y", "x", "y"]


def test_shares_in_use_count() -> None:
    snapshot = a_snapshot(a_slice(a_shared("x"), a_shared("y")), held=[an_allocated_claim(held_share("x", "3"))])
    assert names(decide(snapshot, a_claim(wanting("1")))) == ["x"]
    assert names(decide(snapshot, a_claim(wanting("2")))) == ["y"]


def test_shares_of_several_claims_in_use_add_up() -> None:
    held = [an_allocated_claim(held_share("x", "1", f"s-{n}"), name=f"holder-{n}") for n in range(3)]
    snapshot = a_snapshot(a_slice(a_shared()), held=held)
    assert names(decide(snapshot, a_claim(wanting("1")))) == ["x"]
    found = shortage(decide(snapshot, a_claim(wanting("2"))))
    assert funnel(found) == [("have too little capacity left", ["x"])]


def test_share_in_use_without_a_record_takes_nothing() -> None:
    held = [an_allocated_claim(a_result("x", share_id="s"))]
    assert names(decide(a_snapshot(a_slice(a_shared()), held=held), a_claim(wanting("4")))) == ["x"]


def test_every_capacity_of_the_device_is_checked_also_where_it_is_not_requested() -> None:
    member = a_device("x", capacity={"memory": "4", "bandwidth": "10"}, allow_multiple_allocations=True)
    assert names(decide(a_snapshot(a_slice(member)), *shares(1, "1"))) == ["x"]
    assert conflict(decide(a_snapshot(a_slice(member)), *shares(2, "1")))


def test_request_takes_a_device_once() -> None:
    assert shortage(decide(a_snapshot(a_slice(a_shared())), a_claim(wanting("1", count=2)))).left == 1


def test_requests_of_a_claim_share_a_device() -> None:
    claim = a_claim(wanting("1", "a"), wanting("2", "b"))
    assert names(decide(a_snapshot(a_slice(a_shared())), claim)) == ["x", "x"]


def test_share_that_is_given_back_leaves_its_capacity_to_others() -> None:
    members = [a_shared("x"), a_device("y", {"ok": True}, capacity={"memory": "1"})]
    last = a_request("last", 1, "device.allowMultipleAllocations", capacity={"memory": q("4")})
    assert names(decide(a_snapshot(a_slice(*members)), a_claim(wanting("1", "first"), last))) == ["y", "x"]


def test_device_held_wholly_gives_no_shares() -> None:
    snapshot = a_snapshot(a_slice(a_shared()), held=[an_allocated_claim("x")])
    assert funnel(shortage(decide(snapshot, a_claim(wanting("1"))))) == [("are in use", ["x"])]


def test_device_made_exclusive_while_shares_are_in_use_is_refused_unless_strict() -> None:
    member, held = a_device("x", capacity={"memory": "4"}), [an_allocated_claim(held_share())]
    found = shortage(decide(a_snapshot(a_slice(member), held=held), a_claim(wanting("1"))))
    assert funnel(found) == [("are no longer shared, but shares are in use", ["x"])]
    strict = a_snapshot(a_slice(member), held=held, features=STRICT)
    assert names(decide(strict, a_claim(wanting("1")))) == ["x"]
    assert refusal(decide(strict, a_claim(wanting("4"))))


def test_distinct_attribute_forces_shares_on_different_devices() -> None:
    claim = a_claim(wanting("1", "a"), wanting("1", "b"), constraints=[distinct(f"{DRIVER}/uuid")])
    one = a_device("x", {"uuid": "1"}, capacity={"memory": "4"}, allow_multiple_allocations=True)
    other = a_device("y", {"uuid": "2"}, capacity={"memory": "4"}, allow_multiple_allocations=True)
    assert names(decide(a_snapshot(a_slice(one, other)), claim)) == ["x", "y"]
    assert refusal(decide(a_snapshot(a_slice(one)), claim))


def test_request_for_an_amount_selects_whole_devices_too() -> None:
    members = [a_device(f"d{memory}", capacity={"memory": memory}) for memory in ("1", "2", "4")]
    assert names(decide(a_snapshot(a_slice(*members)), a_claim(wanting("2")))) == ["d2"]
    found = shortage(decide(a_snapshot(a_slice(*members)), a_claim(wanting("3", count=2))))
    assert funnel(found) == [("do not offer the requested capacity (memory 3)", ["d1", "d2"])]


def test_whole_device_takes_nothing_from_a_request_after_it() -> None:
    member = a_device("x", capacity={"memory": "4"})
    snapshot = a_snapshot(a_slice(member, a_shared("y")))
    assert names(decide(snapshot, a_claim(wanting("4", "a")), a_claim(wanting("4", "b"), name="b"))) == ["x", "y"]


# -- All


def wanting_all(memory: str) -> Claim:
    return a_claim(Request("all", (an_alternative("all", mode="All", capacity={"memory": q(memory)}),)))


def test_all_leaves_out_devices_that_could_not_serve_it_even_when_empty() -> None:
    snapshot = a_snapshot(a_slice(a_shared("small", "1"), a_shared("large", "4")))
    assert names(decide(snapshot, wanting_all("2"))) == ["large"]


@pytest.mark.parametrize(("release", "expected"), [("1.37", None), ("1.36", ["y"])])
def test_all_fails_while_one_of_the_devices_is_full_since_1_37(release: str, expected: list[str] | None) -> None:
    held = [an_allocated_claim(held_share("x", "3"))]
    snapshot = a_snapshot(a_slice(a_shared("x"), a_shared("y")), held=held, features=kubernetes(release))
    outcome = decide(snapshot, wanting_all("2"))
    if expected is None:
        assert funnel(blocked(outcome)) == [("have too little capacity left", ["x"])]
    else:
        assert names(outcome) == expected


def test_all_leaves_out_a_full_device_whatever_else_is_wrong_with_it_before_1_37() -> None:
    held = [an_allocated_claim(held_share("x", "3"))]
    full = replace(a_shared("x"), taints=(Taint("k", effect="NoSchedule"),))
    for_1_36 = a_snapshot(a_slice(full, a_shared("y")), held=held, features=kubernetes("1.36"))
    assert names(decide(for_1_36, wanting_all("2"))) == ["y"]
    alone = a_snapshot(a_slice(full), held=held, features=kubernetes("1.36"))
    assert funnel(shortage(decide(alone, wanting_all("2")))) == [("have too little capacity left", ["x"])]


def test_all_takes_a_share_of_every_shared_device() -> None:
    outcome = decide(a_snapshot(a_slice(a_shared("x"), a_shared("y"))), a_claim(all_devices()))
    assert [(result.device, dict(result.consumed_capacity)) for result in results(outcome)] == [
        ("x", {"memory": q("4")}),
        ("y", {"memory": q("4")}),
    ]


# -- what cannot be counted


@pytest.mark.parametrize("release", ["1.37", "1.36"])
def test_amount_that_cannot_be_counted_ends_the_attempt_since_1_37(release: str) -> None:
    odd = a_shared("odd", "40E", a_range("1", step="2"))
    snapshot = a_snapshot(a_slice(odd, a_shared("fine", "40E")), features=kubernetes(release))
    claim = a_claim(wanting("20E"))
    if release == "1.36":
        assert names(decide(snapshot, claim)) == ["fine"]
        return
    device = r"device gpu\.example/pool-0/odd: capacity 'gpu\.example/memory'"
    words = rf"^claim default/claim, request gpus: {device}: .* the range( counts)?"
    with pytest.raises(InvalidClaim, match=words):
        decide(snapshot, claim)


def test_amount_that_cannot_be_counted_stays_hidden_behind_the_devices_that_are_taken() -> None:
    odd = a_shared("odd", "40E", a_range("1", step="2"))
    assert names(decide(a_snapshot(a_slice(a_shared("fine", "40E"), odd)), a_claim(wanting("20E")))) == ["fine"]


def test_amount_that_cannot_be_counted_ends_an_attempt_for_all() -> None:
    odd = a_shared("odd", "40E", a_range("1", step="2"))
    with pytest.raises(InvalidClaim, match=r"device gpu\.example/pool-0/odd"):
        decide(a_snapshot(a_slice(a_shared("fine", "40E"), odd)), wanting_all("20E"))


def test_amount_that_kubernetes_would_misprint_is_refused_unless_strict() -> None:
    member, claim = a_shared("x", "1e22"), a_claim(wanting("1000000000000000000000"))
    with pytest.raises(InvalidClaim, match="Kubernetes would write 1 for 1000E"):
        decide(a_snapshot(a_slice(member)), claim)
    assert names(decide(a_snapshot(a_slice(member), features=STRICT), claim)) == ["x"]
    (given,) = results(decide(a_snapshot(a_slice(member), features=kubernetes("1.38")), claim))
    assert given.consumed_capacity == {"memory": q("1e21")}


def test_misprint_of_more_digits_than_python_prints_is_reported() -> None:
    ones = "1" * 5000
    with pytest.raises(InvalidClaim, match=f"Kubernetes would write {ones} for {ones}000E"):
        decide(a_snapshot(a_slice(a_shared("x", "1e6000"))), a_claim(wanting(ones + "0" * 21)))


# -- admin access, gate


def test_admin_access_to_a_full_device_fails_and_to_one_with_room_takes_a_share() -> None:
    claim = a_claim(a_request(admin_access=True, capacity={"memory": q("2")}))
    full = a_snapshot(a_slice(a_shared()), held=[an_allocated_claim(held_share("x", "3"))])
    assert shortage(decide(full, claim)).left == 0
    (result,) = results(decide(a_snapshot(a_slice(a_shared())), claim))
    assert result.admin_access
    assert result.share_id
    assert result.consumed_capacity == {"memory": q("2")}


OFF = kubernetes(DRAConsumableCapacity=False)


def without_gate(*members: Device, held: Iterable[Claim] = (), features: Features = OFF) -> Snapshot:
    return a_snapshot(a_slice(*members), held=held, features=features)


def test_request_for_an_amount_is_refused_without_the_gate() -> None:
    with pytest.raises(InvalidClaim, match=r"request gpus: capacity is requested, but DRAConsumableCapacity is off"):
        decide(without_gate(a_shared()), a_claim(wanting("1")))


def test_request_for_an_amount_is_not_seen_by_the_oldest_allocator_where_strict() -> None:
    off = kubernetes(
        is_strict=True,
        DRAConsumableCapacity=False,
        DRADeviceBindingConditions=False,
        DRAFractionalCapacityRange=False,
    )
    snapshot = a_snapshot(a_slice(a_device("x", capacity={"memory": "1"})), features=off)
    assert names(decide(snapshot, a_claim(wanting("2")))) == ["x"]


def test_shared_device_is_given_wholly_and_once_without_the_gate() -> None:
    (result,) = results(decide(without_gate(a_shared()), a_claim()))
    assert (result.share_id, result.consumed_capacity) == ("", {})
    assert conflict(decide(without_gate(a_shared()), a_claim(name="a"), a_claim(name="b")))


def test_device_with_a_share_in_use_is_in_use_without_the_gate() -> None:
    snapshot = without_gate(a_shared(), held=[an_allocated_claim(held_share())])
    assert funnel(shortage(decide(snapshot, a_claim()))) == [("are in use", ["x"])]


def test_selectors_see_whether_a_device_can_be_shared() -> None:
    claim = a_claim(a_request("r", 1, "device.allowMultipleAllocations"))
    assert names(decide(a_snapshot(a_slice("y", a_shared())), claim)) == ["x"]


def test_step_of_nothing_cannot_be_counted_with_fractions_or_without() -> None:
    for fractions in (True, False):
        with pytest.raises(Unrepresentable, match="the step of the range is 0"):
            amount("3", a_range("1", "4", "0"), fractions=fractions)


def test_largest_number_of_thousandths_is_counted_in_them() -> None:
    most = f"{2**63 - 1}m"
    assert amount(most, a_range("0", most, "1m")) == most


@pytest.mark.parametrize(
    ("asked", "bounds", "fractions"),
    [
        ("2", a_range("1", step="-1"), False),
        ("1", a_range("1", step="-1"), False),
        ("2", a_range("1", step="-1m"), True),
    ],
)
def test_step_below_zero_passes_what_can_be_counted(asked: str, bounds: RequestPolicy, fractions: bool) -> None:  # noqa: FBT001
    """The API server stores it, and kube-scheduler gives the attempt up."""
    with pytest.raises(Unrepresentable):
        amount(asked, bounds, fractions=fractions)


def test_amounts_of_many_alternatives_are_worked_out_between_looks_at_the_time() -> None:
    """Each look comes after few steps more; of 128 devices with ranges, 64 alternatives take thousands."""
    ranges = {name: a_range("1", "900", "1") for name in ("a", "b", "c", "d")}
    held = {name: str(900 + number) for number, name in enumerate(ranges)}
    shared = [a_device(f"d{n}", capacity=held, policies=ranges, allow_multiple_allocations=True) for n in range(128)]
    ways = [an_alternative(f"s{n}", capacity={"a": q(str(n + 1))}) for n in range(64)]
    claim = a_claim(*(first_available(f"r{n}", *ways[8 * n : 8 * n + 8]) for n in range(8)))
    budget, looks = Budget(FREE_STEPS * 100), [0]

    def is_cancelled() -> bool:
        looks.append(budget.spent)
        return False

    outcome = allocate(a_snapshot(a_slice(*shared)), a_node(), [claim], is_cancelled=is_cancelled, budget=budget)
    assert isinstance(outcome, Allocated)
    assert max(later - before for before, later in pairwise(looks)) < 1_000 * WORK_OF_A_STEP < budget.spent
