"""The pods on each node: those that the watch shows there, and assumed ones.

A pod is *assumed* on its node from the decision on, and confirmed when the watch shows it bound. An event older than
the binding shows it without a node, and changes nothing. Pods on unknown nodes are counted as soon as the node is
known.
Source: kube-scheduler's cache, assumed pods.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

from allocator.model import Container
from allocator.pod_resources import Amounts, PodResources, pod_need
from cel.values.quantity import Format, Quantity
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod, claim_keys

# What a pod takes from a node's resources: as NodeResourcesFit counts it, and as LeastAllocated does.
#
# Amounts are integers: thousandths of cpu, units of everything else, rounded up once after summing exactly. For scores,
# a container without requests for cpu or memory counts with a small default, so that pods without requests are spread
# as well. Source: k8s.io/component-helpers resource/helpers.go PodRequests, kube-scheduler's NodeInfo; KEP-753,
# KEP-2837.


CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
"""The resource of which every pod takes one."""

MOST = 2**53
"""More of a resource than this (8 PiB of memory) counts as this much: sums and scores stay within 64 bits."""

ALL_ROOM: Mapping[str, Quantity] = {PODS: Quantity.of(MOST)}
"""What a pod takes of whose requests nothing is known: no other one has a place beside it."""

OF_NODES = frozenset({CPU, MEMORY, "ephemeral-storage"})
"""What every node has some of; huge pages beside it."""

_PREFIXES = ("hugepages-", "attachable-volumes-")
_POD_LEVEL = frozenset({CPU, MEMORY})
_HUGE_PAGES = "hugepages-"
_UNIT = 10**9
_MILLI = 10**6

_AT_LEAST: Mapping[str, Quantity] = {CPU: Quantity.parse("100m"), MEMORY: Quantity.parse("200Mi")}
"""What a container counts for in a score where it says nothing."""


@dataclass(frozen=True, slots=True)
class PodRequests:
    """The requests of a pod as a whole. amounts: by resource, none of them 0. scored_cpu, scored_memory: for scores."""

    amounts: Mapping[str, int]
    scored_cpu: int
    scored_memory: int

    @property
    def key(self) -> Hashable:
        """Equal for equal requests."""
        return tuple(self.amounts.items()), self.scored_cpu, self.scored_memory

    def without(self, resources: Collection[str]) -> "PodRequests":
        """What is left where these come from elsewhere."""
        if self.amounts.keys().isdisjoint(resources):
            return self
        return replace(self, amounts={name: n for name, n in self.amounts.items() if name not in resources})


_AmountPairs = tuple[tuple[str, Quantity], ...]

USUAL_REQUESTS = 256
"""The requests of a pod with more of them are computed each time: a pod has room for thousands."""


class _RequestInputs(NamedTuple):
    """What requests are worked out from. containers: whether each is a plain init container, and its requests.

    by_claims: what the devices of each claim take of the node.
    """

    containers: tuple[tuple[bool, _AmountPairs], ...]
    budget: _AmountPairs
    overhead: _AmountPairs
    by_claims: tuple[_AmountPairs, ...]


def pod_requests(pod: Pod) -> PodRequests:
    """The requests of the pod: the most that its containers hold at one time, its claims, its budget, its overhead.

    Cost: O(containers times resources); pods of one workload are worked out once, and share what was decoded.
    """
    # By identity, which is right as long as `_Known` keeps all four.
    fields = (pod.containers, pod.budget, pod.overhead, pod.by_claims)
    decoded = (id(fields[0]), id(fields[1]), id(fields[2]), id(fields[3]))
    remembered = _KNOWN.get(decoded)
    if remembered is None:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        remembered = _KNOWN[decoded] = _Known(fields, _worked_out(pod))
    return remembered.requests


class _Known(NamedTuple):
    """fields: of pods with these requests; as long as they are there, nothing else is where they are.

    The rest of a pod is not kept: it may be megabytes, and the pod be gone for long.
    """

    fields: tuple[object, ...]
    requests: PodRequests


MOST_KNOWN = 1 << 8
"""Pods of which the requests are found again by where their fields are."""

_KNOWN: dict[tuple[int, ...], _Known] = {}


def _worked_out(pod: Pod) -> PodRequests:
    containers = tuple((one.is_plain_init, tuple(one.requests.items())) for one in pod.containers)
    by_claims = tuple(tuple(one.resources.items()) for one in pod.by_claims)
    inputs = _RequestInputs(containers, tuple(pod.budget.items()), tuple(pod.overhead.items()), by_claims)
    count = sum(1 + len(requests) for _, requests in containers) + sum(map(len, by_claims))
    return (_requests if count <= USUAL_REQUESTS else _requests.__wrapped__)(inputs)


@lru_cache(maxsize=1 << 12)
def _requests(inputs: _RequestInputs) -> PodRequests:
    containers = [Container("", dict(requests), is_plain_init) for is_plain_init, requests in inputs.containers]
    pod = PodResources(containers, dict(inputs.budget), dict(inputs.overhead))
    by_claims = [{name: amount.nanos for name, amount in one} for one in inputs.by_claims]
    need = pod_need(pod, by_claims)
    amounts = {name: units(name, nanos) for name, nanos in need.items() if nanos > 0 and _is_requested(name)}
    scored = _scored_need(pod, by_claims, need)
    return PodRequests(amounts, units(CPU, scored.get(CPU, 0)), units(MEMORY, scored.get(MEMORY, 0)))


def is_of_node(resource: str) -> bool:
    """True for a resource that a node has by itself, and that devices may take of it: no extended one."""
    return resource in OF_NODES or resource.startswith(_HUGE_PAGES)


def is_counted(resource: str) -> bool:
    """True for a resource that is counted on nodes: Kubernetes' own, huge pages, and those with a domain."""
    return resource in OF_NODES or "/" in resource or resource.startswith(_PREFIXES)


