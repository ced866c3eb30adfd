"""Mistakes in kube-scheduler's configuration with an extender for devices, each with its consequence.

Few of them keep kube-scheduler from starting, or appear in its log: most show as pods that wait needlessly, and some as
two pods on one device. One function for each trap, over the file as it was read.
Source: pkg/scheduler/extender.go and schedule_one.go of Kubernetes 1.36.3; docs/extender.md has them one by one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

from allocator.api.findings import shown
from allocator.api.versions import Json
from allocator.gates import DEFAULT_RELEASE, EXTENDED_RESOURCE, RELEASES, Release
from allocator.words import counted
from scheduler.extender.configuration import LEAST_TIMEOUT_S, ROLLBACK_S, Mode
from scheduler.kube_scheduler.configuration import (
    ALL_POINTS,
    DEFAULT_HTTP_TIMEOUT,
    DEFAULT_LEASE,
    DEFAULT_SCHEDULER,
    DYNAMIC_RESOURCES,
    KubeExtender,
    KubeLeaderElection,
    KubeSchedulerConfiguration,
    NamedProfile,
    points_of,
    profiles_of,
    seconds,
)
from scheduler.runtime.configuration import is_loopback

GATES_FLAG = "--feature-gates"

EVERY_NODE = 100
"""percentageOfNodesToScore that leaves no node out."""

_DECIDING = frozenset({"preFilter", "filter", "reserve", "preBind"})
"""Extension points without which the plugin does not allocate."""

_WRITING = frozenset({"reserve", "preBind"})
"""Extension points at which it takes devices."""

_SWITCHED_OFF = f"plugins: {{multiPoint: {{disabled: [{{name: {DYNAMIC_RESOURCES}}}]}}}}"


class Severity(StrEnum):
    """What a trap leads to.

    ERROR: pods without their devices, devices given twice, calls that others can read or answer, or a kube-scheduler
    that does not start. WARNING: pods are placed later, worse, or not at all, and never wrongly.
    """

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Trap:
    """A field that should be otherwise."""

    severity: Severity
    path: str
    """In Kubernetes' notation, or a flag."""
    value: object
    """What is there now; None where nothing is, or more than fits a line."""
    consequence: str
    remedy: str
    """What to write."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The configuration to check.

    number: of the entry of `extenders` that is ours. gates: those that the flags set; None: the flags are not known.
    release: of kube-scheduler.
    """

    configuration: KubeSchedulerConfiguration
    number: int
    gates: Mapping[str, bool] | None = None
    release: Release = RELEASES[DEFAULT_RELEASE]

    @property
    def extender(self) -> KubeExtender:
        """Our entry."""
        return self.configuration.extenders[self.number]

    @property
    def mode(self) -> Mode:
        """Who allocates, as the entry has it."""
        return Mode.AUTHORITATIVE if self.extender.bind_verb else Mode.ADVISORY

    @property
    def is_authoritative(self) -> bool:
        """Whether the extender allocates."""
        return self.mode is Mode.AUTHORITATIVE

    @property
    def profiles(self) -> list[NamedProfile]:
        """All profiles."""
        return profiles_of(self.configuration)

    def path(self, field: str = "") -> str:
        """Our entry, or a field of it."""
        return f"extenders[{self.number}]" + (f".{field}" if field else "")


def traps_of(judged: Judged) -> list[Trap]:
    """All that is found, errors first."""
    traps = [trap for one in _TRAPS for trap in one(judged)]
    return sorted(traps, key=lambda trap: trap.severity is not Severity.ERROR)


def _ignorable(judged: Judged) -> Iterator[Trap]:
    extender, path = judged.extender, judged.path("ignorable")
    if judged.is_authoritative and extender.ignorable:
        consequence = "when bind fails or is not answered, kube-scheduler binds the pod itself, without its devices"
        yield Trap(Severity.ERROR, path, value=True, consequence=consequence, remedy="false")
    if not judged.is_authoritative and not extender.ignorable:
        consequence = "no pod is placed while the extender is unavailable, although it only advises"
        yield Trap(Severity.WARNING, path, _set_value(extender, "ignorable"), consequence, "true")


