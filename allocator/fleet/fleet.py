"""All nodes at once: which of them can give claims their devices, without doing anything twice.

Claims that differ in names only have one *shape*. To a shape, nodes whose devices agree in all that its
selectors and constraints read, and in what is in use, are the same: the allocator is asked for one of
them, and the answer serves all. Events (a claim is allocated, a slice is published, a node is labelled)
only note what they touch; the next question works that out, once. So a pod of a known shape costs what
has changed since the last one.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

from allocator.allocate import BUDGET_STEPS, allocate, pools_looked_at, share_id_of
from allocator.cluster.pools import Pool
from allocator.cluster.slice_index import SliceIndex
from allocator.cluster.snapshot import Snapshot, is_same
from allocator.cluster.usage import Usage, occupying
from allocator.fleet.answers import (
    FAILING,
    NEVER,
    Able,
    Answer,
    Counting,
    Rank,
    Shape,
    State,
    expressions_of,
    rank_of,
    reads_of,
    shape_of,
)
from allocator.fleet.changes import Changes
from allocator.fleet.fingerprint import SPARE, Contents
from allocator.fleet.node_index import NodeIndex
from allocator.fleet.occupancy import NOTHING, Occupancy
from allocator.fleet.refusals import Unable, beside
from allocator.gates import Features
from allocator.model import Claim, Device, DeviceClass, Node, PoolID, Slice
from allocator.outcome import Allocated, AllocationError, Outcome
from allocator.policies.contract import FIRST_FIT, Policy, Score
from allocator.search.rules import Mask, bits

MOST_SHAPES = 256
"""Shapes that are kept; beyond, the one that was not asked for the longest is forgotten."""

MOST_ANSWERS = 1 << 20
"""Answers of all shapes together that are kept, by state and by content, where the fleet is small; some 150 MiB."""

LEAST_SHAPES = 32
"""Shapes that are kept however large the fleet is: one that was forgotten is worked out anew, node by node."""

MOST_TEXT = 1 << 24
"""Characters of the expressions of all shapes that are kept: one claim has room for a million."""

INVALID = -1
"""The base of a node whose pools cannot be said."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best node for the claims, and what they get there."""

    node: Node
    allocated: Allocated


@dataclass(slots=True, eq=False)
class _Member:
    """A node of the fleet. pools: None where they cannot be said; state: None until it is worked out."""

    node: Node
    pools: tuple[Pool, ...] | None = ()
    base: int = INVALID
    state: State | None = None