def _is_requested(resource: str) -> bool:
    return is_counted(resource) or resource == PODS


def units(resource: str, nanos: int) -> int:
    """The amount as it is counted, at most MOST. nanos: in 10**-9 of the resource's unit."""
    return min(-(-nanos // (_MILLI if resource == CPU else _UNIT)), MOST)


def _scored_need(pod: PodResources, by_claims: Iterable[Amounts], need: Amounts) -> Amounts:
    missing = dict(_missing(pod))
    if not missing:
        return need
    containers = [replace(one, requests={**missing, **one.requests}) for one in pod.containers]
    return pod_need(replace(pod, containers=containers), by_claims)


def _missing(pod: PodResources) -> Iterator[tuple[str, Quantity]]:
    """What containers that do not say so count for, where there are such."""
    has_budget = any(name in _POD_LEVEL or name.startswith(_HUGE_PAGES) for name in pod.budget)
    for name, amount in _AT_LEAST.items():
        said = [name in container.requests for container in pod.containers]
        is_known = any(said) or name in pod.budget or name in pod.overhead
        if not all(said) and not (has_budget and is_known):
            yield name, amount


def amount_text(resource: str, amount: int) -> str:
    """An amount as it is counted, in Kubernetes' notation."""
    if resource != CPU:
        return str(Quantity.of(amount, Format.BINARY_SI))
    return f"{amount}m" if amount % 1000 else str(Quantity.of(amount // 1000))


def allocatable_units(allocatable: Mapping[str, Quantity]) -> Iterable[tuple[str, int]]:
    """What a node has to give of each resource that is counted, and the number of its pods."""
    for name, amount in allocatable.items():
        if _is_requested(name):
            yield name, units(name, amount.nanos)


OfPod = TypeVar("OfPod")
"""What is known of a pod."""


class Counts(Protocol):
    """Who counts what pods take of each node."""

    def add_pod(self, number: int, pod: Pod) -> None:
        """The pod is on the node of that number."""
        ...

    def remove_pod(self, number: int, pod: Pod) -> None:
        """The pod that was added is there no more."""
        ...

    def take_away(self, number: int, pod: Pod) -> Callable[[], None]:
        """Remove the pod; what is returned adds again what it took, without working it out anew."""
        ...

    def change_pod(self, number: int, old: Pod, new: Pod) -> None:
        """The pod that was added is this one by now."""
        ...


def _no_look() -> None:
    """For pods of a single node."""


@contextmanager
def uncounted(
    counts: Sequence[Counts], pods: Iterable[tuple[int, Pod]], look: Callable[[], None] = _no_look
) -> Iterator[None]:
    """Do not count these pods meanwhile, which are counted on the nodes of these numbers.

    look: may raise between two pods, when those that were taken away are counted again.
    """
    put_back: list[Callable[[], None]] = []
    try:
        for number, pod in pods:
            look()
            put_back += [counter.take_away(number, pod) for counter in counts]
        yield
    finally:
        for add in reversed(put_back):
            add()


class NodePods:
    """Pods by the name of their node. numbers: of the nodes that are there, at any time. counts: who count the pods."""

    def __init__(self, numbers: Mapping[str, int], *counts: Counts) -> None:
        self._counts = counts
        self._numbers = numbers
        self._away: set[str] = set()
        self._watched: dict[str, Pod] = {}
        self._assumed: dict[str, tuple[Pod, str]] = {}
        self._assumed_with: dict[NamespacedName, set[str]] = {}
        self._on_node: dict[str, dict[str, Pod]] = {}
        self._places: dict[str, str] = {}

    @property
    def assumed(self) -> int:
        """How many pods are where a decision has put them, and not seen there yet."""
        return len(self._assumed)

    # -- nodes

    def node_comes(self, name: str) -> None:
        """The node has its number from now on."""
        number = self._numbers[name]
        for pod in self._on_node.get(name, {}).values():
            self._add(number, pod)

    def node_goes(self, name: str) -> None:
        """The node, which still has its number, goes; its pods stay with its name."""
        number = self._numbers[name]
        for pod in self._on_node.get(name, {}).values():
            self._remove(number, pod)

    # -- pods

    def set(self, pod: Pod) -> None:
        """The watch shows the pod; one that is over takes nothing."""
        if pod.is_finished:
            self.remove(pod.uid)
            return
        self._watched[pod.uid] = pod
        if pod.node_name:
            self._assume_no_more(pod.uid)
        self._recount(pod.uid)

    def remove(self, uid: str) -> None:
        """The watch shows that the pod is gone."""
        self._watched.pop(uid, None)
        self._assume_no_more(uid)
        self._recount(uid)

    def assume(self, pod: Pod, node: str) -> None:
        """A decision puts the pod on the node."""
        if not self._is_bound(pod.uid):
            self._assume_no_more(pod.uid)
            self._assumed[pod.uid] = (pod, node)
            for key in claim_keys(pod):
                self._assumed_with.setdefault(key, set()).add(pod.uid)
            self._recount(pod.uid)

    def forget(self, uid: str) -> None:
        """The decision came to nothing."""
        if self._assume_no_more(uid):
            self._recount(uid)

    def _assume_no_more(self, uid: str) -> bool:
        """Whether it was assumed."""
        pod, _ = self._assumed.pop(uid, (None, ""))
        for key in set(claim_keys(pod)) if pod is not None else ():
            self._assumed_with[key].discard(uid)
            if not self._assumed_with[key]:
                del self._assumed_with[key]
        return pod is not None

    @contextmanager
    def without(self, uids: Collection[str], look: Callable[[], None]) -> Iterator[None]:
        """As if these pods were not there, until the end of the context. Cost: O(pods of their nodes).

        look: at the time; may raise, when nothing has changed.
        """
        by_node: dict[str, dict[str, None]] = {}
        for uid in uids:
            if node := self._places.get(uid):
                by_node.setdefault(node, {})[uid] = None
        gone = [
            (self._numbers[node], self._on_node[node][uid])
            for node, own in by_node.items()
            if node in self._numbers
            for uid in own
        ]
        with uncounted(self._counts, gone, look), without_entries(self._on_node, by_node):
            self._away.update(uids)
            try:
                yield
            finally:
                self._away.difference_update(uids)

    # -- questions

    def known(self, uid: str) -> Pod | None:
        """The pod as the watch shows it, or else as a decision has put it on a node."""
        assumed = self.assumed_pod(uid)
        return self.shown(uid) or (assumed[0] if assumed else None)

    def assumed_pod(self, uid: str) -> tuple[Pod, str] | None:
        """The pod as a decision has put it on a node, with that node's name, until it is seen there."""
        return None if uid in self._away else self._assumed.get(uid)

    def in_flight_with(self, claim: NamespacedName) -> Iterator[str]:
        """The pods (uids) that name the claim, and are where a decision has put them, and not seen there yet."""
        return (uid for uid in self._assumed_with.get(claim, ()) if uid not in self._away)

    def on_nodes(self) -> Iterator[tuple[int, Pod]]:
        """All pods that are counted, with the numbers of their nodes."""
        for node, pods in self._on_node.items():
            if node in self._numbers:
                yield from ((self._numbers[node], pod) for pod in pods.values())

    def pending(self) -> Iterator[Pod]:
        """The pods that the watch shows and that are on no node, the newest first. Cost: O(pods)."""
        unplaced = ((uid, pod) for uid, pod in reversed(self._watched.items()) if not self.is_placed(uid))
        return (pod for uid, pod in unplaced if uid not in self._away)

    def shown(self, uid: str) -> Pod | None:
        """The pod, where the watch shows it."""
        return None if uid in self._away else self._watched.get(uid)

    def is_shown(self, uid: str) -> bool:
        """Whether the watch shows the pod."""
        return self.shown(uid) is not None

    def is_placed(self, uid: str) -> bool:
        """Whether the pod is on a node: bound, as the watch shows it, or assumed."""
        return self.assumed_pod(uid) is not None or self._is_bound(uid)

    def node_of(self, uid: str) -> str:
        """The name of the node where the pod is, bound or assumed; empty where it is on none."""
        return "" if uid in self._away else self._places.get(uid, "")

    def bound(self, uid: str) -> Pod | None:
        """The pod, where the watch shows it on a node."""
        pod = self.shown(uid)
        return pod if pod is not None and pod.node_name else None

    def _is_bound(self, uid: str) -> bool:
        return self.bound(uid) is not None

    def _recount(self, uid: str) -> None:
        """Count the pod where it is now, and as it is now."""
        pod, node = self._assumed.get(uid, (self._watched.get(uid), ""))
        if pod is not None and not node:
            node = pod.node_name
        old = self._places.get(uid, "")
        counted = self._on_node[old][uid] if old else None
        if counted is not None and pod is not None and old == node:
            self._change(node, counted, pod)
            return
        if old and counted is not None:
            self._take_away(uid, old, counted)
        if node and pod is not None:
            self._put(node, pod)

    def _change(self, node: str, old: Pod, new: Pod) -> None:
        self._on_node[node][new.uid] = new
        if node in self._numbers and old is not new:
            for counts in self._counts:
                counts.change_pod(self._numbers[node], old, new)

    def _put(self, node: str, pod: Pod) -> None:
        self._places[pod.uid] = node
        self._on_node.setdefault(node, {})[pod.uid] = pod
        if node in self._numbers:
            self._add(self._numbers[node], pod)

    def _take_away(self, uid: str, node: str, pod: Pod) -> None:
        del self._places[uid]
        del self._on_node[node][uid]
        if not self._on_node[node]:
            del self._on_node[node]
        if node in self._numbers:
            self._remove(self._numbers[node], pod)

    def _add(self, number: int, pod: Pod) -> None:
        for counts in self._counts:
            counts.add_pod(number, pod)

    def _remove(self, number: int, pod: Pod) -> None:
        for counts in self._counts:
            counts.remove_pod(number, pod)


@contextmanager
def without_entries(by_node: dict[str, dict[str, OfPod]], gone: Mapping[str, Collection[str]]) -> Iterator[None]:
    """Leave these pods (uids) out meanwhile. by_node: what is known of pods, in its old order again afterwards."""
    before = {node: by_node[node] for node in gone}
    for node, uids in gone.items():
        by_node[node] = {uid: pod for uid, pod in before[node].items() if uid not in uids}
    try:
        yield
    finally:
        by_node.update(before)
