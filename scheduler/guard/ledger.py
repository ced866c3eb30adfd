"""Allowed updates that the watch has not shown yet, on top of what it shows; and whether one more allocation fits.

Pure: the clock is an argument.

An allowed update is based on one version of its claim, and the API server stores it on no other. So it counts until the
watch shows the claim at a newer version, or deleted; or until a list begins after the time at which the API server can
no longer store the update. If the update fails after it was allowed, its devices stay blocked until then. Meanwhile the
claim itself can be allocated again, with any devices, because only one of its updates can be stored.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from allocator.cluster.usage import consumed_by, occupying
from allocator.explain.text import holders_text
from allocator.gates import CONSUMABLE_CAPACITY, PARTITIONABLE_DEVICES, Features
from allocator.model import Allocation, Claim, DeviceID, PoolID
from cel.values.quantity import Quantity
from scheduler.decision.cluster import Cluster
from scheduler.state.claims import Holding, with_devices_of
from scheduler.state.invariants import Overlap


@dataclass(frozen=True, slots=True)
class Update:
    """An update to judge. claim: with its new allocation. version: of the claim that it builds on."""

    claim: Claim
    version: int


@dataclass(frozen=True, slots=True)
class Allowed:
    """An update that may be stored, or not. until: it cannot be after that, in seconds of the caller's clock."""

    update: Update
    until: float


@dataclass(frozen=True, slots=True)
class Denial:
    """Why an update is refused. cause: of few different ones. message: for the writer; names: of who holds it, for us.

    The writer may show the message to whoever has made the pod: it names no claim of another namespace.
    """

    cause: str
    message: str
    names: tuple[str, ...] = ()


def counting(features: Features) -> Features:
    """The features with which all that is stored counts: a gate may be on in the API server, and not known here."""
    return replace(features, gates=features.gates | {CONSUMABLE_CAPACITY, PARTITIONABLE_DEVICES})


NOTHING = Quantity.parse("0")

GONE_MAX = 1 << 14
"""Claims that are remembered as gone: far more than go within the time that an update takes."""

OPEN_OF_A_CLAIM_MAX = 1 << 5
"""Updates of one claim that are open at the same time: its devices are put together again with each."""

OPEN_MAX = 1 << 14
"""Devices of updates that are open at the same time: 218 a second, even if the watch shows none of them.

If all are shares of one device, judging one more takes 0.13 s, and the time grows with their number.
"""

OUTDATED, DEVICE, CAPACITY, COUNTERS, UNKNOWN = "outdated", "device", "capacity", "counters", "unknown"
ADMIN_ACCESS, BUSY, LIMIT = "admin access", "busy", "limit"
CAUSES = (OUTDATED, ADMIN_ACCESS, DEVICE, CAPACITY, COUNTERS, UNKNOWN, LIMIT, BUSY)
"""Why the ledger refuses: the claim has moved on; it does not request the admin access that it has; it has more than
there is, or what others hold; devices are not published; a limit of its namespace does not leave so much; too many
updates are open."""


