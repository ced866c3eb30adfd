"""The configuration of the programs for a cluster: a file, and flags that override it.

The file is a Kubernetes-style object of our own group, read strictly: an unknown field is an error. The docstring of
each field is its description in the documentation.
Source: the words of KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) where it has one for the same thing.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from allocator.api import names
from allocator.api.findings import FieldError
from allocator.gates import RELEASES, Features, UnknownGate
from allocator.limits import TenantLimit
from allocator.policies import UnknownPolicy, policy_of
from allocator.policies.contract import FIRST_FIT
from scheduler.core_v1.label_selectors import requirements, selects
from scheduler.core_v1.pod import Pod
from scheduler.input.documents import Finding, read
from scheduler.plugins.dynamic_resources import DYNAMIC_RESOURCES
from scheduler.plugins.plugin import Plugin
from scheduler.plugins.profile import (
    ALL,
    FILTERS,
    PLUGINS,
    SCORES,
    InvalidProfile,
    PluginSet,
    PluginSets,
    Profile,
    plugins_of,
)
from scheduler.plugins.volume_binding import VOLUME_BINDING
from scheduler.pod_groups.group import RECOGNIZED
from scheduler.runtime.limit_settings import LimitSection, config_map_name, limit_problems
from scheduler.runtime.plugin_arguments import ARGUMENTS
from scheduler.runtime.section import Section, label_query, object_name, refused, typed

# Profiles in the configuration file, by their field names in KubeSchedulerConfiguration.
#
# The file can only express what this program does: plugins are enabled and disabled at all points (`multiPoint`), as
# filters and as scores. Every problem names its field.


MAX_WEIGHT = 1_000_000
"""Of a plugin: sums of scores stay far within 64 bits."""

LIMITED = (DYNAMIC_RESOURCES.name, VOLUME_BINDING.name)
"""The plugins that wait before a pod is bound, by name."""

_LIMIT = "its time limit is bindingTimeoutSeconds, for all profiles"

NAMES = frozenset(plugin.name for plugin in PLUGINS)


def policy_name(text: str) -> str:
    """The text, which names a policy. Raises what is wrong with it."""
    try:
        policy_of(text)
    except UnknownPolicy as error:
        raise refused(str(error)) from error
    return text


def _policy_or_empty(text: str) -> str:
    return policy_name(text) if text else text


class EnabledPlugin(Section):
    """An entry of a list of plugins that are on."""

    name: str
    weight: int = Field(default=0, ge=0, le=MAX_WEIGHT)


class DisabledPlugin(Section):
    """An entry of a list of plugins that are off."""

    name: str


class PluginSetSection(Section):
    """The plugins enabled and disabled at one point."""

    enabled: list[EnabledPlugin] = Field(default_factory=list)
    disabled: list[DisabledPlugin] = Field(default_factory=list)

    def plugin_set(self) -> PluginSet:
        """As profiles are made of it."""
        return PluginSet({one.name: one.weight for one in self.enabled}, frozenset(one.name for one in self.disabled))

    def problems(self, path: str, known: Iterable[str], what: str) -> Iterator[FieldError]:
        """The problems of names. known: the plugins that do something at the point. what: they do."""
        seen: set[str] = set()
        for position, plugin in enumerate(self.enabled):
            if plugin.name not in known:
                yield FieldError(f"{path}.enabled[{position}].name", plugin.name, _must_be(known, what))
            if plugin.name in seen:
                yield FieldError(f"{path}.enabled[{position}].name", plugin.name, "must be unique")
            seen.add(plugin.name)
        for position, off in enumerate(self.disabled):
            if off.name not in (ALL, *known):
                yield FieldError(f"{path}.disabled[{position}].name", off.name, _must_be((ALL, *known), what))


def _must_be(known: Iterable[str], what: str) -> str:
    return f"must be a plugin of this program{what}: {', '.join(sorted(known))}"


class PluginsSection(Section):
    """The plugins enabled and disabled at all points, as filters, and as scores."""

    multi_point: PluginSetSection = Field(default_factory=PluginSetSection)
    filter: PluginSetSection = Field(default_factory=PluginSetSection)
    score: PluginSetSection = Field(default_factory=PluginSetSection)

    def sets(self) -> PluginSets:
        """As profiles are made of it."""
        return PluginSets(self.multi_point.plugin_set(), self.filter.plugin_set(), self.score.plugin_set())

    def problems(self, path: str) -> Iterator[FieldError]:
        """The problems of names."""
        yield from self.multi_point.problems(f"{path}.multiPoint", NAMES, "")
        yield from self.filter.problems(f"{path}.filter", FILTERS, " that filters nodes")
        yield from self.score.problems(f"{path}.score", SCORES, " that scores nodes")


class PluginConfigSection(Section):
    """Arguments of a plugin."""

    name: str
    args: Mapping[str, object] = Field(default_factory=dict)

    def problems(self, path: str) -> Iterator[FieldError]:
        """The problems of the plugin and its arguments."""
        type_ = ARGUMENTS.get(self.name)
        if type_ is None:
            problem = (
                f"takes no arguments: {_LIMIT}"
                if self.name in LIMITED
                else _must_be(ARGUMENTS, " that takes arguments")
            )
            yield FieldError(f"{path}.name", self.name, problem)
            return
        arguments, errors = typed(type_, self.args)
        for error in errors:
            message = f"is no argument here: {_LIMIT}" if error.path == "bindTimeoutSeconds" else error.message
            yield replace(error, path=f"{path}.args.{error.path}".removesuffix("."), message=message)
        if arguments is not None and arguments.kind not in ("", f"{self.name}Args"):
            yield FieldError(f"{path}.args.kind", arguments.kind, f"must be {self.name}Args")

    def plugins(self) -> Sequence[Plugin]:
        """The plugin with the arguments, which have no problem."""
        arguments, errors = typed(ARGUMENTS[self.name], self.args)
        assert arguments is not None, errors
        return arguments.plugins()


class ProfileSection(Section):
    """Places the pods that name it."""

    scheduler_name: Annotated[str, AfterValidator(object_name)]
    policy: Annotated[str, AfterValidator(_policy_or_empty)] = ""
    plugins: PluginsSection = Field(default_factory=PluginsSection)
    plugin_config: list[PluginConfigSection] = Field(default_factory=list)

    def problems(self, path: str) -> Iterator[FieldError]:
        """The problems of plugins and arguments."""
        errors = list(self._problems(path))
        yield from errors
        if not errors:
            try:
                self.profile(FIRST_FIT.name)
            except InvalidProfile as error:
                yield FieldError(f"{path}.plugins", None, str(error))

    def _problems(self, path: str) -> Iterator[FieldError]:
        yield from self.plugins.problems(f"{path}.plugins")
        names = [one.name for one in self.plugin_config]
        for position, arguments in enumerate(self.plugin_config):
            at = f"{path}.pluginConfig[{position}]"
            yield from arguments.problems(at)
            if arguments.name in names[:position]:
                yield FieldError(f"{at}.name", arguments.name, "must be unique")

    def profile(self, policy: str) -> Profile:
        """What comes out of it. policy: where the profile names none. Raises InvalidProfile."""
        configured = {one.name: one.plugins() for one in self.plugin_config}
        plugins = plugins_of(self.plugins.sets(), configured)
        return Profile(self.scheduler_name, plugins, policy_of(self.policy or policy))


def profile_problems(profiles: Sequence[ProfileSection]) -> Iterator[FieldError]:
    """The problems of profiles, including contradictions between them."""
    names = [one.scheduler_name for one in profiles]
    for position, profile in enumerate(profiles):
        path = f"profiles[{position}]"
        yield from profile.problems(path)
        if profile.scheduler_name in names[:position]:
            yield FieldError(f"{path}.schedulerName", profile.scheduler_name, "another profile has this name")


FLAGS = "flags"

DEFAULT_LEASE = "dra-scheduler"

JITTER = 0.2
"""So much longer than its period a retry may wait, so that not all replicas ask at once."""

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+):([0-9]{1,5})")
_MAX_PORT = 65535
_LONGEST_S = 2**63 // 10**9  # 292 years, the longest duration that Kubernetes knows
_LONGEST_LEASE_S = 2**31 - 1  # what a Lease can hold


class InvalidConfiguration(Exception):
    """The configuration cannot be used. problems: each names its source, the field and the value."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


