"""Steps on claims, also those that a group shares: make one for extended resources, allocate, look again, reserve."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from allocator.api import allocation_to_v1
from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.api.versions import Json
from allocator.explain.text import holders_text
from allocator.model import Allocation
from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import TRIES, Attempt, Together, WrittenClaim, pause
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_calls import until_answered
from scheduler.attempt.claim_objects import (
    ClaimRef,
    Intent,
    RawClaim,
    allocation_of,
    consumers_of,
    intent_of,
    key_of,
    version_of,
)
from scheduler.attempt.claim_step import (
    MARK,
    ClaimStep,
    Write,
    check_exists,
    check_kept,
    check_not_allocated,
    intent_write,
    stored_by,
)
from scheduler.attempt.decision import AttemptEnded, ExtendedPlan, Retry, Step, Unschedulable
from scheduler.attempt.write_outcome import WriteOutcome, write_outcome
from scheduler.client.errors import CallFailed
from scheduler.core_v1.object_fields import in_seconds
from scheduler.plugins.dynamic_resources import CLAIMS
from scheduler.state.invariants import Rival

# The outcome of an attempt that loses its devices to another claim, and when its pod is tried again.


JITTER_LEAST_S = 0.05
JITTER_MOST_S = 0.5
"""The bounds of the random time after which a pod is tried again whose rival may have given way at the same time."""


def lost_to(rival: Rival, claim: ClaimRef) -> Retry:
    """The rival was faster, and keeps the devices: our view has them as in use, so the next decision goes elsewhere."""
    reason = f"claim {claim}: {_named(rival, claim)} took its devices first"
    return Retry(reason, after_s=0.0, is_lost=True, is_taken=True)


def given_up(rival: Rival, claim: ClaimRef, binder: Binder) -> Retry:
    """The rival came later, and does not give way. Two that met once shall not meet again."""
    reason = f"claim {claim}: {_named(rival, claim)} holds the same devices and does not give way"
    jitter_s = JITTER_LEAST_S + binder.time.random() * (JITTER_MOST_S - JITTER_LEAST_S)
    return Retry(reason, jitter_s, is_lost=True, is_taken=True)


def _named(rival: Rival, claim: ClaimRef) -> str:
    return holders_text([(f"{rival.namespace}/{rival.name}", 1)], reader=claim.namespace, noun="claim ")


# Allocates a claim: first finalizer and intent, then allocation and reservation in one write.
#
# The intent protects a claim that is not allocated yet: even after a crash it shows whose work it is. Source: KEP-4381;
# kube-scheduler's DynamicResources plugin, PreBind.


@dataclass(eq=False)
class Allocate(ClaimStep):
    """The allocation of a claim that has none. claim: raw, as the decision was made on it."""

    claim: RawClaim
    allocation: Allocation

    async def do(self) -> None:
        """Mark and allocate the claim. Raises AttemptEnded."""
        wanted = with_time(self.binder, self.allocation)
        self.written = WrittenClaim(key_of(self.claim), self.claim, wanted, is_own=True)
        check_devices(self.binder, self.attempt, self.written.key)
        seen = intent_of(self.claim)
        intent = intent_write(self.attempt, lambda current: _check_unmarked(current, seen))
        marked = await stored_by(self.binder, self.attempt, self.written, self.claim, intent)
        await allocate(self.binder, self.attempt, self.written, marked, wanted)

    @property
    def key(self) -> str:
        """Namespace and name of the claim."""
        return str(key_of(self.claim))

    def stays(self, node: str) -> bool:
        """Whether the devices can be used on the node, where the pod has not only been waiting for them."""
        if self.attempt.decision.is_assigned:
            return False  # of no use before all claims are there
        return self.binder.watched.is_reached(node, self.allocation.node_selector)


async def allocate(binder: Binder, attempt: Attempt, written: WrittenClaim, marked: RawClaim, wanted: Json) -> None:
    """Allocate and reserve the claim, which has finalizer and intent. Raises AttemptEnded."""
    check_devices(binder, attempt, written.key)
    try:
        await stored_by(binder, attempt, written, marked, _allocation_write(attempt, wanted))
    except AttemptEnded as ended:
        if isinstance(ended.outcome, Retry) and ended.outcome.is_denied:
            # A guard refuses what it has seen before us; by now we may have, whatever any webhook says.
            check_devices(binder, attempt, written.key)
        raise
    binder.watched.written(written.key, written.version)


def check_devices(binder: Binder, attempt: Attempt, claim: ClaimRef | None = None) -> None:
    """Raises AttemptEnded where the devices cannot be given any more, or another claim than this one has got them."""
    if reason := binder.watched.objection(attempt.decision):
        raise AttemptEnded(Retry(reason))
    if claim is not None and (rivals := binder.watched.rivals(claim)):
        raise AttemptEnded(lost_to(rivals[0], claim))


def with_time(binder: Binder, allocation: Allocation) -> Json:
    """The allocation as it is written, from now on."""
    return allocation_to_v1(allocation) | {"allocationTimestamp": in_seconds(binder.time.now())}


def _allocation_write(attempt: Attempt, wanted: Mapping[str, Any]) -> Write:
    pod = attempt.decision.pod

    def is_stored(current: RawClaim) -> bool:
        is_allocated = claim_objects.is_allocated(current, wanted, pod.name, pod.uid)
        return is_allocated and intent_of(current) == attempt.intent

    def check(current: RawClaim) -> None:
        check_not_allocated(current)
        if not claim_objects.is_marked(current, attempt.intent):
            reason = f"claim {key_of(current)} lost its finalizer or intent before it was allocated"
            raise AttemptEnded(Retry(reason, is_lost=True))

    def edit(current: RawClaim) -> Json:
        return claim_objects.allocated(current, wanted, pod.name, pod.uid)

    return Write(claim_calls.put_status, edit, is_stored, check, "the allocation and reservation that were decided")


def _check_unmarked(claim: RawClaim, seen: Intent | None) -> None:
    """seen: as the decision was made on it. It may be a dead process's; a newer one is of somebody who is at work."""
    check_not_allocated(claim)
    if intent_of(claim) not in (None, seen):
        raise AttemptEnded(Retry(f"claim {key_of(claim)} is being allocated by another attempt", is_lost=True))


