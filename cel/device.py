"""The variable `device`: the interface of a device, and the conversion of its attributes.

Up to 1.37 a device is read as a whole before an expression runs: an attribute that cannot be read fails every
expression. Later it fails where its value is taken. A name without domain gets the driver's name as its domain; an
entry in full comes first. A domain that the device does not have is an empty map.
Source: k8s.io/dynamic-resource-allocation/cel; KEP-4381, KEP-5491 (list attributes).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from cel.errors import EvalError, bare
from cel.values import types
from cel.values.quantity import Quantity
from cel.values.semver import Semver, is_version
from cel.values.values import MAX_INT, MIN_INT, MISSING, List, Map, TextMap, Value, equal, map_equals, register


class DeviceLike(Protocol):
    """A device as its driver publishes it; it must not change after the first evaluation.

    attributes: kind and value by name, with or without `domain/`. The kinds int, bool, string and version have one
    value; ints, bools, strings and versions have a tuple of values. ("", None): no value is set.
    """

    @property
    def driver(self) -> str:
        """The name of the driver."""

    @property
    def attributes(self) -> Mapping[str, tuple[str, object]]:
        """Kind and value by name."""

    @property
    def capacity(self) -> Mapping[str, Quantity]:
        """Amounts by name, with or without `domain/`."""

    @property
    def allow_multiple_allocations(self) -> bool:
        """Whether several claims may share it."""


@dataclass(frozen=True, slots=True)
class PlainDevice:
    """A device made by hand, for tests and tools."""

    driver: str
    attributes: Mapping[str, tuple[str, object]] = field(default_factory=dict)
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    allow_multiple_allocations: bool = False


class NativeMap(TextMap):
    """A map of the device. The reference makes a new one at each use, which is visible if it is a key."""

    __slots__ = ()


class DomainMap(NativeMap):
    """The maps `attributes` and `capacity`: a missing domain is an empty map."""

    __slots__ = ()

    def find(self, key: Value) -> Value:
        """The entries of a domain."""
        found = super().find(key)
        return _NO_ENTRIES if found is MISSING else found


class AttributeMap(TextMap):
    """The attributes of one domain, read on demand: a value that cannot be read is an error, which taking it raises."""

    __slots__ = ()

    def find(self, key: Value) -> Value:
        """The value of the attribute, or MISSING. Raises EvalError."""
        found = super().find(key)
        if isinstance(found, EvalError):
            raise bare(found)
        return found

    def holds(self, key: Value) -> bool:
        """Whether `key in map`: a value that cannot be read is not there."""
        return type(key) is str and not isinstance(Map.find(self, key), EvalError | type(MISSING))

    def items(self) -> Iterator[tuple[Value, Value]]:
        """The pairs of name and value. Raises EvalError at one that cannot be read."""
        for key, value in super().items():
            if isinstance(value, EvalError):
                raise bare(value)
            yield key, value


class NamedDomains(DomainMap):
    """As `DomainMap`, where nothing is found under the domain of no name."""

    __slots__ = ()

    def find(self, key: Value) -> Value:
        """The entries of a domain."""
        return super().find(key) if key else _NO_ENTRIES

    def holds(self, key: Value) -> bool:
        """Whether `key in map`."""
        return bool(key) and super().holds(key)


_NO_ENTRIES: Final = Map()


def _equals_on_demand(left: Map, right: Value) -> bool:
    """Equality of maps that are read on demand: an error of reading one of them is one of comparing them."""
    if not isinstance(right, Map) or len(left) != len(right):
        return False
    return all((other := right.find(key)) is not MISSING and equal(value, other) for key, value in left.items())


for _class, _equal in (
    *((one, map_equals) for one in (NativeMap, DomainMap)),
    *((one, _equals_on_demand) for one in (AttributeMap, NamedDomains)),
):
    register(_class, types.MAP, equal=_equal, key=lambda _: object(), size=len)  # type: ignore[arg-type]


class BoundDevice:
    """A device as an expression sees it; rarely used values are made on demand.

    has_lists: whether attributes can have several values. on_demand: one that has no value, or an invalid version, is
    an error where it is read; otherwise here. Raises EvalError of phase "device".
    """

    __slots__ = (
        *("_attributes", "_capacity", "_tables", "_value"),
        *("allow_multiple_allocations", "driver", "has_lists", "on_demand"),
    )

    def __init__(self, device: DeviceLike, *, has_lists: bool, on_demand: bool = False) -> None:
        self.has_lists = has_lists
        self.on_demand = on_demand
        self.driver = device.driver
        self.allow_multiple_allocations = device.allow_multiple_allocations
        self._attributes = device.attributes
        self._capacity = device.capacity
        self._tables: dict[str, dict[str, Map]] | None = None
        self._value: Map | None = None
        if not on_demand:
            check_attributes(self._attributes, has_lists=has_lists)

    def attribute(self, domain: str, identifier: str, name: str) -> Value:
        """The value `device.attributes[domain].identifier`, or MISSING; name: both, with a slash. Raises EvalError."""
        entry = self._attributes.get(name)
        if entry is None:
            entry = self._attributes.get(identifier) if domain == self.driver else None
            if entry is None:
                return MISSING
        if self.on_demand:
            return self._on_demand(domain, identifier, entry)
        kind, value = entry
        return value if type(value) is _UNCHANGED.get(kind) else attribute_value(name, kind, value)

    def amount(self, domain: str, identifier: str, name: str) -> Value:
        """The quantity `device.capacity[domain].identifier`, or MISSING; name: both, with a slash."""
        amount = self._capacity.get(name)
        if amount is None:
            return self._capacity.get(identifier, MISSING) if domain == self.driver and self._finds(domain) else MISSING
        return amount if self._finds(domain) else MISSING

    def entries(self, table: str, domain: str) -> Map:
        """The map `device.table[domain]`."""
        return self._by_domain()[table].get(domain, _NO_ENTRIES) if self._finds(domain) else _NO_ENTRIES

    def _finds(self, domain: str) -> bool:
        return bool(domain) or not self.on_demand

    def _on_demand(self, domain: str, identifier: str, entry: tuple[str, object]) -> Value:
        if not domain:
            return MISSING
        value = _value_or_error(identifier, *entry)
        if isinstance(value, EvalError):
            raise value
        return value

    @property
    def value(self) -> Map:
        """The device as a map, made on the first access."""
        if self._value is None:
            in_domains = NamedDomains if self.on_demand else DomainMap
            self._value = NativeMap(
                [
                    ("driver", self.driver),
                    ("allowMultipleAllocations", self.allow_multiple_allocations),
                    *((table, in_domains(list(domains.items()))) for table, domains in self._by_domain().items()),
                ]
            )
        return self._value

    def _by_domain(self) -> dict[str, dict[str, Map]]:
        """The maps of attributes and capacity by domain."""
        if self._tables is None:
            read, made = (_value_or_error, AttributeMap) if self.on_demand else (attribute_value, TextMap)
            attributes = {name: read(name, *entry) for name, entry in self._attributes.items()}
            self._tables = {
                "attributes": _maps(attributes, self.driver, made),
                "capacity": _maps(self._capacity, self.driver),
            }
        return self._tables


def check_attributes(attributes: Mapping[str, tuple[str, object]], *, has_lists: bool) -> None:
    """Raises EvalError of phase "device" if an attribute cannot be read."""
    for name, (kind, value) in attributes.items():
        if type(value) is _UNCHANGED.get(kind) or (kind == "version" and type(value) is str and is_version(value)):
            continue
        if kind != "int" or type(value) is not int or not MIN_INT <= value <= MAX_INT:
            attribute_value(name, kind, value, has_lists=has_lists)


def _maps(entries: Mapping[str, Value], driver: str, made: type[TextMap] = TextMap) -> dict[str, Map]:
    """Entries by domain, then by identifier, in the order of iteration."""
    tables = by_domain(entries, driver)
    return {
        domain: made([(name, tables[domain][name]) for name in _longer_first(tables[domain])])
        for domain in _longer_first(tables)
    }


def by_domain(entries: Mapping[str, Value], driver: str) -> dict[str, dict[str, Value]]:
    """Entries by domain, then by identifier; a name with the driver's domain wins over the same one without."""
    qualified = [name for name in entries if "/" in name]
    if not qualified:
        return {driver: dict(entries)} if entries else {}
    tables: dict[str, dict[str, Value]] = {}
    own = dict(entries)
    for name in qualified:
        domain, _, identifier = name.partition("/")
        tables.setdefault(domain, {})[identifier] = own.pop(name)
    if own:
        tables[driver] = {**own, **tables.get(driver, {})}
    return tables


