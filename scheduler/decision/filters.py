"""What plugins say of nodes: which pass the filters, why the others do not, and which is best by the scores.

Pods of one signature share what static filters and scores say: it is computed once per node. Pods that agree in
selector, affinity and tolerations share a `PodSignature`. A node that changes is evaluated again when the signature is
next used. A pod that is limited to named nodes (of a DaemonSet, for example) has a signature of its own that is not
kept: only its nodes are evaluated.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from itertools import dropwhile
from operator import attrgetter
from typing import Any

import numpy as np

from allocator.bits import Mask, bits, union, without
from allocator.model import Claim, Node
from allocator.policies.contract import Score
from cel import Cancelled
from cel.cache import LruCache
from scheduler.core_v1.label_selectors import NO_POD_AFFINITY
from scheduler.core_v1.pod import Pod
from scheduler.plugins.dynamic_resources import DYNAMIC_RESOURCES
from scheduler.plugins.node_affinity import NODE_AFFINITY, named_nodes
from scheduler.plugins.plugin import NO_NODE, Cycle, Dynamic, Plugin, PodSignature, Rejected
from scheduler.plugins.plugin import NOT_NAMED as NOT_NAMED_BIT
from scheduler.plugins.plugin import Score as PluginScore
from scheduler.plugins.profile import PLUGINS, refusal
from scheduler.plugins.taint_toleration import TAINT_TOLERATION
from scheduler.plugins.volume_binding import VOLUME_BINDING
from scheduler.state.masks import Numbers, flags_of, mask_of, numbers_of
from scheduler.state.node_infos import Promised

MOST_SIGNATURES = 256
"""Signatures that are kept; beyond, the least recently used one is forgotten."""

MOST_WORDS = 1 << 18
"""Words of the selectors, terms and tolerations of all signatures that are kept: one pod has room for thousands."""

NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
"""Why a node is refused that is not among those that the pod names, in kube-scheduler's words."""

_FEWEST_ROWS = 64


_HONORED = (NODE_AFFINITY, TAINT_TOLERATION)
"""Plugins whose filters PodTopologySpread looks at, also where they are off."""


class StaticPlugins:
    """What plugins say by pod and node alone. read_of: all that they read of a pod. node_fields: the same of a node.

    filters: those that refuse nodes, in their order. honored: bits by plugin, of one of them or of a further one.
    """

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self.plugins = tuple(plugins)
        self.filters = tuple((one, one.static) for one in self.plugins if one.static)
        self.counts = tuple((one, one.score.count) for one in self.plugins if one.score and one.score.count)
        statics = [static for _, static in self.filters]
        further = [one for one in _HONORED if one.static not in statics]
        self._asked = (*statics, *(one.static for one in further if one.static))
        self.honored = {one.name: 1 << self._asked.index(one.static) for one in _HONORED if one.static}
        kept = {one for one, _ in (*self.filters, *self.counts)}.union(further)
        self.binds_volumes = any(one.name == VOLUME_BINDING.name and one.dynamic for one in self.plugins)
        pod_fields = sorted({name for one in kept for name in one.pod_fields})
        self.read_of: Callable[[Pod], tuple[Any, ...]] = attrgetter(*pod_fields)
        self.node_fields = sorted({"name"}.union(*(reason.node_fields for one in kept for reason in one.reasons)))

    def refusals(self, pod: Pod, node: Node) -> int:
        """A bit for each filter that refuses the node."""
        return sum(1 << position for position, one in enumerate(self._asked) if one.refusal(pod, node))

    @cached_property
    def by_name(self) -> Plugin | None:
        """The plugin that refuses nodes that the pod's affinity does not name, None where it is off."""
        return next((plugin for plugin, _ in self.filters if plugin.name == NODE_AFFINITY.name), None)


