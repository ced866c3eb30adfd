"""The main job: pods to nodes and claims to devices, one pod after the other, as kube-scheduler would.

Pods are taken by priority, age and name; nodes in the order of their names. A node is asked whether
the pod may be there at all, then whether its allocated claims are reachable, then for devices. Of the
nodes that can, the one that the policy finds best is taken, the first of equals. Every node is asked: what
makes kube-scheduler give the pod up (an `AllocationError`) does so on whichever node it shows.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from allocator.allocate import BUDGET_STEPS, allocate
from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.fleet import Fleet
from allocator.gates import ADMIN_ACCESS
from allocator.model import Allocation, Claim, Node, NodeSelector
from allocator.node_affinity import selects
from allocator.outcome import Allocated, AllocationError, Exhausted, InvalidPool, Outcome, Refused
from allocator.policy import FIRST_FIT, Policy
from allocator.rules import Mask, bits
from allocator.snapshot import Snapshot
from scheduler.core_v1.pod import Pod
from scheduler.cycle import admin_access
from scheduler.cycle.filters import refusal
from scheduler.cycle.pod_claims import Waiting
from scheduler.input.inventory import ClaimObject
from scheduler.offline.claims import Claims, uid_of_pod
from scheduler.offline.extended_resources import ExtendedClaim, ExtendedResources, Wish
from scheduler.offline.node_allocatable_resources import NodeAllocatableResources, consumers_of


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod, or a claim that no pod uses, has its node and all its devices.

    claims: those of the pod, in order. extended: the last of them, where it was made for the pod's extended resources.
    """

    pod: Pod | None
    claims: tuple[Claim, ...]
    node: str
    extended: ExtendedClaim | None = None


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """A pod, or a claim that no pod uses, that got nothing.

    reason: what holds for every node, else empty. nodes: why not, as text or as the allocator's outcome, for each node
    or, of those that lack devices in the same way, for the first. asked: the number of nodes. updating: pools whose
    devices could not be had, in words.
    """

    pod: Pod | None
    claims: tuple[Claim, ...]
    reason: str = ""
    nodes: Mapping[str, "str | Outcome"] | None = None
    asked: int = 0
    updating: tuple[str, ...] = ()


Result = Placed | NotPlaced

Answer = str | Outcome | AllocationError
"""What a node says: why the pod cannot be there at all, or what becomes of the claims."""


@dataclass(frozen=True, slots=True)
class Look:
    """A pod, or a claim that no pod uses, that is looked at. settled: the result, where no node needs to be asked.

    wish: extended resources that become a claim. consumers: claim to the uids of the pods that have it.
    """

    pod: Pod | None
    claims: tuple[Claim, ...]
    settled: Result | None = None
    wish: Wish | None = None
    consumers: Mapping[str, set[str]] = field(default_factory=dict)

    @property
    def pending(self) -> list[Claim]:
        """The claims without an allocation."""
        return [claim for claim in self.claims if claim.allocation is None]

    def pending_on(self, node: Node) -> list[Claim]:
        """The claims without an allocation, and the one that extended resources become on the node, if any."""
        extended = self.wish.on(node) if self.wish else None
        return [*self.pending, extended.object.claim] if isinstance(extended, ExtendedClaim) else self.pending


