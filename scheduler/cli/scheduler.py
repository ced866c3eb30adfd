"""`dra scheduler`: the live scheduler of a cluster; and a configuration of kube-scheduler as one of it."""

import sys
from collections.abc import Mapping
from pathlib import Path

import click
import orjson

from allocator.api.versions import Json
from scheduler.cli.ending import FilePath, print_to_stderr, stop
from scheduler.cli.extender_config import kube_configuration, kubernetes_option
from scheduler.cli.inputs import time_of
from scheduler.cli.settings import options, settings
from scheduler.input.yaml_1_1 import dump
from scheduler.kube_scheduler.conversion import converted
from scheduler.runtime.configuration import Configuration, PreemptionMode
from scheduler.runtime.section import typed

FORMATS = ("yaml", "json")

_CONFIG_EPILOG = """
\b
Exit codes: 0 if every field was carried over, 1 if some were not, 2 if the file is not a configuration of
kube-scheduler.

\b
Examples:
  dra scheduler config --from kube-scheduler.yaml > dra-scheduler.yaml
  dra scheduler run --config dra-scheduler.yaml --dry-run
"""


@click.command(name="config", epilog=_CONFIG_EPILOG)
@click.option(
    "--from",
    "file",
    required=True,
    type=FilePath(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="KubeSchedulerConfiguration, or - for standard input.",
)
@click.option("-o", "--output", type=click.Choice(FORMATS), default="yaml", show_default=True, help="Output format.")
@kubernetes_option
def config_command(file: Path, *, output: str, release: tuple[int, ...] | None) -> None:
    """Print the configuration for a KubeSchedulerConfiguration.

    Profiles keep their names, plugins, weights and arguments; backoff, leader election and kubeconfig are kept as well.
    Fields without a counterpart are listed on standard error. docs/scheduler.md describes the result.
    """
    conversion = converted(kube_configuration(file, release))
    _check(file, conversion.document)
    print_to_stderr(f"warning: {one}" for one in conversion.warnings)
    print_to_stderr(conversion.left_out)
    click.echo(_rendered(conversion.document, output), nl=output != "yaml")
    sys.exit(int(bool(conversion.left_out)))


def _check(file: Path, document: Json) -> None:
    """End the command where the scheduler would not take the result: what kube-scheduler does not either."""
    configuration, errors = typed(Configuration, document)
    if configuration is not None:
        errors = tuple(configuration.disagreements())
    if errors:
        stop(*(f"{file}: {error}" for error in errors))


def _rendered(document: Json, output: str) -> str:
    if output == "json":
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
    return dump(document)


_EPILOG = """
\b
SIGTERM and Ctrl-C stop it within 10 s: writes in progress are completed or undone.

\b
Exit codes: 0 after a signal, 1 if it cannot continue, 2 for an invalid configuration.

\b
Examples:
  dra scheduler run                                   with the current context of the kubeconfig, or in a pod
  dra scheduler run --dry-run                         log decisions and write nothing: try this first
  dra scheduler run --kubeconfig k --context try      in another cluster
  dra scheduler run --config c.yaml --policy pack     flags override the file
  dra scheduler run --config c.yaml --print-config    print the resulting configuration, with defaults
"""

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "scheduler_name": ("schedulerName",),
    "dry_run": ("dryRun",),
    "allocate_prescheduled": ("allocatePrescheduled",),
    "preemption": ("preemption",),
    "preemption_delay": ("preemptionDelaySeconds",),
    "group_reservation": ("groupReservationSeconds",),
    "leader_elect": ("leaderElection", "leaderElect"),
}


@click.group(name="scheduler")
def command() -> None:
    """Run and configure the live scheduler of a cluster (docs/scheduler.md)."""


command.add_command(config_command)


@command.command(name="run", epilog=_EPILOG)
@click.option("--scheduler-name", metavar="NAME", help="Schedule the pods with this spec.schedulerName.")
@click.option("--dry-run/--no-dry-run", default=None, help="Log decisions and write nothing.")
@click.option(
    "--allocate-prescheduled/--no-allocate-prescheduled",
    default=None,
    help="Also allocate claims of pods that were created with spec.nodeName, on that node.",
)
@click.option(
    "--preemption",
    type=click.Choice([one.value for one in PreemptionMode]),
    help="Evict pods of lower priority for pods that fit nowhere; devices: only for pods that lack devices. "
    "Default: all.",
)
@click.option(
    "--preemption-delay",
    type=float,
    metavar="SECONDS",
    help="How long a pod is pending before others are evicted for it.",
)
@click.option(
    "--group-reservation",
    metavar="TIME",
    callback=time_of,
    help="How long a group of pods waits before it holds nodes and devices as they free, such as 600 or 10m. "
    "Default: 0s, never.",
)
@click.option(
    "--leader-elect",
    type=bool,
    is_flag=False,
    flag_value="true",
    metavar="BOOL",
    help="Elect a leader among replicas with a Lease; only the leader schedules. Default: true.",
)
@options
def run(config: Path | None, *, print_config: bool, **flags: object) -> None:
    """Run the scheduler.

    It schedules the pods that name it in spec.schedulerName, and no others. --print-config prints the defaults.
    """
    configuration = settings(Configuration, config, flags, _FIELDS)
    if print_config:
        click.echo(dump(configuration.document()), nl=False)
        return
    from scheduler.live import program
    from scheduler.runtime import logs

    logs.configure(configuration.logging.format, configuration.logging.level, sys.stderr)
    sys.exit(program.run(configuration))