class PodSignatures:
    """The nodes by number, and the signatures asked for. is_cancelled: asked before every node that is looked at."""

    def __init__(self, is_cancelled: Callable[[], bool] = lambda: False, plugins: Iterable[Plugin] = PLUGINS) -> None:
        self._static = StaticPlugins(plugins)
        self._is_cancelled = is_cancelled
        self._nodes: dict[int, Node] = {}
        self._numbers: dict[str, int] = {}
        self._size = _FEWEST_ROWS
        self._known: LruCache[Hashable, PodSignature] = LruCache(MOST_SIGNATURES, MOST_WORDS)

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Of the profile, in their order."""
        return self._static.plugins

    @property
    def binds_volumes(self) -> bool:
        """Whether VolumeBinding decides on nodes."""
        return self._static.binds_volumes

    def set_node(self, number: int, node: Node) -> None:
        """The node has this number, and may have changed. Cost: nothing where filters see no change."""
        old = self._nodes.get(number)
        self._nodes[number] = node
        if old is not None and self._seen_of(old) == self._seen_of(node):
            return
        if old is not None and old.name != node.name:
            del self._numbers[old.name]
        self._numbers[node.name] = number
        if number >= self._size:
            self._size = max(number + 1, 2 * self._size)
        self._touch(number)

    def remove_node(self, number: int) -> None:
        """No node has this number any more."""
        old = self._nodes.pop(number, None)
        if old is not None:
            del self._numbers[old.name]
            self._touch(number)

    def of(self, pod: Pod) -> PodSignature:
        """The signature of the pod. Raises Cancelled; when it is asked for again, it goes on where it was stopped.

        Cost: O(nodes that changed since it was asked for last); all, the first time.
        """
        named = named_nodes(pod.affinity) if self._static.by_name else None
        if named is not None and not pod.spread:  # what spreads pods looks at all nodes
            return self._of_named(pod, named)
        signature = self._known.get(self._key(pod), _words_of(pod), lambda: self._new(pod, self._nodes))
        self._refresh(signature)
        return signature

    def rejections(self, signature: PodSignature) -> Iterator[tuple[Plugin, Rejected]]:
        """Why not, for the nodes that the signature does not allow; no node has two reasons."""
        unnamed = self._unnamed(signature)
        if unnamed and self._static.by_name:
            yield self._static.by_name, Rejected(NOT_NAMED, unnamed)
        if signature.refused_by is None:
            signature.refused_by = [mask_of(signature.first_refused_by(one)) for one in range(signature.filters)]
        for (plugin, filter_), refused in zip(self._static.filters, signature.refused_by, strict=True):
            if nodes := refused & ~unnamed:
                yield plugin, Rejected(filter_.reason, nodes)

    def refused(self, signature: PodSignature) -> Mapping[str, Mask]:
        """The nodes that filters refuse, by what they say of each node. Cost: O(nodes), where one has changed."""
        if signature.by_text is None:
            signature.by_text = self._by_text(signature)
        return signature.by_text

    def _unnamed(self, signature: PodSignature) -> Mask:
        """The nodes that are none of those that the pod names."""
        named = named_nodes(signature.pod.affinity)
        if named is None:
            return 0
        numbers = (self._numbers[name] for name in named if name in self._numbers)
        return mask_of(signature.refusals != NO_NODE) & ~union(1 << number for number in numbers)

    def _by_text(self, signature: PodSignature) -> Mapping[str, Mask]:
        by_text: dict[str, Mask] = {}
        for number, node in sorted(self._nodes.items()):
            if text := refusal(signature.pod, node, self._static.plugins):
                by_text[text] = by_text.get(text, 0) | 1 << number
        return by_text

    def _of_named(self, pod: Pod, named: Iterable[str]) -> PodSignature:
        numbers = [self._numbers[name] for name in named if name in self._numbers]
        signature = self._new(pod, numbers)
        signature.refusals[list(self._nodes)] = NOT_NAMED_BIT
        self._refresh(signature)
        return signature

    def _new(self, pod: Pod, numbers: Iterable[int]) -> PodSignature:
        counts = {plugin.name: np.zeros(self._size, np.int64) for plugin, _ in self._static.counts}
        refusals = np.full(self._size, NO_NODE, np.int16)
        like = replace(pod, pod_affinity=NO_POD_AFFINITY, spread=())  # megabytes, maybe, and the pod is gone some day
        return PodSignature(like, len(self._static.filters), self._static.honored, counts, refusals, stale=set(numbers))

    def _refresh(self, signature: PodSignature) -> None:
        if not signature.stale:
            return
        signature.refused_by = signature.by_text = signature.alike = None
        signature.counted_domains.clear()
        if (more := self._size - len(signature.refusals)) > 0:
            signature.counts = {plugin: np.pad(counts, (0, more)) for plugin, counts in signature.counts.items()}
            signature.refusals = np.pad(signature.refusals, (0, more), constant_values=NO_NODE)
        self._look_at(signature)
        signature.allowed = mask_of(signature.refusals & signature.refusing == 0)
        signature.counting = frozenset(name for name, counts in signature.counts.items() if counts.any())
        if signature.stale:
            raise Cancelled(f"cancelled with {len(signature.stale)} nodes to look at")

    def _look_at(self, signature: PodSignature) -> None:
        """Look at the nodes that may have changed, as far as it gets."""
        pod, numbers, seen = signature.pod, list(signature.stale), []
        refusals: list[int] = []
        counts: dict[str, list[int]] = {plugin.name: [] for plugin, _ in self._static.counts}
        for number in numbers:
            if self._is_cancelled():
                break
            node = self._nodes.get(number)
            seen.append(number)
            refusals.append(self._static.refusals(pod, node) if node else NO_NODE)
            for plugin, count in self._static.counts:
                counts[plugin.name].append(count(pod, node) if node else 0)
        if seen:
            signature.refusals[seen] = refusals
            for name, counted in counts.items():
                signature.counts[name][seen] = counted
            signature.stale.difference_update(seen)

    def _seen_of(self, node: Node) -> Hashable:
        return tuple(_hashable(getattr(node, name)) for name in self._static.node_fields)

    def _key(self, pod: Pod) -> Hashable:
        return tuple(map(_hashable, self._static.read_of(pod)))

    def _touch(self, number: int) -> None:
        for signature in self._known.values():
            signature.stale.add(number)


def _hashable(value: Any) -> Hashable:
    return frozenset(value.items()) if isinstance(value, Mapping) else value


def _words_of(pod: Pod) -> int:
    """About how many words stand in the key."""
    terms = (*(pod.affinity or ()), *(one.term for one in pod.preferences))
    requirements = (one for term in terms for one in (*term.expressions, *term.fields))
    return len(pod.node_selector) + len(pod.tolerations) + sum(2 + len(one.values) for one in requirements)


# The order in which equally good nodes are taken; it differs between schedulers that share a fleet.
#
# Two schedulers that took the first of equal nodes would allocate the same devices, and one would have to undo its
# writes. With different orders, they use different nodes while there are many, and share what is left. Schedulers that
# have met split the nodes: each takes its own first, and the others only when these are full or clearly worse. The
# order depends only on identities and names, so that a decision can be repeated.


_DIGEST_BYTES = 8
_FEWEST = 64
_OF_OTHERS = 1 << 63
"""Added to the keys of nodes that are another scheduler's: they go last."""

