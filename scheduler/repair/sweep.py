"""Finds and removes unused leftovers on claims, at regular intervals: allocations and intents of ours.

A pod that is deleted during its attempt, a process that ends, a failed undo: each may leave an allocation without a
reservation, or an intent without an allocation. Both are removed after two minutes by our own clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Claim, ClaimKey, Json, allocation_of, consumers_of, key_of
from scheduler.attempt.intent import intent_of
from scheduler.attempt.repeated_edits import Send, edit_alone

EVERY_S = 60.0
"""How often all claims are looked through."""

LEAST_AGE_S = 120.0
"""For so long a leftover has to have been seen before it is removed: its writer may still be at work."""

TRIES = 2
"""Of one write to a claim, within one sweep."""

Leftover = Literal["allocation", "intent"]


@dataclass(slots=True)
class Sweep:
    """What was found, and since when. scheduler: whose intents mark what is ours."""

    scheduler: str
    _seen: dict[tuple[ClaimKey, Leftover], float] = field(default_factory=dict)

    def due(self, claims: Iterable[Claim], in_flight: Callable[[ClaimKey], bool], now_s: float) -> list[Claim]:
        """The claims whose leftover has been there for long enough. Cost: O(claims).

        claims: all of them, as observed. in_flight: whether an attempt is under way with it. now_s: monotonic.
        """
        seen: dict[tuple[ClaimKey, Leftover], float] = {}
        due = []
        for claim in claims:
            found, key = self.leftover(claim), key_of(claim)
            if found is None or in_flight(key):
                continue
            since_s = seen[key, found] = self._seen.get((key, found), now_s)
            if now_s - since_s >= LEAST_AGE_S:
                due.append(claim)
        self._seen = seen
        return due

    def leftover(self, claim: Claim) -> Leftover | None:
        """The unused leftover of ours that the claim holds."""
        intent = intent_of(claim)
        if intent is None or intent.scheduler != self.scheduler:
            return None
        if allocation_of(claim) is None:
            return "intent"
        return None if consumers_of(claim) else "allocation"

    async def clean(self, binder: Binder, due: Iterable[Claim]) -> int:
        """Take back what is due and say of how many claims; what was taken into use meanwhile stays."""
        return sum([await self._clean(binder, claim) for claim in due])

    async def _clean(self, binder: Binder, claim: Claim) -> bool:
        found = intent_of(claim)

        def following(current: Claim) -> tuple[Send, Json] | None:
            return self._next(current) if intent_of(current) == found else None

        # A conflict is looked at again; what fails is found by the next sweep.
        return await edit_alone(binder, key_of(claim), following, claim, tries_max=TRIES)

    def _next(self, claim: Claim) -> tuple[Send, Json] | None:
        match self.leftover(claim):
            case "allocation":
                return claim_calls.put_status, claim_objects.deallocated(claim)
            case "intent":
                return claim_calls.put, claim_objects.unmarked(claim)
            case None:
                return None
