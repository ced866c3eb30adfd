"""Claims of a cluster: by device, and by pod."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

from allocator.api.allocation import RESERVED_FOR_MAX, Consumer
from allocator.api.metadata import Metadata
from allocator.cluster.usage import occupying
from allocator.fleet.fleet import Fleet
from allocator.model import Allocation, Claim, DeviceID, DeviceResult
from allocator.pod_resources import CLAIM_ANNOTATION
from scheduler.core_v1.object_fields import MOST_ENTRIES, NamespacedName
from scheduler.core_v1.pod import Pod, PodClaim, claim_keys
from scheduler.state.pod_resources import claim_name, may_ask
from scheduler.state.pods import NodePods

# Which claims hold which devices: what the watch has shown, together with reservations since then.
#
# A decision *reserves* devices at once, so that the next one does not see them as free. The write returns a version.
# Once the watch has shown the claim at that version or a later one, only the watch counts. Until then both count, each
# device once, so that an event older than the write never frees what was written. If an attempt fails, its end releases
# the devices. Source: scheduling as kube-scheduler's plugin DynamicResources does it (assume cache, in-flight claims).


FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim from being deleted while a pod may use its devices."""


def is_of_extended_resources(annotations: Mapping[str, str]) -> bool:
    """Whether a claim with these annotations was made for extended resources of its owner."""
    return annotations.get(CLAIM_ANNOTATION) == "true"


class ClaimObject(Protocol):
    """A claim as the watch shows it: claim is what the allocator sees, the rest what else there is of it."""

    @property
    def claim(self) -> Claim:
        """The allocator's form."""
        ...

    @property
    def raw(self) -> Mapping[str, Any]:
        """The object as it came."""
        ...

    @property
    def metadata(self) -> Metadata:
        """Who it is."""
        ...

    @property
    def reserved_for(self) -> tuple[Consumer, ...]:
        """Its consumers."""
        ...

    @property
    def error(self) -> str:
        """Why nothing but its devices is known; empty for a claim that can be read."""
        ...


class AlreadyReserved(ValueError):
    """Two attempts at one claim: the second must not begin before the first has ended."""


@dataclass(slots=True)
class Reservation:
    """What an attempt takes. claim: with its allocation. written: the version of the write, None before it."""

    pod_uid: str
    node: str
    claim: Claim
    written: int | None = None


@dataclass(slots=True, eq=False)
class Holding:
    """A claim by its uid."""

    watched: ClaimObject | None = None
    """The claim as the watch showed it last; None before, and once it is gone."""
    version: int = 0
    """The version that was shown last."""
    allocated_at: int = 0
    """The version with which its present allocation was first shown."""
    is_gone: bool = False
    reservation: Reservation | None = None
    """Our own, until the watch shows what came of it."""
    counted: Claim | None = None
    """The claim with what is in use for it."""

    @property
    def allocated(self) -> Claim | None:
        """The claim as the watch shows it, if it is allocated."""
        return self.watched.claim if self.watched and self.watched.claim.allocation else None

    @property
    def stored(self) -> Claim | None:
        """The claim with what is stored of its devices, whether the watch has shown it or not."""
        is_written = self.reservation is not None and self.reservation.written is not None
        return self.counted if is_written else self.allocated


@dataclass(frozen=True, slots=True)
class _WithFewerUsers:
    """A claim as the watch shows it, but for users that are taken away; without devices where none is left.

    Source: what kube-controller-manager makes of a claim when its pods have gone.
    """

    watched: ClaimObject
    claim: Claim
    reserved_for: tuple[Consumer, ...]

    @property
    def raw(self) -> Mapping[str, Any]:
        """The object as it came: with all users."""
        return self.watched.raw

    @property
    def metadata(self) -> Metadata:
        """Who it is."""
        return self.watched.metadata

    @property
    def error(self) -> str:
        """Why nothing but its devices is known."""
        return self.watched.error


_NONE: Mapping[str, Holding] = MappingProxyType({})


