"""Limits per tenant, counted slowly: at each grant everything that the claims of the tenant hold is added up anew."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from tests.controlplane.rest import Json
from tests.soak.facts import ClaimFacts, ClaimName, Share
from tests.soak.inventory import PublishedDevices, quantity

FOLLOWED_WITHIN_S = 5.0
"""For so long after a change the limits before it are an excuse: watches tell programs of it, and us of a claim."""


REMEMBERED_S = 600.0


def _most_since(past: Iterable[tuple[float, Fraction]], since_s: float) -> Fraction:
    """The most that was in use since then: by what was noted last before it, and all after it."""
    before = [used for at_s, used in past if at_s <= since_s]
    return max([*before[-1:], *(used for at_s, used in past if at_s > since_s)], default=Fraction(0))


@dataclass(slots=True)
class _Change:
    """Limits from the moment on at which they were sent. answered_s: until when those before them could hold."""

    limits: list[Json]
    sent_s: float
    answered_s: float = inf


class SlowLimits:
    """The limits over time, and what is in use of them."""

    def __init__(self, inventory: PublishedDevices) -> None:
        self._inventory = inventory
        self._changes: list[_Change] = []
        self._past: defaultdict[tuple[str, str], deque[tuple[float, Fraction]]] = defaultdict(deque)

    def change(self, limits: list[Json], sent_s: float) -> None:
        """From now on these may hold; those before them do until `settle`, and a while longer."""
        self._changes.append(_Change(limits, sent_s))

    def settle(self, answered_s: float) -> None:
        """The API server has taken the last change."""
        self._changes[-1].answered_s = answered_s

    def in_force(self, at_s: float, stood_s: float = 0.0) -> list[list[Json]]:
        """Every list of limits that a program could have gone by then, or so long before."""
        ends = [*(one.answered_s + FOLLOWED_WITHIN_S for one in self._changes), inf][1:]
        return [
            one.limits
            for one, end_s in zip(self._changes, ends, strict=True)
            if one.sent_s <= at_s and at_s - stood_s <= end_s
        ]

    def excesses(
        self, key: ClaimName, claims: Mapping[ClaimName, ClaimFacts], before: ClaimFacts | None, at_s: float
    ) -> Iterator[str]:
        """Where what the claim was given now is beyond what every one of the limits of that time allows."""
        held = before.shares or () if before and before.uid == claims[key].uid else ()
        given = set(claims[key].shares or ()) - set(held)
        lists = self.in_force(at_s)
        for name in {one["name"] for found in lists for one in found}:
            alike = [one for found in lists for one in found if one["name"] == name]
            if len(alike) < len(lists) or not all(self._counts(one, key, given) for one in alike):
                continue
            told = [self._beyond(one, key, claims) for one in alike]
            if all(told):
                devices = ", ".join(sorted(str(one.device) for one in given))
                yield f"claim {key} was given {devices}: {told[-1]}"

    def note(self, namespace: str, claims: Mapping[ClaimName, ClaimFacts], at_s: float) -> None:
        """What is in use of the limits of the namespace from now on, for `room`."""
        key = ClaimName(namespace, "")
        for one in self._changes[-1].limits if self._changes else ():
            if self._holds_for(one, key):
                past = self._past[one["name"], namespace if one["namespaces"]["each"] else ""]
                past.append((at_s, self._used(one, key, claims)))
                while len(past) > 2 and past[1][0] < at_s - REMEMBERED_S:
                    past.popleft()

    def room(
        self, namespace: str, amounts: Json, claims: Mapping[ClaimName, ClaimFacts], at_s: float, stood_s: float
    ) -> bool:
        """Whether devices could be given all the time. amounts: by driver, of what its limits count."""
        self.note(namespace, claims, at_s)
        key = ClaimName(namespace, "")
        for one in (limit for found in self.in_force(at_s, stood_s) for limit in found):
            driver = one["count"].get("driver") or one["count"]["deviceClassName"]
            more = Fraction(amounts.get(driver, 0))
            past = self._past[one["name"], namespace if one["namespaces"]["each"] else ""]
            if more and self._holds_for(one, key) and _most_since(past, at_s - stood_s) + more > self._most(one):
                return False
        return True

    def _counts(self, limit: Json, key: ClaimName, given: set[Share]) -> bool:
        return self._holds_for(limit, key) and any(self._amount(limit, share) for share in given)

    def _holds_for(self, limit: Json, key: ClaimName) -> bool:
        names = limit["namespaces"].get("names")
        return not limit.get("soft") and (names is None or key.namespace in names)

    def _beyond(self, limit: Json, key: ClaimName, claims: Mapping[ClaimName, ClaimFacts]) -> str:
        used, most = self._used(limit, key, claims), self._most(limit)
        return f"limit {limit['name']}: {used} of {most} in use" if used > most else ""

    def _used(self, limit: Json, key: ClaimName, claims: Mapping[ClaimName, ClaimFacts]) -> Fraction:
        names, is_each = limit["namespaces"].get("names"), limit["namespaces"]["each"]
        counted = (
            found.shares or ()
            for other, found in claims.items()
            if (other.namespace == key.namespace if is_each else names is None or other.namespace in names)
        )
        return sum((self._amount(limit, share) for shares in counted for share in shares), Fraction(0))

    def _most(self, limit: Json) -> Fraction:
        if "most" in limit:
            return quantity(limit["most"])
        driver, counter = limit["count"]["driver"], limit["count"]["counter"]
        there = sum(
            value for (of, _, _, name), value in self._inventory.counters.items() if of == driver and name == counter
        )
        return Fraction(there) * Fraction(limit["share"].removesuffix("%")) / 100

    def _amount(self, limit: Json, share: Share) -> Fraction:
        counted = limit["count"]
        driver = counted.get("driver") or counted["deviceClassName"]  # in the soak a class is a driver
        if share.device.driver != driver:
            return Fraction(0)
        device = self._inventory.devices[share.device]
        if "capacity" in counted:
            whole = device.capacity.get(counted["capacity"], Fraction(0))
            return dict(share.consumed).get(counted["capacity"], whole)
        if "counter" in counted:
            return sum((value for (_, name), value in device.uses.items() if name == counted["counter"]), Fraction(0))
        return Fraction(1)
