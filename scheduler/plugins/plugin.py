"""The contract of a plugin: what one of kube-scheduler's plugins decides, in one value that its own file holds.

A plugin refuses nodes by pod and node alone (`Static`, whose answers are kept in a `PodSignature` until one of them
changes) or by what else is in the cluster (`Dynamic`, asked in every `Cycle` for all nodes at once), scores those that
are left, and says which events may help a pod that it refused. A new plugin is a file with such a value and a line in
`profile`.
Source: k8s.io/kube-scheduler framework: PreFilter, Filter, Score, EnqueueExtensions (KEP-624, KEP-4247).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from allocator.bits import Mask
from allocator.gates import Features
from allocator.model import Claim, Node
from cel import Cancelled
from scheduler.core_v1.pod import Pod
from scheduler.state.cluster_changes import Event, NamespaceChanged, NodeChanged
from scheduler.state.labels import Domains, PodSelectors
from scheduler.state.masks import Flags, Numbers
from scheduler.state.node_infos import NodeInfos, Promised
from scheduler.state.pods import PodRequests, uncounted
from scheduler.state.volumes import Volumes

NO_NODE, NOT_NAMED = 1 << 14, 1 << 13
"""In place of filters' bits: no node has the number, or it is none of those that the pod names."""

MOST_DOMAINS = 16
"""Sets of domains that a signature keeps: pods of one have one or two; beyond, all are computed again."""

_NO_NUMBERS: Numbers = np.zeros(0, np.int64)


@dataclass(slots=True, eq=False)
class PodSignature:
    """What holds for all pods of a signature."""

    pod: Pod
    filters: int
    """How many static filters there are."""
    honored: Mapping[str, int]
    """By name, the bits of filters that PodTopologySpread honors: of further ones, where they refuse nothing."""
    counts: dict[str, Numbers]
    """By plugin and node number, what counts for its score."""
    refusals: NDArray[np.int16]
    """By node number, one bit for each filter that refuses the node, or would."""
    allowed: Mask = 0
    """The nodes that every static filter lets pass."""
    counting: frozenset[str] = frozenset()
    """The plugins to which anything counts."""
    alike: int | None = None
    """What the others add to the total of each node, None until requested."""
    stale: set[int] = field(default_factory=set)
    """Numbers of nodes to be looked at."""
    refused_by: Sequence[Mask] | None = None
    """For each filter, the nodes that it is the first to refuse."""
    by_text: Mapping[str, Mask] | None = None
    """All that are not allowed, by what keeps the pods from them. Both are None until requested."""
    counted_domains: dict[Hashable, tuple[int, Domains]] = field(default_factory=dict)
    """The domains of nodes that pods are spread over, until a node changes (`domains_within`)."""

    def counts_of(self, plugin: str, nodes: Numbers) -> Numbers:
        """What counts for the plugin's score, of these nodes; nothing where pod and node alone count nothing."""
        counts = self.counts.get(plugin)
        return _NO_NUMBERS if counts is None else counts[nodes]

    @property
    def refusing(self) -> int:
        """The bits of which one is enough to refuse a node."""
        return (1 << self.filters) - 1 | NO_NODE | NOT_NAMED

    def first_refused_by(self, position: int) -> Flags:
        """The nodes that the filter at this position refuses, and none before it."""
        bit = 1 << position
        first: Flags = (self.refusals & (2 * bit - 1 | NO_NODE | NOT_NAMED)) == bit
        return first

    def refused_by_filter(self, position: int) -> Flags:
        """The nodes that the filter at this position refuses, whatever others say."""
        refused: Flags = self.refusals & (1 << position | NOT_NAMED) != 0
        return refused

    def domains_within(self, key: Hashable, version: int, find: Callable[[], Domains]) -> Domains:
        """What was found for the key, as of the version and of what filters say of nodes; else it is computed again."""
        known = self.counted_domains.get(key)
        if known is None or known[0] != version:
            if len(self.counted_domains) >= MOST_DOMAINS:
                self.counted_domains.clear()
            known = self.counted_domains[key] = version, find()
        return known[1]

    def passed(self, plugin: str, size: int) -> Flags:
        """The nodes that the filter lets pass, whatever others say; `size` flags."""
        refused = self.refusals & (self.honored[plugin] | NO_NODE | NOT_NAMED) != 0
        passed: Flags = ~np.pad(refused, (0, size - len(refused)), constant_values=True)
        return passed


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cycle:
    """The pod, what it requests of the nodes in question, and what is in the cluster."""

    pod: Pod
    requests: PodRequests
    infos: NodeInfos
    signature: PodSignature
    """What plugins say of the pod and each node alone."""
    selectors: PodSelectors
    """Services and controllers."""
    volumes: Volumes
    """All of storage."""
    features: Features
    """What plugins follow; strict, they answer as kube-scheduler also where they would do better."""
    nominated: Mapping[int, Sequence[Promised]] = field(default_factory=dict)
    """The pods that go before this one, by the number of the node that they are promised."""
    is_cancelled: Callable[[], bool] = lambda: False
    """Whether the attempt has taken all its time."""

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """The items, one after the other, of which a pod can have thousands. Raises Cancelled."""
        for item in items:
            if self.is_cancelled():
                raise Cancelled("cancelled between the terms of a pod")
            yield item

    def is_left_out(self, promised: Promised) -> bool:
        """Whether the volumes of a promised pod are too many to be counted and taken off again in each decision."""
        # Differs from kube-scheduler, which counts any number.
        volumes = promised.pod.volumes
        number = len(volumes.claims) + len(volumes.disks) + len(volumes.handles)
        return number > FEW_VOLUMES and not self.features.is_strict

    def requesting(self, requests: PodRequests) -> "Cycle":
        """The same attempt at nodes of which the pod takes this."""
        return self if requests is self.requests else replace(self, requests=requests)

    def without(self, gone: Sequence[tuple[int, Pod]]) -> AbstractContextManager[None]:
        """Do not count these pods on their nodes meanwhile; `Cluster.without` also takes their claims away."""
        return uncounted((self.infos, self.volumes), gone)

    @contextmanager
    def beside(self, nominated: Mapping[int, Sequence[Promised]]) -> Iterator[None]:
        """Count these pods on their nodes meanwhile, but for what `Dynamic.kept_by` says.

        Their volumes matter to a pod with volumes alone. Raises Cancelled.
        """
        with ExitStack() as undo:
            for number, pods in nominated.items():
                for promised in self.each(pods):
                    self.infos.add_promised(number, promised)
                    undo.callback(self.infos.remove_pod, number, promised.pod)
                    if self.pod.volumes and not self.is_left_out(promised):
                        self.volumes.add_pod(number, promised.pod)
                        undo.callback(self.volumes.remove_pod, number, promised.pod)
            yield


