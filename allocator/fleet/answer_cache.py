"""Answers that are kept for the questions asked most recently, and brought up to date when they are used."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import compress
from typing import Final

from allocator.allocate import allocations_like, outcome_of
from allocator.cluster.snapshot import Snapshot
from allocator.fleet.alike import (
    INVALID,
    SPARE,
    Counting,
    Countings,
    DeviceQuestion,
    expressions_of,
    rank_of,
    reads_of,
)
from allocator.fleet.answers import FAILING, NEVER, Able, Answer, Answers, Unable
from allocator.fleet.nodes import NOTHING, CurrentSnapshot, FleetNode, FleetNodes, LeftGroups, NodeGroup
from allocator.limits import Bindings
from allocator.memo import TypedMemo
from allocator.model import Allocation, Claim, DeviceClass, Node
from allocator.outcome import Allocated, AllocationError, Outcome
from allocator.policies.contract import Policy, PolicyOfNode
from allocator.search.rules import Choice
from cel.cache import LruCache

# The allocator as a fleet calls it: one node after the other, always on the same terms.


class Decider:
    """Calls `outcome_of`. asked: how often."""

    def __init__(
        self, policy: Policy, budget_steps: int, share_id: Callable[[str], str], is_cancelled: Callable[[], bool]
    ) -> None:
        self.asked = 0
        self.policy = policy
        self.budget_steps = budget_steps
        self.share_id = share_id
        self.is_cancelled = is_cancelled

    def decide(  # noqa: PLR0913 - an attempt, and what is known of it
        self,
        snapshot: Snapshot,
        node: Node,
        claims: Sequence[Claim],
        *,
        policy: Policy | None = None,
        known: TypedMemo | None = None,
        bindings: Bindings | None = None,
    ) -> Outcome:
        """The outcome for the claims on the node, without names of devices and holders. Cost: an allocation.

        policy: in place of its own. known, bindings: as for `outcome_of`. Raises AllocationError, Cancelled.
        """
        self.asked += 1
        return outcome_of(
            snapshot,
            node,
            claims,
            budget_steps=self.budget_steps,
            share_id=self.share_id,
            is_cancelled=self.is_cancelled,
            policy=policy or self.policy,
            known=known,
            bindings=bindings,
        )

    def decide_like(
        self, snapshot: Snapshot, node: Node, claims: Sequence[Claim], chosen: Sequence[Choice], known: TypedMemo | None
    ) -> tuple[Allocation, ...]:
        """What the claims get on a node that is like one where these devices were chosen. known: as in `decide`."""
        return allocations_like(snapshot, node, claims, chosen, share_id=self.share_id, known=known)


MOST_QUESTIONS = 256
"""Questions whose answers are kept; beyond, the least recently used are forgotten."""

MOST_ANSWERS = 1 << 20
"""Answers that are kept, by group and by projection, if the fleet is small; some 150 MiB."""

LEAST_QUESTIONS = 32
"""Questions whose answers are kept however large the fleet is: to work one out again takes all nodes."""

MOST_KNOWN = 1 << 12
"""Kinds of nodes, as questions distinguish them, of which it is kept what was worked out whatever is in use."""

MOST_TEXT = 1 << 24
"""Characters of the expressions of all questions that are kept: a single claim has room for a million.

