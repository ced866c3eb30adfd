"""One pod against all nodes: what it asks, where it can be, which node is best, what it gets there, or why not.

In kube-scheduler's order: checks that hold for every node (claims, classes), the filters, the devices, the scores. All
nodes are evaluated, a set of them at a time: a `Mask` has a bit for each node's number. Nothing here changes the
cluster; who decides for a pod reserves the result before anything else is decided. `not_placed` and
`refused_by_all_nodes` word what the pod's condition says when nothing fits.
Source: the scheduling cycle of kube-scheduler; its DynamicResources plugin for texts.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import NamedTuple

from allocator.allocate import with_requests_named
from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.bits import Mask, bits, union
from allocator.explain.text import has_matching_devices, inner_cause, nearest_miss, nearest_of
from allocator.fleet.alike import fingerprint_of
from allocator.gates import ADMIN_ACCESS, NODE_ALLOCATABLE_RESOURCES
from allocator.model import Allocation, Claim
from allocator.outcome import AllocationError, LimitReached, Outcome
from allocator.policies.contract import PolicyOfNode
from allocator.words import did_you_mean
from scheduler.core_v1.pod import Pod
from scheduler.decision import filters
from scheduler.decision.cluster import Cluster
from scheduler.decision.device_terms import DeviceTerms, attribute_terms
from scheduler.decision.filters import Groups, after_devices, feasible, fit_error, refused_by_all, rejections
from scheduler.decision.schedule_result import Failed, NotPlaced, OutOfTime, Placed, ScheduleResult, with_allocations
from scheduler.decision.time_limits import TooLong
from scheduler.plugins.dynamic_resources import ADMIN_ACCESS as NO_ADMIN_ACCESS
from scheduler.plugins.dynamic_resources import CLAIMS, CLASSES, DEVICES
from scheduler.plugins.node_name import NODE_NAME
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT
from scheduler.plugins.plugin import NAMESPACE, NO_NODES, UNSUPPORTED, Cycle, Plugin, Reason, Refusal, Rejected
from scheduler.plugins.volume_binding import pinned, plan
from scheduler.state.masks import numbers_of
from scheduler.state.pod_resources import ExtendedClaim, WithDevices
from scheduler.state.pods import OF_NODES, PodRequests, pod_requests
from scheduler.state.volumes import NO_PLAN, claims_of

NO_DEVICES = "cannot allocate all claims"
NOT_REACHED = "resourceclaim not available on the node"
NO_ROOM_BESIDE = "node(s) didn't have room for the pod with its devices"
"""What devices take of the node is more than it has left (KEP-5517)."""

_NO_POD = Pod("", "")
"""Whose claims no pod uses."""


def decide(
    cluster: Cluster,
    pod: Pod,
    claims: Sequence[Claim],
    full: Iterable[Claim] = (),
    failed: Mapping[str, str] = MappingProxyType({}),
) -> ScheduleResult:
    """What becomes of the pod. claims: its own, each once. full, failed: as for `PodCycle`.

    Cost: O(what has changed since a pod like this was decided), array operations over all nodes, and one allocation.
    """
    try:
        with cluster.time_limit.limited():
            return PodCycle(cluster, pod, claims, full, failed).result()
    except TooLong as error:
        return OutOfTime(str(error))
    except AllocationError as error:
        return Failed.by(error)


def decide_claim(cluster: Cluster, claim: Claim) -> ScheduleResult:
    """What becomes of a claim that no pod uses: the node that the policy finds best, the first of equals."""
    try:
        return PodCycle(cluster, None, [claim]).result()
    except AllocationError as error:
        return Failed.by(error)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a pod asks of some nodes; they differ only in the extended resources that they provide by claim."""

    nodes: Mask
    requests: PodRequests
    """What the pod requests of the node itself, extended resources that a claim stands for aside."""
    pending: tuple[Claim, ...]
    """The pod's claims without devices."""
    extended: ExtendedClaim | None = None
    """The last of the claims, where it is to be made for extended resources."""
    problem: str = ""
    """Why it cannot be made, so that none of the nodes will do."""

    def named(self, outcome: Outcome) -> Outcome:
        """The outcome for the claims, with extended resources in place of the generated names of requests for them."""
        extended = self.extended
        return with_requests_named(outcome, str(extended.claim), extended.resources) if extended else outcome