def _node_cache(judged: Judged) -> Iterator[Trap]:
    if not judged.extender.node_cache_capable:
        consequence = (
            "each call contains all nodes as whole objects, and kube-scheduler scores the nodes in the answer "
            "as if no pod were on them"
        )
        value = _set_value(judged.extender, "node_cache_capable")
        yield Trap(Severity.WARNING, judged.path("nodeCacheCapable"), value, consequence, "true")


def _plugin_on(judged: Judged) -> Iterator[Trap]:
    if not judged.is_authoritative:
        return
    for named in judged.profiles:
        if points := points_of(named.profile.plugins):
            is_writing = not _WRITING.isdisjoint(points)
            does = "it allocates before the extender binds" if is_writing else "it refuses nodes"
            consequence = f"profile {named.name} has {DYNAMIC_RESOURCES} on{_at(points)}: {does}, without knowing "
            consequence += "what the extender has taken" + (": a device can be allocated twice" if is_writing else "")
            remedy = f"{_SWITCHED_OFF}, and {DYNAMIC_RESOURCES} in no list `enabled`"
            severity = Severity.ERROR if is_writing else Severity.WARNING
            yield Trap(severity, _plugins_path(named), None, consequence, remedy)


def _plugin_off(judged: Judged) -> Iterator[Trap]:
    if any(extender.bind_verb for extender in judged.configuration.extenders):
        return
    for named in judged.profiles:
        off = _points_off(named)
        if not _DECIDING.isdisjoint(off):
            consequence = (
                f"profile {named.name} has {DYNAMIC_RESOURCES} off{_at(off)}, and no extender has a bindVerb: "
            )
            consequence += "nothing allocates, and pods with claims are bound without devices"
            remedy = f"bindVerb: bind, or leave {DYNAMIC_RESOURCES} on"
            yield Trap(Severity.ERROR, _plugins_path(named), None, consequence, remedy)


def _points_off(named: NamedProfile) -> list[str]:
    """The extension points at which the profile's DynamicResources is off."""
    on = points_of(named.profile.plugins)
    return [point for point in ALL_POINTS if point not in on]


def is_locked(gate: str, release: Release) -> bool:
    """Whether a kube-scheduler of the release does not start with another value than the gate has."""
    return gate in release.gates and release.gates[gate].is_locked


def _forbidden_gate(judged: Judged) -> Iterator[Trap]:
    """Gates that a component has locked, or does not have."""
    for gate, is_on in (judged.gates or {}).items():
        if problem := _forbidden(gate, is_on=is_on, release=judged.release):
            consequence = f"kube-scheduler does not start: Kubernetes {judged.release.name} {problem}"
            yield Trap(Severity.ERROR, f"{GATES_FLAG} {gate}", is_on, consequence, "leave the gate out")


def _forbidden(gate: str, *, is_on: bool, release: Release) -> str:
    if gate in release.gates:
        is_changed = is_locked(gate, release) and is_on is not release.gates[gate].is_on
        return "has locked the gate to the other value" if is_changed else ""
    later = release.later_with(gate)
    return f"does not have the gate, which came with {later}" if later else ""


def _extended_resource(judged: Judged) -> Iterator[Trap]:
    """Where the gate is locked, filter refuses such pods a node that would have to give them a device by a claim."""
    if is_locked(EXTENDED_RESOURCE, judged.release):
        return
    if not judged.is_authoritative or judged.gates is None or not _is_on(judged.gates, EXTENDED_RESOURCE):
        return
    consequence = (
        "a pod whose container requests a resource of a device class, such as deviceclass.resource.kubernetes.io/gpu, "
        "is bound without a device"
    )
    value = judged.gates.get(EXTENDED_RESOURCE)
    yield Trap(Severity.ERROR, f"{GATES_FLAG} {EXTENDED_RESOURCE}", value, consequence, f"{EXTENDED_RESOURCE}=false")


