"""Pods, claims and decisions on a real control plane, and a binder that carries them out through the proxy.

It speaks as our own identity with exactly the rights of the manifests. Its time is virtual: waiting costs a turn of the
event loop. Its view of the claims is the API server itself, asked each time; how far behind a real one may be is a
matter of the cache.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from allocator.model import Allocation, DeviceResult, NodeSelector, Requirement, Term
from scheduler.attempt.binder import Binder, Time, WatchedClaims, WatchedVolumes
from scheduler.attempt.claim_objects import ClaimRef, RawClaim, allocation_of, key_of, results_of
from scheduler.attempt.decision import AttemptOutcome, ClaimPlan, Decision, ExtendedPlan, Listener, PodKey, Point
from scheduler.attempt.pod_calls import device_status
from scheduler.attempt.run import bind_pod
from scheduler.client.api_resources import Resource, claims
from scheduler.client.connection import JSON, Api, connect
from scheduler.core_v1.pod import Pod, decode_pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.schedule_result import Placed
from scheduler.state.invariants import Rival
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pod_resources import ExtendedClaim, ExtendedResources
from tests.builders import a_class, kubernetes
from tests.controlplane import faults
from tests.controlplane.contents import ensure_namespace
from tests.controlplane.identities import OURS
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.proxy import Proxy, Rule
from tests.controlplane.rest import CLAIM, POD, Json, Kind, RestClient

NAMESPACE = "work"
NODE = "node-0"
DRIVER = "gpu.example"
POOL = "pool-0"
SCHEDULER = "dra-scheduler"
GPU = "example.com/gpu"
"""An extended resource that the class gpu stands for."""

CLAIMS = r"/resourceclaims$"
STATUS = r"/resourceclaims/[^/]+/status$"
CLAIM_ITSELF = r"/resourceclaims/[^/]+$"
BINDING = r"/binding$"
POD_ITSELF = r"/pods/[^/]+$"
POD_STATUS = r"/pods/[^/]+/status$"
V1 = claims("v1")
START = datetime(2026, 1, 1, tzinfo=UTC)

Answer = TypeVar("Answer")


class VirtualTime:
    """Time that passes while somebody sleeps, and else stands still."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.on_sleep: Callable[[], object] = lambda: None

    async def sleep(self, seconds: float) -> None:
        self.passed_s += seconds
        self.on_sleep()
        await asyncio.sleep(0)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed_s)

    def as_time(self) -> Time:
        return Time(lambda: self.passed_s, self.now, self.sleep, lambda: 0.5)


@dataclass
class ListedClaims(WatchedClaims):
    """A view of the claims that is never behind.

    writes: what it was told of. makes: which claims were made, by their made-up uids. reason: what it objects. others:
    rivals of claims that have devices, besides those that it finds. faster: rivals that were there before.
    """

    api: RestClient
    writes: list[tuple[str, int]] = field(default_factory=list)
    makes: dict[str, ClaimRef] = field(default_factory=dict)
    reason: str = ""
    is_shown: bool = True
    is_node_gone: bool = False
    lists: int = 0
    others: list[Rival] = field(default_factory=list)
    faster: list[Rival] = field(default_factory=list)

    async def reached(self, resource_version: int, timeout_s: float) -> bool:
        return self.is_shown

    def is_reached(self, node: str, selector: NodeSelector | None) -> bool:
        return selector is None

    async def catch_up(self) -> None:
        self.lists += 1

    def claim(self, known: RawClaim) -> RawClaim | None:
        key = key_of(known)
        found = [one for one in self.api.list(CLAIM, key.namespace) if key_of(one) == key]
        return found[0] if found else None

    def rivals(self, claim: ClaimRef) -> Sequence[Rival]:
        found = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in self.api.list(CLAIM)}
        mine = devices_of(found.pop((claim.namespace, claim.name), {}))
        rivals = [a_rival(*key, version_of(other)) for key, other in found.items() if mine & devices_of(other)]
        return [*rivals, *(self.others if mine else ()), *self.faster]

    def written(self, claim: ClaimRef, resource_version: int) -> None:
        self.writes.append((claim.name, resource_version))

    def made(self, made_up: str, claim: ClaimRef) -> None:
        self.makes[made_up] = claim

    def has_node(self, node: str) -> bool:
        return not self.is_node_gone

    def objection(self, decision: Decision) -> str:
        return self.reason


def a_rival(namespace: str, name: str, resource_version: int) -> Rival:
    return Rival(namespace, name, f"uid-{name}", resource_version)


