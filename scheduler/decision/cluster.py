"""The cluster as the next decision sees it: one index of everything, updated by every event.

The watches write to it. Decisions read it and reserve what they allocate, without an await in between, so that nobody
sees it half changed. Nodes have numbers, and the number of a deleted node is reused. Reservations of devices and of
node resources count until the watch shows the writes, or they are released.
Source: kube-scheduler's cache (assumed pods) and its plugin DynamicResources (in-flight claims).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat

from allocator.allocate import BUDGET_STEPS, share_id_of
from allocator.api import TaintRule
from allocator.bits import Mask
from allocator.cluster.node_affinity import term_problem
from allocator.cluster.snapshot import Snapshot
from allocator.explain.text import SET_ASIDE
from allocator.fleet.fleet import Fleet
from allocator.gates import DEVICE_TAINT_RULES, Features
from allocator.limit_use import LimitsInForce
from allocator.limits import TenantLimit
from allocator.model import Allocation, Claim, DeviceClass, DeviceID, DeviceResult, Node, NodeSelector, PoolID, Slice
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.decision.filters import NodeOrder, PodSignatures
from scheduler.decision.schedule_result import Placed
from scheduler.decision.time_limits import DecisionTimeLimit
from scheduler.node_policies import NodeScorer, scorer_of
from scheduler.node_policies.free_resources import FreeByNode
from scheduler.plugins.node_affinity import named_nodes
from scheduler.plugins.profile import Profile, in_order
from scheduler.state.claims import (
    GANGS_UNSUPPORTED,
    GROUPS_UNSUPPORTED,
    ClaimIndex,
    ClaimObject,
    Waiting,
    claims_of,
    in_flight,
)
from scheduler.state.invariants import Invariants, Rival, Rivals, Violation, is_reached
from scheduler.state.labels import PodSelectors
from scheduler.state.node_infos import NodeInfos, Nominations
from scheduler.state.pod_groups import PodGroupIndex
from scheduler.state.pod_resources import ExtendedResources, claim_name
from scheduler.state.pods import NodePods, pod_requests
from scheduler.state.pods_by_priority import DisruptionBudgets, PodsByPriority
from scheduler.state.taints import TaintedSlices
from scheduler.state.volumes import Volumes

ASIDE_S = 60.0
"""For so long nobody gets a device that could not be made ready, by `Cluster.set_aside`."""

NOT_READY = f"{SET_ASIDE}it recently failed to become ready"
FASTER = "another process that allocated it first"
"""Who holds a device that is set aside, for those who read why they cannot have it."""


@dataclass(frozen=True, slots=True)
class _InForce:
    """A profile, as pods of it are decided. fleet: by its policy. scorer: where that looks at whole nodes."""

    signatures: PodSignatures
    fleet: Fleet
    scorer: NodeScorer | None

    @staticmethod
    def of(profile: Profile, fleet: Fleet, free: FreeByNode, time_limit: DecisionTimeLimit) -> "_InForce":
        """On this fleet, which is taken as it is where the policy is its own."""
        own_fleet = fleet if fleet.policy is profile.policy else fleet.by(profile.policy)
        plugins = in_order(profile.plugins, fleet.features.release)
        return _InForce(PodSignatures(time_limit.is_over, plugins), own_fleet, scorer_of(profile.policy, free))


class Cluster:
    """Everything that a decision looks at.

    is_ours: whether a pod is for this scheduler to bind; None where nobody asks for `violations`. profiles: at least
    one, the first of which is also for pods whose `spec.schedulerName` has none. time_limit: of decisions; None where
    they may take all time.
    makes_claims: for extended resources of classes.
    refuses_unsupported: pods that require what is not looked at; where it does not, that is left out of account.
    unseen: kinds of storage objects of which nothing is known, so that what hangs on them is not looked at. unmade:
    claims of volumes of which nothing is known yet.
    identity: by which nodes that are equally good are put in order; "" for the order in which they came.
    """

    def __init__(  # noqa: PLR0913 - the last ones have defaults, and are the allocator's terms, time and rights
        self,
        features: Features,
        *,
        is_ours: Callable[[Pod], bool] | None,
        profiles: Sequence[Profile] = (Profile(),),
        budget_steps: int = BUDGET_STEPS,
        share_id: Callable[[str], str] = share_id_of,
        time_limit: DecisionTimeLimit | None = None,
        makes_claims: bool = False,
        refuses_unsupported: bool = True,
        unseen: frozenset[str] = frozenset(),
        unmade: frozenset[NamespacedName] = frozenset(),
        identity: str = "",
    ) -> None:
        self.time_limit = time_limit or DecisionTimeLimit()
        self.fleet = Fleet(
            Snapshot.of((), (), (), features),
            policy=profiles[0].policy,
            budget_steps=budget_steps,
            share_id=share_id,
            is_cancelled=self.time_limit.is_over,
        )
        self._table = self.fleet.table
        self.order = NodeOrder(self._table.numbers, identity)
        self._labels: dict[str, Mapping[str, str]] = {}
        self._deleted_namespaces: set[str] = set()
        self.infos = NodeInfos(self._labels, self.time_limit.look)
        self.free_resources = FreeByNode(self.fleet, self.infos, self.time_limit.is_over)
        self._profiles = {
            one.scheduler_name: _InForce.of(one, self.fleet, self.free_resources, self.time_limit) for one in profiles
        }
        self._default = self._profiles[profiles[0].scheduler_name]
        self.claims = ClaimIndex(self.fleet)
        self.selectors = PodSelectors()
        self.pod_groups = PodGroupIndex()
        self.budgets = DisruptionBudgets(
            empty_selects_all=features.release.empty_budgets_select or not features.is_strict,
            look=self.time_limit.look,
        )
        self.volumes = Volumes(self._table, features, unseen=unseen, unmade=unmade)
        self.by_priority = PodsByPriority(takes_static=features.is_strict)
        self.pods = NodePods(self._table.numbers, self.infos, self.volumes, self.by_priority)
        self.nominations = Nominations(self.pods.is_placed)
        self.extended_resources = ExtendedResources((), features)
        self._makes_claims = makes_claims
        self._refuses_unsupported = refuses_unsupported
        self._slices = TaintedSlices(self.fleet, has_rules=features.has(DEVICE_TAINT_RULES))
        self._classes: dict[str, DeviceClass] = {}
        self.rival_claims = rivals = Rivals(self.fleet, self.claims)
        self._invariants: Invariants | None = None
        if is_ours is not None:
            self._invariants = Invariants(self.claims, rivals, pod=self.pods.bound, node=self.node, is_ours=is_ours)

    # -- what the watches show

    def set_node(self, node: Node) -> None:
        """The node is there, or has changed."""
        number = self._table.number_for(node.name)
        old = self._table.get(number)
        self.fleet.set_node(number, node)
        self.order.set_node(number, node.name)
        self.infos.set_node(number, node)
        if old is None:
            self.volumes.node_comes(node.name)
        for profile in self._profiles.values():
            profile.signatures.set_node(number, node)
        if old is None:
            self.pods.node_comes(node.name)

    def remove_node(self, name: str) -> None:
        """The node is gone. Raises KeyError where it was not there."""
        number = self._table.numbers[name]
        self.pods.node_goes(name)
        self.fleet.remove_node(number)
        self.infos.remove_node(number)
        self.volumes.node_goes(name, number)
        for profile in self._profiles.values():
            profile.signatures.remove_node(number)

    def set_pod(self, pod: Pod) -> None:
        """The pod is there, or has changed; of whichever scheduler."""
        if pod.claims and (pod.is_over or pod.is_deleting):
            self.claims.may_be_unused(pod)
        self.pods.set(pod)
        if pod.claims and self.is_live(pod.uid):
            self.claims.used_by(pod, self.is_live)
        self.nominations.set(pod)
        if self._invariants:
            self._invariants.on_pod(pod.uid, pod)

    def remove_pod(self, uid: str) -> None:
        """The pod is gone, or has ended."""
        if (gone := self.pods.shown(uid)) is not None and gone.claims:
            self.claims.may_be_unused(gone)
        self.pods.remove(uid)
        self.nominations.remove(uid)
        if self._invariants:
            self._invariants.on_pod(uid, None)

    def set_claim(self, found: ClaimObject, version: int) -> None:
        """The claim is there at that version, or has changed."""
        uid = found.claim.uid
        before = self._counted(uid)
        self.claims.set(found, version)
        self.claims.used((uid,), self.is_live)
        if self._invariants:
            self._invariants.on_claim(uid, before, self._counted(uid))

    def leave_alone(self, claim_uid: str, pools: tuple[PoolID, ...]) -> None:
        """The claim has unknown devices of these pools. No pools: its devices are known again."""
        self._slices.leave_alone(claim_uid, pools)

    def remove_claim(self, uid: str) -> None:
        """The claim of that uid is gone."""
        before = self._counted(uid)
        self.claims.remove(uid)
        self._slices.leave_alone(uid, ())
        if self._invariants:
            self._invariants.on_claim(uid, before, None)

    @property
    def slices(self) -> Mapping[str, Slice]:
        """The slices by name, with the taints of the rules in force."""
        return self._slices.given

    def set_slice(self, slice_: Slice) -> None:
        """The slice is published, or has changed."""
        self._slices.set(slice_)

    def remove_slice(self, name: str) -> None:
        """The slice is gone. Raises KeyError where it was not there."""
        self._slices.remove(name)

    def set_taint_rule(self, rule: TaintRule) -> bool:
        """The DeviceTaintRule is there, or has changed. Whether a device has other taints now."""
        return self._slices.set_rule(rule)

    def remove_taint_rule(self, name: str) -> bool:
        """The DeviceTaintRule is gone, if it was there. Whether a device has other taints now."""
        return self._slices.remove_rule(name)

    def set_class(self, device_class: DeviceClass) -> None:
        """The class is there, or has changed."""
        self._classes[device_class.name] = device_class
        self.fleet.set_class(device_class)
        self._find_extended_resources()

    def remove_class(self, name: str) -> None:
        """The class is gone. Raises KeyError where it was not there."""
        del self._classes[name]
        self.fleet.remove_class(name)
        self._find_extended_resources()

    def set_namespace(self, namespace: Namespace) -> None:
        """The namespace is there, or has changed."""
        self._deleted_namespaces.discard(namespace.name)
        if namespace.is_deleted:
            self._deleted_namespaces.add(namespace.name)
        if self._labels.get(namespace.name, {}) != namespace.labels:
            self._labels[namespace.name] = namespace.labels
            self.infos.pods.forget_answers()
            self.fleet.namespace_changed(namespace.name)

    def remove_namespace(self, name: str) -> None:
        """The namespace is gone."""
        self._deleted_namespaces.discard(name)
        if self._labels.pop(name, None):
            self.infos.pods.forget_answers()
            self.fleet.namespace_changed(name)

    def set_limits(self, limits: Sequence[TenantLimit]) -> None:
        """These limits hold from now on, and no others. Cost: O(devices of all allocated claims)."""
        self.fleet.set_limits(LimitsInForce(limits, self._labels))

    # -- what decisions look at

    def node(self, name: str) -> Node | None:
        """The node of that name."""
        number = self._table.numbers.get(name)
        return None if number is None else self._table[number]

    def number_of(self, node: str) -> int | None:
        """The node's number, None where it is not there."""
        return self._table.numbers.get(node)

    def numbers_of(self, nodes: Iterable[str]) -> Iterator[int]:
        """The nodes' numbers in their order, -1 for those that are not there."""
        return map(self._table.numbers.get, nodes, repeat(-1))

    def name_of(self, number: int) -> str:
        """The name of the node with that number. Raises KeyError where there is none."""
        return self._table[number].name

    def names(self) -> Iterator[str]:
        """The names of all nodes."""
        return iter(self._table.numbers)

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace, none where it is not known."""
        return self._labels.get(namespace, {})

    def namespace_problem(self, namespace: str) -> str:
        """Why no pod of the namespace can be bound any more; empty where it can."""
        return f"namespace {namespace} is being deleted" if namespace in self._deleted_namespaces else ""

    def signatures_of(self, pod: Pod) -> PodSignatures:
        """The plugins of the pod's profile, and what filters say of nodes alone."""
        return self._profiles.get(pod.scheduler_name, self._default).signatures

    def fleet_of(self, pod: Pod | None) -> Fleet:
        """Nodes and devices by the policy of the pod's profile; of the first one for a claim that no pod uses."""
        return self._profiles.get(pod.scheduler_name, self._default).fleet if pod else self.fleet

    def scorer_of(self, pod: Pod | None) -> NodeScorer | None:
        """The scorer of the pod's policy where that looks at whole nodes; of the first profile without a pod."""
        return (self._profiles.get(pod.scheduler_name, self._default) if pod else self._default).scorer

    def expect(self, pod: Pod, claims: Sequence[Claim]) -> None:
        """Count the pod, once, into the workload that policies for whole nodes expect to come again."""
        if self.scorer_of(pod) is not None:
            self.free_resources.workload.see(pod.uid, pod_requests(pod), claims)

    def unsupported(self, pod: Pod) -> str:
        """What the pod requires that this program does not do; empty where there is nothing."""
        if not pod.group or not self._refuses_unsupported:
            return ""
        return GROUPS_UNSUPPORTED if pod.claims else GANGS_UNSUPPORTED

    def consumers_of(self, claim: Claim) -> Iterable[str]:
        """The uids of the pods that the claim is reserved for, as the watch shows it."""
        claim_object = self.claims.get(claim.namespace, claim.name)
        return [consumer.uid for consumer in claim_object.reserved_for] if claim_object is not None else []

    def reached(self, selector: NodeSelector) -> Mask:
        """The nodes that the selector matches; none where it is invalid.

        Cost: O(values of its terms); O(nodes) for one that looks at fields of nodes, and does not name them.
        """
        if any(term_problem(term) for term in selector):
            return 0
        if not any(term.fields for term in selector):
            return self.volumes.labels.selected(selector)
        named, numbers = named_nodes(selector), self._table.numbers
        asked = numbers.keys() if named is None else [name for name in named if name in numbers]
        return sum(1 << numbers[name] for name in asked if is_reached(selector, self._table[numbers[name]]))

    def claims_of(self, pod: Pod) -> Sequence[ClaimObject] | Waiting:
        """The claims of the pod, each once, or why it has to wait, also for another pod's attempt at one."""
        claims = claims_of(pod, self.claims)
        if isinstance(claims, Waiting):
            return claims
        if waiting := self._awaits_extended(pod):
            return waiting
        reason = in_flight(pod, claims, self.claims)
        return Waiting(reason) if reason else claims

    def _awaits_extended(self, pod: Pod) -> Waiting | None:
        """Why no claim can be made for the pod's extended resources yet; None where it can, or none is needed."""
        if pod.node_name or not self._makes_claims:
            return None
        if left := self.claims.of_extended_resources(pod.uid):
            reason = f"ResourceClaim {left.claim} of an earlier attempt must be deleted first"
            return Waiting(reason, kept=left)
        if not self.extended_resources.asked_by(pod):
            return None
        if other := self.claims.get(pod.namespace, claim_name(pod)):
            return Waiting(f"ResourceClaim {other.claim} was not created for Pod {pod} (Pod is not owner)")
        return None

    def gate(self, pod: Pod) -> str:
        """Why the pod need not be tried before its claims change; empty where it may be, or has one to let go of."""
        claims = claims_of(pod, self.claims)
        return claims.reason if isinstance(claims, Waiting) and claims.kept is None else ""

    # -- what decisions take

    def reserve(self, pod: Pod, placed: Placed) -> list[tuple[ClaimObject, Allocation | None]]:
        """Take room, devices and volumes for the pod: its claims as watched, with what those without any get.

        Raises AlreadyReserved, and takes nothing then.
        """
        rest = iter(placed.allocations)
        allocations = [None if claim.allocation else next(rest) for claim in placed.claims]
        pairs = list(zip(placed.claims, allocations, strict=True))
        if placed.extended is not None:
            pairs.append((placed.extended.claim, next(rest)))
        self.claims.reserve(pod.uid, placed.node, pairs)
        self.pods.assume(replace(pod, by_claims=placed.by_claims) if placed.by_claims else pod, placed.node)
        if placed.volumes:
            self.volumes.assume(pod.uid, placed.node, placed.volumes)
        claim_objects = [self.claims.get(claim.namespace, claim.name) for claim in placed.claims]
        return [
            (one, allocation) for one, allocation in zip(claim_objects, allocations, strict=True) if one is not None
        ]

    def made(self, made_up: str, claim_uid: str) -> None:
        """The claim that was taken for under a made-up uid is there, and has this one."""
        self.claims.made(made_up, claim_uid)

    def written(self, claim_uid: str, version: int) -> None:
        """What was reserved of the claim is stored since that version."""
        self.claims.written(claim_uid, version)

    def unreserve(self, pod_uid: str) -> None:
        """The pod's attempt came to nothing, and nothing of it is in flight any more: give everything back."""
        self.claims.unreserve(pod_uid)
        self.volumes.forget(pod_uid)
        self.pods.forget(pod_uid)

    def bound(self, pod_uid: str) -> None:
        """The pod's attempt has ended well: what it took counts until the watches show it.

        A pod that they do not show had ended or gone when it was reserved for: nothing more will come of it.
        """
        self.claims.release(pod_uid)
        self.volumes.bound(pod_uid)
        if not self.pods.is_shown(pod_uid):
            self.pods.forget(pod_uid)

    def set_aside(self, devices: Iterable[DeviceID], holder: str = NOT_READY) -> Claim:
        """Withhold these devices until `put_back` of the returned value; claims that hold them keep them.

        The claim that had them counts as one of those for as long as the watch has not shown that it gave them back.
        """
        results = tuple(DeviceResult("", one.driver, one.pool, one.device) for one in devices)
        aside = Claim("", holder, "", allocation=Allocation(results))
        self.fleet.add_allocated((aside,))
        return aside

    def put_back(self, aside: Claim) -> None:
        """What was set aside may be had again."""
        self.fleet.remove_allocated((aside,))

    # -- assumptions

    @contextmanager
    def assumed(self, pod: Pod, placed: Placed) -> Iterator[None]:
        """As if the pod were where it was placed, until the end of the context. Contexts can be nested."""
        self.reserve(pod, placed)
        try:
            yield
        finally:
            self.unreserve(pod.uid)

    @contextmanager
    def without(self, pods: Collection[str], frees: Callable[[str], bool] = lambda _: True) -> Iterator[None]:
        """Take these pods (uids) away, with their claims, and put them back at the end of the context, exactly.

        Meanwhile decisions are those of a cluster without the pods: their room, ports, volumes, nominations are free,
        and so are the devices of claims that nobody else uses. Users of a claim are those that `status.reservedFor`
        names, without pods that are gone or terminating, and pods of ours that are in flight. A claim that is reserved
        for nobody stays allocated: the reservation may be written after the allocation. Contexts can be nested. What is
        reserved in one has to be given back in it, and no watch may write meanwhile. Raises KeyError for a pod that is
        not there, or that was taken away already; Cancelled when the decision's time is over, and nothing is away then.
        frees: whether a claim (uid) that nobody uses then comes free; of others only the users go.
        Cost: O(pods on their nodes, and what is in use in the pools of their devices), for any size of the cluster.
        Source: KEP-5690; kube-controller-manager's resourceclaim controller for what becomes of a claim.
        """
        gone = [self._present(uid) for uid in dict.fromkeys(pods)]
        uids = [pod.uid for pod in gone]
        # The pods first: from then on nobody takes them for users of claims.
        with (
            self.time_limit.to_undo() as look,
            self.pods.without(uids, look),
            self.nominations.without(uids),
            self.volumes.without(uids),
            self.claims.without(gone, self.is_live, self.pods, frees, look),
        ):
            yield

    def _present(self, uid: str) -> Pod:
        pod = self.pods.known(uid)
        if pod is None:
            raise KeyError(f"pod {uid} is not there to be taken away")
        return pod

    @contextmanager
    def released(self, claims: Iterable[str]) -> Iterator[None]:
        """As if these claims (uids), which nobody uses, had no devices, until the end of the context; see `without`."""
        with self.claims.released(claims):
            yield

    def is_live(self, uid: str) -> bool:
        """Whether there is such a pod, and it does not end: what is reserved for it is in use."""
        pod = self.pods.known(uid)
        return pod is not None and not pod.is_deleting

    # -- what writers ask

    def rivals(self, claim_uid: str) -> Sequence[Rival]:
        """The stored claims that cannot hold what they hold together with this one."""
        return self.rival_claims.of(claim_uid)

    def objection(self, node: str, allocations: Iterable[Allocation]) -> str:
        """Why the node can no longer provide these devices; empty if it can."""
        present = self.node(node)
        if present is None:
            return f"node {node} is gone"
        reached = self.fleet.reached_by(present)
        for allocation in allocations:
            for result in allocation.results:
                if result.id not in reached:
                    return f"device {result.id} is no longer published for node {node}"
        return ""

    def violations(self) -> list[Violation]:
        """What must never be, as things are now. Cost: O(what has changed since this was asked last)."""
        assert self._invariants is not None, "nobody was to ask for violations"
        return self._invariants.violations()

    def _counted(self, uid: str) -> Claim | None:
        holding = self.claims.holding(uid)
        return holding.counted if holding is not None else None

    def _find_extended_resources(self) -> None:
        earlier = self.extended_resources.known
        self.extended_resources = ExtendedResources(self._classes.values(), self.fleet.features, earlier)