MOST_OTHERS = 8
"""Schedulers that the nodes are split with; a client that invents more of them costs no more time."""

MOST_BEHIND = 10
"""Points that a total may be lower on an own node: one pod more or less on a node changes about as much.

Without it, a scheduler that has used its own nodes once finds the last unused ones of the other better, and both meet.
"""


class NodeOrder:
    """Keys of nodes by their numbers; of equally good nodes the one with the least key goes first.

    `_key` makes the keys. Without identity and other schedulers they are not asked, and the least number goes first.
    numbers: of the nodes, by name, as they are at any time. identity: such as the name of a Lease; "" for the nodes as
    they are numbered. Cost: O(1) for a node, and O(nodes) for another identity.
    """

    def __init__(self, numbers: Mapping[str, int], identity: str = "") -> None:
        self.identity = identity
        self._numbers = numbers
        self._own = ""
        self._others: tuple[str, ...] = ()
        self._keys = np.zeros(_FEWEST, np.uint64)

    def set_node(self, number: int, name: str) -> None:
        """The node of that name has this number."""
        if number >= len(self._keys):
            self._keys = np.resize(self._keys, 2 * number + 1)
        self._keys[number] = self._key(name)

    def search_as(self, identity: str) -> None:
        """Take nodes in the order of that identity from now on."""
        if identity != self.identity:
            self.identity = identity
            self._sort()

    def split(self, own: str, others: Collection[str]) -> None:
        """Take the nodes that are `own`'s first. own, others: names by which all of them split alike; no others: all.

        Each node is of one of them, about as many of each.
        """
        others = tuple(sorted(others))[:MOST_OTHERS]
        if (own, others) != (self._own, self._others):
            self._own, self._others = own, others
            self._sort()

    @property
    def others(self) -> Collection[str]:
        """The schedulers that the nodes are split with."""
        return self._others

    def best(self, numbers: Numbers, totals: Numbers) -> tuple[int, int]:
        """The first of the nodes with the highest total, and that total; of the own ones if they come close.

        numbers: ascending, at least one. totals: in their order.
        """
        if self._others:
            own_nodes = self._keys[numbers] < _OF_OTHERS
            if own_nodes.any() and totals[own_nodes].max() >= totals.max() - MOST_BEHIND:
                numbers, totals = numbers[own_nodes], totals[own_nodes]
        place = totals.argmax()  # the first of equals
        highest = totals.item(place)
        if self._is_by_number:
            return numbers.item(place), highest
        return self.first(numbers[totals == highest]), highest

    def first(self, numbers: Numbers) -> int:
        """The one of these nodes that goes first. numbers: ascending, at least one."""
        if self._is_by_number:
            return numbers.item(0)
        return numbers.item(self._keys[numbers].argmin())

    @property
    def _is_by_number(self) -> bool:
        return not self.identity and not self._others

    def _sort(self) -> None:
        for name, number in self._numbers.items():
            self._keys[number] = self._key(name)

    def _key(self, name: str) -> int:
        key = _digest(self.identity, name) // 2
        is_own = all(_digest(self._own, name) > _digest(other, name) for other in self._others)
        return key if is_own else key + _OF_OTHERS


