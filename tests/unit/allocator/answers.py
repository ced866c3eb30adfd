"""Ways to ask the allocator and to read its answers, for the tests."""

from collections.abc import Sequence

from allocator.allocate import BUDGET_STEPS, allocate
from allocator.cluster.snapshot import Snapshot
from allocator.model import Allocation, Claim, DeviceResult, Node
from allocator.outcome import (
    AllBlocked,
    Allocated,
    ConstraintUnmet,
    InvalidPoolSeen,
    NotEnough,
    NotTogether,
    Outcome,
    Refused,
)
from tests.builders import a_node


def decide(snapshot: Snapshot, *claims: Claim, node: Node | None = None, budget_steps: int = BUDGET_STEPS) -> Outcome:
    """The outcome for the claims on the usual node, or on the one given."""
    return allocate(snapshot, node or a_node(), claims, budget_steps=budget_steps)


def allocations(outcome: Outcome) -> Sequence[Allocation]:
    assert isinstance(outcome, Allocated), outcome
    return outcome.allocations


def results(outcome: Outcome) -> list[DeviceResult]:
    """The devices of all claims, in order."""
    return [result for allocation in allocations(outcome) for result in allocation.results]


def names(outcome: Outcome) -> list[str]:
    """The names of the devices of all claims, in order."""
    return [result.device for result in results(outcome)]


def by_request(outcome: Outcome) -> dict[str, list[str]]:
    """The names of the devices by request, for one claim."""
    (allocation,) = allocations(outcome)
    found: dict[str, list[str]] = {}
    for result in allocation.results:
        found.setdefault(result.request, []).append(result.device)
    return found


def refusal(outcome: Outcome) -> Refused:
    assert isinstance(outcome, Refused), outcome
    return outcome


def shortage(outcome: Outcome) -> NotEnough:
    cause = refusal(outcome).cause
    assert isinstance(cause, NotEnough), cause
    return cause


def blocked(outcome: Outcome) -> AllBlocked:
    cause = refusal(outcome).cause
    assert isinstance(cause, AllBlocked), cause
    return cause


def unmet(outcome: Outcome) -> ConstraintUnmet:
    cause = refusal(outcome).cause
    assert isinstance(cause, ConstraintUnmet), cause
    return cause


def conflict(outcome: Outcome) -> NotTogether:
    cause = refusal(outcome).cause
    assert isinstance(cause, NotTogether), cause
    return cause


def invalid_pools(outcome: Outcome) -> InvalidPoolSeen:
    cause = refusal(outcome).cause
    assert isinstance(cause, InvalidPoolSeen), cause
    return cause


def funnel(cause: NotEnough | AllBlocked) -> list[tuple[str, list[str]]]:
    """(reason, names of the devices) for each stage that refused any."""
    return [(refusal.reason, [device.device for device in refusal.devices]) for refusal in cause.refusals]
