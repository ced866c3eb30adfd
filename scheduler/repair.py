"""What an earlier process left: found when this one starts to lead, and taken back or finished."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Literal

from allocator.api.versions import Json
from scheduler.attempt import claim_calls, claim_objects, pod_calls
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_calls import Send, edit_alone
from scheduler.attempt.claim_objects import (
    ClaimRef,
    Intent,
    RawClaim,
    allocation_of,
    consumers_of,
    intent_in,
    intent_of,
    key_of,
)
from scheduler.attempt.slots import CallLimit
from scheduler.attempt.write_outcome import WriteOutcome, write_outcome
from scheduler.client.connection import Api
from scheduler.client.errors import CallFailed
from scheduler.client.watch_states import Undecodable
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.kinds import MANAGER, WatchedClaim, pod_of
from scheduler.state.claims import FINALIZER, is_controlled_by
from scheduler.state.cluster_changes import Event, PodChanged

# Finds and removes unused leftovers on claims, at regular intervals: allocations and intents of ours.
#
# A pod that is deleted during its attempt, a process that ends, a failed undo: each may leave an allocation without a
# reservation, or an intent without an allocation. Both are removed after two minutes by our own clock.


EVERY_S = 60.0
"""How often all claims are looked through."""

LEAST_AGE_S = 120.0
"""For so long a leftover has to have been seen before it is removed: its writer may still be at work."""

_SWEEP_TRIES = 2
"""Of one write to a claim, within one sweep."""

Leftover = Literal["allocation", "intent"]


def should_have_been_freed(leftover: Leftover, claim: RawClaim) -> bool:
    """Whether the allocation is one that we have left behind. Who takes the finalizer away keeps it there himself."""
    return leftover == "allocation" and FINALIZER in (claim["metadata"].get("finalizers") or ())


@dataclass(slots=True)
class Sweep:
    """What was found, and since when. scheduler: whose intents mark what is ours."""

    scheduler: str
    _seen: dict[tuple[ClaimRef, Leftover], float] = field(default_factory=dict)

    def due(
        self, claims: Iterable[WatchedClaim], in_flight: Callable[[ClaimRef], bool], now_s: float
    ) -> list[tuple[Leftover, WatchedClaim]]:
        """The claims whose leftover has been there for long enough. Cost: O(claims), however large they are.

        claims: all of them, as observed. in_flight: whether an attempt is under way with it. now_s: monotonic.
        """
        seen: dict[tuple[ClaimRef, Leftover], float] = {}
        due: list[tuple[Leftover, WatchedClaim]] = []
        for watched in claims:
            claim, annotations = watched.claim, watched.metadata.annotations
            mark = self._left(intent_in(annotations), claim.allocation, watched.reserved_for)
            key = ClaimRef(claim.namespace, claim.name, claim.uid)
            if mark is None or in_flight(key):
                continue
            since_s = seen[key, mark] = self._seen.get((key, mark), now_s)
            if now_s - since_s >= LEAST_AGE_S:
                due.append((mark, watched))
        self._seen = seen
        return due

    def leftover(self, claim: RawClaim) -> Leftover | None:
        """The unused leftover of ours that the claim holds."""
        return self._left(intent_of(claim), allocation_of(claim), consumers_of(claim))

    def _left(self, intent: Intent | None, allocation: object | None, users: Sequence[object]) -> Leftover | None:
        if intent is None or intent.scheduler != self.scheduler:
            return None
        if allocation is None:
            return "intent"
        return None if users else "allocation"

    async def clean(self, binder: Binder, due: Iterable[WatchedClaim]) -> int:
        """Take back what is due and say of how many claims; what was taken into use meanwhile stays.

        Namespaces go beside each other, and none for much longer than a sweep takes to come again: one whose webhooks
        take long keeps no other waiting.
        """
        by_namespace = defaultdict[str, list[WatchedClaim]](list)
        for watched in due:
            by_namespace[watched.claim.namespace].append(watched)
        until = binder.time.monotonic() + EVERY_S
        return sum(await asyncio.gather(*(self._clean_all(binder, some, until) for some in by_namespace.values())))

    async def _clean_all(self, binder: Binder, claims: Iterable[WatchedClaim], until: float) -> int:
        """One after the other until then; the next sweep finds the rest."""
        in_time = takewhile(lambda _: binder.time.monotonic() < until, claims)
        return sum([await self._clean(binder, found.raw) for found in in_time])

    async def _clean(self, binder: Binder, claim: RawClaim) -> bool:
        intent = intent_of(claim)

        def following(current: RawClaim) -> tuple[Send, Json] | None:
            return self._next(current) if intent_of(current) == intent else None

        # A conflict is looked at again; what fails is found by the next sweep.
        return await edit_alone(binder, key_of(claim), following, claim, tries_max=_SWEEP_TRIES)

    def _next(self, claim: RawClaim) -> tuple[Send, Json] | None:
        match self.leftover(claim):
            case "allocation":
                return claim_calls.put_status, claim_objects.deallocated(claim)
            case "intent":
                return claim_calls.put, claim_objects.unmarked(claim)
            case None:
                return None


# Completes or removes what an earlier process left unfinished: found by its intents, at the start.
#
# An intent without an allocation is removed. An allocation whose pod is not bound gets our intent: the pod is decided
# again, with that claim. Both writes change the claim's version, so that a write that the other process may still have
# in flight cannot be stored. Claims whose pods are bound are complete.


CONCURRENT = 16
"""Maximum number of claims that are recovered at the same time."""

_RECOVERY_TRIES = 3
"""For each claim. One that cannot be written then is left to the sweep: nobody's pods wait for it."""