def _digest(identity: str, name: str) -> int:
    """From 0 to 2**64 - 1."""
    return int.from_bytes(blake2b(f"{identity} {name}".encode(), digest_size=_DIGEST_BYTES).digest(), "big")


# Selects the best node for a pod: the best by the allocator's policy, then by the weighted sum of all scores.
#
# Among equals the first one is taken (`NodeOrder`). To the policy first-fit all nodes are equal, so the scores decide.
# Differs from kube-scheduler: it takes any of the best.


Groups = Mapping[tuple[int, Score], Mask]
"""The nodes that can give the claims their devices, by (rank, policy's score); no node is in two groups."""


def totals(cycle: Cycle, plugins: Iterable[Plugin], nodes: Numbers, ranks: Numbers) -> Numbers:
    """The weighted sums of all scores for these nodes. ranks: of `dynamic_resources`, in the order of the nodes."""
    apart: list[Plugin] = []
    alike: list[Plugin] = []
    for plugin in plugins:
        if plugin.score:
            (apart if _distinguishes(plugin, plugin.score, cycle) else alike).append(plugin)
    signature = cycle.signature
    if signature.alike is None:
        # Of these, the score of the first node is that of each, for every pod of the signature.
        signature.alike = sum(scores.item() for _, scores in weighted(cycle, alike, nodes[:1], ranks[:1]))
    sums = np.full(len(nodes), signature.alike, np.int64)
    for _, scores in weighted(cycle, apart, nodes, ranks):
        sums += scores
    return sums


def _distinguishes(plugin: Plugin, score: PluginScore, cycle: Cycle) -> bool:
    """False where the score follows from what the plugin counts on each node, and that is nothing on any."""
    return score.count is None or plugin.name in cycle.signature.counting


def weighted(
    cycle: Cycle, plugins: Iterable[Plugin], nodes: Numbers, ranks: Numbers
) -> Iterator[tuple[Plugin, Numbers]]:
    """The same by plugin, without those that score all these nodes alike."""
    for plugin in plugins:
        if plugin.score:
            counts = ranks if plugin.name == DYNAMIC_RESOURCES.name else cycle.signature.counts_of(plugin.name, nodes)
            scores = plugin.score.scores(cycle, nodes, counts)
            if scores is not None:
                yield plugin, scores if plugin.score.weight == 1 else plugin.score.weight * scores


def pick(
    cycle: Cycle, plugins: Iterable[Plugin], groups: Groups, feasible: Mask, order: NodeOrder
) -> tuple[int, int] | None:
    """The number of the best node that is feasible and in a group, and its total; None where there is none.

    feasible: nodes that filters let pass. order: which of equals to take. Cost: O(groups) masks and some array
    operations.
    """
    able = union(groups.values()) & feasible
    if not able:
        return None
    nodes, size = numbers_of(able), cycle.infos.size
    if not any([rank for rank, _ in groups]):  # noqa: C419 - faster
        plugins = [one for one in plugins if one.name != DYNAMIC_RESOURCES.name]  # which scores by ranks alone
    sums = totals(cycle, plugins, nodes, ranks_of(groups, nodes, size))
    preferred = preferred_by_policy(groups, feasible)
    if preferred != able:
        is_preferred = flags_of(preferred, size)[nodes]
        nodes, sums = nodes[is_preferred], sums[is_preferred]
    return order.best(nodes, sums)