class Ledger:
    """The claims and slices of a cluster, and what was allowed. cluster: follows the watches, and nothing else."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._open: dict[str, tuple[Allowed, ...]] = {}
        self._open_devices = 0
        self._gone: dict[str, None] = {}

    @property
    def open(self) -> int:
        """How many updates were allowed of which it is not known what became of them."""
        return sum(map(len, self._open.values()))

    def opened(self) -> Iterator[Allowed]:
        """These updates."""
        return (one for some in self._open.values() for one in some)

    def until(self) -> float | None:
        """The first moment from which on one of them cannot be stored any more; None where there are none."""
        return min((one.until for one in self.opened()), default=None)

    def refusal(self, update: Update) -> Denial | None:
        """Why the update must not be stored; None where it may be. Nothing is taken.

        Cost: O(devices of the pools of which it has devices, and of what is in use there).
        """
        uid = update.claim.uid
        try:
            return self._judged(update)
        finally:  # whatever went wrong, what was admitted before counts on
            self._keep(uid, self._open.get(uid, ()))

    def admit(self, update: Update, until: float) -> Denial | None:
        """As `refusal`; an update that is not refused may be stored until then, and counts from now on.

        What it was judged by counts on: nothing is counted twice.
        """
        uid = update.claim.uid
        before = counted = self._open.get(uid, ())
        try:
            denial = self._judged(update)
            if denial is None and occupying(update.claim):
                counted = (*_overtaken(before, update), Allowed(update, until))
            return denial
        finally:
            if counted and not before:
                self._note_open(uid, counted)  # as it was judged: alone
            else:
                self._keep(uid, counted)

    def _judged(self, update: Update) -> Denial | None:
        """Why the update must not be stored. From then on, it counts, or what counted before does."""
        if denial := self._outdated(update) or self._inconsistent(update.claim) or self._busy(update.claim):
            return denial
        unknown = self._cluster.rival_claims.unknown(update.claim)
        # A counter set that the watch has not shown yet has nothing: that is unknown, and not too little.
        overlaps = [one for one in self._overlaps(update) if not (one.lack and one.device in unknown)]
        if overlaps:
            return _of_overlap(overlaps[0], self._reader(update.claim))
        for device, lack in unknown.items():
            return _of_unknown(device, lack, self._generation(device))
        return self._excess(update.claim)

    def _excess(self, claim: Claim) -> Denial | None:
        """A limit of the claim's namespace that does not leave what the update adds. Meanwhile the update counts."""
        holding, snapshot = self._cluster.claims.holding(claim.uid), self._cluster.fleet.current
        stored = holding.allocated if holding is not None else None
        exceeded = snapshot.limited.excess(claim, stored, snapshot)
        if exceeded is None:
            return None
        limit, added = exceeded
        text = limit.text(added) if self._reader(claim) else "a limit of its namespace leaves too little"
        return Denial(LIMIT, f"claim {claim}: {text}")

    def _reader(self, claim: Claim) -> str:
        """The namespace whose writers read the answer; empty for a claim that the watch has not shown there.

        It may be invented by somebody who wants to know what others have: nobody guesses the uid of one that is not.
        """
        holding = self._cluster.claims.holding(claim.uid)
        watched = holding.watched if holding is not None else None
        return claim.namespace if watched and watched.claim.namespace == claim.namespace else ""

    def is_behind(self, update: Update) -> bool:
        """Whether the watch has not shown the claim as the update builds on it.

        Then it may not have shown either what the writer saw before: that another claim has given its devices back.
        """
        return _version(self._cluster.claims.holding(update.claim.uid)) < update.version

    def shown(self, uid: str) -> None:
        """The watch has shown something of the claim of that uid: what is overtaken counts no more."""
        holding = self._cluster.claims.holding(uid)
        is_gone = holding is None or holding.is_gone
        self._note(uid, is_gone=is_gone)
        open_updates = self._open.get(uid, ())
        if not open_updates:
            return
        left = () if is_gone else tuple(one for one in open_updates if one.update.version >= _version(holding))
        if left != open_updates:
            self._keep(uid, left)

    def expire(self, began: float) -> int:
        """A list that began then has been taken in: what could not be stored any more by then was not. How many."""
        before = self.open
        for uid, open_updates in list(self._open.items()):
            left = tuple(one for one in open_updates if one.until > began)
            if left != open_updates:
                self._keep(uid, left)
        return before - self.open

    # -- one claim

    def _outdated(self, update: Update) -> Denial | None:
        """The API server would not store it either, or asks again with the newest version."""
        if update.claim.uid in self._gone:
            return Denial(OUTDATED, f"claim {update.claim} is gone")
        holding = self._cluster.claims.holding(update.claim.uid)
        version = _version(holding)
        if update.version >= version:
            return None
        versions = f"the update is based on version {update.version}, the claim has {version}"
        return Denial(OUTDATED, f"claim {update.claim} was changed: {versions}")

    def _inconsistent(self, claim: Claim) -> Denial | None:
        """What no allocation may have, whoever else holds devices.

        The API server compares results neither with what is requested nor with each other.
        """
        if unrequested := _admin_access_unrequested(claim):
            return unrequested
        if repeated := self._cluster.rival_claims.repeated(claim):
            share = "not as two shares of a device that can be shared"
            return Denial(DEVICE, f"device {repeated} is allocated to the claim twice, and {share}")
        return self._misfit(claim) or _negative_share(claim)

    def _busy(self, claim: Claim) -> Denial | None:
        """What is kept has a bound, whoever asks: shares that take nothing pass in any number."""
        own = len(self._open.get(claim.uid, ()))
        if own >= OPEN_OF_A_CLAIM_MAX:
            return Denial(BUSY, f"claim {claim}: the end of {own} allowed updates of it is not known")
        if self._open_devices + len(occupying(claim)) <= OPEN_MAX:
            return None
        open_ = f"the allowed updates of which the end is not known have {self._open_devices:,} devices"
        return Denial(BUSY, f"claim {claim}: {open_}")

    def _misfit(self, claim: Claim) -> Denial | None:
        """A share that would count for less than it takes."""
        for result in occupying(claim):
            if problem := self._cluster.rival_claims.misfit(result):
                return Denial(CAPACITY, f"device {result.id} of claim {claim}: {problem}")
        return None

    def _note(self, uid: str, *, is_gone: bool) -> None:
        """Remember that the claim is gone: of an update that is asked about after that no watch would tell the end."""
        self._gone.pop(uid, None)
        if is_gone:
            self._gone[uid] = None
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]

    def _overlaps(self, update: Update) -> Sequence[Overlap]:
        """What it cannot have, as if it were the only update of its claim: it alone counts from then on."""
        uid = update.claim.uid
        self._count(uid, (update,))
        return list(self._cluster.rival_claims.overlaps(uid, update.claim, is_last=True))

    def _keep(self, uid: str, allowed: tuple[Allowed, ...]) -> None:
        self._note_open(uid, allowed)
        self._count(uid, [one.update for one in allowed])

    def _note_open(self, uid: str, allowed: tuple[Allowed, ...]) -> None:
        self._open_devices += _devices(allowed) - _devices(self._open.pop(uid, ()))
        if allowed:
            self._open[uid] = allowed

    def _count(self, uid: str, updates: Sequence[Update]) -> None:
        """Let these count for the claim, and no others: of each the devices, once."""
        claims = self._cluster.claims
        claims.unreserve(uid)
        if updates:
            claims.reserve(uid, "", [_together(updates)])
            claims.written(uid, max(update.version for update in updates) + 1)

    def _generation(self, device: DeviceID) -> int:
        return self._cluster.rival_claims.generation(PoolID(device.driver, device.pool))


