"""`dra extender`: the scheduler extender that kube-scheduler calls."""

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from scheduler.cli.extender_config import check, config
from scheduler.cli.settings import options, settings
from scheduler.extender.configuration import ExtenderConfiguration, Mode
from scheduler.input.yaml_1_1 import dump

_EPILOG = """
\b
SIGTERM and Ctrl-C stop it within 10 s: bindings in progress are completed or undone.

\b
Exit codes: 0 after a signal, 1 if it cannot continue, 2 for an invalid configuration.

\b
Examples:
  dra extender serve                                  plain HTTP on loopback, for a first try
  dra extender serve --config c.yaml                  with certificates, as in a cluster
  dra extender serve --mode advisory                  only filter and score; kube-scheduler allocates
  dra extender serve --config c.yaml --print-config   print the resulting configuration, with defaults
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
    """Run the scheduler extender of the stock kube-scheduler (docs/extender.md)."""


command.add_command(check)
command.add_command(config)


@command.command(name="serve", epilog=_EPILOG)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    help="Whether the extender allocates devices (authoritative) or only filters and scores nodes (advisory).",
)
@click.option(
    "--scheduler-name", multiple=True, metavar="NAME", help="A kube-scheduler profile to allocate for. Can be repeated."
)
@click.option("--address", metavar="HOST:PORT", help="Address to serve on.")
@click.option("--cert-file", metavar="FILE", help="TLS certificate. Without one: plain HTTP, on loopback only.")
@click.option("--key-file", metavar="FILE", help="Private key of the certificate.")
@click.option("--client-ca-file", metavar="FILE", help="CA of the client certificates.")
@click.option(
    "--client-name", multiple=True, metavar="NAME", help="Allowed name of a client certificate. Can be repeated."
)
@click.option(
    "--http-timeout",
    type=float,
    metavar="SECONDS",
    help="httpTimeout of the extender in kube-scheduler's configuration.",
)
@click.option("--most-calls", type=int, metavar="CALLS", help="Maximum concurrent calls of one verb.")
@options
def serve(config: Path | None, *, print_config: bool, **flags: object) -> None:
    """Serve kube-scheduler's calls.

    `dra extender config` writes the configuration for kube-scheduler. --print-config prints the defaults.
    """
    configuration = settings(ExtenderConfiguration, config, flags, _FIELDS)
    if print_config:
        click.echo(dump(configuration.document()), nl=False)
        return
    from scheduler.extender import program
    from scheduler.runtime import logs

    logs.configure(configuration.logging.format, configuration.logging.level, sys.stderr)
    sys.exit(program.run(configuration))
