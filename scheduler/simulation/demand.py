"""What pods request of the fleet: their claims, the amount, and a description.

The amount is the least that a kind of node takes for it, of those whose hardware can hold all of it, whatever is in
use; what no node can hold counts as nothing, and so do devices that every node reaches.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from allocator.bits import bits
from allocator.fleet.alike import fingerprint_of
from allocator.model import Claim
from allocator.outcome import AllocationError
from allocator.policies.whole_nodes import UnitRequest
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle
from scheduler.offline.input_claims import Claims
from scheduler.state.pods import PodRequests, pod_requests

NO_DEVICES = "no devices"


@dataclass(slots=True, eq=False)
class _Demanded:
    """What pods of one spec request."""

    pod: Pod
    """One of the pods."""
    requests: PodRequests
    claims: tuple[Claim, ...]
    shape: str
    """The shape of the devices, in words."""
    amount: int | None = None
    """How much they ask for; None until it is needed."""


MOST_SPECS = 1 << 14
"""Specs of pods whose requests are remembered; beyond, all are worked out again."""


class Demand:
    """What pods request of the nodes of a cluster, computed once for pods with one spec, and for equal requests."""

    def __init__(self, cluster: Cluster, claims: Claims) -> None:
        self._cluster = cluster
        self._claims = claims
        self._amounts: dict[Hashable, int] = {}
        self._of_spec: dict[Hashable, _Demanded] = {}

    def hardware_changed(self) -> None:
        """Nodes, slices or classes were added, removed or changed."""
        self._amounts.clear()
        self._of_spec.clear()

    def of(self, pod: Pod) -> tuple[PodRequests, tuple[Claim, ...]]:
        """What the pod requests of its node, and its claims, with the one for its extended resources."""
        demanded = self._demanded(pod)
        return demanded.requests, demanded.claims

    def shape(self, pod: Pod) -> str:
        """The same of its claims, in words; see `shape_of`."""
        return self._demanded(pod).shape

    def _demanded(self, pod: Pod) -> _Demanded:
        key = _spec_of(pod)
        demanded = self._of_spec.get(key) if key else None
        if demanded is None:
            requests, claims = self._asked(pod)
            demanded = _Demanded(pod, requests, claims, shape_of(claims))
            if len(self._of_spec) >= MOST_SPECS:
                self._of_spec.clear()
            if key:
                self._of_spec[key] = demanded
        return demanded

    def _asked(self, pod: Pod) -> tuple[PodRequests, tuple[Claim, ...]]:
        requests, claims = pod_requests(pod), tuple(self._claims.asked_by(pod))
        unallocated = [replace(claim, allocation=None) for claim in claims]
        asks = PodCycle(self._cluster, pod, unallocated).asks
        chosen = next((one for one in asks if one.extended), None)
        return (chosen.requests, chosen.pending) if chosen else (requests, claims)

    def amount(self, pod: Pod) -> int:
        """What the pod's claims request, in thousandths of a unit."""
        demanded = self._demanded(pod)
        if demanded.amount is None:
            demanded.amount = self._amount(demanded.claims)
        return demanded.amount

    def _amount(self, claims: Sequence[Claim]) -> int:
        if not claims:
            return 0
        key = fingerprint_of(claims)
        if key not in self._amounts:
            self._amounts[key] = min(self._on_each_kind(claims), default=0)
        return self._amounts[key]

    def _on_each_kind(self, claims: Sequence[Claim]) -> Iterator[int]:
        for number in self._one_of_each_kind(claims):
            try:
                asked = [one for one in self._cluster.free_resources.requests(number, claims) if one.count]
            except AllocationError:  # such as a claim of which a selector fails there
                continue
            if asked and all(one.is_possible for one in asked):
                yield sum(map(_least, asked))

    def _one_of_each_kind(self, claims: Sequence[Claim]) -> Iterable[int]:
        kinds, first_of_kind = self._cluster.fleet.kinds(claims), dict[Hashable, int]()
        for number in bits(self._cluster.fleet.all):
            first_of_kind.setdefault(kinds.of(number), number)
        return first_of_kind.values()


def _spec_of(pod: Pod) -> Hashable:
    """The same for pods that share what decides here of one spec; None where claims that are there decide as well.

    The values are to be kept with what is known of them, so that no others get their identities.
    """
    if pod.claim_statuses or any(entry.claim_name for entry in pod.claims):
        return None
    parts = (pod.claims, pod.containers, pod.budget, pod.overhead, pod.by_claims)
    return pod.namespace, bool(pod.node_name), *map(id, parts)


def _least(asked: UnitRequest) -> int:
    return asked.count * min(amount for amount in asked.amounts if amount)


def shape_of(claims: Sequence[Claim]) -> str:
    """What claims request, short enough for a column: `2 gpu`, `1 gpu (milli 500)`, `1 gpu selected + 1 nic`."""
    return " + ".join(text for claim in claims for text in _requests(claim)) or NO_DEVICES


def _requests(claim: Claim) -> Iterator[str]:
    for request in claim.requests:
        if not request.alternatives:
            continue
        first = request.alternatives[0]
        count = "all" if first.mode == "All" else str(first.count)
        amounts = ", ".join(f"{name} {_plain(amount.nanos)}" for name, amount in sorted((first.capacity or {}).items()))
        selected = " selected" if first.selectors else ""
        others = " or other" if len(request.alternatives) > 1 else ""
        yield f"{count} {first.class_name}{selected}{f' ({amounts})' if amounts else ''}{others}"


def _plain(nanos: int) -> str:
    return f"{float(Fraction(nanos, 10**9)):.15g}"
