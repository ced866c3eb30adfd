"""What is watched: the reflectors of all kinds that a decision looks at."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from allocator.api import TaintRule
from allocator.model import DeviceClass, Node, Slice
from scheduler.cache import kinds
from scheduler.cache.decoding import holds_nothing
from scheduler.cache.events import Decoder, Found, Holder
from scheduler.cache.held import held_by_claim, held_by_pod
from scheduler.cache.kinds import WatchedClaim
from scheduler.cache.reflector import Reflector
from scheduler.cache.watcher import Watcher
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.client.resources import NAMESPACES, NODES, PODS, Resource
from scheduler.core_v1.namespace import Namespace
from scheduler.core_v1.pod import Pod

T = TypeVar("T")

ChangeHandler = Callable[[Resource, Found[Any] | None, Found[Any] | None], None]  # Any: of whatever kind
"""Called with the resource, and its object as it was and as it is: None before it was there, and after it is gone."""


class WatchedState:
    """The reflectors. chance: gives a random number from 0 to 1. clock: seconds that only go forward."""

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
        self.claims: Reflector[WatchedClaim] = reflector(served.claims, kinds.claim_of, held_by_claim)
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
