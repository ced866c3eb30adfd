"""Converts a KubeSchedulerConfiguration for the live scheduler, and writes the one that calls the extender.

Each omitted field is named, so that nobody takes the result for equivalent. Settings that describe what this program
always does are not listed: it evaluates all nodes, and prepares a score where the score is enabled.
What `dra extender config` writes has none of the `traps`, unless the options ask for one, and only fields that differ
from kube-scheduler's defaults.
Source: kubescheduler.config.k8s.io/v1 of Kubernetes 1.36; docs/extender.md, "The two modes".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic.alias_generators import to_camel

from allocator.api.versions import Json
from allocator.gates import DEFAULT_RELEASE, EXTENDED_RESOURCE, RELEASES, Release
from allocator.policies.contract import FIRST_FIT
from cel.errors import EvalError
from scheduler.extender.configuration import Mode
from scheduler.kube_scheduler.configuration import (
    ALL,
    API_VERSION,
    DEFAULT_LEASE,
    DEFAULT_SCHEDULER,
    DYNAMIC_RESOURCES,
    KIND,
    KubeClientConnection,
    KubeLeaderElection,
    KubePluginSet,
    KubeSchedulerConfiguration,
    NamedProfile,
    PluginConfig,
    Plugins,
    profiles_of,
    seconds,
)
from scheduler.kube_scheduler.traps import EVERY_NODE, GATES_FLAG, is_locked
from scheduler.plugins.profile import FILTERS, SCORES, InvalidProfile
from scheduler.runtime.configuration import LIMITED, NAMES, ProfileSection
from scheduler.runtime.plugin_arguments import ARGUMENTS
from scheduler.runtime.section import typed

HEAD = {"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "DraSchedulerConfiguration"}

ALL_NODES = 100
"""percentageOfNodesToScore of those who look at every node."""

_KNOWN: Mapping[str, Iterable[str]] = {"multi_point": NAMES, "filter": FILTERS, "score": SCORES}
_IMPLIED = {"pre_filter": "filter", "pre_score": "score"}

_BUILT_IN = frozenset({"PrioritySort", "SchedulingGates", "DefaultBinder"})
"""Plugins whose work the queue and the binding do here in any case."""

_NO_PLUGIN = "this program has no such plugin here"


@dataclass(frozen=True, slots=True)
class Converted:
    """Our configuration, as a file has it. left_out: each field that it does not have, and why. warnings: more."""

    document: Json
    left_out: Sequence[str]
    warnings: Sequence[str]


def converted(found: KubeSchedulerConfiguration) -> Converted:
    """What the configuration is here."""
    conversion = _Conversion()
    document = conversion.configuration(found)
    return Converted(document, conversion.left_out, conversion.warnings)


@dataclass(slots=True)
class _Conversion:
    """One that is under way. timeouts: for volumes and devices, by where they stand, in seconds."""

    left_out: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    timeouts: dict[str, float] = field(default_factory=dict)

    def configuration(self, found: KubeSchedulerConfiguration) -> Json:
        """The whole file."""
        self._top(found)
        profiles = [self._profile(one) for one in profiles_of(found)]
        document = {
            **HEAD,
            **self._backoffs(found),
            "clientConnection": self._client(found.client_connection),
            "leaderElection": self._election(found.leader_election),
            "bindingTimeoutSeconds": self._timeout(),
            "profiles": profiles,
        }
        return {name: value for name, value in document.items() if value not in (None, {})}

    def _leave_out(self, path: str, why: str) -> None:
        self.left_out.append(f"{path}: not carried over: {why}")

    def _top(self, found: KubeSchedulerConfiguration) -> None:
        if found.parallelism is not None:
            self._leave_out("parallelism", "nodes are evaluated together")
        if "enable_profiling" in found.model_fields_set and found.enable_profiling:
            self._leave_out("enableProfiling", "there are no profiling endpoints")
        if "enable_contention_profiling" in found.model_fields_set and found.enable_contention_profiling:
            self._leave_out("enableContentionProfiling", "there are no profiling endpoints")
        if found.delay_cache_until_active:
            self._leave_out("delayCacheUntilActive", "the caches of a standby are always filled")
        self._sampling("", found.percentage_of_nodes_to_score)
        self._placements("", found.percentage_of_placements_to_score)
        for number, extender in enumerate(found.extenders):
            self._leave_out(
                f"extenders[{number}]", f"{extender.url_prefix or 'it'} is not called: there are no extenders"
            )

    def _sampling(self, path: str, percentage: int | None) -> None:
        if percentage not in (None, 0, ALL_NODES):
            self._leave_out(f"{path}percentageOfNodesToScore", "all nodes are evaluated")

    def _placements(self, path: str, percentage: int | None) -> None:
        if percentage is not None:
            self._leave_out(f"{path}percentageOfPlacementsToScore", "pods are placed one by one")

    def _backoffs(self, found: KubeSchedulerConfiguration) -> Json:
        names = ("pod_initial_backoff_seconds", "pod_max_backoff_seconds")
        return {to_camel(name): getattr(found, name) for name in names if name in found.model_fields_set}

    def _client(self, found: KubeClientConnection) -> Json:
        for name in sorted(found.model_fields_set - {"kubeconfig"}):
            if getattr(found, name):
                self._leave_out(f"clientConnection.{to_camel(name)}", "the client has no such setting")
        return {"kubeconfig": found.kubeconfig} if found.kubeconfig else {}

    def _election(self, found: KubeLeaderElection) -> Json:
        times = {
            "leaseDurationSeconds": found.lease_duration,
            "renewDeadlineSeconds": found.renew_deadline,
            "retryPeriodSeconds": found.retry_period,
        }
        given: Json = {name: _number(seconds(text)) for name, text in times.items() if seconds(text)}
        if found.resource_lock not in ("", "leases"):
            self._leave_out("leaderElection.resourceLock", "the lock is always a Lease")
        if found.resource_name != DEFAULT_LEASE:  # which is kube-scheduler's own
            given["resourceName"] = found.resource_name
        if found.resource_namespace:
            given["resourceNamespace"] = found.resource_namespace
        return given if found.leader_elect else {"leaderElect": False, **given}

    def _timeout(self) -> int | float | None:
        """The first time limit of volumes and devices; here there is one for both, in all profiles."""
        if not self.timeouts:
            return None
        (_, first), *others = self.timeouts.items()
        for path, other in others:
            if other != first:
                self._leave_out(path, f"there is one bindingTimeoutSeconds, which is {first:g}")
        return _number(first)

    def _profile(self, found: NamedProfile) -> Json:
        path = f"{found.path}." if found.path else ""
        self._sampling(path, found.profile.percentage_of_nodes_to_score)
        self._placements(path, found.profile.percentage_of_placements_to_score)
        if found.name == DEFAULT_SCHEDULER:
            reported = f"{path}schedulerName: {DEFAULT_SCHEDULER} is also kube-scheduler's: stop it, or change the name"
            self.warnings.append(reported)
        configs = enumerate(found.profile.plugin_config)
        config = [one for number, entry in configs if (one := self._config(f"{path}pluginConfig[{number}]", entry))]
        plugins = self._plugins(f"{path}plugins", found.profile.plugins)
        profile: Json = {"schedulerName": found.name, "plugins": plugins, "pluginConfig": config}
        self._keep_devices(f"{path}plugins", profile, plugins)
        return {name: value for name, value in profile.items() if value}

    def _keep_devices(self, path: str, profile: Json, plugins: dict[str, Json]) -> None:
        """Switch on what has to be."""
        section, _ = typed(ProfileSection, profile)
        try:
            if section is not None:
                section.profile(FIRST_FIT.name)
        except InvalidProfile:
            self._leave_out(path, f"{DYNAMIC_RESOURCES} stays on as a filter: this program allocates devices")
            enabled = plugins.setdefault("filter", {}).setdefault("enabled", [])
            assert isinstance(enabled, list)
            enabled.append({"name": DYNAMIC_RESOURCES})

    def _plugins(self, path: str, found: Plugins) -> dict[str, Json]:
        sets: dict[str, Json] = {}
        for point in type(found).model_fields:
            own: KubePluginSet = getattr(found, point)
            at = f"{path}.{to_camel(point)}"
            if point in _KNOWN:
                if kept := self._set(at, own, _KNOWN[point]):
                    sets[to_camel(point)] = kept
            elif not _is_implied(own, getattr(found, _IMPLIED.get(point, point)), point):
                self._leave_out(at, "plugins are switched by multiPoint, filter and score")
        return sets

    def _set(self, path: str, found: KubePluginSet, known: Iterable[str]) -> Json:
        """The set with the plugins that there are."""
        kept: dict[str, list[Json]] = {"enabled": [], "disabled": []}
        for number, plugin in enumerate(found.enabled):
            if plugin.name in known:
                kept["enabled"].append({"name": plugin.name, **({"weight": plugin.weight} if plugin.weight else {})})
            elif plugin.name not in _BUILT_IN:
                self._leave_out(f"{path}.enabled[{number}] ({plugin.name})", _NO_PLUGIN)
        for number, plugin in enumerate(found.disabled):
            if plugin.name in (ALL, *known):
                kept["disabled"].append({"name": plugin.name})
            else:
                self._leave_out(f"{path}.disabled[{number}] ({plugin.name})", _NO_PLUGIN)
        return {name: entries for name, entries in kept.items() if entries}

    def _config(self, path: str, found: PluginConfig) -> Json:
        """Arguments as far as they are known; nothing where there are none."""
        args = dict(found.args) if isinstance(found.args, Mapping) else {}
        kept = {name: value for name, value in args.items() if name not in ("apiVersion", "kind") and value is not None}
        if found.name in LIMITED:
            kept = self._without_time(f"{path}.args", kept)
        type_ = ARGUMENTS.get(found.name)
        if type_ is None:
            unknown = [f"{path}.args.{name}" for name in kept] if found.name in LIMITED else [f"{path} ({found.name})"]
            for argument in unknown:
                self._leave_out(argument, "this program has no such arguments for the plugin")
            return {}
        while errors := typed(type_, kept)[1]:
            for error in errors:
                self._leave_out(f"{path}.args.{error.path}".removesuffix("."), error.message)
            wrong = {error.path.partition(".")[0].partition("[")[0] for error in errors}
            kept = {} if "" in wrong else {name: value for name, value in kept.items() if name not in wrong}
        return {"name": found.name, "args": kept} if kept else {}

    def _without_time(self, path: str, args: Json) -> Json:
        """The arguments but the time limit, which is kept for all."""
        left: Json = {}
        for name, value in args.items():
            if name == "bindTimeoutSeconds" and isinstance(value, int):
                self.timeouts[f"{path}.{name}"] = value
            elif name == "bindingTimeout" and (timeout_s := _seconds(value)) is not None:
                self.timeouts[f"{path}.{name}"] = timeout_s
            else:
                left[name] = value
        return left


def _is_implied(own: KubePluginSet, other: KubePluginSet, point: str) -> bool:
    """Whether a set says nothing that is not so in any case, or more than that of the point that it prepares."""
    if not own.disabled and _names(own.enabled) <= _BUILT_IN:
        return True
    if point not in _IMPLIED:
        return False
    return _names(own.enabled) <= _names(other.enabled) and _names(own.disabled) <= _names(other.disabled)


def _names(plugins: Iterable[object]) -> set[str]:
    return {getattr(one, "name", "") for one in plugins}


def _seconds(duration: object) -> float | None:
    """None for what is no duration."""
    try:
        return seconds(str(duration))
    except EvalError:
        return None


def _number(of: float) -> int | float:
    """A whole number as an integer."""
    return int(of) if of == int(of) else of


KUBE_SYSTEM = "kube-system"
"""Where kube-scheduler has its lease unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The requested setup."""

    mode: Mode
    schedulers: Sequence[str]
    """The names of profiles, at least one."""
    url: str
    """Of the extender, without the verb."""
    ca_file: str
    cert_file: str
    key_file: str
    """ca_file, cert_file, key_file: as kube-scheduler finds them; not used over plain HTTP."""
    http_timeout_s: int
    weight: int | None = None
    """Of the extender's scores among those of the plugins; None where the policy counts in filter alone."""
    kubeconfig: str = ""
    """With which kube-scheduler reaches the API server; empty: as its pod's own account."""
    namespace: str = KUBE_SYSTEM
    """Of a second kube-scheduler's lease."""
    release: Release = RELEASES[DEFAULT_RELEASE]
    """Of kube-scheduler."""


