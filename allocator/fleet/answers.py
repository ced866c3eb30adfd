"""The answers of all nodes to one question."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from allocator.fleet.fingerprint import Projection
from allocator.fleet.group_changes import NodeGroup
from allocator.fleet.unable import Unable
from allocator.model import DeviceClass
from allocator.policies.contract import Score
from allocator.search.rules import Choice, Mask

Key = TypeVar("Key", bound=Hashable)

Rank = tuple[int, Score]
"""How early the chosen subrequests stand, as kube-scheduler counts it, and the score of the policy."""

NEVER: Final = -1
"""What answers have seen that do not know the fleet."""


@dataclass(frozen=True, slots=True)
class Able:
    """The nodes of a group can allocate the claims. chosen: the same positions on each. steps: of the search."""

    rank: Rank
    chosen: tuple[Choice, ...]
    steps: int


@dataclass(frozen=True, slots=True)
class Failing:
    """The node ends the attempt for all nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """Which slices of a node count: those of pools with a device that the claims could have.

    number: the same for nodes between which the claims do not distinguish. own: a flag for each slice that the node
    alone reaches; shared: for each of the others.
    """

    number: int
    own: tuple[bool, ...]
    shared: tuple[bool, ...]

    @property
    def is_all(self) -> bool:
        """Whether all slices count, and no other node reaches one."""
        return not self.shared and all(self.own)


Answer = Able | Failing | Unable
FAILING: Final = Failing()
"""The only instance that is needed."""


@dataclass(slots=True, eq=False)
class Answers:
    """The answers to one question.

    classes: those that the claims name; their identities belong to the question. text: characters of its expressions.
    by_rank: the able nodes. by_text: the unable ones, by what they say and whether each names pools of its own.
    failing: those that end an attempt. of_group: by group of nodes. seen, seen_shared: the changes that are
    taken into account. counting: by projection, which slices of a node count; shared: the numbers of those among them
    that several nodes reach. by_distinctions: the same by what the claims distinguish and by `values`, the projection
    of what features and the policy read; numbered: how many. worked_out: by number of the counting, and usage.
    """

    classes: tuple[DeviceClass | None, ...]
    projection: Projection
    values: Projection
    text: int
    by_rank: dict[Rank, Mask] = field(default_factory=dict)
    by_text: dict[tuple[str, bool], Mask] = field(default_factory=dict)
    failing: Mask = 0
    of_group: dict[NodeGroup, Answer] = field(default_factory=dict)
    worked_out: dict[Hashable, Answer] = field(default_factory=dict)
    seen: int = NEVER
    seen_shared: int = NEVER
    counting: dict[int, Counting] = field(default_factory=dict)
    by_distinctions: dict[Hashable, Counting] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)
    numbered: int = 0
    _alike: dict[Hashable, Answer] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """The number of answers that are kept, by group, and of projections that are known."""
        return len(self.of_group) + len(self.worked_out) + len(self.counting)

    def once(self, answer: Answer) -> Answer:
        """The answer, or an equal one that is kept already: most nodes are refused for the same reason."""
        if isinstance(answer, Failing):
            return answer
        key: Hashable = answer if isinstance(answer, Able) else answer.text
        known = self._alike.get(key)
        if known == answer:
            return known
        self._alike[key] = answer
        return answer

    def forget_worked_out(self) -> None:
        """Forget what is known by projection."""
        self.worked_out.clear()
        self.counting.clear()
        self.by_distinctions.clear()
        self._alike.clear()

    def forget_groups(self, gone: Iterable[NodeGroup]) -> None:
        """Forget the answers of groups that have no node any more, and get none again."""
        for group in gone:
            self.of_group.pop(group, None)

    def clear(self) -> None:
        """Forget which nodes are in which group."""
        self.by_rank, self.by_text, self.failing, self.of_group = {}, {}, 0, {}

    def add(self, answer: Answer, nodes: Mask) -> None:
        """Add nodes to those of that answer."""
        match answer:
            case Able(rank):
                self.by_rank[rank] = self.by_rank.get(rank, 0) | nodes
            case Failing():
                self.failing |= nodes
            case Unable():
                self.by_text[answer.key] = self.by_text.get(answer.key, 0) | nodes

    def remove(self, answer: Answer, nodes: Mask) -> None:
        """Remove nodes from those of that answer."""
        match answer:
            case Able(rank):
                _remove(self.by_rank, rank, nodes)
            case Failing():
                self.failing &= ~nodes
            case Unable():
                _remove(self.by_text, answer.key, nodes)

    def move(self, old: Answer, new: Answer, number: int) -> None:
        """Move the node from those of one answer to those of another."""
        if _say_the_same(old, new):
            return
        node = 1 << number
        self.remove(old, node)
        self.add(new, node)


def _say_the_same(one: Answer, other: Answer) -> bool:
    """Whether the nodes of both stand in the same mask."""
    if isinstance(one, Able):
        return isinstance(other, Able) and one.rank == other.rank
    if isinstance(one, Unable):
        return isinstance(other, Unable) and one.key == other.key
    return one is other


def _remove(masks: dict[Key, Mask], key: Key, nodes: Mask) -> None:
    rest = masks[key] ^ nodes  # all of them are there
    if rest:
        masks[key] = rest
    else:
        del masks[key]
