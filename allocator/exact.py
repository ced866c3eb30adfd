"""Keys that are equal only for values that nothing can distinguish: stricter than `==`.

To Python 1 equals True, and 1Ki equals 1024; selectors and request policies distinguish them. What decides about a
value of the model is derived from its fields: a new field decides, unless it is excepted by name.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter, eq, is_

from cel.values.quantity import Quantity


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
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda value: (read(value),)
