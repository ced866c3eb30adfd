"""An API server of claims behind a guard, as small as can be; and what the guard should say, told naively.

Everything is asked with the version of the claim that it builds on. What was allowed is stored at most once, under that
version and before its time is over, or never; the watch shows everything late.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from allocator.cluster.usage import occupying
from allocator.model import (
    Allocation,
    Claim,
    CounterConsumption,
    CounterSet,
    DeviceID,
    DeviceResult,
    PoolID,
)
from cel.values.quantity import Quantity
from scheduler.decision.cluster import Cluster
from scheduler.guard.ledger import Ledger, Update
from tests.builders import (
    DRIVER,
    POOL,
    a_claim,
    a_device,
    a_request,
    a_slice,
    an_alternative,
    first_available,
    kubernetes,
)
from tests.properties.state.claim_world import an_object
from tests.properties.state.late_watch import LateWatch

NAMES = ("a", "b", "c", "d")
LASTS = 10
"""For so long what was allowed may still be stored."""

CAPACITY, COUNTER = 4, 4
MEMORY = "memory"
SPELLINGS = (MEMORY, f"{DRIVER}/{MEMORY}")
"""Allocators before 1.38 write what a request says, later ones what the slice says."""

TAKES = {"part-0": 2, "part-1": 2, "part-2": 3, "part-shared": 1}
SHARED = ("shared", "part-shared")
DEVICES = ("gpu-0", "gpu-1", *SHARED, *TAKES, "nobody-publishes")

Held = Mapping[str, Iterable[DeviceResult]]
"""Results of claims, by uid."""


WATCHING = "watching"
REQUESTS = (
    a_request("r"),
    first_available("f", an_alternative("one")),
    a_request(WATCHING, admin_access=True),
)
ALTERNATIVES = ("r", "f/one", WATCHING)


def a_result(
    device: str,
    share: str = "",
    amount: int = 0,
    *,
    capacity: str = MEMORY,
    is_admin: bool = False,
    request: str = "r",
) -> DeviceResult:
    consumed = {capacity: Quantity.parse(str(amount))} if share and amount else {}
    return DeviceResult(
        request, DRIVER, POOL, device, admin_access=is_admin, share_id=share, consumed_capacity=consumed
    )


def consumes(amount: int) -> tuple[CounterConsumption, ...]:
    return (CounterConsumption("parts", {"slices": Quantity.parse(str(amount))}),)


def published() -> list[object]:
    memory = {MEMORY: str(CAPACITY)}
    return [
        *("gpu-0", "gpu-1"),
        a_device("shared", capacity=memory, allow_multiple_allocations=True),
        *(a_device(name, consumes_counters=consumes(TAKES[name])) for name in TAKES if name not in SHARED),
        a_device("part-shared", capacity=memory, allow_multiple_allocations=True, consumes_counters=consumes(1)),
    ]


def fits(results: Iterable[DeviceResult], others: Held) -> bool:
    """Whether a claim may have this, too, beside what the others have."""
    own = [result for result in results if not result.admin_access]
    if any(result.admin_access and result.request != WATCHING for result in results):
        return False
    if any(amount_of(result) < 0 or not names_all(result) for result in own):
        return False
    if not all(are_beside(one, other) for one, other in combinations(own, 2)):
        return False
    theirs = [result for held in others.values() for result in held if not result.admin_access]
    used = {result.device for result in theirs}
    for result in own:
        if result.device == "nobody-publishes" or not all(are_beside(other, result) for other in theirs):
            return False
        if sum(amount_of(one) for one in (*own, *theirs) if one.id == result.id) > CAPACITY:
            return False
    new = {result.device for result in own if result.device in TAKES} - used
    return not new or sum(TAKES.get(device, 0) for device in used | new) <= COUNTER


def names_all(result: DeviceResult) -> bool:
    """Whether a share says what it takes of its device."""
    is_share = bool(result.share_id) and result.device in SHARED
    return not is_share or list(result.consumed_capacity) in [[name] for name in SPELLINGS]


def are_beside(one: DeviceResult, other: DeviceResult) -> bool:
    """Whether two claims, or one, can have these: of the same device only different shares."""
    shares = {one.share_id, other.share_id}
    return one.device != other.device or (one.device in SHARED and len(shares) > 1 and "" not in shares)


def amount_of(result: DeviceResult) -> int:
    return sum(amount.nanos for amount in result.consumed_capacity.values()) // 10**9


@dataclass
class Asked:
    """What was allowed. is_stored: once it is; until: when it cannot be any more.

    is_overtaken: the same was asked for again, perhaps with other ids of shares: the amounts count there.
    """

    update: Update
    until: int
    is_stored: bool = False
    is_overtaken: bool = False

    @property
    def counted(self) -> Claim:
        """The claim with what counts for this update."""
        claim = self.update.claim
        assert claim.allocation is not None
        results = claim.allocation.results
        if self.is_overtaken:
            results = tuple(replace(one, consumed_capacity={}) for one in results)
        return replace(claim, allocation=Allocation(results))


def amounts(claim: Claim) -> list[tuple[str, bool, int]]:
    return sorted((one.device, bool(one.share_id), amount_of(one)) for one in occupying(claim))


def is_same(one: Claim, other: Claim) -> bool:
    """Whether both have the same, and the same ids of shares."""
    shares = [{(each.device, each.share_id) for each in occupying(claim)} for claim in (one, other)]
    return amounts(one) == amounts(other) and shares[0] == shares[1]


@dataclass
class World(LateWatch):
    """asked: what was allowed and counts."""

    asked: list[Asked] = field(default_factory=list)
    clock: int = 0

    def __post_init__(self) -> None:
        self.cluster = Cluster(kubernetes(), is_ours=lambda _: False)
        sets = (CounterSet("parts", {"slices": Quantity.parse(str(COUNTER))}),)
        self.cluster.set_slice(a_slice(*published(), name="devices", slice_count=2))  # type: ignore[arg-type]
        self.cluster.set_slice(a_slice(name="counters", slice_count=2, counter_sets=sets))
        self.ledger = Ledger(self.cluster)
        for name in NAMES:
            self.create(name)

    # -- the API server

    def create(self, name: str) -> None:
        if self.is_free(name):
            self.store(replace(a_claim(*REQUESTS, name=name), uid=self.new_uid()))

    def release(self, uid: str) -> None:
        self.store(replace(self.truth[uid], allocation=None))

    def ask(self, uid: str, results: tuple[DeviceResult, ...]) -> None:
        """An update of a claim without devices comes to the guard, whose answer is the naive one."""
        claim, version = self.truth[uid], self.versions[uid]
        if claim.allocation is not None:
            return
        update = Update(replace(claim, allocation=Allocation(results)), version)
        known = self.ledger.open
        refusal = self.ledger.refusal(update)
        assert (refusal is None) == fits(results, self.counted(uid)), refusal
        assert self.ledger.open == known
        assert self.ledger.admit(update, self.clock + LASTS) == refusal
        if refusal is None and occupying(update.claim):
            again = [one for one in self.asked if one.update.version == version and one.update.claim.uid == uid]
            for one in again:
                one.is_overtaken = one.is_overtaken or amounts(one.update.claim) == amounts(update.claim)
            self.asked = [one for one in self.asked if one not in again or not is_same(one.update.claim, update.claim)]
            self.asked.append(Asked(update, self.clock + LASTS))

    def commit(self, asked: Asked) -> None:
        """The API server stores what was allowed, if it can still."""
        uid = asked.update.claim.uid
        is_in_time = not asked.is_stored and self.clock < asked.until
        if is_in_time and uid in self.truth and self.versions[uid] == asked.update.version:
            asked.is_stored = True
            self.store(asked.update.claim)

    # -- the guard's watch and clock

    def list_anew(self) -> None:
        """A list is taken in that has begun now, and with it what is over by the clock."""
        super().list_anew()
        self.ledger.expire(self.clock)
        self.asked = [one for one in self.asked if one.until > self.clock]

    def on_shown(self, uid: str, claim: Claim | None, version: int) -> None:
        if claim is None:
            self.cluster.remove_claim(uid)
            self.asked = [one for one in self.asked if one.update.claim.uid != uid]
        else:
            self.cluster.set_claim(an_object(claim), version)
            self.asked = [one for one in self.asked if one.update.claim.uid != uid or one.update.version >= version]
        self.ledger.shown(uid)

    # -- what has to hold

    def counted(self, uid: str) -> Held:
        """What all other claims have, or may have."""
        held: dict[str, dict[tuple[DeviceID, str, bool], DeviceResult]] = {}
        some = [*self.watched.values(), *(one.counted for one in self.asked)]
        for claim in some:
            for result in claim.allocation.results if claim.allocation else ():
                held.setdefault(claim.uid, {})[result.id, result.share_id, result.admin_access] = result
        return {other: own.values() for other, own in held.items() if other != uid}

    def check(self) -> None:
        """Nothing stored is held twice, and as much is open as counts."""
        stored = {uid: claim.allocation.results for uid, claim in self.truth.items() if claim.allocation}
        for uid, results in stored.items():
            others = {other: held for other, held in stored.items() if other != uid}
            assert fits(results, others), stored
        assert self.ledger.open == len(self.asked)
        in_use = self.cluster.fleet.usage.allocated_in(PoolID(DRIVER, POOL))
        assert in_use == {one.device for held in self.counted("").values() for one in held if not one.admin_access}