`DeviceQuestion.weight` counts as well.
"""


class AnswerCache:
    """The answers by question. kept: how many there are, by group and by projection."""

    def __init__(self, current: CurrentSnapshot, nodes: FleetNodes, decider: Decider) -> None:
        self.kept = 0
        self._current = current
        self._nodes = nodes
        self._decider = decider
        self._by_question: dict[Hashable, Answers] = {}
        self._known: LruCache[Counting, TypedMemo] = LruCache(MOST_KNOWN, MOST_KNOWN)
        self._text = 0
        self._renumbered = 0
        self._forgotten = 0

    def question(self, claims: Sequence[Claim]) -> DeviceQuestion:
        """What the claims ask as things are now."""
        self._nodes.refresh()
        value = self._current.value
        return DeviceQuestion.of(claims, value.classes, value.bindings(claims))

    def question_of_kinds(self, claims: Sequence[Claim]) -> DeviceQuestion:
        """The same for claims that may be those of several attempts: limits of no one namespace hold for them."""
        value = self._current.value
        return DeviceQuestion.of(claims, value.classes, _bindings_of_kinds(value, claims))

    def to(self, question: DeviceQuestion) -> Answers:
        """The answers of the fleet as it is now. question: asked since the last event.

        Cost: O(what has changed since the claims were asked for last).
        """
        self._drop_outdated()
        answers = self._by_question.pop(question.key, None)
        if answers is None:
            answers = self._new(question)
            self._text += answers.text
        self._by_question[question.key] = answers  # at the end: the first is the least recently used
        self._make_room()
        if answers.seen != self._changes.now or self._has_shared(answers):
            before = answers.kept
            try:
                self._catch_up(answers, question)
            finally:
                self.kept += answers.kept - before
                self._make_room()
        return answers

    def _make_room(self) -> None:
        while self._is_full() and len(self._by_question) > 1:
            gone = self._by_question.pop(next(iter(self._by_question)))
            self.kept -= gone.kept
            self._text -= gone.text

    def known_on(self, answers: Answers, node: FleetNode) -> TypedMemo | None:
        """What was worked out of the claims on nodes between which they do not distinguish; None if it is forgotten."""
        assert node.pools is not None, "a node without pools is able to allocate nothing"
        return self._known_of(answers.countings.known(node, self._decider.is_cancelled))

    def _known_of(self, counting: Counting | None) -> TypedMemo | None:
        return self._known.get(counting, 1, TypedMemo) if counting else None

    @property
    def _changes(self) -> LeftGroups:
        return self._nodes.groups.changes

    def _drop_outdated(self) -> None:
        """Forget all answers if fingerprints were reassigned, and those of groups that cannot catch up any more."""
        if self._renumbered != self._nodes.renumbered:
            self._renumbered = self._nodes.renumbered
            self._by_question, self.kept, self._text, self._forgotten = {}, 0, 0, 0
        if self._forgotten == self._changes.forgotten:
            return
        self._forgotten = self._changes.forgotten
        for answers in self._by_question.values():
            if answers.seen < self._forgotten:
                self.kept -= len(answers.of_group)
                answers.clear()
                answers.seen = NEVER

    def _new(self, question: DeviceQuestion) -> Answers:
        snapshot, claims = self._current.value, question.claims
        decider = self._decider
        fingerprints, steps = self._nodes.fingerprints, decider.budget_steps
        countings = Countings(fingerprints, snapshot, question, decider.policy, steps, decider.is_cancelled)
        texts = (*expressions_of(snapshot, claims), *question.limiting)
        return Answers(question.classes, countings, sum(map(len, texts)) + question.weight)

    def _is_full(self) -> bool:
        most = max(MOST_ANSWERS, 3 * LEAST_QUESTIONS * len(self._nodes.groups))
        return len(self._by_question) > MOST_QUESTIONS or self.kept > most or self._text > MOST_TEXT

    def _has_shared(self, answers: Answers) -> bool:
        """True if the use of a slice has changed that several nodes reach, and that counts for the question."""
        changes = self._changes
        if answers.seen_shared == changes.shared:
            return False
        if answers.seen_shared == NEVER or changes.has_shared(answers.shared, answers.seen_shared):
            return True
        answers.seen_shared = changes.shared
        return False

    def _catch_up(self, answers: Answers, question: DeviceQuestion) -> None:
        """Take into account what has changed since the question was asked last."""
        changes, groups = self._changes, self._nodes.groups
        before = None if self._has_shared(answers) else changes.left_since(answers.seen)
        answers.seen = NEVER  # until all is done: if it is cancelled, it starts again, with the answers that it has
        if before is None or len(before) > len(groups) or len(answers.of_group) > 2 * len(groups) + SPARE:
            answers.clear()
            answers.shared.clear()
            for group in groups.all():
                answers.add(self._answer(answers, group, question), group.members.nodes)
        else:
            for number, old in before.items():
                self._move(answers, number, old, question)
            answers.forget_groups([old for old in before.values() if old is not None and old.members.is_empty])
        answers.seen, answers.seen_shared = changes.now, changes.shared

    def _move(self, answers: Answers, number: int, old: NodeGroup | None, question: DeviceQuestion) -> None:
        """Move the node to the answer of its group. old: the group that it was in when the question was asked last."""
        node = self._nodes.get(number)
        new = node.group if node else None
        if new is old:
            return
        now = self._answer(answers, new, question) if new else None
        if old is None and now:
            answers.add(now, 1 << number)
        elif old is not None and now:
            answers.move(answers.of_group[old], now, number)
        elif old is not None:
            answers.remove(answers.of_group[old], 1 << number)

    def _answer(self, answers: Answers, group: NodeGroup, question: DeviceQuestion) -> Answer:
        """The answer of a group; worked out only if no equivalent group has been asked before."""
        earlier = answers.of_group.get(group)
        if earlier is not None:
            return earlier
        if max(len(answers.worked_out), len(answers.countings)) > 4 * len(self._nodes.groups) + SPARE:
            answers.forget_worked_out()
        node = self._nodes[group.members.first]
        counting = answers.countings.of(node, self._current.value, question, self._decider.is_cancelled)
        key = self._key_of(answers, group, counting) if counting else INVALID
        answer = answers.worked_out.get(key)
        if answer is None:
            answer = answers.worked_out[key] = answers.once(self._work_out(node, question, self._known_of(counting)))
        answers.of_group[group] = answer
        return answer

    def _key_of(self, answers: Answers, group: NodeGroup, counting: Counting) -> Hashable:
        """What decides about the answer: what the question reads of the node, and the usage of slices that count."""
        if counting.is_all:
            return counting.number, group.usage, NOTHING
        # Were one shorter, what is in use of the rest would not count. A node without any use has no tokens.
        assert group.usage == NOTHING or len(group.usage) == len(counting.own)
        assert len(counting.shared) == len(group.shared)
        usage = tuple(compress(group.usage, counting.own))
        shared = tuple(compress(group.shared, counting.shared))
        answers.shared.update(shared)
        return counting.number, usage if any(usage) else NOTHING, tuple(map(self._nodes.occupancy.of, shared))

    def _work_out(self, node: FleetNode, question: DeviceQuestion, known: TypedMemo | None) -> Answer:
        try:
            snapshot, bindings = self._current.value, question.bindings
            outcome = self._decider.decide(snapshot, node.node, question.claims, known=known, bindings=bindings)
        except AllocationError:
            return FAILING
        if isinstance(outcome, Allocated):
            return Able((rank_of(question.claims, outcome), outcome.score), chosen_of(outcome, node), outcome.steps)
        return Unable.of(outcome, question.claims)


def chosen_of(outcome: Allocated, node: FleetNode) -> tuple[Choice, ...]:
    """The devices by their positions on the node. Cost: O(devices)."""
    positions = {device.id: position for position, device in enumerate(node.devices())}
    return tuple(
        [
            Choice(claim, result.request, positions[result.id])
            for claim, allocation in enumerate(outcome.allocations)
            for result in allocation.results
        ]
    )


# What single nodes give by policies of their own, remembered for nodes that are alike.
#
# A policy that looks at whole nodes chooses one of them before any device; which devices come first depends on that
# node.


MOST_CHOICES: Final = 1 << 14
"""Choices that are remembered; some 10 MiB."""


class KnownChoices:
    """The devices that were chosen, by their positions on the node."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._kept: LruCache[Hashable, tuple[Choice, ...]] = LruCache(MOST_CHOICES, MOST_CHOICES)

    def of(  # noqa: PLR0913 - a decision, and what is known of it
        self,
        snapshot: Snapshot,
        node: FleetNode,
        alike: Hashable,
        claims: Sequence[Claim],
        policy: PolicyOfNode,
        *,
        known: TypedMemo | None,
    ) -> tuple[Choice, ...]:
        """What the policy chooses for the claims on the node, which has the devices.

        alike: equal for nodes between which the claims do not distinguish. known: as in `Decider.decide`. Cost: an
        allocation, unless one of those was asked before.
        """
        return self._kept.get((alike, policy.key), 1, lambda: self._choose(snapshot, node, claims, policy, known))

    def _choose(
        self,
        snapshot: Snapshot,
        node: FleetNode,
        claims: Sequence[Claim],
        policy: PolicyOfNode,
        known: TypedMemo | None,
    ) -> tuple[Choice, ...]:
        outcome = self._decider.decide(snapshot, node.node, claims, policy=policy, known=known)
        assert isinstance(outcome, Allocated), f"node {node.node.name} was able: {outcome}"
        return chosen_of(outcome, node)


