"""Which claims hold which devices: what the watch has shown, together with reservations since then.

A decision *reserves* devices at once, so that the next one does not see them as free. The write returns a version. Once
the watch has shown the claim at that version or a later one, only the watch counts. Until then both count, each device
once, so that an event older than the write never frees what was written. If an attempt fails, its end releases the
devices.
Source: scheduling as kube-scheduler's plugin DynamicResources does it (assume cache, in-flight claims).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

from allocator.api.allocation import Consumer
from allocator.api.metadata import Metadata
from allocator.cluster.usage import occupying
from allocator.fleet.fleet import Fleet
from allocator.model import Allocation, Claim, DeviceID, DeviceResult
from allocator.pods.extended_resources import CLAIM_ANNOTATION

Name = tuple[str, str]
"""Namespace and name."""

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
    """A claim by its uid. watched: None before it was shown, and once it is gone. version: of what was shown last.

    allocated_at: the version with which its present allocation was first shown. counted: what is in use for it.
    """

    watched: ClaimObject | None = None
    version: int = 0
    allocated_at: int = 0
    is_gone: bool = False
    reservation: Reservation | None = None
    counted: Claim | None = None

    @property
    def allocated(self) -> Claim | None:
        """The claim as the watch shows it, if it is allocated."""
        return self.watched.claim if self.watched and self.watched.claim.allocation else None

    @property
    def stored(self) -> Claim | None:
        """The claim with what is stored of its devices, whether the watch has shown it or not."""
        is_written = self.reservation is not None and self.reservation.written is not None
        return self.counted if is_written else self.allocated


_NONE: Mapping[str, Holding] = MappingProxyType({})


class ClaimIndex:
    """The claims by name and uid, and their devices; it reports to the fleet what is in use."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._holdings: dict[str, Holding] = {}
        self._by_name: dict[Name, str] = {}
        self._by_device: dict[DeviceID, tuple[str, ...]] = {}
        self._by_pod: dict[str, list[str]] = {}
        self._extended: dict[str, dict[str, None]] = {}

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

    # -- questions

    def get(self, namespace: str, name: str) -> ClaimObject | None:
        """The claim of that name, as the watch shows it."""
        uid = self._by_name.get((namespace, name))
        return self._holdings[uid].watched if uid is not None else None

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
        known = [(uid, self._holdings.get(uid)) for uid in self._by_pod.pop(pod_uid, ())]
        return [(uid, one) for uid, one in known if one and one.reservation and one.reservation.pod_uid == pod_uid]

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
            for device in {result.id for result in occupying(before)}:
                others = tuple([other for other in self._by_device[device] if other != uid])
                if others:
                    self._by_device[device] = others
                else:
                    del self._by_device[device]
        if now is not None:
            self._fleet.add_allocated((now,))
            for device in {result.id: None for result in occupying(now)}:
                self._by_device[device] = (*self._by_device.get(device, ()), uid)
        holding.counted = now


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
    """The claim with its devices and those of the other, each once."""
    known = {_identity(result) for result in _results(claim)}
    more = [result for result in _results(other) if _identity(result) not in known]
    both = (*_results(claim), *more)
    return replace(claim, allocation=replace(claim.allocation or Allocation(), results=both)) if more else claim


def _results(claim: Claim | None) -> tuple[DeviceResult, ...]:
    return claim.allocation.results if claim and claim.allocation else ()


def _identity(result: DeviceResult) -> tuple[DeviceID, str, bool]:
    return result.id, result.share_id, result.admin_access
