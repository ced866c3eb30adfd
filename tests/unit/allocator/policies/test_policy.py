"""What every policy can rely on, and what none can change; tried with policies that say in words what they prefer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from allocator.allocate import allocate
from allocator.bits import Mask, bits
from allocator.cluster.snapshot import Snapshot
from allocator.features.contract import NodeAttempt
from allocator.model import Claim, Constraint
from allocator.outcome import Allocated, Exhausted, InvalidClaim, Outcome, Refused
from allocator.policies.contract import FIRST_FIT, Policy, Requests, Score
from allocator.search.backtracking import Order
from allocator.search.rules import DeviceSlot, Pick
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
    distinct,
    first_available,
    kubernetes,
    match,
    per_device,
    requires,
    strings,
    where,
)
from tests.builders import a_term as term
from tests.unit.allocator.answers import names


@dataclass
class Prefer:
    """Tries these devices first; asked is what it was told for each slot: (request, position, domain, picked)."""

    wanted: Sequence[str]
    name: str = "prefer"
    reads: Sequence[str] = ()
    asked: list[tuple[str, int, list[str], list[str]]] = field(default_factory=list)

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order:
        devices = [device.name for device in attempt.view.devices]

        def preferred(slot: DeviceSlot, domain: Mask, picks: Sequence[Pick]) -> Iterable[int]:
            left, picked = [devices[d] for d in bits(domain)], [devices[pick.device] for pick in picks]
            self.asked.append((slot.candidates.alternative.name, slot.position, left, picked))
            return [devices.index(name) for name in self.wanted]

        return preferred

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        return (float(len(picks)),)


def decide(snapshot: Snapshot, *claims: Claim, policy: Policy, budget_steps: int = 10_000) -> Outcome:
    return allocate(snapshot, a_node(), claims, policy=policy, budget_steps=budget_steps)


def gpus(number: int) -> Snapshot:
    return a_snapshot(a_slice(*(f"gpu-{n}" for n in range(number))))


# -- order


def test_preferred_devices_are_tried_first() -> None:
    assert names(decide(gpus(3), a_claim(), policy=Prefer(["gpu-2", "gpu-0"]))) == ["gpu-2"]


def test_devices_that_a_policy_leaves_out_follow_as_they_are() -> None:
    claims = [a_claim(name=name) for name in "abc"]
    assert names(decide(gpus(3), *claims, policy=Prefer(["gpu-1"]))) == ["gpu-1", "gpu-0", "gpu-2"]


def test_a_policy_that_says_nothing_is_first_fit() -> None:
    assert names(decide(gpus(3), a_claim(a_request(count=2)), policy=Prefer([]))) == ["gpu-0", "gpu-1"]


def test_devices_named_twice_or_not_wanted_do_not_matter() -> None:
    snapshot = a_snapshot(a_slice("gpu-0", "gpu-1", a_device("nic", {"kind": "nic"})))
    claim = a_claim(a_request("gpus", 1, '!("kind" in device.attributes["gpu.example"])'))
    assert names(decide(snapshot, claim, policy=Prefer(["nic", "gpu-1", "gpu-1"]))) == ["gpu-1"]


def test_results_of_a_request_are_written_as_the_pool_lists_them() -> None:
    claim = a_claim(a_request("x", 2), a_request("y", 2))
    assert names(decide(gpus(4), claim, policy=Prefer(["gpu-3", "gpu-0", "gpu-2"]))) == [
        *("gpu-0", "gpu-3"),
        *("gpu-1", "gpu-2"),
    ]


def test_a_policy_is_shown_what_is_left_and_what_is_picked_for_each_slot() -> None:
    policy = Prefer(["gpu-2"])
    decide(gpus(3), a_claim(a_request("x", 2), a_request("y")), policy=policy)
    assert policy.asked == [
        ("x", 0, ["gpu-0", "gpu-1", "gpu-2"], []),
        ("x", 1, ["gpu-0", "gpu-1"], ["gpu-2"]),
        ("y", 0, ["gpu-1"], ["gpu-2", "gpu-0"]),
    ]


def test_a_preferred_device_with_which_the_rest_does_not_work_out_is_given_back() -> None:
    snapshot = a_snapshot(a_slice(*(a_device(f"gpu-{n}", {"numa": n // 2}) for n in range(3))))
    claim = a_claim(a_request(count=2), constraints=[match(f"{DRIVER}/numa")])
    assert names(decide(snapshot, claim, policy=Prefer(["gpu-2", "gpu-1"]))) == ["gpu-0", "gpu-1"]


def test_where_all_devices_are_wanted_there_is_nothing_to_prefer() -> None:
    policy = Prefer(["gpu-1"])
    assert names(decide(gpus(2), a_claim(all_devices()), policy=policy)) == ["gpu-0", "gpu-1"]
    assert policy.asked == []


# -- what no policy can change


def test_what_cannot_be_had_is_refused_with_the_same_cause() -> None:
    first_fit = decide(gpus(2), a_claim(a_request(count=3)), policy=FIRST_FIT)
    refused = decide(gpus(2), a_claim(a_request(count=3)), policy=Prefer(["gpu-1"]))
    assert isinstance(first_fit, Refused)
    assert isinstance(refused, Refused)
    assert refused.cause == first_fit.cause


def a_fleet_with_a_device_that_cannot_be_judged() -> Snapshot:
    return a_snapshot(a_slice(a_device("gpu-0", {"gib": 80}), a_device("gpu-1", {"gib": 80}), "broken"))


A_LARGE_ONE = a_claim(a_request("gpus", 1, 'device.attributes["gpu.example"].gib >= 80'))


def test_a_device_that_cannot_be_judged_costs_nobody_a_device_for_being_preferred() -> None:
    snapshot = a_fleet_with_a_device_that_cannot_be_judged()
    assert names(decide(snapshot, A_LARGE_ONE, policy=Prefer(["broken", "gpu-1"]))) == ["gpu-1"]


def test_a_device_that_cannot_be_judged_shows_where_nothing_else_is_found() -> None:
    snapshot = a_snapshot(a_slice(a_device("gpu-0", {"gib": 80}), "broken"), held=[an_allocated_claim("gpu-0")])
    with pytest.raises(InvalidClaim, match="no such key: gib"):
        decide(snapshot, A_LARGE_ONE, policy=Prefer(["broken"]))


def test_a_derived_attribute_that_fails_on_a_preferred_device_costs_nobody_a_device() -> None:
    alternative = an_alternative(derived_attributes=(("x.example/gib", 'device.attributes["gpu.example"].gib'),))
    claim = a_claim(first_available("gpus", alternative), constraints=[Constraint((), match_attribute="x.example/gib")])
    features = kubernetes("1.37", DRADerivedAttributes=True)
    snapshot = a_snapshot(a_slice(a_device("gpu-0", {"gib": 80}), "broken"), features=features)
    assert names(decide(snapshot, claim, policy=Prefer(["broken"]))) == ["gpu-0"]


def test_a_device_that_no_result_can_describe_costs_nobody_a_device() -> None:
    two_terms = where(term(requires("a", "Exists")), term(requires("b", "Exists")))
    broad = a_device("broad", reach=two_terms)
    local = a_device("local", reach=where(term(requires("a", "Exists"))))
    snapshot = a_snapshot(a_slice(local, broad, reach=per_device()))
    node = a_node(labels={"a": "1"})
    assert names(allocate(snapshot, node, [a_claim()], policy=Prefer(["broad"]))) == ["local"]


def test_where_validity_depends_on_the_order_of_picks_it_stays_that_of_first_fit() -> None:
    features = kubernetes("1.37", DRAListTypeAttributes=False)
    listed, plain = a_device("listed", {"tags": strings("a")}), a_device("plain", {"tags": "b"})
    snapshot = a_snapshot(a_slice(listed, plain), features=features)
    claim = a_claim(a_request(count=2), constraints=[distinct(f"{DRIVER}/tags")])
    policy = Prefer(["plain"])
    assert names(decide(snapshot, claim, policy=policy)) == ["listed", "plain"]
    assert policy.asked == []


def test_budget_holds_for_both_searches_together() -> None:
    claims = [
        a_claim(a_request(f"r{n}", 1, "device.attributes['gpu.example'].gib > 0"), name=f"c{n}") for n in range(3)
    ]
    snapshot = a_snapshot(a_slice(*(a_device(f"gpu-{n}", {"gib": 1}) for n in range(2)), "broken"))
    with pytest.raises(InvalidClaim):
        decide(snapshot, *claims, policy=Prefer([]))
    for budget in range(1, 6):
        outcome = decide(snapshot, *claims, policy=Prefer([]), budget_steps=budget)
        assert isinstance(outcome, Exhausted)
        assert outcome.steps <= budget + 1


# -- scores


def test_score_of_the_policy_follows_how_early_the_alternatives_are() -> None:
    small, large = (an_alternative(size, count=count) for size, count in (("small", 1), ("large", 2)))
    claim = a_claim(first_available("gpus", large, small))
    scores = []
    for number in (1, 2):
        outcome = decide(gpus(number), claim, policy=Prefer([]))
        assert isinstance(outcome, Allocated)
        scores.append(outcome.score)
    assert scores == [(-1, 1.0), (0, 2.0)]


def test_every_request_with_alternatives_counts() -> None:
    either = (an_alternative("many", count=3), an_alternative("one"))
    claims = [a_claim(first_available("x", *either), first_available("y", *either)), a_claim(name="plain")]
    outcome = decide(gpus(5), *claims, policy=Prefer([]))
    assert isinstance(outcome, Allocated)
    assert outcome.score == (-1, 5.0)


def test_first_fit_says_nothing_about_nodes() -> None:
    small, large = (an_alternative(size, count=count) for size, count in (("small", 1), ("large", 2)))
    outcome = decide(gpus(1), a_claim(first_available("gpus", large, small)), policy=FIRST_FIT)
    assert isinstance(outcome, Allocated)
    assert outcome.score == ()
