"""Wakes pods that kube-scheduler does not retry because the extender refused them: an annotation on a node.

kube-scheduler retries a pod that an extender has refused when a node, a claim, a class or the pod itself changes, but
not when a ResourceSlice does. So changes that only the extender sees (of slices, taint rules, limits, namespace labels,
reservations that are released) are passed on as a change of a node, `DEBOUNCE_S` after the first of several.
kube-scheduler may also see a change before the extender does, and then ask too early. So such a change is passed on for
pods that it has not asked about again within `ASKED_AGAIN_S`. No node is annotated for pods that were refused after the
change. In advisory mode kube-scheduler sees slices itself, and may ask too early after those.
Source: the queueing hints of kube-scheduler 1.36.3, as observed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, islice, takewhile

from scheduler.attempt.write_outcome import may_pass
from scheduler.client.api_resources import NODES
from scheduler.client.connection import MERGE, Api
from scheduler.client.errors import CallFailed
from scheduler.core_v1.object_fields import in_microseconds
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.state.cluster_changes import (
    ClaimChanged,
    ClassChanged,
    Event,
    LimitsChanged,
    NamespaceChanged,
    NodeChanged,
    PodChanged,
    SliceChanged,
    TaintRulesChanged,
)

ANNOTATION = "dra-scheduler.dev/devices-changed"
"""When the devices of a node have changed, for all who watch nodes."""

DEBOUNCE_S = 2.0
"""From the first change until pods are woken; others that come meanwhile are passed on with it."""

ASKED_AGAIN_S = 12.0
"""For so long kube-scheduler may take to ask again after a change that it sees too: its longest backoff is 10 s."""

MOST_NODES = 16
"""Nodes that are annotated for changes that come together: any one of them wakes every pod."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that no node passed for. name: as namespace/name. moment: counts refusals and changes in their order."""

    name: str
    moment: int


@dataclass(slots=True)
class _PendingChanges:
    """Changes that are not passed on yet.

    nodes: those whose devices have changed, where that is known, in the order of the changes. last: the moment of the
    last change.
    """

    nodes: dict[str, None] = field(default_factory=dict)
    last: int = 0
    are_there: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, moment: int, node: str | None) -> None:
        """One more change. node: None where it is not known."""
        self.last = moment
        if node is not None:
            self.nodes[node] = None
        self.are_there.set()


class Poke:
    """Pods that were refused, and the changes since.

    waiting: the pods that no node passed for when they were asked about last, by uid, in the order of their refusals.
    sleep: for so many seconds. woke: called each time that pods were woken.
    """

    def __init__(
        self,
        cluster: Cluster,
        api: Api,
        sleep: Callable[[float], Awaitable[None]],
        now: Callable[[], datetime],
        woke: Callable[[], None],
    ) -> None:
        self.waiting: dict[str, WaitingPod] = {}
        self._cluster = cluster
        self._api = api
        self._sleep = sleep
        self._now = now
        self._woke = woke
        self._moments = count(1)
        self._unseen = _PendingChanges()
        self._seen = _PendingChanges()

    def refused(self, pod: Pod) -> None:
        """No node passed for the pod, as things are now."""
        self.passed(pod.uid)
        self.waiting[pod.uid] = WaitingPod(str(pod), next(self._moments))

    def passed(self, pod_uid: str) -> None:
        """Some node passed for the pod, or it waits for none any more."""
        self.waiting.pop(pod_uid, None)

    def on_event(self, event: Event) -> None:
        """Something has changed, as the watches show it."""
        match event:
            case SliceChanged(old, new):
                for slice_ in (old, new):
                    if slice_ is not None:
                        self.note(slice_.reach.node_name or None)
            case TaintRulesChanged() | LimitsChanged():
                self.note(None)
            case NamespaceChanged(old, new) if not (old and new and old.labels == new.labels):
                self.note(None)
            case ClaimChanged() | ClassChanged():
                self._note_seen()
            case NodeChanged(old, new) if old != new:  # our own annotation changes nothing that is looked at
                self._note_seen()
            case PodChanged(old, new) if old is not None and (new is None or new.node_name):
                self.passed(old.uid)
            case PodChanged(old, new) if old and new and old.claim_statuses != new.claim_statuses:
                self._note_seen()

    def note(self, node: str | None) -> None:
        """Devices of the node may be free; of any node where it is None."""
        if self.waiting:
            self._unseen.note(next(self._moments), node)

    def _note_seen(self) -> None:
        if self.waiting:
            self._seen.note(next(self._moments), None)

    async def run(self) -> None:
        """Wake pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pass_on_unseen())
            group.create_task(self._pass_on_seen())

    async def _pass_on_unseen(self) -> None:
        while True:
            await self._unseen.are_there.wait()
            await self._sleep(DEBOUNCE_S)
            changes, self._unseen = self._unseen, _PendingChanges()
            await self._wake(changes)

    async def _pass_on_seen(self) -> None:
        """A change that comes while it sleeps is looked at in the next round, and so gets the whole time as well."""
        while True:
            await self._seen.are_there.wait()
            changes, self._seen = self._seen, _PendingChanges()
            await self._sleep(ASKED_AGAIN_S)
            await self._wake(changes)

    async def _wake(self, changes: _PendingChanges) -> None:
        """Annotate some of the nodes if a pod is behind; where all calls fail and may succeed later, keep them."""
        behind = self._refused_before(changes.last)
        if not behind:
            return
        nodes = self._some_of(changes.nodes)
        errors = [error for node in nodes if (error := await self._annotate(node))]
        if len(errors) < len(nodes):
            # kube-scheduler may ask about a pod that has ended, and no event would show its end once more.
            for uid in behind:
                if not self._cluster.pods.is_shown(uid):
                    self.passed(uid)
            self._woke()
            _LOG.info("devices have changed: waking pending pods", extra={"nodes": nodes})
        elif any(map(may_pass, errors)):
            for node in nodes:
                self.note(node)

    def _refused_before(self, moment: int) -> list[str]:
        """The uids of the pods that were refused before that, and not asked about since."""
        return list(takewhile(lambda uid: self.waiting[uid].moment < moment, self.waiting))

    def _some_of(self, nodes: Iterable[str]) -> list[str]:
        """Those of the nodes that are there, of very many only the first; any node where none of them is there."""
        there = (name for name in nodes if self._cluster.number_of(name) is not None)
        return list(islice(there, MOST_NODES)) or list(islice(self._cluster.names(), 1))

    async def _annotate(self, node: str) -> CallFailed | None:
        """What went wrong, if anything did."""
        body = {"metadata": {"annotations": {ANNOTATION: in_microseconds(self._now())}}}
        try:
            await self._api.request("PATCH", NODES.path(name=node), body=body, content_type=MERGE)
        except CallFailed as error:
            _LOG.warning("cannot wake pending pods: %s", error, extra={"node": node})
            return error
        return None
