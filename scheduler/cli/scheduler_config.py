"""`dra scheduler config`: a configuration of kube-scheduler as one of the live scheduler."""

import sys
from pathlib import Path

import click
import orjson

from allocator.api.versions import Json
from scheduler.cli.ending import print_to_stderr, stop
from scheduler.cli.extender_config import kube_configuration, kubernetes_option
from scheduler.input.yaml_1_1 import dump
from scheduler.kube_scheduler.conversion import converted
from scheduler.runtime.configuration import Configuration
from scheduler.runtime.section import typed

FORMATS = ("yaml", "json")

_EPILOG = """
\b
Exit codes: 0 if every field was carried over, 1 if some were not, 2 if the file is not a configuration of
kube-scheduler.

\b
Examples:
  dra scheduler config --from kube-scheduler.yaml > dra-scheduler.yaml
  dra scheduler run --config dra-scheduler.yaml --dry-run
"""


@click.command(name="config", epilog=_EPILOG)
@click.option(
    "--from",
    "file",
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="KubeSchedulerConfiguration, or - for standard input.",
)
@click.option("-o", "--output", type=click.Choice(FORMATS), default="yaml", show_default=True, help="Output format.")
@kubernetes_option
def config(file: Path, *, output: str, release: tuple[int, ...] | None) -> None:
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
