"""How much of each limit is in use: counted claim by claim as they come and go, and counted again for what changes.

`LimitUse` is a part of a snapshot and a value to all who read it. `LimitCount` keeps it up to date for a fleet: it
remembers what each claim counts for, so that a claim takes back just that, whatever its slices say by then.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from allocator.cluster.usage import occupying
from allocator.limits import ONE_DEVICE, Account, Binding, Bindings, CountedDevices, TenantLimit
from allocator.model import Claim, Device, DeviceResult, PoolID, Slice

if TYPE_CHECKING:
    from allocator.cluster.snapshot import Snapshot

Charges = tuple[tuple[Account, int], ...]
"""What a claim counts for, in 10**-9; without zeros."""

PublishedAt = tuple[Slice, int]
"""The slice that publishes a device, and its position there."""

FEW_DEVICES: Final = 64
"""In a slice: they are looked through for a name, and not indexed."""

MOST_RESULTS: Final = 32
"""Devices that one claim can hold (AllocationResultsMaxSize)."""

MOST_NAMESPACES: Final = 10_000
"""Of which is remembered what holds for them: they come and go, and are asked for after they are gone."""


class LimitsInForce:
    """The limits in the order of the configuration, and for which namespaces each of them holds.

    labels: of namespaces, by name; the mapping may change, which `forget` has to be told.
    """

    def __init__(
        self, limits: Sequence[TenantLimit] = (), labels: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self.limits = tuple(limits)
        self.labels = labels if labels is not None else {}
        self._accounts: dict[str, tuple[Account, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.limits)

    def of(self, namespace: str) -> tuple[Account, ...]:
        """The accounts of the limits that hold for the namespace; what is set aside for nobody has none."""
        if not self.limits or not namespace:
            return ()
        accounts = self._accounts.get(namespace)
        if accounts is None:
            if len(self._accounts) >= MOST_NAMESPACES:
                self._accounts.clear()
            accounts = self._accounts[namespace] = tuple(self._of(namespace))
        return accounts

    def _of(self, namespace: str) -> Iterator[Account]:
        labels = self.labels.get(namespace, {})
        for number, limit in enumerate(self.limits):
            if limit.namespaces.has(namespace, labels):
                yield number, namespace if limit.namespaces.each else ""

    def limit_of(self, account: Account) -> TenantLimit:
        """The limit of the account."""
        return self.limits[account[0]]

    def forget(self, namespace: str) -> None:
        """The labels of the namespace have changed."""
        self._accounts.pop(namespace, None)


@dataclass(frozen=True, slots=True)
class Existing:
    """What there is to count, in 10**-9: all of it, and the most and the least that one device counts for, if any does.

    A share may count for as little as it likes.
    """

    total: int
    largest: int
    smallest: int


@dataclass(frozen=True, slots=True)
class LimitTerms:
    """What follows from slices and classes for a limit: what selects its devices, the most one counts for, its most.

    In 10**-9.
    """

    counted: CountedDevices
    expressions: tuple[str, ...] | None
    """None where none counts."""
    largest: int
    most: int

    def amount(self, claim: Claim, result: DeviceResult, published: PublishedAt | None, snapshot: "Snapshot") -> int:
        """What the device counts for. published: where it is, None where no slice has it any more."""
        counted = self.counted
        if self.expressions is None or (counted.driver and counted.driver != result.driver):
            return 0
        if published is None:
            return _unpublished(counted, claim, result)
        slice_, position = published
        if self.expressions and not counting_in(counted, self.expressions, slice_, snapshot) >> position & 1:
            return 0
        if counted.unit == "capacity" and result.share_id:
            return counted.of_capacity(result.consumed_capacity, result.driver)
        return counted.of_whole(slice_.devices[position])


CountingLimits = tuple[tuple[Account, TenantLimit, LimitTerms], ...]
"""The limits that hold for a namespace and count something, in the order of the configuration."""


@dataclass(slots=True, eq=False)
class ExistingAmounts:
    """What the published slices have of what limits count, until they change. Of one list of limits."""

    _terms: dict[int, LimitTerms] = field(default_factory=dict)
    _counting: dict[tuple[Account, ...], CountingLimits] = field(default_factory=dict)
    _classes: object = None
    _known: dict[tuple[CountedDevices, tuple[str, ...]], Existing] = field(default_factory=dict)
    _devices: dict[PoolID, Mapping[str, tuple[Slice, int]]] = field(default_factory=dict)

    def forget(self, pool_id: PoolID) -> None:
        """Slices of the pool have changed."""
        self._known.clear()
        self._forget_terms()
        self._devices.pop(pool_id, None)

    def of(self, counted: CountedDevices, expressions: tuple[str, ...], snapshot: "Snapshot") -> Existing:
        """What there is of it. Cost: O(slices), once until they change; O(devices) for new slices."""
        key = counted, expressions
        existing = self._known.get(key)
        if existing is None:
            existing = self._known[key] = _existing(counted, expressions, snapshot)
        return existing

    def terms(self, number: int, limit: TenantLimit, snapshot: "Snapshot") -> LimitTerms:
        """The terms of the limit with that number. Cost: of `of`, once until slices or classes change."""
        self._see_classes(snapshot)
        terms = self._terms.get(number)
        if terms is None:
            terms = self._terms[number] = self._work_out(limit, snapshot)
        return terms

    def counting(self, accounts: tuple[Account, ...], limits: LimitsInForce, snapshot: "Snapshot") -> CountingLimits:
        """The limits of these accounts that count something. Cost: that of `terms`, once until they change."""
        self._see_classes(snapshot)
        known = self._counting.get(accounts)
        if known is None:
            if len(self._counting) >= MOST_NAMESPACES:
                self._counting.clear()
            every = [(account, limits.limit_of(account)) for account in accounts]
            terms = [(account, limit, self.terms(account[0], limit, snapshot)) for account, limit in every]
            known = self._counting[accounts] = tuple([one for one in terms if one[2].expressions is not None])
        return known

    def _see_classes(self, snapshot: "Snapshot") -> None:
        if self._classes is not snapshot.classes:
            self._forget_terms()
            self._classes = snapshot.classes

    def _forget_terms(self) -> None:
        self._terms.clear()
        self._counting.clear()

    def _work_out(self, limit: TenantLimit, snapshot: "Snapshot") -> LimitTerms:
        expressions = limit.counted.expressions(snapshot.classes)
        if expressions is None:
            return LimitTerms(limit.counted, None, 0, limit.most or 0)
        is_of_devices = limit.counted.unit == "devices"
        largest = ONE_DEVICE if is_of_devices else self.of(limit.counted, expressions, snapshot).largest
        if limit.most is not None:
            return LimitTerms(limit.counted, expressions, largest, limit.most)
        total = self.of(limit.counted, expressions, snapshot).total
        most = int(total * limit.share)
        return LimitTerms(limit.counted, expressions, largest, most if total % ONE_DEVICE else most - most % ONE_DEVICE)

    def device(self, result: DeviceResult, snapshot: "Snapshot") -> PublishedAt | None:
        """The slice that publishes the device, and its position there; None where none does."""
        pool_id = PoolID(result.driver, result.pool)
        slices = snapshot.by_pool.get(pool_id, ())
        if len(slices) == 1 and len(slices[0].devices) <= FEW_DEVICES:
            for position, device in enumerate(slices[0].devices):
                if device.name == result.device:
                    return slices[0], position
            return None
        names = self._devices.get(pool_id)
        if names is None:
            names = self._devices[pool_id] = {
                device.name: (slice_, position)
                for slice_ in sorted(slices, key=lambda one: one.generation)
                for position, device in enumerate(slice_.devices)
            }
        return names.get(result.device)


def _existing(counted: CountedDevices, expressions: tuple[str, ...], snapshot: "Snapshot") -> Existing:
    total = largest = 0
    smallest: list[int] = []
    for slices in snapshot.by_pool.values():
        newest = max([slice_.generation for slice_ in slices])
        current = [slice_ for slice_ in slices if slice_.generation == newest]
        devices = [device for slice_ in current for device in _counting(counted, expressions, slice_, snapshot)]
        amounts = [counted.of_whole(device) for device in devices]
        largest = max([largest, *amounts])
        smallest += [
            0 if device.allow_multiple_allocations and counted.unit == "capacity" else amount
            for device, amount in zip(devices, amounts, strict=True)
            if amount
        ]
        if counted.unit != "counters":
            total += sum(amounts)
            continue
        # Devices are different cuts of the same hardware: what exists are the counters that they draw on.
        drawn = {one.counter_set for device in devices for one in device.consumes_counters}
        sets = [one for slice_ in current for one in slice_.counter_sets if one.name in drawn]
        total += sum([max(0, one.counters[counted.name].nanos) for one in sets if counted.name in one.counters])
    return Existing(total, largest, min(smallest, default=0))


def _counting(
    counted: CountedDevices, expressions: tuple[str, ...], slice_: Slice, snapshot: "Snapshot"
) -> Iterator[Device]:
    mask = counting_in(counted, expressions, slice_, snapshot)
    return (device for position, device in enumerate(slice_.devices) if mask >> position & 1)


def counting_in(counted: CountedDevices, expressions: tuple[str, ...], slice_: Slice, snapshot: "Snapshot") -> int:
    """The devices of the slice that count, by position. A device on which a selector fails does not."""
    if counted.driver and slice_.driver != counted.driver:
        return 0
    mask = (1 << len(slice_.devices)) - 1
    for expression in expressions:
        if not mask:
            break
        mask &= snapshot.selectors.of_slice(expression, slice_).matches
    return mask


@dataclass(frozen=True, slots=True, eq=False)
class LimitUse:
    """The limits, and how much of each is in use. used: by account, in 10**-9; none where nothing is."""

    limits: LimitsInForce = field(default_factory=LimitsInForce)
    used: dict[Account, int] = field(default_factory=dict)
    published: ExistingAmounts = field(default_factory=ExistingAmounts)

    def copy(self) -> "LimitUse":
        """The same, to be changed apart. Cost: O(accounts)."""
        return LimitUse(self.limits, dict(self.used), self.published) if self.limits else self

    def apart(self) -> "LimitUse":
        """The same, for slices that will change. Cost: O(accounts)."""
        return LimitUse(self.limits, dict(self.used), ExistingAmounts()) if self.limits else self

    def plus(self, claims: Iterable[Claim], snapshot: "Snapshot", sign: int = 1) -> "LimitUse":
        """Another one in which these allocated claims count too; sign -1: count no more. Cost: O(their devices)."""
        if not self.limits:
            return self
        other = self.copy()
        for claim in claims:
            other.book(other.charges_of(claim, snapshot), sign)
        return other

    def book(self, charges: Charges, sign: int) -> None:
        """Count these charges, or (-1) count them no more."""
        for account, amount in charges:
            if total := self.used.get(account, 0) + sign * amount:
                self.used[account] = total
            else:
                self.used.pop(account, None)

    def charges_of(self, claim: Claim, snapshot: "Snapshot") -> Charges:
        """What the claim counts for by what it has. Cost: O(its devices and its limits)."""
        counting = self._counting(claim.namespace, snapshot)
        if not counting:
            return ()
        results = [(result, self.published.device(result, snapshot)) for result in occupying(claim)]
        charges: list[tuple[Account, int]] = []
        for account, _, terms in counting:
            charge = 0
            for result, published in results:
                charge += terms.amount(claim, result, published, snapshot)
            if charge:
                charges.append((account, charge))
        return tuple(charges)

    def excess(self, claim: Claim, before: Claim | None, snapshot: "Snapshot") -> tuple[Binding, int] | None:
        """The first limit that the claim, which counts already, exceeds by what it has beyond `before`, and that."""
        had = dict(self.charges_of(before, snapshot)) if before is not None else {}
        for account, amount in self.charges_of(claim, snapshot):
            limit, added = self.limits.limit_of(account), amount - had.get(account, 0)
            if limit.soft or added <= 0:
                continue
            used, most = self.used_of(account), self.terms_of(account, snapshot).most
            if used > most:
                return Binding(limit, (), used - added, most, account), added
        return None

    def used_of(self, account: Account) -> int:
        """How much of the account is in use, in 10**-9."""
        return self.used.get(account, 0)

    def terms_of(self, account: Account, snapshot: "Snapshot") -> LimitTerms:
        """The terms of the account's limit. Cost: that of `ExistingAmounts.terms`."""
        return self.published.terms(account[0], self.limits.limits[account[0]], snapshot)

    def bindings(self, claims: Sequence[Claim], snapshot: "Snapshot") -> Bindings:
        """The limits that these claims, which have no devices yet, could exceed; the others are of no account.

        claims: of one namespace. Cost: O(limits that hold for it, and requests).
        """
        if not self.limits or not claims:
            return ()
        namespace = claims[0].namespace
        if len(claims) > 1 and any(claim.namespace != namespace for claim in claims):
            raise ValueError("the claims of one attempt are of several namespaces, and limits hold")
        counting = self._counting(namespace, snapshot)
        could = self._could_exceed(counting, MOST_RESULTS * len(claims))
        if not could:
            return ()  # as almost always
        return tuple(
            [
                Binding(limit, terms.expressions or (), self.used_of(account), terms.most, account)
                for account, limit, terms in self._could_exceed(could, most_devices(claims))
            ]
        )

    def _could_exceed(self, counting: CountingLimits, devices: int) -> CountingLimits:
        """Those of these limits that so many more devices, whichever, could exceed."""
        could = [
            (account, limit, terms)
            for account, limit, terms in counting
            if not limit.soft and self.used.get(account, 0) + devices * terms.largest > terms.most
        ]
        return tuple(could)

    def _counting(self, namespace: str, snapshot: "Snapshot") -> CountingLimits:
        accounts = self.limits.of(namespace)
        return self.published.counting(accounts, self.limits, snapshot) if accounts else ()

    def may_help(self, account: Account, claim: Claim, snapshot: "Snapshot") -> bool:
        """Whether claims that the account's limit has refused may get devices once the claim gives its own back.

        They do if the account has more left, or if there are other devices than those that count for the limit.
        """
        if account[0] >= len(self.limits.limits) or claim.allocation is None:
            return True
        if account in self.limits.of(claim.namespace):
            return True
        terms = self.terms_of(account, snapshot)
        results = [(result, self.published.device(result, snapshot)) for result in occupying(claim)]
        return not all(terms.amount(claim, result, at, snapshot) for result, at in results)


