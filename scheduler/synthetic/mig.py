"""Partitions of a GPU as MIG has them: every profile at every place, over counters that overlapping ones share.

Source: NVIDIA's MIG user guide (profiles and their engines), KEP-4815 (how a driver publishes them).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MEMORY_SLICES = 8


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A kind of partition. compute, memory: slices of the GPU that it takes. places: where its memory may start."""

    name: str
    compute: int
    memory: int
    places: Sequence[int]
    copy_engines: int
    decoders: int
    jpeg_engines: int
    optical_flow_engines: int

    @property
    def label(self) -> str:
        """The name as a part of device names."""
        return self.name.replace(".", "").replace("+", "-")

    def counters(self, place: int, slice_gi: int) -> Mapping[str, str]:
        """What a partition at the place takes. slice_gi: memory of one slice."""
        amounts = {
            "compute-slices": self.compute,
            "copy-engines": self.copy_engines,
            "decoders": self.decoders,
            "jpeg-engines": self.jpeg_engines,
            "optical-flow-engines": self.optical_flow_engines,
            **{f"memory-slice-{number}": 1 for number in range(place, place + self.memory)},
        }
        taken = {name: str(amount) for name, amount in amounts.items() if amount}
        return {**taken, "memory": f"{self.memory * slice_gi}Gi"}


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partitions of a GPU. slice_gi: memory of one slice. The last profile is the whole GPU."""

    slice_gi: int
    profiles: Sequence[MigProfile]

    @property
    def whole(self) -> Mapping[str, str]:
        """The counters of a GPU."""
        return self.profiles[-1].counters(0, self.slice_gi)

    def partitions(self) -> Iterator[tuple[MigProfile, int]]:
        """Each profile at each of its places."""
        for profile in self.profiles:
            for place in profile.places:
                yield profile, place


_ONES = range(7)
_PAIRS = (0, 2, 4, 6)
_THREE_PAIRS = (0, 2, 4)
_HALVES = (0, 4)
_FIRST = (0,)

A100_40GB = Partitioning(
    5,
    (
        MigProfile("1g.5gb", 1, 1, _ONES, 1, 0, 0, 0),
        MigProfile("1g.5gb+me", 1, 1, _ONES, 1, 1, 1, 1),
        MigProfile("1g.10gb", 1, 2, _PAIRS, 1, 1, 0, 0),
        MigProfile("2g.10gb", 2, 2, _THREE_PAIRS, 2, 1, 0, 0),
        MigProfile("3g.20gb", 3, 4, _HALVES, 3, 2, 0, 0),
        MigProfile("4g.20gb", 4, 4, _FIRST, 4, 2, 0, 0),
        MigProfile("7g.40gb", 7, MEMORY_SLICES, _FIRST, 7, 5, 1, 1),
    ),
)

H100_80GB = Partitioning(
    10,
    (
        MigProfile("1g.10gb", 1, 1, _ONES, 1, 1, 1, 0),
        MigProfile("1g.10gb+me", 1, 1, _ONES, 1, 1, 1, 1),
        MigProfile("1g.20gb", 1, 2, _PAIRS, 1, 1, 1, 0),
        MigProfile("2g.20gb", 2, 2, _THREE_PAIRS, 2, 2, 2, 0),
        MigProfile("3g.40gb", 3, 4, _HALVES, 3, 3, 3, 0),
        MigProfile("4g.40gb", 4, 4, _FIRST, 4, 4, 4, 0),
        MigProfile("7g.80gb", 7, MEMORY_SLICES, _FIRST, 8, 7, 7, 1),
    ),
)