# Looks for rivals: of several writers that allocate one device, at most the first may bind.
#
# The API server never compares the devices of two claims. So each writer waits until its watch has passed its own
# write. A watch shows changes in the order of their versions: the later writer always sees the earlier claim, and gives
# way; the earlier writer waits for that.


BARRIER_S = 5.0
"""For so long our watch may take to show our own writes; then the claims are listed instead."""

GIVE_WAY_S = 2.0
"""For so long the earlier writer waits for a later one to give way; then it gives way itself."""

POLL_S = 0.02
"""Between two looks for rivals meanwhile."""


@dataclass(eq=False)
class Verify(Step):
    """The look for rivals of all claims that the attempt has written to."""

    binder: Binder
    attempt: Attempt

    @property
    def awaited(self) -> str:
        """The pod's own claims, and rivals that others have allocated."""
        return "the API server to show its claims as they were written, and those of others"

    async def do(self) -> None:
        """Return once none of the claims has a rival. Raises AttemptEnded where the pod has to give way."""
        await self._see()
        time, claims = self.binder.time, self.attempt.claims
        give_up_at = time.monotonic() + GIVE_WAY_S
        while rivals := [(one, rival) for one in claims for rival in self.binder.watched.rivals(one.key)]:
            is_in_time = time.monotonic() < give_up_at
            for written, rival in rivals:
                if rival.resource_version < written.version or not is_in_time:
                    _give_way(self.binder, written, rival)
            await time.sleep(POLL_S)

    async def _see(self) -> None:
        """Wait until our view of the claims includes all that was written."""
        last = max((one.version for one in self.attempt.claims), default=0)
        if await self.binder.watched.reached(last, BARRIER_S):
            return
        try:
            await self.binder.watched.catch_up()
        except CallFailed as error:
            raise AttemptEnded(Retry(f"cannot read the other allocations: {error}")) from error


def _give_way(binder: Binder, claim: WrittenClaim, rival: Rival) -> NoReturn:
    # Whoever allocated it, the claim can serve nobody as it is.
    claim.allocation = allocation_of(claim.stored)
    is_first = rival.resource_version < claim.version
    raise AttemptEnded(lost_to(rival, claim.key) if is_first else given_up(rival, claim.key, binder))


