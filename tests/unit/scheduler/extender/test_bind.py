"""What bind answers where no pod is bound: a right is missing, or two attempts meet."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

import pytest

from allocator.model import Claim, PoolID
from scheduler.attempt.attempts import INTERNAL, Attempts
from scheduler.attempt.binder import Binder, Time, WatchedClaims, WatchedVolumes
from scheduler.attempt.decision import Listener
from scheduler.client.api_resources import claims
from scheduler.client.connection import Api
from scheduler.client.errors import LASTS_S, ApiError, ApiStatus
from scheduler.core_v1.pod import PodClaim
from scheduler.decision.cluster import Cluster
from scheduler.decision.schedule_result import Placed
from scheduler.extender.bind import Binds, is_tried
from scheduler.extender.wire import ExtenderBindingArgs
from scheduler.state.invariants import Violation
from tests.builders import DRIVER, Watched, a_claim, a_pod, an_allocated_claim, watched
from tests.unit.scheduler.extender.clusters import a_cluster, a_user_of

POD = a_pod()
ARGS = ExtenderBindingArgs(PodName=POD.name, PodNamespace=POD.namespace, PodUID=POD.uid, Node="node-0")
PENDING = {"phase": "Pending"}


class BindDenied(Listener):
    """Gives the pod to who reads it, and refuses every write, as RBAC does; it hears what becomes of attempts.

    spec: what the pod says beside its containers. status: of the pod.
    """

    def __init__(self, status: Mapping[str, object] = PENDING, **spec: object) -> None:
        self.now = 0.0
        self.violations: list[Violation] = []
        self.wakes = 0
        self._status = status
        self._spec = {"containers": [], **spec}

    async def request(self, method: str, path: str, **_: object) -> dict[str, Any]:
        if method == "GET":
            metadata = {"name": POD.name, "namespace": POD.namespace, "uid": POD.uid, "resourceVersion": "1"}
            return {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": self._spec,
                "status": self._status,
            }
        message = f'it is forbidden: User "ours" cannot {method} it'
        raise ApiError(f"{method} {path}", 403, ApiStatus("Forbidden", message))

    def clock(self) -> float:
        return self.now

    async def reached(self, *_: object) -> bool:
        return True

    def objection(self, _: object) -> str:
        return ""

    def rivals(self, _: object) -> list[object]:
        return []

    def wake(self) -> None:
        self.wakes += 1

    def violated(self, violation: Violation) -> None:
        self.violations.append(violation)


@pytest.fixture
def cluster() -> Cluster:
    found = a_cluster(1)
    found.set_pod(POD)
    return found


def binds(cluster: Cluster, denied: BindDenied, *, is_ours: bool = False) -> tuple[Binds, Attempts]:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    time = Time(denied.clock, lambda: moment, asyncio.sleep, lambda: 0.5)
    watched = cast(WatchedClaims, denied)
    binder = Binder(cast(Api, denied), claims("v1"), watched, WatchedVolumes(cluster), time, "ours", 1, "1", denied)
    attempts = Attempts(
        cluster,
        binder,
        lambda *_: None,
        concurrency=1,
        is_tried=partial(is_tried, cluster),
        waits_for_devices=False,
    )
    return Binds(cluster, binder, attempts, is_ours=lambda _: is_ours, timeout_s=30, wake=denied.wake), attempts


def test_a_right_that_is_missing_is_reported_while_the_pod_that_lacked_it_is_there(cluster: Cluster) -> None:
    async def act() -> list[str]:
        denied = BindDenied()
        found, attempts = binds(cluster, denied)
        answer = await found.bind(ARGS)
        denied.now += LASTS_S
        await found.bind(ARGS)
        reported = [answer, attempts.trouble]
        cluster.remove_pod(POD.uid)
        return [*reported, attempts.trouble]

    answer, while_there, afterwards = asyncio.run(act())
    assert 'User "ours" cannot POST' in answer
    assert 'User "ours" cannot POST' in while_there
    assert afterwards == ""


def test_a_right_that_was_missing_is_not_reported_any_more_once_the_pod_has_a_node_or_no_node_passes_for_it(
    cluster: Cluster,
) -> None:
    """Somebody else may have bound it; and it may not be asked about again for as long as its devices are missing."""

    async def act() -> list[bool]:
        denied = BindDenied()
        found, attempts = binds(cluster, denied)

        async def lack() -> None:
            await found.bind(ARGS)
            denied.now += LASTS_S
            await found.bind(ARGS)

        await lack()
        found.refused("uid-other")
        reported = [bool(attempts.trouble)]
        found.refused(POD.uid)
        reported.append(bool(attempts.trouble))
        await lack()
        reported.append(bool(attempts.trouble))
        cluster.set_pod(replace(POD, node_name="node-0"))
        return [*reported, bool(attempts.trouble)]

    assert asyncio.run(act()) == [True, False, True, False]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_is_not_bound(cluster: Cluster, phase: str) -> None:
    """kube-scheduler may not know yet, and the API server would take it."""

    async def act() -> str:
        found, _ = binds(cluster, BindDenied({"phase": phase}))
        cluster.remove_pod(POD.uid)  # the watch shows only pods that have not ended
        return await found.bind(ARGS)

    assert asyncio.run(act()) == f"pod {POD} has ended: {phase}"
    assert cluster.pods.assumed == 0


def test_second_attempt_at_a_pod_is_not_begun_and_reported_as_a_violation(cluster: Cluster) -> None:
    cluster.reserve(POD, Placed("node-0", (), ()))
    denied = BindDenied()
    assert asyncio.run(binds(cluster, denied)[0].bind(ARGS)) == INTERNAL
    assert [(one.invariant, one.subject) for one in denied.violations] == [("I6", f"pod {POD}")]


def test_devices_are_reserved_while_the_call_waits_for_a_slot_and_released_when_it_is_cancelled(
    cluster: Cluster,
) -> None:
    """kube-scheduler asks about the next pod meanwhile: it would be offered the same devices."""
    pod = a_user_of(cluster, a_claim(name="claim"), name=POD.name)
    cluster.set_pod(replace(pod, uid=POD.uid))

    async def act() -> list[int]:
        found, attempts = binds(cluster, BindDenied(), is_ours=True)
        attempts.slots.take("other")
        call = asyncio.create_task(found.bind(ARGS))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        reserved = taken()
        await attempts.finish(wait_s=0.0)
        call.cancel()
        return [*reserved, *taken()]

    def taken() -> list[int]:
        return [len(cluster.fleet.usage.allocated_in(PoolID(DRIVER, "node-0"))), cluster.pods.assumed]

    assert asyncio.run(act()) == [1, 1, 0, 0]


def test_pod_is_asked_about_again_where_the_claim_that_keeps_it_from_all_nodes_could_not_be_deallocated(
    cluster: Cluster,
) -> None:
    """Nothing has changed by which kube-scheduler would do so before five minutes have gone."""

    async def act() -> int:
        denied = BindDenied()
        found, attempts = binds(cluster, denied)
        found.free(POD, [claim])
        await attempts.finish(wait_s=1.0)
        return denied.wakes

    claim = an_allocated_claim("gpu-0", name="claim")
    cluster.set_claim(stored(claim), 1)
    assert asyncio.run(act()) == 1


def stored(claim: Claim, owner: str = "") -> Watched:
    """As the API server gives it. owner: the uid of a pod."""
    metadata = {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid, "resourceVersion": "1"}
    raw = {"metadata": metadata, "status": {"allocation": {"devices": {}} if claim.allocation is not None else None}}
    return replace(watched(claim, owner=owner), raw=raw)


def test_pod_that_is_not_ours_is_not_bound_before_its_claim_is_made(cluster: Cluster) -> None:
    denied = BindDenied(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "template"}])
    assert asyncio.run(binds(cluster, denied)[0].bind(ARGS)) == f'pod "{POD}": ResourceClaim not created yet'


def test_pod_of_which_the_watch_does_not_show_yet_what_its_claim_is_called_is_read(cluster: Cluster) -> None:
    entry = PodClaim("gpu", template_name="template")
    cluster.set_pod(replace(POD, claims=(entry,)))
    cluster.set_claim(stored(a_claim(name="pod-gpu"), owner=POD.uid), 1)
    status = {**PENDING, "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "pod-gpu"}]}
    denied = BindDenied(status, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "template"}])
    answer = asyncio.run(binds(cluster, denied, is_ours=True)[0].bind(ARGS))
    assert "claim default/pod-gpu: " in answer
    assert 'User "ours" cannot PUT' in answer


def test_question_about_the_next_pod_waits_until_the_devices_are_reserved(cluster: Cluster) -> None:
    async def act() -> list[int]:
        found, attempts = binds(cluster, BindDenied(), is_ours=True)
        attempts.slots.take("other")  # the call gets no further than to its reservation
        found.expected.came("uid-other")
        found.expected.passed(POD)
        asked = asyncio.create_task(found.expected.before(replace(POD, uid="uid-next")))
        await asyncio.sleep(0)
        reserved = [cluster.pods.assumed]
        call = asyncio.create_task(found.bind(ARGS))
        await asked
        reserved.append(cluster.pods.assumed)
        await attempts.finish(wait_s=0.0)
        call.cancel()
        return reserved

    assert asyncio.run(act()) == [0, 1]
