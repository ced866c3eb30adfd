"""Checks the invariants all the time: each event adds what it concerns to a short list of suspects.

Watches of different kinds are not in step, so what is seen only for a moment may not be a violation. Whoever may write
a claim can take its finalizer away, or replace it: once a claim was right, that is not ours.

The API server never compares the devices of two claims. So whoever writes one looks for `Rivals` before the pod is
bound, claims that together hold more than there is; and so do the invariants among the claims of bound pods.
Source: scheduling invariants I1 (exclusive devices), I2 (bound pods), I4 (finalizers), I5 (counters, capacity).
Seen elsewhere: I3 (allocations for nobody) by the sweep, I6 (one attempt at a time) where an attempt begins.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from allocator.cluster.node_affinity import InvalidNodeSelector, selects
from allocator.cluster.pools import has_counters
from allocator.cluster.usage import Shares, consumed_of, occupying
from allocator.explain.text import holders_text
from allocator.features.partitionable_devices import consumed
from allocator.fleet.fleet import Fleet
from allocator.model import Claim, Device, DeviceID, DeviceResult, Node, NodeSelector, PoolID, Slice, own_name
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod
from scheduler.state.claims import FINALIZER, ClaimIndex, ClaimObject, Holding, Waiting, claims_of


class Rival(NamedTuple):
    """A claim that holds what another one cannot have as well. resource_version: since when, as the watch shows it."""

    namespace: str
    name: str
    uid: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """What a claim cannot have beside others. device: of the claim. others: the claims that have it, by uid.

    lack: the capacity or the counter set of which there is too little; empty where it is the device itself.
    """

    device: DeviceID
    lack: str
    others: Mapping[str, Holding]


class Rivals:
    """Which claims together hold more than there is, by what the fleet publishes and the index says is in use."""

    def __init__(self, fleet: Fleet, index: ClaimIndex) -> None:
        self._fleet = fleet
        self._index = index

    def of(self, uid: str) -> Sequence[Rival]:
        """The claims that are stored, and cannot hold what they hold together with this one, by version.

        Cost: O(devices of the claim), and O(devices in use of the pools whose counters it draws on).
        """
        holding = self._index.holding(uid)
        if holding is None or holding.counted is None:
            return ()
        rivals: dict[str, Rival] = {}
        for overlap in self.overlaps(uid, holding.counted):
            for other_uid, other in overlap.others.items():
                rival = _rival(other_uid, other)
                if rival is not None:
                    rivals[other_uid] = rival
        return sorted(rivals.values(), key=lambda rival: (rival.resource_version, rival.uid))

    def overlaps(self, uid: str, claim: Claim, *, is_last: bool = False) -> Iterator[Overlap]:
        """What the claim, which is counted already, cannot have. uid: by which it is counted.

        is_last: the others had theirs before, so that a device that one of them has is not charged again for this one.
        Cost: O(devices of the pools of which it has devices).
        """
        taken: dict[DeviceID, dict[str, None]] = {}
        for result in occupying(claim):
            taken.setdefault(result.id, {})[result.share_id] = None
        for device, shares in taken.items():
            others = self._index.other_holders(device, uid)
            for holding in self._holding_too(others, device, shares):
                yield Overlap(device, "", holding)
            if lack := self.short_of(device):
                yield Overlap(device, f"capacity {lack}", others)
        charged = set(taken)
        if is_last:
            charged = {device for device in charged if not self._index.other_holders(device, uid)}
        yield from self._overdrawing(uid, charged)

    def _holding_too(
        self, others: Mapping[str, Holding], device: DeviceID, shares: Iterable[str]
    ) -> Iterator[Mapping[str, Holding]]:
        """Of these claims of the device those that have the whole of it, or the same share, for each where any do."""
        has_shares = self._has_shares(device)
        by_share = self._by_share(others, device) if has_shares else {}
        for share in shares:
            holding = {**by_share.get("", {}), **by_share.get(share, {})} if has_shares and share else others
            if holding:
                yield holding

    @staticmethod
    def _by_share(holdings: Mapping[str, Holding], device: DeviceID) -> Mapping[str, Mapping[str, Holding]]:
        """Who has which share of the device; the empty one is the whole."""
        by_share: dict[str, dict[str, Holding]] = {}
        for uid, holding in holdings.items():
            for result in occupying(holding.counted) if holding.counted is not None else ():
                if result.id == device:
                    by_share.setdefault(result.share_id, {})[uid] = holding
        return by_share

    def _overdrawing(self, uid: str, own: Collection[DeviceID]) -> Iterator[Overlap]:
        """The counters of which the devices take what is not there."""
        for pool_id in sorted({PoolID(device.driver, device.pool) for device in own}):
            for name, devices in sorted(self.overdrawn(pool_id).items()):
                drawing = [device for device in devices if device in own]
                if drawing:
                    held = (self._index.other_holders(one, uid) for one in devices)
                    others = {other: holding for each in held for other, holding in each.items()}
                    yield Overlap(drawing[0], f"counter set {name}", others)

    def repeated(self, claim: Claim) -> DeviceID | None:
        """A device that the claim has more than once, and not in different shares of one that has some."""
        shares: dict[DeviceID, list[str]] = {}
        for result in occupying(claim):
            shares.setdefault(result.id, []).append(result.share_id)
        several = ((device, own) for device, own in shares.items() if len(own) > 1)
        return next((one for one, own in several if not (_are_different_shares(own) and self._has_shares(one))), None)

    def _has_shares(self, device: DeviceID) -> bool:
        """Whether it can be given in shares; True of a device that is not published, since that is not known."""
        published = self._device(device)
        return published is None or published.allow_multiple_allocations

    def unknown(self, claim: Claim) -> Mapping[DeviceID, str]:
        """The devices of the claim of which it is unknown what they take, with what their pool does not publish."""
        lacks = ((result.id, self._unpublished(result.id)) for result in occupying(claim))
        return {device: lack for device, lack in lacks if lack}

    def _unpublished(self, device: DeviceID) -> str:
        pool_id, published = PoolID(device.driver, device.pool), self._device(device)
        if published is None:
            return "it"
        sets = (consumption.counter_set for consumption in published.consumes_counters)
        return next((f"its counter set {name}" for name in sets if not self.publishes(pool_id, name)), "")

    def misfit(self, result: DeviceResult) -> str:
        """As `share_misfit`; empty where the device is not published."""
        return share_misfit(result, self._device(result.id))

    def generation(self, pool_id: PoolID) -> int:
        """The newest generation of the pool; 0 where none is published."""
        return max((slice_.generation for slice_ in self._newest(pool_id)), default=0)

    def short_of(self, device: DeviceID) -> str:
        """The capacity of which the shares of a device take more than there is; empty where there is none."""
        pool_id = PoolID(device.driver, device.pool)
        is_shared = device.device in self._fleet.usage.shares_in(pool_id)
        shares = self._shares(device) if is_shared else None
        published = self._device(device) if shares else None
        if shares is None or published is None:
            return ""
        sums = consumed_of(published, shares).items()
        return next((name for name, amount in sums if amount > published.capacity[name].nanos), "")

    def overdrawn(self, pool_id: PoolID) -> Mapping[str, Sequence[DeviceID]]:
        """The counter sets of a pool of which more is taken than there is, with the devices that draw on them.

        A set that the newest generation does not show, or not yet, has nothing: who is about to take of it gives way.
        Cost: O(devices of the pool).
        """
        if not has_counters(self._fleet.slices.by_pool.get(pool_id, ())):
            return {}
        slices = self._newest(pool_id)
        held = {name for name in self._fleet.usage.allocated_in(pool_id) if self._is_held(pool_id, name)}
        drawing = [device for slice_ in slices for device in slice_.devices if device.name in held]
        left = {
            (counter_set.name, name): amount.nanos
            for slice_ in slices
            for counter_set in slice_.counter_sets
            for name, amount in counter_set.counters.items()
        }
        for device in drawing:
            for (_, counter_set, name), amount in consumed(device, is_strict=self._fleet.features.is_strict):
                left[counter_set, name] = left.get((counter_set, name), 0) - amount
        short = {counter_set for (counter_set, _), amount in left.items() if amount < 0}
        return {name: [device.id for device in drawing if _draws_on(device, name)] for name in short}

    # The fleet's usage has more than claims: what is kept for a preemptor whose victims still have it, and what is set
    # aside. Nobody holds that.

    def _is_held(self, pool_id: PoolID, device: str) -> bool:
        return bool(self._index.holders(DeviceID(pool_id.driver, pool_id.pool, device)))

    def _shares(self, device: DeviceID) -> Shares | None:
        """Those that claims have of the device."""
        shares = [
            (str(holding.counted), result)
            for holding in self._index.holders(device).values()
            for result in (occupying(holding.counted) if holding.counted is not None else ())
            if result.id == device and result.share_id
        ]
        return Shares().plus(shares) if shares else None

    def publishes(self, pool_id: PoolID, counter_set: str) -> bool:
        """Whether the newest generation of the pool shows the counter set: it may come slice by slice."""
        return any(one.name == counter_set for slice_ in self._newest(pool_id) for one in slice_.counter_sets)

    def _device(self, device: DeviceID) -> Device | None:
        pool_id = PoolID(device.driver, device.pool)
        every = (one for slice_ in self._newest(pool_id) for one in slice_.devices)
        return next((one for one in every if one.name == device.device), None)

    def _newest(self, pool_id: PoolID) -> Sequence[Slice]:
        slices = self._fleet.slices.by_pool.get(pool_id, ())
        newest = max((slice_.generation for slice_ in slices), default=0)
        return [slice_ for slice_ in slices if slice_.generation == newest]


def share_misfit(result: DeviceResult, device: Device | None) -> str:
    """What is wrong with the capacities that a share of the device names; empty where nothing is. device: as published.

    A share takes of each capacity of its device, by request, by default or the whole. Of one that it does not name, it
    would count for nothing, and so would one that the device does not have. Of two spellings of a name the one with the
    driver's domain counts. Source: KEP-5075, GetConsumedCapacityFromRequest in structured/internal/experimental.
    """
    if not result.share_id or device is None or not device.allow_multiple_allocations:
        return ""
    named, capacities = result.consumed_capacity.keys(), device.capacity.keys()
    if strange := sorted(one for one in named if own_name(capacities, one, device.driver) is None):
        return f"consumedCapacity names {strange[0]}, a capacity that the device does not have"
    if uncounted := sorted(one for one in named if _counted(result, one).nanos < result.consumed_capacity[one].nanos):
        return f"consumedCapacity names {uncounted[0]} twice, and the larger amount would not count"
    missing = sorted(one for one in capacities if own_name(named, one, device.driver) is None)
    return f"consumedCapacity does not name {missing[0]}, a capacity of the device" if missing else ""


def _counted(result: DeviceResult, name: str) -> Quantity:
    """The amount of the capacity of that name that counts."""
    return result.consumed_capacity[own_name(result.consumed_capacity, name, result.driver) or name]


def _are_different_shares(shares: Sequence[str]) -> bool:
    """Whether these are different shares, and none is the whole."""
    return all(shares) and len(set(shares)) == len(shares)


def _draws_on(device: Device, counter_set: str) -> bool:
    return any(consumption.counter_set == counter_set for consumption in device.consumes_counters)


def is_exclusive(claim: Claim | None, device: DeviceID) -> bool:
    """True where the claim has the whole device."""
    return _has_any(claim, device, ("",))


def _has_any(claim: Claim | None, device: DeviceID, shares: Collection[str]) -> bool:
    """Whether the claim has one of these shares of the device; the empty one is the whole."""
    return claim is not None and any(one.id == device and one.share_id in shares for one in occupying(claim))


def _rival(uid: str, holding: Holding) -> Rival | None:
    """The claim as a rival; None where it is not stored yet, so that its writer will look for rivals itself."""
    if holding.allocated is not None:
        return Rival(holding.allocated.namespace, holding.allocated.name, uid, holding.allocated_at)
    reservation = holding.reservation
    if reservation is None or reservation.written is None:
        return None
    return Rival(reservation.claim.namespace, reservation.claim.name, uid, reservation.written)


Suspect = TypeVar("Suspect")

Invariant = Literal["I1", "I2", "I3", "I4", "I5", "I6"]


class Holder(NamedTuple):
    """A claim that holds devices."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not be. subject: the device, claim, pool or pod.

    claims: those that hold what they cannot hold together, where it is that. message: in full, for operators.
    """

    invariant: Invariant
    subject: str
    message: str
    claims: tuple[Holder, ...] = ()

    def text_for(self, namespace: str) -> str:
        """The message for people of the namespace, who read no names of other ones."""
        if self.invariant != "I1":
            return self.message
        named = holders_text([(str(claim), 1) for claim in self.claims], reader=namespace, noun="claim ")
        return f"bound pods of {named} have it at the same time"


class Invariants:
    """The suspects. pod: an assigned pod by its uid. node: a node by its name. is_ours: who has bound a pod."""

    def __init__(
        self,
        index: ClaimIndex,
        rivals: Rivals,
        *,
        pod: Callable[[str], Pod | None],
        node: Callable[[str], Node | None],
        is_ours: Callable[[Pod], bool],
    ) -> None:
        self._index = index
        self._rivals = rivals
        self._pod = pod
        self._node = node
        self._is_ours = is_ours
        self._devices: set[DeviceID] = set()
        self._pools: set[PoolID] = set()
        self._claims: set[str] = set()
        self._pods: set[str] = set()
        self._came_free: dict[str, frozenset[str]] = {}  # pods seen without a node: the claims they were bound with
        self._seen_free: set[str] = set()  # claims that were seen without an allocation
        self._safe: set[str] = set()  # allocated claims that have had their finalizer
        self._users: dict[str, frozenset[str]] = {}  # by claim the pods that it was last seen reserved for

    def on_claim(self, uid: str, before: Claim | None, now: Claim | None) -> None:
        """A claim has changed. before, now: what is in use for it. Cost: O(its devices and consumers)."""
        for claim in (before, now) if before is not now else (now,):
            for result in occupying(claim) if claim else ():
                self._devices.add(result.id)
                self._pools.add(PoolID(result.driver, result.pool))
        self._claims.add(uid)
        claim_object = self._watched(uid)
        if claim_object is None:
            self._safe.discard(uid)
            self._seen_free.discard(uid)
        elif claim_object.claim.allocation is None:
            self._safe.discard(uid)
            self._seen_free.add(uid)
        elif _is_protected(claim_object):
            self._safe.add(uid)
        users = frozenset(one.uid for one in claim_object.reserved_for) if claim_object is not None else frozenset()
        self._pods |= self._users.pop(uid, frozenset()) | users  # also those that it is reserved for no more
        if users:
            self._users[uid] = users

    def on_pod(self, uid: str, pod: Pod | None) -> None:
        """A pod has changed. pod: as it is, None once it is gone."""
        self._pods.add(uid)
        if pod is None:
            self._came_free.pop(uid, None)
        elif not pod.node_name:
            self._came_free[uid] = frozenset()
        elif self._came_free.get(uid) == frozenset():
            self._of_pod(uid)  # before anybody can replace its claims

    def violations(self) -> list[Violation]:
        """What is wrong now. Cost: O(what has changed since this was asked last, and what was wrong then)."""
        broken = [
            *_kept(self._devices, self._of_device),
            *_kept(self._pools, self._of_pool),
            *_kept(self._claims, self._of_claim),
            *_kept(self._pods, self._of_pod),
        ]
        return sorted(broken, key=lambda one: (one.invariant, one.subject))

    def _of_device(self, device: DeviceID) -> Violation | None:
        holders = self._index.holders(device)
        if len(holders) < 2:
            return None
        if capacity := self._rivals.short_of(device):
            message = f"its shares take more of its capacity {capacity} than there is"
            return Violation("I5", str(device), message, _claims(holders.values()))
        bound = [one for one in holders.values() if one.watched and _has(one, device) and self._is_used(one.watched)]
        if len(bound) < 2 or not any(is_exclusive(one.counted, device) for one in bound):
            return None
        claims = _claims(bound)
        named = ", ".join(map(str, claims))
        return Violation("I1", str(device), f"claims {named} of bound pods have it at the same time", claims)

    def _of_pool(self, pool_id: PoolID) -> Violation | None:
        taken = self._rivals.overdrawn(pool_id)
        # What a pool that is being published anew has of the others is not known before they are there.
        overdrawn = {name: devices for name, devices in taken.items() if self._rivals.publishes(pool_id, name)}
        if not overdrawn:
            return None
        name, devices = min(overdrawn.items())
        named = ", ".join(device.device for device in devices)
        message = f"devices {named} draw more on its counter set {name} than there is"
        holders = (held for device in devices for held in self._index.holders(device).values())
        return Violation("I5", f"{pool_id.driver}/{pool_id.pool}", message, _claims(holders))

    def _of_claim(self, uid: str) -> Violation | None:
        claim_object = self._watched(uid)
        if (
            claim_object is None
            or claim_object.error
            or claim_object.claim.allocation is None
            or uid not in self._seen_free  # its owner may have removed the finalizer before we came
            or uid in self._safe
            or _is_protected(claim_object)
        ):
            return None
        return Violation("I4", f"claim {claim_object.claim}", f"it is allocated without the finalizer {FINALIZER}")

    def _of_pod(self, uid: str) -> Violation | None:
        pod = self._pod(uid)
        if pod is None or pod.is_over or not self._is_ours(pod):
            return None
        if uid not in self._came_free:
            return None  # it was never seen without its node: whoever created it there has bound it
        claims = claims_of(pod, self._index)
        if isinstance(claims, Waiting):
            return None  # a claim that is gone is its deleter's, not ours
        bound_with = self._came_free[uid]
        judged = [found for found in claims if not bound_with or found.claim.uid in bound_with]
        problem = next(filter(None, (self._problem(pod, found) for found in judged)), "")
        if problem:
            return Violation("I2", f"pod {pod}", problem)
        self._came_free[uid] = bound_with or frozenset(found.claim.uid for found in claims)
        return None

    def _problem(self, pod: Pod, found: ClaimObject) -> str:
        """Why the claim should have kept the pod from its node."""
        allocation, node = found.claim.allocation, self._node(pod.node_name)
        if allocation is None:
            return f"it is bound, and claim {found.claim} is not allocated"
        if pod.uid not in self._users.get(found.claim.uid, ()):
            return f"it is bound, and claim {found.claim} is not reserved for it"
        if node is not None and allocation.node_selector is not None and not is_reached(allocation.node_selector, node):
            return f"it is bound to node {node.name}, from which claim {found.claim} cannot be reached"
        return ""

    def _watched(self, uid: str) -> ClaimObject | None:
        holding = self._index.holding(uid)
        return holding.watched if holding is not None else None

    def _is_used(self, found: ClaimObject) -> bool:
        """True where a pod that is bound has the claim."""
        return any(self._pod(consumer.uid) is not None for consumer in found.reserved_for)


def _claims(holdings: Iterable[Holding]) -> tuple[Holder, ...]:
    """Those of the claims that are stored, by name."""
    stored = (one.allocated for one in holdings if one.allocated is not None)
    return tuple(sorted({Holder(claim.namespace, claim.name, claim.uid) for claim in stored}))


def is_reached(selector: NodeSelector, node: Node) -> bool:
    """True where an allocation with this selector can be used on the node; a selector without sense selects nothing."""
    try:
        return selects(selector, node)
    except InvalidNodeSelector:
        return False


def _is_protected(found: ClaimObject) -> bool:
    """True where the claim has the finalizer; of a claim that cannot be read nobody knows."""
    return not found.error and FINALIZER in (found.raw["metadata"].get("finalizers") or ())


def _has(holding: Holding, device: DeviceID) -> bool:
    """True where the claim is allocated with the device, and not only wanted with it by an attempt of ours."""
    return holding.allocated is not None and any(result.id == device for result in occupying(holding.allocated))


def _kept(suspects: set[Suspect], judge: Callable[[Suspect], Violation | None]) -> Iterator[Violation]:
    """The violations of the suspects, of which the others are dropped."""
    for suspect in list(suspects):
        violation = judge(suspect)
        if violation is None:
            suspects.discard(suspect)
        else:
            yield violation