def most_devices(claims: Iterable[Claim]) -> int:
    """How many devices these claims could get at most, whatever there is."""
    return sum(
        [min(MOST_RESULTS, sum([_most_of(claim, number) for number in range(len(claim.requests))])) for claim in claims]
    )


def _most_of(claim: Claim, number: int) -> int:
    counts = [
        0 if one.admin_access else MOST_RESULTS if one.mode == "All" else min(MOST_RESULTS, max(0, one.count))
        for one in claim.requests[number].alternatives
    ]
    return max(counts, default=0)


def _unpublished(counted: CountedDevices, claim: Claim, result: DeviceResult) -> int:
    """What a device counts for that no slice publishes any more: all that its claim says of it."""
    if counted.selectors:
        return 0
    asked = {one.name: one.class_name for request in claim.requests for one in request.alternatives}
    if counted.class_name and asked.get(result.request) != counted.class_name:
        return 0
    if counted.unit == "devices":
        return ONE_DEVICE
    return counted.of_capacity(result.consumed_capacity, result.driver) if counted.unit == "capacity" else 0


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """How much of a limit is in use, in 10**-9."""

    limit: TenantLimit
    account: Account
    used: int
    most: int

    @property
    def namespace(self) -> str:
        """The one that has it by itself; empty where several have it together."""
        return self.account[1]

    @property
    def is_exceeded(self) -> bool:
        """More is in use than may be."""
        return self.used > self.most


