"""Limits per tenant in the configuration, and in a ConfigMap that is followed while a program runs.

Both hold the same list. One that has an error counts for nothing: the program does not start with such a file, and goes
on with the limits that it had while such a ConfigMap is there.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

import cel
from allocator.api import names
from allocator.api.findings import FieldError, shown
from allocator.gates import DEFAULT_RELEASE, Features
from allocator.limits import ONE_DEVICE, CountedDevices, CountedUnit, Namespaces, TenantLimit
from cel.values.quantity import Format, Quantity
from scheduler.client.raw_json import RawJson, loads_leniently
from scheduler.client.watch_states import Undecodable
from scheduler.core_v1.label_selectors import requirements
from scheduler.core_v1.object_fields import first_errors
from scheduler.input import yaml_1_1
from scheduler.runtime.section import Section, label_query, object_name, refused, typed

KEY: Final = "limits"
"""Of the ConfigMap's data: the list as YAML or JSON."""

MOST_LIMITS: Final = 1_000
LONGEST_TEXT: Final = 1 << 18
"""Limits in a ConfigMap, and characters of their text: all decisions wait while they are read and counted."""

REMEMBERED: Final = 4
"""Lists that need not be read again: where two writers have a different opinion, theirs come by turns without end."""

_PERCENT: Final = 100
_SHARE: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,9})?%")


def _namespace(name: str) -> str:
    if problem := names.short_name(name):
        raise refused(problem)
    return name


def _driver(name: str) -> str:
    if name and (problem := names.driver_name(name)):
        raise refused(problem)
    return name


def _name_or_empty(name: str) -> str:
    return object_name(name) if name else name


def _capacity(name: str) -> str:
    if name and (problem := names.qualified_name(name)):
        raise refused(problem)
    return name


def _counter(name: str) -> str:
    if name and (problem := names.short_name(name)):
        raise refused(problem)
    return name


def _share(text: str) -> str:
    if text and _fraction(text) is None:
        raise refused("must be a percentage above 0% and up to 100%, such as 25% or 12.5%")
    return text


def _fraction(text: str) -> Fraction | None:
    if not _SHARE.fullmatch(text):  # Fraction would take exponents too, and work out a number of any size
        return None
    share = Fraction(text[:-1]) / _PERCENT
    return share if 0 < share <= 1 else None


class NamespacesSection(Section):
    """The namespaces that a limit holds for. Without `names` and `selector`, all."""

    names: list[Annotated[str, AfterValidator(_namespace)]] | None = Field(default=None, min_length=1)
    """Their names."""

    selector: Annotated[str, AfterValidator(label_query)] = ""
    """Label selector of namespaces, such as `team=research,tier!=batch`. With `names`, both must hold."""

    each: bool = False
    """Each of these namespaces has the limit by itself; otherwise they have it together."""

    def namespaces(self) -> Namespaces:
        """As the allocator takes it."""
        labels = requirements(self.selector) if self.selector else None
        return Namespaces(frozenset(self.names) if self.names is not None else None, labels, self.each)


class CountSection(Section):
    """What is counted: devices, unless `capacity` or `counter` is set; of all devices for which the others hold."""

    capacity: Annotated[str, AfterValidator(_capacity)] = ""
    """Name of a capacity: what shares consume of it, and all of it for a device that is not shared."""

    counter: Annotated[str, AfterValidator(_counter)] = ""
    """Name of a counter: what devices consume of it, in any counter set."""

    driver: Annotated[str, AfterValidator(_driver)] = ""
    """Only devices of this driver."""

    device_class_name: Annotated[str, AfterValidator(_name_or_empty)] = ""
    """Only devices that the selectors of this DeviceClass select, whichever class the claim names."""

    selector: str = ""
    """Only devices for which this CEL expression is true. A device on which it fails does not count."""

    @property
    def unit(self) -> CountedUnit:
        """What is added up."""
        return "capacity" if self.capacity else "counters" if self.counter else "devices"

    def counted(self) -> CountedDevices:
        """As the allocator takes it."""
        selectors = (self.selector,) if self.selector else ()
        return CountedDevices(self.unit, self.capacity or self.counter, self.driver, self.device_class_name, selectors)

    def problems(self, path: str) -> Iterator[FieldError]:
        """Contradictions between fields, and an expression that no device can be asked."""
        if self.capacity and self.counter:
            yield FieldError(f"{path}.counter", self.counter, f"must not be set beside {path}.capacity")
        if self.selector:
            try:
                cel.compile(self.selector, Features.of(DEFAULT_RELEASE).environment)
            except cel.CompileError as error:
                yield FieldError(f"{path}.selector", self.selector, f"is no CEL expression: {error}")


