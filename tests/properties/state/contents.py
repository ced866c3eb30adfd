"""All that an object holds, each part by its path, so that two moments can be compared.

Left out is what is only remembered (answers, which follow from the rest) and what only goes on (journals).
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType, MethodType

import numpy as np

from allocator.fleet.answer_cache import AnswerCache, HardwareKinds, KnownChoices
from allocator.memo import Journal
from cel.cache import LruCache
from scheduler.state.pods import PodRequests
from scheduler.state.pods_by_labels import PodLabels

_SKIPPED = (LruCache, AnswerCache, KnownChoices, HardwareKinds, Journal, FunctionType, MethodType, type)
_VALUES = ("allocator.model", "allocator.api", "cel.", "scheduler.core_v1", "scheduler.input")
"""Where classes are whose objects never change: they are compared as they are."""

_NOTED = {
    "FleetNode": {"group"},  # which nodes are in which group is compared
    "FleetNodes": {"gathered"},
    "Snapshot": {"selectors", "_views"},
    "CurrentSnapshot": {"changed_usage", "changed_pools"},
    "Decider": {"asked"},
    "_TermIndex": {"_added"},
    "PodCounts": {"_version"},
    "PodsByPriority": {"changes"},
    "ClaimIndex": {"_maybe_unused"},
    "_PodsOnNodes": {"answers", "version"},
    "AlikeVolumes": {"_made", "_version", "_near", "_of_many", "_by_node"},
    "Fleet": {"_kinds_asked_last"},
    "Group": {"nodes"},
    "Topology": {"_domains"},
    "NodeTable": {"_by_label", "version"},
    "Promised": {"_kept_away", "labels", "ports", "requests"},
}
"""Fields that count what has been done, or are worked out again from the rest, by class."""

Contents = dict[str, object]


def contents(found: object) -> Contents:
    """What the object holds, as far as it can be reached: plain values by their paths."""
    parts: Contents = {}
    _read(found, "", parts, {})
    return parts


def differences(before: Contents, after: Contents) -> list[str]:
    """Where the two differ."""
    paths = sorted(before.keys() | after.keys())
    return [
        f"{path}: {before.get(path)!r} is now {after.get(path)!r}"
        for path in paths
        if before.get(path) != after.get(path)
    ]


def _read(found: object, path: str, parts: Contents, seen: dict[int, object]) -> None:
    if isinstance(found, np.ndarray):
        parts[path] = found.tolist()
    elif isinstance(found, Mapping):
        parts[path] = len(found)
        for key, value in found.items():
            _read(value, f"{path}[{_name(key)}]", parts, seen)
    elif isinstance(found, list | tuple):
        parts[path] = len(found)
        for place, value in enumerate(found):
            _read(value, f"{path}[{place}]", parts, seen)
    elif isinstance(found, _SKIPPED) or _is_value(found):
        parts[path] = type(found).__name__ if isinstance(found, _SKIPPED) else found
    elif id(found) not in seen:
        seen[id(found)] = found
        for name, value in _fields(found):
            _read(value, f"{path}.{name}", parts, seen)


def _is_value(found: object) -> bool:
    module = type(found).__module__
    return module == "builtins" or module.startswith(_VALUES) or isinstance(found, PodRequests | PodLabels)


def _name(key: object) -> str:
    return repr(sorted(map(repr, key)) if isinstance(key, frozenset) else key)


def _fields(found: object) -> Iterator[tuple[str, object]]:
    slots = {name for kind in type(found).__mro__ for name in getattr(kind, "__slots__", ())}
    names = {*getattr(found, "__dict__", {}), *slots}
    if is_dataclass(found):
        names |= {one.name for one in fields(found)}
    noted = _NOTED.get(type(found).__name__, set[str]())
    for name in sorted(names - noted - {"__dict__", "__weakref__"}):
        if hasattr(found, name):
            yield name, getattr(found, name)
