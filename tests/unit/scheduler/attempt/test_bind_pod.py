"""When a pod that was not bound may be bound by another attempt, which its claims may be reserved for."""

from types import SimpleNamespace
from typing import cast

import pytest

from scheduler.attempt.attempt import Attempt
from scheduler.attempt.bind_pod import _may_be_reserved
from tests.unit.scheduler.attempt.raw_claims import OURS, a_raw_claim


@pytest.mark.parametrize(
    ("is_own", "is_marked", "expected"), [(False, False, True), (True, True, True), (True, False, False)]
)
def test_claim_may_be_reserved_where_it_is_anothers_or_carries_our_intent(
    *, is_own: bool, is_marked: bool, expected: bool
) -> None:
    claim = SimpleNamespace(is_own=is_own, stored=a_raw_claim(intent=OURS if is_marked else None))
    attempt = SimpleNamespace(intent=OURS, touched=[claim], is_making=False)
    assert _may_be_reserved(cast(Attempt, attempt)) is expected


def test_claim_that_may_have_been_made_may_be_reserved() -> None:
    assert _may_be_reserved(cast(Attempt, SimpleNamespace(intent=OURS, touched=[], is_making=True)))
