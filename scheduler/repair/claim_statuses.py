"""Restores entries of status.resourceClaimStatuses that a pod has lost, so that its claims are found.

The controller that creates claims from templates applies only the entries of the claims that it has just created. If a
pod has several, that removes the other entries, which the controller then replaces in the same way, endlessly: the pod
never lists all its claims, and neither a scheduler nor a kubelet can proceed. Restored entries are also owned by this
program, and so stay. A controller that sees an old state, as after a restart of the API server, makes a second claim,
and names that in the status of a pod that is bound with the first one: its kubelet would wait for devices that nobody
gives to the second. If an entry becomes unusable by that, it gets its claim again, or is given up, so that the
controller creates it again.
Source: kubernetes issue 138407, observed on 1.36.3.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.attempt import pod_calls
from scheduler.attempt.call_limit import CallLimit
from scheduler.attempt.write_outcome import WriteOutcome, write_outcome
from scheduler.cache.kinds import pod_of
from scheduler.cache.watch_events import Undecodable
from scheduler.client.api import Api
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.unusable_entries import MANAGER
from scheduler.decision.cluster import Cluster
from scheduler.state.cluster_changes import Event, PodChanged
from scheduler.state.pod_claims import is_controlled_by

Names = Mapping[str, str]
"""The name of the claim of each entry."""

TRIES = 5
"""Of one pod, which may change again and again between its being read and written."""

MENDED_MAX, MENDED_OF_NAMESPACE_MAX = 16, 4
"""Pods that are mended at the same time, over all and of one namespace."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Loser:
    """A pod that has lost entries. whole: all that it should have, save those that need no claim."""

    pod: Pod
    whole: Names


class ClaimStatuses:
    """Pods that have lost entries; `run` puts them back.

    is_ours: whether a pod is the program's to mend.
    """

    def __init__(self, api: Api, cluster: Cluster, is_ours: Callable[[Pod], bool]) -> None:
        self._api = api
        self._cluster = cluster
        self._is_ours = is_ours
        self._losers: dict[str, _Loser] = {}
        self._mended: set[str] = set()
        self._are_there = asyncio.Event()
        self._limit = CallLimit(MENDED_MAX, MENDED_OF_NAMESPACE_MAX)

    def on_event(self, event: Event) -> None:
        """Something has changed, and the cluster knows it."""
        if not isinstance(event, PodChanged):
            return
        old, new = event.old, event.new
        loser = self._losers.pop(old.uid, None) if old is not None else None
        if new is None or not self._is_ours(new):
            return
        before = _names(old) if old is not None and old.uid == new.uid else {}
        known = [*(loser.whole.items() if loser else ()), *before.items()]
        lost = {entry: name for entry, name in known if self._is_lost(new, entry, name)}
        if lost or "" in new.claim_statuses.values():
            self._losers[new.uid] = _Loser(new, {**_names(new), **lost})
            self._are_there.set()

    async def run(self) -> None:
        """Put entries back until cancelled. What fails is tried again when the pod loses one again."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._are_there.wait()
                self._are_there.clear()
                for uid in [uid for uid in self._losers if uid not in self._mended]:
                    self._mended.add(uid)
                    group.create_task(self._mend(self._losers.pop(uid)))

    def _is_lost(self, pod: Pod, entry: str, name: str) -> bool:
        """Whether the pod lacks the entry, or has an unusable one, and its claim is there and was made for the pod.

        So it is as well where the entry names another claim, though the pod is bound with this one.
        """
        current = pod.claim_statuses.get(entry, "")
        if current in (None, name):
            return False
        found = self._cluster.claims.get(pod.namespace, name)
        if found is None or not is_controlled_by(found.metadata, pod.uid):
            return False
        return not current or (bool(pod.node_name) and self._has(pod, name) and not self._has(pod, current))

    def _has(self, pod: Pod, name: str) -> bool:
        """Whether the claim is allocated, and reserved for the pod."""
        found = self._cluster.claims.get(pod.namespace, name)
        is_reserved = found is not None and any(one.uid == pod.uid for one in found.reserved_for)
        return is_reserved and found is not None and found.claim.allocation is not None

    async def _mend(self, loser: _Loser) -> None:
        pod = loser.pod
        try:
            async with self._limit.of(pod.namespace):
                names = await self._put_back(loser)
        except (CallFailed, Undecodable) as error:
            _LOG.warning("pod %s: cannot restore entries that its status has lost: %s", pod, error)
        except Exception:  # noqa: BLE001 - whatever it is, it costs this pod alone
            _LOG.exception("pod %s: cannot restore entries that its status has lost", pod)
        else:
            if names:
                _LOG.info(
                    "restored entries that status.resourceClaimStatuses had lost: %s",
                    names,
                    extra={"pod": str(pod)},
                )
        finally:
            self._mended.discard(pod.uid)
            self._are_there.set()  # it may have lost others meanwhile

    async def _put_back(self, loser: _Loser) -> list[str]:
        """The entries that were put back: none where the pod, as it is read now, has all of them. Raises CallFailed."""
        for _ in range(TRIES):
            raw = await pod_calls.get(self._api, loser.pod.namespace, loser.pod.name, loser.pod.uid)
            pod = pod_of(raw) if raw is not None else None
            if pod is None:
                return []
            lost = {entry: name for entry, name in loser.whole.items() if self._is_lost(pod, entry, name)}
            if not lost and "" not in pod.claim_statuses.values():
                return []
            entries = [{"name": entry, "resourceClaimName": name} for entry, name in {**_names(pod), **lost}.items()]
            try:
                await pod_calls.apply_status(self._api, pod, {"resourceClaimStatuses": entries}, MANAGER)
            except CallFailed as error:
                if write_outcome(error) is WriteOutcome.GONE:
                    return []
                if write_outcome(error) is not WriteOutcome.CONFLICT:
                    raise
            else:
                return sorted(lost)
        return []


def _names(pod: Pod) -> Names:
    """Those that its status has."""
    return {entry: name for entry, name in pod.claim_statuses.items() if name}
