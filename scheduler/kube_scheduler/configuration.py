"""kube-scheduler's own configuration, read as strictly as kube-scheduler reads it.

So it can be checked before a cluster runs with it. An unknown field is an error, unless the file is for a release
newer than the newest known one: `without_unknown` leaves such fields out. `too_new` finds those of a later release.
Null means that the field is absent. Stricter in one point: an entry of a list must not be null; kube-scheduler takes
it for an empty one. Sets of plugins change kube-scheduler's defaults: `points_of` says where a plugin is finally
enabled.
Source: kubescheduler.config.k8s.io/v1 of Kubernetes 1.38; the merging of its plugin sets with the defaults.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from allocator.api.findings import FieldError
from cel.errors import EvalError
from cel.values.moments import SECOND, duration_from_text
from scheduler.core_v1.object_fields import field_errors
from scheduler.runtime.section import Fields, typed

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

DEFAULT_SCHEDULER = "default-scheduler"
"""The profile that there is where none is named, and the one of pods that name none."""

DEFAULT_LEASE = "kube-scheduler"
"""The lease of a kube-scheduler that names none."""

DEFAULT_HTTP_TIMEOUT = "5s"
"""For how long an extender without httpTimeout may answer."""

DYNAMIC_RESOURCES = "DynamicResources"
"""The plugin that allocates devices."""

_POINTS = ("pre_enqueue", "pre_filter", "filter", "post_filter", "score", "reserve", "pre_bind")
ALL = "*"
"""Stands for every plugin that is on by default."""

Percentage = Annotated[int, Field(ge=0, le=100)]
GoInt32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
GoInt64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


def seconds(duration: str) -> float:
    """Go's spelling of a duration in seconds. Raises EvalError."""
    return duration_from_text(duration).nanos / SECOND


def _checked(duration: str) -> str:
    try:
        seconds(duration)
    except EvalError as error:
        raise PydanticCustomError("refused", "must be a duration, such as 30s or 1m30s") from error
    return duration


Duration = Annotated[str, AfterValidator(_checked)]


@dataclass(frozen=True, slots=True)
class Since:
    """Marks a field that older releases than 1.`minor` do not know."""

    minor: int


class _KubeObject(Fields):
    """An object of the file."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, raw: Any) -> Any:
        """Without the known fields that are null, which keep their defaults; an unknown one is refused in any case."""
        if not isinstance(raw, dict):
            return raw
        known = {field.alias for field in cls.model_fields.values()}
        return {name: value for name, value in raw.items() if value is not None or name not in known}


class KubePlugin(_KubeObject):
    """An entry of a list of plugins."""

    name: str = ""
    weight: GoInt32 = 0


class KubePluginSet(_KubeObject):
    """The plugins enabled and disabled at one extension point."""

    enabled: list[KubePlugin] = Field(default_factory=list)
    disabled: list[KubePlugin] = Field(default_factory=list)


class Plugins(_KubeObject):
    """The same for all extension points."""

    pre_enqueue: KubePluginSet = Field(default_factory=KubePluginSet)
    queue_sort: KubePluginSet = Field(default_factory=KubePluginSet)
    pre_filter: KubePluginSet = Field(default_factory=KubePluginSet)
    filter: KubePluginSet = Field(default_factory=KubePluginSet)
    post_filter: KubePluginSet = Field(default_factory=KubePluginSet)
    pre_score: KubePluginSet = Field(default_factory=KubePluginSet)
    score: KubePluginSet = Field(default_factory=KubePluginSet)
    reserve: KubePluginSet = Field(default_factory=KubePluginSet)
    permit: KubePluginSet = Field(default_factory=KubePluginSet)
    pre_bind: KubePluginSet = Field(default_factory=KubePluginSet)
    bind: KubePluginSet = Field(default_factory=KubePluginSet)
    post_bind: KubePluginSet = Field(default_factory=KubePluginSet)
    multi_point: KubePluginSet = Field(default_factory=KubePluginSet)
    placement_generate: Annotated[KubePluginSet, Since(36)] = Field(default_factory=KubePluginSet)
    placement_score: Annotated[KubePluginSet, Since(36)] = Field(default_factory=KubePluginSet)
    placement_feasible: Annotated[KubePluginSet, Since(38)] = Field(default_factory=KubePluginSet)
    pod_group_post_filter: Annotated[KubePluginSet, Since(37)] = Field(default_factory=KubePluginSet)


class PluginConfig(_KubeObject):
    """Arguments of a plugin, unread."""

    name: str = ""
    args: object = None


class KubeProfile(_KubeObject):
    """Who schedules the pods that name it, with which plugins."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Percentage | None = None
    percentage_of_placements_to_score: Annotated[Percentage | None, Since(38)] = None
    plugins: Plugins = Field(default_factory=Plugins)
    plugin_config: list[PluginConfig] = Field(default_factory=list)