class EligibleNodes(NamedTuple):
    """What a pod asks of some nodes, and on which of them it can be, devices aside."""

    required: Requirements
    allowed: Mask

    def within(self, nodes: Mask) -> "EligibleNodes":
        """The same of these nodes alone."""
        required = self.required
        if required.nodes & ~nodes == 0:
            return self
        return EligibleNodes(replace(required, nodes=required.nodes & nodes), self.allowed & nodes)


class PodCycle:
    """A pod, or claims that no pod uses (only devices are asked about then), and the nodes, as the cluster is now.

    What is asked for is worked out once and kept: an object is good until the cluster changes.
    claims: the pod's own, each once. full: those that no further pod can use. failed: uids of allocated claims whose
    devices will not be made ready, with the reason: on no node can they be used. is_member: the pod is placed with the
    others of its group.
    """

    def __init__(  # noqa: PLR0913 - the last three have defaults
        self,
        cluster: Cluster,
        pod: Pod | None,
        claims: Sequence[Claim],
        full: Iterable[Claim] = (),
        failed: Mapping[str, str] = MappingProxyType({}),
        *,
        is_member: bool = False,
    ) -> None:
        self.is_member = is_member
        self.cluster = cluster
        self.pod = pod
        self.claims = claims
        self.full = full
        self.failed = failed
        self.fleet = cluster.fleet_of(pod)
        self.requests = pod_requests(pod or _NO_POD)
        self._name = str(pod or claims[0]) if pod or claims else ""

    def anew(self) -> "PodCycle":
        """The same pod as things are now; what it has itself is as it was."""
        cycle = PodCycle(self.cluster, self.pod, self.claims, self.full, self.failed, is_member=self.is_member)
        cycle.pending = self.pending
        return cycle

    def _terms_problem(self, pod: Pod) -> str:
        """What is wrong with what the pod says of its devices; what a group says is checked with the group."""
        if not pod.grouping or self.is_member or self.cluster.fleet.features.is_strict:
            return ""
        return attribute_terms(pod)[1]

    @cached_property
    def pending(self) -> list[Claim]:
        """The claims without devices, bound to each other by what the pod says of their devices. Raises Cancelled."""
        pending = [claim for claim in self.claims if claim.allocation is None]
        if self.pod is None or not self.pod.grouping or not pending or self.is_member:
            return pending
        terms, _ = attribute_terms(self.pod)
        # Differs from kube-scheduler, which knows of no such thing.
        if terms.attributes and not self.cluster.fleet.features.is_strict:
            return DeviceTerms(self.cluster.fleet, terms, self.cluster.time_limit.look).joined(pending, self.claims)
        return pending

    # -- the story: refused everywhere, asked, allowed, reached, able, best, allocated

    def result(self) -> Placed | NotPlaced:
        """Where the pod goes, or why nowhere. Raises AllocationError, TooLong."""
        if problem := self.refused_everywhere():
            return self.refused_by_all_nodes(*problem)
        number = self.best()
        return self.not_placed() if number is None else self.placed(number)

    def refused_everywhere(self) -> tuple[Reason, str] | None:
        """What keeps the pod from every node, whatever is free: a plugin, its claims, or their classes."""
        if self.pod is not None:
            if not self.is_member and (problem := self.cluster.unsupported(self.pod)):
                return UNSUPPORTED, problem
            if refused := refused_by_all(self.view, self.plugins):
                plugin, problem = refused
                return plugin.reason, problem
        return self.claims_refused_everywhere()

    def claims_refused_everywhere(self) -> tuple[Reason, str] | None:
        """The problems of the namespace and of the claims that hold on every node, whatever is free."""
        # Differs from kube-scheduler, which tries the pod until it is gone, though no binding is stored.
        if self.pod is not None and (problem := self.cluster.namespace_problem(self.pod.namespace)):
            return NAMESPACE, problem
        for claim in self.full:
            problem = f"resourceclaim {claim} is reserved for {RESERVED_FOR_MAX} pods already, which is the limit"
            return CLAIMS, problem
        if missing := self._missing_class():
            return CLASSES, missing
        if self.pod is not None and self.pending and (problem := self._terms_problem(self.pod)):
            return CLAIMS, problem
        if self.cluster.fleet.features.has(ADMIN_ACCESS):
            for claim in filter(filters.is_asked_for, self.pending):
                if problem := filters.admin_access_refusal(claim, self.cluster.labels_of(claim.namespace)):
                    return NO_ADMIN_ACCESS, problem
        return None

    @cached_property
    def asks(self) -> Sequence[Requirements]:
        """What the pod requires of nodes; each node is in one of them."""
        resources = self.cluster.extended_resources
        if self.pod is None or self.pod.node_name or not resources.asked_by(self.pod):
            return (Requirements(self.cluster.fleet.all, self.requests, tuple(self.pending)),)
        return tuple(self._asks_with_extended_resources(self.pod))

    @cached_property
    def eligible(self) -> Sequence[EligibleNodes]:
        """The same, with the nodes where the pod can be, devices aside."""
        return [EligibleNodes(required, self.allowed(required)) for required in self.asks]

    def allowed(self, required: Requirements) -> Mask:
        """Those of the nodes that every filter lets pass; a pod that has its node already cannot be anywhere else."""
        if required.problem:
            return 0
        if self.pod is None:
            return required.nodes
        if not self.pod.node_name:
            return feasible(self.view.requesting(required.requests), self.plugins) & required.nodes
        number = self.cluster.number_of(self.pod.node_name)
        return 0 if number is None else 1 << number

    @cached_property
    def reached(self) -> Mask:
        """The nodes that reach all that the claims have."""
        reached = self.cluster.fleet.all
        for claim in self.claims:
            reached &= self.reached_by(claim)
        return reached

    def reached_by(self, claim: Claim) -> Mask:
        """The nodes that reach what the claim has, and can use it."""
        if claim.uid in self.failed:
            return 0
        if claim.allocation is None or claim.allocation.node_selector is None:
            return self.cluster.fleet.all
        return self.cluster.fleet.all & self.cluster.reached(claim.allocation.node_selector)

    def able(self, required: Requirements, left: Mask) -> Groups:
        """Those of the nodes left that can give the devices, by rank. left: allowed, and reach what the claims have."""
        ranked: Groups = self.fleet.scores(required.pending, left) if required.pending else {(0, ()): left}
        if not self.must_fit_with_devices(required):
            return ranked
        return {rank: self._with_room(required, nodes) for rank, nodes in ranked.items()}

    @cached_property
    def able_by_ask(self) -> Sequence[Groups]:
        """The nodes that can take the pod, by rank; for each of `eligible`."""
        return [self.able(required, left & self.reached) for required, left in self.eligible]

    @cached_property
    def ranked(self) -> Groups:
        """The nodes that can take the pod, by the rank of alternatives and policy; none is in two groups."""
        groups: dict[tuple[int, tuple[float, ...]], Mask] = {}
        for able in self.able_by_ask:
            for rank, nodes in able.items():
                groups[rank] = groups[rank] | nodes if rank in groups else nodes
        return groups

    def best(self, within: Mask = -1) -> int | None:
        """The number of the node for the pod, None where there is none: by the policy, then by the plugins' scores.

        within: the nodes to choose from.
        """
        able = union(self.ranked.values()) & within
        if self.pod is None:
            if not able:
                return None
            preferred = filters.preferred_by_policy(self.ranked, able)
            return self.cluster.order.first(numbers_of(self._best_by_whole_nodes(preferred)))
        among = self._best_by_whole_nodes(self._preferred(self.pod, able))
        last = among.bit_length() - 1  # `among & (among - 1)` takes ten times as long
        if among and among == 1 << last:
            return last  # a single one needs no scores
        chosen = filters.pick(self.view, self.plugins, self.ranked, among, self.cluster.order)
        return chosen[0] if chosen else None

    def placed(self, number: int) -> Placed:
        """The pod on a node that is able. Cost: an allocation."""
        required = self.asks_of(number)
        allocations = self.allocate(number, required)
        name = self.cluster.name_of(number)
        if self.pod is None:
            return Placed(name, tuple(self.claims), allocations)
        taken = self.with_devices(self.pod, required, allocations).taken if self.counts_devices else ()
        volumes = plan(self.view, number) if self.binds_volumes else NO_PLAN
        return Placed(name, tuple(self.claims), allocations, required.extended, taken, volumes)

    def allocate(self, number: int, required: Requirements) -> tuple[Allocation, ...]:
        """What the claims without devices get on a node that is able."""
        pending = required.pending
        if not pending:
            return ()
        policy = self.policy_on(number, pending)
        if policy is None:
            return self.fleet.allocated(pending, number).allocations
        return self.fleet.allocated_by(policy, pending, number)

    def given(self, number: int) -> tuple[Claim, ...]:
        """The claims without devices, of which the last may be for extended resources, with what they get there."""
        required = self.asks_of(number)
        return with_allocations(required.pending, self.allocate(number, required))

    # -- what the steps read

    @cached_property
    def view(self) -> Cycle:
        """What plugins see of the pod and the cluster."""
        pod, cluster = self.pod or _NO_POD, self.cluster
        numbered = ((cluster.number_of(node), pods) for node, pods in cluster.nominations.before(pod))
        return Cycle(
            pod,
            self.requests,
            cluster.infos,
            cluster.signatures_of(pod).of(pod),
            cluster.selectors,
            cluster.volumes,
            cluster.fleet.features,
            {number: pods for number, pods in numbered if number is not None},
            cluster.time_limit.is_over,
        )

    @property
    def plugins(self) -> Sequence[Plugin]:
        """Of the pod's profile."""
        return self.cluster.signatures_of(self.pod or _NO_POD).plugins

    @property
    def counts_devices(self) -> bool:
        """Whether devices may take something of their node beside the pod: KEP-5517."""
        return self.pod is not None and self.cluster.fleet.features.has(NODE_ALLOCATABLE_RESOURCES)

    def must_fit_with_devices(self, required: Requirements) -> bool:
        """Whether what the pod takes of its node is known only with its devices."""
        return self.counts_devices and bool(self.claims or required.pending)

    @property
    def lacks_devices(self) -> bool:
        """Whether some node has to give devices for the pod: for its claims, or for extended resources."""
        return any(required.pending for required in self.asks)

    @property
    def binds_volumes(self) -> bool:
        """Whether unbound PersistentVolumeClaims are bound with the pod: not if the plugin is off."""
        pod = self.pod
        return pod is not None and not pod.node_name and self.cluster.signatures_of(pod).binds_volumes

    def asks_of(self, number: int) -> Requirements:
        """What the pod asks of this node."""
        return next(one for one in self.asks if one.nodes >> number & 1)

    def giving(self, required: Requirements) -> Mask:
        """The nodes that can give the devices that the claims lack, whatever else keeps the pod from them."""
        return self.fleet.able(required.pending) if required.pending else self.cluster.fleet.all

    def policy_on(self, number: int, pending: Sequence[Claim]) -> PolicyOfNode | None:
        """For policies that look at whole nodes what they say of this one; None for others, and where it takes long."""
        scorer, limit = self.cluster.scorer_of(self.pod), self.cluster.time_limit
        if scorer is None:
            return None
        return limit.scored(lambda: scorer.on(number, self._name, self.requests, pending), None)

    def beside_devices(self, pod: Pod, required: Requirements, number: int) -> str:
        """Why the pod does not fit the node with the devices that it gets there; empty where it does.

        The node is one that can give the devices. Cost: an allocation.
        """
        pod_with_devices = self.with_devices(pod, required, self.allocate(number, required))
        return pod_with_devices.refusal(number, self.cluster.infos, self.cluster.consumers_of)

    def with_devices(self, pod: Pod, required: Requirements, allocations: Sequence[Allocation]) -> WithDevices:
        """The pod with its devices, as they count for the node. allocations: of its claims that had none."""
        had = [claim for claim in self.claims if claim.allocation is not None]
        given = with_allocations(required.pending, allocations)
        fleet = self.cluster.fleet
        return WithDevices.of(pod, [*had, *given], fleet.slices.by_pool, fleet.features.release)

    def _with_room(self, required: Requirements, nodes: Mask) -> Mask:
        """Those of the nodes with room for the pod and its devices. Cost: an allocation for each. Raises Cancelled."""
        pod = self.pod
        assert pod is not None
        fitting = (number for number in self.view.each(bits(nodes)) if not self.beside_devices(pod, required, number))
        return sum(1 << number for number in fitting)

    def _asks_with_extended_resources(self, pod: Pod) -> Iterator[Requirements]:
        pending, cluster = tuple(self.pending), self.cluster
        for nodes, backed, extended in cluster.extended_resources.by_nodes(pod, cluster.infos, cluster.fleet.all):
            beside = self.requests.without(backed)
            match extended:
                case ExtendedClaim(claim=claim):
                    yield Requirements(nodes, beside, (*pending, claim), extended)
                case str(problem):
                    yield Requirements(nodes, beside, pending, problem=problem)
                case None:
                    # Differs from kube-scheduler, which goes on to write a claim without requests beside the pod's own.
                    yield Requirements(nodes, beside, pending)

    def _preferred(self, pod: Pod, able: Mask) -> Mask:
        """The nodes to choose from, before any score: without those where a volume could not be provisioned recently.

        Like kube-scheduler, it takes the node that the pod was promised, however good others are.
        """
        # Differs from kube-scheduler, which may choose that node again, and always does while it is the best one.
        cluster = self.cluster
        declined = 0 if cluster.fleet.features.is_strict else cluster.volumes.declined(claims_of(pod))
        others = (able & ~declined or able) if declined else able
        number = cluster.number_of(pod.nominated_node)
        promised = 0 if number is None else 1 << number
        return promised & others or others

    def _best_by_whole_nodes(self, nodes: Mask) -> Mask:
        """The best by a policy that looks at whole nodes, after their rank; all of them where it takes too long."""
        scorer = self.cluster.scorer_of(self.pod)
        if scorer is None or not nodes:
            return nodes
        rank = max(rank for (rank, _), mask in self.ranked.items() if mask & nodes)
        nodes &= union(mask for (other, _), mask in self.ranked.items() if other == rank)

        def best() -> Mask:
            best_scores = [
                scorer.best(self._name, one.requests, one.pending, nodes_there)
                for one in self.asks
                if (nodes_there := nodes & one.nodes)
            ]
            most = max(score for score, _ in best_scores)
            return union(mask for score, mask in best_scores if score == most)

        return self.cluster.time_limit.scored(best, nodes)

    def _missing_class(self) -> str:
        classes = self.cluster.fleet.classes
        for claim in self.pending:
            for request in claim.requests:
                for alternative in request.alternatives:
                    if alternative.class_name and alternative.class_name not in classes:
                        meant = did_you_mean(alternative.class_name, classes)
                        return (
                            f"request {alternative.name}: device class {alternative.class_name} does not exist{meant}"
                        )
        return ""

    # -- why not: counted by reason in kube-scheduler's words, with what the nearest node lacks (its FitError)

    def refused_by_all_nodes(self, reason: Reason, text: str, within: Mask | None = None) -> NotPlaced:
        """This keeps the pod from every node at once. within: as of `not_placed`."""
        everywhere = self.cluster.fleet.all if within is None else within
        message = fit_error(everywhere.bit_count(), Counter(), before=text)
        refusal = Refusal(frozenset({reason}), self.requests, classes_of(self.pending), message=message, gist=text)
        return NotPlaced(refusal, everywhere=text)

    def not_placed(self, within: Mask | None = None) -> NotPlaced:
        """A pod, or claim, that no node can take. within: of these nodes; None for all."""
        everywhere = self.cluster.fleet.all if within is None else within
        if self.pod is None:
            message = fit_error(everywhere.bit_count(), Counter({NO_DEVICES: everywhere.bit_count()}))
            refusal = Refusal(frozenset({DEVICES}), self.requests, classes_of(self.claims), message=message)
            lacking = self.lacking_devices([(self.asks[0], everywhere)])
            return NotPlaced(refusal, lacking=lacking.outcomes, eligible=self.eligible)
        rejected = [Rejections.of(self, one.within(everywhere)) for one in self.eligible]
        left = union(one.left for one in rejected)
        reported: Counter[str] = Counter()
        reasons: set[Reason] = set() if everywhere else {NO_NODES}
        resolvable = 0
        for reason, refused in (found for one in rejected for found in one.found()):
            reported[refused.reason] += refused.nodes.bit_count()
            reasons.add(reason)
            resolvable |= refused.resolvable
        lacking = self.lacking_devices([(one.required, one.lacking) for one in rejected])
        are_all = reported.keys() <= {NO_DEVICES}
        unready, volume = next(iter(self.failed.values()), "") if left else "", self.kept_by_a_volume()
        explanation = f"{volume} {lacking.text(self.pod.namespace, are_all=are_all) or unready}".strip()
        extended = () if self.pod.node_name else self.cluster.extended_resources.asked_by(self.pod)
        refusal = Refusal(
            frozenset(reasons or {NODE_NAME.reason}),  # a node that is to be the pod's, and is not there
            min((one.requests for one in self.asks), key=lambda requests: len(requests.amounts), default=self.requests),
            classes_of(claim for required in self.asks for claim in required.pending),
            frozenset(extended) | _taken_by_devices(rejected),
            fit_error(everywhere.bit_count(), reported, explanation=explanation),
            _gist([*sorted(reported), volume, unready], rejected, lacking),
            self._awaited(lacking),
        )
        stuck = [claim for claim in self.claims if claim.allocation and left & ~self.reached_by(claim)]
        filtered = [found for one in rejected for _, found in one.filtered]
        return NotPlaced(refusal, tuple(stuck), "", lacking.outcomes, filtered, resolvable, self.eligible)

    def _awaited(self, lacking: "LackingDevices") -> Callable[[Claim], bool] | None:
        """Whether a claim's devices may help the pod, where a limit has refused it; None where none has."""
        causes = [inner_cause(outcome) for outcome, _ in lacking.outcomes]
        limits = [cause.limit for cause in causes if isinstance(cause, LimitReached) and cause.limit is not None]
        if not limits:
            return None
        if len(limits) < len(causes):
            return lambda _: True
        accounts = frozenset(limit.account for limit in limits)
        return partial(self.fleet.may_help, accounts)

    def kept_by_a_volume(self) -> str:
        """Which of the pod's claims keeps it on one node, and how; empty where none does."""
        if self.pod is None or not self.pod.volumes.claims or not self.binds_volumes:
            return ""
        return pinned(self.view)

    def lacking_devices(self, groups: Iterable[tuple[Requirements, Mask]]) -> "LackingDevices":
        """Why these nodes cannot provide the devices; for the nearest node, also who holds them.

        groups: nodes that are not able, and what the pod asks of them. Cost: O(different reasons).
        """
        unable = [
            (required, required.named(outcome), own)
            for required, nodes in groups
            if nodes
            for outcome, own in self.fleet.unable(required.pending, nodes)
        ]
        if not unable:
            return LackingDevices()
        numbers = [next(bits(nodes)) for _, _, nodes in unable]
        names = [self.cluster.name_of(number) for number in numbers]
        by_node = {name: outcome for name, (_, outcome, _) in zip(names, unable, strict=True)}
        nearest = nearest_of(by_node)
        number, required = next(
            (numbers[place], unable[place][0]) for place, name in enumerate(names) if name == nearest
        )
        by_node[nearest] = required.named(self.fleet.refusal(required.pending, number))
        outcomes = [(by_node[name], nodes) for name, (_, _, nodes) in zip(names, unable, strict=True)]
        return LackingDevices(outcomes, by_node, nearest)

    def refused_by_filters(self, required: Requirements, passed: Mask) -> Iterator[tuple[Plugin, Rejected]]:
        """Why not, for the nodes of `required` that a filter refuses. passed: nodes that none does."""
        if self.pod is not None:
            view = self.view.requesting(required.requests)
            # Others are not asked: they are passed over below.
            passed |= ~required.nodes
            for plugin, refused in rejections(view, self.cluster.signatures_of(self.pod), passed):
                if nodes := refused.nodes & required.nodes:
                    yield plugin, replace(refused, nodes=nodes, resolvable=refused.resolvable & required.nodes)


