"""The result of a decision about a pod."""

from collections.abc import Sequence
from dataclasses import dataclass

from allocator.bits import Mask
from allocator.model import Allocation, Claim
from allocator.outcome import Outcome
from scheduler.core_v1.pod_status import TakenByClaim
from scheduler.plugins.plugin import Refusal, Rejected
from scheduler.state.extended_resources import ExtendedClaim
from scheduler.state.volumes import NO_PLAN, VolumePlan


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod goes to the node. claims: its own. allocations: of those that had none, in their order.

    extended: the claim to be made for its extended resources, which gets the last allocation. by_claims: what devices
    take of the node. volumes: what is to be written for it to have its volumes there.
    """

    node: str
    claims: tuple[Claim, ...]
    allocations: tuple[Allocation, ...]
    extended: ExtendedClaim | None = None
    by_claims: tuple[TakenByClaim, ...] = ()
    volumes: VolumePlan = NO_PLAN


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """The pod fits nowhere. stuck: its allocated claims without which it would fit on a node.

    everywhere: the reason that refuses every node at once, whatever is free; else empty. lacking: what the nodes say
    that lack devices, of those that say the same together. filtered: what filters say of the nodes that they refuse.
    resolvable: the nodes that the end of other pods could open, devices aside: kube-scheduler's code Unschedulable.
    """

    refusal: Refusal
    stuck: tuple[Claim, ...] = ()
    everywhere: str = ""
    lacking: Sequence[tuple[Outcome, Mask]] = ()
    filtered: Sequence[Rejected] = ()
    resolvable: Mask = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt cannot be decided: kube-scheduler's status Error. by_policy: the fault is that of a user's policy."""

    reason: str
    by_policy: bool = False


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The attempt has taken its time. What was worked out by then is kept: the next one goes on from there."""

    reason: str


ScheduleResult = Placed | NotPlaced | Failed | OutOfTime