def preferred_by_policy(groups: Groups, feasible: Mask) -> Mask:
    """The feasible nodes that the policy finds best; some node has to be."""
    score = max(score for (_, score), mask in groups.items() if mask & feasible)
    return union(mask for (_, other), mask in groups.items() if other == score) & feasible


def ranks_of(groups: Groups, nodes: Numbers, size: int) -> Numbers:
    """The ranks of these nodes, in their order. size: more than any number of a node."""
    by_rank: dict[int, Mask] = {}
    for (rank, _), mask in groups.items():
        if rank:
            by_rank[rank] = by_rank.get(rank, 0) | mask
    if not by_rank:
        return np.zeros(len(nodes), np.int64)
    ranks = np.zeros(len(nodes), np.int64)
    for rank, mask in by_rank.items():
        ranks[flags_of(mask, size)[nodes]] = rank
    return ranks


# Which nodes pass the filters for a pod, devices aside, and why the others do not.
#
# The plugins run in kube-scheduler's order, and the first one that refuses a node counts. `feasible` is part of every
# decision; `rejections` is called only if no node is left, or on request.


def refused_by_all(cycle: Cycle, plugins: Iterable[Plugin]) -> tuple[Plugin, str] | None:
    """The first plugin that refuses every node at once, and why."""
    for plugin in plugins:
        if plugin.pre_filter and (problem := plugin.pre_filter(cycle)):
            return plugin, problem
    return None


def feasible(cycle: Cycle, plugins: Sequence[Plugin]) -> Mask:
    """The nodes that every filter lets pass, with the pods that are nominated to the node as well as without them."""
    left = cycle.signature.allowed
    for plugin in plugins:
        if plugin.dynamic and left and (refused := plugin.dynamic.refused(cycle)):
            left = without(left, refused)
    return left & ~_refused_beside_nominated(cycle, plugins, left) if cycle.nominated else left


def _refused_beside_nominated(cycle: Cycle, plugins: Iterable[Plugin], nodes: Mask) -> Mask:
    """Those of the nodes that have no place for the pod once the pods are there that were promised one.

    What is promised on one node does not count for another. Cost: O(promised pods), whatever they say of others, and
    O(nodes with promises) for a pod that itself asks something of plugins that look further.
    """
    nominated = {number: pods for number, pods in cycle.nominated.items() if nodes >> number & 1}
    filters = [plugin.dynamic for plugin in plugins if plugin.dynamic]
    refused = union(one.kept_by(cycle, nominated) for one in filters if _sees_nominated(cycle, one))
    # Within the context the cluster counts the nominated pods on their nodes, and filters read it as if they ran.
    with cycle.beside(nominated):
        for dynamic in filters:
            if not dynamic.looks_further:
                refused |= dynamic.refused(cycle)
    further = [one for one in filters if one.looks_further and one.asks(cycle) and _sees_nominated(cycle, one)]
    for number, pods in nominated.items() if further else ():
        with cycle.beside({number: pods}):
            if any(one.refused(cycle) >> number & 1 for one in further if not one.is_skipped(cycle)):
                refused |= 1 << number
    return refused & sum(1 << number for number in nominated)


def _sees_nominated(cycle: Cycle, one: Dynamic) -> bool:
    # Differs from kube-scheduler: a filter that it skips for the pod does not see the promised pods either: neither
    # their anti-affinity, where the pod has no terms of its own, nor that they use a claim that is for one pod.
    return not (cycle.features.is_strict and one.is_skipped(cycle))