class Placement:
    """A run over an inventory: state is the snapshot, which grows by what is allocated, and who uses which claim.

    namespaces: name to labels. bound: pods that have their node already. unchecked: namespaces that were asked for and
    are not there. nodes: by name. tells_every_node: refusals tell of each node, which takes long where there are many.
    """

    def __init__(  # noqa: PLR0913 - the last three have defaults
        self,
        snapshot: Snapshot,
        nodes: Iterable[Node],
        claims: Claims,
        namespaces: Mapping[str, Mapping[str, str]],
        *,
        bound: Iterable[Pod] = (),
        budget_steps: int = BUDGET_STEPS,
        policy: Policy = FIRST_FIT,
        tells_every_node: bool = False,
    ) -> None:
        self.claims = claims
        self.tells_every_node = tells_every_node
        self.unchecked: set[str] = set()
        self._namespaces = namespaces
        self.consumers: dict[tuple[str, str], list[Pod]] = {}
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.budget_steps = budget_steps
        self.policy = policy
        self._extended = ExtendedResources(snapshot.classes.values(), snapshot.features)
        self._resources = NodeAllocatableResources(snapshot, claims, bound)
        self._fleet = Fleet(snapshot, self.nodes, policy=policy, budget_steps=budget_steps)
        self._filters: dict[Hashable, Mask] = {}
        self._selections: dict[NodeSelector, Mask] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The cluster with all that is allocated so far."""
        return self._fleet.snapshot

    def run(self, pods: Sequence[Pod], claims: Sequence[Claim], progress: Callable[[int, int], None]) -> list[Result]:
        """The pods in their order, then the claims, which no pod uses; progress is told (done, all)."""
        results: list[Result] = []
        total = len(pods) + len(claims)
        for pod in sorted(pods, key=order_of):
            results.append(self.place(pod))
            progress(len(results), total)
        for claim in sorted(claims, key=lambda claim: (claim.namespace, claim.name)):
            results.append(self.take(self.look_at_claim(claim)))
            progress(len(results), total)
        return results

    def place(self, pod: Pod) -> Result:
        """One pod; a bound one keeps its node, and gets no devices that it does not have."""
        return self.take(self.look(pod))

    def look(self, pod: Pod) -> "Look":
        """What becomes of the pod as things are; nothing is taken."""
        if reason := _waits(pod):
            return Look(pod, (), NotPlaced(pod, (), reason))
        found = self.claims.of(pod)
        if isinstance(found, Waiting):
            return Look(pod, (), NotPlaced(pod, (), found.reason))
        return self._look(pod, list({id(claim): claim for _, claim in found}.values()))

    def look_at_claim(self, claim: Claim) -> "Look":
        """What becomes of a claim that no pod uses."""
        found = self.claims.objects[claim.namespace, claim.name]
        if found.decoded.metadata.deletion_timestamp and claim.allocation is None:
            return Look(None, (claim,), NotPlaced(None, (claim,), "is being deleted"))
        return self._look(None, [found])

    def answers(self, look: "Look") -> Iterator[tuple[Node, Answer]]:
        """What each node says, in the order of their names. Cost: an allocation for each."""
        for node in self.nodes:
            try:
                yield node, self._answer(look, node)
            except AllocationError as error:
                yield node, error

    def updating(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """The pools of these nodes that are being updated, in words."""
        return tuple(sorted({pool for name in nodes for pool in self._updating.get(name, ())}))

    @cached_property
    def _updating(self) -> Mapping[str, Sequence[str]]:
        """Node to its pools that are being updated. Cost: O(devices), once, as no slice changes."""
        found: dict[str, Sequence[str]] = {}
        for node in self.nodes:
            with suppress(InvalidPool):  # that ends the attempt of every pod that comes to the node
                pools = self.snapshot.pools(node)
                found[node.name] = [f"{'/'.join(pool.id)} ({pool.missing})" for pool in pools if pool.missing]
        return found

    def _refused(self, look: "Look", nodes: Mapping[str, str | Outcome], lacking_devices: Iterable[str]) -> NotPlaced:
        updating = self.updating(lacking_devices)
        return NotPlaced(look.pod, look.claims, "", nodes, len(self.nodes), updating)

    def _look(self, pod: Pod | None, found: Sequence[ClaimObject]) -> "Look":
        claims = tuple(claim.claim for claim in found)
        look = Look(pod, claims, consumers=consumers_of(found, self.consumers))
        if reason := self._cannot_be_shared(pod, found):
            return replace(look, settled=NotPlaced(pod, claims, reason))
        if pod is not None and pod.node_name:
            bound = NotPlaced(pod, claims, _bound(pod, look.pending))
            return replace(look, settled=bound if look.pending else Placed(pod, claims, pod.node_name))
        if reason := self._is_forbidden(look.pending) or ("" if self.nodes else "the input holds no node"):
            return replace(look, settled=NotPlaced(pod, claims, reason))
        wish = self._extended.wish_of(pod, self.claims) if pod else None
        if isinstance(wish, Waiting):
            return replace(look, settled=NotPlaced(pod, claims, wish.reason))
        return replace(look, wish=wish)

    def take(self, look: "Look") -> Result:
        """What becomes of it is taken from what there is."""
        if look.settled:
            return look.settled
        if look.wish or self._resources.is_on:
            return self._take_one_by_one(look)
        allowed = self._allowed(look)
        try:
            chosen = self._choose(look.pending, allowed)
        except AllocationError as error:
            return NotPlaced(look.pod, look.claims, str(error))
        if chosen is None:
            lacking = [self.nodes[number].name for number in bits(allowed)]
            return self._refused(look, self._refusals(look, allowed), lacking)
        return self._commit(look, *chosen)

    def _take_one_by_one(self, look: "Look") -> Result:
        """As `_take`, where what is asked, or whether it fits, differs from node to node."""
        refused: dict[str, str | Outcome] = {}
        chosen: tuple[Node, Allocated] | None = None
        for node, answer in self.answers(look):
            if isinstance(answer, AllocationError):
                return NotPlaced(look.pod, look.claims, str(answer))
            if not isinstance(answer, Allocated):
                refused[node.name] = answer
            elif chosen is None or answer.score > chosen[1].score:
                chosen = (node, answer)
        if chosen is None:
            return self._refused(look, refused, lacking_devices(refused))
        node, allocated = chosen
        return self._commit(look, node.name, allocated.allocations, _extended_on(look, node))

    def _answer(self, look: "Look", node: Node) -> str | Outcome:
        if reason := _refusal(look.pod, look.claims, node):
            return reason
        extended = look.wish.on(node) if look.wish else None
        if isinstance(extended, str):
            return extended
        claims = _with_extended(look, extended)
        outcome = self._allocate(node, [claim for claim in claims if claim.allocation is None])
        if not isinstance(outcome, Allocated):
            return outcome
        now = _allocated(claims, outcome.allocations)
        return self._resources.refusal(look.pod, node, now, look.consumers) or outcome

    def _allowed(self, look: "Look") -> Mask:
        """The nodes where the pod may be, and that reach what its claims have."""
        allowed = self._filtered(look.pod) if look.pod else self._fleet.all
        for claim in look.claims:
            if claim.allocation and claim.allocation.node_selector is not None:
                allowed &= self._reached(claim.allocation.node_selector)
        return allowed

    def _filtered(self, pod: Pod) -> Mask:
        # What the filters read: pods of one template are asked about once.
        key = (pod.node_name, tuple(sorted(pod.node_selector.items())), pod.affinity, pod.tolerations)
        if key not in self._filters:
            self._filters[key] = self._mask(lambda node: not refusal(pod, node))
        return self._filters[key]

    def _reached(self, selector: NodeSelector) -> Mask:
        if selector not in self._selections:
            self._selections[selector] = self._mask(lambda node: selects(selector, node))
        return self._selections[selector]

    def _mask(self, holds: Callable[[Node], bool]) -> Mask:
        return sum(1 << number for number, node in enumerate(self.nodes) if holds(node))

    def _choose(self, pending: Sequence[Claim], allowed: Mask) -> tuple[str, tuple[Allocation, ...]] | None:
        """The node, and what the claims get there."""
        if not pending:
            first = next(bits(allowed), None)
            return None if first is None else (self.nodes[first].name, ())
        chosen = self._fleet.choose(pending, allowed)
        return (chosen.node.name, chosen.allocated.allocations) if chosen else None

    def _refusals(self, look: "Look", allowed: Mask) -> dict[str, str | Outcome]:
        """Why not, for nodes in the order of their names. Cost: O(nodes), and O(devices) of those that are told."""
        refused = self._fleet.refusals(look.pending, allowed)
        told: dict[str, str | Outcome]
        if self.tells_every_node:
            told = dict(refused)
        else:
            told = {self.nodes[next(bits(nodes))].name: outcome for outcome, nodes in refused.groups}
        others = [node for number, node in enumerate(self.nodes) if not allowed >> number & 1]
        told |= {node.name: _refusal(look.pod, look.claims, node) for node in others}
        return dict(sorted(told.items()))

    def _is_forbidden(self, pending: Iterable[Claim]) -> str:
        if not self.snapshot.features.has(ADMIN_ACCESS):
            return ""
        for claim in filter(admin_access.is_asked_for, pending):
            labels = self._namespaces.get(claim.namespace)
            if labels is None:
                self.unchecked.add(claim.namespace)
            elif reason := admin_access.refusal(claim, labels):
                return reason
        return ""

    def _allocate(self, node: Node, pending: Sequence[Claim]) -> Outcome:
        if not pending:
            return Allocated((), 0, self.snapshot.features)
        return allocate(self.snapshot, node, pending, budget_steps=self.budget_steps, policy=self.policy)

    def _commit(
        self, look: "Look", node: str, allocations: Sequence[Allocation], extended: ExtendedClaim | None = None
    ) -> Placed:
        claims = _with_extended(look, extended)
        if extended:
            self.claims.add(extended.object)
        now = _allocated(claims, allocations)
        changed = [claim for claim, before in zip(now, claims, strict=True) if before.allocation is None]
        for claim in changed:
            self.claims.update(claim)
        self._fleet.add_allocated(changed)
        for claim in now if look.pod else ():
            assert look.pod is not None
            self.consumers.setdefault((claim.namespace, claim.name), []).append(look.pod)
        if look.pod:
            self._resources.take(look.pod, node, now)
        return Placed(look.pod, now, node, extended)

    def _cannot_be_shared(self, pod: Pod | None, found: Sequence[ClaimObject]) -> str:
        if pod is None:
            return ""
        for claim in found:
            reserved = {consumer.uid for consumer in claim.decoded.reserved_for}
            reserved |= {uid_of_pod(p) for p in self.consumers.get((claim.claim.namespace, claim.claim.name), ())}
            if len(reserved - {uid_of_pod(pod)}) >= RESERVED_FOR_MAX:
                return f"claim {claim.claim} is reserved for {RESERVED_FOR_MAX} pods already, which is the limit"
        return ""


def lacking_devices(answers: Mapping[str, Answer]) -> list[str]:
    """The nodes that are refused for want of devices."""
    return [name for name, answer in answers.items() if isinstance(answer, Refused | Exhausted)]


def order_of(pod: Pod) -> tuple[int, bool, str, str, str]:
    """Higher priority first, then the older one, then by namespace and name; what was never created comes last."""
    return (-(pod.priority or 0), not pod.created, pod.created, pod.namespace, pod.name)


def is_pending(pod: Pod, claims: Mapping[tuple[str, str], ClaimObject], extended: ExtendedResources) -> bool:
    """True for a pod with claims, or with resources that become one, that still needs a node or a claim's devices."""
    if pod.is_over:
        return False
    if not pod.node_name:
        return bool(pod.claims or extended.wanted_by(pod))
    names = [entry.claim_name or pod.claim_statuses.get(entry.name, "") for entry in pod.claims]
    found = [claims.get((pod.namespace, name)) for name in names if name is not None]
    return not all(claim and claim.claim.allocation for claim in found)


