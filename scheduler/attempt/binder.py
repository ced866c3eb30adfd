"""What attempts use: the API server, watched claims and volumes, time, this process' identity, and what each is at.

Time, sleep and random numbers are functions, so that tests need no clock. An attempt waits for its slot, does its
steps, or takes back what it wrote; while the API server does not answer, it goes on asking what became of its pod. What
each is at is noted since when, so that one that takes long explains itself.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from allocator.model import NodeSelector
from scheduler.attempt.claim_objects import ClaimRef, RawClaim, key_of, version_of
from scheduler.attempt.decision import Decision, Listener, PodKey
from scheduler.attempt.slots import CallLimit, KeyLocks
from scheduler.client.api_resources import Resource
from scheduler.client.connection import Api
from scheduler.client.watch_states import Key
from scheduler.client.watcher import Reflector
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.storage_objects import PersistentVolume, PersistentVolumeClaim
from scheduler.decision.cluster import Cluster
from scheduler.kinds import WatchedClaim
from scheduler.rates import backoff_s
from scheduler.state.cluster_changes import (
    ClaimChanged,
    Event,
    NodeChanged,
    PersistentVolumeChanged,
    PersistentVolumeClaimChanged,
    PodChanged,
)
from scheduler.state.invariants import Rival, is_reached
from scheduler.state.storage import ObjectKey

# How attempts wait for changes that the watches show, without asking the API server.


Subject = tuple[str, Hashable]
"""What may change: a kind, and what an object of it is found by."""


class WatchedChanges:
    """Who waits for a change of which object."""

    def __init__(self) -> None:
        self._following: dict[Subject, set[Callable[[], None]]] = {}

    def on_event(self, event: Event) -> None:
        """Something has changed: steps that wait for it check again."""
        for look_again in tuple(self._following.get(_subject(event), ())) if self._following else ():
            look_again()

    @contextmanager
    def following(self, subjects: Iterable[Subject]) -> Iterator[asyncio.Event]:
        """An event that is set as soon as one of these has changed, while the context is open."""
        changed = asyncio.Event()
        with self.calling(changed.set, subjects):
            yield changed

    @contextmanager
    def calling(self, look_again: Callable[[], None], subjects: Iterable[Subject]) -> Iterator[None]:
        """Call this each time that one of these has changed, while the context is open."""
        followed = list(subjects)
        for subject in followed:
            self._following.setdefault(subject, set()).add(look_again)
        try:
            yield
        finally:
            for subject in followed:
                self._leave(subject, look_again)

    def _leave(self, subject: Subject, look_again: Callable[[], None]) -> None:
        others = self._following.get(subject, set())
        others.discard(look_again)
        if not others:
            self._following.pop(subject, None)


def pod_subject(pod: PodKey) -> Subject:
    """The pod."""
    return "Pod", pod.uid


def node_subject(node: str) -> Subject:
    """The node."""
    return "Node", node


def claim_subject(key: NamespacedName) -> Subject:
    """The claim."""
    return "PersistentVolumeClaim", key


def volume_subject(name: str) -> Subject:
    """The volume."""
    return "PersistentVolume", name


def resource_claim_subject(uid: str) -> Subject:
    """The ResourceClaim."""
    return "ResourceClaim", uid


def _subject(event: Event) -> Subject:
    match event:
        case PodChanged(old, new) if pod := new or old:
            return "Pod", pod.uid
        case ClaimChanged(old, new) if resource_claim := new or old:
            return resource_claim_subject(resource_claim.uid)
        case NodeChanged(old, new) if node := new or old:
            return node_subject(node.name)
        case PersistentVolumeClaimChanged(old, new) if claim := new or old:
            return claim_subject(claim.key)
        case PersistentVolumeChanged(old, new) if volume := new or old:
            return volume_subject(volume.name)
        case _:
            return "", ""


# What attempts read from the watches: claims, rivals, nodes and devices.


class WatchedClaims:
    """The claims, as the watch shows them."""

    def __init__(self, claims: Reflector[WatchedClaim], cluster: Cluster) -> None:
        self._claims = claims
        self._cluster = cluster

    async def reached(self, resource_version: int, timeout_s: float) -> bool:
        """True once the watch of the claims has passed that version, False when time is up."""
        return await self._claims.store.reached(resource_version, timeout_s)

    async def catch_up(self) -> None:
        """List the claims again at a quorum and take in what is newer. Raises CallFailed."""
        await self._claims.catch_up()

    def rivals(self, claim: ClaimRef) -> Sequence[Rival]:
        """The other claims that cannot hold what they hold together with this one."""
        return self._cluster.rivals(claim.uid)

    def written(self, claim: ClaimRef, resource_version: int) -> None:
        """Our reservation of the claim's devices is stored since that version."""
        self._cluster.written(claim.uid, resource_version)

    def made(self, made_up: str, claim: ClaimRef) -> None:
        """The claim with the made-up uid is there; what was taken for it is this one's."""
        self._cluster.made(made_up, claim.uid)

    def claim(self, known: RawClaim) -> RawClaim | None:
        """The claim as the watch shows it, or as it is known where that is older or cannot be read; None once gone."""
        key = key_of(known)
        store, name = self._claims.store, Key(key.namespace, key.name)
        if name in store.undecoded:
            return known
        entry = store.entries.get(name)
        if entry is None or entry.uid != key.uid:
            return None
        return entry.value.raw if entry.resource_version > int(version_of(known)) else known

    def has_node(self, node: str) -> bool:
        """Whether the node is there."""
        return self._cluster.node(node) is not None

    def is_reached(self, node: str, selector: NodeSelector | None) -> bool:
        """Whether devices allocated for these nodes can be used on the node; True for one that is not known."""
        watched = self._cluster.node(node)
        return selector is None or watched is None or is_reached(selector, watched)

    def objection(self, decision: Decision) -> str:
        """Why the node cannot give the devices any more; "" while it can."""
        return self._cluster.objection(decision.node, decision.allocations)


