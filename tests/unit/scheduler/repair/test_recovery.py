"""A process that has no lease begins later than all before it, whatever their clocks said."""

from typing import Any, NamedTuple, cast

from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import ANNOTATION, Intent
from scheduler.repair import LAST_EPOCH, epoch_after

EPOCH = 1_000


class Beginning(NamedTuple):
    """What is known of a process that begins."""

    scheduler: str = "ours"
    epoch: int = EPOCH


def a_claim(*, scheduler: str = "ours", epoch: int) -> dict[str, Any]:
    intent = Intent(scheduler, epoch, "process", "uid", "node", 1)
    return {"metadata": {"annotations": {ANNOTATION: str(intent)}}}


def epoch(*claims: dict[str, Any]) -> int:
    return epoch_after(cast("Binder", Beginning()), claims)


def test_clock_decides_while_nobody_was_ahead() -> None:
    assert epoch() == EPOCH
    assert epoch({"metadata": {}}, a_claim(epoch=EPOCH - 1)) == EPOCH


def test_who_begins_is_later_than_those_of_ours_whose_clocks_were_ahead() -> None:
    assert epoch(a_claim(epoch=EPOCH + 5), a_claim(epoch=EPOCH)) == EPOCH + 6
    assert epoch(a_claim(scheduler="theirs", epoch=EPOCH + 5)) == EPOCH


def test_epoch_that_somebody_has_made_up_leaves_room_for_those_that_follow() -> None:
    assert epoch(a_claim(epoch=LAST_EPOCH - 1)) == LAST_EPOCH
    assert epoch(a_claim(epoch=LAST_EPOCH), a_claim(epoch=2**64 - 1)) == EPOCH
