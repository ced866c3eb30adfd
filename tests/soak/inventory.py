"""What devices there are, read from the slices by nobody's code but this: where each is, and what it can give.

The fleet of a soak does not change, and every slice is on one node or reaches all: anything else is an error here.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tests.controlplane.rest import Json

_SUFFIXES = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}


def quantity(text: str) -> Fraction:
    """The number that a quantity spells. Raises ValueError."""
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text))
    if not found or found[2] not in _SUFFIXES:
        raise ValueError(f"quantity {text!r} is of no form that is known here")
    return Fraction(found[1]) * _SUFFIXES[found[2]]


@dataclass(frozen=True, slots=True)
class DeviceId:
    """A device's name in full."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """node: the only one that it is for; empty where it reaches all. uses: of counters, by set and counter."""

    node: str
    is_shared: bool
    capacity: Mapping[str, Fraction]
    uses: Mapping[tuple[str, str], Fraction]


@dataclass(frozen=True, slots=True)
class PublishedDevices:
    """devices: all there are. counters: what a pool has of each, by driver, pool, set and counter."""

    devices: Mapping[DeviceId, PublishedDevice] = field(default_factory=dict)
    counters: Mapping[tuple[str, str, str, str], Fraction] = field(default_factory=dict)


def inventory_of(slices: Iterable[Json]) -> PublishedDevices:
    """What the slices say. Raises ValueError for one whose reach is not known here."""
    devices: dict[DeviceId, PublishedDevice] = {}
    counters: dict[tuple[str, str, str, str], Fraction] = {}
    for spec in (one["spec"] for one in slices):
        driver, pool = spec["driver"], spec["pool"]["name"]
        node = _reach(spec)
        for raw in spec.get("devices") or ():
            devices[DeviceId(driver, pool, raw["name"])] = _device(raw, node)
        for one in spec.get("sharedCounters") or ():
            for name, counter in one["counters"].items():
                counters[driver, pool, one["name"], name] = quantity(counter["value"])
    return PublishedDevices(devices, counters)


def _reach(spec: Json) -> str:
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    if spec.get("allNodes"):
        return ""
    raise ValueError(f"slice of pool {spec['pool']['name']}: it names no node and does not reach all")


def _device(raw: Json, node: str) -> PublishedDevice:
    capacity = {name: quantity(one["value"]) for name, one in (raw.get("capacity") or {}).items()}
    uses = {
        (of_set["counterSet"], name): quantity(counter["value"])
        for of_set in raw.get("consumesCounters") or ()
        for name, counter in of_set["counters"].items()
    }
    return PublishedDevice(node, bool(raw.get("allowMultipleAllocations")), capacity, uses)
