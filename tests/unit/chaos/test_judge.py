"""The judge can find something: each rule has a state by hand that breaks it, beside one that does not."""

from typing import Any

import pytest

from tests.chaos.judge import GIVEN_TWICE, Judge, misnamed, not_spread, unplaced
from tests.chaos.objects import NAME, OURS, PORTS, SPREAD
from tests.controlplane.rest import Json
from tests.soak.inventory import inventory_of
from tests.soak.revisions import Revision

SLICE = {"spec": {"driver": "gpu", "pool": {"name": "p"}, "allNodes": True, "devices": [{"name": "a"}, {"name": "b"}]}}


def a_pod(name: str, node: str = "", *, is_scarce: bool = False, phase: str = "", scheduler: str = OURS) -> Json:
    template = "fabric" if is_scarce else "gpu"
    entries = [{"name": "c", "resourceClaimTemplateName": template}]
    spec = {"schedulerName": scheduler, "resourceClaims": entries, **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, "labels": {"group": SPREAD}}, "spec": spec, "status": {"phase": phase}}


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
