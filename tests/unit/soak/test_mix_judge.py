"""The judge of a mixed soak can fail: each rule has a history by hand that breaks it, beside one that does not."""

import json
from collections.abc import Sequence
from itertools import islice
from random import Random

import pytest

from scheduler.runtime.limit_settings import limits_decoder
from tests.controlplane.rest import Json
from tests.soak.inventory import DeviceId, inventory_of
from tests.soak.mix.judge import (
    BIND_S,
    DEARER,
    LOOP,
    LOST,
    NEEDLESS,
    NOMINATION,
    NOT_LOWER,
    OVER_LIMIT,
    PARTLY_BOUND,
    ROUNDS,
    SERVED_S,
    STARVED,
    STOOD_S,
    UNTOLD,
    UNUSED,
    WAITS_S,
    MixJudge,
)
from tests.soak.mix.limits import FOLLOWED_WITHIN_S
from tests.soak.mix.load import config_map
from tests.soak.mix.plan import BUDGET, KIND, MixArrival, MixPlan, limits, mix
from tests.soak.revisions import Revision

GPU = "gpu.example.com"
NODES, DEVICES = ("a", "b"), 4
LONG_AGO = -1000.0


def a_slice(node: str) -> Json:
    devices = [{"name": f"gpu-{number}", "capacity": {"memory": {"value": "80Gi"}}} for number in range(DEVICES)]
    return {"spec": {"driver": GPU, "pool": {"name": node}, "nodeName": node, "devices": devices}}


