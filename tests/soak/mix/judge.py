"""What has to hold in a mixed soak: limits, groups, evictions, and that nobody waits for what is free.

It knows what the API server shows and what the load did, and nothing of the product. What is compared is what stood for
a while: a device that came free a moment ago may not be known to a scheduler yet, and a pod that was bound just now was
not there when another one was decided about.
"""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.controlplane.rest import CLAIM, Json
from tests.soak.checker import Wrong
from tests.soak.facts import ClaimFacts, ClaimName, claim_of, subject_of
from tests.soak.furnish import GPU, GPUS, MEMORY, PART
from tests.soak.inventory import DeviceId, PublishedDevices
from tests.soak.mix.limits import SlowLimits
from tests.soak.mix.plan import BUDGET, GPUS_OF, KIND, MEMORY_OF, PART_OF, PRIORITIES
from tests.soak.revisions import Revision

OVER_LIMIT = "grant beyond a limit"
PARTLY_BOUND = "group partly bound"
NEEDLESS = "eviction without need"
DEARER = "eviction dearer than another"
NOT_LOWER = "victim of no lower priority"
UNTOLD = "victim of no preemptor"
UNUSED = "eviction that served nobody"
LOOP = "eviction loop"
STARVED = "pod waits for what is free"
LOST = "pod gone that nobody deleted"
RULES = (OVER_LIMIT, PARTLY_BOUND, NEEDLESS, DEARER, NOT_LOWER, UNTOLD, UNUSED, LOOP, STARVED, LOST)

STOOD_S = 20.0
"""What a decision is compared with had stood for so long when it was written."""

BIND_S = 20.0
"""How long it takes at most to bind the rest of a group: with a process that was killed meanwhile, and its backoff."""

WAITS_S = 150.0
"""For so long nobody waits for what is free all the time: a killed process is there again, and backoff is over."""

SERVED_S = 240.0
"""After the last victim is gone, its preemptor has its place within that."""

ROUNDS = 8
"""Of evictions for one pod, or of one pod that is made again and again."""

CANDIDATES = 100
"""kube-scheduler compares no more nodes than that, and 10 % of them."""

NOMINATION = "dra-scheduler.dev/nomination"
_LOOKED_AT_EVERY_S = 1.0
_REMEMBERED = 2_000


@dataclass(slots=True)
class MixPod:
    """What is known of a pod. bound_s: since when it has its node; placeable_s: since when it fits, as far as seen."""

    uid: str
    namespace: str
    name: str
    priority: int
    scheduler: str
    kind: str
    group: str
    least: int
    is_budgeted: bool
    node: str = ""
    nominated: str = ""
    bound_s: float = 0.0
    is_ending: bool = False
    is_victim: bool = False
    placeable_s: float | None = None
    record: str = ""

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name} ({self.uid})"

    @property
    def gpus(self) -> int:
        """Of how many it has need."""
        return GPUS_OF.get(self.kind, 0)

    @property
    def amounts(self) -> Json:
        """What limits count of it, by driver."""
        return {GPU: self.gpus, MEMORY: MEMORY_OF.get(self.kind, 0), PART: PART_OF.get(self.kind, 0)}


@dataclass(slots=True)
class _Decision:
    """Evictions for a pod. left: victims that are there. over_s: since when none is."""

    pod: str
    node: str
    victims: frozenset[str]
    at_s: float
    left: set[str]
    over_s: float | None = None


@dataclass(slots=True)
class _Group:
    least: int
    was_whole: bool = False
    partly_s: float | None = None
    bound: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Node:
    """back_s: since when it is in order; None while it is not. nominated_s: when it was last promised to a pod."""

    back_s: float | None = float("-inf")
    failed_s: float = float("-inf")
    nominated_s: float = float("-inf")


