"""`dra scheduler`: the live scheduler of a cluster."""

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from scheduler.cli.settings import options, settings
from scheduler.live.configuration import Configuration
from scheduler.output.yaml_dump import dump

_EPILOG = """
\b
SIGTERM and Ctrl-C end it within 10 s: what is being written is finished or taken back.

\b
Exit code: 0 when it was told to end, 1 when it could not go on, 2 for a configuration that cannot be used.

\b
Examples:
  dra scheduler run                                   as the current context of the kubeconfig, or in a pod
  dra scheduler run --dry-run                         decide and log, write nothing: the first thing to try
  dra scheduler run --kubeconfig k --context try      another cluster
  dra scheduler run --config c.yaml --policy pack     flags have the last word
  dra scheduler run --config c.yaml --print-config    what it comes to, and what the defaults are
"""

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "scheduler_name": ("schedulerName",),
    "dry_run": ("dryRun",),
    "allocate_prescheduled": ("allocatePrescheduled",),
    "leader_elect": ("leaderElection", "leaderElect"),
}


@click.group(name="scheduler")
def command() -> None:
    """The live scheduler: pods that name it get nodes and devices (docs/scheduler.md)."""


@command.command(name="run", epilog=_EPILOG)
@click.option("--scheduler-name", metavar="NAME", help="Pods with this schedulerName are placed.")
@click.option("--dry-run/--no-dry-run", default=None, help="Decide and log, and write nothing.")
@click.option(
    "--allocate-prescheduled/--no-allocate-prescheduled",
    default=None,
    help="Also allocate claims of pods that were created with a node, on that node.",
)
@click.option(
    "--leader-elect",
    type=bool,
    is_flag=False,
    flag_value="true",
    metavar="BOOL",
    help="Elect one of several replicas by a Lease; only the leader schedules. Default: true.",
)
@options
def run(config: Path | None, *, print_config: bool, **flags: object) -> None:
    """Give pods nodes and devices until it is told to end.

    Pods whose spec.schedulerName is this scheduler's are looked at, no others. Defaults are those of --print-config.
    """
    configuration = settings(Configuration, config, flags, _FIELDS)
    if print_config:
        click.echo(dump(configuration.document()), nl=False)
        return
    from scheduler.live import logs, program

    logs.configure(configuration.logging.format, configuration.logging.level, sys.stderr)
    sys.exit(program.run(configuration))