def devices_of(claim: Json) -> set[str]:
    return {f"{one['driver']}/{one['device']}" for one in results_of(allocation_of(claim) or {})}


def version_of(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


class Killed(BaseException):
    """The process is gone: nothing that it would still have done happens."""


class Mortal:
    """Calls that go through; as soon as the API server has carried out so many writes, the process is dead."""

    def __init__(self, api: Api, writes: int) -> None:
        self._api = api
        self._left = writes

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
    ) -> Json:
        if not self._left:
            raise Killed
        answer = await self._api.request(
            method, path, query=query, body=body, content_type=content_type, timeout_s=timeout_s
        )
        self._left -= method != "GET"
        if not self._left:
            raise Killed
        return answer


class Scene(Listener):
    """One test's cluster. proxy: stands between the binder and the API server."""

    def __init__(self, plane: ControlPlane, proxy: Proxy) -> None:
        self.api = plane.client()
        self.ours = plane.client(OURS)
        self.proxy = proxy
        self.time = VirtualTime()
        self.watched = ListedClaims(self.api)
        self.reported: list[str] = []
        self.attempts = 0
        self.kubeconfig = plane.kubeconfig(OURS)
        self._proxied = proxy.kubeconfig(OURS)
        ensure_namespace(self.api, NAMESPACE)

    def a_claim(self, name: str = "claim", namespace: str = NAMESPACE, **exactly: object) -> Json:
        request = {"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}
        spec = {"devices": {"requests": [request]}}
        return self.api.create(_object(CLAIM, name, namespace, spec))

    def a_pod(self, *claim_names: str, name: str = "pod", **spec: object) -> Json:
        entries = [{"name": one, "resourceClaimName": one} for one in claim_names]
        container = {"name": "c", "image": "none"}
        fields = {"schedulerName": SCHEDULER, "containers": [container], "resourceClaims": entries, **spec}
        return self.api.create(_object(POD, name, NAMESPACE, fields))

    def a_gpu_pod(self, *claim_names: str, count: int = 1, name: str = "pod", **spec: object) -> Json:
        """A pod whose container asks for so many of the extended resource."""
        return self.a_pod(*claim_names, name=name, containers=[a_container("c", {GPU: str(count)})], **spec)

    def a_decision(
        self,
        pod: Json,
        *plans: ClaimPlan,
        node: str = NODE,
        is_assigned: bool = False,
        extended: ExtendedPlan | None = None,
    ) -> Decision:
        """The pod as it is given here; each decision is an attempt of its own."""
        self.attempts += 1
        reported = device_status(decoded(pod), Placed(node, (), (), extended.claim if extended else None))
        decision = Decision(pod_key(pod), node, plans, self.attempts, is_assigned=is_assigned)
        return replace(decision, extended=extended, pod_status=reported)

    def claim(self, name: str = "claim") -> Json:
        return self.api.get(CLAIM, name, NAMESPACE)

    def pod(self, name: str = "pod") -> Json:
        return self.api.get(POD, name, NAMESPACE)

    def delete_pod(self, name: str = "pod") -> None:
        self.api.delete(POD, name, NAMESPACE)

    def become(self, name: str, holds: Callable[[Json], bool]) -> Json:
        """The claim as soon as it is so, by the hand of a controller."""

        def found(claims: Sequence[Json]) -> list[Json]:
            return [one for one in claims if one["metadata"]["name"] == name and holds(one)]

        return found(self.api.await_all(CLAIM, lambda claims: bool(found(claims)), NAMESPACE))[0]

    def bind(self, decision: Decision) -> AttemptOutcome:
        """What becomes of the decision."""
        return self.run(lambda binder: bind_pod(binder, decision))

    def run(
        self,
        act: Callable[[Binder], Awaitable[Answer]],
        *,
        epoch: int = 1,
        version: str = "v1",
        api: Callable[[Api], Api] = lambda api: api,
    ) -> Answer:
        """What the act gives, with a binder of its own connection. api: wraps the connection."""

        async def running() -> Answer:
            async with self.binder(epoch, claims(version), api) as binder:
                return await act(binder)

        return asyncio.run(running())

    @asynccontextmanager
    async def binder(
        self, epoch: int = 1, resource: Resource = V1, api: Callable[[Api], Api] = lambda api: api
    ) -> AsyncIterator[Binder]:
        async with connect(kubeconfig=self._proxied) as connection:
            yield Binder(
                api=api(connection),
                claims=resource,
                watched=self.watched,
                volumes=WatchedVolumes(Cluster(kubernetes(), is_ours=bool)),
                time=self.time.as_time(),
                scheduler=SCHEDULER,
                epoch=epoch,
                process=str(epoch),
                binding_timeout_s=60.0,
                listener=self,
            )

    def pending(self, decision: Decision, message: str) -> None:
        self.reported.append(message)

    def passed(self, decision: Decision, point: Point, *, is_done: bool, duration_s: float) -> None:
        self.reported.append(f"{point} {'done' if is_done else 'not done'}")

    def rolled_back(self, decision: Decision, outcome: AttemptOutcome) -> None:
        self.reported.append("rolled back")

    def calls(self) -> list[tuple[str, str, int]]:
        """The writes that came through the proxy: method, last parts of the path, status."""
        return [
            (one.method, one.path.rpartition(f"/namespaces/{NAMESPACE}/")[2], one.status) for one in self.proxy.writes()
        ]


def pod_key(pod: Json) -> PodKey:
    metadata = pod["metadata"]
    scheduler_name = pod["spec"]["schedulerName"]
    return PodKey(metadata["namespace"], metadata["name"], metadata["uid"], metadata["resourceVersion"], scheduler_name)


def decoded(pod: Json) -> Pod:
    """The pod as decisions see it."""
    found, errors = decode_pod(pod)
    assert found is not None, errors
    return found


def a_container(name: str, amounts: Mapping[str, str]) -> Json:
    """A container that asks for these amounts, and gets no more."""
    return {"name": name, "image": "none", "resources": {"requests": dict(amounts), "limits": dict(amounts)}}


def makes(pod: Json, *devices: str, on: str = "") -> ExtendedPlan:
    """The claim that is to be made for the pod's extended resources, with these devices for its first request.

    on: the only node that they reach.
    """
    backed = ExtendedResources([a_class("gpu", extended_resource_name=GPU)], kubernetes())
    ((_, _, claim),) = backed.by_nodes(decoded(pod), NodeInfos({}), 1)
    assert isinstance(claim, ExtendedClaim), claim
    results = tuple(DeviceResult(claim.requests[0].name, DRIVER, POOL, device) for device in devices)
    selector = (Term(fields=(Requirement("metadata.name", "In", (on,)),)),) if on else None
    return ExtendedPlan(claim, Allocation(results, node_selector=selector))


class Landing:
    """A fault that is none, and tells how the API server answered in the end."""

    def __init__(self) -> None:
        self._status: Future[int] = Future()

    async def __call__(self, forward: faults.Forward) -> faults.Answer:
        answer = await forward()
        self._status.set_result(answer.status)
        return answer

    def status(self) -> int:
        return self._status.result(TIMEOUT_S)


def cancel_at(scene: Scene, decision: Decision, rule: Rule) -> AttemptOutcome | None:
    """Cancel the attempt while the request that meets the rule is under way; None where it ends as cancelled."""

    async def act(binder: Binder) -> AttemptOutcome | None:
        task = asyncio.create_task(bind_pod(binder, decision))
        await rule.met.reached()
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return None

    return scene.run(act)


def bind_to(scene: Scene, node: str) -> None:
    """As another scheduler binds the pod."""
    metadata, target = {"name": "pod", "namespace": NAMESPACE}, {"kind": "Node", "name": node}
    scene.api.create({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})


def gets(claim: Json, *devices: str, driver: str = DRIVER, **more: object) -> ClaimPlan:
    """The claim is to get these devices."""
    results = tuple(DeviceResult("r", driver, POOL, device, **more) for device in devices)  # type: ignore[arg-type]
    return ClaimPlan(claim, Allocation(results))


def keeps(claim: Json) -> ClaimPlan:
    """The claim is allocated already."""
    return ClaimPlan(claim)


def allocation_json(*devices: str) -> Json:
    """As another scheduler writes it."""
    results = [{"request": "r", "driver": DRIVER, "pool": POOL, "device": device} for device in devices]
    return {"devices": {"results": results}}


def reservation(pod: Json) -> Json:
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def is_untouched(claim: Json) -> bool:
    """Whether nothing of an attempt is left on the claim."""
    annotations = claim["metadata"].get("annotations", {})
    return not claim["metadata"].get("finalizers") and not claim.get("status") and not annotations


def _object(kind: Kind, name: str, namespace: str, spec: Mapping[str, object]) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