def exceeded_text(status: LimitStatus) -> str:
    """What is told of a limit that is exceeded."""
    return f"{_named(status)} is exceeded: {_use(status)}"


def use_text(status: LimitStatus) -> str:
    """How much of the limit is in use."""
    return f"{_named(status)}: {_use(status)}"


def _named(status: LimitStatus) -> str:
    where = f" in namespace {status.namespace}" if status.namespace else ""
    return f"{'soft ' if status.limit.soft else ''}limit {status.limit.name}{where}"


def _use(status: LimitStatus) -> str:
    return f"{status.limit.text_of(status.used)} of {status.limit.text_of(status.most)} in use"


def limit_statuses(snapshot: "Snapshot") -> Iterator[LimitStatus]:
    """Each limit in its order; one that each namespace has by itself for each that is known, by name."""
    limited = snapshot.limited
    for number, limit in enumerate(limited.limits.limits):
        namespaces = [""]
        if limit.namespaces.each:
            known = {*limited.limits.labels, *[namespace for account, namespace in limited.used if account == number]}
            namespaces = sorted(one for one in known if (number, one) in limited.limits.of(one))
        for namespace in namespaces:
            yield limit_status((number, namespace), snapshot)


def limit_status(account: Account, snapshot: "Snapshot") -> LimitStatus:
    """How much of the account's limit is in use."""
    limited = snapshot.limited
    limit, most = limited.limits.limit_of(account), limited.terms_of(account, snapshot).most
    return LimitStatus(limit, account, limited.used_of(account), most)