def classes_of(claims: Iterable[Claim]) -> frozenset[str]:
    """The names of the device classes that the claims name."""
    return frozenset(one.class_name for claim in claims for request in claim.requests for one in request.alternatives)


@dataclass(frozen=True, slots=True)
class Rejections:
    """The nodes of some requirements by what keeps the pod from them."""

    required: Requirements
    filtered: Sequence[tuple[Reason, Rejected]]
    """What filters say of the nodes that they refuse."""
    refused: Sequence[tuple[Reason, Rejected]]
    """The same, of the filters that run before devices alone."""
    late: Sequence[tuple[Reason, Rejected]]
    """What keeps the pod from the nodes that a later filter refuses."""
    left: Mask
    """The nodes that no filter before devices refuses."""
    unreached: Mask
    """Nodes left that do not reach what the claims have."""
    lacking: Mask
    """Nodes left that lack devices."""
    crowded: Mask
    """Nodes left without room beside the devices."""

    @staticmethod
    def of(cycle: PodCycle, asked: EligibleNodes, fitting: Mask = 0) -> "Rejections":
        """Of a pod. fitting: the nodes that can take it, see `PodCycle.able`."""
        required, left = asked
        giving = left & cycle.reached & cycle.giving(required)
        of_filters = ((plugin.reason, one) for plugin, one in cycle.refused_by_filters(required, left))
        filtered = [] if cycle.pod is None or cycle.pod.node_name else list(of_filters)
        counted = [] if required.problem else filtered
        names = {plugin.name for plugin in after_devices(cycle.plugins)} if counted else ()
        refused = [(reason, one) for reason, one in counted if not _is_late(reason, one, names)]
        late = [(reason, one) for reason, one in counted if _is_late(reason, one, names)]
        others = list(_lacking_by_node(cycle, required, late)) if late else []
        lacking = left & cycle.reached & ~giving
        return Rejections(required, filtered, refused, others, left, left & ~cycle.reached, lacking, giving & ~fitting)

    def found(self) -> Iterator[tuple[Reason, Rejected]]:
        """What keeps the pod from which nodes; a node may lack several resources."""
        yield from self.refused
        if self.required.problem:
            yield DEVICES, Rejected(self.required.problem, self.required.nodes)
        if self.unreached:
            yield DEVICES, Rejected(NOT_REACHED, self.unreached)
        if self.lacking:
            yield DEVICES, Rejected(NO_DEVICES, self.lacking)
        if self.crowded:
            yield NODE_RESOURCES_FIT.reason, Rejected(NO_ROOM_BESIDE, self.crowded, self.crowded)
            yield DEVICES, Rejected(NO_ROOM_BESIDE, 0)  # other devices may take less
        yield from self.late


