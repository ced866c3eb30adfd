"""A refusal that holds for a group of nodes, and for all claims that ask the same question.

It keeps positions in place of devices; the names of claims, devices and holders are filled in for those who read it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from allocator.cluster.usage import Usage
from allocator.explain.cause import holders_of
from allocator.explain.text import node_text
from allocator.model import Claim, Device, DeviceID, PoolID
from allocator.outcome import (
    AllBlocked,
    Cause,
    ConstraintUnmet,
    DeviceRefusal,
    Exhausted,
    InvalidPoolSeen,
    NotEnough,
    NotTogether,
    Outcome,
    Refused,
)


@dataclass(frozen=True, slots=True)
class Unable:
    """The nodes of a group cannot allocate the claims.

    outcome: with numbers of devices, but without their names, their holders, and contradictory pools. claims: those
    that were asked for. text: the same for groups that differ in which devices are missing, but not in how many.
    is_own: each node names contradictory pools of its own. positions: for each stage of the funnel its devices.
    """

    outcome: Refused | Exhausted
    claims: tuple[str, ...]
    text: str
    is_own: bool
    positions: tuple[tuple[int, ...], ...] = ()

    @property
    def key(self) -> tuple[str, bool]:
        """What it says, and whether each of its nodes names pools of its own."""
        return self.text, self.is_own

    @staticmethod
    def of(outcome: Refused | Exhausted, claims: Sequence[Claim], devices: Sequence[Device]) -> "Unable":
        """The refusal of a node with these devices. Cost: O(devices)."""
        names = tuple(str(claim) for claim in claims)
        alone = _alone(outcome)
        is_own, outcome = alone is not outcome, alone
        stages = _stages(outcome)
        if not stages:
            return Unable(outcome, names, node_text(outcome), is_own)
        numbers = {device.id: position for position, device in enumerate(devices)}
        positions = tuple(tuple(numbers[device] for device in stage.devices) for stage in stages)
        text = node_text(_with_stages(outcome, [replace(stage, holders=()) for stage in stages]))
        bare = [replace(stage, devices=(), holders=()) for stage in stages]
        return Unable(_with_stages(outcome, bare), names, text, is_own, positions)

    def refusal(self, claims: Sequence[Claim], devices: Sequence[Device], usage: Usage | None) -> Refused | Exhausted:
        """The refusal of these claims on a node of the group with these devices. Cost: O(devices refused).

        usage: names the devices, and the holders, who differ by node; None leaves both out, at no cost.
        """
        outcome = self.outcome
        if usage is not None and self.positions:
            pairs = zip(_stages(outcome), self.positions, strict=True)
            named = [_named(stage, tuple([devices[p].id for p in positions]), usage) for stage, positions in pairs]
            outcome = _with_stages(outcome, named)
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


def _stages(outcome: Outcome) -> tuple[DeviceRefusal, ...]:
    cause = outcome.cause if isinstance(outcome, Refused) else None
    return cause.refusals if isinstance(cause, NotEnough | AllBlocked) else ()


def _with_stages(outcome: Refused | Exhausted, stages: Sequence[DeviceRefusal]) -> Refused:
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.cause, NotEnough | AllBlocked)
    return replace(outcome, cause=replace(outcome.cause, refusals=tuple(stages)))


def _named(stage: DeviceRefusal, devices: tuple[DeviceID, ...], usage: Usage) -> DeviceRefusal:
    if stage.category not in ("in use", "capacity"):
        return replace(stage, devices=devices)
    return replace(stage, devices=devices, holders=holders_of(devices, usage))


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
        case NotTogether(claims):
            return NotTogether(tuple(names[claim] for claim in claims))
