"""Entries of status.resourceClaimStatuses that a pod has lost: they are put back, so that its claims are found.

The controller that makes claims from templates applies only the entries that it has just made. Where a pod has several,
that takes the others away, which it then makes up for in the same way, without end: the pod never lists all its claims,
and neither a scheduler nor a kubelet can go on with it. What is put back here is owned by us too, and so stays.
Source: kubernetes issue 138407, observed on 1.36.3.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.binding import pod_calls
from scheduler.binding.binder import Api
from scheduler.binding.verdicts import Verdict, verdict
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.cycle.cluster import Cluster
from scheduler.cycle.events import Event, PodChanged
from scheduler.cycle.pod_claims import is_controlled_by

Statuses = Mapping[str, str | None]
"""The name of the claim of each entry, None where none is needed."""

_PASSING = frozenset({Verdict.GONE, Verdict.CONFLICT})
"""What needs no word: no pod is there to mend, or one that has changed, and will again while it loses entries."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Loser:
    """A pod that has lost entries. whole: all that it should have."""

    pod: Pod
    whole: Statuses


class ClaimStatuses:
    """Pods that have lost entries; `run` puts them back.

    is_ours: whether a pod is the program's to mend. manager: in whose name, as field managers are called.
    """

    def __init__(self, api: Api, cluster: Cluster, is_ours: Callable[[Pod], bool], manager: str) -> None:
        self._api = api
        self._cluster = cluster
        self._is_ours = is_ours
        self._manager = manager
        self._losers: dict[str, _Loser] = {}
        self._are_there = asyncio.Event()

    def hear(self, event: Event) -> None:
        """Something has changed, and the cluster knows it."""
        if not isinstance(event, PodChanged) or event.old is None:
            return
        old, new = event.old, event.new
        loser = self._losers.pop(old.uid, None)
        if new is None or new.uid != old.uid or not self._is_ours(new):
            return
        known = {**loser.whole, **old.claim_statuses} if loser else old.claim_statuses
        if lost := {entry: name for entry, name in known.items() if self._is_lost(new, entry, name)}:
            self._losers[new.uid] = _Loser(new, {**lost, **new.claim_statuses})
            self._are_there.set()

    async def run(self) -> None:
        """Put entries back until cancelled. What fails is tried again when the pod loses one again."""
        while True:
            await self._are_there.wait()
            self._are_there.clear()
            while self._losers:
                await self._put_back(self._losers.pop(next(iter(self._losers))))

    def _is_lost(self, pod: Pod, entry: str, name: str | None) -> bool:
        """Whether the pod does not have the entry, and its claim is there and was made for the pod."""
        if entry in pod.claim_statuses:
            return False
        found = self._cluster.claims.get(pod.namespace, name) if name is not None else None
        return name is None or (found is not None and is_controlled_by(found.metadata, pod.uid))

    async def _put_back(self, loser: _Loser) -> None:
        pod = loser.pod
        entries = [
            {"name": entry, **({} if name is None else {"resourceClaimName": name})}
            for entry, name in loser.whole.items()
        ]
        try:
            await pod_calls.apply_status(self._api, pod, {"resourceClaimStatuses": entries}, self._manager)
        except CallFailed as error:
            if verdict(error) not in _PASSING:
                _LOG.warning("pod %s: entries that its status has lost could not be put back: %s", pod, error)
        else:
            names = sorted(loser.whole.keys() - pod.claim_statuses.keys())
            _LOG.info(
                "entries that status.resourceClaimStatuses has lost are put back: %s", names, extra={"pod": str(pod)}
            )