FEW_VOLUMES = 16
"""Those of a promised pod with more do not count before it has come; it is placed anew where others take them."""

MOST_TERMS = 100
"""Of a pod with more terms, constraints or ports, hints say yes without a look: each event would take milliseconds."""


MOST_WORDS = 100
"""The same of one with more requirements and values in the selectors of its terms."""

FEW_TERMS = 16
"""Of a pod that asks more of the node itself, hints say yes as well: whenever any node changes, all such pods are asked
that it has refused.
"""


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
    """A filter that looks at all nodes at once."""

    refused: Callable[[Cycle], Mask]
    """The nodes that it refuses."""
    rejections: Callable[[Cycle, Mask], Iterable[Rejected]]
    """Why, of these nodes; one may be refused for several reasons."""
    looks_further: bool = False
    """Whether pods on other nodes count for a node."""
    is_skipped: Callable[[Cycle], bool] = lambda _: False
    """Whether the pod asks nothing of it, and nothing that is there keeps the pod away."""
    asks: Callable[[Cycle], bool] = lambda _: True
    """Whether it looks at others for the pod, and not only for what keeps the pod away."""
    kept_by: Callable[[Cycle, Mapping[int, Sequence[Promised]]], Mask] = lambda _, __: 0
    """Where these pods, which do not count yet, would keep the pod from their own node by what they say of others.
    `Cycle.beside` leaves that out, since a pod may say thousands of things.
    """
    keeping: str = ""
    """Why, as a rejection says it."""

    @staticmethod
    def of(
        reason: str,
        refused: Callable[[Cycle], Mask],
        kept_by: Callable[[Cycle, Mapping[int, Sequence[Promised]]], Mask] = lambda _, __: 0,
    ) -> "Dynamic":
        """A filter of each node by itself, with one reason, which the end of other pods may undo."""

        def rejections(cycle: Cycle, asked: Mask) -> Iterable[Rejected]:
            nodes = refused(cycle) & asked
            return (Rejected(reason, nodes, nodes),) if nodes else ()

        return Dynamic(refused, rejections, kept_by=kept_by, keeping=reason)


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
        if event.new is None:
            return False
        if _asks_much(who.pod):
            return True
        if static.refusal(who.pod, event.new):
            return False
        return event.old is None or bool(static.refusal(who.pod, event.old))

    return hint


def _asks_much(pod: Pod) -> bool:
    """Whether a look at pod and node would take long. Cost: O(1), whatever the pod asks."""
    terms = pod.affinity or ()
    if max(len(terms), len(pod.tolerations), len(pod.node_selector)) > FEW_TERMS:
        return True
    if sum([len(term.expressions) + len(term.fields) for term in terms]) > FEW_TERMS:
        return True
    return any([len(one.values) > MOST_TERMS for term in terms for one in (*term.expressions, *term.fields)])  # noqa: C419 - faster


def always(_who: RefusedPod, _event: Event) -> bool:
    """The hint for events that may always help."""
    return True


def is_added(_who: RefusedPod, event: NodeChanged) -> bool:
    """The hint for nodes that come."""
    return event.old is None


def is_in_namespace(who: RefusedPod, event: NamespaceChanged) -> bool:
    """Whether it is the pod's namespace that has changed."""
    return any(one.name == who.pod.namespace for one in (event.old, event.new) if one)


NAMESPACE = Reason("", {NamespaceChanged: is_in_namespace}, name="namespace")
"""The pod's namespace is being deleted."""

NO_NODES = Reason("", {NodeChanged: is_added}, name="no nodes")
"""There are none, so that no plugin could refuse any."""

UNSUPPORTED = Reason("GangScheduling")
"""The pod is in a PodGroup, which only kube-scheduler's plugin of this name could schedule."""

OF_GROUP = Reason("GangScheduling", name="pod group")
"""The pod waits for what becomes of its group, which its own events bring back."""


MAX_SCORE = 100


def normalized(raw: Numbers, *, is_reversed: bool = False) -> Numbers:
    """The raw scores, none below 0, in proportion to the largest. is_reversed: the smallest is the best.

    Where all are 0 they stay so, or are the best when reversed.
    """
    largest = int(raw.max(initial=0))
    scaled = raw * MAX_SCORE // largest if largest else raw
    return MAX_SCORE - scaled if is_reversed else scaled