# What attempts read from the watches about storage, and about their own pods.
#
# Volumes and claims are as the watches show them, without what decisions assume: an attempt waits for what is stored.


class WatchedVolumes:
    """Volumes, their claims, and what else a wait for them depends on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def claim(self, key: NamespacedName) -> PersistentVolumeClaim | None:
        """The claim, None where there is none."""
        return self._cluster.volumes.objects.claims.watched.get(key)

    def volume(self, name: str) -> PersistentVolume | None:
        """The volume, None where there is none."""
        return self._cluster.volumes.objects.volumes.watched.get(name)

    def has_node(self, node: str) -> bool:
        """Whether the node is there."""
        return self._cluster.node(node) is not None

    def is_reached(self, node: str, volume: PersistentVolume) -> bool:
        """Whether the node, which is there, reaches the volume."""
        volumes = self._cluster.volumes
        return bool(volumes.reached(volume) & volumes.node(node))

    def pod(self, pod: PodKey) -> Pod | None:
        """The pod as the watch shows it; None where it does not, or the pod is over."""
        return self._cluster.pods.shown(pod.uid)

    def is_active(self, pod: PodKey) -> bool:
        """Whether the pod exists and is not being deleted."""
        watched = self._cluster.pods.known(pod.uid)
        return watched is not None and not watched.is_deleting

    def written(self, pod: PodKey, key: ObjectKey) -> None:
        """What the pod's decision took of this volume or claim is stored."""
        self._cluster.volumes.written(pod.uid, key)

    def declined(self, claim: NamespacedName, node: str) -> None:
        """The claim's provisioner asks for another node."""
        self._cluster.volumes.decline(claim, node)


LATE_S = 10.0
"""An attempt that is at one step for so long is logged, once for each step."""