class ClaimIndex:
    """The claims by name and uid, and their devices; it reports to the fleet what is in use."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._holdings: dict[str, Holding] = {}
        self._by_name: dict[NamespacedName, str] = {}
        self._by_device: dict[DeviceID, tuple[str, ...]] = {}
        self._by_pod: dict[str, list[str]] = {}
        self._extended: dict[str, dict[str, None]] = {}
        self._maybe_unused: dict[str, None] = {}

    # -- the watch

    def set(self, found: ClaimObject, version: int) -> None:
        """The watch shows the claim at that version. An older one than before changes nothing."""
        claim = found.claim
        holding = self._holdings.setdefault(claim.uid, Holding())
        if version < holding.version:
            return
        if _results(holding.allocated) != _results(claim):
            holding.allocated_at = version
        self._forget_owners(holding)
        for owner in _owners_of_extended(found):
            self._extended.setdefault(owner, {})[claim.uid] = None
        holding.watched, holding.version, holding.is_gone = found, version, False
        self._by_name[claim.namespace, claim.name] = claim.uid
        if found.reserved_for:
            self._maybe_unused[claim.uid] = None
        self._recount(claim.uid, holding)

    def remove(self, uid: str) -> None:
        """The watch shows that the claim of that uid is gone; one of its name may be there, or come."""
        holding = self._holdings.get(uid)
        if holding is None:
            return
        if holding.watched is not None:
            name = holding.watched.claim.namespace, holding.watched.claim.name
            if self._by_name.get(name) == uid:
                del self._by_name[name]
            self._forget_owners(holding)
        holding.watched, holding.is_gone = None, True
        self._maybe_unused.pop(uid, None)
        self._recount(uid, holding)

    # -- decisions

    def reserve(self, pod_uid: str, node: str, claims: Sequence[tuple[Claim, Allocation | None]]) -> None:
        """The pod's attempt at these claims begins, and takes what they get; None where they have it already.

        Raises AlreadyReserved where another attempt has one of them, or the pod has one; then nothing is taken.
        """
        if pod_uid in self._by_pod:
            raise AlreadyReserved(f"pod {pod_uid} already has an attempt in progress")
        taking = [_allocated(claim, allocation) for claim, allocation in claims if allocation is not None]
        for claim in taking:
            if other := self.reservation(claim.uid):
                raise AlreadyReserved(f"claim {claim} is being allocated for pod {other.pod_uid}, not for {pod_uid}")
        self._by_pod[pod_uid] = [claim.uid for claim in taking]
        for claim in taking:
            holding = self._holdings.setdefault(claim.uid, Holding())
            holding.reservation = Reservation(pod_uid, node, claim)
            self._recount(claim.uid, holding)

    def made(self, made_up: str, uid: str) -> None:
        """The claim that was reserved under a made-up uid is there, and has this one."""
        before = self._holdings.get(made_up)
        if before is None or before.reservation is None:
            return
        reservation, before.reservation = before.reservation, None
        self._recount(made_up, before)
        of_pod = self._by_pod[reservation.pod_uid]
        of_pod[of_pod.index(made_up)] = uid
        reservation.claim = replace(reservation.claim, uid=uid)
        holding = self._holdings.setdefault(uid, Holding())
        holding.reservation = reservation
        self._recount(uid, holding)

    def written(self, uid: str, version: int) -> None:
        """The reservation of that claim is stored since that version."""
        holding = self._holdings.get(uid)
        if holding is not None and holding.reservation is not None:
            holding.reservation.written = version
            self._recount(uid, holding)

    def unreserve(self, pod_uid: str) -> None:
        """The pod's attempt is over: nothing of it is in flight, and what stays is what the watch shows.

        For one that came to nothing. What a successful one has written stays until the watch shows it: see `release`.
        """
        for uid, holding in self._reserved_by(pod_uid):
            holding.reservation = None
            self._recount(uid, holding)

    def release(self, pod_uid: str) -> None:
        """The pod's attempt has ended well: its writes stay counted until the watch shows them."""
        for uid, holding in self._reserved_by(pod_uid):
            if holding.reservation is not None and holding.reservation.written is None:
                holding.reservation = None
                self._recount(uid, holding)

    # -- assumptions

    @contextmanager
    def without(
        self,
        pods: Sequence[Pod],
        is_live: Callable[[str], bool],
        on_nodes: NodePods,
        frees: Callable[[str], bool],
        look: Callable[[], None],
    ) -> Iterator[None]:
        """As if these pods did not use their claims, until the end of the context.

        A claim that none uses then has no devices, if it `frees` them. is_live: whether there is such a pod, by uid,
        and it does not end. on_nodes: where they are, those in flight among them. Neither has one of these pods.
        look: at the time; may raise, when nothing has changed.
        Cost: O(claims of the pods, and what is in use in the pools of those that come free).
        """
        used: dict[str, list[Pod]] = {}
        for pod in pods:
            look()
            for uid in self._used_by(pod):
                used.setdefault(uid, []).append(pod)
        instead: dict[str, Holding] = {}
        for uid, users in used.items():
            look()
            holding = self._holdings[uid]
            is_used = self._left(holding, users, is_live)
            is_free = not is_used and frees(uid) and not self.users_in_flight(uid, on_nodes)
            instead[uid] = _reduced(holding, users, is_free=is_free)
        with self._replaced(instead):
            yield

    @contextmanager
    def released(self, uids: Iterable[str]) -> Iterator[None]:
        """As if these claims had no devices, and nobody used them. Cost: as of `without`."""
        with self._replaced({uid: _reduced(self._holdings[uid], (), is_free=True) for uid in uids}):
            yield

    def may_be_unused(self, pod: Pod) -> None:
        """The pod ends, or is gone: its claims may have no user left."""
        self._maybe_unused.update(self.of_pod(pod))

    def used(self, uids: Iterable[str], is_live: Callable[[str], bool]) -> None:
        """Of these claims, those that a live pod uses need no look until they change, or the pod ends."""
        for uid in uids:
            if uid in self._maybe_unused and self._unused_claim(uid, is_live) is None:
                del self._maybe_unused[uid]

    def used_by(self, pod: Pod, is_live: Callable[[str], bool]) -> None:
        """The same of the claims of a pod that is live."""
        self.used(self.of_pod(pod), is_live)

    def unused(self, is_live: Callable[[str], bool]) -> Sequence[tuple[str, Claim]]:
        """The allocated claims, with their uids, that are reserved for pods of which none is live.

        kube-controller-manager is about to deallocate them; one that is reserved for nobody it leaves alone.
        Cost: O(claims that were without a live user when they changed, or lost a user, since this was asked last).
        """
        asked = ((uid, self._unused_claim(uid, is_live)) for uid in self._maybe_unused)
        unused = {uid: claim for uid, claim in asked if claim is not None}
        self._maybe_unused = dict.fromkeys(unused)
        return [(uid, claim) for uid, claim in unused.items() if self.reservation(uid) is None]

    def _unused_claim(self, uid: str, is_live: Callable[[str], bool]) -> Claim | None:
        """The claim, if it has devices, and is reserved for pods of which none is live."""
        holding = self._holdings.get(uid)
        if holding is None or holding.watched is None or not (users := holding.watched.reserved_for):
            return None
        is_used = any(not one.is_of_pods or not one.uid or is_live(one.uid) for one in users)
        return None if is_used else holding.allocated

    def _used_by(self, pod: Pod) -> Iterator[str]:
        """The claims, by uid, that are reserved for the pod, as the watch shows them or by its attempt."""
        # What the attempt has written, and the watch has shown, is among the claims that name the pod.
        taken = [uid for uid in self._by_pod.get(pod.uid, ()) if self.reservation(uid)]
        yield from taken
        for uid in self.of_pod(pod):
            watched = self._holdings[uid].watched if uid not in taken else None
            # Of a claim that has lost users, one in flight may be the last one, who is in no entry yet.
            if watched and (_entries_of(pod, watched) or isinstance(watched, _WithFewerUsers)):
                yield uid

    @staticmethod
    def _left(holding: Holding, gone: Sequence[Pod], is_live: Callable[[str], bool]) -> bool:
        """Whether somebody else uses the claim: a live pod, an attempt of ours, or what is no pod."""
        reservation, watched = holding.reservation, holding.watched
        if reservation is not None and all(pod.uid != reservation.pod_uid for pod in gone):
            return True
        if watched is None:
            return False
        others = set(watched.reserved_for).difference(*(_entries_of(pod, watched) for pod in gone))
        return any(not one.is_of_pods or not one.uid or is_live(one.uid) for one in others)

    @contextmanager
    def _replaced(self, instead: Mapping[str, Holding]) -> Iterator[None]:
        """These holdings by uid in place of what is there; with nothing in use where theirs count nothing."""
        before = {uid: self._holdings[uid] for uid in instead}
        freed = {uid: one.counted for uid, one in before.items() if one.counted and not instead[uid].counted}
        devices = {uid: {result.id for result in occupying(claim)} for uid, claim in freed.items()}
        holders = {device: self._by_device[device] for own in devices.values() for device in own}
        if freed:
            self._fleet.remove_allocated(freed.values())
        for uid, own in devices.items():
            self._discount(uid, own)
        self._holdings.update(instead)
        try:
            yield
        finally:
            self._holdings.update(before)
            self._by_device.update(holders)
            if freed:
                self._fleet.add_allocated(freed.values())

    # -- questions

    def get(self, namespace: str, name: str) -> ClaimObject | None:
        """The claim of that name, as the watch shows it."""
        uid = self._by_name.get((namespace, name))
        return self._holdings[uid].watched if uid is not None else None

    def of_pod(self, pod: Pod) -> dict[str, None]:
        """The claims that are there, by uid: those that the pod names, and what was made for its extended resources."""
        named = {uid: None for key in claim_keys(pod) if (uid := self._by_name.get(key)) is not None}
        return {**named, **self._extended.get(pod.uid, {})}

    def users_in_flight(self, uid: str, on_nodes: NodePods) -> frozenset[str]:
        """The pods (uids) in flight that go on to use what the claim has; it may not name them yet. See `of_pod`."""
        holding = self._holdings.get(uid)
        if holding is None or holding.watched is None:
            return frozenset()
        key = holding.watched.claim.namespace, holding.watched.claim.name
        naming = on_nodes.in_flight_with(key) if self._by_name.get(key) == uid else ()
        made_for = (owner for owner in _owners_of_extended(holding.watched) if on_nodes.assumed_pod(owner))
        return frozenset((*naming, *made_for))

    def held_by(self, pods: Iterable[Pod]) -> list[str]:
        """Those of the pods' claims, by uid, that have devices, as the watch shows them."""
        uids = dict.fromkeys(uid for pod in pods for uid in self.of_pod(pod))
        return [uid for uid in uids if self._holdings[uid].allocated is not None]

    def of_extended_resources(self, pod_uid: str) -> ClaimObject | None:
        """A claim that was made for the pod's extended resources, as the watch shows it."""
        uid = next(iter(self._extended.get(pod_uid, ())), None)
        return self._holdings[uid].watched if uid is not None else None

    def reservation(self, uid: str) -> Reservation | None:
        """The attempt that has taken devices for the claim, and which the watch has not shown yet."""
        holding = self._holdings.get(uid)
        return holding.reservation if holding is not None else None

    def holding(self, uid: str) -> Holding | None:
        """All that is known of the claim."""
        return self._holdings.get(uid)

    def holders(self, device: DeviceID) -> Mapping[str, Holding]:
        """The claims that have the device, or a share of it, by uid."""
        return {uid: self._holdings[uid] for uid in self._by_device.get(device, ())}

    def other_holders(self, device: DeviceID, uid: str) -> Mapping[str, Holding]:
        """The same, without the claim of that uid."""
        uids = self._by_device.get(device, ())
        if uids == (uid,):
            return _NONE  # as almost always
        return {other: self._holdings[other] for other in uids if other != uid}

    def _forget_owners(self, holding: Holding) -> None:
        """Whoever owned the claim as it was watched."""
        for owner in _owners_of_extended(holding.watched) if holding.watched is not None else ():
            assert holding.watched is not None
            claims = self._extended[owner]
            del claims[holding.watched.claim.uid]
            if not claims:
                del self._extended[owner]

    def _reserved_by(self, pod_uid: str) -> list[tuple[str, Holding]]:
        """The claims that the pod's attempt still has reserved; the attempt is over."""
        holdings = [(uid, self._holdings.get(uid)) for uid in self._by_pod.pop(pod_uid, ())]
        return [(uid, one) for uid, one in holdings if one and one.reservation and one.reservation.pod_uid == pod_uid]

    def _recount(self, uid: str, holding: Holding) -> None:
        """Bring what counts into line with what is known."""
        reservation = holding.reservation
        is_stored = reservation is not None and reservation.written is not None
        if reservation is not None and is_stored and (holding.is_gone or holding.version >= (reservation.written or 0)):
            holding.reservation = None
        now, before = _effective(holding), holding.counted
        if now is not before and _results(now) != _results(before):
            self._count(uid, holding, before, now)
        if holding.watched is None and holding.reservation is None:
            del self._holdings[uid]

    def _count(self, uid: str, holding: Holding, before: Claim | None, now: Claim | None) -> None:
        if before is not None:
            self._fleet.remove_allocated((before,))
            self._discount(uid, {result.id for result in occupying(before)})
        if now is not None:
            self._fleet.add_allocated((now,))
            for device in {result.id: None for result in occupying(now)}:
                self._by_device[device] = (*self._by_device.get(device, ()), uid)
        holding.counted = now

    def _discount(self, uid: str, devices: Iterable[DeviceID]) -> None:
        """The claim does not have these devices any more."""
        for device in devices:
            others = tuple([other for other in self._by_device[device] if other != uid])
            if others:
                self._by_device[device] = others
            else:
                del self._by_device[device]