def document(setup: Setup) -> Json:
    """The KubeSchedulerConfiguration."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        **({"clientConnection": {"kubeconfig": setup.kubeconfig}} if setup.kubeconfig else {}),
        **_lease(setup),
        "percentageOfNodesToScore": EVERY_NODE,
        "profiles": [_profile(name, setup.mode) for name in setup.schedulers],
        "extenders": [_extender(setup)],
    }


def flags(setup: Setup) -> list[str]:
    """With which flags, beside the configuration, kube-scheduler has to be started."""
    is_named = setup.mode is Mode.AUTHORITATIVE and not is_locked(EXTENDED_RESOURCE, setup.release)
    return [f"{GATES_FLAG}={EXTENDED_RESOURCE}=false"] if is_named else []


def _lease(setup: Setup) -> Json:
    """A second kube-scheduler has a lease of its own; the first keeps its default."""
    if DEFAULT_SCHEDULER in setup.schedulers:
        return {}
    elsewhere = {} if setup.namespace == KUBE_SYSTEM else {"resourceNamespace": setup.namespace}
    return {"leaderElection": {"resourceName": setup.schedulers[0], **elsewhere}}


def _profile(name: str, mode: Mode) -> Json:
    if mode is Mode.ADVISORY:
        return {"schedulerName": name}
    return {"schedulerName": name, "plugins": {"multiPoint": {"disabled": [{"name": DYNAMIC_RESOURCES}]}}}


def _extender(setup: Setup) -> Json:
    is_authoritative = setup.mode is Mode.AUTHORITATIVE
    return {
        "urlPrefix": setup.url,
        "filterVerb": "filter",
        **({"prioritizeVerb": "prioritize", "weight": setup.weight} if setup.weight is not None else {}),
        **({"preemptVerb": "preempt", "bindVerb": "bind"} if is_authoritative else {}),
        "nodeCacheCapable": True,
        "ignorable": not is_authoritative,
        "httpTimeout": f"{setup.http_timeout_s}s",
        **(_tls(setup) if urlsplit(setup.url).scheme == "https" else {}),
    }


def _tls(setup: Setup) -> Json:
    files = {"caFile": setup.ca_file, "certFile": setup.cert_file, "keyFile": setup.key_file}
    return {"enableHTTPS": True, "tlsConfig": files}
