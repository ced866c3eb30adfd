"""Keys that are equal only for values that nothing can tell apart, which is less than what `==` takes for equal.

To Python 1 is True, and 1Ki is 1024; a selector can tell them apart, and so can a request policy. What decides about a
value of the model is found in its fields: one that is added decides until it is excepted by name.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter

from cel.quantity import Quantity


def exact(value: object) -> Hashable:
    """The key of a value of the model, or of anything that such a value is made of. Cost: O(parts)."""
    class_ = type(value)
    if class_ is str:
        return value
    if isinstance(value, Quantity):
        return value.form
    if isinstance(value, tuple | list):
        return class_, tuple([exact(item) for item in value])
    if isinstance(value, Mapping):
        return Mapping, tuple([(key, exact(item)) for key, item in value.items()])
    if is_dataclass(value):
        return class_, tuple([exact(getattr(value, name)) for name in _compared(class_)])  # type: ignore[arg-type] # classes have a hash
    return class_, value if isinstance(value, Hashable) else repr(value)


@lru_cache(maxsize=64)
def _compared(class_: type) -> tuple[str, ...]:
    return tuple([field.name for field in fields(class_) if field.compare])


def deciding(class_: type, excepted: Mapping[str, str]) -> tuple[str, ...]:
    """The fields that decide. excepted: those that do not, with the reason; each has to be there."""
    names = _compared(class_)
    assert excepted.keys() <= set(names), f"{class_.__name__} has no {excepted.keys() - set(names)}"
    return tuple([name for name in names if name not in excepted])


def values_of(class_: type, excepted: Mapping[str, str]) -> Callable[[object], tuple[object, ...]]:
    """What gives the values of the fields that decide; arguments as of `deciding`."""
    names = deciding(class_, excepted)
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda value: (read(value),)