def _entries_of(pod: Pod, found: ClaimObject) -> list[Consumer]:
    """The entries of status.reservedFor that are the pod."""
    return [one for one in found.reserved_for if one.is_pod(pod.name, pod.uid)]


def _reduced(holding: Holding, gone: Iterable[Pod], *, is_free: bool) -> Holding:
    """The claim without these users, and without its devices if it is free."""
    watched = holding.watched
    if watched is not None:
        entries = {entry for pod in gone for entry in _entries_of(pod, watched)}
        users = () if is_free else tuple(one for one in watched.reserved_for if one not in entries)
        watched = _WithFewerUsers(watched, replace(watched.claim, allocation=None) if is_free else watched.claim, users)
    instead = replace(holding, watched=watched)
    if is_free:
        instead.reservation = instead.counted = None
    return instead


def _owners_of_extended(found: ClaimObject) -> set[str]:
    """The uids of the pods for whose extended resources the claim was made."""
    if not is_of_extended_resources(found.metadata.annotations):
        return set()
    return {owner.uid for owner in found.metadata.owners if owner.is_controller}


def _effective(holding: Holding) -> Claim | None:
    """The claim with all devices that count for it: of the watch and of the reservation, each once."""
    watched, reservation = holding.allocated, holding.reservation
    if reservation is None or watched is None:
        return reservation.claim if reservation else watched
    return with_devices_of(watched, reservation.claim)