def unused_claims(claims: Claims, pods: Iterable[Pod]) -> list[Claim]:
    """The claims without an allocation that no pod of the input uses."""
    used = {(pod.namespace, entry.claim_name) for pod in pods for entry in pod.claims}
    used |= {(pod.namespace, name or "") for pod in pods for name in pod.claim_statuses.values()}
    uids = {uid_of_pod(pod) for pod in pods}
    return [
        found.claim
        for key, found in claims.objects.items()
        if key not in used
        and found.claim.allocation is None
        and not found.decoded.metadata.deletion_timestamp
        and not any(owner.uid in uids for owner in found.decoded.metadata.owners)
    ]


def _waits(pod: Pod) -> str:
    """Why no scheduler looks at the pod now, or ever again."""
    if pod.is_finished:
        return f"is finished (phase {pod.phase}): it needs nothing any more"
    if pod.is_deleting:
        return "is being deleted: it needs nothing any more"
    return f"scheduling is gated by {', '.join(pod.gates)}" if pod.gates else ""


def _bound(pod: Pod, pending: Sequence[Claim]) -> str:
    names = ", ".join(str(claim) for claim in pending)
    return f"is bound to node {pod.node_name}, and no scheduler allocates claims of bound pods: {names}"


def _with_extended(look: Look, extended: ExtendedClaim | None) -> tuple[Claim, ...]:
    """The pod's own claims, then the one for its extended resources."""
    return (*look.claims, extended.object.claim) if extended else look.claims


def _extended_on(look: Look, node: Node) -> ExtendedClaim | None:
    """The claim for extended resources on a node that has said that it can give it."""
    extended = look.wish.on(node) if look.wish else None
    assert not isinstance(extended, str)
    return extended


def _allocated(claims: Sequence[Claim], allocations: Iterable[Allocation]) -> tuple[Claim, ...]:
    """The claims, of which those without an allocation get the next."""
    rest = iter(allocations)
    return tuple(claim if claim.allocation else replace(claim, allocation=next(rest)) for claim in claims)


def _refusal(pod: Pod | None, claims: Sequence[Claim], node: Node) -> str:
    if pod is not None and (reason := refusal(pod, node)):
        return reason
    for claim in claims:
        selector = claim.allocation.node_selector if claim.allocation else None
        if selector is not None and not selects(selector, node):
            return f"claim {claim} is allocated, and not reachable from the node"
    return ""
