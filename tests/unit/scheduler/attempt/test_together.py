"""Attempts for the pods of a group: none binds before all have written, and all fail if one does before that."""

import asyncio

import pytest

from scheduler.attempt.attempt import Together
from scheduler.attempt.decision import AttemptEnded, Bound, ClaimPlan, Decision, PodKey, Retry

ALLOCATED: dict[str, object] = {"status": {"allocation": {}}}


def a_claim(**fields: object) -> dict[str, object]:
    return {"metadata": {"namespace": "ns", "name": "shared", "uid": "c", "resourceVersion": "1"}, **fields}


def a_decision(name: str, *claims: dict[str, object]) -> Decision:
    return Decision(PodKey("ns", name, name, "1", "s"), "node", tuple(ClaimPlan(one) for one in claims), 1)


async def a_turn() -> None:
    """Everything that can go on has."""
    for _ in range(8):
        await asyncio.sleep(0)


def test_each_may_bind_once_all_have_written() -> None:
    async def run() -> None:
        together = Together("ns/g", [a_decision("a"), a_decision("b")])
        first = asyncio.ensure_future(together.written("a"))
        await a_turn()
        assert not first.done()
        await together.written("b")
        await first
        assert together.is_released
        together.fail("a", Retry("too late"))
        await together.written("b")

    asyncio.run(run())


def test_one_that_fails_before_ends_all_with_its_reason() -> None:
    async def run() -> None:
        together = Together("ns/g", [a_decision("a"), a_decision("b")])
        first = asyncio.ensure_future(together.written("a"))
        await a_turn()
        together.ended("b", Retry("no luck", 0.0, is_lost=True))
        with pytest.raises(AttemptEnded) as failed:
            await first
        assert failed.value.outcome == Retry("pod ns/b of group ns/g: no luck", 0.0, is_lost=True)
        waiting = asyncio.ensure_future(together.decided())
        await a_turn()
        assert not waiting.done()  # the first one has still to take back what it wrote
        together.ended("a", failed.value.outcome)
        await waiting
        assert together.is_over

    asyncio.run(run())


def test_member_that_is_deleted_ends_all_and_a_stranger_none() -> None:
    async def run() -> None:
        together = Together("ns/g", [a_decision("a"), a_decision("b")])
        together.gone("stranger")
        together.gone("b")
        with pytest.raises(AttemptEnded) as failed:
            await together.written("a")
        assert "pod ns/b of group ns/g: it was deleted" in str(failed.value)

    asyncio.run(run())


def test_shared_claim_is_reserved_after_it_is_allocated_and_let_go_before_it_is_taken_back() -> None:
    async def run() -> None:
        claim = a_claim()
        together = Together("ns/g", [a_decision("a"), a_decision("b", claim)])
        assert together.is_shared(claim)
        reserving = asyncio.ensure_future(together.allocated(claim))
        await a_turn()
        assert not reserving.done()
        together.is_stored(a_claim(**ALLOCATED))
        assert await reserving == a_claim(**ALLOCATED)
        undoing = asyncio.ensure_future(together.let_go(claim))
        await a_turn()
        assert not undoing.done()
        together.lets_go(claim, "b")
        await undoing

    asyncio.run(run())


def test_attempt_that_never_began_keeps_no_shared_claim() -> None:
    async def run() -> None:
        claim = a_claim()
        together = Together("ns/g", [a_decision("a"), a_decision("b", claim)])
        together.ended("b", None)
        await together.let_go(claim)
        assert not together.is_shared(a_claim(metadata={**a_claim()["metadata"], "uid": "d"}))  # type: ignore[dict-item]
        together.ended("a", Bound("node"))
        assert together.is_over

    asyncio.run(run())
