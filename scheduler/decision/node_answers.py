"""Why each node can or cannot take a pod, or a claim without a pod; computed on request.

`decide` only returns what becomes of a pod; this module works out the details, for the current state.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from allocator.fleet.fleet import Fleet
from allocator.model import Claim
from allocator.outcome import Allocated, AllocationError, Outcome
from allocator.search.rules import Mask, bits
from scheduler.core_v1.pod import Pod
from scheduler.decision.able import allowed, beside_devices, counts_devices, cycle_of, reached_by_all
from scheduler.decision.cluster import Cluster
from scheduler.decision.feasibility import rejections
from scheduler.decision.requirements import Requirements, requirements
from scheduler.decision.schedule_result import NotPlaced
from scheduler.plugins.plugin import Rejected
from scheduler.state.pod_requests import pod_requests

Answer = str | Outcome | AllocationError
"""What a node says: why the pod cannot be there at all, or what becomes of the claims.

An `Allocated` here has a score, and no allocations: nodes with the same score share it.
"""


@dataclass(frozen=True, slots=True)
class Unfit:
    """Nodes that say the same. node: the first of them."""

    answer: str | Outcome
    node: str
    nodes: Mask

    @property
    def number(self) -> int:
        """How many they are."""
        return self.nodes.bit_count()


def unfit(cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], refused: NotPlaced) -> list[Unfit]:
    """Why no node can take the pod; a node that lacks several resources is in as many groups.

    pod: None for a claim that no pod uses. claims: the pod's own. refused: what was decided; nothing has changed since.
    Cost: O(different reasons), but for what is not known yet of nodes that have changed.
    """
    found: list[tuple[str | Outcome, Mask]] = []
    for required in requirements_of(cluster, pod, claims):
        found += _not_left(cluster, pod, claims, required, refused.filtered)
        if pod is not None:
            found += _crowded(cluster, pod, claims, required).items()
    found += refused.lacking
    return [Unfit(answer, cluster.name_of(next(bits(nodes))), nodes) for answer, nodes in found]


def answers(
    cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], *, names_devices: bool = True
) -> Iterator[tuple[str, Answer]]:
    """What each node says, by name, in the order of their numbers; nodes that say the same share an object.

    names_devices: a refusal has the node's own devices and their holders, so that no other node shares it.
    Cost: O(nodes), and with names_devices O(devices of the nodes that lack some).
    """
    found = dict[int, Answer]()
    for required in requirements_of(cluster, pod, claims):
        texts: dict[int, list[str]] = {}
        for text, nodes in _not_left(cluster, pod, claims, required, _filtered(cluster, pod, required)):
            for number in bits(nodes):
                texts.setdefault(number, []).append(text)
        found |= {number: "; ".join(reported) for number, reported in texts.items()}
        left = _left(cluster, pod, claims, required)
        for answer, nodes in _by_devices(cluster.fleet_of(pod), required, left, names_devices=names_devices):
            found |= dict.fromkeys(bits(nodes), answer)
        if pod is not None and counts_devices(cluster):
            for number in bits(left):
                if isinstance(found[number], Allocated):
                    found[number] = beside_devices(cluster, pod, claims, required, number) or found[number]
    for number in sorted(found):
        yield cluster.name_of(number), found[number]


def _by_devices(
    fleet: Fleet, required: Requirements, nodes: Mask, *, names_devices: bool
) -> Iterator[tuple[Answer, Mask]]:
    """What the nodes say of the devices of claims."""
    pending = required.pending
    if not pending:
        yield Allocated((), 0, fleet.features), nodes
        return
    for outcome, lacking in fleet.unable_by_node(pending, nodes):
        nodes &= ~lacking
        if names_devices:
            yield from ((required.named(fleet.refusal(pending, number)), 1 << number) for number in bits(lacking))
        else:
            yield required.named(outcome), lacking
    able = fleet.able(pending) & nodes
    for (_, score), own in fleet.scores(pending, able).items():
        yield Allocated((), 0, fleet.features, score), own
    for number in bits(nodes & ~able):
        try:
            yield fleet.allocate(number, pending), 1 << number
        except AllocationError as error:
            yield error, 1 << number


def same_answers(answers: Mapping[str, Answer]) -> list[tuple[Answer, list[str]]]:
    """The nodes that share an answer together, in the order of their first nodes."""
    found: dict[int, tuple[Answer, list[str]]] = {}
    for name, answer in answers.items():
        found.setdefault(id(answer), (answer, []))[1].append(name)
    return list(found.values())


def refusal_on(cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], number: int) -> Outcome:
    """Why a node that lacks devices does, with devices and holders."""
    required = requirements_on(cluster, pod, claims, number)
    return required.named(cluster.fleet_of(pod).refusal(required.pending, number))


def requirements_on(cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], number: int) -> Requirements:
    """What the pod asks of the node."""
    return next(one for one in requirements_of(cluster, pod, claims) if one.nodes >> number & 1)


def requirements_of(cluster: Cluster, pod: Pod | None, claims: Sequence[Claim]) -> Sequence[Requirements]:
    """What the pod asks of the nodes. claims: its own."""
    pending = [claim for claim in claims if claim.allocation is None]
    who = pod or Pod("", "")
    return requirements(cluster, who, pod_requests(who), pending)


def _filtered(cluster: Cluster, pod: Pod | None, required: Requirements) -> Iterator[Rejected]:
    """What filters say of the nodes of `required` that they refuse."""
    if pod is not None:
        cycle = cycle_of(cluster, pod, required.requests)
        yield from (one for _, one in rejections(cycle, cluster.templates_of(pod)))


def _not_left(
    cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], required: Requirements, filtered: Iterable[Rejected]
) -> Iterator[tuple[str, Mask]]:
    """The nodes of `required` that cannot take the pod, whatever devices they have, by reason.

    filtered: what filters say.
    """
    if pod is not None:
        template = cluster.templates_of(pod).of(pod)
        for text, nodes in cluster.templates_of(pod).refused(template).items():
            if own := nodes & required.nodes:
                yield text, own
        for one in filtered:
            if own := one.nodes & required.nodes & template.allowed:
                yield one.reason, own
    if required.problem:
        yield required.problem, required.nodes
    if any(claim.allocation for claim in claims):
        left = _allowed(cluster, pod, required)
        for claim in claims:
            if own := left & ~reached_by_all(cluster, [claim]):
                yield f"claim {claim} is allocated, and not reachable from the node", own
                left &= ~own


def _left(cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], required: Requirements) -> Mask:
    """The nodes of `required` where only devices may be missing."""
    return _allowed(cluster, pod, required) & reached_by_all(cluster, claims)


def _allowed(cluster: Cluster, pod: Pod | None, required: Requirements) -> Mask:
    return required.nodes if pod is None else allowed(cluster, cycle_of(cluster, pod, required.requests), required)


def _crowded(cluster: Cluster, pod: Pod, claims: Sequence[Claim], required: Requirements) -> Mapping[str, Mask]:
    """The nodes without room beside the devices, by reason. Cost: an allocation for each."""
    found: dict[str, Mask] = {}
    if not counts_devices(cluster):
        return found
    left = _left(cluster, pod, claims, required)
    for number in bits(left & cluster.fleet_of(pod).able(required.pending) if required.pending else left):
        if text := beside_devices(cluster, pod, claims, required, number):
            found[text] = found.get(text, 0) | 1 << number
    return found