class Fleet:
    """The nodes of a cluster and the shapes asked for; whoever owns it tells it of every event.

    Nodes have numbers, which the owner gives; bit i of a mask is node i, and of equals the lowest number is taken.
    is_cancelled: asked again and again while a question is worked out, which then raises Cancelled; what was worked out
    by then is kept for the next one.
    asked, gathered: how often the allocator was asked, and a node's pools were gathered, since the beginning.
    """

    def __init__(  # noqa: PLR0913 - the last four have defaults, and are how the allocator is asked
        self,
        snapshot: Snapshot,
        nodes: Iterable[Node] = (),
        *,
        policy: Policy = FIRST_FIT,
        budget_steps: int = BUDGET_STEPS,
        share_id: Callable[[str], str] = share_id_of,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.all: Mask = 0
        self.asked = 0
        self.gathered = 0
        self._snapshot = snapshot
        self._is_lent = True  # somebody else looks at the slices of the snapshot
        self._ask = _Question(policy, budget_steps, share_id, is_cancelled)
        self._members: dict[int, _Member] = {}
        self._index = NodeIndex()
        self._contents = Contents()
        self._occupancy = Occupancy()
        self._states: dict[tuple[int, Hashable], State] = {}
        self._shapes: dict[Hashable, Shape] = {}
        self._kept = self._text = 0
        self._changes = Changes()
        self._ungathered: set[int] = set()
        self._changed_pools: set[PoolID] = set()
        self._unreached = snapshot.slices.unreached(snapshot.features)
        self._changed_usage: set[PoolID] = {*snapshot.usage.holders, *snapshot.usage.shares}
        for number, node in enumerate(nodes):
            self.set_node(number, node)

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as it is now, whatever happens later. Cost: O(slices), due when the next slice comes or goes."""
        self.settle()
        self._is_lent = True
        return self._snapshot

    @property
    def features(self) -> Features:
        """What is in force."""
        return self._snapshot.features

    @property
    def policy(self) -> Policy:
        """What decides between valid answers."""
        return self._ask.policy

    @property
    def budget_steps(self) -> int:
        """How many steps a node may take."""
        return self._ask.budget_steps

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """The classes that there are now, by name."""
        return self._snapshot.classes

    @property
    def kept(self) -> int:
        """The answers of all shapes, by state and by content."""
        return self._kept

    @property
    def usage(self) -> Usage:
        """What is in use now; unlike `snapshot`, it costs nothing."""
        return self._snapshot.usage

    @property
    def slices(self) -> SliceIndex:
        """The slices that there are until the next event; unlike `snapshot`, it costs nothing."""
        return self._snapshot.slices

    # -- events

    def set_node(self, number: int, node: Node) -> None:
        """A node is there, or has changed. Raises ValueError where another number has a node of that name."""
        member = self._members.get(number)
        if member is not None and is_same(member.node, node):
            member.node = node
            return
        if member is not None and member.node.name != node.name:
            self.remove_node(number)
        self._index.set(number, node)
        self._members.setdefault(number, _Member(node)).node = node
        self.all |= 1 << number
        self._ungathered.add(number)

    def remove_node(self, number: int) -> None:
        """A node is gone; its number may be given to another. Raises KeyError where there is none."""
        member = self._members.pop(number)
        self._index.remove(number)
        self.all &= ~(1 << number)
        self._ungathered.discard(number)
        self._leave(number, member)
        self._snapshot.forget_view(member.node.name)

    def add_slice(self, piece: Slice) -> None:
        """A slice is published; where it replaces another one, that one is removed before."""
        self._changed_pools.add(self._own_slices().add(piece).pool_id)

    def remove_slice(self, piece: Slice) -> None:
        """A slice is gone; it has to be the object that was added. Raises KeyError where it was not."""
        gone = self._own_slices().remove(piece)
        self._changed_pools.add(gone.pool_id)
        self._ungathered.update(self._reaching(gone))
        self._contents.forget(gone)
        self._snapshot.selectors.forget(gone)

    def add_allocated(self, claims: Iterable[Claim]) -> None:
        """These allocated claims hold their devices from now on."""
        claims = tuple(claims)
        self._snapshot = self._snapshot.with_usage(self._snapshot.usage.plus(claims))
        self._changed_usage.update(_pools_of(claims))

    def remove_allocated(self, claims: Iterable[Claim]) -> None:
        """These claims hold their devices no more; they have to be as they were added. Raises ValueError otherwise."""
        claims = tuple(claims)
        self._snapshot = self._snapshot.with_usage(self._snapshot.usage.minus(claims))
        self._changed_usage.update(_pools_of(claims))

    def set_class(self, device_class: DeviceClass) -> None:
        """A class is there, or has changed."""
        self._snapshot = self._snapshot.with_classes({**self._snapshot.classes, device_class.name: device_class})

    def remove_class(self, name: str) -> None:
        """A class is gone. Raises KeyError where there is none."""
        classes = dict(self._snapshot.classes)
        del classes[name]
        self._snapshot = self._snapshot.with_classes(classes)

    # -- questions

    def choose(self, claims: Sequence[Claim], allowed: Mask) -> Chosen | None:
        """The best of the allowed nodes by the policy, the first of equals; None where none can.

        Raises AllocationError where one of the allowed nodes makes kube-scheduler give up on the claims.
        Cost: O(what has changed since the shape was asked for last), and one allocation.
        """
        by_score: dict[Score, Mask] = {}
        for (_, score), mask in self.scores(claims, allowed).items():
            by_score[score] = by_score.get(score, 0) | mask
        if not by_score:
            return None
        able = by_score[max(by_score)]
        number = (able & -able).bit_length() - 1
        outcome = self.allocate(number, claims)
        node = self._members[number].node
        assert isinstance(outcome, Allocated), f"node {node.name} was able a moment ago: {outcome}"
        return Chosen(node, outcome)

    def scores(self, claims: Sequence[Claim], allowed: Mask) -> Mapping[Rank, Mask]:
        """The allowed nodes that can, by rank and policy score; more is better. Raises AllocationError as `choose`.

        Rank: over all requests with firstAvailable, 8 less the position of the chosen subrequest, summed up.
        Cost: O(what has changed since the shape was asked for last).
        """
        shape = self._shape(claims)
        if failing := shape.failing & allowed:
            self.allocate(next(bits(failing)), claims)
        return {rank: able for rank, mask in shape.by_rank.items() if (able := mask & allowed)}

    def able(self, claims: Sequence[Claim]) -> Mask:
        """The nodes that can give the claims their devices."""
        able = 0
        for mask in self._shape(claims).by_rank.values():
            able |= mask
        return able

    def allocate(self, number: int, claims: Sequence[Claim], freed: Sequence[Claim] = ()) -> Outcome:
        """What becomes of the claims on one node. Raises AllocationError. Cost: an allocation.

        freed: claims that hold devices, and would hold none by then; as they were added.
        """
        self.asked += 1
        self.settle()
        snapshot = self._snapshot
        if freed:
            snapshot = snapshot.with_usage(snapshot.usage.minus(freed))
        return self._ask.of(snapshot, self._members[number].node, claims)

    def devices(self, node: Node) -> Sequence[Device]:
        """The devices that the node reaches, of usable pools. Raises InvalidPool."""
        self.settle()
        return self._snapshot.view(node).devices

    def unable(self, claims: Sequence[Claim], allowed: Mask) -> Iterator[tuple[Outcome, Mask]]:
        """The allowed nodes that cannot, by why: with numbers of devices, but without the holders, who differ by node.

        The groups stand in the order of their first nodes; one with contradictory pools names those of its first node.
        To be read before the next event. Cost: O(different reasons), but for what has changed since the shape was asked
        for last; nothing is allocated that was not asked before.
        """
        shape = self._shape(claims)
        groups = [nodes for mask in shape.by_text.values() if (nodes := mask & allowed)]
        for nodes in sorted(groups, key=lambda mask: mask & -mask):
            number = next(bits(nodes))
            yield self._said(self._unable_of(shape, number), number, claims, None), nodes

    def unable_by_node(self, claims: Sequence[Claim], allowed: Mask) -> Iterator[tuple[Outcome, Mask]]:
        """As `unable`, with each node that has contradictory pools alone: only it can name them."""
        shape = self._shape(claims)
        for outcome, nodes in self.unable(claims, allowed):
            numbers = list(bits(nodes))
            if not self._unable_of(shape, numbers[0]).is_own:
                yield outcome, nodes
                continue
            for number in numbers:
                yield self._said(self._unable_of(shape, number), number, claims, None), 1 << number

    def refusal(self, claims: Sequence[Claim], number: int) -> Outcome:
        """Why the node cannot, with the holders of its devices; of a node that `unable` names, before the next event.

        Cost: O(devices of the node), but for what has changed since the shape was asked for last.
        """
        answer = self._unable_of(self._shape(claims), number)
        return self._said(answer, number, claims, self._snapshot.usage)

    def _unable_of(self, shape: Shape, number: int) -> Unable:
        state = self._members[number].state
        assert state is not None, f"node number {number} is in no state"
        answer = shape.of_state[state]
        assert isinstance(answer, Unable), f"node number {number} refuses nothing: {answer}"
        return answer

    # -- shapes

    def _shape(self, claims: Sequence[Claim]) -> Shape:
        """The shape of the claims, which knows the fleet as it is now."""
        self.settle()
        names = [a.class_name for claim in claims for request in claim.requests for a in request.alternatives]
        classes = tuple([self._snapshot.classes.get(name) for name in names])
        key = (shape_of(claims), *map(id, classes))
        shape = self._shapes.pop(key, None)
        if shape is None:
            shape = self._new_shape(claims, classes)
            self._text += shape.text
        self._shapes[key] = shape  # at the end: the first one is the one that was not asked for the longest
        if shape.seen != self._changes.now or self._has_shared(shape):
            before = shape.kept
            try:
                self._catch_up(shape, claims)
            finally:
                self._kept += shape.kept - before
        while self._is_full() and len(self._shapes) > 1:
            gone = self._shapes.pop(next(iter(self._shapes)))
            self._kept -= gone.kept
            self._text -= gone.text
        return shape

    def _is_full(self) -> bool:
        most = max(MOST_ANSWERS, 2 * LEAST_SHAPES * len(self._states))
        return len(self._shapes) > MOST_SHAPES or self._kept > most or self._text > MOST_TEXT

    def _catch_up(self, shape: Shape, claims: Sequence[Claim]) -> None:
        """Let the shape know what has changed since it was asked for last."""
        changes = self._changes
        before = None if self._has_shared(shape) else changes.since(shape.seen)
        shape.seen = NEVER  # until it is through: where that is cancelled, it begins anew, with the answers that it has
        if before is None or len(before) > len(self._states) or len(shape.of_state) > 2 * len(self._states) + SPARE:
            shape.clear()
            shape.shared.clear()
            for state in self._states.values():
                shape.add(self._answer(shape, state, claims), state.mask)
        else:
            for number, old in before.items():
                self._move(shape, number, old, claims)
        shape.seen, shape.seen_shared = changes.now, changes.shared

    def _move(self, shape: Shape, number: int, old: State | None, claims: Sequence[Claim]) -> None:
        """Put the node where its answer belongs now. old: its state when the shape saw it last."""
        member = self._members.get(number)
        new = member.state if member else None
        if new is old:
            return
        if old is not None:
            shape.remove(shape.of_state[old], 1 << number)
        if new is not None:
            shape.add(self._answer(shape, new, claims), 1 << number)

    def _answer(self, shape: Shape, state: State, claims: Sequence[Claim]) -> Answer:
        """What the state comes to; only one that was never seen is worked out."""
        known = shape.of_state.get(state)
        if known is not None:
            return known
        if len(shape.answers) > 4 * len(self._states) + SPARE:
            shape.forget_answers()
        number = (state.mask & -state.mask).bit_length() - 1
        key = self._key_of(shape, state, number, claims)
        if key not in shape.answers:
            shape.answers[key] = shape.once(self._work_out(number, claims))
        shape.of_state[state] = shape.answers[key]
        return shape.answers[key]

    def _has_shared(self, shape: Shape) -> bool:
        """Whether something else is in use of what nodes share, as far as it matters to the shape."""
        changes = self._changes
        if shape.seen_shared == changes.shared:
            return False
        if shape.seen_shared == NEVER or changes.has_shared(shape.shared, shape.seen_shared):
            return True
        shape.seen_shared = changes.shared
        return False

    def _key_of(self, shape: Shape, state: State, number: int, claims: Sequence[Claim]) -> Hashable:
        """What decides about the answer: the content as the shape reads it, and what is in use of what counts."""
        member = self._members[number]
        if member.pools is None:
            return INVALID
        content = shape.lens.content(self._contents, state.base, member.node, member.pools)
        counting = shape.counting.get(content)
        if counting is None:
            counting = shape.counting[content] = self._counting(member.node, member.pools, claims)
        usage = tuple(compress(state.usage, counting.own))
        shared = tuple(compress(state.shared, counting.shared))
        shape.shared.update(shared)
        return content, usage if any(usage) else NOTHING, tuple([self._occupancy.of(identity) for identity in shared])

    def _counting(self, node: Node, pools: Sequence[Pool], claims: Sequence[Claim]) -> Counting:
        """Which slices count. A policy may look at all that is in use; else it is the pools that the claims look at."""
        is_cancelled = self._ask.is_cancelled
        is_all = self._ask.policy is not FIRST_FIT
        looked_at = None if is_all else pools_looked_at(self._snapshot, node, claims, is_cancelled)
        own: list[bool] = []
        shared: list[bool] = []
        for pool in pools:
            counts = looked_at is None or pool.id in looked_at
            own += [counts for piece in pool.slices if piece.reach.node_name]
            shared += [counts for _ in self._shared((pool,))]
        return Counting(tuple(own), tuple(shared))

    def _new_shape(self, claims: Sequence[Claim], classes: tuple[DeviceClass | None, ...]) -> Shape:
        lens = self._contents.lens(reads_of(self._snapshot, claims, self._ask.policy.reads))
        return Shape(classes, lens, sum(map(len, expressions_of(self._snapshot, claims))))

    def _work_out(self, number: int, claims: Sequence[Claim]) -> Answer:
        try:
            outcome = self.allocate(number, claims)
        except AllocationError:
            return FAILING
        if isinstance(outcome, Allocated):
            return Able((rank_of(claims, outcome), outcome.score))
        return Unable.of(outcome, claims, self._devices(number))

    def _said(self, answer: Unable, number: int, claims: Sequence[Claim], usage: Usage | None) -> Outcome:
        """What a node of that answer says. usage: None where the holders of devices need not be told."""
        pools = self._members[number].pools or ()
        invalid = tuple((pool.id, pool.contradiction) for pool in pools if pool.contradiction)
        return beside(answer.told(claims, self._devices(number), usage), invalid)

    def _devices(self, number: int) -> Sequence[Device]:
        """The devices of the node in the order of its view."""
        pools = self._members[number].pools or ()
        return [device for pool in pools if pool.is_usable for piece in pool.slices for device in piece.devices]

    # -- states

    def settle(self) -> None:
        """Work out what the events since the last question have touched; a question does so itself."""
        if self._changed_pools:
            for pool_id in self._changed_pools:
                self._occupancy.forget(pool_id)
                for piece in self._snapshot.slices.by_pool.get(pool_id, ()):
                    self._ungathered.update(self._reaching(piece))
            self._changed_usage |= self._changed_pools
            self._changed_pools = set()
            unreached = self._snapshot.slices.unreached(self.features)
            if unreached is not self._unreached:
                self._unreached = unreached
                self._ungathered.update(self._members)
            self._snapshot.forget_view(None)
        if self._changed_usage:
            pools, self._changed_usage = self._changed_usage, set()
            for pool_id in pools:
                published = self._snapshot.slices.by_pool.get(pool_id, ())
                for piece in self._occupancy.update(pool_id, published, self._snapshot.usage):
                    self._restate_those_on(piece)
        if self._ungathered:
            numbers, self._ungathered = self._ungathered, set()
            self._gather(sorted(numbers))

    def _own_slices(self) -> SliceIndex:
        """The slices, to be changed."""
        if self._is_lent:
            self._snapshot, self._is_lent = self._snapshot.apart(), False
        return self._snapshot.slices

    def _reaching(self, piece: Slice) -> Iterable[int]:
        """The nodes that may reach the slice."""
        return self._index.with_one_of(self._snapshot.slices.labels_of(piece))

    def _restate_those_on(self, piece: Slice) -> None:
        """Something else of the slice is in use now."""
        self._changes.of_shared(piece)
        number = self._index.number_of(piece.reach.node_name)
        if number is not None and number not in self._ungathered:
            self._restate(number, self._members[number])

    def _gather(self, numbers: Iterable[int]) -> None:
        if self._contents.is_bloated(len(self._members)):
            self._start_again()
            numbers = sorted(self._members)
        for number in numbers:
            member = self._members[number]
            self.gathered += 1
            self._snapshot.forget_view(member.node.name)
            try:
                member.pools = self._snapshot.pools(member.node)
                member.base = self._contents.base(member.node, member.pools)
            except AllocationError:
                member.pools, member.base = None, INVALID
            self._restate(number, member)

    def _start_again(self) -> None:
        """Give all numbers anew: most of them are of what is gone."""
        self._contents = Contents()
        self._states, self._shapes, self._changes = {}, {}, Changes()
        self._kept = self._text = 0
        for member in self._members.values():
            member.state = None

    def _restate(self, number: int, member: _Member) -> None:
        """Put the node into the state that it is in."""
        slices = [piece for pool in member.pools or () for piece in pool.slices if piece.reach.node_name]
        tokens = tuple([self._occupancy.of(id(piece)) for piece in slices])
        usage = tokens if any(tokens) else NOTHING
        old = member.state
        if old is not None and old.base == member.base and old.usage == usage:
            return
        self._leave(number, member)
        state = self._states.get((member.base, usage))
        if state is None:
            shared = tuple(map(id, self._shared(member.pools or ())))
            state = self._states[member.base, usage] = State(member.base, usage, shared)
            self._changes.watch(state)
        state.mask |= 1 << number
        member.state = state

    def _shared(self, pools: Iterable[Pool]) -> Iterable[Slice]:
        """The slices that count for the node, and for others as well."""
        for pool in pools:
            yield from (piece for piece in pool.slices if not piece.reach.node_name)
            if self._contents.counted_elsewhere(pool):
                yield from pool.elsewhere

    def _let_go_of_states(self) -> None:
        """Shapes that cannot catch up any more begin anew when they are asked for: what they hold is of no use."""
        for shape in self._shapes.values():
            if shape.seen < self._changes.forgotten:
                self._kept -= len(shape.of_state)
                shape.clear()
                shape.seen = NEVER

    def _leave(self, number: int, member: _Member) -> None:
        state = member.state
        if self._changes.add(number, state, len(self._members)):
            self._let_go_of_states()
        if state is None:
            return
        member.state = None
        state.mask &= ~(1 << number)
        if not state.mask:
            del self._states[state.base, state.usage]
            self._changes.unwatch(state)


@dataclass(frozen=True, slots=True)
class _Question:
    """How the allocator is asked."""

    policy: Policy
    budget_steps: int
    share_id: Callable[[str], str]
    is_cancelled: Callable[[], bool]

    def of(self, snapshot: Snapshot, node: Node, claims: Sequence[Claim]) -> Outcome:
        return allocate(
            snapshot,
            node,
            claims,
            budget_steps=self.budget_steps,
            share_id=self.share_id,
            is_cancelled=self.is_cancelled,
            policy=self.policy,
        )


def _pools_of(claims: Iterable[Claim]) -> set[PoolID]:
    return {PoolID(result.driver, result.pool) for claim in claims for result in occupying(claim)}
