"""What has to hold: at every revision, when nothing goes wrong any more, and when all pods are gone."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from threading import Lock

from tests.chaos.cast import Player
from tests.chaos.etcd import CLAIMS, PODS, VOLUME_CLAIMS, VOLUMES, EtcdHistory
from tests.chaos.objects import EVICTING, NAME, PORTS, SCHEDULERS, SPREAD
from tests.controlplane.rest import Json
from tests.soak.checker import Checker, Wrong
from tests.soak.facts import ClaimName, claim_of, subject_of
from tests.soak.holdings import Holdings
from tests.soak.inventory import PublishedDevices
from tests.soak.mix.judge import NOMINATION
from tests.soak.revisions import Revision

GIVEN_TWICE = "device given to two claims"
NOT_PLACED, NOT_SPREAD, LEFT = "pod not placed", "pods not spread", "something is left"
NOT_LOWER, NOT_EVICTED = "victim of no pod of higher priority", "pod waits for what one of lower priority has"
MISNAMED = "bound pod names a claim that it does not have"
INTERNAL, NOT_QUIET = "internal error", "something is under way though nothing is there"

_EMPTY_METRICS = re.compile(
    r"^(dra_scheduler_bindings_in_flight|dra_extender_bindings_in_flight|dra_extender_refused_pods"
    r'|scheduler_pending_pods\{.*\}|scheduler_cache_size\{type="assumed_pods"\}'
    r'|dra_scheduler_watch_objects\{resource="resourceclaims"\}) (\S+)$',
    re.MULTILINE,
)
_VIOLATED = re.compile(r"^(dra_scheduler_invariant_violations_total\{.*\}) (\S+)$", re.MULTILINE)


class Judge:
    """Judges each revision as it comes, from etcd's thread; `wrongs` are those since the last call."""

    def __init__(self, inventory: PublishedDevices) -> None:
        self._lock = Lock()
        self._checker = Checker(inventory, lambda _: False)
        self._given = Holdings(inventory)
        self._found: list[Wrong] = []
        self._seen = 0
        self._records: dict[str, int] = {}
        self._victims: set[str] = set()

    def see(self, resource: str, revision: Revision) -> None:
        """Take the next revision."""
        if resource not in (PODS, CLAIMS) or revision.object["metadata"]["namespace"] != NAME:
            return
        with self._lock:
            self._checker.feed(revision)
            self._found += self._given_twice(revision) if resource == CLAIMS else self._evicted(revision)

    def wrongs(self) -> list[Wrong]:
        """What was wrong since the last call."""
        with self._lock:
            found = [*self._checker.wrongs[self._seen :], *self._found]
            self._seen = len(self._checker.wrongs)
            self._found = []
        return found

    def story(self, wrong: Wrong) -> list[str]:
        """The revisions that led there."""
        with self._lock:
            return self._checker.story(wrong)

    def remembered(self) -> list[str]:
        """The last revisions, whatever they are of."""
        with self._lock:
            return self._checker.remembered()

    def _evicted(self, revision: Revision) -> Iterator[Wrong]:
        """A victim was in the record of a pod of higher priority before it was told to go."""
        pod = revision.object
        metadata, conditions = pod["metadata"], (pod.get("status") or {}).get("conditions") or ()
        for uid in json.loads((metadata.get("annotations") or {}).get(NOMINATION) or "{}").get("victims", ()):
            self._records[uid] = max(self._records.get(uid, 0), _priority(pod))
        is_victim = any(one.get("reason") == "PreemptionByScheduler" for one in conditions)
        if is_victim and metadata["uid"] not in self._victims:
            self._victims.add(metadata["uid"])
            if _priority(pod) >= self._records.get(metadata["uid"], 0):
                yield Wrong(NOT_LOWER, revision.version, f"{subject_of(pod)} was evicted", subject_of(pod))

    def _given_twice(self, revision: Revision) -> Iterator[Wrong]:
        """With a guard no claim ever has what another one has, whoever uses them."""
        metadata = revision.object["metadata"]
        shares = () if revision.is_gone else claim_of(revision.object).shares or ()
        for text in self._given.change(ClaimName(metadata["namespace"], metadata["name"]), shares):
            yield Wrong(GIVEN_TWICE, revision.version, text, subject_of(revision.object))


# -- when nothing goes wrong any more


def unplaced(pods: Sequence[Json]) -> list[Json]:
    """The pods that could be placed and are not: all but those for whom no port is left."""
    waiting = [pod for pod in pods if _is_ours(pod) and not _has_node(pod) and not _is_over(pod)]
    used = sum(_has_node(pod) and not _is_over(pod) for pod in pods if _is_scarce(pod))
    short = [pod for pod in waiting if _is_scarce(pod)]
    return [pod for pod in waiting if not _is_scarce(pod)] + short[: max(0, PORTS - used)]


