"""An attempt for a pod with volumes, an API server in memory that keeps them, and watches that show them."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from scheduler.attempt.attempt import Attempt, WrittenPod
from scheduler.attempt.binder import Binder, CurrentSteps, WatchedChanges, WatchedVolumes
from scheduler.attempt.decision import Decision, PodKey
from scheduler.attempt.slots import Slots
from scheduler.client.errors import ApiError, ApiStatus, CallFailed, Unanswered
from scheduler.core_v1.storage_objects import PersistentVolume, PersistentVolumeClaim
from scheduler.decision.cluster import Cluster
from scheduler.state.cluster_changes import (
    NodeChanged,
    PersistentVolumeChanged,
    PersistentVolumeClaimChanged,
    PodChanged,
)
from scheduler.state.volumes import NO_PLAN, VolumePlan
from tests.builders import a_node, a_pod, kubernetes

Json = dict[str, Any]
NODE = "node-0"
TURNS = 20


class VolumeScene:
    """One pod on its way to node-0. faults: what becomes of the next writes, in place of an answer."""

    def __init__(self, plan: VolumePlan = NO_PLAN) -> None:
        self.cluster = Cluster(kubernetes(), is_ours=lambda _: True)
        self.node, self.pod = a_node(NODE), a_pod(name="p", uid="uid-p")
        self.cluster.set_node(self.node)
        self.cluster.set_pod(self.pod)
        self.volumes = WatchedVolumes(self.cluster)
        self.changes = WatchedChanges()
        self.objects: dict[str, Json] = {}
        self.patches: list[Json] = []
        self.faults: list[Callable[[str, Json], CallFailed]] = []
        decision = Decision(PodKey.of(self.pod), NODE, (), 1, volumes=plan)
        time = SimpleNamespace(sleep=lambda _: asyncio.sleep(0), random=lambda: 0.5, monotonic=lambda: 0.0)
        parts = {"api": self, "volumes": self.volumes, "changes": self.changes, "time": time}
        progress = CurrentSteps(float)
        self.binder = cast(Binder, SimpleNamespace(**parts, progress=progress, binding_timeout_s=600.0))
        self.attempt = Attempt(decision, cast(Any, None), Slots(4, float).take("default"), WrittenPod("1", {}))

    # -- the API server

    async def request(self, method: str, path: str, *, body: Any = None, **_: object) -> Json:
        await asyncio.sleep(0)
        stored = self.objects.get(path)
        if stored is None:
            raise ApiError(f"{method} {path}", 404, ApiStatus("NotFound", "it is not there"))
        if method == "GET":
            return copy.deepcopy(stored)
        self.patches.append(body)
        if self.faults:
            raise self.faults.pop(0)(path, body)
        self.store(path, body)
        return copy.deepcopy(self.objects[path])

    def store(self, path: str, body: Json) -> None:
        """Merge it, if it is of the version that is stored."""
        stored = self.objects[path]
        metadata = stored["metadata"]
        if body["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise ApiError(f"PATCH {path}", 409, ApiStatus("Conflict", "the object has been modified"))
        annotations = {**metadata.get("annotations", {}), **body["metadata"].get("annotations", {})}
        version = str(int(metadata["resourceVersion"]) + 1)
        stored["metadata"] = {**metadata, "annotations": annotations, "resourceVersion": version}
        stored["spec"] = {**stored["spec"], **body.get("spec", {})}

    # -- what the watches show

    def show_volume(self, volume: PersistentVolume) -> None:
        self.cluster.volumes.set_volume(volume)
        self.changes.on_event(PersistentVolumeChanged(None, volume))

    def show_claim(self, claim: PersistentVolumeClaim) -> None:
        self.cluster.volumes.set_claim(claim)
        self.changes.on_event(PersistentVolumeClaimChanged(None, claim))

    def pod_goes(self) -> None:
        self.cluster.remove_pod(self.pod.uid)
        self.changes.on_event(PodChanged(self.pod, None))

    def pod_is_deleted(self) -> None:
        deleted = replace(self.pod, is_deleting=True)
        self.cluster.set_pod(deleted)
        self.changes.on_event(PodChanged(self.pod, deleted))

    def node_goes(self) -> None:
        self.cluster.remove_node(NODE)
        self.changes.on_event(NodeChanged(self.node, None))


def lost_before(path: str, _: Json) -> CallFailed:
    """The write never came, and its answer neither."""
    return Unanswered(f"PATCH {path}", "cut", is_ambiguous=True)
