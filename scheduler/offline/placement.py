"""The main job: pods to nodes and claims to devices, one pod after the other, by the live scheduler's own attempt.

Pods are placed by priority, age and name. What only files need is done here: claims are created from templates, and
each result counts for the next pod as if it were written.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from allocator.allocate import allocate
from allocator.api.allocation import Consumer
from allocator.bits import Mask, bits
from allocator.cluster.snapshot import Snapshot, selectors_of
from allocator.explain.barren_selectors import BarrenSelectors
from allocator.explain.selector_operands import GuiltyOperands
from allocator.fleet.alike import DeviceQuestion
from allocator.gates import ADMIN_ACCESS
from allocator.model import Allocation, Alternative, Claim, DeviceID
from allocator.outcome import AllocationError, InvalidPool, Outcome
from allocator.status import OrderedAnswers
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.decision import filters
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide, decide_claim
from scheduler.decision.schedule_result import Failed, NotPlaced, OutOfTime, Placed
from scheduler.decision.why_not import NodeAnswer, Unfit, answers_of, unfit
from scheduler.input.inventory import InputClaim
from scheduler.offline.input_claims import Claims, extended_claim_object, statuses_of, uid_of_pod
from scheduler.offline.snapshot_cluster import VERSION
from scheduler.pod_groups.group import GroupOfPods
from scheduler.pod_groups.group_placer import ReadyMembers, place_group
from scheduler.pod_groups.group_result import GroupResult
from scheduler.state.claims import Waiting, full, is_controlled_by
from scheduler.state.pod_resources import ExtendedClaim, ExtendedResources, claim_name

# Errors of selectors that a placed pod does not come to here, and at which kube-scheduler gives it up.
#
# Here a bound may show first that a node, or the devices chosen so far on it, have no answer, so that another node or
# the next choice is tried (docs/differences.md). kube-scheduler evaluates the selector, and ends the attempt on every
# node. Pods that ask for the same are told of once.


@dataclass(slots=True)
class HiddenError:
    """At which node kube-scheduler gives up, and why. subject: the first that asks so. number: of all that do."""

    subject: str
    node: str
    reason: str
    number: int = 1

    @property
    def text(self) -> str:
        """What becomes of each of them, in a line."""
        return f"kube-scheduler gives up at node {self.node}: {self.reason} (--strict decides as it does)"

    def __str__(self) -> str:
        others = f" and {self.number - 1} like it" if self.number > 1 else ""
        return f"{self.subject}{others}: {self.text}"


@dataclass(slots=True)
class _Suspects:
    """The nodes that reach a device on which a selector fails. seen: when they were asked last."""

    nodes: Mask
    seen: tuple[int, int] = (-1, -1)
    error: HiddenError | None = None


@dataclass(eq=False)
class HiddenErrors:
    """The errors that are hidden so far."""

    cluster: Cluster
    _by_question: dict[object, _Suspects] = field(default_factory=dict)
    _by_selectors: dict[object, frozenset[DeviceID]] = field(default_factory=dict)

    @property
    def found(self) -> Iterator[HiddenError]:
        """What was found, in the order in which it was."""
        return (one.error for one in self._by_question.values() if one.error)

    def look(self, pod: Pod | None, claims: Sequence[Claim]) -> HiddenError | None:
        """Look for an error before the pod, or a claim that no pod uses, is placed.

        Cost: O(devices) for each new question, and an allocation for each suspicious node that has changed.
        """
        pending = [claim for claim in claims if claim.allocation is None]
        if self.cluster.fleet.features.is_strict or not any(map(self._failing, pending)):
            return None
        question = DeviceQuestion.of(pending, self.cluster.fleet.classes)
        suspects = self._by_question.get(question.key)
        if suspects is None:
            suspects = self._by_question[question.key] = _Suspects(self._suspicious(pending))
        if suspects.error:
            suspects.error.number += 1
        elif suspects.nodes:
            suspects.error = self._error(pod, claims, suspects)
        return suspects.error

    def _suspicious(self, pending: Sequence[Claim]) -> Mask:
        failing = frozenset[DeviceID]().union(*map(self._failing, pending))
        fleet, suspicious = self.cluster.fleet, 0
        for number in bits(fleet.all):
            suspicious |= (not failing.isdisjoint(fleet.reached_by(fleet.node(number)))) << number
        return suspicious

    def _failing(self, claim: Claim) -> frozenset[DeviceID]:
        """The devices on which a selector of the claim fails, after those before it accepted them."""
        alternatives = [one for request in claim.requests for one in request.alternatives]
        return frozenset[DeviceID]().union(*map(self._failing_for, alternatives))

    def _failing_for(self, alternative: Alternative) -> frozenset[DeviceID]:
        fleet, key = self.cluster.fleet, (alternative.class_name, alternative.selectors)
        if key not in self._by_selectors and (device_class := fleet.classes.get(alternative.class_name)):
            chain = tuple(expression for _, _, expression in selectors_of(device_class, alternative))
            failing_of_chain = [self._answers.of(chain[: number + 1]).failing for number in range(len(chain))]
            self._by_selectors[key] = frozenset(device.id for failing in failing_of_chain for device in failing)
        return self._by_selectors.get(key, frozenset())

    @cached_property
    def _answers(self) -> OrderedAnswers:
        fleet = self.cluster.fleet
        devices = [one for slices in fleet.slices.by_pool.values() for slice_ in slices for one in slice_.devices]
        return OrderedAnswers(devices, fleet.features.environment)

    def _error(self, pod: Pod | None, claims: Sequence[Claim], suspects: _Suspects) -> HiddenError | None:
        fleet = self.cluster.fleet
        suspects.seen, changed = fleet.changed_nodes(suspects.seen)
        nodes = suspects.nodes if changed is None else suspects.nodes & sum(1 << number for number in set(changed))
        now = fleet.current
        strict = Snapshot(fleet.features.strictly(), now.slices, now.classes, now.usage, now.selectors)
        for pending, number in self._asked(pod, claims, nodes):
            try:
                allocate(strict, fleet.node(number), pending, budget_steps=fleet.budget_steps)
            except AllocationError as error:
                subject = f"pod {pod}" if pod else f"claim {claims[0]}"
                return HiddenError(subject, fleet.node(number).name, str(error).partition("\n")[0])
        return None

    def _asked(self, pod: Pod | None, claims: Sequence[Claim], nodes: Mask) -> Iterator[tuple[Sequence[Claim], int]]:
        """(claims to be allocated, node) of those of the nodes for which kube-scheduler would ask."""
        cycle = PodCycle(self.cluster, pod, claims)
        for required, allowed in cycle.eligible:
            for number in bits(allowed & cycle.reached & nodes):
                yield required.pending, number


NO_NODE = "the input contains no node"
"""Why nothing at all can be placed."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod, or a claim that no pod uses, has its node and all its devices."""

    pod: Pod | None
    """As it is bound."""
    claims: tuple[Claim, ...]
    """Those of the pod, in order."""
    node: str
    extended: ExtendedClaim | None = None
    """Of the last of them, where it was made for extended resources."""
    hidden: HiddenError | None = None
    """Where kube-scheduler gives it up, if that was looked for."""

    @property
    def claims_by_origin(self) -> tuple[Sequence[Claim], Sequence[Claim]]:
        """Those that its spec names, and the one that was made for its extended resources."""
        named = len(self.claims) - (self.extended is not None)
        return self.claims[:named], self.claims[named:]


