"""Which nodes a pod can be on, devices aside, and for all others why not.

The plugins run in kube-scheduler's order, and a node is refused by the first of them that refuses it.
`feasible` is on the way of every decision; `rejections` is asked when nothing is left, or by a person.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile

from allocator.search.rules import Mask
from scheduler.decision.templates import Templates
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import DYNAMIC_RESOURCES
from scheduler.plugins.plugin import Plugin, Rejected
from scheduler.state.masks import union


def refused_by_all(cycle: Cycle, plugins: Iterable[Plugin]) -> tuple[Plugin, str] | None:
    """The first plugin that refuses every node at once, and why."""
    for plugin in plugins:
        if plugin.pre_filter and (problem := plugin.pre_filter(cycle)):
            return plugin, problem
    return None


def feasible(cycle: Cycle, plugins: Iterable[Plugin]) -> Mask:
    """The nodes that every filter lets pass."""
    left = cycle.template.allowed
    for plugin in plugins:
        if plugin.dynamic and left:
            left &= ~plugin.dynamic.refused(cycle)
    return left


def rejections(cycle: Cycle, templates: Templates) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for every node that is not feasible; a node that lacks several resources has a reason for each."""
    by_node = list(templates.rejections(cycle.template))
    left = cycle.template.allowed | union(one.nodes for _, one in by_node)
    for plugin in templates.plugins:
        refused = [one for other, one in by_node if other is plugin]
        if plugin.dynamic:
            refused += plugin.dynamic.rejections(cycle, left)
        for one in refused:
            if nodes := one.nodes & left:
                yield plugin, replace(one, nodes=nodes)
        left &= ~union(one.nodes for one in refused)


def after_devices(plugins: Iterable[Plugin]) -> Sequence[Plugin]:
    """Those that are asked once DynamicResources has let a node pass."""
    return list(dropwhile(lambda plugin: plugin is not DYNAMIC_RESOURCES, plugins))[1:]


def rejections_by_others(cycle: Cycle, plugins: Iterable[Plugin]) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for the nodes that the template allows: what else is in the cluster is in the way."""
    left = cycle.template.allowed
    for plugin in plugins:
        if not plugin.dynamic:
            continue
        for one in plugin.dynamic.rejections(cycle, left):
            yield plugin, one
        left &= ~plugin.dynamic.refused(cycle)


def fit_error(nodes: int, reasons: Counter[str], *, before: str = "", explanation: str = "") -> str:
    """The message of a pod that fits nowhere, as kube-scheduler writes it.

    nodes: how many there are. reasons: of `counts`. before: what refuses every node at once, in place of the reasons.
    explanation: more, of which the first line is told after the rest.
    """
    if not nodes:
        return _with("no nodes available to schedule pods", explanation)
    told = before or ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return _with(f"0/{nodes} nodes are available: {told}." if told else f"0/{nodes} nodes are available:", explanation)


def _with(message: str, explanation: str) -> str:
    lines: Sequence[str] = explanation.strip().splitlines()
    return f"{message} {lines[0]}" if lines else message