class LogFormat(StrEnum):
    """How log lines are written. AUTO: TEXT to a terminal, JSON otherwise."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class PreemptionMode(StrEnum):
    """For what pods of lower priority are evicted. DEVICES: only for pods that lack devices."""

    OFF = "off"
    DEVICES = "devices"
    ALL = "all"


class Preemptible(StrEnum):
    """Whose pods may be evicted. OWN: of this scheduler alone."""

    ALL = "all"
    OWN = "own"


def _mode(value: object) -> object:
    """YAML 1.1 reads a bare `off` as false."""
    return PreemptionMode.OFF if value is False else value


def _grouping_controller(name: str) -> str:
    if name not in RECOGNIZED:
        raise ValueError(f"must be one of {', '.join(RECOGNIZED)}")
    return name


def _namespace(name: str) -> str:
    if name and (problem := names.short_name(name)):
        raise refused(problem)
    return name


def _release(name: str) -> str:
    if name and name not in RELEASES:
        raise refused(f"must be a known release: one of {', '.join(sorted(RELEASES))}, or empty")
    return name


def _address(text: str) -> str:
    parts = _ADDRESS.fullmatch(text)
    if not parts or int(parts[2]) > _MAX_PORT:
        raise refused("must be HOST:PORT, such as 0.0.0.0:10260 or [::]:10260")
    return text


SchedulerName = Annotated[str, AfterValidator(object_name)]
"""A `spec.schedulerName`."""

Address = Annotated[str, AfterValidator(_address)]
"""Where to listen: HOST:PORT."""


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of HOST:PORT, an IPv6 address without its brackets."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address, HOST:PORT."""
    host, _ = host_and_port(address)
    return is_loopback_host(host)


