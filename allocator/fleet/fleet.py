"""All nodes at once: which of them can give claims their devices, without doing anything twice.

The events of the cluster change the snapshot and the nodes (`nodes`), which form groups: nodes with
the same fingerprint and the same devices in use. A question is answered from what is known of each group
(`answer_cache`); only a group that is new to the question is decided, by one of its nodes. So a pod
whose question was asked before costs what has changed since then. `answers` says why nodes cannot.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from allocator.allocate import BUDGET_STEPS, share_id_of, with_names
from allocator.bits import Mask, bits
from allocator.cluster.pools import SliceIndex
from allocator.cluster.snapshot import Snapshot
from allocator.cluster.usage import Usage
from allocator.fleet.answer_cache import MOST_QUESTIONS, MOST_TEXT, AnswerCache, Decider, HardwareKinds, KnownChoices
from allocator.fleet.answers import Able, Rank, refusal_of, refusals_by_node, refusals_by_reason
from allocator.fleet.nodes import CurrentSnapshot, FleetNode, FleetNodes, NodeTable
from allocator.gates import Features
from allocator.limit_use import LimitsInForce
from allocator.limits import Account
from allocator.memo import TypedMemo
from allocator.model import Allocation, Claim, Device, DeviceClass, DeviceID, Node, Slice
from allocator.outcome import Allocated, Outcome, Refused
from allocator.policies.contract import FIRST_FIT, Policy, PolicyOfNode, Score
from allocator.search.rules import Choice
from cel.cache import LruCache


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best node for the claims, and what they get there."""

    node: Node
    allocated: Allocated


