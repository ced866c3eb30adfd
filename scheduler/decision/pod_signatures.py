"""Pods of one signature: the results of static filters and scores are computed once per node.

Pods that agree in selector, affinity and tolerations share a `PodSignature`. A node that changes is evaluated again
when the signature is next used. A pod that is limited to named nodes (of a DaemonSet, for example) has a signature of
its own that is not kept: only its nodes are evaluated.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from allocator.bits import Mask, union
from allocator.model import Node
from cel import Cancelled
from cel.cache import LruCache
from scheduler.core_v1.pod import Pod
from scheduler.plugins.node_affinity import NODE_AFFINITY, named_nodes
from scheduler.plugins.plugin import NO_NODE, Plugin, PodSignature, Rejected
from scheduler.plugins.plugin import NOT_NAMED as NOT_NAMED_BIT
from scheduler.plugins.profile import PLUGINS, refusal
from scheduler.plugins.taint_toleration import TAINT_TOLERATION
from scheduler.plugins.volume_binding import VOLUME_BINDING
from scheduler.state.masks import mask_of

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
        return PodSignature(pod, len(self._static.filters), self._static.honored, counts, refusals, stale=set(numbers))

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