class MixJudge:
    """Follows revisions in their order. wrongs: what was found. decisions, victims: how many there were.

    taken: decisions whose devices a pod of another scheduler took before the preemptor.
    """

    def __init__(self, inventory: PublishedDevices) -> None:
        self.wrongs: list[Wrong] = []
        self.decisions = self.victims = self.taken = 0
        self.limits = SlowLimits(inventory)
        self.now_s = 0.0
        self._version = 0
        self._pods: dict[str, MixPod] = {}
        self._gone: deque[MixPod] = deque(maxlen=_REMEMBERED)
        self._deleted: set[str] = set()
        self._claims: dict[ClaimName, ClaimFacts] = {}
        self._free_s: dict[DeviceId, float] = {}
        self._node_of = {one: found.node for one, found in inventory.devices.items() if one.driver == GPU}
        self._nodes: defaultdict[str, _Node] = defaultdict(_Node)
        self._groups: dict[str, _Group] = {}
        self._decisions: list[_Decision] = []
        self._rounds: Counter[str] = Counter()
        self._told: set[tuple[str, str]] = set()
        self._looked_s = float("-inf")
        for device in self._node_of:
            self._free_s[device] = float("-inf")

    # -- what the load tells

    def deleted(self, uid: str) -> None:
        """A user, a kubelet or the end of a node has asked for its deletion."""
        self._deleted.add(uid)

    def fails(self, node: str, at_s: float) -> None:
        """From now on nobody can be placed there."""
        self._nodes[node].back_s, self._nodes[node].failed_s = None, at_s

    def is_back(self, node: str, at_s: float) -> None:
        """The node is in order again."""
        self._nodes[node].back_s = at_s

    # -- revisions

    def feed(self, revision: Revision) -> None:
        """Take the next revision."""
        self.now_s, self._version = revision.seen_s, revision.version
        follow = self._claim if revision.object["kind"] == CLAIM.kind else self._pod
        for rule, text in follow(revision):
            self._tell(rule, text, subject_of(revision.object))
        if self.now_s - self._looked_s >= _LOOKED_AT_EVERY_S:
            self._looked_s = self.now_s
            self.look()

    def look(self) -> None:
        """See what has lasted for too long by now."""
        for rule, text in (*self._partly(), *self._unserved(), *self._starving()):
            self._tell(rule, text)

    def _tell(self, rule: str, text: str, subject: str = "") -> None:
        if (rule, text) not in self._told:
            self._told.add((rule, text))
            self.wrongs.append(Wrong(rule, self._version, text, subject))

    def _claim(self, revision: Revision) -> Iterator[tuple[str, str]]:
        metadata = revision.object["metadata"]
        key = ClaimName(metadata["namespace"], metadata["name"])
        before, now = self._claims.pop(key, None), None if revision.is_gone else claim_of(revision.object)
        for share in (before.shares or ()) if before else ():
            if share.device in self._node_of:
                self._free_s[share.device] = self.now_s
        if now:
            self._claims[key] = now
        self.limits.note(key.namespace, self._claims, self.now_s)
        if now:
            for share in now.shares or ():
                self._free_s.pop(share.device, None)
            for text in self.limits.excesses(key, self._claims, before, self.now_s):
                yield OVER_LIMIT, text

    def _pod(self, revision: Revision) -> Iterator[tuple[str, str]]:
        raw = revision.object
        uid = raw["metadata"]["uid"]
        if KIND not in (raw["metadata"].get("labels") or {}):
            return
        pod = self._pods.get(uid) or _pod_of(raw)
        was_bound, was_victim = bool(pod.node), pod.is_victim
        _update(pod, raw)
        self._pods[uid] = pod
        if pod.nominated:
            self._nodes[pod.nominated].nominated_s = self.now_s
        yield from self._decided(pod, raw)
        if pod.is_victim and not was_victim:
            yield from self._evicted(pod)
        if pod.node and not was_bound:
            yield from self._bound(pod)
        if revision.is_gone:
            yield from self._went(pod)

    def _went(self, pod: MixPod) -> Iterator[tuple[str, str]]:
        del self._pods[pod.uid]
        self._gone.append(pod)
        if group := self._groups.get(pod.group):
            group.bound.discard(pod.uid)
            if not any(one.group == pod.group for one in self._pods.values()):
                del self._groups[pod.group]
        for one in self._decisions:
            one.left.discard(pod.uid)
            if not one.left and one.over_s is None:
                one.over_s = self.now_s
        if not pod.is_victim and pod.uid not in self._deleted:
            yield LOST, f"{pod} is gone"

    # -- groups

    def _bound(self, pod: MixPod) -> Iterator[tuple[str, str]]:
        pod.bound_s = self.now_s
        if pod.group:
            group = self._groups.setdefault(pod.group, _Group(pod.least))
            group.bound.add(pod.uid)
            group.was_whole |= len(group.bound) >= group.least
            group.partly_s = None if group.was_whole else group.partly_s or self.now_s
        for one in [one for one in self._decisions if one.pod == pod.uid]:
            self._decisions.remove(one)
            if pod.node != one.node and self._could_serve(one, pod):
                yield UNUSED, f"{pod} went to {pod.node} after {sorted(one.victims)} were evicted from {one.node}"

    def _partly(self) -> Iterator[tuple[str, str]]:
        """A group that lost members to deletions before it was whole is taken as it is: nobody can mend it."""
        for name, group in self._groups.items():
            if group.partly_s is not None and self.now_s - group.partly_s > BIND_S and group.bound:
                there = [one for one in self._pods.values() if one.group == name and not one.is_ending]
                if len(there) >= group.least:
                    yield PARTLY_BOUND, f"of group {name} {len(group.bound)} of at least {group.least} pods are bound"

    # -- evictions

    def _decided(self, pod: MixPod, raw: Json) -> Iterator[tuple[str, str]]:
        text = (raw["metadata"].get("annotations") or {}).get(NOMINATION, "")
        if not text or text == pod.record:
            return
        pod.record = text
        found = json.loads(text)
        victims = frozenset(found["victims"])
        if not victims or not victims & self._pods.keys():
            return
        self.decisions += 1
        self._decisions.append(_Decision(pod.uid, found["node"], victims, self.now_s, set(victims & self._pods.keys())))
        self._rounds[pod.uid] += 1
        if self._rounds[pod.uid] > ROUNDS:
            yield LOOP, f"others were evicted {self._rounds[pod.uid]} times for {pod}"
        yield from self._judged(pod, found["node"], victims)

    def _judged(self, pod: MixPod, node: str, victims: Iterable[str]) -> Iterator[tuple[str, str]]:
        there = [self._pods[one] for one in victims if one in self._pods]
        for victim in there:
            if victim.priority >= pod.priority:
                yield NOT_LOWER, f"{victim} of priority {victim.priority} for {pod} of priority {pod.priority}"
        if not pod.gpus or not self._has_room(pod, self._least_of(pod)):
            return
        if free := self._fits(pod, STOOD_S):
            yield NEEDLESS, f"{pod} fits {free}, and {', '.join(map(str, there))} are evicted from {node}"
            return
        dearest = max((one.priority for one in there), default=0)
        if not pod.group and (cheaper := self._cheaper(pod, dearest)):
            yield DEARER, f"{pod}: {', '.join(map(str, there))} are evicted from {node}, and {cheaper} would do"

    def _evicted(self, pod: MixPod) -> Iterator[tuple[str, str]]:
        self.victims += 1
        root = pod.name.partition(".")[0]
        self._rounds[f"{pod.namespace}/{root}"] += 1
        if self._rounds[f"{pod.namespace}/{root}"] > ROUNDS:
            yield LOOP, f"pod {pod.namespace}/{root} was evicted {ROUNDS + 1} times"
        if not any(pod.uid in one.victims for one in self._decisions):
            yield UNTOLD, f"{pod} is evicted, and is in no record of a pod that waits"

    def _could_serve(self, one: _Decision, pod: MixPod) -> bool:
        """Whether what the evictions freed was there for the pod all the time."""
        node = self._nodes[one.node]
        if one.over_s is None or self.now_s - one.over_s < STOOD_S or pod.group:
            return False
        # A pod that a limit refuses keeps nothing that others could use, as where preemption helps no more.
        if not self._has_room(pod, 1, self.now_s - one.at_s):
            return False
        if node.back_s is None or node.failed_s > one.at_s:
            return False
        came = [
            other
            for other in (*self._pods.values(), *self._gone)
            if one.node in (other.node, other.nominated) and other.bound_s >= one.at_s
        ]
        # A scheduler keeps what it has freed from the pods that it places, and no other scheduler knows of it.
        self.taken += any(other.scheduler != pod.scheduler for other in came)
        return not any(other.priority > pod.priority or other.scheduler != pod.scheduler for other in came)

    def _unserved(self) -> Iterator[tuple[str, str]]:
        for one in list(self._decisions):
            pod = self._pods.get(one.pod)
            if pod is None:
                self._decisions.remove(one)
            elif one.over_s is not None and self.now_s - one.over_s > SERVED_S:
                self._decisions.remove(one)
                if self._could_serve(one, pod):
                    yield (
                        UNUSED,
                        f"{pod} waits, and {sorted(one.victims)} are gone from {one.node} since {SERVED_S:g} s",
                    )

    # -- who waits

    def _starving(self) -> Iterator[tuple[str, str]]:
        for pod in self._pods.values():
            if pod.node or pod.is_ending or not self._could_be_placed(pod):
                pod.placeable_s = None
            elif pod.placeable_s is None:
                pod.placeable_s = self.now_s
            elif self.now_s - pod.placeable_s > WAITS_S:
                yield STARVED, f"{pod} of kind {pod.kind}, group {pod.group or 'none'}"

    def _could_be_placed(self, pod: MixPod) -> bool:
        members = [one for one in self._pods.values() if one.group == pod.group] if pod.group else [pod]
        waiting = [one for one in members if not one.node and not one.is_ending]
        is_complete = len([one for one in members if not one.is_ending]) >= pod.least
        if not is_complete or not self._has_room(pod, self._least_of(pod), WAITS_S):
            return False
        return bool(self._fits(pod, WAITS_S)) if pod.gpus else bool(waiting)

    def _least_of(self, pod: MixPod) -> int:
        """How many pods have to be placed at once with it."""
        bound = len(self._groups[pod.group].bound) if pod.group in self._groups else 0
        return max(1, pod.least - bound)

    def _has_room(self, pod: MixPod, pods: int, stood_s: float = STOOD_S) -> bool:
        amounts = {driver: amount * pods for driver, amount in pod.amounts.items()}
        return self.limits.room(pod.namespace, amounts, self._claims, self.now_s, stood_s)

    # -- what has stood for a while

    def _fits(self, pod: MixPod, stood_s: float) -> str:
        """Where it (and the rest of its group) had room all the time; empty where it had none."""
        until_s, left = self.now_s - stood_s, self._least_of(pod)
        nodes = []
        for node, free in self._free(until_s).items():
            if self._stood(node, pod, until_s) and free >= pod.gpus:
                nodes.append(node)
                left -= free // pod.gpus
            if left <= 0:
                return f"on {', '.join(nodes)}"
        return ""

    def _stood(self, node: str, pod: MixPod, until_s: float) -> bool:
        """Whether the node is in order since then, and was promised to nobody else."""
        found = self._nodes[node]
        is_promised = any(one.nominated == node and not one.node and one is not pod for one in self._pods.values())
        in_order = found.back_s is not None and found.back_s <= until_s
        return in_order and not is_promised and (found.nominated_s <= until_s or pod.nominated == node)

    def _free(self, until_s: float) -> Counter[str]:
        """How many devices of each node are free since then."""
        return Counter(self._node_of[device] for device, since_s in self._free_s.items() if since_s <= until_s)

    def _cheaper(self, pod: MixPod, dearest: int) -> str:
        """A node where pods of lower priority than the dearest victim would do, none of a budget or a group."""
        until_s = self.now_s - STOOD_S
        users: defaultdict[str, list[MixPod]] = defaultdict(list)
        for one in self._pods.values():
            if one.node and one.priority < pod.priority:
                users[one.node].append(one)
        if len(users) >= CANDIDATES:
            return ""  # they were not all looked at
        free = self._free(until_s)
        for node, found in users.items():
            going = [one for one in found if one.priority < dearest and _may_go(one, until_s)]
            if going and self._stood(node, pod, until_s) and free[node] + sum(one.gpus for one in going) >= pod.gpus:
                return ", ".join(f"{one} on {node}" for one in going)
        return ""

    # -- figures

    def waiting(self) -> int:
        """How many pods have no node."""
        return sum(not one.node for one in self._pods.values())

    def in_use(self) -> float:
        """The share of GPUs that claims hold."""
        return 1 - len(self._free_s) / max(1, len(self._node_of))


