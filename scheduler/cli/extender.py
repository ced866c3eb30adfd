"""`dra extender`: the scheduler extender that kube-scheduler calls."""

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from scheduler.cli.extender_check import check
from scheduler.cli.extender_config import config
from scheduler.cli.settings import options, settings
from scheduler.extender.configuration import ExtenderConfiguration, Mode
from scheduler.output.yaml_dump import dump

_EPILOG = """
\b
SIGTERM and Ctrl-C end it within 10 s: what is being bound is finished or taken back.

\b
Exit code: 0 when it was told to end, 1 when it could not go on, 2 for a configuration that cannot be used.

\b
Examples:
  dra extender serve                                  plain HTTP on loopback, to try it out
  dra extender serve --config c.yaml                  as in a cluster, with certificates
  dra extender serve --mode advisory                  only filter and score; kube-scheduler allocates
  dra extender serve --config c.yaml --print-config   what it comes to, and what the defaults are
"""

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "mode": ("mode",),
    "scheduler_name": ("schedulerNames",),
    "address": ("address",),
    "cert_file": ("tls", "certFile"),
    "key_file": ("tls", "keyFile"),
    "client_ca_file": ("tls", "clientCaFile"),
    "client_name": ("tls", "clientNames"),
    "http_timeout": ("httpTimeoutSeconds",),
    "most_calls": ("mostCalls",),
}


@click.group(name="extender")
def command() -> None:
    """The scheduler extender: the stock kube-scheduler with our devices (docs/extender.md)."""


command.add_command(check)
command.add_command(config)


@command.command(name="serve", epilog=_EPILOG)
@click.option("--mode", type=click.Choice([mode.value for mode in Mode]), help="Who allocates: the extender, or not.")
@click.option("--scheduler-name", multiple=True, metavar="NAME", help="A profile whose pods it allocates for; repeat.")
@click.option("--address", metavar="HOST:PORT", help="Where kube-scheduler calls.")
@click.option("--cert-file", metavar="FILE", help="The extender's certificate; without, plain HTTP on loopback.")
@click.option("--key-file", metavar="FILE", help="The certificate's key.")
@click.option("--client-ca-file", metavar="FILE", help="The authority whose certificates clients have to show.")
@click.option("--client-name", multiple=True, metavar="NAME", help="A name that a client may have; repeat.")
@click.option("--http-timeout", type=float, metavar="SECONDS", help="As httpTimeout in kube-scheduler's configuration.")
@click.option("--most-calls", type=int, metavar="CALLS", help="Of one verb under way at the same time, at most.")
@options
def serve(config: Path | None, *, print_config: bool, **flags: object) -> None:
    """Answer kube-scheduler's calls until it is told to end.

    What kube-scheduler has to be told is written by `dra extender config`. Defaults are those of --print-config.
    """
    configuration = settings(ExtenderConfiguration, config, flags, _FIELDS)
    if print_config:
        click.echo(dump(configuration.document()), nl=False)
        return
    from scheduler.extender import program
    from scheduler.live import logs

    logs.configure(configuration.logging.format, configuration.logging.level, sys.stderr)
    sys.exit(program.run(configuration))