WAIT_S = 10.0
"""For each claim: nobody's pods wait for a webhook that takes longer."""

_LOG = logging.getLogger(__name__)

LAST_EPOCH = 2**63 - 2
"""What is later was written by nobody of ours, but for a clock that is millions of years ahead."""


def epoch_after(binder: Binder, claims: Iterable[RawClaim]) -> int:
    """The epoch of a process that begins by its own clock: later than all of ours that have left an intent on a claim.

    The clock may have been set back since, or the other process may have run where it is ahead.
    """
    intents = map(intent_of, claims)
    ours = [one.epoch for one in intents if one and one.scheduler == binder.scheduler and one.epoch < LAST_EPOCH]
    return max([binder.epoch, *(epoch + 1 for epoch in ours)])


async def recover(binder: Binder, claims: Iterable[RawClaim], is_bound: Callable[[str], bool]) -> int:
    """Settle all unfinished claims and say how many these were.

    claims: as listed when the other process can send no more writes, or later. is_bound: of a pod's uid. Cost: a write
    for each that is unfinished.
    """
    unfinished = [claim for claim in claims if is_unfinished(binder, claim, is_bound)]
    limit = asyncio.Semaphore(CONCURRENT)

    async def end(claim: RawClaim) -> None:
        key = key_of(claim)
        async with limit:
            try:
                async with asyncio.timeout(WAIT_S):
                    await edit_alone(
                        binder,
                        key,
                        lambda current: _ending(binder, current, is_bound),
                        claim,
                        tries_max=_RECOVERY_TRIES,
                    )
            except TimeoutError:
                _LOG.warning("claim %s: not recovered within %g s, left to the sweep", key, WAIT_S)

    await asyncio.gather(*(end(claim) for claim in unfinished))
    return len(unfinished)


def is_unfinished(binder: Binder, claim: RawClaim, is_bound: Callable[[str], bool]) -> bool:
    """Whether an older epoch of ours may not have ended what it began with the claim."""
    intent = intent_of(claim)
    return intent is not None and _is_older(binder, intent) and not (allocation_of(claim) and is_bound(intent.podUID))


def _is_older(binder: Binder, intent: Intent) -> bool:
    return intent.scheduler == binder.scheduler and intent.epoch < binder.epoch


def _ending(binder: Binder, claim: RawClaim, is_bound: Callable[[str], bool]) -> tuple[Send, Json] | None:
    intent = intent_of(claim)
    if intent is None or not is_unfinished(binder, claim, is_bound):
        return None
    if allocation_of(claim):
        return claim_calls.put, claim_objects.marked(claim, replace(intent, epoch=binder.epoch, process=binder.process))
    return claim_calls.put, claim_objects.unmarked(claim)


# Restores entries of status.resourceClaimStatuses that a pod has lost, so that its claims are found.
#
# The controller that creates claims from templates applies only the entries of the claims that it has just created. If
# a pod has several, that removes the other entries, which the controller then replaces in the same way, endlessly: the
# pod never lists all its claims, and neither a scheduler nor a kubelet can proceed. Restored entries are also owned by
# this program, and so stay. A controller that sees an old state, as after a restart of the API server, makes a second
# claim, and names that in the status of a pod that is bound with the first one: its kubelet would wait for devices that
# nobody gives to the second. If an entry becomes unusable by that, it gets its claim again, or is given up, so that the
# controller creates it again. Source: kubernetes issue 138407, observed on 1.36.3.


ClaimOfEntry = Mapping[str, str]
"""The name of the claim of each entry."""

_STATUS_TRIES = 5
"""Of one pod, which may change again and again between its being read and written."""

MENDED_MAX, MENDED_OF_NAMESPACE_MAX = 16, 4
"""Pods that are mended at the same time, over all and of one namespace."""


@dataclass(frozen=True, slots=True)
class _Loser:
    """A pod that has lost entries. whole: all that it should have, save those that need no claim."""

    pod: Pod
    whole: ClaimOfEntry


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
        recorded = [*(loser.whole.items() if loser else ()), *before.items()]
        lost = {entry: name for entry, name in recorded if self._is_lost(new, entry, name)}
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
        stored = self._cluster.claims.get(pod.namespace, name)
        if stored is None or not is_controlled_by(stored.metadata, pod.uid):
            return False
        return not current or (bool(pod.node_name) and self._has(pod, name) and not self._has(pod, current))

    def _has(self, pod: Pod, name: str) -> bool:
        """Whether the claim is allocated, and reserved for the pod."""
        stored = self._cluster.claims.get(pod.namespace, name)
        is_reserved = stored is not None and any(one.uid == pod.uid for one in stored.reserved_for)
        return is_reserved and stored is not None and stored.claim.allocation is not None

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
        for _ in range(_STATUS_TRIES):
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


def _names(pod: Pod) -> ClaimOfEntry:
    """Those that its status has."""
    return {entry: name for entry, name in pod.claim_statuses.items() if name}
