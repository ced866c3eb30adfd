"""Answers that hold until something they depend on changes."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from allocator.allocate import with_names
from allocator.bits import Mask, bits
from allocator.cluster.usage import Usage
from allocator.explain.text import OPERATOR, node_text
from allocator.fleet.alike import Countings, DeviceQuestion
from allocator.fleet.nodes import FleetNode, FleetNodes, NodeGroup
from allocator.limits import Bindings
from allocator.model import Claim, Device, DeviceClass, PoolID
from allocator.outcome import (
    JOINED,
    AllBlocked,
    Cause,
    ConstraintUnmet,
    Exhausted,
    InvalidPoolSeen,
    LimitReached,
    NotEnough,
    NotTogether,
    Outcome,
    PoolNotWhole,
    Refused,
)
from allocator.policies.contract import Score
from allocator.search.rules import Choice

# A refusal that holds for a group of nodes, and for all claims that ask the same question.
#
# It keeps positions in place of devices; the names of claims, devices and holders are filled in for those who read it.


@dataclass(frozen=True, slots=True)
class Unable:
    """The nodes of a group cannot allocate the claims.

    outcome: with the positions of devices, but without their names, their holders, contradictory pools, and limits.
    claims: those that were asked for. text: the same for groups that differ in which devices are missing, but not in
    how many. is_own: each node names contradictory pools of its own.
    """

    outcome: Refused | Exhausted
    claims: tuple[str, ...]
    text: str
    is_own: bool

    @property
    def key(self) -> tuple[str, bool]:
        """What it says, and whether each of its nodes names pools of its own."""
        return self.text, self.is_own

    @staticmethod
    def of(outcome: Refused | Exhausted, claims: Sequence[Claim]) -> "Unable":
        """The refusal, which has no names. Cost: O(what it says)."""
        without_pools = _alone(outcome)
        alone = _without_limit(without_pools)
        is_own = without_pools is not outcome
        return Unable(alone, tuple(map(str, claims)), node_text(alone, reader=OPERATOR), is_own)

    def refusal(
        self, claims: Sequence[Claim], devices: Sequence[Device], usage: Usage | None, bindings: Bindings
    ) -> Refused | Exhausted:
        """The refusal of these claims on a node of the group with these devices. Cost: O(devices refused).

        usage: names the devices, and the holders, who differ by node; None leaves both out, at no cost. bindings: the
        limits that the claims could exceed, by which they are named.
        """
        outcome = _with_limit(self.outcome, bindings)
        if usage is not None and isinstance(outcome, Refused):
            outcome = with_names(outcome, devices, usage)
        names = tuple(map(str, claims))
        return outcome if names == self.claims else _renamed(outcome, dict(zip(self.claims, names, strict=True)))


def beside(outcome: Refused | Exhausted, invalid: tuple[tuple[PoolID, str], ...]) -> Refused | Exhausted:
    """The refusal of a node that has these contradictory pools."""
    if not invalid or isinstance(outcome, Exhausted):
        return outcome
    assert not isinstance(outcome.cause, InvalidPoolSeen)
    return replace(outcome, cause=InvalidPoolSeen(invalid, outcome.cause))


def _alone(outcome: Refused | Exhausted) -> Refused | Exhausted:
    """The refusal without contradictory pools."""
    if isinstance(outcome, Exhausted) or not isinstance(outcome.cause, InvalidPoolSeen):
        return outcome
    assert outcome.cause.cause is not None, "the allocator says what is missing, whatever else is wrong"
    return replace(outcome, cause=outcome.cause.cause)


def _without_limit(outcome: Refused | Exhausted) -> Refused | Exhausted:
    """The refusal without the name of a limit: others share the answer."""
    if isinstance(outcome, Refused) and isinstance(outcome.cause, LimitReached):
        return replace(outcome, cause=replace(outcome.cause, limit=None))
    return outcome


def _with_limit(outcome: Refused | Exhausted, bindings: Bindings) -> Refused | Exhausted:
    if isinstance(outcome, Refused) and isinstance(outcome.cause, LimitReached):
        return replace(outcome, cause=replace(outcome.cause, limit=bindings[outcome.cause.number]))
    return outcome


def _renamed(outcome: Refused | Exhausted, names: Mapping[str, str]) -> Refused | Exhausted:
    if isinstance(outcome, Exhausted):
        return outcome
    assert not isinstance(outcome.cause, InvalidPoolSeen)
    return Refused(_renamed_cause(outcome.cause, names), outcome.steps, outcome.features)


def _renamed_cause(cause: Cause, names: Mapping[str, str]) -> Cause:
    """Field by field: `replace` takes five times as long, and this is done for each reason of each refusal."""
    match cause:
        case NotEnough(claim, request, wanted, total, refusals, left):
            return NotEnough(names[claim], request, wanted, total, refusals, left)
        case AllBlocked(claim, request, total, refusals):
            return AllBlocked(names[claim], request, total, refusals)
        case ConstraintUnmet(claim, constraint, requests, wanted, best):
            joint = JOINED.join([names[one] for one in claim.split(JOINED)])
            return ConstraintUnmet(joint, constraint, requests, wanted, best)
        case NotTogether(claims, requests, wanted, left):
            return NotTogether(tuple(names[claim] for claim in claims), requests, wanted, left)
        case PoolNotWhole(claim, request):
            return PoolNotWhole(names[claim], request)
        case LimitReached(claims, number, asked, limit):
            return LimitReached(tuple(names[claim] for claim in claims), number, asked, limit)


# The answers of all nodes to one question.


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


Answer = Able | Failing | Unable
FAILING: Final = Failing()
"""The only instance that is needed."""


@dataclass(slots=True, eq=False)
class Answers:
    """The answers to one question."""

    classes: tuple[DeviceClass | None, ...]
    """The classes that the claims name; their identities are part of the question, so they are kept."""
    countings: Countings
    text: int
    """How many characters its expressions have."""
    by_rank: dict[Rank, Mask] = field(default_factory=dict)
    """The able nodes, by how good they are."""
    by_text: dict[tuple[str, bool], Mask] = field(default_factory=dict)
    """The unable nodes, by what they say and whether each names pools of its own."""
    failing: Mask = 0
    """The nodes that end an attempt."""
    of_group: dict[NodeGroup, Answer] = field(default_factory=dict)
    worked_out: dict[Hashable, Answer] = field(default_factory=dict)
    """The answers by number of the counting and by usage; groups that are equal there share one."""
    seen: int = NEVER
    """The last change of groups that the answers take into account."""
    seen_shared: int = NEVER
    """The last change of slices that several nodes reach, likewise."""
    shared: set[int] = field(default_factory=set)
    """The numbers of the slices that count and that several nodes reach."""
    _alike: dict[Hashable, Answer] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """The number of answers that are kept, by group, and of projections that are known."""
        return len(self.of_group) + len(self.worked_out) + len(self.countings)

    def once(self, answer: Answer) -> Answer:
        """The answer, or an equal one that is kept already: most nodes are refused for the same reason."""
        if isinstance(answer, Failing):
            return answer
        key: Hashable = answer if isinstance(answer, Able) else answer.text
        equal = self._alike.get(key)
        if equal == answer:
            return equal
        self._alike[key] = answer
        return answer

    def forget_worked_out(self) -> None:
        """Forget what is known by projection."""
        self.worked_out.clear()
        self.countings.clear()
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


# Why nodes cannot allocate claims, from the answers that a fleet keeps.


def refusals_by_reason(
    answers: Answers, nodes: FleetNodes, question: DeviceQuestion, allowed: Mask
) -> Iterator[tuple[Outcome, Mask]]:
    """The allowed nodes that cannot, by reason, ordered by the first node of each; without devices and holders."""
    for refused in _by_reason(answers, allowed):
        yield refusal_of(answers, nodes[_first(refused)], question, None), refused


def refusals_by_node(
    answers: Answers, nodes: FleetNodes, question: DeviceQuestion, allowed: Mask
) -> Iterator[tuple[Outcome, Mask]]:
    """The same, with each node that has contradictory pools alone."""
    for refused in _by_reason(answers, allowed):
        if not _unable(answers, nodes[_first(refused)]).is_own:
            yield refusal_of(answers, nodes[_first(refused)], question, None), refused
            continue
        for number in bits(refused):
            yield refusal_of(answers, nodes[number], question, None), 1 << number


def refusal_of(answers: Answers, node: FleetNode, question: DeviceQuestion, usage: Usage | None) -> Outcome:
    """The refusal of one node. usage: names devices and their holders; None leaves them out."""
    unable = _unable(answers, node)
    devices = node.devices() if usage is not None else ()
    refusal = unable.refusal(question.claims, devices, usage, question.bindings)
    if not unable.is_own:
        return refusal
    return beside(refusal, tuple((pool.id, pool.contradiction) for pool in node.pools or () if pool.contradiction))


def _by_reason(answers: Answers, allowed: Mask) -> list[Mask]:
    masks = [refused for mask in answers.by_text.values() if (refused := mask & allowed)]
    return sorted(masks, key=lambda mask: mask & -mask)


def _first(nodes: Mask) -> int:
    return (nodes & -nodes).bit_length() - 1


def _unable(answers: Answers, node: FleetNode) -> Unable:
    assert node.group is not None, f"node {node.node.name} is in no group"
    answer = answers.of_group[node.group]
    assert isinstance(answer, Unable), f"node {node.node.name} refuses nothing: {answer}"
    return answer