def is_loopback_host(host: str) -> bool:
    """Whether the host is this machine alone: `localhost`, or a loopback address, an IPv6 one without brackets."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def without_other(section: str, *fields: tuple[str, object]) -> Iterator[FieldError]:
    """Those of two fields of a section that are not set, though the other is."""
    for (missing, value), (other, other_value) in (fields, fields[::-1]):
        if other_value and not value:
            yield FieldError(f"{section}.{missing}", None, f"is required, since {section}.{other} is set")


class ClientConnectionSection(Section):
    """How to reach the API server."""

    kubeconfig: str = ""
    """Path of a kubeconfig. Empty: `$KUBECONFIG`, `~/.kube/config`, or the service account of the pod."""

    context: str = ""
    """Context of the kubeconfig. Empty: the current one."""


class Logging(Section):
    """Logging to standard error."""

    format: Annotated[LogFormat, Field(strict=False)] = LogFormat.AUTO
    """`text`, `json`, or `auto`: text on a terminal, JSON otherwise."""

    level: Annotated[LogLevel, Field(strict=False)] = LogLevel.INFO
    """Minimum log level: `debug`, `info`, `warning` or `error`."""


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise refused("must begin with /")
    return text


class Tls(Section):
    """Certificates of what is served, and who may call; paths of PEM files, which are read again when they change."""

    cert_file: str = ""
    """TLS certificate. Empty: plain HTTP, on loopback only."""

    key_file: str = ""
    """Private key of the certificate."""

    client_ca_file: str = ""
    """CA of the client certificates. Empty: none, on loopback only."""

    client_names: list[str] = Field(default_factory=list)
    """Common names or DNS names of the allowed clients."""

    def disagreements(self) -> Iterator[FieldError]:
        """Contradictions between fields."""
        yield from without_other("tls", ("certFile", self.cert_file), ("keyFile", self.key_file))
        if self.client_ca_file and not self.cert_file:
            problem = "needs tls.certFile: without it no client is asked for a certificate"
            yield FieldError("tls.clientCaFile", self.client_ca_file, problem)
        yield from without_other("tls", ("clientCaFile", self.client_ca_file), ("clientNames", self.client_names))


class SecureServing(Section):
    """HTTPS for probes and metrics, and who may read what; only without a certificate on loopback it is plain HTTP."""

    tls_cert_file: str = ""
    """Path of the certificate (PEM); reloaded when it changes. Empty: plain HTTP on loopback, and a self-signed
    certificate on other addresses."""

    tls_private_key_file: str = ""
    """Private key of the certificate."""

    authorization_always_allow_paths: list[Annotated[str, AfterValidator(_path)]] = Field(
        default=["/healthz", "/livez", "/readyz"]
    )
    """Paths that are open to everybody over HTTPS; a trailing `*` matches any suffix. Other paths require a bearer
    token whose owner may `get` the path, verified with TokenReview and SubjectAccessReview."""

    allowed_hosts: list[Annotated[str, AfterValidator(object_name)]] = Field(default_factory=list)
    """Host names in requests over plain HTTP that are answered, beside `localhost` and loopback addresses: of a proxy
    on the same machine that passes on the name it was called by. Other requests get 421, so that no web page in a
    browser of the machine can read what is served."""


class LeaderElectionSection(Section):
    """Which of several replicas decides and writes; the others stand by."""

    leader_elect: bool = True
    """Elect a leader with a Lease; only the leader writes. Without it, several processes of one name only avoid each
    other claim by claim."""

    lease_duration_s: int = Field(default=15, ge=1, le=_LONGEST_LEASE_S)
    """How long other replicas wait after the last renewal; a whole number."""

    renew_deadline_s: float = Field(default=10, gt=0, le=_LONGEST_LEASE_S)
    """A leader that has not renewed its lease for this long stops writing and exits."""

    retry_period_s: float = Field(default=2, gt=0, le=_LONGEST_LEASE_S)
    """How often the leader renews the lease, and others try to acquire it."""

    resource_name: Annotated[str, AfterValidator(object_name)] = DEFAULT_LEASE
    """Name of the Lease. Schedulers with different names need different leases."""

    resource_namespace: Annotated[str, AfterValidator(_namespace)] = ""
    """Namespace of the Lease. Empty: the namespace of the pod, or `kube-system` outside a pod."""

    def disagreements(self) -> Iterator[FieldError]:
        """Contradictions between fields."""
        lease_s, deadline_s, period_s = self.lease_duration_s, self.renew_deadline_s, self.retry_period_s
        if lease_s <= deadline_s:
            problem = f"must be greater than renewDeadlineSeconds ({deadline_s:g})"
            yield FieldError("leaderElection.leaseDurationSeconds", lease_s, problem)
        if deadline_s <= period_s * (1 + JITTER):
            problem = f"must be greater than retryPeriodSeconds ({period_s:g}) times {1 + JITTER:g}"
            yield FieldError("leaderElection.renewDeadlineSeconds", deadline_s, problem)


class Common(Section):
    """The settings of every program of ours that works on a cluster."""

    api_version: Literal["dra-scheduler.dev/v1alpha1"] = "dra-scheduler.dev/v1alpha1"
    """Always `dra-scheduler.dev/v1alpha1`."""

    kind: str
    """Which program it is for."""

    kubernetes: Annotated[str, AfterValidator(_release)] = ""
    """Kubernetes release to follow, such as `"1.36"`. Empty: the API server's release, or the nearest known one."""

    feature_gates: Mapping[str, bool] = Field(default_factory=dict)
    """Feature gates that differ from the defaults of the release and the API server, by name."""

    client_connection: ClientConnectionSection = Field(default_factory=ClientConnectionSection)
    """How to reach the API server."""

    health_address: Address = "127.0.0.1:10260"
    """Address of /healthz, /livez, /readyz, /metrics and /debug/queue. Port 0: any free port."""

    secure_serving: SecureServing = Field(default_factory=SecureServing)
    """How they are served."""

    logging: Logging = Field(default_factory=Logging)
    """Logging to standard error."""

    limits: list[LimitSection] = Field(default_factory=list)
    """Limits per tenant: the most that claims of namespaces may hold (docs/limits.md)."""

    limits_config_map: Annotated[str, AfterValidator(config_map_name)] = ""
    """`NAMESPACE/NAME` of a ConfigMap with more limits under the key `limits`, which is followed. Empty: none."""

    def limits_in_force(self) -> tuple[TenantLimit, ...]:
        """The limits of the file."""
        return tuple(one.limit() for one in self.limits)

    def document(self) -> Mapping[str, object]:
        """The object as a file would have it, defaults included."""
        return self.model_dump(mode="json", by_alias=True)

    def disagreements(self) -> Iterator[FieldError]:
        """Contradictions between fields."""
        if problem := _unknown_gates(self.feature_gates, self.kubernetes):
            yield FieldError("featureGates", None, problem)
        yield from limit_problems(self.limits)
        serving = self.secure_serving
        yield from without_other(
            "secureServing",
            ("tlsCertFile", serving.tls_cert_file),
            ("tlsPrivateKeyFile", serving.tls_private_key_file),
        )


