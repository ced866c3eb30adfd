"""Which nodes pass the filters for a pod, devices aside, and why the others do not.

The plugins run in kube-scheduler's order, and the first one that refuses a node counts. `feasible` is part of every
decision; `rejections` is called only if no node is left, or on request.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile

from allocator.search.rules import Mask, bits
from scheduler.core_v1.pod import Pod
from scheduler.decision.templates import Templates
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import DYNAMIC_RESOURCES
from scheduler.plugins.plugin import Dynamic, Plugin, Rejected
from scheduler.state.masks import union, without


def refused_by_all(cycle: Cycle, plugins: Iterable[Plugin]) -> tuple[Plugin, str] | None:
    """The first plugin that refuses every node at once, and why."""
    for plugin in plugins:
        if plugin.pre_filter and (problem := plugin.pre_filter(cycle)):
            return plugin, problem
    return None


def feasible(cycle: Cycle, plugins: Sequence[Plugin]) -> Mask:
    """The nodes that every filter lets pass, with the pods that are nominated to the node as well as without them."""
    left = cycle.template.allowed
    for plugin in plugins:
        if plugin.dynamic and left and (refused := plugin.dynamic.refused(cycle)):
            left = without(left, refused)
    return left & ~_refused_beside_nominated(cycle, plugins, left) if cycle.nominated else left


def _refused_beside_nominated(cycle: Cycle, plugins: Iterable[Plugin], nodes: Mask) -> Mask:
    """Those of the nodes that have no place for the pod once the pods are there that were promised one.

    What is promised on one node does not count for another. Cost: O(nodes with promises) for plugins that look further.
    """
    refused, nominated = 0, {number: pods for number, pods in cycle.nominated.items() if nodes >> number & 1}
    filters = [plugin.dynamic for plugin in plugins if plugin.dynamic]
    with cycle.beside(nominated):
        for one in filters:
            if not one.looks_further:
                refused |= one.refused(cycle)
    further = [one for one in filters if one.looks_further and _sees_nominated(cycle, one)]
    for number, pods in nominated.items():
        with cycle.beside({number: pods}):
            if any(one.refused(cycle) >> number & 1 for one in further if not one.is_skipped(cycle)):
                refused |= 1 << number
    return refused & sum(1 << number for number in nominated)


def _sees_nominated(cycle: Cycle, one: Dynamic) -> bool:
    # Differs from kube-scheduler: a filter that it skips for the pod does not see the promised pods either: neither
    # their anti-affinity, where the pod has no terms of its own, nor that they use a claim that is for one pod.
    return not (cycle.is_strict and one.is_skipped(cycle))


def rejections(cycle: Cycle, templates: Templates, passed: Mask = 0) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for every node that is not feasible; a node that lacks several resources has a reason for each.

    passed: nodes that are known to be feasible, so that they need not be asked again. What is found only without the
    promised pods is late: beside them the node was asked up to its devices.
    """
    by_node = list(templates.rejections(cycle.template))
    asked = (cycle.template.allowed | union(one.nodes for _, one in by_node)) & ~passed
    promised = union(1 << number for number in cycle.nominated)
    beside = list(_rejections_beside_nominated(cycle, templates.plugins, by_node, asked & promised))
    yield from beside
    asked &= ~union(one.nodes for _, one in beside)
    for plugin, one in _rejections(cycle, templates.plugins, by_node, asked & promised):
        yield plugin, replace(one, is_late=True)
    yield from _rejections(cycle, templates.plugins, by_node, asked & ~promised)


def _rejections_beside_nominated(
    cycle: Cycle, plugins: Iterable[Plugin], by_node: Sequence[tuple[Plugin, Rejected]], left: Mask
) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for nodes with promises, each with the pods that were promised it."""
    nominated = {number: pods for number, pods in cycle.nominated.items() if left >> number & 1}
    seeing = [one for one in plugins if not one.dynamic or _sees_nominated(cycle, one.dynamic)]
    yield from _rejections(cycle, seeing, by_node, left, lambda one, nodes: _beside(cycle, one, nominated, nodes))


def _beside(cycle: Cycle, one: Dynamic, nominated: Mapping[int, Sequence[Pod]], nodes: Mask) -> Iterable[Rejected]:
    """What the filter says of these nodes. Cost: one evaluation; of a filter that looks further, one for each node."""
    if not one.looks_further:
        with cycle.beside(nominated):
            return list(one.rejections(cycle, nodes))
    found: list[Rejected] = []
    for number in bits(nodes):
        with cycle.beside({number: nominated[number]}):
            found += one.rejections(cycle, 1 << number)
    return found


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
        for one in refused:
            if nodes := one.nodes & left:
                yield plugin, replace(one, nodes=nodes)
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