SLOT = "Slot"
DEALLOCATE = "Deallocate"
EVICT = "Evict"
UNDO = "Undo"
"""Steps that are not in `scheduler.attempt.steps`: for its slot, with a claim that is of no use, with the pods that go
for it, and back again."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class CurrentStep:
    """Where the attempt for a pod is."""

    pod: str
    node: str
    """Empty where there is none."""
    step: str
    subject: str
    """What the step is about, such as `claim ns/a`."""
    since: float
    """When the step began, by the clock."""
    trouble: str = ""
    """The last call of the step that failed."""
    is_logged: bool = False
    """It was logged that the step takes long."""

    def text(self, now: float) -> str:
        """For a person who asks why the pod is not bound."""
        where = f" on node {self.node}" if self.node else ""
        return f"its attempt{where} has been at {self.named} for {now - self.since:.1f} s{self.failure}"

    @property
    def named(self) -> str:
        """The step, and what it is about."""
        return f"step {self.step} ({self.subject})" if self.subject else f"step {self.step}"

    @property
    def failure(self) -> str:
        """The end of a sentence about the step; empty if nothing has failed."""
        return f"; the last failure: {self.trouble}" if self.trouble else ""


class CurrentSteps:
    """All attempts under way, by the uids of their pods. clock: seconds that only go forward."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._current: dict[str, CurrentStep] = {}

    def at(self, uid: str, pod: str, node: str, step: str, subject: str = "") -> None:
        """The attempt for the pod begins with the step."""
        self._current[uid] = CurrentStep(pod, node, step, subject, self._clock())

    def failed(self, uid: str, error: Exception) -> None:
        """A call of the step failed, and is tried again."""
        if current := self._current.get(uid):
            current.trouble = str(error)

    def trouble(self, uid: str) -> str:
        """The last call that failed at the current step of the pod's attempt; empty if none did."""
        current = self._current.get(uid)
        return current.trouble if current else ""

    def reason(self, uid: str) -> str:
        """What keeps the attempt for the pod, in words that stay the same; empty if there is none."""
        current = self._current.get(uid)
        return f"it was at {current.named}{current.failure}" if current else ""

    def step(self, uid: str) -> str:
        """The step that the attempt for the pod is at; empty if there is none."""
        current = self._current.get(uid)
        return current.step if current else ""

    def end(self, uid: str) -> None:
        """The attempt for the pod has ended."""
        self._current.pop(uid, None)

    def by_step(self) -> Counter[str]:
        """How many attempts are at each step."""
        return Counter(one.step for one in self._current.values())

    def of(self, uid: str) -> str:
        """What the attempt for the pod is at, in words; empty if there is none."""
        current = self._current.get(uid)
        return current.text(self._clock()) if current else ""

    def log_late(self) -> None:
        """Log the attempts that take long at a step, each once."""
        now = self._clock()
        for current in self._late(now):
            current.is_logged = True
            # Devices and volumes may take minutes; calls that fail should not.
            level = logging.WARNING if current.trouble else logging.INFO
            _LOG.log(level, current.text(now), extra={"pod": current.pod, "node": current.node, "step": current.step})

    def _late(self, now: float) -> Iterator[CurrentStep]:
        return (one for one in self._current.values() if not one.is_logged and now - one.since >= LATE_S)


BINDING_TIMEOUT_S = 600.0
"""How long a device may take to become ready for its pod, or a volume to be bound, as kube-scheduler has it."""

REPAIRS_MAX = 32
"""Calls at the same time that take writes back."""

REPAIRS_OF_NAMESPACE_MAX = 8
"""The same, for the objects of one namespace."""


@dataclass(frozen=True, slots=True)
class Time:
    """monotonic: seconds of a clock that only goes forward. now: with its time zone. random: in [0, 1)."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]


@dataclass(slots=True)
class Binder:
    """All that an attempt needs besides its decision."""

    api: Api
    claims: Resource
    """The resource of the claims in the served version."""
    watched: WatchedClaims
    volumes: WatchedVolumes
    time: Time
    scheduler: str
    epoch: int
    """Larger than the epoch of every process before; set again when this one is elected."""
    process: str
    """A name that no other process has, of whatever epoch: two may begin in the same moment, and count their attempts
    alike.
    """
    listener: Listener
    binding_timeout_s: float = BINDING_TIMEOUT_S
    """How long devices may take to become ready, and volumes to be bound."""
    claim_locks: KeyLocks[ClaimRef, RawClaim] = field(default_factory=KeyLocks)
    """Held by attempts of this process at the claims that they reserve; each passes on what it has stored."""
    changes: WatchedChanges = field(default_factory=WatchedChanges)
    """By these, attempts wait for what the watches show."""
    repairs: CallLimit = field(default_factory=lambda: CallLimit(REPAIRS_MAX, REPAIRS_OF_NAMESPACE_MAX))
    """Limits the calls that take writes back, so that a namespace where they fail delays no other."""
    progress: CurrentSteps = field(init=False)
    """What the attempts are at."""

    def __post_init__(self) -> None:
        self.progress = CurrentSteps(self.time.monotonic)


def pause_s(failures: int, time: Time, first_s: float = 0.05, most_s: float = 5.0) -> float:
    """How long to wait after so many failed tries: doubling, with half of it left to chance."""
    return backoff_s(failures, first_s, most_s) * (0.5 + time.random() / 2)
