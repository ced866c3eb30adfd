"""An API server of claims, writers and a late watch, as small as can be; and what has to be in use, told naively.

Every write gets the next version. Events are shown to the cluster in their order, whenever a case says so; what our
writers do and what the watch shows are interleaved at will. Another writer allocates without looking at anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Literal

from allocator.allocate import allocate
from allocator.api.metadata import Metadata
from allocator.cluster.usage import Usage
from allocator.model import Allocation, Claim, DeviceID, DeviceResult
from allocator.outcome import Allocated
from cel.values.quantity import Quantity
from scheduler.decision.cluster import Cluster
from scheduler.decision.schedule_result import Placed
from scheduler.state.claims import ClaimObject
from tests.builders import a_claim, a_class, a_device, a_node, a_pod, a_request, a_slice, kubernetes
from tests.properties.state.late_watch import LateWatch

NAMES = ("a", "b", "c", "d")
WHOLE = tuple(f"gpu-{number}" for number in range(3))
SHARED = "shared"


def an_object(claim: Claim) -> ClaimObject:
    raw: Mapping[str, Any] = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    found: ClaimObject = SimpleNamespace(claim=claim, raw=raw, metadata=Metadata(claim.name), reserved_for=(), error="")
    return found


@dataclass
class SimulatedAttempt:
    """One of our writers. stored: the version of its write, once it has happened. is_answered: it knows.

    end: empty while it is under way.
    """

    pod_uid: str
    claim: Claim
    results: tuple[DeviceResult, ...]
    stored: int | None = None
    is_answered: bool = False
    end: Literal["", "undone", "bound"] = ""


@dataclass
class World(LateWatch):
    """gone: claims that the watch has shown to be deleted, by uid."""

    gone: set[str] = field(default_factory=set)
    attempts: list[SimulatedAttempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = Cluster(kubernetes(), is_ours=lambda _: True)
        self.cluster.set_class(a_class())
        shared = a_device(SHARED, capacity={"memory": "100"}, allow_multiple_allocations=True)
        self.cluster.set_node(a_node())
        self.cluster.set_slice(a_slice(*WHOLE, shared))
        for name in NAMES:
            self.create(name)

    # -- the API server

    def create(self, name: str) -> None:
        if self.is_free(name):
            uid = self.new_uid()
            self.store(replace(a_claim(a_request(count=1 + self.made % 2), name=name), uid=uid))

    def take_anything(self, uid: str, seed: int) -> None:
        """Another writer allocates the claim, or clears its allocation."""
        claim = self.truth[uid]
        if claim.allocation is not None:
            self.store(replace(claim, allocation=None))
            return
        name = (*WHOLE, SHARED)[seed % 4]
        self.store(replace(claim, allocation=Allocation((a_holding(name, f"foreign-{uid}"),))))

    def touch(self, uid: str) -> None:
        self.store(self.truth[uid])

    # -- the watch

    def on_shown(self, uid: str, claim: Claim | None, version: int) -> None:
        if claim is None:
            self.cluster.remove_claim(uid)
            self.gone.add(uid)
        else:
            self.cluster.set_claim(an_object(claim), version)

    # -- our writers

    def decide(self, uid: str) -> None:
        claim = self.watched.get(uid)
        if claim is None or claim.allocation is not None or self.cluster.claims.reservation(uid):
            return
        node = self.cluster.node("node-0")
        outcome = allocate(self.cluster.fleet.snapshot, node, [claim])
        if not isinstance(outcome, Allocated):
            return
        pod = a_pod(name=f"pod-{len(self.attempts)}")
        placed = Placed("node-0", (claim,), outcome.allocations)
        ((_, allocation),) = self.cluster.reserve(pod, placed)
        assert allocation is not None
        self.attempts.append(SimulatedAttempt(pod.uid, claim, allocation.results))

    def write(self, attempt: SimulatedAttempt) -> None:
        """The write, which the API server refuses where somebody was there first."""
        uid = attempt.claim.uid
        if attempt.end or attempt.stored is not None:
            return
        if uid not in self.truth or self.truth[uid].allocation is not None:
            self.undo(attempt)
        else:
            attempt.stored = self.store(replace(self.truth[uid], allocation=Allocation(attempt.results)))

    def answer(self, attempt: SimulatedAttempt) -> None:
        """The answer to the write comes."""
        if attempt.stored is not None and not attempt.end and not attempt.is_answered:
            attempt.is_answered = True
            self.cluster.written(attempt.claim.uid, attempt.stored)

    def undo(self, attempt: SimulatedAttempt) -> None:
        """Take back what was written, if anything; then nothing of the attempt is under way."""
        if attempt.end:
            return
        claim = self.truth.get(attempt.claim.uid)
        if attempt.stored is not None and claim and claim.allocation and claim.allocation.results == attempt.results:
            self.store(replace(claim, allocation=None))
        attempt.end = "undone"
        self.cluster.unreserve(attempt.pod_uid)

    def bind(self, attempt: SimulatedAttempt) -> None:
        """The pod is bound, and the attempt over."""
        if attempt.is_answered and not attempt.end:
            attempt.end = "bound"
            self.cluster.bound(attempt.pod_uid)

    # -- what has to be in use

    def counts(self, attempt: SimulatedAttempt) -> bool:
        """True while what the attempt took counts beside what the watch shows."""
        uid = attempt.claim.uid
        is_shown = uid in self.gone or self.watched_at.get(uid, 0) >= (attempt.stored or 0)
        return attempt.end != "undone" and not (attempt.is_answered and is_shown)

    def usage(self) -> Usage:
        """From scratch: what the watch has shown, and what is in flight, each device once."""
        held: dict[str, dict[tuple[DeviceID, str], DeviceResult]] = {}
        for uid, claim in self.watched.items():
            for result in claim.allocation.results if claim.allocation else ():
                held.setdefault(uid, {})[result.id, result.share_id] = result
        for attempt in filter(self.counts, self.attempts):
            for result in attempt.results:
                held.setdefault(attempt.claim.uid, {}).setdefault((result.id, result.share_id), result)
        known = {uid: claim.name for _, uid, claim in self.log if claim}
        claims = [a_claim(name=known[uid], allocation=Allocation(tuple(own.values()))) for uid, own in held.items()]
        return Usage().plus(claims)


def a_holding(device: str, share_id: str) -> DeviceResult:
    if device != SHARED:
        return DeviceResult("gpus", "gpu.example", "pool-0", device)
    memory = {"memory": Quantity.parse("1")}
    return DeviceResult("gpus", "gpu.example", "pool-0", device, share_id=share_id, consumed_capacity=memory)