class LimitSection(Section):
    """A limit per tenant (docs/limits.md)."""

    name: Annotated[str, AfterValidator(object_name)]
    """Names it in refusals and metrics."""

    namespaces: NamespacesSection = Field(default_factory=NamespacesSection)
    """For which namespaces."""

    count: CountSection = Field(default_factory=CountSection)
    """What is counted."""

    most: int | str | None = None
    """The most that may be in use: a number, or a quantity such as `160Gi`."""

    share: Annotated[str, AfterValidator(_share)] = ""
    """In place of `most`, a share of what is published, such as `25%`, rounded down."""

    soft: bool = False
    """Count and warn, and refuse nothing."""

    def problems(self, path: str) -> Iterator[FieldError]:
        """The problems of the limit."""
        yield from self.count.problems(f"{path}.count")
        if (self.most is None) == (not self.share):
            yield FieldError(f"{path}.most", self.most, f"either this or {path}.share must be set")
        elif self.most is not None:
            yield from self._problems_of_most(f"{path}.most", self.most)

    def _problems_of_most(self, path: str, most: int | str) -> Iterator[FieldError]:
        try:
            nanos = Quantity.parse(str(most)).nanos
        except ValueError as error:
            yield FieldError(path, most, str(error))
            return
        if nanos < 0:
            yield FieldError(path, most, "must not be negative")
        elif self.count.unit == "devices" and nanos % ONE_DEVICE:
            yield FieldError(path, most, "must be a whole number of devices")

    def limit(self) -> TenantLimit:
        """As the allocator takes it; the section has no problem."""
        most = Quantity.parse(str(self.most)) if self.most is not None else None
        return TenantLimit(
            self.name,
            self.namespaces.namespaces(),
            self.count.counted(),
            most.nanos if most is not None else None,
            _fraction(self.share) or Fraction(0),
            self.soft,
            most.format if most is not None else Format.DECIMAL_SI,
        )


class LimitList(Section):
    """What a ConfigMap holds."""

    limits: list[LimitSection]


def limit_problems(limits: Sequence[LimitSection], taken: Collection[str] = ()) -> Iterator[FieldError]:
    """The problems of these limits. taken: names of others that hold too."""
    names_before = set(taken)
    for position, limit in enumerate(limits):
        path = f"limits[{position}]"
        yield from limit.problems(path)
        if limit.name in names_before:
            yield FieldError(f"{path}.name", limit.name, "must be unique")
        names_before.add(limit.name)


def limits_in(raw: Mapping[str, Any], taken: Collection[str]) -> tuple[TenantLimit, ...]:
    """The limits of a ConfigMap. taken: names of limits that hold too. Raises Undecodable with the first errors."""
    limits = _limits_of(_text(raw), frozenset(taken))
    if isinstance(limits, str):
        raise Undecodable(limits)
    return limits


@lru_cache(maxsize=REMEMBERED)
def _limits_of(text: str, taken: frozenset[str]) -> tuple[TenantLimit, ...] | str:
    """The limits that the text lists, or the first errors."""
    try:
        documents = [document for _, document in yaml_1_1.documents(text)]
    except yaml_1_1.InvalidYAML as error:
        return f"data[{KEY}]: {error}"
    value = documents[0] if len(documents) == 1 else documents
    if isinstance(value, list) and len(value) > MOST_LIMITS:
        return f"data[{KEY}]: must not have more than {MOST_LIMITS:,} entries, has {len(value):,}"
    section, errors = typed(LimitList, {KEY: value})
    problems = first_errors(errors if section is None else limit_problems(section.limits, taken))
    if section is None or problems:
        return "; ".join(f"data[{KEY}]: {problem}" for problem in problems)
    return tuple(limit.limit() for limit in section.limits)


def _text(raw: Mapping[str, Any]) -> str:
    """The list as it is written. Raises Undecodable."""
    data = raw.get("data") or {}
    if isinstance(data, RawJson):  # as the client leaves all that is named so: drivers write there what they like
        data = loads_leniently(bytes(data))  # of no subclass
    if not isinstance(data, dict):
        raise Undecodable(f"data: must be an object (got {shown(data)})")
    if KEY not in data:
        raise Undecodable(f"data: has no key {KEY!r}")
    if not isinstance(data[KEY], str):
        raise Undecodable(f"data[{KEY}]: must be a string (got {shown(data[KEY])})")
    if len(data[KEY]) > LONGEST_TEXT:
        raise Undecodable(f"data[{KEY}]: must not be longer than {LONGEST_TEXT:,} characters, is {len(data[KEY]):,}")
    return data[KEY]


def limits_decoder(limits: Sequence[TenantLimit]) -> partial[tuple[TenantLimit, ...]]:
    """Reads a ConfigMap beside these limits of the file."""
    return partial(limits_in, taken=frozenset(limit.name for limit in limits))


def config_map_name(text: str) -> str:
    """The text NAMESPACE/NAME, or empty. Raises what is wrong with it."""
    namespace, slash, name = text.partition("/")
    if text and not slash:
        raise refused("must be NAMESPACE/NAME, or empty")
    for problem in (names.short_name(namespace), names.long_name(name)) if text else ():
        if problem:
            raise refused(problem)
    return text
