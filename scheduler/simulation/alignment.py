"""How many claims with several devices have them at one place of the topology: a NUMA node, a PCIe root, a parent.

A place is an attribute whose name, without its domain, is one of `PLACES`. A claim counts for an attribute if all of
its devices have it, and is aligned if all have the same value. Admin access takes no device, and does not count.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from allocator.exact import exact
from allocator.model import Claim, Device, DeviceID, PoolID, Slice
from scheduler.simulation.result import AlignmentSummary

PLACES = frozenset({"numanode", "numa", "pcieroot", "pcie", "parent", "parentuuid"})
"""Names of attributes, in small letters."""


class Alignments:
    """Counts the claims that get devices. slices: by name, as they are at any time."""

    def __init__(self, slices: Mapping[str, Slice]) -> None:
        self._slices = slices
        self._of_pool: dict[PoolID, list[Slice]] | None = None
        self._claims: Counter[str] = Counter()
        self._aligned: Counter[str] = Counter()

    def hardware_changed(self) -> None:
        """Slices were added, removed or changed."""
        self._of_pool = None

    def count(self, claims: Iterable[Claim]) -> None:
        """The claims have got their devices. Cost: O(devices of their pools)."""
        for claim in claims:
            results = claim.allocation.results if claim.allocation else ()
            devices = [one.id for one in results if not one.admin_access] if len(results) > 1 else []
            if len(devices) > 1:
                self._count([self._device(one) for one in devices])

    def _count(self, devices: Sequence[Device | None]) -> None:
        places = [_places(one) if one else {} for one in devices]
        for name in places[0].keys() & set[str].intersection(*(set(one) for one in places)):
            self._claims[name] += 1
            self._aligned[name] += len({one[name] for one in places}) == 1

    def _device(self, wanted: DeviceID) -> Device | None:
        """As its newest slice has it; None where none does."""
        found = [
            (slice_.generation, device)
            for slice_ in self._pools().get(PoolID(wanted.driver, wanted.pool), ())
            for device in slice_.devices
            if device.name == wanted.device
        ]
        return max(found, key=lambda one: one[0])[1] if found else None

    def _pools(self) -> Mapping[PoolID, Sequence[Slice]]:
        if self._of_pool is None:
            self._of_pool = {}
            for one in self._slices.values():
                self._of_pool.setdefault(PoolID(one.driver, one.pool), []).append(one)
        return self._of_pool

    def summary(self) -> Mapping[str, AlignmentSummary]:
        """The counts by attribute."""
        return {
            name: AlignmentSummary(claims, self._aligned[name], round(100 * self._aligned[name] / claims, 2))
            for name, claims in sorted(self._claims.items())
        }


def _places(device: Device) -> dict[str, object]:
    """The values of the attributes by qualified name."""
    return {
        name if "/" in name else f"{device.driver}/{name}": exact(value)
        for name, value in device.attributes.items()
        if _is_place(name)
    }


@lru_cache(maxsize=1 << 12)
def _is_place(name: str) -> bool:
    return name.rpartition("/")[2].casefold() in PLACES
