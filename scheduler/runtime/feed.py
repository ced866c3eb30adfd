"""What is watched, and where each change goes: into the cluster that decisions look at, then to who waits for changes.

Both happen in one call of the store's handler: no decision comes between a change and the pods that it wakes.
An object that cannot be read is left out; but what it keeps from others it keeps: a claim its devices, a pod its place,
a rule its taints.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from allocator.api import TaintRule
from allocator.model import Claim, DeviceClass, Node, Slice
from scheduler.cache import kinds
from scheduler.cache.decoding import holds_nothing
from scheduler.cache.events import Decoder, Entry, Holder, Refused
from scheduler.cache.held import held_by_claim, held_by_pod
from scheduler.cache.kinds import ClaimObject
from scheduler.cache.reflector import Reflector
from scheduler.cache.store import RefusalHandler
from scheduler.cache.watcher import Watcher
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.client.resources import NAMESPACES, NODES, PODS, Resource
from scheduler.core_v1.namespace import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.state.changes import (
    ClaimChanged,
    ClassChanged,
    Event,
    NamespaceChanged,
    NodeChanged,
    PodChanged,
    SliceChanged,
    TaintRulesChanged,
)
from scheduler.state.claims import with_devices_of

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
            held: Holder = holds_nothing,
            selector: Mapping[str, str] | None = None,
        ) -> Reflector[T]:
            return Reflector(Watcher(connection, resource, decode, chance, selector or {}, held=held), clock)

        self.nodes: Reflector[Node] = reflector(NODES, kinds.node_of)
        self.pods: Reflector[Pod] = reflector(PODS, kinds.pod_of, held_by_pod, kinds.UNFINISHED)
        self.namespaces: Reflector[Namespace] = reflector(NAMESPACES, kinds.namespace_of)
        self.claims: Reflector[ClaimObject] = reflector(served.claims, kinds.claim_of, held_by_claim)
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
    """Tells the cluster of what the stores hold, and then `hear` of each change.

    refused: told of each object that cannot be read, once for each reason.
    """

    def __init__(
        self,
        mirror: Mirror,
        cluster: Cluster,
        hear: Callable[[Event], None],
        refused: Callable[[Resource, Refused], None],
    ) -> None:
        self._cluster = cluster
        self._hear = hear
        self._mirror = mirror
        self._unread_claims: dict[str, Claim] = {}
        self._unread_pods: dict[str, Pod] = {}
        for reflector in mirror:
            reflector.store.on_refusal(_told(reflector.resource, refused))
        mirror.claims.store.on_refusal(self._claim_refused)
        mirror.pods.store.on_refusal(self._pod_refused)
        mirror.nodes.store.on_change(self._node)
        mirror.namespaces.store.on_change(self._namespace)
        mirror.classes.store.on_change(self._class)
        mirror.slices.store.on_change(self._slice)
        mirror.claims.store.on_change(self._claim)
        mirror.pods.store.on_change(self._pod)
        if mirror.taint_rules is not None:
            mirror.taint_rules.store.on_change(self._taint_rule)
            mirror.taint_rules.store.on_refusal(self._taint_rule_refused)

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
        elif old is not None and not self._is_refused(self._mirror.taint_rules, old):
            self._cluster.remove_taint_rule(old.value.name)
        self._hear(TaintRulesChanged())

    def _taint_rule_refused(self, old: Refused | None, new: Refused | None) -> None:
        """A rule that is gone taints nothing; while it merely cannot be read, it is in force as it was last seen."""
        rules = self._mirror.taint_rules
        if old is not None and new is None and not self._is_read(rules, old):
            self._cluster.remove_taint_rule(old.key.name)
            self._hear(TaintRulesChanged())

    def _claim(self, old: Entry[ClaimObject] | None, new: Entry[ClaimObject] | None) -> None:
        before = old.value.claim if old else None
        if new is not None:
            before = self._unread_claims.pop(new.uid, before)
            self._cluster.leave_alone(new.uid, ())
            self._cluster.set_claim(new.value, new.resource_version)
        elif old is not None and self._is_refused(self._mirror.claims, old):
            return  # told by its refusal
        elif old is not None:
            self._cluster.remove_claim(old.uid)
        if old is None or new is None or not is_same(old.value, new.value):
            self._hear(ClaimChanged(before, new.value.claim if new else None))

    def _claim_refused(self, old: Refused | None, new: Refused | None) -> None:
        if new is not None:
            self._hold_claim(new)
        elif old is not None and (claim := self._unread_claims.pop(_held_uid(old), None)):
            self._cluster.remove_claim(claim.uid)
            self._hear(ClaimChanged(claim, None))

    def _hold_claim(self, refused: Refused) -> None:
        """It keeps the devices that it had, and has those that it is seen to have."""
        held, holding = refused.held, self._cluster.claims.holding(_held_uid(refused))
        assert isinstance(held, ClaimObject), held
        before = holding.watched.claim if holding and holding.watched else None
        seen = replace(held.claim, uid=_held_uid(refused))
        claim = with_devices_of(seen, holding.stored if holding else None)
        self._unread_claims[claim.uid] = claim
        self._cluster.leave_alone(claim.uid, held.unknown_pools)
        self._cluster.set_claim(replace(held, claim=claim, error=refused.error), refused.resource_version)
        self._hear(ClaimChanged(before, claim))

    def _pod(self, old: Entry[Pod] | None, new: Entry[Pod] | None) -> None:
        before = _value(old)
        if new is not None:
            before = self._unread_pods.pop(new.uid, before)
            self._cluster.set_pod(new.value)
        elif old is not None and not self._is_refused(self._mirror.pods, old):
            self._cluster.remove_pod(old.uid)
        self._hear(PodChanged(before, _value(new)))

    def _pod_refused(self, old: Refused | None, new: Refused | None) -> None:
        if new is not None:
            self._hold_pod(new)
        elif old is not None and not self._is_read(self._mirror.pods, old):
            self._cluster.remove_pod(_held_uid(old))
            self._hear(PodChanged(self._unread_pods.pop(_held_uid(old), None), None))

    def _hold_pod(self, refused: Refused) -> None:
        """It keeps its place with the requests that it had; where these are unknown, nothing else fits on its node."""
        held, known = refused.held, self._cluster.pods.known(_held_uid(refused))
        if isinstance(held, Pod):
            pod = replace(known, node_name=held.node_name) if known else replace(held, uid=_held_uid(refused))
            self._unread_pods[pod.uid] = pod
            self._cluster.set_pod(pod)

    def _hear_unless_same(self, event: NodeChanged | NamespaceChanged | ClassChanged | SliceChanged) -> None:
        """An object that was written anew, and says what it said before, wakes nobody."""
        if event.old != event.new:
            self._hear(event)

    def _is_refused(self, reflector: Reflector[Any] | None, gone: Entry[Any]) -> bool:
        """Whether the entry is gone because its object cannot be read any more."""
        refused = reflector.store.refused.get(gone.key) if reflector else None
        return refused is not None and refused.uid == gone.uid

    def _is_read(self, reflector: Reflector[Any] | None, gone: Refused) -> bool:
        """Whether the object is refused no more because it can be read."""
        entry = reflector.store.entries.get(gone.key) if reflector else None
        return entry is not None and entry.uid == gone.uid


def _told(resource: Resource, tell: Callable[[Resource, Refused], None]) -> RefusalHandler:
    def tell_new(old: Refused | None, new: Refused | None) -> None:
        if new is not None and (old is None or old.error != new.error):
            tell(resource, new)

    return tell_new


def _held_uid(refused: Refused) -> str:
    """By which it is counted: an object without a readable uid has a name at least."""
    return refused.uid or str(refused.key)


def is_same(old: ClaimObject, new: ClaimObject) -> bool:
    """Whether no pod can find a difference: what attempts write to claims beside their devices wakes nobody."""
    if old.claim.allocation and any(result.binding_conditions for result in old.claim.allocation.results):
        return False  # their devices' status decides as well
    return _deciding(old) == _deciding(new)


def _deciding(found: ClaimObject) -> tuple[object, ...]:
    return found.claim, found.reserved_for, found.metadata.deletion_timestamp, found.metadata.owners


def _value(entry: Entry[T] | None) -> T | None:
    return entry.value if entry else None