def _allocated(claim: Claim, allocation: Allocation) -> Claim:
    return claim if claim.allocation is allocation else replace(claim, allocation=allocation)


def with_devices_of(claim: Claim, other: Claim | None) -> Claim:
    """The claim with its own and the other claim's devices, each once."""
    held = {_identity(result) for result in _results(claim)}
    more = [result for result in _results(other) if _identity(result) not in held]
    both = (*_results(claim), *more)
    return replace(claim, allocation=replace(claim.allocation or Allocation(), results=both)) if more else claim


def _results(claim: Claim | None) -> tuple[DeviceResult, ...]:
    return claim.allocation.results if claim and claim.allocation else ()


def _identity(result: DeviceResult) -> tuple[DeviceID, str, bool]:
    return result.id, result.share_id, result.admin_access


# The claims of a pod, resolved as kube-scheduler resolves them, with its own words if one is missing.
#
# A claim is named directly, or by the pod's status if it is created from a template. A claim that was created for a pod
# has to be owned by it; one that is being deleted is waited for. Claims of a PodGroup are rejected by name. Source:
# KEP-4381; k8s.io/dynamic-resource-allocation resourceclaim; plugin DynamicResources, PreEnqueue.


GROUPS_UNSUPPORTED = "PodGroup claims unsupported"
"""Why a pod is refused that is in a PodGroup and has claims, or has claims of one."""

