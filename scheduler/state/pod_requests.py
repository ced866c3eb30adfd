"""What a pod takes from a node's resources: as NodeResourcesFit counts it, and as LeastAllocated does.

Amounts are integers: thousandths of cpu, units of everything else, rounded up once after summing exactly. For scores, a
container without requests for cpu or memory counts with a small default, so that pods without requests are spread as
well.
Source: k8s.io/component-helpers resource/helpers.go PodRequests, kube-scheduler's NodeInfo; KEP-753, KEP-2837.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from allocator.model import Container
from allocator.pods.node_allocatable_resources import Amounts, PodResources, pod_need
from cel.values.quantity import Format, Quantity
from scheduler.core_v1.pod import Pod

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


_Entries = tuple[tuple[str, Quantity], ...]

USUAL_REQUESTS = 256
"""The requests of a pod with more of them are computed each time: a pod has room for thousands."""


class _RequestInputs(NamedTuple):
    """What requests are worked out from. containers: whether each is a plain init container, and its requests.

    by_claims: what the devices of each claim take of the node.
    """

    containers: tuple[tuple[bool, _Entries], ...]
    budget: _Entries
    overhead: _Entries
    by_claims: tuple[_Entries, ...]


def pod_requests(pod: Pod) -> PodRequests:
    """The requests of the pod: the most that its containers hold at one time, its claims, its budget, its overhead.

    Cost: O(containers times resources); pods of one workload are worked out once, and share what was decoded.
    """
    decoded = (id(pod.containers), id(pod.budget), id(pod.overhead), id(pod.by_claims))
    known = _KNOWN.get(decoded)
    if known is None:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[decoded] = _Known(pod, _worked_out(pod))
    return known.requests


class _Known(NamedTuple):
    """pod: with these requests; as long as it is there, nothing else is where its fields are."""

    pod: Pod
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
    return f"{amount}m" if resource == CPU else str(Quantity.of(amount, Format.BINARY_SI))


def allocatable_units(allocatable: Mapping[str, Quantity]) -> Iterable[tuple[str, int]]:
    """What a node has to give of each resource that is counted, and the number of its pods."""
    for name, amount in allocatable.items():
        if _is_requested(name):
            yield name, units(name, amount.nanos)