def _is_on(gates: Mapping[str, bool], gate: str) -> bool:
    """Whether a gate is on that is beta and on as kube-scheduler comes."""
    return gates.get(gate, gates.get("AllBeta", True))


def _sampling(judged: Judged) -> Iterator[Trap]:
    everywhere = judged.configuration.percentage_of_nodes_to_score
    inherited = [profile for profile in judged.profiles if profile.profile.percentage_of_nodes_to_score is None]
    if everywhere != EVERY_NODE and inherited:
        yield _sampled(judged, "percentageOfNodesToScore", everywhere)
    for profile in judged.profiles:
        own = profile.profile.percentage_of_nodes_to_score
        if own not in (None, EVERY_NODE):
            yield _sampled(judged, f"{profile.path}.percentageOfNodesToScore", own)


def _sampled(judged: Judged, path: str, value: object) -> Trap:
    consequence = "with 100 nodes or more, kube-scheduler filters only some, and calls the extender only for those"
    if judged.is_authoritative:
        consequence += ": a pod is unschedulable although another node has its devices"
    return Trap(Severity.WARNING, path, value, consequence, str(EVERY_NODE))


def _address(judged: Judged) -> Iterator[Trap]:
    extender, path = judged.extender, judged.path("urlPrefix")
    url = _url_of(extender)
    value = _set_value(extender, "url_prefix")
    if url.scheme not in ("http", "https") or not url.hostname:
        yield Trap(Severity.ERROR, path, value, "not a URL: no call can be made", "https://HOST:9443/v1")
    elif url.scheme == "http" and not _is_local(extender):
        consequence = "anyone on the network can read and answer the calls; the extender does not serve plain HTTP"
        yield Trap(Severity.ERROR, path, value, consequence, f"https://{url.netloc}{url.path}")


def _url_of(extender: KubeExtender) -> SplitResult:
    """The parts of its URL, all empty where it is none."""
    try:
        url = urlsplit(extender.url_prefix)
        _ = url.port  # raises where it is no number
    except ValueError:
        return urlsplit("")
    return url


def _is_local(extender: KubeExtender) -> bool:
    host = _url_of(extender).hostname or ""
    return is_loopback(f"[{host}]:0" if ":" in host else f"{host}:0")


def _is_tls(extender: KubeExtender) -> bool:
    return _url_of(extender).scheme == "https"


def _certificates(judged: Judged) -> Iterator[Trap]:
    extender = judged.extender
    if not _is_tls(extender):
        return
    tls = extender.tls_config
    unverified = "kube-scheduler does not verify the server, without logging that: anyone in between can answer"
    if tls.insecure:
        consequence = "kube-scheduler does not start, because a CA is set as well" if tls.has_ca else unverified
        path = judged.path("tlsConfig.insecure")
        yield Trap(Severity.ERROR, path, value=True, consequence=consequence, remedy="false, and a caFile")
    elif extender.enable_https and not tls.has_ca:
        yield Trap(Severity.ERROR, judged.path("tlsConfig.caFile"), None, unverified, "the path of the extender's CA")
    if not tls.has_certificate and not _is_local(extender):
        consequence = "the extender rejects calls without a client certificate: no pod is placed"
        remedy = "certFile and keyFile, for a name in the extender's tls.clientNames"
        yield Trap(Severity.WARNING, judged.path("tlsConfig.certFile"), None, consequence, remedy)


def _timeout(judged: Judged) -> Iterator[Trap]:
    extender = judged.extender
    timeout = extender.http_timeout if seconds(extender.http_timeout) else DEFAULT_HTTP_TIMEOUT
    if judged.is_authoritative and seconds(timeout) < LEAST_TIMEOUT_S:
        consequence = (
            f"kube-scheduler waits {timeout} for a bind, of which the extender reserves {ROLLBACK_S:g}s for undoing "
            "its writes: the rest is not enough to write and verify, and pods are retried again and again"
        )
        value = _set_value(extender, "http_timeout")
        remedy = "30s, and the same in the extender's httpTimeoutSeconds"
        yield Trap(Severity.WARNING, judged.path("httpTimeout"), value, consequence, remedy)


