"""The judge can find something: each rule has a state by hand that breaks it, beside one that does not."""

import json
from typing import Any

import pytest

from tests.chaos.judge import GIVEN_TWICE, NOT_LOWER, Judge, misnamed, not_evicted, not_spread, unplaced
from tests.chaos.objects import NAME, OURS, PORTS, PORTS_NODE, SECOND, SPREAD, THEIRS, devices
from tests.controlplane.rest import Json
from tests.soak.furnish import FABRIC
from tests.soak.inventory import inventory_of
from tests.soak.mix.judge import NOMINATION
from tests.soak.revisions import Revision

SLICE = {"spec": {"driver": "gpu", "pool": {"name": "p"}, "allNodes": True, "devices": [{"name": "a"}, {"name": "b"}]}}


def a_pod(name: str, node: str = "", *, is_scarce: bool = False, phase: str = "", scheduler: str = OURS) -> Json:
    template = "fabric" if is_scarce else "gpu"
    entries = [{"name": "c", "resourceClaimTemplateName": template}]
    spec = {"schedulerName": scheduler, "resourceClaims": entries, **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, "labels": {"group": SPREAD}}, "spec": spec, "status": {"phase": phase}}


def of_priority(priority: int, name: str, node: str = "", **others: Any) -> Json:
    pod = a_pod(name, node, is_scarce=True, **others)
    return {**pod, "spec": {**pod["spec"], "priority": priority}}