_Key = tuple[str, str, str]
"""Namespace, name and uid of a claim."""


class LimitCount:
    """What each allocated claim counts for, as it was counted last; nothing while no limit is in force.

    Changes are noted, and what they touch is counted again with the next `count_again`.
    """

    def __init__(self) -> None:
        self._charges: dict[_Key, tuple[Claim, Charges]] = {}
        self._by_pool: dict[PoolID, set[_Key]] = {}
        self._outdated: set[_Key] = set()

    def start(self, use: LimitUse, snapshot: "Snapshot") -> None:
        """Other limits are in force, and nothing counts yet: count all claims, whoever added them."""
        claims = [claim for claim, _ in self._charges.values()]
        self._charges.clear()
        self._by_pool.clear()
        self._outdated.clear()
        self.add(claims, use, snapshot)

    def add(self, claims: Iterable[Claim], use: LimitUse, snapshot: "Snapshot") -> None:
        """These allocated claims hold their devices from now on. Cost: O(their devices)."""
        for claim in claims:
            if claim.namespace:
                charges = use.charges_of(claim, snapshot)
                use.book(charges, 1)
                self._remember(claim, charges, is_counted=bool(use.limits))

    def remove(self, claims: Iterable[Claim], use: LimitUse, snapshot: "Snapshot") -> None:
        """These claims hold nothing any more, and take back what they were counted for."""
        for claim in claims:
            if claim.namespace:
                known = self._forget(claim)
                use.book(known if known is not None else use.charges_of(claim, snapshot), -1)

    def pool_changed(self, pool_id: PoolID) -> None:
        """Slices of the pool have changed."""
        self._outdated |= self._by_pool.get(pool_id, set())

    def namespace_changed(self, namespace: str) -> None:
        """The labels of the namespace have changed. Cost: O(claims), since that is rare."""
        self._outdated.update([key for key in self._charges if key[0] == namespace])

    def all_changed(self) -> None:
        """A class has changed: any claim may count for something else."""
        self._outdated |= self._charges.keys()

    @property
    def is_outdated(self) -> bool:
        """Whether `count_again` has something to count again."""
        return bool(self._outdated)

    def count_again(self, use: LimitUse, snapshot: "Snapshot") -> None:
        """Count again what the changes touched. Cost: O(devices of the claims that they touched)."""
        outdated, self._outdated = self._outdated, set()
        for key in outdated:
            claim, before = self._charges[key]
            now = use.charges_of(claim, snapshot)
            if now != before:
                use.book(before, -1)
                use.book(now, 1)
                self._charges[key] = claim, now

    def _remember(self, claim: Claim, charges: Charges, *, is_counted: bool) -> None:
        key = _key(claim)
        self._charges[key] = claim, charges
        for result in occupying(claim) if is_counted else ():
            pool_id = PoolID(result.driver, result.pool)
            if (keys := self._by_pool.get(pool_id)) is None:
                self._by_pool[pool_id] = {key}
            else:
                keys.add(key)

    def _forget(self, claim: Claim) -> Charges | None:
        key = _key(claim)
        known = self._charges.pop(key, None)
        if known is None:
            return None
        self._outdated.discard(key)
        for pool_id in {PoolID(result.driver, result.pool) for result in occupying(known[0])}:
            keys = self._by_pool.get(pool_id)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._by_pool[pool_id]
        return known[1]


def _key(claim: Claim) -> _Key:
    return claim.namespace, claim.name, claim.uid