def _together(updates: Iterable[Update]) -> tuple[Claim, Allocation | None]:
    """The claim, and all devices of its updates."""
    first, *others = updates
    claim = first.claim
    for other in others:
        claim = with_devices_of(claim, other.claim)
    return claim, claim.allocation


def _overtaken(allowed: Iterable[Allowed], update: Update) -> Iterator[Allowed]:
    """What counts beside the update of what was allowed for its claim before.

    Of those that build on one version, only one can be stored. So an update that is asked for again, since another
    webhook has denied it, counts once. Its shares have other ids each time: these are taken, and the amounts once.
    """
    for before in allowed:
        if before.update.version != update.version or _amounts(before.update.claim) != _amounts(update.claim):
            yield before
        elif _shares(before.update.claim) != _shares(update.claim):
            yield replace(before, update=replace(before.update, claim=_without_amounts(before.update.claim)))


def _amounts(claim: Claim) -> Counter[tuple[DeviceID, bool, frozenset[tuple[str, int]]]]:
    """The devices, and how much shares take of their capacities, however these are spelled; how often."""
    return Counter((one.id, bool(one.share_id), frozenset(consumed_by(one).items())) for one in occupying(claim))


def _shares(claim: Claim) -> set[tuple[DeviceID, str]]:
    return {(one.id, one.share_id) for one in occupying(claim)}


def _without_amounts(claim: Claim) -> Claim:
    """The claim with shares that take nothing."""
    assert claim.allocation is not None
    results = tuple(
        replace(one, consumed_capacity=dict.fromkeys(one.consumed_capacity, NOTHING))
        for one in claim.allocation.results
    )
    return replace(claim, allocation=replace(claim.allocation, results=results))


def _devices(allowed: Iterable[Allowed]) -> int:
    """How many devices these updates have."""
    return sum(len(occupying(one.update.claim)) for one in allowed)


def _version(holding: Holding | None) -> int:
    """The version at which the watch has shown the claim; 0 where it has not."""
    return holding.version if holding is not None else 0


def _admin_access_unrequested(claim: Claim) -> Denial | None:
    """Such a device would count for nothing."""
    requested = {one.name for request in claim.requests for one in request.alternatives if one.admin_access}
    for result in claim.allocation.results if claim.allocation else ():
        if result.admin_access and result.request not in requested:
            problem = f"adminAccess is set, but request {result.request} does not have it"
            return Denial(ADMIN_ACCESS, f"device {result.id} of claim {claim}: {problem}")
    return None


def _negative_share(claim: Claim) -> Denial | None:
    """Such a share would give others what there is not."""
    for result in occupying(claim):
        for name, amount in result.consumed_capacity.items():
            if amount.nanos < 0:
                return Denial(CAPACITY, f"device {result.id}: consumedCapacity {name} is negative: {amount}")
    return None


def _of_overlap(overlap: Overlap, reader: str) -> Denial:
    claims = sorted((held.counted for held in overlap.others.values() if held.counted), key=str)
    names = tuple(map(str, claims))
    holders = _holders(names, reader) if names else ""
    if not overlap.lack:
        return Denial(DEVICE, f"device {overlap.device} is held by {holders}", names)
    cause = CAPACITY if overlap.lack.startswith("capacity ") else COUNTERS
    rest = f", the rest is held by {holders}" if claims else ""
    return Denial(cause, f"device {overlap.device} needs more of {overlap.lack} than is left{rest}", names)


def _holders(names: Sequence[str], reader: str) -> str:
    """Those of the reader's namespace by name, none where it is not known."""
    if reader:
        return holders_text([(name, 1) for name in names], reader=reader, noun="claim ")
    return "another claim" if len(names) == 1 else f"{len(names)} other claims"


def _of_unknown(device: DeviceID, lack: str, generation: int) -> Denial:
    pool = f"{device.driver}/{device.pool}"
    what = f"its newest known generation is {generation}" if generation else "no slice of it is known"
    return Denial(UNKNOWN, f"device {device} cannot be checked: pool {pool} does not publish {lack}, {what}")
