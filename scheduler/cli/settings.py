"""Flags of the programs for a cluster: each sets a field of the configuration, and overrides the file."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from allocator.gates import RELEASES
from allocator.policies import NAMES
from scheduler.cli import cluster_source
from scheduler.cli.cluster_source import gates_of
from scheduler.cli.ending import FilePath, stop
from scheduler.cli.inputs import POLICY
from scheduler.runtime.configuration import Common, InvalidConfiguration, LogFormat, LogLevel, Preemptible, load

Command = TypeVar("Command", bound=Callable[..., Any])
Settings = TypeVar("Settings", bound=Common)

FIELDS: Mapping[str, tuple[str, ...]] = {
    "kubeconfig": ("clientConnection", "kubeconfig"),
    "context": ("clientConnection", "context"),
    "policy": ("policy",),
    "kubernetes": ("kubernetes",),
    "feature_gates": ("featureGates",),
    "strict": ("strict",),
    "binding_concurrency": ("bindingConcurrency",),
    "binding_timeout": ("bindingTimeoutSeconds",),
    "preempt_pods_of": ("preemptPodsOf",),
    "never_preempt": ("neverPreempt",),
    "health_address": ("healthAddress",),
    "log_format": ("logging", "format"),
    "log_level": ("logging", "level"),
}
"""What each common flag sets, as the file spells it. A flag that is not given sets nothing."""


def _gates(_context: click.Context, _option: click.Parameter, text: str | None) -> Mapping[str, bool] | None:
    return None if text is None else gates_of(text)


_OPTIONS = (
    click.option(
        "--config", type=FilePath(path_type=Path), metavar="FILE", help="Configuration file. Flags override it."
    ),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        help="kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the service account of the pod.",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig. Default: the current one."),
    click.option(
        "--kubernetes",
        type=click.Choice(sorted(RELEASES)),
        help="Kubernetes release to follow. Default: the API server's.",
    ),
    click.option(
        "--feature-gates",
        metavar="NAME=BOOL,...",
        callback=_gates,
        shell_complete=cluster_source.gates,
        help="Feature gates that differ from the API server's.",
    ),
    click.option("--health-address", metavar="HOST:PORT", help="Address of probes and metrics."),
    click.option(
        "--log-format",
        type=click.Choice([one.value for one in LogFormat]),
        help="Log format. auto: text on a terminal, JSON otherwise.",
    ),
    click.option("--log-level", type=click.Choice([one.value for one in LogLevel]), help="Minimum log level."),
    click.option("--print-config", is_flag=True, help="Print the configuration and exit."),
)

_ALLOCATING = (
    click.option(
        "--preempt-pods-of",
        type=click.Choice([one.value for one in Preemptible]),
        help="Whose pods may be evicted; own: only pods of this scheduler. Default: all.",
    ),
    click.option("--never-preempt", metavar="SELECTOR", help="Labels of pods that are never evicted."),
    click.option(
        "--policy",
        metavar=POLICY,
        shell_complete=cluster_source.policies,
        help=f"Which of the valid nodes and devices to select: {', '.join(NAMES)}, or a class of your own "
        "(docs/policies.md).",
    ),
    click.option(
        "--strict/--no-strict", default=None, help="Behave like kube-scheduler even where this program does better."
    ),
    click.option("--binding-concurrency", type=int, metavar="PODS", help="Maximum concurrent bindings."),
    click.option(
        "--binding-timeout",
        type=float,
        metavar="SECONDS",
        help="How long devices with binding conditions may take to become ready.",
    ),
)


def options(command: Command) -> Command:
    """The flags of those that give devices to pods, after the command's own."""
    return _with(common_options(command), _ALLOCATING)


def common_options(command: Command) -> Command:
    """The flags of every program, after the command's own."""
    return _with(command, _OPTIONS)


def _with(command: Command, given: Sequence[Callable[[Command], Command]]) -> Command:
    for option in reversed(given):
        command = option(command)
    return command


def settings(
    type_: type[Settings], config: Path | None, flags: Mapping[str, object], fields: Mapping[str, tuple[str, ...]]
) -> Settings:
    """The settings from the file and the flags; invalid ones end the program. fields: of the command's own flags."""
    try:
        return load(type_, config, _overrides(flags, {**FIELDS, **fields}))
    except InvalidConfiguration as invalid:
        stop(*invalid.problems)


def _overrides(flags: Mapping[str, object], fields: Mapping[str, tuple[str, ...]]) -> Mapping[str, object]:
    """The fields that the given flags set, nested as in the file."""
    overrides: dict[str, object] = {}
    for flag, value in flags.items():
        if value is None or value == ():
            continue
        *sections, name = fields[flag]
        inner = overrides
        for section in sections:
            below = inner.setdefault(section, {})
            assert isinstance(below, dict)
            inner = below
        inner[name] = list(value) if isinstance(value, tuple) else value
    return overrides