class Watched:
    """A judge that is told a history by hand: of two nodes with four devices each."""

    def __init__(self) -> None:
        self.judge = MixJudge(inventory_of([a_slice(node) for node in NODES]))
        self.version, self.at_s = 0, LONG_AGO
        self.pods: dict[str, Json] = {}

    def rules(self) -> list[str]:
        return [one.rule for one in self.judge.wrongs]

    def feed(self, raw: Json, *, is_gone: bool = False) -> None:
        self.version += 1
        self.judge.feed(Revision(self.version, self.at_s, is_gone, raw))

    def pass_s(self, seconds: float) -> None:
        self.at_s += seconds
        self.judge.now_s = self.at_s
        self.judge.look()

    def holds(self, claim: str, *devices: str, namespace: str = "team", is_gone: bool = False) -> None:
        """The claim has these devices, such as a/0."""
        results = [{"driver": GPU, "pool": one[0], "device": f"gpu-{one[2:]}"} for one in devices]
        status = {"allocation": {"devices": {"results": results}}} if devices else {}
        metadata = {"namespace": namespace, "name": claim, "uid": claim}
        self.feed({"kind": "ResourceClaim", "metadata": metadata, "status": status}, is_gone=is_gone)

    def pod(self, name: str, kind: str = "gpu-4", priority: str = "low", **labels: str) -> None:
        metadata = {"namespace": "team", "name": name, "uid": name, "labels": {KIND: kind, **labels}}
        spec = {"priorityClassName": priority, "schedulerName": "dra-scheduler"}
        self.pods[name] = {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}
        self.feed(self.pods[name])

    def change(self, name: str, **parts: Json) -> None:
        pod = self.pods[name]
        self.pods[name] = pod | {part: {**pod[part], **fields} for part, fields in parts.items()}
        self.feed(self.pods[name])

    def bind(self, name: str, node: str) -> None:
        self.change(name, spec={"nodeName": node})

    def user(self, name: str, node: str, kind: str = "gpu-4", priority: str = "low", **labels: str) -> None:
        """A pod that has devices of the node."""
        self.pod(name, kind, priority, **labels)
        count = {"gpu": 1, "gpu-2": 2, "gpu-4": 4}[kind]
        free = [one for one in range(DEVICES) if DeviceId(GPU, node, f"gpu-{one}") in self.judge._free_s]
        self.holds(f"of-{name}", *(f"{node}/{one}" for one in free[:count]))
        self.bind(name, node)

    def decide(self, name: str, node: str, victims: Sequence[str]) -> None:
        record = json.dumps({"node": node, "victims": list(victims)})
        self.change(name, metadata={"annotations": {NOMINATION: record}}, status={"nominatedNodeName": node})

    def evict(self, name: str) -> None:
        conditions = [{"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}]
        self.change(name, status={"conditions": conditions})

    def go(self, name: str) -> None:
        self.feed(self.pods[name], is_gone=True)
        self.holds(f"of-{name}", is_gone=True)


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def full(watched: Watched) -> Watched:
    """Each node has a pod of low priority with all of its devices, and a pod of high priority waits."""
    for node in NODES:
        watched.user(f"on-{node}", node)
    watched.pass_s(2 * STOOD_S)
    watched.pod("high", priority="high")
    return watched


# -- limits


def a_limit(most: int, *, is_soft: bool = False) -> Json:
    soft = {"soft": True} if is_soft else {}
    return {
        "name": "gpus",
        "namespaces": {"names": ["team"], "each": False},
        "count": {"driver": GPU},
        "most": most,
    } | soft


def test_grant_is_beyond_a_limit(watched: Watched) -> None:
    watched.judge.limits.change([a_limit(2)], LONG_AGO)
    watched.holds("one", "a/0", "a/1")
    watched.holds("of-others", "a/2", "a/3", namespace="others")
    assert watched.rules() == []
    watched.holds("two", "b/0")
    assert watched.rules() == [OVER_LIMIT]
    assert watched.judge.wrongs[0].text.endswith("limit gpus: 3 of 2 in use")


def test_limit_that_is_lowered_takes_nothing_away_and_lets_nothing_be_given(watched: Watched) -> None:
    watched.judge.limits.change([a_limit(3)], LONG_AGO)
    watched.holds("one", "a/0", "a/1")
    watched.judge.limits.change([a_limit(1)], watched.at_s)
    watched.judge.limits.settle(watched.at_s)
    watched.holds("at-once", "a/2")
    watched.at_s += FOLLOWED_WITHIN_S + 1
    watched.holds("one", "a/0", "a/1")
    assert watched.rules() == []
    watched.holds("late", "b/0")
    assert watched.rules() == [OVER_LIMIT]


def test_soft_limit_refuses_nothing(watched: Watched) -> None:
    watched.judge.limits.change([a_limit(1, is_soft=True)], LONG_AGO)
    watched.holds("one", "a/0", "a/1")
    assert watched.rules() == []


def test_programs_read_the_limits_of_the_soak() -> None:
    for seed in range(20):
        found = limits(Random(seed))  # noqa: S311 - no secret
        read = limits_decoder(())(config_map(found))
        assert [one.name for one in read] == [one["name"] for one in found]


# -- groups


def a_group_of(watched: Watched, bound: int) -> None:
    for number in range(3):
        watched.pod(f"member-{number}", "gpu", of="gang", least="3")
    for number in range(bound):
        watched.bind(f"member-{number}", "a")
    for node in NODES:
        watched.holds(f"all-of-{node}", *(f"{node}/{one}" for one in range(DEVICES)))


def test_group_is_partly_bound_for_too_long(watched: Watched) -> None:
    a_group_of(watched, 2)
    watched.pass_s(BIND_S)
    assert watched.rules() == []
    watched.pass_s(1.0)
    assert watched.rules() == [PARTLY_BOUND]


def test_group_that_was_whole_may_lose_members(watched: Watched) -> None:
    a_group_of(watched, 3)
    watched.judge.deleted("member-0")
    watched.go("member-0")
    watched.pass_s(2 * BIND_S)
    assert watched.rules() == []


# -- evictions


def test_pod_of_lower_priority_goes_for_one_that_is_placed_with_what_it_had(full: Watched) -> None:
    full.decide("high", "a", ["on-a"])
    full.evict("on-a")
    full.go("on-a")
    full.holds("of-high", *(f"a/{one}" for one in range(DEVICES)))
    full.bind("high", "a")
    full.pass_s(SERVED_S + 1)
    assert full.rules() == []
    assert (full.judge.decisions, full.judge.victims) == (1, 1)


def test_eviction_is_without_need_where_devices_were_free(watched: Watched) -> None:
    watched.user("on-a", "a")
    watched.pass_s(STOOD_S)
    watched.pod("high", priority="high")
    watched.decide("high", "a", ["on-a"])
    assert watched.rules() == [NEEDLESS]


@pytest.mark.parametrize("why", ["came free just now", "node was away", "promised to another", "limit"])
def test_eviction_has_need_where_what_is_free_could_not_be_had(watched: Watched, why: str) -> None:
    watched.user("on-a", "a")
    watched.pod("high", priority="high")
    if why == "came free just now":
        watched.user("on-b", "b")
        watched.judge.deleted("on-b")
        watched.go("on-b")
        watched.at_s += STOOD_S / 2
    if why == "node was away":
        watched.judge.fails("b", watched.at_s)
        watched.judge.is_back("b", watched.at_s + 1.0)
        watched.at_s += STOOD_S
    if why == "promised to another":
        watched.at_s += STOOD_S
        watched.pod("other", priority="high")
        watched.change("other", status={"nominatedNodeName": "b"})
    if why == "limit":
        watched.judge.limits.change([a_limit(4)], LONG_AGO)
        watched.at_s += STOOD_S
    watched.decide("high", "a", ["on-a"])
    assert watched.rules() == []


def test_eviction_is_dearer_than_another(watched: Watched) -> None:
    watched.user("on-a", "a", priority="middle")
    watched.user("on-b", "b")
    watched.pod("high", priority="high")
    watched.at_s += STOOD_S
    watched.decide("high", "b", ["on-b"])
    assert watched.rules() == []
    watched.pod("next", priority="high")
    watched.user("third", "a", "gpu", "middle")
    watched.change("high", status={"nominatedNodeName": ""})
    watched.at_s += 2 * STOOD_S
    watched.decide("next", "a", ["on-a"])
    assert watched.rules() == [DEARER]


def test_pod_of_a_budget_is_no_cheaper_victim(watched: Watched) -> None:
    watched.user("on-a", "a", priority="middle")
    watched.user("on-b", "b", **{BUDGET: "team"})
    watched.pod("high", priority="high")
    watched.at_s += STOOD_S
    watched.decide("high", "a", ["on-a"])
    assert watched.rules() == []


def test_victim_has_no_lower_priority(full: Watched) -> None:
    full.pod("low")
    full.decide("low", "a", ["on-a"])
    assert full.rules() == [NOT_LOWER]


def test_victim_is_in_no_record(full: Watched) -> None:
    full.evict("on-a")
    assert full.rules() == [UNTOLD]


def test_eviction_served_nobody_where_its_pod_goes_elsewhere(full: Watched) -> None:
    full.decide("high", "a", ["on-a"])
    full.evict("on-a")
    full.go("on-a")
    full.pass_s(STOOD_S)
    full.bind("high", "b")
    assert full.rules() == [UNUSED]


def test_pod_that_a_limit_refused_meanwhile_keeps_nothing(full: Watched) -> None:
    full.decide("high", "a", ["on-a"])
    for in_force in ([a_limit(0)], []):
        full.judge.limits.change(in_force, full.at_s)
        full.judge.limits.settle(full.at_s)
        full.pass_s(2 * FOLLOWED_WITHIN_S)
    full.evict("on-a")
    full.go("on-a")
    full.pass_s(STOOD_S)
    full.bind("high", "b")
    assert full.rules() == []


def test_eviction_served_nobody_where_its_pod_waits_on(full: Watched) -> None:
    full.decide("high", "a", ["on-a"])
    full.evict("on-a")
    full.go("on-a")
    full.holds("of-nobody", *(f"a/{one}" for one in range(DEVICES)))
    full.pass_s(SERVED_S)
    assert full.rules() == []
    full.pass_s(1.0)
    assert full.rules() == [UNUSED]


def test_others_are_evicted_for_one_pod_again_and_again(full: Watched) -> None:
    for number in range(ROUNDS + 1):
        assert full.rules() == []
        full.pod(f"again.{number}")
        full.decide("high", "a", [f"again.{number}"])
    assert full.rules() == [LOOP]


def test_one_pod_is_evicted_again_and_again(full: Watched) -> None:
    for number in range(ROUNDS + 1):
        assert full.rules() == []
        full.pod(f"again.{number}")
        full.pod(f"high-{number}", priority="high")
        full.decide(f"high-{number}", "a", [f"again.{number}"])
        full.evict(f"again.{number}")
    assert full.rules() == [LOOP]


# -- who waits, and who is gone


def test_pod_waits_for_what_is_free(watched: Watched) -> None:
    watched.pod("waits")
    watched.pass_s(0.0)
    watched.pass_s(WAITS_S)
    assert watched.rules() == []
    watched.pass_s(1.0)
    assert watched.rules() == [STARVED]


def test_pod_waits_for_what_others_have_or_a_limit_refuses(full: Watched) -> None:
    full.pod("waits")
    full.pass_s(0.0)
    full.pass_s(2 * WAITS_S)
    full.judge.deleted("on-a")
    full.go("on-a")
    full.judge.limits.change([a_limit(4)], LONG_AGO)
    for _ in range(3):
        full.pass_s(WAITS_S)
    assert full.rules() == []


@pytest.mark.parametrize("members", [2, 3])
def test_group_waits_for_what_is_free_once_all_are_there(watched: Watched, members: int) -> None:
    for number in range(members):
        watched.pod(f"member-{number}", "gpu-2", of="gang", least="3")
    for _ in range(3):
        watched.pass_s(WAITS_S)
    assert watched.rules() == [STARVED] * (3 if members == 3 else 0)


def test_pod_is_gone_that_nobody_deleted(full: Watched) -> None:
    full.judge.deleted("on-b")
    full.go("on-b")
    assert full.rules() == []
    full.go("on-a")
    assert full.rules() == [LOST]


# -- what comes


def drawn(group_version: str) -> list[MixArrival]:
    return list(islice(mix(Random(1), MixPlan(), group_version), 400))  # noqa: S311 - no secret


def test_mix_is_the_same_for_one_seed_and_has_everything() -> None:
    found = drawn("v")
    assert found == drawn("v")
    assert {pod["spec"]["priorityClassName"] for one in found for pod in one.pods} == {"low", "middle", "high"}
    assert {len(one.pods) for one in found} == set(range(1, 9))
    assert any(one.group for one in found)
    assert any(one.leaves_s for one in found)
    assert not any(one.group for one in drawn(""))
