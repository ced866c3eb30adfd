"""Which pods may be moved: evicted, in the trust that their controllers make them again and they fit elsewhere.

Each rule that forbids a move has a name, under which answers and docs know it. Budgets are asked twice: here whether a
pod may go at all, and by the search for all the pods of a plan together.

Of the pods that may be moved on a node, `MoversByNode` finds those that could be in the way of somebody there, by
counting alone. Nothing is decided: what is left out cannot help, and what is found may not help. A pod on one node is
in the way of another one there; of a pod that looks at others (affinity, spread) every pod may be in the way, wherever
it is, and so may every pod whose devices several nodes reach.
Source: kubectl drain and Cluster Autoscaler for local storage, `safe-to-evict` and DaemonSets; the Eviction API.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from math import inf
from typing import NamedTuple

from allocator.bits import bits
from allocator.cluster.usage import occupying
from allocator.model import Claim, Requirement
from allocator.words import listed_up_to
from scheduler.core_v1.group_terms import PREFIX
from scheduler.core_v1.label_selectors import selects
from scheduler.core_v1.pod import Pod, claim_keys
from scheduler.core_v1.pod_volumes import text_of
from scheduler.core_v1.resources import objects
from scheduler.decision.cluster import Cluster
from scheduler.preemption.victims import WinnableClaims, moment
from scheduler.state.claims import awaited_claims, is_of_extended_resources
from scheduler.state.pods_by_priority import priority_of

MOVABLE = f"{PREFIX}movable"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Annotations of pods; "false" forbids a move."""

_MOST_NAMED = 3