def _weight(judged: Judged) -> Iterator[Trap]:
    extender = judged.extender
    if extender.prioritize_verb and extender.weight <= 0:
        consequence = "kube-scheduler does not start: prioritizeVerb requires a weight above 0"
        yield Trap(Severity.ERROR, judged.path("weight"), _set_value(extender, "weight"), consequence, "5")


_SERVED: Mapping[Mode, Mapping[str, str]] = {
    Mode.AUTHORITATIVE: {
        "filter": "nodes are not filtered by their devices: pods are bound after many attempts, or not at all",
        "prioritize": "",
        "preempt": "pods are evicted from nodes where the devices would not fit afterwards",
        "bind": "",
    },
    Mode.ADVISORY: {"filter": "", "prioritize": ""},
}
"""By mode and verb, what it means that the verb is not asked for; empty where nothing is wrong with that."""


def _verbs(judged: Judged) -> Iterator[Trap]:
    served = _SERVED[judged.mode]
    for verb in ("filter", "prioritize", "preempt", "bind"):
        said = getattr(judged.extender, f"{verb}_verb")
        path = judged.path(f"{verb}Verb")
        if said and verb not in served:
            consequence = "the extender does not serve it in advisory mode: each preemption makes an unnecessary call"
            yield Trap(Severity.WARNING, path, said, consequence, f"no {verb}Verb")
        elif said and said != verb:
            yield Trap(Severity.WARNING, path, said, "the extender does not know it: each call fails", verb)
        elif not said and served.get(verb):
            yield Trap(Severity.WARNING, path, None, served[verb], verb)
    if not any((judged.extender.filter_verb, judged.extender.prioritize_verb, judged.extender.bind_verb)):
        yield Trap(
            Severity.WARNING,
            judged.path(),
            None,
            "it has no verb: kube-scheduler never calls it",
            "filterVerb",
        )


def _managed_resources(judged: Judged) -> Iterator[Trap]:
    if resources := judged.extender.managed_resources:
        consequence = "kube-scheduler calls the extender only for pods whose containers request these, not for claims: "
        if judged.is_authoritative:
            severity, rest = Severity.ERROR, "pods with claims are bound without devices"
        else:
            severity, rest = Severity.WARNING, "pods with claims are placed without advice"
        names = ", ".join(resource.name for resource in resources)
        yield Trap(severity, judged.path("managedResources"), names, consequence + rest, "no managedResources")


def _binders(judged: Judged) -> Iterator[Trap]:
    binders = [number for number, one in enumerate(judged.configuration.extenders) if one.bind_verb]
    if len(binders) > 1:
        value = ", ".join(f"extenders[{number}]" for number in binders)
        consequence = "kube-scheduler does not start: at most one extender may bind"
        yield Trap(Severity.ERROR, "extenders", value, consequence, "one bindVerb")


def _twice(judged: Judged) -> Iterator[Trap]:
    ours = _place(judged.extender)
    for number, other in enumerate(judged.configuration.extenders):
        if number != judged.number and _place(other) == ours:
            consequence = f"the extender of {judged.path()} is called twice for each pod"
            yield Trap(Severity.WARNING, f"extenders[{number}].urlPrefix", other.url_prefix, consequence, "one entry")


def _place(extender: KubeExtender) -> str:
    return _url_of(extender).netloc.lower()


def _lease(judged: Judged) -> Iterator[Trap]:
    election = judged.configuration.leader_election
    is_the_clusters = any(one.name == DEFAULT_SCHEDULER for one in judged.profiles)
    if election.leader_elect and not is_the_clusters and (election.resource_name or DEFAULT_LEASE) == DEFAULT_LEASE:
        consequence = (
            f"it shares the lease {DEFAULT_LEASE} with the cluster's own kube-scheduler, and only one of the two works"
        )
        value = _set_value(election, "resource_name")
        yield Trap(Severity.WARNING, "leaderElection.resourceName", value, consequence, judged.profiles[0].name)


