"""Values that are worked out once and remembered, each under a key that knows their type."""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

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
