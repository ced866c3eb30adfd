"""The contract of everything that can refuse a device, and the only undo (`Trail`).

Rules are monotone, since more picks never allow what was refused, and independent of the order of picks. The search
relies on both, and property tests check every rule for them; what is otherwise is searched exhaustively.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeVar

from allocator.bits import Mask
from allocator.model import Alternative

Old = TypeVar("Old")

Category = Literal["selector", "in use", "capacity", "taint", "other"]
"""Why devices were refused: by a selector, since they are in use, for a capacity, for a taint."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the funnel: the devices that a static rule refuses."""

    reason: str
    """A phrase that follows their number."""
    refused: Mask
    category: Category = "other"
    """What statistics count it as."""
    is_of_all: bool = False
    """The devices are among those that `All` asks for."""
    leaves_all: bool = False
    """`All` does without them."""


@dataclass(slots=True, eq=False)
class Candidates:
    """One alternative of a request on one view, ready for the search."""

    claim: int
    alternative: Alternative
    mask: Mask
    """Devices that pass every static rule."""
    poison: Mask
    """Devices of the mask that cannot be decided; reaching one ends the attempt."""
    need: int
    """How many devices to pick."""
    forced: tuple[int, ...] | None
    """The devices that `All` has to get, in order, whether or not they are in the mask."""
    rules: tuple["Rule", ...]
    """The dynamic rules that apply."""
    stages: tuple[Stage, ...]
    """How `mask` came about."""

    @property
    def is_void(self) -> bool:
        """True for `All` over nothing, which cannot be had."""
        return self.alternative.mode == "All" and self.forced is None

    @property
    def falls_short(self) -> bool:
        """True if too few devices pass the static rules, whatever else is picked."""
        if self.forced is not None:
            return any([not self.mask >> device & 1 for device in self.forced])  # noqa: C419 - faster
        return self.mask.bit_count() < self.need


@dataclass(slots=True, eq=False)
class DeviceSlot:
    """One device still to be chosen: the `position`-th of `candidates.need`."""

    candidates: Candidates
    position: int

    @property
    def is_forced(self) -> bool:
        """True if the request takes all devices, so that there is nothing to choose."""
        return self.candidates.forced is not None


@dataclass(slots=True, eq=False)
class Pick:
    """A device (its position in the view) chosen for an alternative."""

    candidates: Candidates
    device: int


class Choice(NamedTuple):
    """A device (its position in the view) chosen for an alternative, for all claims equal to these.

    claim: its number. request: the name of the alternative.
    """

    claim: int
    request: str
    device: int


UNBOUNDED: Final = 1 << 62
"""The room that is left by a rule without a limit."""


class Trail:
    """What has to be undone, in reverse."""

    __slots__ = ("_undo",)

    def __init__(self) -> None:
        # `push` checks that the two belong together; after that they are of as many types as there are rules.
        self._undo: list[tuple[Callable[[Any], None], Any]] = []

    def push(self, restore: Callable[[Old], None], old: Old) -> None:
        """Note that `restore(old)` undoes a change."""
        self._undo.append((restore, old))

    def mark(self) -> int:
        """The position to rewind to."""
        return len(self._undo)

    def rewind(self, mark: int) -> None:
        """Undo everything since `mark`."""
        undo = self._undo
        while len(undo) > mark:
            restore, old = undo.pop()
            restore(old)


@dataclass(frozen=True, slots=True)
class Classes:
    """The devices of an attempt in classes of interchangeable ones. several: of two and more. alone: all others."""

    several: Sequence[Mask]
    alone: Mask


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work a rule has, counted in devices, values and amounts that it reads."""

    whole: int
    """For any domain, and for a pick."""
    narrow: int = 0
    """For `narrow` in addition, for each device of the domain."""
    room: int = 0
    """For `room` and `joint_room` in addition, for each device of the domain."""
    joint: int = 0
    """For `joint_room` in addition, for each alternative."""
    fingerprint: int = 1
    """For `Rule.fingerprint`."""


class Rule(metaclass=ABCMeta):
    """Can refuse devices during the search. A rule changes only in `take`, and the trail undoes it.

    `take` refuses all that `narrow` drops, unless `hides` is set: then no other rule sees a dropped device, and it
    does not end the attempt even if it cannot be decided.
    """

    __slots__ = ()

    @property
    def hides(self) -> bool:
        """True if a device that `narrow` drops is hidden from the other rules."""
        return False

    @property
    def is_monotone(self) -> bool:
        """False if a pick may allow what was refused before."""
        return True

    @abstractmethod
    def take(self, slot: DeviceSlot, device: int, trail: Trail) -> bool:
        """Pick the device; False refuses it, and the caller rewinds."""

    @abstractmethod
    def alike(self, device: int) -> Hashable:
        """Equal for devices that the rule cannot distinguish, picked or not."""

    @abstractmethod
    def fingerprint(self, classes: Classes) -> Hashable:
        """What the rule remembers of the picks made, with the devices of one class taken as interchangeable."""

    @abstractmethod
    def effort(self, picks: int) -> Effort:
        """How much work the rule has in an attempt of so many picks, at most."""

    def narrow(self, slot: DeviceSlot, domain: Mask) -> Mask:
        """What of the domain is still possible after the picks made; never more than the domain."""
        return domain

    def room(self, slot: DeviceSlot, domain: Mask) -> int:
        """How many devices of the domain could be picked for the slot's request at most."""
        return domain.bit_count()

    def joint_room(self, alternatives: Sequence[Candidates], requests: int, domain: Mask, enough: int) -> int:
        """How many picks of the domain so many requests with these alternatives can make together, at most.

        enough: no more matter; any number that is not less says the same.
        """
        return UNBOUNDED

    def touched(self) -> Mask:
        """Devices that can still be picked, but are no longer interchangeable with those that were alike."""
        return 0