def _default_scheduler(judged: Judged) -> Iterator[Trap]:
    if not judged.is_authoritative:
        return
    for named in judged.profiles:
        if named.name == DEFAULT_SCHEDULER:
            consequence = (
                "while the extender is unavailable, no pod of the cluster is placed, including its own: "
                "kube-scheduler calls it for every pod of every profile"
            )
            path = f"{named.path}.schedulerName" if named.path else "profiles"
            value = named.name if named.path else None
            remedy = "a second kube-scheduler with its own profile, for pods with claims"
            yield Trap(Severity.WARNING, path, value, consequence, remedy)


def _set_value(section: KubeExtender | KubeLeaderElection, field: str) -> object:
    """What the file says; None where it says nothing."""
    return getattr(section, field) if field in section.model_fields_set else None


def _at(points: Sequence[str]) -> str:
    """At which extension points, where it is not all of them."""
    return "" if len(points) == len(ALL_POINTS) else f" at {', '.join(points)}"


def _plugins_path(named: NamedProfile) -> str:
    return f"{named.path}.plugins" if named.path else "profiles"


_TRAPS: Sequence[Callable[[Judged], Iterator[Trap]]] = (
    _ignorable,
    _plugin_on,
    _plugin_off,
    _forbidden_gate,
    _extended_resource,
    _managed_resources,
    _address,
    _certificates,
    _weight,
    _binders,
    _node_cache,
    _sampling,
    _timeout,
    _verbs,
    _twice,
    _lease,
    _default_scheduler,
)


# Findings about kube-scheduler's configuration, as text and as a JSON object that docs/extender.md describes.


API_VERSION = "dra-scheduler.dev/v1alpha1"
KIND = "KubeSchedulerConfigurationReview"


def line_of(trap: Trap) -> str:
    """Place, value and consequence."""
    return f"{_place_of(trap)}: {trap.consequence}; instead: {trap.remedy}"


def text_of(judged: Judged, traps: Sequence[Trap]) -> str:
    """A paragraph for each, and how many there are."""
    return "\n".join([*(line for trap in traps for line in _paragraph(trap)), _summary(judged, traps)])


def _paragraph(trap: Trap) -> Iterator[str]:
    yield f"{trap.severity}: {_place_of(trap)}"
    yield f"    {trap.consequence}"
    yield f"    instead: {trap.remedy}"


def _place_of(trap: Trap) -> str:
    return trap.path if trap.value is None else f"{trap.path}: {shown(trap.value)}"


def _summary(judged: Judged, traps: Sequence[Trap]) -> str:
    errors = sum(trap.severity is Severity.ERROR for trap in traps)
    counts = ", ".join(
        counted(number, word) for number, word in ((errors, "error"), (len(traps) - errors, "warning")) if number
    )
    return f"{judged.path()} ({judged.mode}): {counts or 'nothing found'}"


def unjudged(judged: Judged) -> list[str]:
    """The gates that were not judged, since the flags are not known."""
    is_unknown = judged.is_authoritative and judged.gates is None
    is_unknown = is_unknown and not is_locked(EXTENDED_RESOURCE, judged.release)
    return [EXTENDED_RESOURCE] if is_unknown else []


def object_of(judged: Judged, traps: Sequence[Trap]) -> Json:
    """The same for a program."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "extender": judged.path(),
        "mode": judged.mode,
        "findings": [_finding(trap) for trap in traps],
        "notJudged": unjudged(judged),
    }


def _finding(trap: Trap) -> Json:
    return {
        "severity": trap.severity,
        "field": trap.path,
        "value": trap.value,
        "consequence": trap.consequence,
        "remedy": trap.remedy,
    }
