"""When a pod that was not bound may be bound by another attempt, which its claims may be reserved for."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from allocator.model import Allocation
from scheduler.attempt.attempt import WrittenClaim
from scheduler.attempt.claim_objects import key_of
from scheduler.attempt.decision import ExtendedPlan
from scheduler.attempt.steps.claims import Allocate, MakeClaim
from tests.unit.scheduler.attempt.raw_claims import OURS, a_raw_claim

NO_BINDER = cast(Any, None)


@pytest.mark.parametrize(
    ("is_own", "is_marked", "expected"), [(False, False, True), (True, True, True), (True, False, False)]
)
def test_claim_may_be_relied_on_where_it_is_anothers_or_carries_our_intent(
    *, is_own: bool, is_marked: bool, expected: bool
) -> None:
    claim = a_raw_claim(intent=OURS if is_marked else None)
    written = WrittenClaim(key_of(claim), claim, None, is_own=is_own)
    step = Allocate(NO_BINDER, cast(Any, SimpleNamespace(intent=OURS, claims=[written])), claim, Allocation())
    assert not step.may_be_relied_on
    step.written = written
    assert step.may_be_relied_on is expected


def test_claim_that_may_have_been_made_may_be_relied_on() -> None:
    step = MakeClaim(NO_BINDER, cast(Any, SimpleNamespace(intent=OURS, claims=[])), cast(ExtendedPlan, None))
    assert (step.may_be_relied_on, step.is_idle) == (False, True)
    step.is_making = True
    assert (step.may_be_relied_on, step.is_idle) == (True, False)
