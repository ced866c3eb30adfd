"""The result of a decision about a pod."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from allocator.bits import Mask
from allocator.model import Allocation, Claim
from allocator.outcome import AllocationError, Outcome, OutOfSteps, PolicyFailed
from scheduler.core_v1.pod_status import TakenByClaim
from scheduler.plugins.plugin import Refusal, Rejected
from scheduler.state.pod_resources import ExtendedClaim
from scheduler.state.volumes import NO_PLAN, VolumePlan

if TYPE_CHECKING:
    from scheduler.decision.pod_cycle import EligibleNodes


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod goes to the node."""

    node: str
    claims: tuple[Claim, ...]
    """The pod's own claims."""
    allocations: tuple[Allocation, ...]
    """The allocations of the claims that had none, in their order; the last one is for `extended`."""
    extended: ExtendedClaim | None = None
    """The claim to be made for the extended resources of the pod."""
    by_claims: tuple[TakenByClaim, ...] = ()
    """What the devices take of the node."""
    volumes: VolumePlan = NO_PLAN
    """What is to be written for the pod to have its volumes there."""

    @property
    def given(self) -> tuple[Claim, ...]:
        """The claims that had no devices, with what they get."""
        own = [claim for claim in self.claims if claim.allocation is None]
        return with_allocations([*own, self.extended.claim] if self.extended else own, self.allocations)


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """The pod fits nowhere."""

    refusal: Refusal
    stuck: tuple[Claim, ...] = ()
    """Allocated claims of the pod without which it would fit on a node."""
    everywhere: str = ""
    """The reason that refuses every node at once, whatever is free; else empty."""
    lacking: Sequence[tuple[Outcome, Mask]] = ()
    """What nodes say that lack devices; nodes that say the same are together."""
    filtered: Sequence[Rejected] = ()
    """What filters say of the nodes that they refuse."""
    resolvable: Mask = 0
    """The nodes that the end of other pods could open, devices aside: kube-scheduler's code Unschedulable."""
    eligible: Sequence["EligibleNodes"] = field(default=(), compare=False, repr=False)
    """What the pod asks of nodes, and where it could be, devices aside; none if every node is refused at once."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt cannot be decided: kube-scheduler's status Error.

    by_policy: the fault is that of a user's policy. is_undecided: its steps were spent, and it may fit all the same.
    """

    reason: str
    by_policy: bool = False
    is_undecided: bool = False

    @staticmethod
    def by(error: AllocationError) -> "Failed":
        """What has ended the attempt."""
        return Failed(str(error), by_policy=isinstance(error, PolicyFailed), is_undecided=isinstance(error, OutOfSteps))


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The attempt has taken its time. What was worked out by then is kept: the next one goes on from there."""

    reason: str


ScheduleResult = Placed | NotPlaced | Failed | OutOfTime


def with_allocations(claims: Iterable[Claim], allocations: Iterable[Allocation]) -> tuple[Claim, ...]:
    """The claims with what each of them gets."""
    return tuple(replace(claim, allocation=one) for claim, one in zip(claims, allocations, strict=True))
