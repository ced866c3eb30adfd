"""Each change of what is watched changes the cluster, and is then heard."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from allocator.model import DeviceClass, Node, Slice
from scheduler.cache.events import Applied, Deleted, Entry, Key
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.core_v1.namespace import Namespace
from scheduler.decision.cluster import Cluster
from scheduler.runtime.watched_state import WatchedState
from scheduler.state import changes
from tests.builders import a_class, a_node, a_pod, a_slice
from tests.unit.scheduler.runtime.updates import update_from


class Told:
    """Keeps what a cluster would be told, and what is heard then, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: self.calls.append((name, *given))


KINDS: list[tuple[str, str, Any, Callable[[Any], object], type]] = [
    ("nodes", "node", a_node("a"), lambda node: node.name, changes.NodeChanged),
    ("namespaces", "namespace", Namespace("a", {"x": "y"}), lambda namespace: namespace.name, changes.NamespaceChanged),
    ("classes", "class", a_class("a"), lambda device_class: device_class.name, changes.ClassChanged),
    ("slices", "slice", a_slice(name="a"), lambda piece: piece.name, changes.SliceChanged),
    ("pods", "pod", a_pod(name="a"), lambda pod: pod.uid, changes.PodChanged),
]


@pytest.mark.parametrize(("store", "kind", "found", "known_by", "changed"), KINDS, ids=[kind[0] for kind in KINDS])
def test_object_is_set_when_it_is_there_and_removed_when_it_is_gone(
    store: str,
    kind: str,
    found: Node | Namespace | DeviceClass | Slice,
    known_by: Callable[[Any], object],
    changed: Callable[[object, object], object],
) -> None:
    told = Told()
    served = Served("v1.37.0", "1.37", "v1", None)
    watched_state = WatchedState(cast(Connection, None), served, lambda: 0.0, lambda: 0.0)
    update_from(watched_state, cast(Cluster, told), lambda event: told.calls.append(("heard", event)))
    key, uid = Key("", "a"), str(known_by(found))
    watched = getattr(watched_state, store).store
    watched.take(Applied(Entry(key, uid, 1, found)))
    watched.take(Applied(Entry(key, uid, 2, found)))
    watched.take(Deleted(key, uid, 3))
    assert told.calls == [
        (f"set_{kind}", found),
        ("heard", changed(None, found)),
        (f"set_{kind}", found),
        *([("heard", changed(found, found))] if kind == "pod" else []),  # nobody waits for what is the same
        (f"remove_{kind}", known_by(found)),
        ("heard", changed(found, None)),
    ]
