"""`dra guard`: the webhook that refuses devices that another claim holds."""

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from scheduler.cli.settings import common_options, settings
from scheduler.guard.configuration import GuardConfiguration
from scheduler.input.yaml_1_1 import dump

_EPILOG = """
\b
SIGTERM and Ctrl-C stop it. If an update that it allowed may still be stored, it does not release its lease, which
then expires.

\b
Exit codes: 0 after a signal, 1 if it cannot continue, 2 for an invalid configuration.

\b
Examples:
  dra guard serve --config c.yaml                  as in a cluster: manifests/guard
  dra guard serve                                  on loopback, for a first try
  dra guard serve --config c.yaml --print-config   print the resulting configuration, with defaults
"""

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "address": ("address",),
    "cert_file": ("tls", "certFile"),
    "key_file": ("tls", "keyFile"),
    "client_ca_file": ("tls", "clientCaFile"),
    "client_name": ("tls", "clientNames"),
    "server_name": ("tls", "serverName"),
    "publish_certificate": ("publish", "webhookConfiguration"),
    "publish_endpoint": ("publish", "endpointSlice"),
    "pod_ip": ("publish", "podIp"),
    "request_timeout": ("requestTimeoutSeconds",),
    "most_calls": ("mostCalls",),
}


@click.group(name="guard")
def command() -> None:
    """Run the guard: a validating webhook that keeps a device from being given twice (docs/guard.md)."""


@command.command(name="serve", epilog=_EPILOG)
@click.option("--address", metavar="HOST:PORT", help="Address of the webhook.")
@click.option("--cert-file", metavar="FILE", help="TLS certificate. Without one, the guard creates its own.")
@click.option("--key-file", metavar="FILE", help="Private key of the certificate.")
@click.option("--client-ca-file", metavar="FILE", help="CA of the API server's client certificate.")
@click.option(
    "--client-name", multiple=True, metavar="NAME", help="Allowed name of a client certificate. Can be repeated."
)
@click.option("--server-name", metavar="NAME", help="Name by which the API server calls the guard.")
@click.option(
    "--publish-certificate",
    metavar="NAME",
    help="ValidatingWebhookConfiguration to write the guard's path and certificate to.",
)
@click.option("--publish-endpoint", metavar="NAME", help="EndpointSlice to write the leader's address to.")
@click.option("--pod-ip", metavar="IP", help="IP address of this process in the EndpointSlice.")
@click.option("--request-timeout", type=float, metavar="SECONDS", help="--request-timeout of the API server.")
@click.option("--most-calls", type=int, metavar="CALLS", help="Maximum concurrent calls.")
@common_options
def serve(config: Path | None, *, print_config: bool, **flags: object) -> None:
    """Answer the API server's questions about allocations.

    One replica leads and answers, the others stand by. --print-config prints the defaults.
    """
    configuration = settings(GuardConfiguration, config, flags, _FIELDS)
    if print_config:
        click.echo(dump(configuration.document()), nl=False)
        return
    from scheduler.guard import program
    from scheduler.runtime import logs

    logs.configure(configuration.logging.format, configuration.logging.level, sys.stderr)
    sys.exit(program.run(configuration))