def not_evicted(pods: Sequence[Json]) -> list[tuple[Json, Json]]:
    """The pods that wait for a port, of schedulers that evict others, and one of lower priority that has one."""
    users, waiting = users_of_ports(pods)
    least = min(users, key=_priority, default=None)
    evicting = [pod for pod in waiting if pod["spec"]["schedulerName"] in EVICTING]
    return [(pod, least) for pod in evicting if least is not None and _priority(pod) > _priority(least)]


def told(pod: Json) -> str:
    """The pod with all that says whether it may be evicted."""
    spec = pod["spec"]
    return f"pod {pod['metadata']['name']} of {spec['schedulerName']}, priority {_priority(pod)}, on {spec['nodeName']}"


def _priority(pod: Json) -> int:
    found: int = pod["spec"].get("priority") or 0
    return found


def misnamed(pods: Sequence[Json], claims: Sequence[Json]) -> list[Json]:
    """The bound pods whose status names a claim that is not reserved for them: its controller saw an old state."""
    users = {one["metadata"]["name"]: claim_of(one).consumers for one in claims}
    bound = (pod for pod in pods if _is_ours(pod) and _has_node(pod) and not _is_over(pod))
    return [pod for pod in bound if any(pod["metadata"]["uid"] not in users.get(name, ()) for name in _made_for(pod))]


def users_of_ports(pods: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """The pods that have a port, and those that wait for one."""
    scarce = [pod for pod in pods if _is_scarce(pod) and not _is_over(pod)]
    return [pod for pod in scarce if _has_node(pod)], [pod for pod in scarce if not _has_node(pod)]


def not_spread(pods: Sequence[Json]) -> Iterator[Wrong]:
    """Where more than one pod of the group that is spread is on one node."""
    group = [pod for pod in pods if pod["metadata"].get("labels", {}).get("group") == SPREAD]
    for node, number in Counter(pod["spec"].get("nodeName") for pod in group).items():
        if node and number > 1:
            names = ", ".join(pod["metadata"]["name"] for pod in group if pod["spec"].get("nodeName") == node)
            yield Wrong(NOT_SPREAD, 0, f"{names} are all on {node}")


def _is_ours(pod: Json) -> bool:
    return pod["spec"].get("schedulerName") in SCHEDULERS


def _is_scarce(pod: Json) -> bool:
    return any(entry.get("resourceClaimTemplateName") == "fabric" for entry in pod["spec"].get("resourceClaims", ()))


def _has_node(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _made_for(pod: Json) -> list[str]:
    """The names of the claims that were made from templates for it."""
    statuses = pod.get("status", {}).get("resourceClaimStatuses", ())
    return [one["resourceClaimName"] for one in statuses if one.get("resourceClaimName")]


def _is_over(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


# -- when all pods are gone


def left(history: EtcdHistory) -> list[str]:
    """What is still there."""
    namespaces = {PODS: NAME, CLAIMS: NAME, VOLUME_CLAIMS: NAME, VOLUMES: ""}
    return [
        f"{subject_of(_named(one))}: {_why(one)}"
        for resource, namespace in namespaces.items()
        for one in history.objects(resource, namespace)
    ]


def _named(found: Json) -> Json:
    return {**found, "metadata": {"namespace": "", **found["metadata"]}}


def _why(found: Json) -> str:
    metadata = found["metadata"]
    kept = {field: metadata.get(field) for field in ("finalizers", "annotations", "deletionTimestamp")}
    return f"{ {field: value for field, value in kept.items() if value} } {found.get('status', {})}"


def not_quiet(player: Player) -> list[str]:
    """What the program still counts or holds in memory."""
    metrics = player.program.reported("/metrics")
    found = [f"{name} is {value}" for name, value in _EMPTY_METRICS.findall(metrics) if float(value)]
    # What a guard has allowed of a claim that went at that moment is forgotten in time, and not before.
    waiting = json.loads(player.program.reported("/debug/queue"))
    found += [f"{one} is in its queue" for one in waiting if not one.get("secondsLeft")]
    reserved = player.under_way()["reserved"]
    return [*found, *(f"it holds in memory {one}" for one in reserved)]


def internal_errors(player: Player) -> Iterator[str]:
    """The tracebacks in its log, and the invariants that it has seen broken."""
    for record in player.records():
        if record.get("error"):
            yield f"{player.name}: {record['message']}: {record['error']}"
    for name, value in _VIOLATED.findall(player.program.reported("/metrics")):
        if float(value):
            yield f"{player.name}: {name} is {value}"
