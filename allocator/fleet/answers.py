"""The answers for one shape of claims: what each state of a node comes to, and so which nodes can do it.

A *state* is what decides about a node: its base and what is in use of it. Nodes in one state are asked as
one, and an answer is kept for as long as the shape is.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import cel
from allocator.cluster.reads import ReadKey
from allocator.cluster.snapshot import Snapshot
from allocator.exact import values_of
from allocator.features import FEATURES
from allocator.fleet.fingerprint import Lens
from allocator.fleet.refusals import Unable
from allocator.model import Claim, DeviceClass, Request
from allocator.outcome import Allocated
from allocator.policies.contract import Score
from allocator.search.rules import Mask

Key = TypeVar("Key", bound=Hashable)

Rank = tuple[int, Score]
"""How much earlier alternatives are preferred, as kube-scheduler counts it, and what the policy says."""


NEVER = -1
"""What a shape has seen that does not know the fleet."""

MOST_ALTERNATIVES = 8
"""Subrequests of a request; kube-scheduler's score counts down from here."""


@dataclass(slots=True, eq=False)
class State:
    """What decides about a node. usage: of its own slices. shared: slices that other nodes reach too, by identity.

    mask: the nodes that are in it.
    """

    base: int
    usage: tuple[Hashable, ...]
    shared: tuple[int, ...]
    mask: Mask = 0


@dataclass(frozen=True, slots=True)
class Able:
    """The node can."""

    rank: Rank


@dataclass(frozen=True, slots=True)
class Failing:
    """The node makes kube-scheduler give up."""


@dataclass(frozen=True, slots=True)
class Counting:
    """The slices of a node whose use can matter to a shape: those of pools with a device that it could have.

    own: a flag for each of the node's own slices; shared: for each that other nodes reach too.
    """

    own: tuple[bool, ...]
    shared: tuple[bool, ...]


Answer = Able | Failing | Unable
FAILING = Failing()
"""The one answer of its kind."""


@dataclass(slots=True, eq=False)
class Shape:
    """A shape. classes: those that it names, which keep their identity as long as they are here. lens: what it reads.

    text: how many characters its expressions have.
    by_rank: the able nodes. by_text: the unable ones, by what they say and whether each names pools of its own.
    failing: those that end an attempt. of_state: of the states that nodes are in, or were lately. answers: by content
    and usage. seen, seen_shared: up to which change it knows the fleet. counting: by content, which slices of a node
    count for it; shared: those among them that several nodes reach, by identity.
    """

    classes: tuple[DeviceClass | None, ...]
    lens: Lens
    text: int
    by_rank: dict[Rank, Mask] = field(default_factory=dict)
    by_text: dict[tuple[str, bool], Mask] = field(default_factory=dict)
    failing: Mask = 0
    of_state: dict[State, Answer] = field(default_factory=dict)
    answers: dict[Hashable, Answer] = field(default_factory=dict)
    seen: int = NEVER
    seen_shared: int = NEVER
    counting: dict[Hashable, "Counting"] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)
    _alike: dict[Hashable, Answer] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """How many answers are kept here, by state and by content."""
        return len(self.of_state) + len(self.answers)

    def once(self, answer: Answer) -> Answer:
        """The answer, or an equal one that is kept already: most nodes that differ are refused for the same reason."""
        if isinstance(answer, Failing):
            return answer
        told: Hashable = answer.rank if isinstance(answer, Able) else answer.text
        known = self._alike.get(told)
        if known == answer:
            return known
        self._alike[told] = answer
        return answer

    def forget_answers(self) -> None:
        """Forget what is known by content."""
        self.answers.clear()
        self.counting.clear()
        self._alike.clear()

    def clear(self) -> None:
        """Forget which nodes are in which state."""
        self.by_rank, self.by_text, self.failing, self.of_state = {}, {}, 0, {}

    def add(self, answer: Answer, nodes: Mask) -> None:
        """Put nodes where their answer belongs."""
        match answer:
            case Able(rank):
                self.by_rank[rank] = self.by_rank.get(rank, 0) | nodes
            case Failing():
                self.failing |= nodes
            case Unable():
                self.by_text[answer.key] = self.by_text.get(answer.key, 0) | nodes

    def remove(self, answer: Answer, nodes: Mask) -> None:
        """Take nodes away from where their answer belongs."""
        match answer:
            case Able(rank):
                _remove(self.by_rank, rank, nodes)
            case Failing():
                self.failing &= ~nodes
            case Unable():
                _remove(self.by_text, answer.key, nodes)


def _remove(groups: dict[Key, Mask], key: Key, nodes: Mask) -> None:
    rest = groups[key] & ~nodes
    if rest:
        groups[key] = rest
    else:
        del groups[key]


def shape_of(claims: Iterable[Claim]) -> Hashable:
    """All that decides about devices: equal for claims that differ in their own names only."""
    return tuple([(_of_claim(claim), tuple(map(_shape_of_request, claim.requests))) for claim in claims])


def _shape_of_request(request: Request) -> Hashable:
    return _of_request(request), tuple([(one.name, one.shape) for one in request.alternatives])


_of_claim = values_of(
    Claim,
    {
        **dict.fromkeys(["namespace", "name", "uid"], "its own names"),
        "requests": "`_shape_of_request` tells them",
        "config": "written into the result",
        "allocation": "claims are asked for that have none",
    },
)
_of_request = values_of(Request, {"alternatives": "each has a shape of its own"})


def rank_of(claims: Sequence[Claim], allocated: Allocated) -> int:
    """kube-scheduler's score of the chosen subrequests.

    Source: KEP-4816, plugin DynamicResources.
    """
    rank = 0
    for claim, allocation in zip(claims, allocated.allocations, strict=True):
        chosen = {result.request for result in allocation.results}
        for request in claim.requests:
            if request.is_first_available:
                places = (place for place, one in enumerate(request.alternatives) if one.name in chosen)
                rank += MOST_ALTERNATIVES - next(places, MOST_ALTERNATIVES)
    return rank


def reads_of(snapshot: Snapshot, claims: Sequence[Claim], by_policy: Sequence[str]) -> ReadKey:
    """What the claims' selectors and constraints, and the policy, read of a device."""
    programs = []
    for expression in expressions_of(snapshot, claims):
        try:
            programs.append(cel.compile(expression, snapshot.features.environment).reads)
        except cel.CompileError:
            continue
    attributes = [c.match_attribute or c.distinct_attribute for claim in claims for c in claim.constraints]
    by_feature = [name for feature in FEATURES for name in feature.reads]
    reads = ReadKey.of_programs(programs, (*attributes, *by_policy, *by_feature))
    derives = any(a.derived_attributes for c in claims for request in c.requests for a in request.alternatives)
    return replace(reads, has_all=reads.has_all or derives)


def expressions_of(snapshot: Snapshot, claims: Sequence[Claim]) -> Iterable[str]:
    """The selectors of the claims and of their classes."""
    for claim in claims:
        for request in claim.requests:
            for alternative in request.alternatives:
                device_class = snapshot.classes.get(alternative.class_name)
                yield from filter(None, (*(device_class.selectors if device_class else ()), *alternative.selectors))