def a_revision(version: int, name: str, priority: int, *, evicts: str = "", is_victim: bool = False) -> Revision:
    """Of a pod. evicts: the uid of the victim in its record."""
    pod = of_priority(priority, name)
    record = {"annotations": {NOMINATION: json.dumps({"victims": [evicts]})}} if evicts else {}
    reason = [{"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}] if is_victim else []
    metadata = {**pod["metadata"], **record, "namespace": NAME, "uid": name}
    return Revision(version, 0.0, False, {**pod, "kind": "Pod", "metadata": metadata, "status": {"conditions": reason}})


def a_claim(name: str, device: str, version: int, *, is_gone: bool = False) -> Revision:
    result = {"driver": "gpu", "pool": "p", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}} if device else {}
    metadata = {"namespace": NAME, "name": name, "uid": name}
    return Revision(version, 0.0, is_gone, {"kind": "ResourceClaim", "metadata": metadata, "status": status})


def names(pods: list[Json]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


@pytest.mark.parametrize("others", [{"node": "n"}, {"phase": "Succeeded"}, {"scheduler": "nobody"}])
def test_pod_of_ours_that_runs_nowhere_is_not_placed(others: dict[str, str]) -> None:
    assert names(unplaced([a_pod("one", **others), a_pod("two")])) == ["two"]  # type: ignore[arg-type]


def test_as_many_pods_wait_for_a_port_as_there_are_none_left_for() -> None:
    users = [a_pod(f"user-{number}", "n", is_scarce=True) for number in range(PORTS)]
    waiting = [a_pod(f"waits-{number}", is_scarce=True) for number in range(2)]
    assert unplaced([*users, *waiting]) == []
    assert names(unplaced([*users[1:], *waiting])) == ["waits-0"]
    assert names(unplaced([*users[1:], a_pod("over", "n", is_scarce=True, phase="Failed"), *waiting])) == ["waits-0"]


def test_bound_pod_has_to_name_claims_that_are_reserved_for_it() -> None:
    def named(claim: str, **others: Any) -> Json:
        pod = a_pod("pod", **{"node": "n", **others})
        status = {**pod["status"], "resourceClaimStatuses": [{"name": "c", "resourceClaimName": claim}]}
        return {**pod, "metadata": {**pod["metadata"], "uid": "uid"}, "status": status}

    user = {"reservedFor": [{"uid": "uid"}]}
    claims: list[Json] = [
        {"metadata": {"name": "first", "uid": "1"}, "status": user},
        {"metadata": {"name": "second", "uid": "2"}},
    ]
    assert misnamed([named("first")], claims) == []
    assert names(misnamed([named("second")], claims)) == names(misnamed([named("gone")], claims)) == ["pod"]
    assert misnamed([named("second", node=""), named("second", phase="Failed")], claims) == []


def test_two_of_the_group_on_one_node_are_not_spread() -> None:
    assert list(not_spread([a_pod("one", "a"), a_pod("two", "b"), a_pod("three")])) == []
    (wrong,) = not_spread([a_pod("one", "a"), a_pod("two", "a")])
    assert wrong.text == "one, two are all on a"


def test_device_is_given_twice_though_no_pod_uses_it() -> None:
    judge = Judge(inventory_of([SLICE]))
    for revision in (a_claim("one", "a", 1), a_claim("two", "b", 2), a_claim("one", "", 3), a_claim("three", "a", 4)):
        judge.see("resourceclaims", revision)
    assert judge.wrongs() == []
    judge.see("resourceclaims", a_claim("four", "b", 5))
    (wrong,) = judge.wrongs()
    assert (wrong.rule, wrong.version) == (GIVEN_TWICE, 5)
    assert wrong.text == f"device gpu/p/b is held by bound pods of claims {NAME}/two and {NAME}/four"
    judge.see("resourceclaims", a_claim("two", "b", 6, is_gone=True))
    assert judge.wrongs() == []


def test_pod_of_higher_priority_does_not_wait_for_what_one_of_lower_priority_has() -> None:
    users = [of_priority(10, "middle", "n"), of_priority(1, "low", "n", scheduler=THEIRS)]

    def found(*pods: Json) -> list[tuple[str, str]]:
        return [(pod["metadata"]["name"], least["metadata"]["name"]) for pod, least in not_evicted(pods)]

    assert found(*users, of_priority(10, "waits")) == [("waits", "low")]
    assert found(*users, of_priority(10, "waits", scheduler=SECOND)) == [("waits", "low")]
    assert found(users[0], of_priority(20, "high"), of_priority(10, "equal")) == [("high", "middle")]
    assert found(*users, of_priority(1, "waits")) == []
    assert found(*users, of_priority(20, "waits", scheduler=THEIRS)) == []
    assert found(*users, of_priority(20, "over", phase="Failed")) == []
    assert found(of_priority(1, "over", "n", phase="Succeeded"), of_priority(20, "waits")) == []
    assert found(of_priority(20, "waits")) == []


@pytest.mark.parametrize(
    "records",
    [
        [],
        [a_revision(1, "preemptor", 1, evicts="victim")],
        [a_revision(1, "preemptor", 10, evicts="victim")],
        [a_revision(1, "preemptor", 20, evicts="other")],
    ],
    ids=["in no record", "of a lower pod", "of an equal pod", "of somebody else's"],
)
def test_victim_is_wrong_unless_a_pod_of_higher_priority_has_it_in_its_record(records: list[Revision]) -> None:
    judge = Judge(inventory_of([SLICE]))
    for revision in (
        *records,
        a_revision(2, "victim", 10, is_victim=True),
        a_revision(3, "victim", 10, is_victim=True),
    ):
        judge.see("pods", revision)
    (wrong,) = judge.wrongs()
    assert (wrong.rule, wrong.version) == (NOT_LOWER, 2)


def test_victim_in_the_record_of_a_pod_of_higher_priority_is_right() -> None:
    judge = Judge(inventory_of([SLICE]))
    for revision in (a_revision(1, "preemptor", 20, evicts="victim"), a_revision(2, "victim", 10, is_victim=True)):
        judge.see("pods", revision)
    assert judge.wrongs() == []


def test_ports_are_of_one_node_so_that_evictions_can_win_them() -> None:
    slices = [one["spec"] for one in devices() if one["spec"]["driver"] == FABRIC]
    assert [one.get("nodeName") for one in slices] == [PORTS_NODE]
    assert sum(len(one["devices"]) for one in slices) == PORTS
