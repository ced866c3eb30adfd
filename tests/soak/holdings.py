"""What bound pods hold of the devices, added up claim by claim, and where that is more than there is."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction

from tests.soak.facts import ClaimName, Share
from tests.soak.inventory import DeviceId, PublishedDevices

Held = tuple[DeviceId, str]
Count = tuple[str, str, str, str]


class Holdings:
    """Of the claims that bound pods use."""

    def __init__(self, inventory: PublishedDevices) -> None:
        self._inventory = inventory
        self._claims: dict[ClaimName, tuple[Share, ...]] = {}
        self._holders: defaultdict[DeviceId, list[ClaimName]] = defaultdict(list)
        self._capacity: Counter[Held] = Counter()
        self._counters: Counter[Count] = Counter()

    def change(self, key: ClaimName, shares: Iterable[Share]) -> Iterator[str]:
        """The claim holds these from now on; what is too much then."""
        now, before = tuple(shares), self._claims.pop(key, ())
        if now:
            self._claims[key] = now
        if now != before:
            self._take(key, before, -1)
            yield from self._take(key, now, 1)

    def _take(self, key: ClaimName, shares: Iterable[Share], sign: int) -> list[str]:
        """What is wrong after the claim has taken them, or (-1) given them back."""
        found: list[str] = []
        for share in shares:
            device = self._inventory.devices.get(share.device)
            if device is None:
                found.append(f"claim {key} holds device {share.device}, which is in no slice")
                continue
            self._hold(key, share.device, sign)
            self._capacity.update({(share.device, name): Fraction(sign * value) for name, value in share.consumed})
            pool = (share.device.driver, share.device.pool)
            self._counters.update({(*pool, *use): Fraction(sign * value) for use, value in device.uses.items()})
            found += self._too_much(share)
        return found if sign > 0 else []

    def _hold(self, key: ClaimName, device: DeviceId, sign: int) -> None:
        if sign > 0:
            self._holders[device].append(key)
        else:
            self._holders[device].remove(key)

    def _too_much(self, share: Share) -> Iterator[str]:
        """Where what is held of the device is more than there is."""
        device, holders = self._inventory.devices[share.device], self._holders[share.device]
        by = " and ".join(map(str, holders))
        if not device.is_shared and len(holders) > 1:
            yield f"device {share.device} is held by bound pods of claims {by}"
        for name, _ in share.consumed:
            held, there = self._capacity[share.device, name], device.capacity.get(name, 0)
            if held > there:
                yield f"of device {share.device} {held} of {there} {name} is held by bound pods of claims {by}"
        for use in device.uses:
            count = (share.device.driver, share.device.pool, *use)
            held, there = self._counters[count], self._inventory.counters.get(count, 0)
            if held > there:
                yield f"of counter {'/'.join(count)} {held} of {there} is held by bound pods, last {share.device}"
