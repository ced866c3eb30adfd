"""What is worked out once and remembered: keys that tell values apart exactly, memory by them, and what changed since.

To Python 1 equals True, and 1Ki equals 1024; selectors and request policies distinguish them. So keys are equal only
for values that nothing can distinguish: stricter than `==`. What decides about a value of the model is derived from its
fields: a new field decides, unless it is excepted by name.
A reader of a `Journal` keeps the moment (`now`) as of which it is up to date, and asks later what has changed since.
The older half is forgotten now and then: a reader that far behind looks at everything, which costs about as much.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter, eq, is_
from typing import Any, Final, Generic, TypeVar

from cel.values.quantity import Quantity

Value = TypeVar("Value")


class Topic(Generic[Value]):
    """What is remembered, by identity: the values under it are of one type."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"


MemoKey = Topic[Value] | tuple[Topic[Value], Hashable] | tuple[Topic[Value], Hashable, Hashable]
"""A topic, and what distinguishes its values where it has several."""


class TypedMemo:
    """Remembers values; `age` forgets those that were not used in a long time."""

    __slots__ = ("_before", "_kept", "_values")

    def __init__(self) -> None:
        # A key holds values of its topic only: `remember` is the one that adds any.
        self._values: dict[Hashable, Any] = {}
        self._before: dict[Hashable, Any] = {}
        self._kept = 0

    def __len__(self) -> int:
        return len(self._values)

    def remember(self, key: MemoKey[Value], make: Callable[[], Value]) -> Value:
        """The value of the key, made if it is not there. What `make` raises is not remembered."""
        value: Value
        try:
            value = self._values[key]
        except KeyError:
            pass
        else:
            return value
        value = self._values[key] = self._from_before(key, make)
        return value

    def forget(self, key: MemoKey[Value]) -> None:
        """Forget the value of the key; it is computed again when needed."""
        self._values.pop(key, None)
        self._before.pop(key, None)

    def age(self, most: int) -> None:
        """If more than `most` new values were added since the last time, forget what was not used since then."""
        if len(self._values) - self._kept > most:
            self._before, self._values, self._kept = self._values, {}, 0

    def _from_before(self, key: MemoKey[Value], make: Callable[[], Value]) -> Value:
        if key not in self._before:
            return make()
        self._kept += 1
        value: Value = self._before[key]
        return value


def exact(value: object) -> Hashable:
    """The key of a value of the model, or of anything that such a value is made of. Cost: O(values in it)."""
    class_ = type(value)
    if class_ is str:
        return value
    if not value:
        return class_, None  # one class has one value that is nothing
    if isinstance(value, Quantity):
        return value.form
    if isinstance(value, tuple | list):
        return class_, tuple([exact(item) for item in value])
    if isinstance(value, Mapping):
        return Mapping, tuple([(key, exact(item)) for key, item in value.items()])
    if is_dataclass(value):
        value = tuple(map(exact, _values_of(value)))
    return class_, value if isinstance(value, Hashable) else repr(value)


def is_exactly(one: object, other: object) -> bool:
    """True if the keys are equal; fast if both are made of the same objects, as in most fleets."""
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(map(is_, one, other)) or all(map(is_exactly, one, other))
    if isinstance(one, dict) and isinstance(other, dict) and len(one) == len(other):
        has_same_objects = all(map(eq, one, other)) and all(map(is_, one.values(), other.values()))
        return has_same_objects or exact(one) == exact(other)
    if is_dataclass(one) and type(one) is type(other) and not isinstance(one, Quantity):
        return is_exactly(_values_of(one), _values_of(other))
    return exact(one) == exact(other)


def _values_of(value: object) -> tuple[object, ...]:
    return tuple([getattr(value, name) for name in _compared(type(value))])  # type: ignore[arg-type] # has a hash


@lru_cache(maxsize=64)
def _compared(class_: type) -> tuple[str, ...]:
    return tuple([field.name for field in fields(class_) if field.compare])


def deciding(class_: type, excepted: Mapping[str, str]) -> tuple[str, ...]:
    """The fields that decide. excepted: those that do not, each with the reason; they have to exist."""
    names = _compared(class_)
    assert excepted.keys() <= set(names), f"{class_.__name__} has no {excepted.keys() - set(names)}"
    return tuple([name for name in names if name not in excepted])


def values_of(class_: type, excepted: Mapping[str, str]) -> Callable[[object], tuple[object, ...]]:
    """Returns a function that reads the fields that decide. Arguments as for `deciding`."""
    names = deciding(class_, excepted)
    if len(names) > 1:
        return attrgetter(*names)
    (name,) = names
    return lambda value: (getattr(value, name),)


LEAST_CHANGES: Final = 256
"""Changes that are kept however few there may be."""

Entry = TypeVar("Entry")


class Journal(Generic[Entry]):
    """The changes, the oldest first. forgotten: the number of those that are not kept any more."""

    def __init__(self) -> None:
        self.forgotten = 0
        self._kept: list[Entry] = []

    @property
    def now(self) -> int:
        """The number of changes so far."""
        return self.forgotten + len(self._kept)

    def add(self, entry: Entry, most: int) -> None:
        """It has changed. most: changes beyond which the older half is forgotten. Cost: O(1) on average."""
        kept = self._kept
        kept.append(entry)
        if len(kept) > most and len(kept) > LEAST_CHANGES:
            older = len(kept) // 2
            self.forgotten += older
            del kept[:older]

    def forget(self) -> None:
        """None of them is kept any more."""
        self.forgotten += len(self._kept)
        self._kept = []

    def since(self, seen: int) -> Sequence[Entry] | None:
        """The changes after the first `seen` ones; None where some of them are forgotten."""
        if seen < self.forgotten:
            return None
        return self._kept[seen - self.forgotten :]


class WeighedJournal(Journal[Entry]):
    """Changes that name what may be gone by now, and be large."""

    def __init__(self) -> None:
        super().__init__()
        self._weight = 0

    def weigh(self, entry: Entry, weight: int, most_weight: int, most: int) -> None:
        """It has changed. most_weight: of all together, beyond which those before are forgotten. most: as `add`."""
        self._weight += weight
        if self._weight > most_weight:
            self.forget()
            self._weight = weight
        self.add(entry, most)


class ChangedNumbers(Journal[int]):
    """The numbers of nodes that have changed."""

    def note(self, number: int, nodes: int) -> None:
        """The node has changed. nodes: how many there are, of each of which two changes are kept."""
        self.add(number, 2 * nodes)

    def numbers_since(self, seen: int) -> list[int] | None:
        """The nodes that have changed after the first `seen` changes, each once, ascending; None for any."""
        found = self.since(seen)
        return None if found is None else sorted(set(found))
