"""Profiles in the configuration file, by their field names in KubeSchedulerConfiguration.

The file can only express what this program does: plugins are enabled and disabled at all points (`multiPoint`), as
filters and as scores. Every problem names its field.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, Field

from allocator.api.findings import FieldError
from allocator.policies import UnknownPolicy, policy_of
from allocator.policies.contract import FIRST_FIT
from scheduler.input.keyword_fields import typed
from scheduler.plugins.default import PLUGINS
from scheduler.plugins.dynamic_resources import DYNAMIC_RESOURCES
from scheduler.plugins.plugin import Plugin
from scheduler.plugins.profile import (
    ALL,
    FILTERS,
    SCORES,
    InvalidProfile,
    PluginSet,
    PluginSets,
    Profile,
    plugins_of,
)
from scheduler.plugins.volume_binding import VOLUME_BINDING
from scheduler.runtime.plugin_arguments import ARGUMENTS
from scheduler.runtime.section import Section, object_name, refused

MAX_WEIGHT = 1_000_000
"""Of a plugin: sums of scores stay far within 64 bits."""

LIMITED = (DYNAMIC_RESOURCES.name, VOLUME_BINDING.name)
"""The plugins that wait before a pod is bound, by name."""

_LIMIT = "takes no arguments: its time limit is bindingTimeoutSeconds, for all profiles"

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
        for position, one in enumerate(self.enabled):
            if one.name not in known:
                yield FieldError(f"{path}.enabled[{position}].name", one.name, _must_be(known, what))
            if one.name in seen:
                yield FieldError(f"{path}.enabled[{position}].name", one.name, "must be unique")
            seen.add(one.name)
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
            problem = _LIMIT if self.name in LIMITED else _must_be(ARGUMENTS, " that takes arguments")
            yield FieldError(f"{path}.name", self.name, problem)
            return
        arguments, errors = typed(type_, self.args)
        for error in errors:
            yield replace(error, path=f"{path}.args.{error.path}".removesuffix("."))
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
        found = list(self._problems(path))
        yield from found
        if not found:
            try:
                self.profile(FIRST_FIT.name)
            except InvalidProfile as error:
                yield FieldError(f"{path}.plugins", None, str(error))

    def _problems(self, path: str) -> Iterator[FieldError]:
        yield from self.plugins.problems(f"{path}.plugins")
        names = [one.name for one in self.plugin_config]
        for position, one in enumerate(self.plugin_config):
            at = f"{path}.pluginConfig[{position}]"
            yield from one.problems(at)
            if one.name in names[:position]:
                yield FieldError(f"{at}.name", one.name, "must be unique")

    def profile(self, policy: str) -> Profile:
        """What comes out of it. policy: where the profile names none. Raises InvalidProfile."""
        configured = {one.name: one.plugins() for one in self.plugin_config}
        plugins = plugins_of(self.plugins.sets(), configured)
        return Profile(self.scheduler_name, plugins, policy_of(self.policy or policy))


def profile_problems(profiles: Sequence[ProfileSection]) -> Iterator[FieldError]:
    """The problems of profiles, including contradictions between them."""
    names = [one.scheduler_name for one in profiles]
    for position, one in enumerate(profiles):
        path = f"profiles[{position}]"
        yield from one.problems(path)
        if one.scheduler_name in names[:position]:
            yield FieldError(f"{path}.schedulerName", one.scheduler_name, "another profile has this name")