class Forbidden(NamedTuple):
    """Why a pod stays. rule: its name."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Mover:
    """A pod that may be moved. had: its claims. claims: those that are made again with it, as they are now."""

    pod: Pod
    node: str
    claims: tuple[Claim, ...] = ()
    had: tuple[Claim, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """What it has, by id."""
        results = (one.allocation.results for one in self.had if one.allocation is not None)
        return tuple(sorted(str(result.id) for some in results for result in some))

    @property
    def held(self) -> int:
        """How many devices nobody else can have because of it."""
        return sum(len(occupying(one)) for one in self.had if one.allocation is not None)

    @property
    def uid(self) -> str:
        """Of the pod."""
        return self.pod.uid

    @property
    def started(self) -> float:
        """When it started; inf where it did not yet."""
        return moment(self.pod.started)

    @property
    def again(self) -> tuple[Pod, tuple[Claim, ...]]:
        """The pod as its controller makes it again, with the claims that it gets, which have no devices yet."""
        uid = f"{self.uid}-again"
        pod = self.pod.changed(
            uid=uid,
            node_name="",
            nominated_node="",
            claim_statuses={},
            phase="",
            conditions=(),
            device_fields=(),
            by_claims=(),
            started="",
        )
        return pod, tuple(replace(one, uid=f"{one.uid}-again", allocation=None) for one in self.claims)


@dataclass(frozen=True, slots=True)
class MoveRules:
    """What the user allows."""

    moves_jobs: bool = False
    most_priority: int | None = None
    """Pods of a higher one stay; None where all may go."""
    selector: tuple[Requirement, ...] = ()
    namespace: str = ""
    """Of the pods that may go; empty for all."""
    is_simulated: bool = False
    """Pods come from a trace: their controllers are not known, and make them again."""


class Movability:
    """Asks the rules of the pods of a cluster."""

    def __init__(self, cluster: Cluster, rules: MoveRules) -> None:
        self._cluster, self._rules = cluster, rules

    def split(self) -> tuple[dict[str, Mover], dict[str, tuple[Pod, Forbidden]]]:
        """The pods on nodes, by uid: those that may be moved, and those that may not. Cost: O(pods and claims)."""
        cluster = self._cluster
        movers: dict[str, Mover] = {}
        staying: dict[str, tuple[Pod, Forbidden]] = {}
        for number, pod in cluster.pods.on_nodes():
            if forbidden := self.forbids(pod):
                staying[pod.uid] = pod, forbidden
            else:
                movers[pod.uid] = self._mover(pod, cluster.name_of(number))
        return movers, staying

    def forbids(self, pod: Pod) -> Forbidden | None:
        """The first rule that forbids to move the pod; None where it may be moved."""
        return next(self._forbidding(pod), None)

    def _forbidding(self, pod: Pod) -> Iterator[Forbidden]:
        yield from _by_kind(pod, self._rules)
        yield from _by_annotation(pod)
        yield from _by_local_storage(pod)
        yield from self._by_claims(pod)
        if problem := self._kept_by_a_volume(pod):
            yield Forbidden("node-volume", problem)
        yield from self._by_choice(pod)
        yield from self._by_budget(pod)

    def _by_choice(self, pod: Pod) -> Iterator[Forbidden]:
        rules = self._rules
        if rules.namespace not in ("", pod.namespace):
            yield Forbidden("namespace", f"is not in namespace {rules.namespace}")
        if not selects(rules.selector, pod.labels):
            yield Forbidden("selector", "--movable does not select it")
        if rules.most_priority is not None and priority_of(pod) > rules.most_priority:
            yield Forbidden("priority", f"has priority {priority_of(pod)}, and the target {rules.most_priority}")

    def _by_budget(self, pod: Pod) -> Iterator[Forbidden]:
        budgets = self._cluster.budgets.of(pod)
        if len(budgets) > 1:
            names = listed_up_to(list(map(str, budgets)), _MOST_NAMED)
            yield Forbidden("budget", f"several PodDisruptionBudgets select it ({names}): nobody can evict it")
        for budget in budgets:
            if budget.disruptions_allowed < 1:
                yield Forbidden("budget", f"PodDisruptionBudget {budget} allows no disruption now")

    def _by_claims(self, pod: Pod) -> Iterator[Forbidden]:
        named = {entry.claim_name for entry in pod.claims if entry.claim_name}
        cluster = self._cluster
        for namespace, name in dict.fromkeys(awaited_claims(pod)):
            claim_object = cluster.claims.get(namespace, name)
            if claim_object is None:
                continue
            others = [one.name for one in claim_object.reserved_for if not one.is_pod(pod.name, pod.uid)]
            if others:
                users = listed_up_to([f"{namespace}/{other}" for other in others], _MOST_NAMED)
                yield Forbidden("shared-claim", f"shares claim {claim_object.claim} with {users}")
            elif name in named:
                yield Forbidden("named-claim", f"claim {claim_object.claim} is not made from a template")
            elif claim_object.claim.allocation and not claim_object.reserved_for:
                yield Forbidden("claim", f"claim {claim_object.claim} is allocated, and not reserved for it")
            elif claim_object.error:
                yield Forbidden("claim", f"claim {claim_object.claim} cannot be read")
        missing = [entry.name for entry in pod.claims if entry.claim_name == "" and _lacks(pod, entry.name)]
        if missing:
            yield Forbidden("claim", f"has no claim for its entry {missing[0]}")
        absent = [key for key in claim_keys(pod) if cluster.claims.get(*key) is None]
        if absent:
            yield Forbidden("claim", f"claim {'/'.join(absent[0])} is not there")

    def _kept_by_a_volume(self, pod: Pod) -> str:
        """Which volume only its node reaches, in words; empty where there is none."""
        volumes, number = self._cluster.volumes, self._cluster.number_of(pod.node_name)
        for volume in pod.volumes.claims:
            name = volume.claim_of(pod.name)
            claim = volumes.objects.claims.watched.get((pod.namespace, name))
            kept = volumes.objects.volumes.watched.get(claim.volume) if claim is not None and claim.volume else None
            if kept is None or volume.is_ephemeral or number is None:
                continue
            everywhere = self._cluster.fleet.all
            if volumes.reached(kept) & everywhere == 1 << number != everywhere:
                return f"only its node reaches the volume of PersistentVolumeClaim {pod.namespace}/{name}"
        return ""

    def _mover(self, pod: Pod, node: str) -> Mover:
        claim_objects = [self._cluster.claims.get(*key) for key in dict.fromkeys(awaited_claims(pod))]
        there = [one for one in claim_objects if one is not None]
        made = [one for one in there if not is_of_extended_resources(one.metadata.annotations)]
        return Mover(pod, node, tuple(one.claim for one in made), tuple(one.claim for one in there))


def _lacks(pod: Pod, entry: str) -> bool:
    """Whether no claim is known for the entry, which needs one."""
    return not pod.claim_statuses.get(entry, "") and pod.claim_statuses.get(entry, "") is not None


def _by_kind(pod: Pod, rules: MoveRules) -> Iterator[Forbidden]:
    kind = pod.owner.kind if pod.owner else ""
    if pod.is_static or kind == "Node":
        yield Forbidden("static", "is a static pod: its kubelet runs it from a file")
    if pod.is_deleting:
        yield Forbidden("terminating", "is terminating")
    if not kind and not rules.is_simulated:
        yield Forbidden("no-controller", "no controller makes it again")
    if kind == "DaemonSet":
        yield Forbidden("daemonset", f"belongs to its node by DaemonSet {_owner(pod)}")
    if kind == "Job" and not (rules.moves_jobs or rules.is_simulated):
        yield Forbidden("job", f"would lose its run: Job {_owner(pod)} (--move-jobs allows it)")
    if pod.group:
        yield Forbidden("group", f"belongs to group {pod.group}, which is placed as a whole")


def _owner(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.owner.name}" if pod.owner else ""


def _by_annotation(pod: Pod) -> Iterator[Forbidden]:
    metadata = pod.raw.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    for name in (MOVABLE, SAFE_TO_EVICT):
        if isinstance(annotations, dict) and annotations.get(name) == "false":
            yield Forbidden("annotation", f"its annotation {name} is false")


def _by_local_storage(pod: Pod) -> Iterator[Forbidden]:
    for volume in _volumes(pod):
        name, directory = text_of(volume, "name"), volume.get("emptyDir")
        if "hostPath" in volume:
            yield Forbidden("local-storage", f"volume {name} is a directory of its node (hostPath)")
        elif isinstance(directory, dict) and directory.get("medium") != "Memory":
            yield Forbidden("local-storage", f"volume {name} is on its node, and is lost with it (emptyDir)")


def _volumes(pod: Pod) -> Sequence[Mapping[str, object]]:
    spec = pod.raw.get("spec")
    return objects(spec, "volumes") if isinstance(spec, dict) else ()


Cost = tuple[int, int, int, tuple[float, ...], tuple[str, ...]]


class RoomNeed(NamedTuple):
    """Who looks for room. needed: whole devices at least. passed: numbers of nodes where it has room anyway."""

    needed: int
    is_wide: bool = False
    passed: int = 0


class MoversByNode:
    """movers: by uid."""

    def __init__(self, cluster: Cluster, movers: Mapping[str, Mover]) -> None:
        self._cluster = cluster
        self.movers = movers
        self.uids = frozenset(movers)
        self._claims = WinnableClaims(cluster, (), is_on=True)
        self._free: dict[int, int] = {}
        self.steps = 0
        """Sets that were looked at."""

    def cost(self, uids: frozenset[str]) -> Cost:
        """What it costs to move these: how many, their priorities, their devices, who started last; then names."""
        own = [self.movers[uid] for uid in uids]
        started = tuple(-one for one in sorted(mover.started for mover in own))
        names = tuple(sorted(str(one.pod) for one in own))
        return len(own), sum(priority_of(one.pod) for one in own), sum(one.held for one in own), started, names

    def ordered(self, uids: frozenset[str]) -> list[Mover]:
        """These, the cheapest first."""
        return sorted((self.movers[uid] for uid in uids), key=lambda one: self.cost(frozenset((one.uid,))))

    def looks_wide(self, pod: Pod) -> bool:
        """Whether it matters for the pod who is on other nodes than its own."""
        affinity = pod.pod_affinity
        has_terms = bool(affinity.required or affinity.required_anti or any(one.is_hard for one in pod.spread))
        return has_terms or self._repels

    def sets(self, asking: RoomNeed, before: frozenset[str], most: int) -> Iterator[frozenset[str]]:
        """Up to so many pods that may be in the way of who asks. before: the pods that are away already."""
        if asking.is_wide:
            yield from self._wide_sets(asking, before, most)
            return
        for number, own in self._by_node.items():
            if asking.passed >> number & 1:
                continue
            away = sum(self._held_on(number, uid) for uid in before)
            rest = [uid for uid in own if uid not in before]
            missing = asking.needed - self.free(number) - away
            if missing > sum(sorted((self._held_on(number, uid) for uid in rest), reverse=True)[:most]):
                self.steps += 1
                continue
            for size in range(1, min(most, len(rest)) + 1):
                for chosen in combinations(rest, size):
                    self.steps += 1
                    if sum(self._held_on(number, uid) for uid in chosen) >= missing:
                        yield frozenset(chosen)

    def _wide_sets(self, asking: RoomNeed, before: frozenset[str], most: int) -> Iterator[frozenset[str]]:
        rest = [uid for uid in self.movers if uid not in before]
        for size in range(1, most + 1):
            for chosen in combinations(rest, size):
                self.steps += 1
                if self._may_give(asking.needed, before.union(chosen)):
                    yield frozenset(chosen)

    def _may_give(self, needed: int, away: frozenset[str]) -> bool:
        """Whether a node has as many devices, these pods away."""
        if needed <= self._most_free:
            return True
        nodes = {self._number(uid) for uid in away}
        some = any(needed <= self.free(one) + sum(self._held_on(one, uid) for uid in away) for one in nodes)
        return some or any(uid in self._roaming for uid in away)

    def free(self, number: int) -> int:
        """How many devices of the node nobody has."""
        if number not in self._free:
            self._free[number] = self._claims.free_devices(number)
        return self._free[number]

    def _held_on(self, number: int, uid: str) -> float:
        """How many devices the pod may give to the node."""
        mover = self.movers[uid]
        return mover.held if uid in self._roaming or self._number(uid) == number else 0

    def _number(self, uid: str) -> int:
        return self._numbers[uid]

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        numbers = ((uid, self._cluster.number_of(one.node)) for uid, one in self.movers.items())
        return {uid: -1 if number is None else number for uid, number in numbers}

    @cached_property
    def _by_node(self) -> Mapping[int, Sequence[str]]:
        """Who is on each node, or may be in the way there from elsewhere."""
        by_node: dict[int, list[str]] = {}
        for uid, number in self._numbers.items():
            by_node.setdefault(number, []).append(uid)
        if self._roaming:
            for number in bits(self._cluster.fleet.all):
                by_node[number] = list(dict.fromkeys(chain(by_node.get(number, ()), self._roaming)))
        return by_node

    @cached_property
    def _roaming(self) -> Mapping[str, None]:
        """The pods with devices that several nodes reach."""
        claims, roaming = self._cluster.claims, dict[str, None]()
        for uid, mover in self.movers.items():
            for key in awaited_claims(mover.pod) if mover.held else ():
                claim_object = claims.get(*key)
                if claim_object is not None and self._claims.obstacle(mover.node, claim_object.claim.uid):
                    roaming[uid] = None
        return roaming

    @cached_property
    def _most_free(self) -> float:
        return max(map(self.free, bits(self._cluster.fleet.all)), default=-inf)

    @cached_property
    def _repels(self) -> bool:
        """Whether somebody keeps others away from where it is."""
        return any(pod.pod_affinity.required_anti for _, pod in self._cluster.pods.on_nodes())