class ManagedResource(_KubeObject):
    """A resource of containers for which alone an extender is called."""

    name: str = ""
    ignored_by_scheduler: bool = False


class TlsConfig(_KubeObject):
    """Certificates for calls to an extender: paths, or base64 of what the files would hold."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""

    @property
    def has_ca(self) -> bool:
        """Whether a CA for the extender is set."""
        return bool(self.ca_file or self.ca_data)

    @property
    def has_certificate(self) -> bool:
        """Whether a client certificate for kube-scheduler is set."""
        return bool(self.cert_file or self.cert_data) and bool(self.key_file or self.key_data)


class KubeExtender(_KubeObject):
    """Who is called, about what, and how."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: GoInt64 = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: TlsConfig = Field(default_factory=TlsConfig)
    http_timeout: Duration = "0s"
    node_cache_capable: bool = False
    managed_resources: list[ManagedResource] = Field(default_factory=list)
    ignorable: bool = False


class KubeLeaderElection(_KubeObject):
    """Leader election among several kube-schedulers."""

    leader_elect: bool = True
    lease_duration: Duration = "0s"
    renew_deadline: Duration = "0s"
    retry_period: Duration = "0s"
    resource_lock: str = ""
    resource_name: str = DEFAULT_LEASE
    resource_namespace: str = ""


class KubeClientConnection(_KubeObject):
    """How the API server is reached."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0
    burst: GoInt32 = 0


class KubeSchedulerConfiguration(_KubeObject):
    """The file."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"]
    kind: Literal["KubeSchedulerConfiguration"]
    parallelism: Annotated[GoInt32, Field(gt=0)] | None = None
    leader_election: KubeLeaderElection = Field(default_factory=KubeLeaderElection)
    client_connection: KubeClientConnection = Field(default_factory=KubeClientConnection)
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Percentage | None = None
    percentage_of_placements_to_score: Annotated[Percentage | None, Since(38)] = None
    pod_initial_backoff_seconds: GoInt64 = Field(default=1, gt=0)
    pod_max_backoff_seconds: GoInt64 = 10
    profiles: list[KubeProfile] = Field(default_factory=list)
    extenders: list[KubeExtender] = Field(default_factory=list)
    delay_cache_until_active: bool = False


@dataclass(frozen=True, slots=True)
class NamedProfile:
    """A profile with the name that its pods use. path: where it stands, empty for the one that is there by default."""

    path: str
    name: str
    profile: KubeProfile


def without_unknown(raw: Mapping[str, object]) -> tuple[Mapping[str, object], tuple[FieldError, ...]]:
    """A file of a newer release without the fields that are not known, and these; of a newer version as of v1."""
    version, unknown = raw.get("apiVersion"), list[FieldError]()
    if isinstance(version, str) and _is_newer(version):
        unknown.append(FieldError("apiVersion", version, f"newer than {API_VERSION}, and read as that"))
        raw = {**raw, "apiVersion": API_VERSION}
    try:
        KubeSchedulerConfiguration.model_validate(raw)
    except ValidationError as error:
        details = [detail for detail in error.errors(include_url=False) if detail["type"] == "extra_forbidden"]
        unknown += field_errors(details)
        for detail in details:
            raw = _without(raw, detail["loc"])
    return raw, tuple(unknown)