def _is_late(reason: Reason, one: Rejected, after_devices: Collection[str]) -> bool:
    """Whether the nodes are asked for devices first."""
    return one.is_late or reason.plugin in after_devices


def _lacking_by_node(
    cycle: PodCycle, required: Requirements, late: Iterable[tuple[Reason, Rejected]]
) -> Iterator[tuple[Reason, Rejected]]:
    """The reasons for nodes that are refused by a filter that runs after devices: devices may be missing as well."""
    giving, reached = cycle.giving(required), cycle.reached
    for reason, refused in late:
        for text, nodes in ((NOT_REACHED, refused.nodes & ~reached), (NO_DEVICES, refused.nodes & reached & ~giving)):
            if nodes:
                yield DEVICES, Rejected(text, nodes)
        if nodes := refused.nodes & reached & giving:
            yield reason, Rejected(refused.reason, nodes, refused.resolvable & nodes)


def _taken_by_devices(rejected: Iterable[Rejections]) -> frozenset[str]:
    """The resources of which devices may take what is missing."""
    return OF_NODES if any(one.crowded for one in rejected) else frozenset()


def _gist(reasons: Sequence[str], rejected: Iterable[Rejections], lacking: "LackingDevices") -> str:
    """Of the refusal: the reasons, what is asked, whether there are such devices at all, free or not, and limits."""
    asked = hash(tuple([fingerprint_of(one.required.pending) for one in rejected]))
    has_any = any(has_matching_devices(outcome) for outcome in lacking.by_node.values())
    causes = map(inner_cause, lacking.by_node.values())
    limits = {one.limit.limit.name for one in causes if isinstance(one, LimitReached) and one.limit is not None}
    matching = "devices match" if has_any else "no device matches"
    return "; ".join([*reasons, f"asked {asked:x}", matching, *[f"limit {name}" for name in sorted(limits)]])


@dataclass(frozen=True, slots=True)
class LackingDevices:
    """Why nodes cannot provide devices."""

    outcomes: Sequence[tuple[Outcome, Mask]] = ()
    """With the nodes that say so."""
    by_node: Mapping[str, Outcome] = field(default_factory=dict)
    """By the first node of each."""
    nearest: str = ""
    """The first node of the one that comes nearest, whose outcome names devices and holders."""

    def text(self, reader: str, *, are_all: bool) -> str:
        """What the nearest node lacks. are_all: no node is refused for another reason."""
        if not self.by_node:
            return ""
        return nearest_miss(self.by_node, are_all=are_all, nearest=self.nearest, reader=reader)
