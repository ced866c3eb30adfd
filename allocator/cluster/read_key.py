"""What selectors and constraints read of a device: devices that agree in it get the same answers.

An attribute that cannot be read fails every expression, so it always counts. Agreement is stricter than equality:
expressions see how an amount is written.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from allocator.exact import exact
from allocator.model import Device, Slice
from cel import Reads

ANY_ATTRIBUTE: Final = "*"
"""In place of a qualified name: all attributes may be read."""

_READ_ALWAYS: Final = frozenset({"allow_multiple_allocations", "unusual"})


@dataclass(frozen=True, slots=True)
class ReadKey:
    """What is read of a device.

    names: attributes, as (domain, name, domain/name). has_all: any attribute may be read. has_capacity: capacities are.
    """

    names: tuple[tuple[str, str, str], ...]
    has_all: bool
    has_capacity: bool

    @staticmethod
    def of_programs(programs: Iterable[Reads], attributes: Iterable[str] = ()) -> "ReadKey":
        """What these programs read, and the attributes of these qualified names, or `ANY_ATTRIBUTE`."""
        paths = {path for reads in programs for path in reads.paths}
        read = {(path[1], path[2]) for path in paths if len(path) == 3 and path[0] == "attributes"}
        named = set(attributes)
        for attribute in named - {ANY_ATTRIBUTE}:
            domain, _, name = attribute.rpartition("/")
            read.add((domain, name))
        names = [(domain, name, f"{domain}/{name}") for domain, name in sorted(read)]
        of_all = any(not path or (len(path) < 3 and path[0] == "attributes") for path in paths)
        has_all = of_all or ANY_ATTRIBUTE in named
        return ReadKey(tuple(names), has_all, any(not path or path[0] == "capacity" for path in paths))

    @property
    def of_attributes(self) -> bool:
        """True if attributes are read."""
        return self.has_all or bool(self.names)

    def distinguishes(self, slice_: Slice) -> bool:
        """False if all devices of the slice agree in what is read."""
        return bool(self.names or self.has_all or self.has_capacity or slice_.traits & _READ_ALWAYS)

    def of(self, device: Device) -> Hashable:
        """Equal for devices of one driver that agree in what is read."""
        attributes, driver = device.attributes, device.driver
        if self.has_all:
            read: Hashable = tuple(sorted(attributes.items()))
        else:
            read = tuple(
                [
                    (attributes.get(qualified), attributes.get(name) if domain == driver else None)
                    for domain, name, qualified in self.names
                ]
            )
        if device.unusual:
            read = exact(read)
        capacity = exact(device.capacity) if self.has_capacity else None
        return read, device.unusual, capacity, device.allow_multiple_allocations
