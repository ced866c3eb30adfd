"""The contract of a plugin: what one of kube-scheduler's plugins decides, in one value that its own file holds.

A plugin refuses nodes by pod and node alone (`Static`, whose answers are kept until one of them changes) or by what
else is in the cluster (`Dynamic`, asked in every cycle for all nodes at once), scores those that are left, and says
which events may help a pod that it refused. A new plugin is a file with such a value and a line in `default`.
Source: k8s.io/kube-scheduler framework: PreFilter, Filter, Score, EnqueueExtensions (KEP-624, KEP-4247).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from allocator.bits import Mask
from allocator.model import Claim, Node
from scheduler.core_v1.pod import Pod
from scheduler.plugins.cycle import Cycle
from scheduler.state.cluster_changes import Event, NodeChanged
from scheduler.state.masks import Numbers
from scheduler.state.pods import PodRequests

MOST_TERMS = 100
"""Of a pod with more terms, constraints or ports, hints say yes without a look: each event would take milliseconds."""


@dataclass(frozen=True, slots=True)
class Static:
    """A filter that looks at the pod and one node. reason: its refusal of several nodes, in kube-scheduler's words.

    refusal: why the pod cannot be on the node, empty where it can. No other pod's end would change the answer.
    changes: as of `Plugin`.
    """

    reason: str
    refusal: Callable[[Pod, Node], str]
    changes: Callable[[Cycle, "RefusingNode"], Iterable["Change"]] | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nodes that are refused for one reason, in kube-scheduler's words.

    resolvable: those that the end of other pods could make feasible, kube-scheduler's code Unschedulable; the others
    are UnschedulableAndUnresolvable. is_late: DynamicResources has let them pass before.
    """

    reason: str
    nodes: Mask
    resolvable: Mask = 0
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A filter that looks at all nodes at once.

    refused: the nodes that it refuses. rejections: why, of these nodes; one may be refused for several reasons.
    looks_further: whether pods on other nodes count for a node. is_skipped: whether the pod asks nothing of it, and
    nothing that is there keeps the pod away.
    """

    refused: Callable[[Cycle], Mask]
    rejections: Callable[[Cycle, Mask], Iterable[Rejected]]
    looks_further: bool = False
    is_skipped: Callable[[Cycle], bool] = lambda _: False

    @staticmethod
    def of(reason: str, refused: Callable[[Cycle], Mask]) -> "Dynamic":
        """A filter of each node by itself, with one reason, which the end of other pods may undo."""

        def rejections(cycle: Cycle, asked: Mask) -> Iterable[Rejected]:
            nodes = refused(cycle) & asked
            return (Rejected(reason, nodes, nodes),) if nodes else ()

        return Dynamic(refused, rejections)


@dataclass(frozen=True, slots=True)
class RefusingNode:
    """A node that refuses a pod. others: the pods on all nodes, with the numbers of these."""

    number: int
    node: Node
    others: Sequence[tuple[int, Pod]]

    @property
    def own(self) -> Iterator[tuple[int, Pod]]:
        """The pods that are on the node."""
        return (one for one in self.others if one[0] == self.number)


@dataclass(frozen=True, slots=True)
class Change:
    """A single change that may let a node take a pod, for a person: `text`, such as `pod default/web gone`."""

    text: str
    pod: Pod | None = None
    node: Node | None = None
    """pod, node: as they would be, None as they are."""
    requests: PodRequests | None = None
    """What the pod would request, None for what it does."""
    gone: Sequence[tuple[int, Pod]] = ()
    """The pods that would not be there, with the numbers of their nodes."""

    @staticmethod
    def without(gone: Sequence[tuple[int, Pod]]) -> "Change":
        """That these pods are gone."""
        names = ", ".join(sorted(str(pod) for _, pod in gone))
        return Change(f"pod{'s' if len(gone) > 1 else ''} {names} gone", gone=gone)


@dataclass(frozen=True, slots=True)
class Score:
    """How good nodes are. scores: of these node numbers, from 0 to 100, given the counts of each.

    It is None where the plugin has nothing to say of the pod, kube-scheduler's Skip: no node is better for it then.
    count: what counts for the score by pod and node alone, where that is all; kept until one of them changes.
    """

    weight: int
    scores: Callable[[Cycle, Numbers, Numbers], Numbers | None]
    count: Callable[[Pod, Node], int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Reason:
    """Why a plugin refused a pod, as far as it matters to what may help."""

    plugin: str
    """Kube-scheduler's name, which metrics count; "" where it is none."""
    hints: Mapping[type[Event], "Hint"] = field(default_factory=dict)
    """Whether an event may help a pod that was refused for it, by the type of the event; other events cannot. A hint
    must never say no to one that could make the pod fit, for the pod would wait for minutes; a yes that comes to
    nothing costs one more attempt. It may count on old and new being consecutive: a node that a filter refused stays
    refused until an event shows it pass.
    """
    node_fields: tuple[str, ...] = ()
    """The fields of a node that a hint for changed nodes looks at."""
    name: str = ""
    """Reported in place of it."""
    counts_pods: bool = False
    """Whether a pod helps that comes to a node or gets other labels, too, and not only one that goes."""

    def __str__(self) -> str:
        return self.name or self.plugin


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an attempt ended with."""

    reasons: frozenset[Reason]
    """Of all nodes together."""
    requests: PodRequests
    """What the pod takes of any node, at least."""
    classes: frozenset[str] = frozenset()
    """That the pod's claims name."""
    resources: frozenset[str] = frozenset()
    """Of which it may take more on some, or which only some have to give: what devices take of their node, and extended
    resources.
    """
    message: str = ""
    gist: str = ""
    """The message without what changes with every allocation: without numbers of nodes, and without the nearest node
    and who holds its devices.
    """
    awaits: Callable[[Claim], bool] | None = field(default=None, compare=False)
    """Whether it may help that a claim gives back its devices, where limits of tenants refused the pod; None for any
    claim.
    """