GANGS_UNSUPPORTED = "pods of a PodGroup (spec.schedulingGroup) are not supported"
"""Why a pod without claims is refused that is in one."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a pod waits. is_unsupported: it waits forever, whatever happens to its claims.

    is_behind: the pod says that its claim was made, and the watch of claims has not shown it, or shown it gone. kept: a
    claim that is being deleted and stays only because it is allocated for this pod, which is not bound: each would wait
    for the other without end.
    """

    reason: str
    is_unsupported: bool = False
    is_behind: bool = False
    kept: ClaimObject | None = None


def awaited_claims(pod: Pod) -> Iterator[NamespacedName]:
    """The same, and the one that is in the way of another one for the pod's extended resources, if any is."""
    yield from claim_keys(pod)
    if may_ask(pod):
        yield pod.namespace, claim_name(pod)


def claims_of(pod: Pod, index: ClaimIndex) -> tuple[ClaimObject, ...] | Waiting:
    """The claims of a pod in the order of its entries; an entry that needs none is left out, as is a repetition."""
    if waiting := in_excess(pod):
        return waiting
    claims: dict[str, ClaimObject] = {}
    for entry in pod.claims:
        resolved = _resolved(pod, entry, index)
        if isinstance(resolved, Waiting):
            return resolved
        if resolved is not None:
            claims.setdefault(resolved.claim.uid, resolved)
    return tuple(claims.values())


