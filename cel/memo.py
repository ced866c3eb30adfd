"""What is kept because it is asked for again: at most so much, and of that what was used last."""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar, final

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@final
class Memo(Generic[K, V]):
    """Values by key, made when they are first asked for. hits, misses: how often one was there, or was made.

    most: keys that are kept. most_weight: what they weigh together at most, but for a single one. Beyond either, the
    least recently used one is forgotten. Cost: O(1).
    """

    __slots__ = ("_kept", "hits", "misses", "most", "most_weight", "weight")

    def __init__(self, most: int, most_weight: int) -> None:
        self.most = most
        self.most_weight = most_weight
        self.weight = self.hits = self.misses = 0
        self._kept: dict[K, tuple[V, int]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def values(self) -> Iterator[V]:
        """All that is kept, the least recently used first."""
        return (value for value, _ in self._kept.values())

    def get(self, key: K, weight: int, make: Callable[[], V]) -> V:
        """The value of a key. weight: of the key and its value. Raises what `make` raises, and keeps nothing then."""
        known = self._kept.pop(key, None)
        if known is not None:
            self.hits += 1
            self._kept[key] = known  # at the end: the first one is the least recently used
            return known[0]
        self.misses += 1
        value = make()
        self._kept[key] = value, weight
        self.weight += weight
        while len(self._kept) > self.most or (self.weight > self.most_weight and len(self._kept) > 1):
            _, gone = self._kept.pop(next(iter(self._kept)))
            self.weight -= gone
        return value