class Allocating(Common):
    """The settings of those that give devices to pods as well."""

    policy: Annotated[str, AfterValidator(policy_name)] = FIRST_FIT.name
    """Which of the valid nodes and devices to select: `NAME`, `NAME:ATTRIBUTE,...` or `MODULE:CLASS`
    (docs/policies.md)."""

    strict: bool = False
    """Behave like kube-scheduler even where this program does better (docs/differences.md)."""

    binding_concurrency: int = Field(default=64, ge=1, le=1000)
    """Maximum concurrent bindings; each uses a connection to the API server."""

    binding_timeout_s: float = Field(default=600, ge=1, le=_LONGEST_S)
    """How long devices with binding conditions may take to become ready."""

    preempt_pods_of: Annotated[Preemptible, Field(strict=False)] = Preemptible.ALL
    """Whose pods may be evicted: `all`, as with kube-scheduler, or `own`: only pods of this scheduler."""

    never_preempt: Annotated[str, AfterValidator(label_query)] = ""
    """Label selector of pods that are never evicted, such as `team=research,tier!=batch`. Empty: none."""

    def spared(self, is_ours: Callable[[Pod], bool]) -> Callable[[Pod], bool]:
        """Whether a pod is never evicted for another one. is_ours: whether it is one of this scheduler."""
        never, takes_all = requirements(self.never_preempt) or None, self.preempt_pods_of is Preemptible.ALL
        return lambda pod: selects(never, pod.labels) or not (takes_all or is_ours(pod))