def in_excess(pod: Pod) -> Waiting | None:
    """Why a pod is refused that says more than is looked at; one that has a node, only for its claims."""
    # Differs from kube-scheduler, which takes any number.
    is_refused = pod.excess and (not pod.node_name or len(pod.claims) > MOST_ENTRIES)
    return Waiting(f'pod "{pod}": {pod.excess}', is_unsupported=True) if is_refused else None


def in_flight(pod: Pod, claims: Iterable[ClaimObject], index: ClaimIndex) -> str:
    """Why the pod has to wait for the attempt of another one at a claim of both; empty where there is none."""
    for resolved in claims:
        claim = resolved.claim
        reservation = index.reservation(claim.uid)
        if reservation is not None and reservation.pod_uid != pod.uid and claim.allocation is None:
            return f"resource claim {claim} is in the process of being allocated"
    return ""


def full(pod: Pod, claims: Iterable[ClaimObject], joining: Counter[str] | None = None) -> list[Claim]:
    """The claims that are reserved for as many pods as can be, of which this pod is none.

    joining: by uid for how many more pods they are about to be reserved; it gets this one where there is room.
    """
    joining = Counter() if joining is None else joining
    joined = [one for one in claims if all(consumer.uid != pod.uid for consumer in one.reserved_for)]
    used_up = [one.claim for one in joined if len(one.reserved_for) + joining[one.claim.uid] >= RESERVED_FOR_MAX]
    if not used_up:
        joining.update(one.claim.uid for one in joined)
    return used_up


def is_controlled_by(metadata: Metadata, pod_uid: str) -> bool:
    """True where the object was made for the pod."""
    return any(owner.is_controller and owner.uid == pod_uid for owner in metadata.owners)


def _resolved(pod: Pod, entry: PodClaim, index: ClaimIndex) -> ClaimObject | Waiting | None:
    name = entry.claim_name or pod.claim_statuses.get(entry.name, "")
    if name is None:
        return None
    if not name:
        return Waiting(f'pod "{pod}": ResourceClaim not created yet')
    claim_object = index.get(pod.namespace, name)
    if claim_object is None:
        return Waiting(f'could not find ResourceClaim "{pod.namespace}/{name}"', is_behind=not entry.claim_name)
    return _objection(pod, entry, claim_object) or claim_object


def _objection(pod: Pod, entry: PodClaim, found: ClaimObject) -> Waiting | None:
    """Why a claim that is there is not the pod's to use."""
    if found.error:
        return Waiting(f"ResourceClaim {found.claim} cannot be read: {found.error}")
    if any(owner.is_controller and owner.kind == "PodGroup" for owner in found.metadata.owners):
        return Waiting(GROUPS_UNSUPPORTED, is_unsupported=True)
    if not entry.claim_name and not is_controlled_by(found.metadata, pod.uid):
        return Waiting(f"ResourceClaim {found.claim} was not created for Pod {pod} (Pod is not owner)")
    if found.metadata.deletion_timestamp:
        # Differs from kube-scheduler, which leaves a claim that the pod itself keeps: each then waits for the other.
        reason = f'resourceclaim "{found.claim.name}" is being deleted'
        return Waiting(reason, kept=found if _is_kept_by(pod, found) else None)
    return None


def _is_kept_by(pod: Pod, found: ClaimObject) -> bool:
    """True where nobody but the pod has the claim, and the pod has no node yet to use it on."""
    users = {consumer.uid for consumer in found.reserved_for}
    return found.claim.allocation is not None and users == {pod.uid} and not pod.node_name