class Fleet:
    """The nodes of a cluster; its owner reports every event.

    The owner numbers the nodes: bit i of a mask is node i, and of equal nodes the lowest number is chosen.
    is_cancelled: called again and again while a question is worked out, which then raises Cancelled; what was worked
    out by then is kept for the next time.
    """

    def __init__(  # noqa: PLR0913 - the last four have defaults, and are how the allocator is called
        self,
        snapshot: Snapshot,
        nodes: Iterable[Node] = (),
        *,
        policy: Policy = FIRST_FIT,
        budget_steps: int = BUDGET_STEPS,
        share_id: Callable[[str], str] = share_id_of,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._current = CurrentSnapshot(snapshot)
        self._kinds: LruCache[Hashable, HardwareKinds] = LruCache(MOST_QUESTIONS, MOST_TEXT)
        self._kinds_asked_last: tuple[Sequence[Claim], HardwareKinds] | None = None
        self._nodes = FleetNodes(self._current)
        self._ask(Decider(policy, budget_steps, share_id, is_cancelled))
        for number, node in enumerate(nodes):
            self.set_node(number, node)

    # -- events

    def set_node(self, number: int, node: Node) -> None:
        """A node is there, or has changed. Raises ValueError if another number has a node of that name."""
        self._nodes.set(number, node)

    def remove_node(self, number: int) -> None:
        """A node is gone; its number may be given to another. Raises KeyError if it was not there."""
        self._nodes.remove(number)

    def add_slice(self, published: Slice) -> None:
        """A slice is published; if it replaces another, that one is removed before."""
        self._current.add_slice(published)

    def remove_slice(self, published: Slice) -> None:
        """A slice is gone; it has to be the object that was added. Raises KeyError if it was not there."""
        self._nodes.lose_slice(self._current.remove_slice(published))

    def add_allocated(self, claims: Iterable[Claim]) -> None:
        """These allocated claims hold their devices from now on."""
        self._current.add_allocated(claims)

    def remove_allocated(self, claims: Iterable[Claim]) -> None:
        """These claims hold their devices no more; they have to be as they were added. Raises ValueError otherwise."""
        self._current.remove_allocated(claims)

    def set_class(self, device_class: DeviceClass) -> None:
        """A class is there, or has changed."""
        self._current.set_class(device_class)

    def remove_class(self, name: str) -> None:
        """A class is gone. Raises KeyError if it was not there."""
        self._current.remove_class(name)

    def set_limits(self, limits: LimitsInForce) -> None:
        """These limits hold from now on, and no others. All claims count that were added, whoever added them."""
        self._current.set_limits(limits)

    def namespace_changed(self, name: str) -> None:
        """The labels of the namespace, which limits may select, have changed."""
        self._current.namespace_changed(name)

    def refresh(self) -> None:
        """Work out what the events since the last question have touched; a question does so itself."""
        self._nodes.refresh()

    def by(self, policy: Policy) -> "Fleet":
        """The same nodes and devices, by another policy: what happens to one happens to both; answers are its own."""
        decider = self._decider
        other = Fleet(self._current.value)
        other._current, other._nodes = self._current, self._nodes
        other._ask(Decider(policy, decider.budget_steps, decider.share_id, decider.is_cancelled))
        return other

    def _ask(self, decider: Decider) -> None:
        self._decider = decider
        self._answers = AnswerCache(self._current, self._nodes, decider)
        self._choices = KnownChoices(decider)

    # -- questions

    def choose(self, claims: Sequence[Claim], allowed: Mask) -> Chosen | None:
        """The best of the allowed nodes by the policy, the first of equals; None if none can.

        Raises AllocationError if one of the allowed nodes ends the attempt.
        Cost: O(what has changed since the claims were asked for last).
        """
        by_score: dict[Score, Mask] = {}
        for (_, score), mask in self.scores(claims, allowed).items():
            by_score[score] = by_score.get(score, 0) | mask
        if not by_score:
            return None
        able = by_score[max(by_score)]
        number = (able & -able).bit_length() - 1
        return Chosen(self._nodes[number].node, self.allocated(claims, number))

    def scores(self, claims: Sequence[Claim], allowed: Mask) -> Mapping[Rank, Mask]:
        """The allowed nodes that can, by rank and policy score; more is better. Raises AllocationError as `choose`.

        Rank: over all requests with firstAvailable, 8 less the position of the chosen subrequest, summed up.
        Cost: O(what has changed since the claims were asked for last).
        """
        answers = self._answers.to(self._answers.question(claims))
        if failing := answers.failing & allowed:
            self.allocate(next(bits(failing)), claims)
        return {rank: able for rank, mask in answers.by_rank.items() if (able := mask & allowed)}

    def able(self, claims: Sequence[Claim]) -> Mask:
        """The nodes that can give the claims their devices."""
        able = 0
        for mask in self._answers.to(self._answers.question(claims)).by_rank.values():
            able |= mask
        return able

    def allocated(self, claims: Sequence[Claim], number: int) -> Allocated:
        """What the claims get on a node; of one that `scores` names, before the next event.

        Cost: O(devices chosen), and what has changed since the claims were asked for last.
        """
        answers, node = self._answers.to(self._answers.question(claims)), self._nodes[number]
        assert node.group is not None, f"node {node.node.name} is in no group"
        answer = answers.of_group[node.group]
        assert isinstance(answer, Able), f"node {node.node.name} is not able: {answer}"
        _, score = answer.rank
        counting = self._answers.known_on(answers, node)
        return Allocated(self._given(node, claims, answer.chosen, counting), answer.steps, self.features, score)

    def allocated_by(self, policy: PolicyOfNode, claims: Sequence[Claim], number: int) -> tuple[Allocation, ...]:
        """What the claims get on a node by a policy of its own; of one that `scores` names, before the next event.

        Cost: O(devices chosen), if the same was chosen on a node like it.
        """
        alike = self.kinds(claims).of(number), self.usage_on(number)
        node = self._nodes[number]
        counting = self._answers.known_on(self._answers.to(self._answers.question(claims)), node)
        chosen = self._choices.of(self._current.value, node, alike, claims, policy, known=counting)
        return self._given(node, claims, chosen, counting)

    def _given(
        self, node: FleetNode, claims: Sequence[Claim], chosen: Sequence[Choice], known: TypedMemo | None
    ) -> tuple[Allocation, ...]:
        return self._decider.decide_like(self._current.value, node.node, claims, chosen, known)

    def allocate(self, number: int, claims: Sequence[Claim], freed: Sequence[Claim] = ()) -> Outcome:
        """The outcome for the claims on one node. Raises AllocationError. Cost: an allocation.

        freed: claims that hold devices, as they were added, and that would be gone by then.
        """
        self._nodes.refresh()
        node = self._nodes[number].node
        if not freed:
            return self._allocate(self._current.value, node, claims)
        with self._current.without(freed) as snapshot:
            return self._allocate(snapshot, node, claims)

    def allocate_unused(self, number: int, claims: Sequence[Claim]) -> Outcome:
        """The outcome for the claims on one node of which nobody has anything. Raises AllocationError."""
        self._nodes.refresh()
        return self._decider.decide(self._current.value.with_usage_of(()), self._nodes[number].node, claims)

    def _allocate(self, snapshot: Snapshot, node: Node, claims: Sequence[Claim]) -> Outcome:
        outcome = self._decider.decide(snapshot, node, claims)
        if not isinstance(outcome, Refused):
            return outcome
        return with_names(outcome, snapshot.view(node).devices, snapshot.usage)

    def devices(self, node: Node) -> Sequence[Device]:
        """The devices that the node reaches, of usable pools. Raises InvalidPool."""
        self._nodes.refresh()
        return self._current.value.view(node).devices

    def reached_by(self, node: Node) -> frozenset[DeviceID]:
        """The ids of `devices`. Raises InvalidPool. Cost: O(1), unless the node's devices have changed."""
        self._nodes.refresh()
        return self._current.value.view(node).ids

    def unable(self, claims: Sequence[Claim], allowed: Mask) -> Iterator[tuple[Outcome, Mask]]:
        """The allowed nodes that cannot, by why: with numbers of devices, but without their names and holders.

        The groups are ordered by their first nodes; one with contradictory pools names those of its first node.
        To be read before the next event. Cost: O(different reasons), and what has changed since the claims were asked
        for last.
        """
        question = self._answers.question(claims)
        yield from refusals_by_reason(self._answers.to(question), self._nodes, question, allowed)

    def unable_by_node(self, claims: Sequence[Claim], allowed: Mask) -> Iterator[tuple[Outcome, Mask]]:
        """As `unable`, with each node that has contradictory pools alone: only it can name them."""
        question = self._answers.question(claims)
        yield from refusals_by_node(self._answers.to(question), self._nodes, question, allowed)

    def refusal(self, claims: Sequence[Claim], number: int) -> Outcome:
        """Why the node cannot, with devices and holders; of a node that `unable` names, before the next event.

        Cost: O(devices of the node), and what has changed since the claims were asked for last.
        """
        question = self._answers.question(claims)
        answers = self._answers.to(question)
        return refusal_of(answers, self._nodes[number], question, self._current.value.usage)

    def may_help(self, accounts: Iterable[Account], claim: Claim) -> bool:
        """Whether one of these limits, which refused claims, may let them pass once that claim has no devices."""
        now = self._current.value
        return any([now.limited.may_help(account, claim, now) for account in accounts])  # noqa: C419 - faster

    # -- what there is

    def node(self, number: int) -> Node:
        """The node with that number. Raises KeyError."""
        return self._nodes[number].node

    def has_node(self, number: int) -> bool:
        """Whether there is a node with that number. Cost: O(1); a look at `all` costs O(nodes)."""
        return self._nodes.get(number) is not None

    def kinds(self, claims: Sequence[Claim]) -> HardwareKinds:
        """The kinds of nodes as these claims see them, until the next event; the same object as long as they stay.

        claims: not to be changed afterwards. Cost: O(requests), and nothing for those that were asked for just before.
        """
        self._nodes.refresh()
        last = self._kinds_asked_last
        if last is not None and last[0] is claims and last[1].are_current(self._current.value):
            return last[1]
        question = self._answers.question_of_kinds(claims)
        key = question.key, self._nodes.renumbered
        is_cancelled = self._decider.is_cancelled
        kinds = self._kinds.get(
            key, question.weight, lambda: HardwareKinds(self._nodes, self._current.value, question, is_cancelled)
        )
        self._kinds_asked_last = claims, kinds
        return kinds

    def alike(self, among: Mask) -> Iterator[Mask]:
        """The nodes in sets of which all nodes have equal devices, with the same in use. Cost: O(sets)."""
        self._nodes.refresh()
        return filter(None, [group.members.nodes & among for group in self._nodes.groups.all()])

    def usage_on(self, number: int) -> Hashable:
        """What is in use of the devices of a node; equal for nodes with equal devices of which the same is in use."""
        self._nodes.refresh()
        group = self._nodes[number].group
        assert group is not None, "each node is in a group"
        return group.usage, tuple(map(self._nodes.occupancy.of, group.shared))

    def shared_on(self, number: int) -> tuple[int, ...]:
        """The numbers of the slices that the node reaches and others reach too."""
        self._nodes.refresh()
        group = self._nodes[number].group
        assert group is not None, "each node is in a group"
        return group.shared

    def are_current(self, kinds: HardwareKinds) -> bool:
        """Whether `kinds` would return the same again. Cost: O(requests)."""
        self._nodes.refresh()
        return kinds.are_current(self._current.value)

    def changed_nodes(self, seen: tuple[int, int]) -> tuple[tuple[int, int], Iterable[int] | None]:
        """The moment, and the nodes whose devices or their use have changed since the moment `seen`, None for any."""
        self._nodes.refresh()
        changes = self._nodes.groups.changes
        touched = changes.left_since(seen[0]) if seen[1] == changes.shared else None
        return (changes.now, changes.shared), touched

    @property
    def table(self) -> NodeTable:
        """The nodes, to be read: whoever changes one tells the fleet."""
        return self._nodes.table

    @property
    def all(self) -> Mask:
        """All nodes."""
        return self._nodes.table.all

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as it is now, whatever happens later. Cost: O(slices), due with the next changes."""
        self._nodes.refresh()
        return self._current.lend()

    @property
    def current(self) -> Snapshot:
        """The cluster as it is now, to be read before the next event; unlike `snapshot`, it costs nothing."""
        self._nodes.refresh()
        return self._current.value

    @property
    def slices(self) -> SliceIndex:
        """The slices, to be read before the next event; unlike `snapshot`, it costs nothing."""
        return self._current.value.slices

    @property
    def usage(self) -> Usage:
        """The devices in use, to be read before the next event; unlike `snapshot`, it costs nothing."""
        return self._current.value.usage

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """The classes, by name."""
        return self._current.value.classes

    @property
    def features(self) -> Features:
        """The features that are enabled."""
        return self._current.value.features

    @property
    def policy(self) -> Policy:
        """What decides between valid answers."""
        return self._decider.policy

    @property
    def budget_steps(self) -> int:
        """The steps that one node may take."""
        return self._decider.budget_steps

    @property
    def asked(self) -> int:
        """How often the allocator was called."""
        return self._decider.asked

    @property
    def gathered(self) -> int:
        """How often the pools of a node were gathered."""
        return self._nodes.gathered

    @property
    def kept(self) -> int:
        """The number of answers that are kept."""
        return self._answers.kept
