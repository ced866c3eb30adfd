"""A refusal that holds for a group of nodes, and for all claims that ask the same question.

It keeps positions in place of devices; the names of claims, devices and holders are filled in for those who read it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from allocator.allocate import with_names
from allocator.cluster.usage import Usage
from allocator.explain.text import OPERATOR, node_text
from allocator.model import Claim, Device, PoolID
from allocator.outcome import (
    AllBlocked,
    Cause,
    ConstraintUnmet,
    Exhausted,
    InvalidPoolSeen,
    NotEnough,
    NotTogether,
    Refused,
)


@dataclass(frozen=True, slots=True)
class Unable:
    """The nodes of a group cannot allocate the claims.

    outcome: with the positions of devices, but without their names, their holders, and contradictory pools. claims:
    those that were asked for. text: the same for groups that differ in which devices are missing, but not in how many.
    is_own: each node names contradictory pools of its own.
    """

    outcome: Refused | Exhausted
    claims: tuple[str, ...]
    text: str
    is_own: bool

    @property
    def key(self) -> tuple[str, bool]:
        """What it says, and whether each of its nodes names pools of its own."""
        return self.text, self.is_own

    @staticmethod
    def of(outcome: Refused | Exhausted, claims: Sequence[Claim]) -> "Unable":
        """The refusal, which has no names. Cost: O(what it says)."""
        alone = _alone(outcome)
        return Unable(alone, tuple(map(str, claims)), node_text(alone, reader=OPERATOR), alone is not outcome)

    def refusal(self, claims: Sequence[Claim], devices: Sequence[Device], usage: Usage | None) -> Refused | Exhausted:
        """The refusal of these claims on a node of the group with these devices. Cost: O(devices refused).

        usage: names the devices, and the holders, who differ by node; None leaves both out, at no cost.
        """
        outcome = self.outcome
        if usage is not None and isinstance(outcome, Refused):
            outcome = with_names(outcome, devices, usage)
        names = tuple(map(str, claims))
        return outcome if names == self.claims else _renamed(outcome, dict(zip(self.claims, names, strict=True)))


def beside(outcome: Refused | Exhausted, invalid: tuple[tuple[PoolID, str], ...]) -> Refused | Exhausted:
    """The refusal of a node that has these contradictory pools."""
    if not invalid or isinstance(outcome, Exhausted):
        return outcome
    assert not isinstance(outcome.cause, InvalidPoolSeen)
    return replace(outcome, cause=InvalidPoolSeen(invalid, outcome.cause))


def _alone(outcome: Refused | Exhausted) -> Refused | Exhausted:
    """The refusal without contradictory pools."""
    if isinstance(outcome, Exhausted) or not isinstance(outcome.cause, InvalidPoolSeen):
        return outcome
    assert outcome.cause.cause is not None, "the allocator says what is missing, whatever else is wrong"
    return replace(outcome, cause=outcome.cause.cause)


def _renamed(outcome: Refused | Exhausted, names: Mapping[str, str]) -> Refused | Exhausted:
    if isinstance(outcome, Exhausted):
        return outcome
    assert not isinstance(outcome.cause, InvalidPoolSeen)
    return Refused(_renamed_cause(outcome.cause, names), outcome.steps, outcome.features)


def _renamed_cause(cause: Cause, names: Mapping[str, str]) -> Cause:
    """Field by field: `replace` takes five times as long, and this is done for each reason of each refusal."""
    match cause:
        case NotEnough(claim, request, wanted, total, refusals, left):
            return NotEnough(names[claim], request, wanted, total, refusals, left)
        case AllBlocked(claim, request, total, refusals):
            return AllBlocked(names[claim], request, total, refusals)
        case ConstraintUnmet(claim, constraint, requests, wanted, best):
            return ConstraintUnmet(names[claim], constraint, requests, wanted, best)
        case NotTogether(claims, requests, wanted, left):
            return NotTogether(tuple(names[claim] for claim in claims), requests, wanted, left)
