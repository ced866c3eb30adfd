"""What is watched, and where each change goes: into the cluster that decisions look at, then to who waits for changes.

Both happen in one call of the store's handler: no decision comes between a change and the pods that it wakes.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from allocator.api import TaintRule
from allocator.model import Claim, DeviceClass, Node, Slice
from scheduler.cache import kinds
from scheduler.cache.events import Decoder, Entry, Key
from scheduler.cache.kinds import ClaimObject
from scheduler.cache.reflector import Reflector
from scheduler.cache.watcher import Watcher
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.client.resources import NAMESPACES, NODES, PODS, Resource
from scheduler.core_v1.namespace import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.cycle.cluster import Cluster
from scheduler.cycle.events import (
    ClaimChanged,
    ClassChanged,
    Event,
    NamespaceChanged,
    NodeChanged,
    PodChanged,
    SliceChanged,
    TaintRulesChanged,
)

T = TypeVar("T")


class Mirror:
    """The reflectors of all that a decision looks at.

    chance: gives a random number from 0 to 1. clock: seconds that only go forward.
    """

    def __init__(
        self,
        connection: Connection,
        served: Served,
        chance: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        def reflector(
            resource: Resource,
            decode: Decoder[T],
            selector: Mapping[str, str] | None = None,
        ) -> Reflector[T]:
            return Reflector(Watcher(connection, resource, decode, chance, selector or {}), clock)

        self.nodes: Reflector[Node] = reflector(NODES, kinds.node_of)
        self.pods: Reflector[Pod] = reflector(PODS, kinds.pod_of, kinds.UNFINISHED)
        self.namespaces: Reflector[Namespace] = reflector(NAMESPACES, kinds.namespace_of)
        self.claims: Reflector[ClaimObject] = reflector(served.claims, kinds.claim_of)
        self.slices: Reflector[Slice] = reflector(served.slices, kinds.slice_of)
        self.classes: Reflector[DeviceClass] = reflector(served.classes, kinds.class_of)
        rules = served.taint_rules
        self.taint_rules: Reflector[TaintRule] | None = reflector(rules, kinds.taint_rule_of) if rules else None

    def __iter__(self) -> Iterator[Reflector[Any]]:  # Any: of whatever kind
        yield from (
            self.nodes,
            self.namespaces,
            self.classes,
            self.slices,
            self.claims,
            self.pods,
        )
        if self.taint_rules is not None:
            yield self.taint_rules

    async def run(self) -> None:
        """Fill the stores until cancelled. Raises HistoryLost."""
        async with asyncio.TaskGroup() as watching:
            for reflector in self:
                watching.create_task(reflector.run(), name=reflector.name)

    async def filled(self) -> None:
        """Wait until everything was listed once."""
        for reflector in self:
            await reflector.store.synced.wait()


class Feed:
    """Tells the cluster of what the stores hold, and then `hear` of each change."""

    def __init__(self, mirror: Mirror, cluster: Cluster, hear: Callable[[Event], None]) -> None:
        self._cluster = cluster
        self._hear = hear
        self._claims = mirror.claims
        self._unreadable: dict[Key, Claim] = {}
        mirror.nodes.store.on_change(self._node)
        mirror.namespaces.store.on_change(self._namespace)
        mirror.classes.store.on_change(self._class)
        mirror.slices.store.on_change(self._slice)
        mirror.claims.store.on_change(self._claim)
        mirror.pods.store.on_change(self._pod)
        if mirror.taint_rules is not None:
            mirror.taint_rules.store.on_change(self._taint_rule)

    def _node(self, old: Entry[Node] | None, new: Entry[Node] | None) -> None:
        if new is not None:
            self._cluster.set_node(new.value)
        elif old is not None:
            self._cluster.remove_node(old.value.name)
        self._hear_unless_same(NodeChanged(_value(old), _value(new)))

    def _namespace(self, old: Entry[Namespace] | None, new: Entry[Namespace] | None) -> None:
        if new is not None:
            self._cluster.set_namespace(new.value)
        elif old is not None:
            self._cluster.remove_namespace(old.value.name)
        self._hear_unless_same(NamespaceChanged(_value(old), _value(new)))

    def _class(self, old: Entry[DeviceClass] | None, new: Entry[DeviceClass] | None) -> None:
        if new is not None:
            self._cluster.set_class(new.value)
        elif old is not None:
            self._cluster.remove_class(old.value.name)
        self._hear_unless_same(ClassChanged(_value(old), _value(new)))

    def _slice(self, old: Entry[Slice] | None, new: Entry[Slice] | None) -> None:
        if new is not None:
            self._cluster.set_slice(new.value)
        elif old is not None:
            self._cluster.remove_slice(old.value.name)
        self._hear_unless_same(SliceChanged(_value(old), _value(new)))

    def _taint_rule(self, old: Entry[TaintRule] | None, new: Entry[TaintRule] | None) -> None:
        if new is not None:
            self._cluster.set_taint_rule(new.value)
        elif old is not None:
            self._cluster.remove_taint_rule(old.value.name)
        self._hear(TaintRulesChanged())

    def let_go(self) -> None:
        """Remove the claims that could not be read any more and are gone by now: their devices are free."""
        claims = self._claims.store
        for key in [key for key in self._unreadable if key not in claims.refused]:
            claim = self._unreadable.pop(key)
            if key not in claims.entries or claims.entries[key].uid != claim.uid:
                self._cluster.remove_claim(claim.uid)
                self._hear(ClaimChanged(claim, None))

    def _claim(self, old: Entry[ClaimObject] | None, new: Entry[ClaimObject] | None) -> None:
        if new is not None:
            self._cluster.set_claim(new.value, new.resource_version)
        elif old is not None and old.key in self._claims.store.refused:
            self._unreadable[old.key] = old.value.claim  # it may well hold its devices still
            return
        elif old is not None:
            self._cluster.remove_claim(old.uid)
        if old is None or new is None or not is_same(old.value, new.value):
            self._hear(ClaimChanged(old.value.claim if old else None, new.value.claim if new else None))

    def _pod(self, old: Entry[Pod] | None, new: Entry[Pod] | None) -> None:
        if new is not None:
            self._cluster.set_pod(new.value)
        elif old is not None:
            self._cluster.remove_pod(old.uid)
        self._hear(PodChanged(_value(old), _value(new)))

    def _hear_unless_same(self, event: NodeChanged | NamespaceChanged | ClassChanged | SliceChanged) -> None:
        """An object that was written anew, and says what it said before, wakes nobody."""
        if event.old != event.new:
            self._hear(event)


def is_same(old: ClaimObject, new: ClaimObject) -> bool:
    """Whether no pod can find a difference: what attempts write to claims beside their devices wakes nobody."""
    if old.claim.allocation and any(result.binding_conditions for result in old.claim.allocation.results):
        return False  # their devices' status decides as well
    return _deciding(old) == _deciding(new)


def _deciding(found: ClaimObject) -> tuple[object, ...]:
    return found.claim, found.reserved_for, found.metadata.deletion_timestamp, found.metadata.owners


def _value(entry: Entry[T] | None) -> T | None:
    return entry.value if entry else None