def _longer_first(names: Iterable[str]) -> list[str]:
    """The order of iteration; the reference's is random."""
    return sorted(names, key=lambda name: (-len(name), name))


class _Latest:
    """The device that was bound last: if many programs evaluate it in turn, it is converted once."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        no_device = EvalError("", "device")
        self._known: tuple[DeviceLike | None, tuple[bool, bool], BoundDevice | EvalError]
        self._known = (None, (True, False), no_device)

    def bind(self, device: DeviceLike, *, has_lists: bool, on_demand: bool) -> BoundDevice:
        known, manner, bound = self._known
        if known is not device or manner != (has_lists, on_demand):
            bound = self._bound(device, has_lists=has_lists, on_demand=on_demand)
            self._known = (device, (has_lists, on_demand), bound)
        if isinstance(bound, EvalError):
            raise EvalError(bound.message, bound.phase)
        return bound

    @staticmethod
    def _bound(device: DeviceLike, *, has_lists: bool, on_demand: bool) -> BoundDevice | EvalError:
        try:
            return BoundDevice(device, has_lists=has_lists, on_demand=on_demand)
        except EvalError as error:
            return error.with_traceback(None)


_LATEST: Final = _Latest()


def bind_device(device: DeviceLike | BoundDevice, *, has_lists: bool = True, on_demand: bool = False) -> BoundDevice:
    """The device as values, kept until another device is bound; programs also accept the result.

    Raises EvalError of phase "device".
    """
    if not isinstance(device, BoundDevice):
        return _LATEST.bind(device, has_lists=has_lists, on_demand=on_demand)
    if (device.has_lists, device.on_demand) != (has_lists, on_demand):
        raise ValueError("the device was bound for another version of Kubernetes")
    return device


def attribute_value(name: str, kind: str, value: object, *, has_lists: bool = True) -> Value:
    """An attribute as a value; raises EvalError of phase "device", which names the attribute."""
    convert = _CONVERSIONS.get(kind)
    if convert is None or (kind.endswith("s") and not has_lists):
        raise EvalError(f"attribute {name}: unsupported attribute value", "device")
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        raise EvalError(f"attribute {name}: {error}", "device") from None


def _value_or_error(name: str, kind: str, value: object) -> Value:
    """An attribute as a value, or the error of reading it; a list of none has no value."""
    if type(value) is _UNCHANGED.get(kind):
        return value
    try:
        if value != ():
            return attribute_value(name, kind, value)
    except EvalError:
        pass
    problem = "value is invalid or its type is not supported by this version"
    return EvalError(f"attribute {name.rpartition('/')[2]}: {problem}")


def _int(value: object) -> int:
    if type(value) is not int or not MIN_INT <= value <= MAX_INT:
        raise TypeError(f"not an int64: {value!r}")
    return value


def _bool(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError(f"not a bool: {value!r}")
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a string: {value!r}")
    return value


def _version(value: object) -> Semver:
    try:
        return Semver.parse(_string(value))
    except ValueError as error:
        raise ValueError(f"parse semantic version: {error}") from None


def _list(convert: Callable[[object], Value]) -> Callable[[object], Value]:
    def converted(values: object) -> List:
        if not isinstance(values, tuple):
            raise TypeError(f"not a tuple: {values!r}")
        return List([convert(value) for value in values], is_native=True)

    return converted


_CONVERSIONS: Final[Mapping[str, Callable[[object], Value]]] = {
    "int": _int,
    "bool": _bool,
    "string": _string,
    "version": _version,
    "ints": _list(_int),
    "bools": _list(_bool),
    "strings": _list(_string),
    "versions": _list(_version),
}
_UNCHANGED: Final[Mapping[str, type]] = {"bool": bool, "string": str}  # values that are taken as they are
_LISTS: Final = ("ints", "bools", "strings", "versions")
_SCALARS: Final = ("int", "bool", "string", "version")


def device_from_json(data: object, *, has_lists: bool = True, on_demand: bool = False) -> PlainDevice:
    """A device in the JSON of the API, with `driver` beside `attributes` and `capacity`.

    If an attribute has values of several kinds, the first list counts; without `has_lists` (the default gates of
    Kubernetes 1.36) the first single value; with `on_demand` that, or else the first list. Raises ValueError if the
    JSON is no device.
    """
    kinds = (*_SCALARS, *_LISTS) if on_demand else (*_LISTS, *_SCALARS) if has_lists else _SCALARS
    device = _object(data, "device")
    attributes = _object(device.get("attributes"), "attributes")
    capacity = _object(device.get("capacity"), "capacity")
    return PlainDevice(
        driver=_string(device.get("driver", "")),
        attributes={name: _kind_and_value(name, value, kinds) for name, value in attributes.items()},
        capacity={name: _amount(name, value) for name, value in capacity.items()},
        allow_multiple_allocations=device.get("allowMultipleAllocations") is True,
    )


def _object(data: object, what: str) -> dict[str, object]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ValueError(f"{what}: not an object")  # noqa: TRY004 - the input is wrong, not the program
    return data


def _kind_and_value(name: str, data: object, kinds: Iterable[str]) -> tuple[str, object]:
    values = _object(data, f"attribute {name}")
    for kind in kinds:
        value = values.get(kind)
        if value is not None:
            return kind, tuple(value) if isinstance(value, list) else value
    return "", None


def _amount(name: str, data: object) -> Quantity:
    return Quantity.parse(_string(_object(data, f"capacity {name}").get("value")))
