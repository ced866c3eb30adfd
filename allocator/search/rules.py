"""The contract of everything that may refuse a device, and the one undo.

A rule is static (a mask, once for each request), dynamic (asked for every pick), or both. Rules are
monotone, since more picks never repair what was refused, and independent of the order of picks;
the search relies on both, and property tests hold every rule to them.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from allocator.model import Alternative

Old = TypeVar("Old")

Mask = int
"""Bit i stands for device i of the NodeView."""


def bits(mask: Mask) -> Iterator[int]:
    """The positions of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


Kind = Literal["selector", "in use", "capacity", "taint", "other"]
"""What refused devices: what they are, who has them, or a taint."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the funnel: the devices that a static rule refuses. reason: a phrase that follows their number.

    kind: what of, for those who count. is_of_all: the devices are among those that `All` means. leaves_all: `All` does
    without them.
    """

    reason: str
    refused: Mask
    kind: Kind = "other"
    is_of_all: bool = False
    leaves_all: bool = False


@dataclass(slots=True, eq=False)
class Candidates:
    """One alternative of a request on one view, ready for the search.

    mask: devices that pass every static rule. poison: devices of the mask that cannot be judged; meeting one ends the
    attempt. forced: the devices that `All` has to get, in order, whether or not they are in the mask.
    need: devices to pick. rules: the dynamic ones that apply. stages: how `mask` came about.
    """

    claim: int
    alternative: Alternative
    mask: Mask
    poison: Mask
    need: int
    forced: tuple[int, ...] | None
    rules: tuple["Rule", ...]
    stages: tuple[Stage, ...]

    @property
    def is_void(self) -> bool:
        """True for `All` over nothing, which cannot be had."""
        return self.alternative.mode == "All" and self.forced is None


@dataclass(slots=True, eq=False)
class Slot:
    """One device still to be chosen: the `position`-th of `candidates.need`."""

    candidates: Candidates
    position: int

    @property
    def is_forced(self) -> bool:
        """True where the request takes all devices, so that there is nothing to choose."""
        return self.candidates.forced is not None


@dataclass(slots=True, eq=False)
class Pick:
    """A device (its position in the view) chosen for an alternative."""

    candidates: Candidates
    device: int


UNBOUNDED = 1 << 62
"""The room that a rule leaves which sets no limit."""


class Trail:
    """What has to be undone, in reverse: the only undo there is."""

    __slots__ = ("_undo",)

    def __init__(self) -> None:
        # `push` checks that the two belong together; after that they are of as many types as there are rules.
        self._undo: list[tuple[Callable[[Any], None], Any]] = []

    def push(self, restore: Callable[[Old], None], old: Old) -> None:
        """Remember that `restore(old)` takes a change back."""
        self._undo.append((restore, old))

    def mark(self) -> int:
        """The present height, to rewind to."""
        return len(self._undo)

    def rewind(self, mark: int) -> None:
        """Take back everything since `mark`."""
        undo = self._undo
        while len(undo) > mark:
            restore, old = undo.pop()
            restore(old)


@dataclass(frozen=True, slots=True)
class Classes:
    """The devices of an attempt by kind. several: for each kind the devices, at least two. alone: all others."""

    several: Sequence[Mask]
    alone: Mask


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work a rule has, counted in devices, values and amounts that it looks at.

    whole: for any domain, and for a pick. narrow, room: besides, for each device of the domain that is asked about;
    room is the same for several requests together. state: for telling it.
    """

    whole: int
    narrow: int = 0
    room: int = 0
    state: int = 1


class Rule(metaclass=ABCMeta):
    """May refuse devices during the search. Its state changes in `take` alone, and goes back through the trail.

    `take` refuses whatever `narrow` would have dropped, except where `hides` is set: then a device that is dropped is
    not looked at by any other rule, and does not show that it cannot be judged.
    """

    __slots__ = ()

    @property
    def hides(self) -> bool:
        """True where a device that `narrow` drops is hidden from the other rules."""
        return False

    @abstractmethod
    def take(self, slot: Slot, device: int, trail: Trail) -> bool:
        """Pick the device; False refuses it, and the caller rewinds."""

    @abstractmethod
    def alike(self, device: int) -> Hashable:
        """Devices with equal answers are the same to this rule, picked or not."""

    @abstractmethod
    def state(self, classes: Classes) -> Hashable:
        """All that the rule remembers of the picks made, with the devices of one class taken as interchangeable."""

    @abstractmethod
    def effort(self, picks: int) -> Effort:
        """How much work the rule has at the most in an attempt of so many picks."""

    def narrow(self, slot: Slot, domain: Mask) -> Mask:
        """The part of the domain that is still possible after the picks made; never more than the domain."""
        return domain

    def room(self, slot: Slot, domain: Mask) -> int:
        """At most how many of the domain could be picked for the slot's request; may prune, never decide."""
        return domain.bit_count()

    def joint_room(self, alternatives: Sequence[Candidates], requests: int, domain: Mask) -> int:
        """At most how many picks so many requests, with these alternatives, can make of the domain together."""
        return UNBOUNDED

    def touched(self) -> Mask:
        """Devices that may still be picked, but differ by now from those that were alike: their own twins only."""
        return 0