# Creates and allocates the claim for a pod's extended resources.
#
# All attempts for a pod use the same name, so that there is at most one such claim. If a claim of that name belongs to
# somebody else, the pod waits until it is gone. Source: KEP-5004; kube-scheduler's DynamicResources plugin, PreBind.


@dataclass(eq=False)
class MakeClaim(ClaimStep):
    """The claim that the pod's extended resources need.

    is_making: it may have been made, though no answer says so.
    """

    plan: ExtendedPlan
    is_making: bool = field(default=False, init=False)

    async def do(self) -> None:
        """Make the claim with finalizer and intent, and allocate it. Raises AttemptEnded."""
        check_devices(self.binder, self.attempt)
        stored = await self._created()
        self.written = self._noted(stored)
        self.is_making = False
        self.written.note(stored)
        check_kept(self.written, MARK, is_kept=claim_objects.is_marked(stored, self.attempt.intent))
        is_as_made = claim_objects.is_as_made(stored, self.plan.claim, self.attempt.decision.pod.uid)
        check_kept(self.written, "its owner, annotation or requests", is_kept=is_as_made)
        self.binder.watched.made(self.plan.claim.claim.uid, self.written.key)
        self.written.allocation = wanted = with_time(self.binder, self.plan.allocation)
        await allocate(self.binder, self.attempt, self.written, stored, wanted)

    @property
    def is_idle(self) -> bool:
        """Whether it is known if the claim was made, and each write to it was answered."""
        return not self.is_making and super().is_idle

    @property
    def may_be_relied_on(self) -> bool:
        """Whether the claim may be there."""
        return self.is_making or super().may_be_relied_on

    def stays(self, node: str) -> bool:
        """Whether the pod's status names the claim, and its devices can be used on the node."""
        if self.attempt.decision.is_assigned or not self.attempt.pod.names_claim:
            return False
        return self.binder.watched.is_reached(node, self.plan.allocation.node_selector)

    async def undo(self, node: str) -> bool:
        """Delete the claim, if it was made."""
        if self.is_making:
            await self._look_for()
        return await super().undo(node)

    def _noted(self, stored: Json) -> WrittenClaim:
        written = WrittenClaim(key_of(stored), stored, None, is_own=True, is_made=True)
        self.attempt.note(written, "")
        return written

    async def _look_for(self) -> None:
        """Note the claim where it was made without an answer, so that it is taken back."""
        claim, pod = self.plan.claim.claim, self.attempt.decision.pod
        try:
            stored = await until_answered(
                self.binder, lambda: claim_calls.find(self.binder, claim.namespace, claim.name), for_pod=pod.uid
            )
        except CallFailed:
            return  # it is the pod's, and goes with it; another attempt for the pod takes it away first
        if stored is not None and intent_of(stored) == self.attempt.intent:
            self.written = self._noted(stored)
            self.written.may_be_stored = True

    async def _created(self) -> Json:
        pod, tries, is_unknown = self.attempt.decision.pod, 0, False
        claim = claim_objects.made(self.plan.claim, pod.name, pod.uid, self.attempt.intent)
        while tries < TRIES:
            tries += 1
            self.is_making = True
            try:
                return await claim_calls.create(self.binder, claim)
            except CallFailed as error:
                is_unknown |= write_outcome(error) is WriteOutcome.UNKNOWN
                self.is_making = is_unknown
                await pause(self.binder, self.attempt, error, f"claim {self.key}", tries)
            stored = await self._read()
            if stored is not None:
                return stored
        raise AttemptEnded(Retry(f"claim {self.key} could not be created in {TRIES} attempts"))

    async def _read(self) -> Json | None:
        """The claim of ours; None where there is none. Raises AttemptEnded where it is another one."""
        claim = self.plan.claim.claim
        stored = await claim_calls.found(self.binder, claim.namespace, claim.name, f"claim {self.key}")
        if stored is not None and intent_of(stored) != self.attempt.intent:
            raise AttemptEnded(Retry(f"claim {self.key} already exists", is_lost=True))
        return stored

    @property
    def key(self) -> str:
        """Namespace and name of the claim."""
        claim = self.plan.claim.claim
        return f"{claim.namespace}/{claim.name}"


# Reserves a claim that is allocated already, by another scheduler or an earlier attempt for the pod.
#
# A claim that is already reserved for the pod is taken over: it gets the intent of this attempt. Source: KEP-4381;
# kube-scheduler's DynamicResources plugin, PreBind.


