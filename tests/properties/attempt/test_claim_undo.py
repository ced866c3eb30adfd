"""Whatever an attempt has written and whoever else has: the rollback ends, takes back all that is ours, and no more."""

from hypothesis import given
from hypothesis import strategies as st

from allocator.api.versions import Json
from scheduler.attempt import claim_objects
from scheduler.attempt.attempt import WrittenClaim
from scheduler.attempt.claim_objects import (
    Intent,
    allocation_of,
    consumers_of,
    intent_of,
    is_of_another_attempt,
    key_of,
    version_of,
)
from scheduler.attempt.claim_step import next_edit
from scheduler.state.claims import FINALIZER
from tests.unit.scheduler.attempt.raw_claims import OURS, a_raw_claim, an_allocation

SUCCESSOR = Intent("dra-scheduler", 3, "3", OURS.podUID, "node-1", 1)
NEIGHBOUR = Intent("dra-scheduler", 2, "2", "other-uid", "node-1", 8)
MINE, FOREIGN = an_allocation("gpu-0"), an_allocation("gpu-7")
STEPS_MAX = 4

claims = st.builds(
    lambda intent, allocation, reserved_for, is_fenced: claim_of(intent, allocation, reserved_for, is_fenced=is_fenced),
    st.sampled_from([None, OURS, SUCCESSOR, NEIGHBOUR]),
    st.sampled_from([None, MINE, FOREIGN]),
    st.lists(st.sampled_from([OURS.podUID, "other-uid", "third-uid"]), unique=True),
    st.booleans(),
)
begun = st.builds(
    lambda allocation, sent: WrittenClaim(key_of(a_raw_claim()), a_raw_claim(), allocation, sent),
    st.sampled_from([None, MINE]),
    st.sampled_from(["", "10", "9"]),
)


def claim_of(intent: Intent | None, allocation: Json | None, reserved_for: list[str], *, is_fenced: bool) -> Json:
    """A claim as the API server could hold it: nothing is reserved that is not allocated."""
    claim = a_raw_claim(intent=intent, allocation=allocation, reserved_for=reserved_for if allocation else [])
    return claim_objects.fenced(claim, "10") if is_fenced else claim


def undone(claim: Json, touched: WrittenClaim) -> tuple[Json, int]:
    """The claim after all steps, and how many there were; each moves the version, as the API server does."""
    steps = 0
    while step := next_edit(claim, OURS, touched):
        _, claim = step
        steps += 1
        assert steps <= STEPS_MAX
        claim = {**claim, "metadata": {**claim["metadata"], "resourceVersion": str(int(version_of(claim)) + 1)}}
    return claim, steps


@given(claims, begun)
def test_rollback_ends_with_nothing_of_the_attempt_left(claim: Json, touched: WrittenClaim) -> None:
    left, _ = undone(claim, touched)
    assert not claim_objects.is_fenced(left)
    if is_of_another_attempt(claim, OURS):
        return
    assert OURS.podUID not in consumers_of(left)
    others = set(consumers_of(claim)) - {OURS.podUID}
    is_mine = allocation_of(claim) == MINE == touched.allocation
    if is_mine and not others:
        assert allocation_of(left) is None
    if allocation_of(left) is None and intent_of(claim) in (None, OURS):
        assert intent_of(left) is None


@given(claims, begun)
def test_rollback_takes_nothing_from_others(claim: Json, touched: WrittenClaim) -> None:
    left, _ = undone(claim, touched)
    others = [uid for uid in consumers_of(claim) if uid != OURS.podUID]
    assert [uid for uid in consumers_of(left) if uid != OURS.podUID] == others
    if others or touched.allocation is None or allocation_of(claim) != touched.allocation:
        assert allocation_of(left) == allocation_of(claim)
    if allocation_of(left) is not None:
        assert FINALIZER in left["metadata"]["finalizers"]
    if intent_of(claim) not in (None, OURS):
        assert intent_of(left) == intent_of(claim)


@given(claims, begun)
def test_claim_that_another_attempt_has_taken_over_keeps_its_status(claim: Json, touched: WrittenClaim) -> None:
    if is_of_another_attempt(claim, OURS):
        left, _ = undone(claim, touched)
        assert left.get("status") == claim.get("status")


@given(claims, begun)
def test_unanswered_write_is_fenced_off_whatever_the_claim_holds(claim: Json, touched: WrittenClaim) -> None:
    _, steps = undone(claim, touched)
    if touched.sent == version_of(claim) and not is_of_another_attempt(claim, OURS):
        is_shared = allocation_of(claim) == MINE == touched.allocation and set(consumers_of(claim)) - {OURS.podUID}
        assert steps >= 1 or is_shared
