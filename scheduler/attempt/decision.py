"""The decision that an attempt carries out, the contract of its steps, and its outcome.

A `Decision` names a pod, its node, and what each claim gets. An attempt ends with exactly one `AttemptOutcome`, which
says what the caller does with the pod; by then no write of the attempt is in flight.
An attempt (`scheduler.attempt.run`) does its steps until one ends it. If it fails or is cancelled, it undoes the steps
that were begun, in reverse order. A step that was begun may have done anything from nothing to everything: a write
whose answer is lost may be stored, now or later.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from allocator.model import Allocation, DeviceID
from scheduler.attempt.claim_objects import RawClaim
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import Reason
from scheduler.state.invariants import Violation
from scheduler.state.pod_resources import ExtendedClaim
from scheduler.state.volumes import NO_PLAN, VolumePlan


@dataclass(frozen=True, slots=True)
class PodKey:
    """A pod, as it was when the decision was made."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str

    @staticmethod
    def of(pod: Pod) -> "PodKey":
        """The key of the pod as it is now."""
        return PodKey(pod.namespace, pod.name, pod.uid, pod.resource_version, pod.scheduler_name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """A claim of the pod. claim: raw, as observed. allocation: what it gets, None where it is allocated already."""

    claim: RawClaim
    allocation: Allocation | None = None


@dataclass(frozen=True, slots=True)
class ExtendedPlan:
    """The claim to create for the pod's extended resources, and its allocation."""

    claim: ExtendedClaim
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Decision:
    """A pod, its node and its claims."""

    pod: PodKey
    node: str
    claims: tuple[ClaimPlan, ...]
    attempt: int
    """The number of the attempt within the process; no two decisions share one."""
    is_assigned: bool = False
    """The pod has its node already, and only its claims are to be allocated."""
    waits_for_devices: bool = True
    """Whether to wait for devices that are not ready yet."""
    extended: ExtendedPlan | None = None
    """A claim for extended resources that is still to be made."""
    pod_status: Mapping[str, object] | None = None
    """What the pod's status is to say of its devices before it is bound, None for a field that goes; None where that is
    not ours to say.
    """
    volumes: VolumePlan = NO_PLAN
    """What is to be written for the pod to have its volumes."""

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """What the claims get that have nothing yet."""
        allocations = [plan.allocation for plan in self.claims if plan.allocation]
        return (*allocations, self.extended.allocation) if self.extended else tuple(allocations)

    @property
    def exclusive(self) -> tuple[DeviceID, ...]:
        """The devices that it takes whole."""
        taken = (result for allocation in self.allocations for result in allocation.results)
        return tuple([result.id for result in taken if not (result.share_id or result.admin_access)])


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod is on the node, with all its claims."""

    node: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Decide again: things are not as they were when this was decided, or a call failed."""

    reason: str
    after_s: float | None = None
    """When, in seconds; None for the queue's backoff."""
    failed: tuple[DeviceID, ...] = ()
    """Devices whose binding failed, and may fail again."""
    is_lost: bool = False
    """Another attempt was faster, and may well bind the pod."""
    is_taken: bool = False
    """The status of a claim says so, which allocators alone write; its annotations are written by whoever may write the
    claim.
    """
    is_denied: bool = False
    """A webhook, a policy or a quota refuses this one object."""


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """The pod is unschedulable until something changes. by: what has to."""

    reason: str
    by: Reason


@dataclass(frozen=True, slots=True)
class BoundElsewhere:
    """Somebody else has bound the pod, to this node: it keeps all that it may rely on there."""

    node: str

    @property
    def reason(self) -> str:
        """In words."""
        return f"the pod was bound to {self.node} by somebody else"


@dataclass(frozen=True, slots=True)
class Gone:
    """There is nothing left to schedule: the pod was deleted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fatal:
    """No pod can be bound before an operator acts; reason: what is missing, with the words of the server."""

    reason: str


@dataclass(frozen=True, slots=True)
class Pending:
    """The claims stay allocated and reserved; their devices are not ready, and the decision does not wait."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The program ends before the attempt does, and no other attempt follows."""

    reason: str = "the program is being stopped"


AttemptOutcome = Bound | BoundElsewhere | Retry | Unschedulable | Gone | Fatal | Pending | Stopped


class AttemptEnded(Exception):
    """An attempt ends before the pod is bound; what it wrote has to be undone."""

    def __init__(self, outcome: AttemptOutcome) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


Point = Literal["PreBind", "Bind"]
"""The parts of an attempt, by kube-scheduler's extension points."""


class Step(ABC):
    """One step of one attempt. point: the part of the attempt that its time is counted for."""

    point: ClassVar[Point] = "PreBind"

    @abstractmethod
    async def do(self) -> Bound | Pending | None:
        """Write, or wait. None: the next step follows; an outcome ends the attempt, and everything done stays.

        Raises AttemptEnded where the attempt has failed.
        """

    @property
    def subject(self) -> str:
        """The object that it writes, such as `claim ns/a`; "" if it writes none, or the pod."""
        return ""

    @property
    def awaited(self) -> str:
        """What the pod is told if the step takes long; "" if the step says that itself, or never waits."""
        return f"the API server's answer to a write of {self.subject}" if self.subject else ""

    @property
    def waits_for(self) -> str:
        """What a step that only waits has not seen yet, in words; "" for all others."""
        return ""

    @property
    def is_idle(self) -> bool:
        """Whether the outcome of each write is known: none can be stored later than now."""
        return True

    @property
    def may_be_relied_on(self) -> bool:
        """Whether another attempt for the pod may bind it with what this step has written.

        Before such a step is undone, the attempt reads the pod.
        """
        return False

    async def undo(self, node: str) -> bool:
        """Take back what was written; afterwards nothing of it is in flight. True where something may have been stored.

        node: where the pod is bound, "" while it is not; what it needs there stays. Raises UndoStopped where the pod
        turns out to be bound, or that is unknown.
        """
        return False


# The listener of attempts, for events, logs and metrics.


class Listener:
    """Hears nothing; programs override what they report."""

    def pending(self, decision: Decision, message: str) -> None:
        """The pod waits for its devices to be made ready; called once."""

    def passed(self, decision: Decision, point: Point, *, is_done: bool, duration_s: float) -> None:
        """A part of the attempt ended; is_done: as it should."""

    def rolled_back(self, decision: Decision, outcome: AttemptOutcome) -> None:
        """What the attempt wrote was taken back."""

    def violated(self, violation: Violation) -> None:
        """What must never be is so."""