@dataclass(eq=False)
class Reserve(ClaimStep):
    """The reservation of an allocated claim. claim: raw, as the decision was made on it."""

    claim: RawClaim

    async def do(self) -> None:
        """Reserve the claim, or take it over. Raises AttemptEnded."""
        async with self.binder.claim_locks.of(key_of(self.claim), self.attempt.slot.lent) as lock:
            claim = max(self.claim, lock.passed_on or self.claim, key=lambda one: int(version_of(one)))
            if self.attempt.decision.pod.uid not in consumers_of(claim):
                claim = lock.passed_on = await self._join(claim)
            if not any(one.key == key_of(claim) for one in self.attempt.claims):
                lock.passed_on = await self._take_over(claim)

    @property
    def key(self) -> str:
        """Namespace and name of the claim."""
        return str(key_of(self.claim))

    def stays(self, node: str) -> bool:
        """Always: the process that bound the pod relies on it."""
        return True

    async def _join(self, claim: RawClaim) -> Json:
        """The claim as stored with the pod's reservation; it is noted only where that is certain to be ours."""
        pod = self.attempt.decision.pod
        write = Write(
            claim_calls.put_consumers,
            lambda current: claim_objects.reserved(current, pod.name, pod.uid),
            lambda current: claim_objects.is_reserved(current, pod.name, pod.uid),
            self._check_room,
            "the pod's reservation",
            is_anonymous=True,
        )
        self.written = WrittenClaim(key_of(claim), claim, None)
        return await stored_by(self.binder, self.attempt, self.written, claim, write)

    async def _take_over(self, claim: RawClaim) -> Json:
        # Differs from kube-scheduler, which writes nothing: the attempt that reserved the claim may not have ended, in
        # a process before this one or beside it. Once it finds our intent it can neither undo nor bind.
        self.written = WrittenClaim(key_of(claim), claim, self._allocation, is_taken_over=True)
        intent = intent_write(self.attempt, self._check_reserved)
        return await stored_by(self.binder, self.attempt, self.written, claim, intent)

    @property
    def _allocation(self) -> Json:
        allocation = allocation_of(self.claim)
        assert allocation is not None, f"claim {key_of(self.claim)} has no allocation and is given none"
        return allocation

    def _check_unchanged(self, current: RawClaim) -> None:
        check_exists(current)
        allocation = allocation_of(current)
        if allocation is None or not claim_objects.is_same_allocation(allocation, self._allocation):
            raise AttemptEnded(Retry(f"claim {key_of(current)} was deallocated"))

    def _check_reserved(self, current: RawClaim) -> None:
        self._check_unchanged(current)
        if self.attempt.decision.pod.uid not in consumers_of(current):
            reason = f"claim {key_of(current)} was released by another attempt"
            raise AttemptEnded(Retry(reason, is_lost=True, is_taken=True))

    def _check_room(self, current: RawClaim) -> None:
        self._check_unchanged(current)
        if len(consumers_of(current)) >= RESERVED_FOR_MAX:
            reason = f"claim {key_of(current)} is reserved for {RESERVED_FOR_MAX} pods, the maximum"
            raise AttemptEnded(Unschedulable(reason, CLAIMS))


@dataclass(eq=False)
class AllocateShared(Allocate):
    """The allocation of a claim that others of the group reserve."""

    together: Together

    async def do(self) -> None:
        """Mark and allocate the claim, and tell the others. Raises AttemptEnded."""
        await super().do()
        assert self.written is not None, "it was written"
        self.together.is_stored(self.written.stored)

    async def undo(self, node: str) -> bool:
        """Take the claim back once the others have let it go."""
        await self.together.let_go(self.claim)
        return await super().undo(node)


@dataclass(eq=False)
class ReserveShared(Reserve):
    """The reservation of a claim that another attempt of the group allocates."""

    together: Together

    async def do(self) -> None:
        """Reserve the claim once it has devices. Raises AttemptEnded."""
        async with self.attempt.slot.lent():
            self.claim = await self.together.allocated(self.claim)
        await super().do()

    async def undo(self, node: str) -> bool:
        """Take back the reservation, for which the attempt waits that has allocated the claim."""
        try:
            return await super().undo(node)
        finally:
            self.together.lets_go(self.claim, self.attempt.decision.pod.uid)