def _may_go(pod: MixPod, until_s: float) -> bool:
    return not (pod.group or pod.is_budgeted or pod.is_ending) and pod.bound_s <= until_s


def _pod_of(raw: Json) -> MixPod:
    metadata, spec = raw["metadata"], raw["spec"]
    labels = metadata["labels"]
    group = f"{metadata['namespace']}/{labels['of']}" if "of" in labels else ""
    return MixPod(
        metadata["uid"],
        metadata["namespace"],
        metadata["name"],
        PRIORITIES[spec["priorityClassName"]],
        spec["schedulerName"],
        labels[KIND],
        group,
        int(labels.get("least", 1)),
        BUDGET in labels,
    )


def _update(pod: MixPod, raw: Json) -> None:
    status = raw.get("status") or {}
    pod.node = raw["spec"].get("nodeName") or ""
    pod.nominated = status.get("nominatedNodeName") or ""
    pod.is_ending |= "deletionTimestamp" in raw["metadata"] or status.get("phase") in ("Succeeded", "Failed")
    told = {one["type"]: one for one in status.get("conditions") or ()}
    pod.is_victim |= told.get("DisruptionTarget", {}).get("reason") == "PreemptionByScheduler"


assert max(GPUS_OF.values()) <= GPUS, "a pod that fits on no node"