@dataclass(frozen=True, slots=True)
class RefusedPod:
    """A refused pod, as it is now, and why it was refused."""

    pod: Pod
    refusal: Refusal


Hint = Callable[[RefusedPod, Any], bool]
"""True where the event, of the type that the hint stands for, may make the refused pod fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Plugin:
    """A plugin by kube-scheduler's name."""

    name: str
    reasons: tuple[Reason, ...]
    """Why it refuses."""
    pod_fields: tuple[str, ...] = ()
    """All that it reads of a pod."""
    pre_filter: Callable[[Cycle], str] | None = None
    """Why no node can take the pod, whatever pods end; empty where it does not know."""
    static: Static | None = None
    dynamic: Dynamic | None = None
    score: Score | None = None
    changes: Callable[[Cycle, RefusingNode], Iterable[Change]] | None = None
    """That may let a place that it refuses take the pod; each is verified by who asks."""

    @property
    def reason(self) -> Reason:
        """Why its filter refuses."""
        return self.reasons[0]

    @staticmethod
    def of_nodes(
        name: str,
        static: Static,
        *,
        pod_fields: tuple[str, ...],
        node_fields: tuple[str, ...],
        score: Score | None = None,
    ) -> "Plugin":
        """A plugin that looks at pod and node alone: a refused pod is helped by a node that comes to pass."""
        hints: Mapping[type[Event], Hint] = {NodeChanged: _now_passes(static)}
        reasons = (Reason(name, hints, node_fields),)
        return Plugin(name, reasons, pod_fields, static=static, score=score, changes=static.changes)


def _now_passes(static: Static) -> Hint:
    """A node comes, or comes to be let pass."""

    def hint(who: RefusedPod, event: NodeChanged) -> bool:
        if event.new is None or static.refusal(who.pod, event.new):
            return False
        return event.old is None or bool(static.refusal(who.pod, event.old))

    return hint


def always(_who: RefusedPod, _event: Event) -> bool:
    """The hint for events that may always help."""
    return True


def is_added(_who: RefusedPod, event: NodeChanged) -> bool:
    """The hint for nodes that come."""
    return event.old is None


NO_NODES = Reason("", {NodeChanged: is_added}, name="no nodes")
"""There are none, so that no plugin could refuse any."""

UNSUPPORTED = Reason("GangScheduling")
"""The pod is in a PodGroup, which only kube-scheduler's plugin of this name could schedule."""

OF_GROUP = Reason("GangScheduling", name="pod group")
"""The pod waits for what becomes of its group, which its own events bring back."""
