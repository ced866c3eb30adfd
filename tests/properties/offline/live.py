"""What the live scheduler makes of the objects of an API server, one attempt after the other, each written at once."""

from collections.abc import Iterable, Sequence
from typing import Any

from allocator.api import allocation_to_v1, decode
from allocator.api.versions import GROUP
from allocator.gates import Features
from allocator.model import Allocation
from allocator.policies.contract import Policy
from scheduler import kinds
from scheduler.attempt.claim_objects import Intent, made
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import Placed
from scheduler.offline.placement import order_of
from scheduler.plugins.profile import Profile
from scheduler.state.claims import Waiting, full

Json = dict[str, Any]  # Any: the JSON of an API object

Given = tuple[str, tuple[str, ...]]
"""A node, and the devices that a pod's claims have there, in the order of the claims; no node where there is none."""


class LiveScheduler:
    """A cluster that watches fill, and the API server's objects."""

    def __init__(self, objects: Iterable[Json], features: Features, policy: Policy) -> None:
        self.cluster = Cluster(features, is_ours=lambda _: True, profiles=(Profile(policy=policy),), makes_claims=True)
        self._claims: dict[str, Json] = {}
        self._version = 10
        pods = []
        for raw in objects:
            match raw["kind"]:
                case "ResourceClaim":
                    self._show(_stored(raw))
                case "Pod":
                    pods.append(kinds.pod_of(raw))
                case "ResourceClaimTemplate":
                    pass  # kube-controller-manager creates the claims
                case name:
                    kind = kinds.BY_NAME[name]
                    is_of_devices = kind.resource.group == GROUP
                    kind.put(self.cluster, kind.watch_decoder(_stored(raw) if is_of_devices else raw))
        self._pods: Sequence[Pod] = pods

    def run(self) -> dict[str, Given]:
        """Pod to what it gets, in the order in which pods are tried."""
        for pod in self._pods:
            self.cluster.set_pod(pod)
        return {str(pod): self._attempt(pod) for pod in sorted(self._pods, key=order_of) if not pod.node_name}

    def _attempt(self, pod: Pod) -> Given:
        found = self.cluster.claims_of(pod)
        if isinstance(found, Waiting):
            return "", ()
        result = decide(self.cluster, pod, [one.claim for one in found], full(pod, found))
        if not isinstance(result, Placed):
            return "", ()
        self.cluster.reserve(pod, result)
        names = [claim.name for claim in result.claims]
        rest = iter(result.allocations)
        for claim in result.claims:
            if claim.allocation is None:
                self._allocate(claim.name, next(rest))
        if result.extended is not None:
            intent = Intent("ours", 1, "1", pod.uid, result.node, 1)
            raw = made(result.extended, pod.name, pod.uid, intent)
            raw["metadata"]["uid"] = f"uid-{raw['metadata']['name']}"
            self._show(_stored({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **raw}))
            self.cluster.made(result.extended.claim.uid, raw["metadata"]["uid"])
            names.append(result.extended.claim.name)
            self._allocate(names[-1], next(rest))
        self.cluster.bound(pod.uid)
        return result.node, tuple(device for name in names for device in self._devices(name))

    def _allocate(self, name: str, allocation: Allocation) -> None:
        raw = self._claims[name]
        self._show({**raw, "status": {"allocation": allocation_to_v1(allocation)}})
        self.cluster.written(raw["metadata"]["uid"], self._version)

    def _show(self, raw: Json) -> None:
        self._version += 1
        self._claims[raw["metadata"]["name"]] = raw
        metadata = {**raw["metadata"], "resourceVersion": str(self._version)}
        self.cluster.set_claim(kinds.claim_of({**raw, "metadata": metadata}), self._version)

    def _devices(self, name: str) -> list[str]:
        results = self._claims[name]["status"]["allocation"]["devices"]["results"]
        return [f"{one['driver']}/{one['pool']}/{one['device']}" for one in results]


def _stored(raw: Json) -> Json:
    """The object with the API's defaults."""
    decoded = decode(raw)
    assert not decoded.errors, decoded.errors
    return dict(decoded.raw)