def too_new(found: object, minor: int, path: str = "") -> Iterator[FieldError]:
    """The fields that kube-scheduler 1.`minor` does not know, and so refuses to start with."""
    if isinstance(found, list):
        for number, entry in enumerate(found):
            yield from too_new(entry, minor, f"{path}[{number}]")
    elif isinstance(found, _KubeObject):
        for name in sorted(found.model_fields_set):
            field, value = type(found).model_fields[name], getattr(found, name)
            where = f"{path}.{field.alias}".removeprefix(".")
            for since in field.metadata:
                if isinstance(since, Since) and since.minor > minor:
                    yield FieldError(
                        where, None, f"unknown field in Kubernetes 1.{minor}: it came with 1.{since.minor}"
                    )
            yield from too_new(value, minor, where)


def _is_newer(api_version: str) -> bool:
    group, _, version = api_version.partition("/")
    number = re.match("v0*([1-9][0-9]*)", version)
    return group == API_VERSION.partition("/")[0] and number is not None and number[1] != "1"


def _without(value: Any, path: Sequence[int | str]) -> Any:
    """The object or list without the field at the path."""
    first, *rest = path
    if isinstance(value, list):
        return [_without(one, rest) if number == first else one for number, one in enumerate(value)]
    if not rest:
        return {name: one for name, one in value.items() if name != first}
    return {name: _without(one, rest) if name == first else one for name, one in value.items()}


def read(raw: Mapping[str, object]) -> tuple[KubeSchedulerConfiguration | None, tuple[FieldError, ...]]:
    """The configuration, or None with every error of its fields and of the names of its profiles."""
    configuration, errors = typed(KubeSchedulerConfiguration, raw)
    if configuration is not None and (errors := tuple(_about_names(configuration.profiles))):
        return None, errors
    return configuration, errors


def _about_names(profiles: Sequence[KubeProfile]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for number, profile in enumerate(profiles):
        path = f"profiles[{number}].schedulerName"
        if not profile.scheduler_name and (len(profiles) > 1 or "scheduler_name" in profile.model_fields_set):
            yield FieldError(path, None, "is required")
        if profile.scheduler_name in seen:
            yield FieldError(path, profile.scheduler_name, "another profile has this name")
        seen.add(profile.scheduler_name)


def profiles_of(configuration: KubeSchedulerConfiguration) -> list[NamedProfile]:
    """All profiles, with the one that is there where none is written."""
    if not configuration.profiles:
        return [NamedProfile("", DEFAULT_SCHEDULER, KubeProfile())]
    return [
        NamedProfile(f"profiles[{number}]", profile.scheduler_name or DEFAULT_SCHEDULER, profile)
        for number, profile in enumerate(configuration.profiles)
    ]


def points_of(plugins: Plugins) -> list[str]:
    """The extension points, as the file spells them, at which the plugin DynamicResources is on."""
    is_default = _is_on(plugins.multi_point, is_default=True)
    return [to_camel(point) for point in _POINTS if _is_on(getattr(plugins, point), is_default=is_default)]


ALL_POINTS = tuple(map(to_camel, _POINTS))
"""Where the plugin is on as kube-scheduler comes."""


def _is_on(found: KubePluginSet, *, is_default: bool) -> bool:
    """Whoever switches it on at the point itself has the last word."""
    if any(plugin.name == DYNAMIC_RESOURCES for plugin in found.enabled):
        return True
    return is_default and not any(plugin.name in (DYNAMIC_RESOURCES, ALL) for plugin in found.disabled)