@dataclass(frozen=True, slots=True)
class UnplacedPod:
    """A pod, or a claim that no pod uses, that got nothing."""

    pod: Pod | None
    claims: tuple[Claim, ...]
    reason: str = ""
    """What holds for every node, else empty."""
    unfit: tuple[Unfit, ...] = ()
    """Why not, with the nodes that say the same together."""
    asked: int = 0
    """How many nodes there are in all."""
    updating: tuple[str, ...] = ()
    """Pools whose devices could not be had, in words."""
    nodes: Mapping[str, NodeAnswer] | None = None
    """What each node says, where that was asked for."""
    kept: str = ""
    """Which volume keeps the pod on one node, in words."""


Result = PlacedPod | UnplacedPod


@dataclass(frozen=True, slots=True)
class PodToPlace:
    """A pod, or a claim that no pod uses, that is looked at. result: where no node needs to be asked.

    full: those of the claims that no further pod can use.
    """

    pod: Pod | None
    claims: tuple[Claim, ...]
    result: Result | None = None
    full: tuple[Claim, ...] = ()

    @property
    def pending(self) -> list[Claim]:
        """The claims without an allocation."""
        return [claim for claim in self.claims if claim.allocation is None]


class Placement:
    """A run over a cluster, which grows by what is placed.

    known_namespaces: those whose labels the input holds. unchecked: others that were asked for. shows_every_node: of a
    refusal what each node says is kept, which takes long where there are many. tells_hidden_errors: they are looked for
    before each placement. makes_room: places a pod that is refused after all, if it can. makes_group_room: whether it
    has made room for a group. takes_group: what becomes of all pods of the group of one, where it is in one.
    """

    def __init__(
        self, cluster: Cluster, claims: Claims, known_namespaces: Iterable[str], *, shows_every_node: bool = False
    ) -> None:
        self.cluster = cluster
        self.claims = claims
        self.unchecked: set[str] = set()
        self._known_namespaces = frozenset(known_namespaces)
        self._shows_every_node = shows_every_node
        self._version = VERSION
        self.hidden_errors = HiddenErrors(cluster)
        self.tells_hidden_errors = False
        self.makes_room: Callable[[PodToPlace, NotPlaced], PlacedPod | None] | None = None
        self.makes_group_room: Callable[[GroupOfPods, GroupResult, ReadyMembers], bool] | None = None
        self.takes_group: Callable[[Pod], list[Result] | None] | None = None

    def run(self, pods: Sequence[Pod], claims: Sequence[Claim], progress: Callable[[int, int], None]) -> list[Result]:
        """Place the pods in their order, then the claims that no pod uses; progress is reported as (done, all)."""
        results: list[Result] = []
        total = len(pods) + len(claims)
        for pod in sorted(pods, key=order_of):
            of_group = self.takes_group(pod) if self.takes_group is not None else None
            results += [self.place(pod)] if of_group is None else of_group
            progress(min(len(results), total), total)
        for claim in sorted(claims, key=lambda claim: (claim.namespace, claim.name)):
            results.append(self.take(self.look_at_claim(claim)))
            progress(len(results), total)
        return results

    def place(self, pod: Pod) -> Result:
        """One pod; a bound one keeps its node, and gets no devices that it does not have."""
        return self.take(self.look(pod))

    def look(self, pod: Pod, joining: Counter[str] | None = None) -> PodToPlace:
        """The pod with its claims, ready to be decided; nothing changes. joining: as for `full`."""
        if reason := _waits(pod):
            return PodToPlace(pod, (), UnplacedPod(pod, (), reason))
        pod_claims = self.claims.of(pod)
        if isinstance(pod_claims, Waiting):
            return PodToPlace(pod, (), UnplacedPod(pod, (), pod_claims.reason))
        objects = list({id(one): one for _, one in pod_claims}.values())
        claims = tuple(one.claim for one in objects)
        statuses = statuses_of(pod, pod_claims)
        if not pod.uid or statuses != pod.claim_statuses:
            pod = pod.changed(uid=uid_of_pod(pod), claim_statuses=statuses)
        look = PodToPlace(pod, claims, full=tuple(full(pod, objects, joining)))
        if pod.node_name:
            bound = UnplacedPod(pod, claims, _bound(pod, look.pending))
            return replace(look, result=bound if look.pending else PlacedPod(pod, claims, pod.node_name))
        if reason := self._in_the_way(pod) or self._without_nodes():
            return replace(look, result=UnplacedPod(pod, claims, reason))
        return look

    def look_at_claim(self, claim: Claim) -> PodToPlace:
        """A claim that no pod uses, ready to be decided."""
        input_claim = self.claims.objects[claim.namespace, claim.name]
        claims = (input_claim.claim,)
        if input_claim.metadata.deletion_timestamp and input_claim.claim.allocation is None:
            return PodToPlace(None, claims, UnplacedPod(None, claims, "is being deleted"))
        reason = self._without_nodes()
        return PodToPlace(None, claims, UnplacedPod(None, claims, reason) if reason else None)

    def decide(self, look: PodToPlace) -> Placed | NotPlaced | Failed:
        """What becomes of it as things are, where that is not known; nothing is taken."""
        for claim in filter(filters.is_asked_for, look.pending):
            self._permit_unknown(claim.namespace)
        if look.pod is None:
            result = decide_claim(self.cluster, look.claims[0])
        else:
            self.cluster.expect(look.pod, look.claims)
            result = decide(self.cluster, look.pod, look.claims, look.full)
        assert not isinstance(result, OutOfTime), "decisions have all the time that they need here"
        return result

    def decide_group(self, group: GroupOfPods, ready: ReadyMembers) -> GroupResult:
        """What becomes of a group as things are; nothing is taken. ready: its members, as for `place_group`."""
        return place_group(self.cluster, group, ready=ready)

    def take(self, look: PodToPlace) -> Result:
        """What becomes of it is taken from what there is."""
        if look.result:
            return look.result
        match self.decide(look):
            case Placed() as chosen:
                hidden = self.hidden_errors.look(look.pod, look.claims) if self.tells_hidden_errors else None
                return replace(self.commit(look, chosen), hidden=hidden)
            case Failed(reason):
                return UnplacedPod(look.pod, look.claims, reason)
            case NotPlaced(everywhere=reason) if reason:
                return UnplacedPod(look.pod, look.claims, reason)
            case NotPlaced() as refused:
                placed = self.makes_room(look, refused) if self.makes_room is not None else None
                return placed or self._refused(look, refused)

    def cycle(self, look: PodToPlace) -> PodCycle:
        """The pod and its claims against all nodes, as things are now."""
        return PodCycle(self.cluster, look.pod, look.claims, look.full)

    def updating(self, lacking: Iterable[str] | None = None) -> tuple[str, ...]:
        """The pools that are being updated, in words; of these nodes, or of all."""
        names = self._updating if lacking is None else set(lacking) & self._updating.keys()
        return tuple(sorted({pool for name in names for pool in self._updating[name]}))

    @cached_property
    def _updating(self) -> Mapping[str, Sequence[str]]:
        """Node to its pools that are being updated. Cost: O(devices), once, as no slice changes."""
        updating: dict[str, Sequence[str]] = {}
        snapshot = self.cluster.fleet.snapshot
        for name in self.cluster.names():
            node = self.cluster.node(name)
            assert node is not None
            with suppress(InvalidPool):  # that ends the attempt of every pod that comes to the node
                if missing := [
                    f"{'/'.join(pool.id)} ({pool.missing})" for pool in snapshot.pools(node) if pool.missing
                ]:
                    updating[name] = missing
        return updating

    def _refused(self, look: PodToPlace, refused: NotPlaced) -> UnplacedPod:
        cycle = self.cycle(look)
        groups = [replace(one, answer=self._with_operand(cycle, one.node, one.answer)) for one in unfit(cycle, refused)]
        lacking = 0
        for group in groups:
            if not isinstance(group.answer, str):
                lacking |= group.nodes
        names = [name for name in self._updating if lacking >> (self.cluster.number_of(name) or 0) & 1]
        nodes = self.with_guilty_operands(cycle, dict(answers_of(cycle))) if self._shows_every_node else None
        asked = self.cluster.fleet.all.bit_count()
        kept = cycle.kept_by_a_volume()
        return UnplacedPod(look.pod, look.claims, "", tuple(groups), asked, self.updating(names), nodes, kept)

    def with_guilty_operands(self, cycle: PodCycle, answers: Mapping[str, NodeAnswer]) -> dict[str, NodeAnswer]:
        """The answers, in which a selector with a cut text says which part of it removes the last device.

        Nodes that share an answer still do. Cost: as `GuiltyOperands.named`, once for each answer.
        """
        named: dict[int, NodeAnswer] = {}
        for name, answer in answers.items():
            if id(answer) not in named:
                named[id(answer)] = (
                    answer if isinstance(answer, AllocationError) else self._with_operand(cycle, name, answer)
                )
        return {name: named[id(answer)] for name, answer in answers.items()}

    def _with_operand(self, cycle: PodCycle, name: str, answer: str | Outcome) -> str | Outcome:
        number = self.cluster.number_of(name)
        if isinstance(answer, str) or number is None:
            return answer
        return self._guilty_operands.named(self.cluster.node(name), cycle.asks_of(number).pending, answer)

    @cached_property
    def barren_selectors(self) -> BarrenSelectors:
        """The selectors of pending claims that no device passes. Cost: O(devices), once."""
        return BarrenSelectors(self.cluster.fleet.snapshot)

    @cached_property
    def _guilty_operands(self) -> GuiltyOperands:
        """Of all refusals, as slices and classes stay the same."""
        return GuiltyOperands(self.cluster.fleet.snapshot)

    def release(self, placed: PlacedPod) -> list[Claim]:
        """The pod is gone, and so are the claims that were made for it; others are freed once nobody uses them.

        The answer is the claims that had devices and have none now, as they were.
        """
        assert placed.pod is not None
        self.cluster.remove_pod(placed.pod.uid)
        return [one.claim for one in self._claims_of(placed) if self._release(one, placed.pod)]

    def evict(self, pods: Iterable[Pod], freed: Sequence[str]) -> list[str]:
        """The pods are gone, with the claims that were made for them. The answer is the names of those that came free.

        freed: uids of claims that have no devices then.
        """
        holdings = [self.cluster.claims.holding(uid) for uid in freed]
        held = [one.watched.claim for one in holdings if one is not None and one.watched is not None]
        for pod in pods:
            used = map(self.cluster.claims.holding, self.cluster.claims.of_pod(pod))
            claims = [one.watched.claim for one in used if one is not None and one.watched is not None]
            self.cluster.remove_pod(pod.uid)
            for claim in claims:
                if claim_object := self.claims.objects.get((claim.namespace, claim.name)):
                    self._release(claim_object, pod)
        for claim in held:
            if claim_object := self.claims.objects.get((claim.namespace, claim.name)):
                self._keep(claim_object.unallocated(), replace(claim_object.claim, allocation=None), None)
        return list(map(str, held))

    def _claims_of(self, placed: PlacedPod) -> Iterator[InputClaim]:
        return (self.claims.objects[claim.namespace, claim.name] for claim in placed.claims)

    def _release(self, found: InputClaim, user: Pod) -> bool:
        """True where the claim has no devices any more."""
        if is_controlled_by(found.metadata, user.uid):
            self.claims.forget(found)
            self.cluster.remove_claim(found.claim.uid)
            return True
        kept = found.without(Consumer("", "pods", user.name, user.uid))
        allocation = found.claim.allocation if kept.reserved_for else None
        self._keep(kept, replace(found.claim, allocation=allocation), None)
        return allocation is None

    def _without_nodes(self) -> str:
        return "" if self.cluster.fleet.all else NO_NODE

    def _in_the_way(self, pod: Pod) -> str:
        """Why no claim can be made for the pod's extended resources, whatever is free."""
        if not self.cluster.extended_resources.asked_by(pod):
            return ""
        if left := self.claims.of_extended_resources(pod):
            return f"claim {left.claim} of an earlier attempt must be deleted first"
        if other := self.claims.objects.get((pod.namespace, claim_name(pod))):
            return f"claim {other.claim}, which is not the pod's, has the name of the claim for its extended resources"
        return ""

    def _permit_unknown(self, namespace: str) -> None:
        """Permit admin access in a namespace that the input does not contain, since its labels are unknown."""
        if namespace not in self._known_namespaces and self.cluster.fleet.features.has(ADMIN_ACCESS):
            self.unchecked.add(namespace)
            self.cluster.set_namespace(Namespace(namespace, {filters.LABEL: "true"}))

    def commit(self, look: PodToPlace, chosen: Placed) -> PlacedPod:
        """What was decided is as if it were written. chosen: by `decide`, with nothing taken in between."""
        objects = [self.claims.objects[claim.namespace, claim.name] for claim in look.claims]
        if chosen.extended:
            assert look.pod is not None
            objects.append(extended_claim_object(look.pod, chosen.extended))
        claims = tuple(_allocated([one.claim for one in objects], chosen.allocations))
        for input_claim, claim in zip(objects, claims, strict=True):
            self._keep(input_claim, claim, look.pod)
        bound = look.pod and look.pod.changed(node_name=chosen.node, by_claims=chosen.by_claims)
        if bound is not None:
            self.cluster.set_pod(bound)
            if chosen.volumes:
                self.cluster.volumes.assume(bound.uid, chosen.node, chosen.volumes)
                self.cluster.volumes.bound(bound.uid)
        return PlacedPod(bound, claims, chosen.node, chosen.extended)

    def _keep(self, found: InputClaim, claim: Claim, user: Pod | None) -> None:
        """The claim is written as it is now, reserved for its user."""
        consumers = found.consumers
        own = self.claims.consumer_of(user, claim) if user is not None else None
        if own is not None and all(consumer.uid != own.uid for consumer in found.reserved_for):
            consumers = (*consumers, own)
        kept = InputClaim(claim, found.decoded, consumers, found.error)
        self._version += 1
        self.claims.keep(kept)
        self.cluster.set_claim(kept, self._version)


