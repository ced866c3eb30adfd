"""A limit of tenants: for which namespaces, what is counted, and the most; and what a device counts for.

ResourceQuota counts a claim by what it asks for. Here an allocation counts by what it has: each device or share once, a
capacity by what the share consumes of it (all of it where the device is not shared), counters by what the device
consumes. Admin access counts for nothing. A claim that pods share counts once, for its own namespace.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal

from allocator.cluster.node_affinity import all_hold
from allocator.model import Device, DeviceClass, Requirement, own_name
from cel.values.quantity import Format, Quantity

CountedUnit = Literal["devices", "capacity", "counters"]
"""What is added up."""

ONE_DEVICE: Final = 10**9
"""All amounts are in 10**-9, also numbers of devices."""

Account = tuple[int, str]
"""What is counted together: the number of a limit, and the namespace that has it by itself; "" for all of its own."""

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
"""The label with its name that each namespace has."""


@dataclass(frozen=True, slots=True)
class CountedDevices:
    """What a limit adds up, and of which devices: those for which all of this holds."""

    unit: CountedUnit = "devices"
    name: str = ""
    """Of the capacity or the counter."""
    driver: str = ""
    """Empty for any, as the class."""
    class_name: str = ""
    selectors: tuple[str, ...] = ()
    """Expressions that all have to be true for the device."""

    def expressions(self, classes: Mapping[str, DeviceClass]) -> tuple[str, ...] | None:
        """What selects the devices; None where the class does not exist, or cannot be read, so that none counts."""
        if not self.class_name:
            return self.selectors
        device_class = classes.get(self.class_name)
        if device_class is None or None in device_class.selectors or device_class.unknown_fields:
            return None
        return (*[one for one in device_class.selectors if one is not None], *self.selectors)

    def of_whole(self, device: Device) -> int:
        """What the device counts for where all of it is allocated, if it is one of those that count."""
        if self.unit == "devices":
            return ONE_DEVICE
        if self.unit == "capacity":
            return self.of_capacity(device.capacity, device.driver)
        amounts = [one.counters.get(self.name) for one in device.consumes_counters]
        return sum([max(0, amount.nanos) for amount in amounts if amount is not None])

    def of_capacity(self, amounts: Mapping[str, Quantity], driver: str) -> int:
        """The amount of the capacity among these of a device, however its name is written."""
        name = own_name(amounts, self.name, driver)
        return max(0, amounts[name].nanos) if name is not None else 0


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces that a limit holds for: those that are named, and those that the labels select; None for all.

    each: every one of them has the whole limit by itself; otherwise they have it together.
    """

    names: frozenset[str] | None = None
    labels: tuple[Requirement, ...] | None = None
    each: bool = False

    def has(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the limit holds for the namespace of that name, with these labels."""
        if self.names is not None and name not in self.names:
            return False
        return self.labels is None or all_hold(self.labels, {NAMESPACE_LABEL: name, **labels})


@dataclass(frozen=True, slots=True)
class TenantLimit:
    """A limit of tenants."""

    name: str
    namespaces: Namespaces = field(default_factory=Namespaces)
    counted: CountedDevices = field(default_factory=CountedDevices)
    most: int | None = None
    """In 10**-9; None where it is a share of what exists."""
    share: Fraction = Fraction(0)
    soft: bool = False
    """It counts and warns, and refuses nothing."""
    format: Format = Format.DECIMAL_SI
    """In which amounts are written."""

    def text_of(self, amount: int) -> str:
        """The amount as the limit writes its own."""
        return amount_text(amount, self.format)


def amount_text(amount: int, format_: Format) -> str:
    """An amount of 10**-9 in that format, as Kubernetes writes it."""
    whole, rest = divmod(amount, ONE_DEVICE)
    return str(Quantity(amount, -9, is_small=True, format=Format.DECIMAL_SI) if rest else Quantity.of(whole, format_))


@dataclass(frozen=True, slots=True)
class Binding:
    """A limit that certain claims could exceed as things are now."""

    limit: TenantLimit
    expressions: tuple[str, ...]
    """What selects the devices that count."""
    used: int
    """In 10**-9, as the most."""
    most: int
    account: Account

    @property
    def left(self) -> int:
        """What may still be given; nothing where more is in use than may be."""
        return max(0, self.most - self.used)

    @property
    def key(self) -> Hashable:
        """All that decides about devices: tenants of which the same is left have the same answers."""
        counted = self.limit.counted
        return counted.unit, counted.name, counted.driver, self.expressions, self.left

    def text(self, asked: int) -> str:
        """Why the claims cannot have so much more."""
        of = self.limit.text_of
        return f"limit {self.limit.name}: {of(self.used)} of {of(self.most)} in use, {of(asked)} more requested"


Bindings = Sequence[Binding]
"""The limits that an attempt has to look at, in the order of the configuration."""
