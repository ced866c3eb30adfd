"""`dra extender config`: writes kube-scheduler's configuration for the extender."""

import click

from allocator.api import names
from scheduler.cli.ending import print_to_stderr, stop
from scheduler.extender.configuration import Mode
from scheduler.kube_scheduler.configuration import read
from scheduler.kube_scheduler.setup import KUBE_SYSTEM, Setup, document, flags
from scheduler.kube_scheduler.trap_report import line_of
from scheduler.kube_scheduler.traps import Judged, Severity, traps_of
from scheduler.output.yaml_dump import dump

_EPILOG = """
\b
Exit codes: 0 if the configuration was written, 2 if it would not work.

\b
Examples:
  dra extender config > kube-scheduler.yaml                    as in manifests/extender
  dra extender config --scheduler-name a --scheduler-name b    two profiles
  dra extender config --namespace gpu-system                   both are installed there
  dra extender config --mode advisory --scheduler-name default-scheduler
  dra extender config --url http://127.0.0.1:9443/v1           on one machine, for a first try
"""


@click.command(name="config", epilog=_EPILOG)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    default=Mode.AUTHORITATIVE.value,
    show_default=True,
    help="Whether the extender allocates devices (authoritative) or only filters and scores nodes (advisory).",
)
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    metavar="NAME",
    default=("dra-kube-scheduler",),
    show_default=True,
    help="Name of a profile. Can be repeated.",
)
@click.option(
    "--namespace",
    metavar="NAMESPACE",
    default=KUBE_SYSTEM,
    show_default=True,
    help="Namespace in which both are installed: of the extender's URL and of kube-scheduler's lease.",
)
@click.option(
    "--url",
    metavar="URL",
    default="",
    help="URL of the extender.  [default: https://dra-extender.NAMESPACE.svc:9443/v1]",
)
@click.option(
    "--ca-file", metavar="FILE", default="/etc/dra-extender/ca.crt", show_default=True, help="CA of its certificate."
)
@click.option(
    "--cert-file",
    metavar="FILE",
    default="/etc/dra-extender/tls.crt",
    show_default=True,
    help="Client certificate of kube-scheduler.",
)
@click.option(
    "--key-file",
    metavar="FILE",
    default="/etc/dra-extender/tls.key",
    show_default=True,
    help="Private key of the client certificate.",
)
@click.option(
    "--http-timeout",
    type=click.IntRange(min=1),
    metavar="SECONDS",
    default=30,
    show_default=True,
    help="How long kube-scheduler waits for an answer. Use the same value for the extender's httpTimeoutSeconds.",
)
@click.option(
    "--weight",
    type=click.IntRange(min=1),
    metavar="WEIGHT",
    help="Let kube-scheduler add the policy's scores to its own, with this weight; its plugins have 1 to 3. The "
    "extender needs ranking: prioritize. Without it, only the nodes that the policy finds best pass.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    default="",
    help="kubeconfig of kube-scheduler. Without one: the service account of its pod.",
)
def config(  # noqa: PLR0913 - one for each option
    *,
    mode: str,
    schedulers: tuple[str, ...],
    namespace: str,
    url: str,
    ca_file: str,
    cert_file: str,
    key_file: str,
    http_timeout: int,
    weight: int | None,
    kubeconfig: str,
) -> None:
    """Print a KubeSchedulerConfiguration for kube-scheduler with the extender.

    The required flags of kube-scheduler are printed as a comment and to standard error. Paths are paths on the machine
    or in the pod of kube-scheduler. Problems are reported as by `dra extender check`.
    """
    _check_names(schedulers)
    if problem := names.short_name(namespace):
        raise click.BadParameter(f"{namespace!r} {problem}", param_hint="--namespace")
    url = url or f"https://dra-extender.{namespace}.svc:9443/v1"
    setup = Setup(
        Mode(mode), schedulers, url, ca_file, cert_file, key_file, http_timeout, weight, kubeconfig, namespace
    )
    _judge(setup)
    flagged = [f"start kube-scheduler with {flag}" for flag in flags(setup)]
    print_to_stderr(flagged)
    click.echo("".join(f"# {line}\n" for line in flagged) + dump(document(setup)), nl=False)


def _check_names(schedulers: tuple[str, ...]) -> None:
    if len(set(schedulers)) < len(schedulers):
        raise click.BadParameter("a profile is named twice", param_hint="--scheduler-name")
    for name in schedulers:
        if problem := names.long_name(name):
            raise click.BadParameter(f"{name!r} {problem}", param_hint="--scheduler-name")


def _judge(setup: Setup) -> None:
    """Report what would go wrong; the command ends where that is an error."""
    found, errors = read(document(setup))
    assert found is not None, errors
    traps = traps_of(Judged(found, number=0))
    print_to_stderr(f"{trap.severity}: {line_of(trap)}" for trap in traps)
    if any(trap.severity is Severity.ERROR for trap in traps):
        stop("nothing was written")