def order_of(pod: Pod) -> tuple[int, bool, str, str, str]:
    """Higher priority first, then the older one, then by namespace and name; what was never created comes last."""
    return (-(pod.priority or 0), not pod.created, pod.created, pod.namespace, pod.name)


def is_pending(pod: Pod, claims: Mapping[tuple[str, str], InputClaim], extended: ExtendedResources) -> bool:
    """True for a pod with claims, or with resources that become one, that still needs a node or a claim's devices."""
    if pod.is_over:
        return False
    if not pod.node_name:
        return bool(pod.claims or extended.asked_by(pod))
    names = [entry.claim_name or pod.claim_statuses.get(entry.name, "") for entry in pod.claims]
    used = [claims.get((pod.namespace, name)) for name in names if name is not None]
    return not all(claim and claim.claim.allocation for claim in used)


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
        return f"is finished (phase {pod.phase}): it needs no devices"
    if pod.is_deleting:
        return "is being deleted: it needs no devices"
    return f"scheduling is gated by {', '.join(pod.gates)}" if pod.gates else ""


def _bound(pod: Pod, pending: Sequence[Claim]) -> str:
    names = ", ".join(str(claim) for claim in pending)
    return f"is bound to node {pod.node_name}, and no scheduler allocates claims of bound pods: {names}"


def _allocated(claims: Iterable[Claim], allocations: Iterable[Allocation]) -> Iterator[Claim]:
    """The claims, of which those without an allocation get the next."""
    rest = iter(allocations)
    for claim in claims:
        yield claim if claim.allocation else replace(claim, allocation=next(rest))
