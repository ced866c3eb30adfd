"""Objects that are nearly right: one place of a valid object changed.

Drawn so that the known differences between the API server and our decoder (test_validation.py) do not come up: nothing
becomes an entry that is null or stands twice, no field is unknown, no expression and no label is changed.
"""

import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (
    *("", "a", "A", "a/b", "a/b/c", "a.b", "-a", "a b", "é", "x" * 63, "x" * 64, "x" * 65),
    *("1Gi", "-1", "1.5", "1e3", "0", "1.2.3", "01.2.3", "1.2", "2026-01-01T00:00:00Z", "2026-13-01T00:00:00Z"),
    *("Exists", "In", "Gt", "DoesNotExist", "All", "ExactCount", "NoSchedule", "None", "FromClass", "metadata.name"),
    *(-1, 0, 1, 2, 2**31, 2**63 - 1, 2**63, 1.5, 1.0, True, False),
    *([], {}, [""], ["a"]),
)
DELETED = 0.2
_KEPT = frozenset({"expression", "labels"})
_MAPS = frozenset({"attributes", "capacity", "counters", "labels", "annotations", "consumedCapacity"})
_OPAQUE = frozenset({"parameters", "data"})


def mutated(raw: Mapping[str, Any], draw: random.Random) -> dict[str, Any]:
    """The object with one place of its status or else its spec set to another value, or deleted."""
    changed = copy.deepcopy(dict(raw))
    top = "status" if "status" in raw else "spec"
    *way, step = draw.choice(list(_places(changed[top])))
    holder = changed[top]
    for outer in way:
        holder = holder[outer]
    if draw.random() < DELETED:
        del holder[step]
    else:
        holder[step] = copy.deepcopy(draw.choice(VALUES))
    return changed


def with_unknown_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The object with a field that no version has, in each place where fields have names of their own."""
    changed = copy.deepcopy(dict(raw))
    top = "status" if "status" in raw else "spec"
    for holder in list(_structs(changed[top])):
        holder["nonsense"] = 1
    return changed


def _places(value: Any, way: Path = ()) -> Iterator[Path]:
    """Where something stands below the value, the outermost first."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in entries:
        if step not in _KEPT:
            yield (*way, step)
            yield from _places(inner, (*way, step))


def _structs(value: Any, name: str = "", *, is_in_capacity: bool = False) -> Iterator[dict[str, Any]]:
    """The objects below the value that are no maps; opaque ones are not looked into."""
    if isinstance(value, list):
        for entry in value:
            yield from _structs(entry)
    elif isinstance(value, dict):
        is_map = (name in _MAPS and not _is_request_of_capacity(value)) or is_in_capacity
        if not is_map:
            yield value
        for key, inner in value.items():
            if key not in _OPAQUE:
                yield from _structs(inner, "" if is_map else key, is_in_capacity=_is_request_of_capacity(value))


def _is_request_of_capacity(value: Mapping[str, Any]) -> bool:
    """Whether this is a request's capacity, an object with a map, where a device's is a map."""
    return value.keys() == {"requests"} and isinstance(value["requests"], dict)
