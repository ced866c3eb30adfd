"""Pods of one template: what filters and scores say of them by pod and node alone is worked out once per node.

Pods that agree in selector, affinity and tolerations share a `Template`. A node that changes is looked at again
when the template is asked for next, and no other is. A pod that can be on named nodes only (of a DaemonSet,
say) has a template of its own that is not kept: just its nodes are looked at.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allocator.model import Node
from allocator.search.rules import Mask
from cel import Cancelled
from cel.lru import LruCache
from scheduler.core_v1.pod import Pod
from scheduler.plugins.filters import FILTERS, refusal
from scheduler.plugins.filters.node_affinity import named_nodes
from scheduler.plugins.scores.node_affinity import preferred_weight
from scheduler.plugins.scores.taint_toleration import untolerated_taints
from scheduler.state.masks import Numbers, mask_of

MOST_TEMPLATES = 256
"""Templates that are kept; beyond, the least recently used one is forgotten."""

MOST_WORDS = 1 << 18
"""Words of the selectors, terms and tolerations of all templates that are kept: one pod has room for thousands."""

NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
"""Why a node is refused that is not among those that the pod names, in kube-scheduler's words."""

CONFLICT = "pod affinity terms conflict"
"""The same where each of its terms names nodes that exclude each other."""

_ABSENT, _ALLOWED, _NOT_NAMED = -1, len(FILTERS), len(FILTERS) + 1
_FEWEST_ROWS = 64


@dataclass(slots=True, eq=False)
class Template:
    """What holds for all pods of a template. allowed: the nodes that every filter of `FILTERS` lets pass.

    by_text: the other nodes by what keeps the pods from them, None until somebody asks.
    untolerated: PreferNoSchedule taints that the pods don't tolerate, by node number. preferred: the weights of the
    preferences that the node matches, by node number.
    """

    pod: Pod
    untolerated: Numbers
    preferred: Numbers
    verdicts: NDArray[np.int8]
    allowed: Mask = 0
    stale: set[int] = field(default_factory=set)
    by_text: Mapping[str, Mask] | None = None

    def refused(self) -> Iterator[tuple[str, str, Mask]]:
        """Plugin, reason and nodes, for each filter that refuses some; no node is in two of them."""
        for position, one in enumerate(FILTERS):
            if nodes := mask_of(self.verdicts == position):
                yield one.plugin, one.reason, nodes
        if nodes := mask_of(self.verdicts == _NOT_NAMED):
            yield "NodeAffinity", NOT_NAMED if named_nodes(self.pod.affinity) else CONFLICT, nodes


class Templates:
    """The nodes by number, and the templates asked for. is_cancelled: asked before every node that is looked at."""

    def __init__(self, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        self._is_cancelled = is_cancelled
        self._nodes: dict[int, Node] = {}
        self._numbers: dict[str, int] = {}
        self._size = _FEWEST_ROWS
        self._known: LruCache[Hashable, Template] = LruCache(MOST_TEMPLATES, MOST_WORDS)

    def set_node(self, number: int, node: Node) -> None:
        """The node has this number, and may have changed. Cost: nothing where filters see no change."""
        old = self._nodes.get(number)
        self._nodes[number] = node
        if old is not None and _seen_of(old) == _seen_of(node):
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

    def of(self, pod: Pod) -> Template:
        """The template of the pod. Raises Cancelled; when it is asked for again, it goes on where it was stopped.

        Cost: O(nodes that changed since it was asked for last); all, the first time.
        """
        named = named_nodes(pod.affinity)
        if named is not None:
            return self._of_named(pod, named)
        template = self._known.get(_key(pod), _words_of(pod), lambda: self._new(pod, self._nodes))
        self._refresh(template)
        return template

    def refused(self, pod: Pod) -> Mapping[str, Mask]:
        """The nodes that filters refuse, by what they say of each node. Cost: O(nodes), where one has changed."""
        template = self.of(pod)
        if template.by_text is None:
            template.by_text = self._by_text(template)
        return template.by_text

    def _by_text(self, template: Template) -> Mapping[str, Mask]:
        found: dict[str, Mask] = {}
        for number, node in sorted(self._nodes.items()):
            if text := refusal(template.pod, node):
                found[text] = found.get(text, 0) | 1 << number
        return found

    def _of_named(self, pod: Pod, named: Iterable[str]) -> Template:
        numbers = [self._numbers[name] for name in named if name in self._numbers]
        template = self._new(pod, numbers)
        template.verdicts[list(self._nodes)] = _NOT_NAMED
        self._refresh(template)
        return template

    def _new(self, pod: Pod, numbers: Iterable[int]) -> Template:
        zeros = np.zeros(self._size, np.int64)
        return Template(pod, zeros, zeros.copy(), np.full(self._size, _ABSENT, np.int8), stale=set(numbers))

    def _refresh(self, template: Template) -> None:
        if not template.stale:
            return
        template.by_text = None
        if (more := self._size - len(template.verdicts)) > 0:
            template.untolerated = np.pad(template.untolerated, (0, more))
            template.preferred = np.pad(template.preferred, (0, more))
            template.verdicts = np.pad(template.verdicts, (0, more), constant_values=_ABSENT)
        self._look_at(template)
        template.allowed = mask_of(template.verdicts == _ALLOWED)
        if template.stale:
            raise Cancelled(f"cancelled with {len(template.stale)} nodes to look at")

    def _look_at(self, template: Template) -> None:
        """Look at the nodes that may have changed, as far as it gets."""
        pod, numbers, found = template.pod, list(template.stale), []
        for number in numbers:
            if self._is_cancelled():
                break
            node = self._nodes.get(number)
            found.append(
                (_verdict(pod, node), untolerated_taints(pod, node), preferred_weight(pod, node))
                if node
                else (_ABSENT, 0, 0)
            )
        if found:
            seen = numbers[: len(found)]
            template.verdicts[seen], template.untolerated[seen], template.preferred[seen] = zip(*found, strict=True)
            template.stale.difference_update(seen)

    def _touch(self, number: int) -> None:
        for template in self._known.values():
            template.stale.add(number)


def _verdict(pod: Pod, node: Node) -> int:
    """The position of the first filter that refuses the node, or _ALLOWED."""
    for position, one in enumerate(FILTERS):
        if one.refusal(pod, node):
            return position
    return _ALLOWED


def _seen_of(node: Node) -> Hashable:
    return node.name, frozenset(node.labels.items()), node.taints, node.unschedulable


def _key(pod: Pod) -> Hashable:
    """All of a pod that the static filters and scores read."""
    selector = tuple(sorted(pod.node_selector.items()))
    return pod.node_name, selector, pod.affinity, pod.tolerations, pod.preferences


def _words_of(pod: Pod) -> int:
    """About how many words stand in the key."""
    terms = (*(pod.affinity or ()), *(one.term for one in pod.preferences))
    requirements = (one for term in terms for one in (*term.expressions, *term.fields))
    return len(pod.node_selector) + len(pod.tolerations) + sum(2 + len(one.values) for one in requirements)