class Configuration(Allocating):
    """All settings of the live scheduler."""

    kind: Literal["DraSchedulerConfiguration"] = "DraSchedulerConfiguration"
    """Always `DraSchedulerConfiguration`."""

    scheduler_name: SchedulerName = "dra-scheduler"
    """Schedules the pods with this `spec.schedulerName`, if there are no `profiles`; also the reporter of events about
    other objects than pods."""

    profiles: list[ProfileSection] = Field(default_factory=list)
    """Several scheduler names, each with its own plugins, weights, arguments and policy (see Profiles)."""

    pod_initial_backoff_s: float = Field(default=1, gt=0, le=_LONGEST_S)
    """Backoff of a pod after its first failed attempt; doubled with each further one."""

    pod_max_backoff_s: float = Field(default=10, gt=0, le=_LONGEST_S)
    """Maximum backoff of a pod."""

    pod_max_in_unschedulable_pods_s: float = Field(default=300, gt=0, le=_LONGEST_S)
    """How long an unschedulable pod waits at most, even if no event could help it."""

    leader_election: LeaderElectionSection = Field(default_factory=LeaderElectionSection)
    """Which of several replicas decides and writes; the others stand by."""

    preemption: Annotated[PreemptionMode, Field(strict=False), BeforeValidator(_mode)] = PreemptionMode.ALL
    """Evict pods of lower priority for a pod that fits nowhere: `off`, `devices` (only for pods that lack devices), or
    `all`."""

    preemption_delay_s: float = Field(default=0, ge=0, le=_LONGEST_S)
    """How long a pod is pending before others are evicted for it, so that an autoscaler may add a node first."""

    group_reservation_s: float = Field(default=0, ge=0, le=_LONGEST_S)
    """How long a group of pods waits before it holds nodes and devices as they free, and how long it holds them; 0 for
    never."""

    groups_of: list[Annotated[str, AfterValidator(_grouping_controller)]] = Field(default_factory=list)
    """Controllers whose pods are groups by what these write on them: `LeaderWorkerSet`, `Kueue` (plain pods). Others
    need a PodGroup, or our label and annotation."""

    allocate_prescheduled: bool = False
    """Also allocate claims of pods that were created with `spec.nodeName`, on that node."""

    dry_run: bool = False
    """Log decisions and write nothing."""

    def in_force(self) -> tuple[Profile, ...]:
        """The profiles, of which there is one for the scheduler's name where none is written."""
        if not self.profiles:
            return (Profile(self.scheduler_name, policy=policy_of(self.policy)),)
        return tuple(one.profile(self.policy) for one in self.profiles)

    def disagreements(self) -> Iterator[FieldError]:
        """Contradictions between fields."""
        first, most = self.pod_initial_backoff_s, self.pod_max_backoff_s
        if most < first:
            problem = f"must not be less than podInitialBackoffSeconds ({first:g})"
            yield FieldError("podMaxBackoffSeconds", most, problem)
        yield from self.leader_election.disagreements()
        yield from profile_problems(self.profiles)
        yield from super().disagreements()