def _bindings_of_kinds(snapshot: Snapshot, claims: Sequence[Claim]) -> Bindings:
    is_of_one = len({claim.namespace for claim in claims}) == 1
    return snapshot.bindings(claims) if snapshot.limited.limits and is_of_one else ()


# Kinds of nodes, as certain claims see their devices: less than what distinguishes nodes, such as serial numbers.


class HardwareKinds:
    """The kinds for claims that read no more of devices than these do. question: of these claims.

    Of no use when classes have changed or fingerprints were reassigned.
    """

    def __init__(
        self, nodes: FleetNodes, snapshot: Snapshot, question: DeviceQuestion, is_cancelled: Callable[[], bool]
    ) -> None:
        self._nodes = nodes
        self._is_cancelled = is_cancelled
        self._fingerprints = nodes.fingerprints
        self._question = question  # keeps the classes, whose identities are part of its key
        self._seen: Mapping[str, DeviceClass] = {}
        self._projection = self._fingerprints.projection(
            reads_of(snapshot, question.claims, (), question.limiting, is_cancelled)
        )
        self._identity = object()  # what is remembered by kind does not keep the claims in memory

    def of(self, number: int) -> tuple[Hashable, int]:
        """Equal for nodes with devices that agree in all that is read, whatever is in use; of these kinds alone.

        Cost: O(devices) for devices that are not like any that were seen before.
        """
        return self._identity, self._projection.of(self._nodes[number], self._is_cancelled)

    def are_current(self, snapshot: Snapshot) -> bool:
        """Whether they are those of the same claims now. Cost: O(requests), where classes are others or limits hold."""
        if self._fingerprints is not self._nodes.fingerprints or not self._has_limits_of(snapshot):
            return False
        classes = snapshot.classes
        if classes is not self._seen and self._question.has(classes):
            self._seen = classes
        return classes is self._seen

    def _has_limits_of(self, snapshot: Snapshot) -> bool:
        bindings = _bindings_of_kinds(snapshot, self._question.claims)
        return [one.key for one in bindings] == [one.key for one in self._question.bindings]
