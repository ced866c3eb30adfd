"""The reflectors of all kinds that decisions read."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from allocator.api import TaintRule
from allocator.model import DeviceClass, Node, Slice
from scheduler.cache import kinds
from scheduler.cache.decoding import holds_nothing
from scheduler.cache.held import held_by_claim, held_by_pod
from scheduler.cache.kinds import WatchedClaim
from scheduler.cache.reflector import Reflector
from scheduler.cache.watch_events import Decoder, Found, Holder
from scheduler.cache.watcher import Watcher
from scheduler.client.api_resources import (
    ATTACHMENTS,
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Resource,
)
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.core_v1.namespace import Namespace
from scheduler.core_v1.pod import Pod

T = TypeVar("T")

ChangeHandler = Callable[[Resource, Found[Any] | None, Found[Any] | None], None]  # Any: of whatever kind
"""Called with the resource, and its object as it was and as it is: None before it was there, and after it is gone."""

_BESIDE_DEVICES: Mapping[Resource, Decoder[Any]] = {  # Any: of whatever kind
    STORAGE_CLASSES: kinds.storage_class_of,
    VOLUMES: kinds.volume_of,
    VOLUME_CLAIMS: kinds.volume_claim_of,
    CSI_NODES: kinds.csi_node_of,
    CSI_DRIVERS: kinds.csi_driver_of,
    CSI_CAPACITIES: kinds.csi_capacity_of,
    ATTACHMENTS: kinds.attachment_of,
    SERVICES: kinds.pod_selector_of,
    REPLICATION_CONTROLLERS: kinds.pod_selector_of,
    REPLICA_SETS: kinds.pod_selector_of,
    STATEFUL_SETS: kinds.pod_selector_of,
}


class WatchedState:
    """The reflectors. chance: gives a random number from 0 to 1. clock: seconds that only go forward.

    places_pods: whether volumes, Services and controllers are watched as well, which decide where a pod can be but not
    which devices it gets.
    """

    def __init__(
        self,
        connection: Connection,
        served: Served,
        chance: Callable[[], float],
        clock: Callable[[], float],
        *,
        places_pods: bool,
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
        self.claims: Reflector[WatchedClaim] = reflector(served.claims, kinds.claim_of, held_by_claim)
        self.slices: Reflector[Slice] = reflector(served.slices, kinds.slice_of)
        self.classes: Reflector[DeviceClass] = reflector(served.classes, kinds.class_of)
        rules = served.taint_rules
        self.taint_rules: Reflector[TaintRule] | None = reflector(rules, kinds.taint_rule_of) if rules else None
        beside = _BESIDE_DEVICES.items() if places_pods else ()
        self.beside_devices: Sequence[Reflector[Any]] = [reflector(one, decode) for one, decode in beside]
        self._every: list[Reflector[Any]] = [self.nodes, self.namespaces, self.classes, self.slices]
        self._every += [*self.beside_devices, self.claims, self.pods]
        if self.taint_rules is not None:
            self._every.append(self.taint_rules)

    def __iter__(self) -> Iterator[Reflector[Any]]:  # Any: of whatever kind
        return iter(self._every)

    def on_change(self, handler: ChangeHandler) -> None:
        """Call the handler with every change of every object from now on."""
        for reflector in self:
            reflector.store.on_change(partial(handler, reflector.resource))

    async def run(self) -> None:
        """Fill the stores until cancelled. Raises HistoryLost."""
        async with asyncio.TaskGroup() as watching:
            for reflector in self:
                watching.create_task(reflector.run(), name=reflector.name)

    async def filled(self) -> None:
        """Wait until everything was listed once."""
        for reflector in self:
            await reflector.store.synced.wait()