def rejections(cycle: Cycle, signatures: PodSignatures, passed: Mask = 0) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for every node that is not feasible; a node that lacks several resources has a reason for each.

    passed: nodes that are known to be feasible, so that they need not be asked again. What is found only without the
    promised pods is late: beside them the node was asked up to its devices.
    """
    by_node = list(signatures.rejections(cycle.signature))
    asked = (cycle.signature.allowed | union(one.nodes for _, one in by_node)) & ~passed
    promised = union(1 << number for number in cycle.nominated)
    beside = list(_rejections_beside_nominated(cycle, signatures.plugins, by_node, asked & promised))
    yield from beside
    asked &= ~union(one.nodes for _, one in beside)
    for plugin, rejected in _rejections(cycle, signatures.plugins, by_node, asked & promised):
        yield plugin, replace(rejected, is_late=True)
    yield from _rejections(cycle, signatures.plugins, by_node, asked & ~promised)


def _rejections_beside_nominated(
    cycle: Cycle, plugins: Iterable[Plugin], by_node: Sequence[tuple[Plugin, Rejected]], left: Mask
) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for nodes with promises, each with the pods that were promised it."""
    nominated = {number: pods for number, pods in cycle.nominated.items() if left >> number & 1}
    seeing = [one for one in plugins if not one.dynamic or _sees_nominated(cycle, one.dynamic)]
    yield from _rejections(cycle, seeing, by_node, left, lambda one, nodes: _beside(cycle, one, nominated, nodes))


def _beside(cycle: Cycle, one: Dynamic, nominated: Mapping[int, Sequence[Promised]], nodes: Mask) -> Iterable[Rejected]:
    """What the filter says of these nodes. Cost: one evaluation; of a filter that looks further, one for each node."""
    rejections: list[Rejected] = []
    if not one.looks_further:
        with cycle.beside(nominated):
            rejections += one.rejections(cycle, nodes)
    for number in bits(nodes) if one.looks_further else ():
        with cycle.beside({number: nominated[number]}):
            rejections += one.rejections(cycle, 1 << number)
    kept = one.kept_by(cycle, {number: nominated[number] for number in bits(nodes)})
    kept &= ~union(rejected.nodes for rejected in rejections)
    return [*rejections, Rejected(one.keeping, kept, kept)] if kept else rejections


def _rejections(
    cycle: Cycle,
    plugins: Iterable[Plugin],
    by_node: Sequence[tuple[Plugin, Rejected]],
    left: Mask,
    ask: Callable[[Dynamic, Mask], Iterable[Rejected]] | None = None,
) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for these nodes, by the first plugin that refuses each. ask: how a filter is asked instead."""
    for plugin in plugins:
        if not left:
            return
        refused = [one for other, one in by_node if other is plugin]
        if plugin.dynamic:
            refused += ask(plugin.dynamic, left) if ask else plugin.dynamic.rejections(cycle, left)
        for rejected in refused:
            if nodes := rejected.nodes & left:
                yield plugin, replace(rejected, nodes=nodes)
        left &= ~union(one.nodes for one in refused)


def after_devices(plugins: Iterable[Plugin]) -> Sequence[Plugin]:
    """Those that are asked once DynamicResources has let a node pass."""
    return list(dropwhile(lambda plugin: plugin.name != DYNAMIC_RESOURCES.name, plugins))[1:]


def fit_error(nodes: int, reasons: Counter[str], *, before: str = "", explanation: str = "") -> str:
    """The message of a pod that fits nowhere, as kube-scheduler writes it.

    nodes: how many there are. reasons: of `counts`. before: what refuses every node at once, in place of the reasons.
    explanation: more; its first line follows the rest.
    """
    if not nodes:
        return _with("no nodes available to schedule pods", explanation)
    reported = before or ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return _with(
        f"0/{nodes} nodes are available: {reported}." if reported else f"0/{nodes} nodes are available:", explanation
    )


def _with(message: str, explanation: str) -> str:
    lines: Sequence[str] = explanation.strip().splitlines()
    return f"{message} {lines[0]}" if lines else message


# Admin access is allowed only in labelled namespaces: the API server rejects its allocation elsewhere.
#
# Source: KEP-5018; k8s.io/kubernetes pkg/registry/resource, AuthorizedForAdmin.


LABEL = "resource.kubernetes.io/admin-access"


def is_asked_for(claim: Claim) -> bool:
    """True for a claim with a request for admin access."""
    return any(alternative.admin_access for request in claim.requests for alternative in request.alternatives)


def admin_access_refusal(claim: Claim, labels: Mapping[str, str]) -> str:
    """Why the claim cannot have admin access in its namespace, which has these labels; empty where it can."""
    if labels.get(LABEL) == "true":
        return ""
    return f'claim {claim} requests admin access, but its namespace does not have the label {LABEL}: "true"'
