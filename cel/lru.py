"""A cache of the least recently used kind, bounded by number and by weight."""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar, final

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@final
class LruCache(Generic[K, V]):
    """Values by key, made on the first request. Beyond either limit the least recently used entry is dropped.

    most: entries. most_weight: of all entries together; a single entry may weigh more. Cost: O(1).
    """

    __slots__ = ("_kept", "most", "most_weight", "weight")

    def __init__(self, most: int, most_weight: int) -> None:
        self.most = most
        self.most_weight = most_weight
        self.weight = 0
        self._kept: dict[K, tuple[V, int]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def values(self) -> Iterator[V]:
        """All values, the least recently used first."""
        return (value for value, _ in self._kept.values())

    def get(self, key: K, weight: int, make: Callable[[], V]) -> V:
        """The value of a key. weight: of the entry. If `make` raises an error, nothing is kept."""
        known = self._kept.pop(key, None)
        if known is not None:
            self._kept[key] = known  # at the end: the first one is the least recently used
            return known[0]
        value = make()
        self._kept[key] = value, weight
        self.weight += weight
        while len(self._kept) > self.most or (self.weight > self.most_weight and len(self._kept) > 1):
            _, gone = self._kept.pop(next(iter(self._kept)))
            self.weight -= gone
        return value
