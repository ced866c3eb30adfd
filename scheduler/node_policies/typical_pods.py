"""The workload: what pods request, and how many request the same, for policies that consider future pods.

Memory is ignored: pods are distinguished by cpu and devices.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from allocator.fleet.alike import fingerprint_of
from allocator.model import Alternative, Claim
from cel.cache import LruCache
from scheduler.state.pods import CPU, MEMORY, PodRequests

COVERED = 0.95
"""The share of the pods that the typical shapes cover; rarer shapes are left out."""

MOST_SHAPES = 1 << 13
"""Shapes that are known; if there are more, the rarest are forgotten."""

START_PODS = 1000
"""For so many pods a start counts, and for half as many with each pod that it does not expect."""

MOST_SEEN = 1 << 16
"""Pods that are known to be counted; one that was not decided for so many others counts again."""


@dataclass(slots=True, eq=False)
class WorkloadShape:
    """Pods that ask for the same."""

    cpu: int
    """Thousandths of a CPU that one pod requests."""
    claims: tuple[Claim, ...]
    """The claims of one pod."""
    sizes: tuple[object, ...]
    """What the claims ask for, as it counts for `order`."""
    count: int = 0
    """How many pods there are."""
    memories: int = 0
    """The memory of all of them, in bytes."""
    start: float = 0.0
    """For how many pods more it counts, of which nobody has seen one."""
    start_memory: int = 0
    """The memory of one of these."""

    @property
    def weight(self) -> float:
        """For how many pods it counts."""
        return self.count + self.start

    @property
    def memory(self) -> int:
        """On average, in bytes."""
        if not self.start:
            return self.memories // self.count
        return int((self.memories + self.start * self.start_memory) / self.weight)

    @property
    def order(self) -> tuple[object, ...]:
        """More of them first, then the larger, by the amounts that are requested; texts of selectors decide last."""
        return self.weight, self.cpu, *self.sizes


@dataclass(slots=True, eq=False)
class _Counted:
    """Pods that ask for this, and how many."""

    requests: PodRequests
    claims: Sequence[Claim]
    number: int = 0


class PodShapes:
    """The shapes and their counts: those that are set, or else those of the pods that were decided so far.

    changes: how often the typical shapes have to be worked out again: when they are set, whenever half as many pods
    again were seen, and with each pod that a start did not expect.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._shapes: dict[Hashable, WorkloadShape] = {}
        self._total = 0
        self._start = 0.0
        self._next = 1.0
        self._is_set = False
        self._seen: LruCache[str, None] = LruCache(MOST_SEEN, MOST_SEEN)

    def set(self, pods: Iterable[tuple[PodRequests, Sequence[Claim]]]) -> None:
        """These pods are the workload; what is decided later changes nothing."""
        self._count_anew(pods)
        self._is_set = True

    def start_with(self, pods: Iterable[tuple[PodRequests, Sequence[Claim]]]) -> None:
        """These pods are expected at first, as if START_PODS like them had come; what is decided later counts as well.

        A pod that asks for what none of these did shows that others come: they count for half as many from then on.
        """
        self._count_anew(pods)
        self._is_set = False
        for shape in self._shapes.values():
            shape.start, shape.start_memory = shape.count * START_PODS / self._total, shape.memory
            shape.count = shape.memories = 0
        self._start, self._total = float(START_PODS) if self._shapes else 0.0, 0
        self._next = self._known + self._known / 2

    @property
    def _known(self) -> float:
        """For how many pods all shapes count."""
        return self._total + self._start

    def _count_anew(self, pods: Iterable[tuple[PodRequests, Sequence[Claim]]]) -> None:
        self._shapes, self._total, self._start = {}, 0, 0.0
        counts: dict[tuple[int, int], _Counted] = {}  # which holds what is counted, so that no other gets its identity
        for requests, claims in pods:
            counts.setdefault((id(requests), id(claims)), _Counted(requests, claims)).number += 1
        for counted in counts.values():
            self._add(counted.requests, counted.claims, counted.number)
        self.changes += 1

    def see(self, uid: str, requests: PodRequests, claims: Sequence[Claim]) -> None:
        """A pod is decided, which counts once. Cost: O(1)."""
        if self._is_set:
            return
        self._seen.get(uid, 1, lambda: self._see_new(requests, claims))

    def _see_new(self, requests: PodRequests, claims: Sequence[Claim]) -> None:
        is_unexpected = not self._add(requests, claims).start and self._start > 0
        if is_unexpected:
            self._halve_start()
        if is_unexpected or self._known >= self._next:
            self._next = self._known + self._known // 2
            self.changes += 1

    def _halve_start(self) -> None:
        factor = 0.5 if self._start > 1 else 0.0
        self._start *= factor
        for shape in self._shapes.values():
            shape.start *= factor
        self._shapes = {key: shape for key, shape in self._shapes.items() if shape.weight}

    def _add(self, requests: PodRequests, claims: Sequence[Claim], number: int = 1) -> WorkloadShape:
        cpu = requests.amounts.get(CPU, 0)
        key = cpu, fingerprint_of(claims)
        shape = self._shapes.get(key)
        if shape is None:
            self._forget_rarest()
            shape = self._shapes[key] = WorkloadShape(cpu, tuple(claims), _sizes(claims))
        shape.count += number
        shape.memories += number * requests.amounts.get(MEMORY, 0)
        self._total += number
        return shape

    def _forget_rarest(self) -> None:
        """If there are too many shapes, keep those that were seen most often, the latest of equals."""
        if len(self._shapes) >= MOST_SHAPES:
            latest_first = reversed(self._shapes.items())
            kept = sorted(latest_first, key=lambda one: one[1].weight, reverse=True)[: MOST_SHAPES // 2]
            self._shapes = dict(reversed(kept))
            self._total = sum(shape.count for shape in self._shapes.values())
            self._start = sum(shape.start for shape in self._shapes.values())

    def every(self) -> Sequence[tuple[float, WorkloadShape]]:
        """All shapes, the most frequent first, with their shares. Cost: O(shapes)."""
        shapes = sorted(self._shapes.values(), key=lambda shape: shape.order, reverse=True)
        return [(shape.weight / self._known, shape) for shape in shapes]

    def typical(self) -> Sequence[tuple[float, WorkloadShape]]:
        """The most frequent shapes, until they cover `COVERED` of the pods, with their shares of all that are covered.

        Cost: O(shapes).
        """
        total = self._known
        chosen: list[WorkloadShape] = []
        covered = 0.0
        for shape in sorted(self._shapes.values(), key=lambda shape: shape.order, reverse=True):
            if covered / total >= COVERED:
                break
            chosen.append(shape)
            covered += shape.weight
        return [((shape.weight / total) / (covered / total), shape) for shape in chosen]


def _sizes(claims: Sequence[Claim]) -> tuple[object, ...]:
    """Amounts of capacity, the number of devices, texts of selectors."""
    alternatives = [_first(request.alternatives) for claim in claims for request in claim.requests]
    asked = [one for one in alternatives if one is not None]
    amounts = [sum(amount.nanos for amount in (one.capacity or {}).values()) for one in asked]
    selectors = tuple(text or "" for one in asked for text in one.selectors)
    return tuple(amounts), sum(one.count for one in asked), selectors


def _first(alternatives: Sequence[Alternative]) -> Alternative | None:
    return alternatives[0] if alternatives else None
