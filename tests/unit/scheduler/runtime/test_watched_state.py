"""Each change of what is watched changes the cluster, and is then heard."""

from collections.abc import Callable, Collection
from typing import Any, cast

import pytest

from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.client.watch_states import Applied, Deleted, Entry, Key
from scheduler.client.watcher import Store
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod_selector import PodDisruptionBudget, PodSelector
from scheduler.core_v1.storage_objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.decision.cluster import Cluster
from scheduler.runtime.core import WatchedState
from scheduler.state import cluster_changes as changes
from tests.builders import a_class, a_node, a_pod, a_slice
from tests.unit.scheduler.runtime.updates import update_from


class WatchedStateHeard:
    """Keeps what a cluster would be told, and what is heard then, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.volumes = self.selectors = self

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: self.calls.append((name, *given))


def by_name(found: Any) -> object:
    return found.name


def by_key(found: Any) -> object:
    return found.key


CAPACITY = CSIStorageCapacity("default", "a", "fast")
KINDS: list[tuple[str, str, Any, Callable[[Any], object], Callable[[Any, Any], object]]] = [
    ("Node", "node", a_node("a"), by_name, changes.NodeChanged),
    ("Namespace", "namespace", Namespace("a", {"x": "y"}), by_name, changes.NamespaceChanged),
    ("DeviceClass", "class", a_class("a"), by_name, changes.ClassChanged),
    ("ResourceSlice", "slice", a_slice(name="a"), by_name, changes.SliceChanged),
    ("Pod", "pod", a_pod(name="a"), lambda pod: pod.uid, changes.PodChanged),
    ("PersistentVolume", "volume", PersistentVolume("a"), by_name, changes.PersistentVolumeChanged),
    (
        "PersistentVolumeClaim",
        "claim",
        PersistentVolumeClaim("b", "a"),
        by_key,
        changes.PersistentVolumeClaimChanged,
    ),
    ("StorageClass", "class", StorageClass("a"), by_name, changes.StorageClassChanged),
    ("CSINode", "csi_node", CSINode("a"), by_name, changes.CSINodeChanged),
    ("CSIDriver", "driver", CSIDriver("a"), by_name, changes.CSIDriverChanged),
    ("CSIStorageCapacity", "capacity", CAPACITY, by_key, changes.CSIStorageCapacityChanged),
    (
        "VolumeAttachment",
        "attachment",
        VolumeAttachment("a", "d", "n"),
        by_name,
        changes.VolumeAttachmentChanged,
    ),
]


@pytest.mark.parametrize(("kind", "name", "found", "known_by", "changed"), KINDS, ids=[kind[0] for kind in KINDS])
def test_object_is_set_when_it_is_there_and_removed_when_it_is_gone(
    kind: str,
    name: str,
    found: object,
    known_by: Callable[[Any], object],
    changed: Callable[[Any, Any], object],
) -> None:
    reported = WatchedStateHeard()
    state = a_state()
    update_from(state, cast(Cluster, reported), lambda event: reported.calls.append(("heard", event)))
    key, uid = Key("", "a"), str(known_by(found))
    store = store_of(state, kind)
    store.take(Applied(Entry(key, uid, 1, found)))
    store.take(Applied(Entry(key, uid, 2, found)))
    store.take(Deleted(key, uid, 3))
    assert reported.calls == [
        (f"set_{name}", found),
        ("heard", changed(None, found)),
        (f"set_{name}", found),
        *([("heard", changed(found, found))] if kind == "Pod" else []),  # nobody waits for what is the same
        (f"remove_{name}", known_by(found)),
        ("heard", changed(found, None)),
    ]


@pytest.mark.parametrize("kind", ["Service", "ReplicationController", "ReplicaSet", "StatefulSet"])
def test_services_and_controllers_are_known_and_wake_nobody(kind: str) -> None:
    reported = WatchedStateHeard()
    state = a_state()
    update_from(state, cast(Cluster, reported), lambda event: reported.calls.append(("heard", event)))
    store, found = store_of(state, kind), PodSelector(kind, "default", "a", ())
    store.take(Applied(Entry(Key("default", "a"), "uid", 1, found)))
    store.take(Deleted(Key("default", "a"), "uid", 2))
    assert reported.calls == [("set", found), ("remove", found)]


def test_who_answers_for_devices_alone_watches_nothing_else() -> None:
    of_devices = {reflector.resource.kind for reflector in a_state(places_pods=False)}
    assert of_devices == {"Node", "Namespace", "DeviceClass", "ResourceSlice", "ResourceClaim", "Pod"}
    more = {reflector.resource.kind for reflector in a_state()} - of_devices
    selecting = {"Service", "ReplicationController", "ReplicaSet", "StatefulSet", "PodDisruptionBudget"}
    assert more - {kind for kind, *_ in KINDS} == selecting
    assert len(more) == 12
    beside = {reflector.resource.kind for reflector in a_state(places_pods=False, beside=(PodDisruptionBudget,))}
    assert beside - of_devices == {"PodDisruptionBudget"}


def a_state(*, places_pods: bool = True, beside: Collection[type] = ()) -> WatchedState:
    served = Served("v1.37.0", "1.37", "v1", None)
    connection = cast(Connection, None)
    return WatchedState(connection, served, lambda: 0.0, lambda: 0.0, places_pods=places_pods, beside=beside)


def store_of(state: WatchedState, kind: str) -> Store[Any]:
    (found,) = (reflector.store for reflector in state if reflector.resource.kind == kind)
    return found
