"""NodeAffinity: `spec.nodeSelector` and the required terms of node affinity have to match; preferred terms add up.

Source: k8s.io/api core/v1 NodeAffinity.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from allocator.cluster.node_affinity import NAME_FIELD, labels_match, selects_leniently
from allocator.model import Node, NodeSelector, Term
from scheduler.core_v1.pod import Pod, Preference
from scheduler.plugins.plugin import Change, Cycle, Plugin, RefusingNode, Score, Static, normalized
from scheduler.state.masks import Numbers


def node_affinity(pod: Pod, node: Node) -> str:
    """Refuses a node that the pod's selector or required affinity leaves out."""
    if labels_match(pod.node_selector, node.labels) and (pod.affinity is None or selects_leniently(pod.affinity, node)):
        return ""
    return "node did not match the pod's node affinity/selector"


def preferred_weight(pod: Pod, node: Node) -> int:
    """The sum of the weights of the preferred terms that the node matches.

    Differs from kube-scheduler: a term that is invalid matches nothing, where there it ends the attempt.
    """
    return _weight(pod.preferences, node)


def _weight(preferences: Iterable[Preference], node: Node) -> int:
    return sum([one.weight for one in preferences if selects_leniently((one.term,), node)])


def named_nodes(affinity: NodeSelector | None) -> frozenset[str] | None:
    """The only nodes that the terms can match, by name; None where one term asks for no name.

    The pods of a DaemonSet are like this: each asks for its one node.
    """
    if not affinity:
        return None
    names: set[str] = set()
    for term in affinity:
        asked = list(_names(term))
        if not asked:
            return None
        names |= frozenset.intersection(*asked)
    return frozenset(names)


def _names(term: Term) -> Iterator[frozenset[str]]:
    for field in term.fields:
        if field.key == NAME_FIELD and field.operator == "In":
            yield frozenset(field.values)


def _scores(cycle: Cycle, _nodes: Numbers, preferred: Numbers) -> Numbers | None:
    return normalized(preferred) if cycle.pod.preferences else None


def _changes(cycle: Cycle, place: RefusingNode) -> Iterator[Change]:
    """Without the labels and the terms that do not match."""
    pod, labels = cycle.pod, place.node.labels
    missing = {key: value for key, value in pod.node_selector.items() if labels.get(key) != value}
    matches = pod.affinity is None or selects_leniently(pod.affinity, place.node)
    dropped = [f"nodeSelector {key}={value}" for key, value in sorted(missing.items())]
    dropped += [] if matches else ["required node affinity"]
    selector = {key: value for key, value in pod.node_selector.items() if key not in missing}
    changed = replace(pod, node_selector=selector, affinity=pod.affinity if matches else None)
    yield Change(f"{', '.join(dropped)} dropped", changed)


def _conflict(cycle: Cycle) -> str:
    """Why no node can match: each term names nodes, and those of one term exclude each other."""
    return "pod affinity terms conflict" if named_nodes(cycle.pod.affinity) == frozenset() else ""


_BY_NODE = Plugin.of_nodes(
    "NodeAffinity",
    Static("node(s) didn't match Pod's node affinity/selector", node_affinity, _changes),
    pod_fields=("node_selector", "affinity", "preferences"),
    node_fields=("labels",),
    score=Score(2, _scores, preferred_weight),
)

NODE_AFFINITY = replace(_BY_NODE, pre_filter=_conflict)


def node_affinity_plugins(
    required: NodeSelector | None = None, preferences: Sequence[Preference] = ()
) -> tuple[Plugin, ...]:
    """The plugin with an affinity that every pod has beside its own; what that requires is asked before."""

    def enforced(_pod: Pod, node: Node) -> str:
        is_left_out = required is not None and not selects_leniently(required, node)
        return "node did not match the scheduler-enforced node affinity" if is_left_out else ""

    def weight(pod: Pod, node: Node) -> int:
        return preferred_weight(pod, node) + _weight(preferences, node)

    def scores(_cycle: Cycle, _nodes: Numbers, preferred: Numbers) -> Numbers:
        return normalized(preferred)

    own = replace(NODE_AFFINITY, score=Score(2, scores, weight)) if preferences else NODE_AFFINITY
    static = Static("node(s) didn't match scheduler-enforced node affinity", enforced)
    before = Plugin.of_nodes(NODE_AFFINITY.name, static, pod_fields=(), node_fields=("labels",))
    return (before, own) if required is not None else (own,)
