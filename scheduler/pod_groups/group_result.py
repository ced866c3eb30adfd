"""What becomes of a group: where its members go, why they cannot, or that the search ended before it was known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scheduler.core_v1.pod import Pod
from scheduler.decision.schedule_result import Placed
from scheduler.plugins.plugin import Refusal


class OutOfGroupSteps(Exception):
    """The search has taken all its steps."""


@dataclass(slots=True)
class GroupSteps:
    """Steps of a search; taking one more than `most` raises OutOfGroupSteps."""

    most: int
    look: Callable[[], None] = lambda: None
    """At the time that the decision has; raises Cancelled. What is much work between two steps calls it as well."""
    taken: int = 0

    def take(self) -> None:
        """One more. Raises OutOfGroupSteps, Cancelled."""
        self.taken += 1
        if self.taken > self.most:
            raise OutOfGroupSteps
        self.look()


@dataclass(frozen=True, slots=True)
class PlacedMember:
    """A member and its place."""

    pod: Pod
    placed: Placed


@dataclass(frozen=True, slots=True)
class GroupPlaced:
    """These members go to their nodes, all at once. left: the waiting ones without a place. domain: of its topology."""

    members: tuple[PlacedMember, ...]
    left: tuple[Pod, ...] = ()
    domain: str = ""
    steps: int = 0


@dataclass(frozen=True, slots=True)
class GroupDomain:
    """Nodes where the group does not fit."""

    name: str
    largest: tuple[Pod, ...] = ()
    """The greatest subset of its members that does."""
    next_member: Pod | None = None
    """Who is the next."""
    refusal: Refusal | None = None
    """Why that one has no place there beside them, as of a pod alone."""
    child: str = ""
    """The group of the next member, in a group of groups."""

    @property
    def why(self) -> str:
        """The refusal in kube-scheduler's words."""
        return self.refusal.message if self.refusal else ""


@dataclass(frozen=True, slots=True)
class GroupNotPlaced:
    """Too few members have a place at once."""

    problem: str = ""
    """What keeps all of them from every node, else empty."""
    held: bool = False
    """Whether it only waits for other objects."""
    needed: int = 0
    """So many members would have to be placed."""
    domains: Sequence[GroupDomain] = field(default=())
    """Where it was tried, the one with the largest subset first."""
    steps: int = 0


@dataclass(frozen=True, slots=True)
class GroupUnknown:
    """The search ended after so many steps: whether the group fits is not known."""

    steps: int

    def __str__(self) -> str:
        return f"search ended after {self.steps:,} steps: whether the group fits is not known"


GroupResult = GroupPlaced | GroupNotPlaced | GroupUnknown