Settings = TypeVar("Settings", bound=Common)


def load(type_: type[Settings], path: Path | None, flags: Mapping[str, object]) -> Settings:
    """The file's settings, or the defaults, with the flags on top. Raises InvalidConfiguration.

    flags: fields as the file spells them; inner objects replace only the fields that they have.
    """
    stored = the_object(path, type_.model_fields["kind"].default) if path else {}
    in_file = tuple(_typed(type_, stored, str(path)).disagreements()) if path else ()
    configuration = _typed(type_, _merged(stored, flags), FLAGS)
    if errors := tuple(configuration.disagreements()):
        raise InvalidConfiguration([f"{path if error in in_file else FLAGS}: {error}" for error in errors])
    return configuration


def the_object(path: Path, kind: str) -> Mapping[str, object]:
    """The only object of the file, which has to be of the kind. Raises InvalidConfiguration."""
    if path.is_dir():  # with all that is below it, as other input
        raise InvalidConfiguration([f"{path}: is a directory; it has to be a file with one object, of kind {kind}"])
    objects = list(read([str(path)]))
    if wrong := [str(finding) for finding in objects if isinstance(finding, Finding)]:
        raise InvalidConfiguration(wrong)
    if len(objects) != 1:
        raise InvalidConfiguration([f"{path}: holds {len(objects)} objects; it has to hold one, of kind {kind}"])
    raw = dict(objects[0].raw)  # type: ignore[union-attr] # no Finding is left
    missing = [FieldError(field, None, "is required") for field in ("apiVersion", "kind") if field not in raw]
    if missing:
        raise InvalidConfiguration([f"{path}: {error}" for error in missing])
    return raw


def _merged(below: Mapping[str, object], above: Mapping[str, object]) -> Mapping[str, object]:
    """`above` on top of `below`, object by object."""
    merged = dict(below)
    for field, value in above.items():
        old = merged.get(field)
        merged[field] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _typed(type_: type[Settings], raw: Mapping[str, object], source: str) -> Settings:
    """Each field for itself; what contradicts what can only be said when file and flags are together."""
    configuration, errors = typed(type_, raw)
    if configuration is None:
        raise InvalidConfiguration([f"{source}: {error}" for error in errors])
    return configuration


def _unknown_gates(gates: Mapping[str, bool], release: str) -> str:
    """The problems of the gates of the release, or while that is not known, of any."""
    if release:
        try:
            Features.of(release, gates)
        except UnknownGate as error:
            return str(error)
        return ""
    gates_of_any = {gate for one in RELEASES.values() for gate in one.gates}
    if unknown := sorted(gates.keys() - gates_of_any):
        return f"no known release of Kubernetes has {', '.join(unknown)}; known are {', '.join(sorted(gates_of_any))}"
    return ""
