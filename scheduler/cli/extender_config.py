"""`dra extender config`: writes kube-scheduler's configuration for the extender."""

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
import orjson

from allocator.api import names
from allocator.gates import DEFAULT_RELEASE, RELEASES, Release
from scheduler.cli.cluster_source import gates_of
from scheduler.cli.ending import FilePath, print_to_stderr, stop
from scheduler.extender.configuration import Mode
from scheduler.input.yaml_1_1 import dump
from scheduler.kube_scheduler.configuration import KIND, KubeSchedulerConfiguration, read, too_new, without_unknown
from scheduler.kube_scheduler.conversion import KUBE_SYSTEM, Setup, document, flags
from scheduler.kube_scheduler.traps import (
    GATES_FLAG,
    Judged,
    Severity,
    Trap,
    line_of,
    object_of,
    text_of,
    traps_of,
    unjudged,
)
from scheduler.runtime.configuration import InvalidConfiguration, the_object

# Reads the file with kube-scheduler's configuration for a command.


NEWEST = list(RELEASES)[-1]
"""The newest release of which all fields are known."""

_VERSION = "apiVersion"
"""The field of a newer version, which is read as the one that is known."""


def kubernetes_option(function: Callable[..., None]) -> Callable[..., None]:
    """The option `--kubernetes` of a command that reads such a file."""
    return click.option(
        "--kubernetes",
        "release",
        metavar="RELEASE",
        callback=_release,
        help="Release of kube-scheduler. A field that came with a later release is an error. "
        f"If newer than {NEWEST}, unknown fields are only warnings.  "
        f"[default: {DEFAULT_RELEASE}, with the fields of {NEWEST}]",
    )(function)


def _release(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """As numbers."""
    if text is None:
        return None
    if not re.fullmatch(r"v?1(\.[0-9]{1,9}){1,2}", text):
        raise click.BadParameter(f"{text!r:.80} is not a release of Kubernetes, such as 1.38")
    return _numbers(text.removeprefix("v"))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")[:2]))


def _known(release: tuple[int, ...] | None) -> Release:
    """The release, or the nearest one that is known; without one, the default."""
    if release is None:
        return RELEASES[DEFAULT_RELEASE]
    return min(RELEASES.values(), key=lambda one: abs(_numbers(one.name)[1] - release[1]))


def kube_configuration(file: Path, release: tuple[int, ...] | None) -> KubeSchedulerConfiguration:
    """What it says; the command ends where kube-scheduler could not read it.

    release: of that kube-scheduler; None if any known one will do. What a newer one may have is reported and left out.
    """
    try:
        raw = the_object(file, KIND)
    except InvalidConfiguration as invalid:
        stop(*invalid.problems)
    known, unknown = without_unknown(raw)
    if (release and release > _numbers(NEWEST)) or any(one.path == _VERSION for one in unknown):
        print_to_stderr(f"warning: {file}: {one}{'' if one.path == _VERSION else '; left out'}" for one in unknown)
        raw = known
    configuration, errors = read(raw)
    if configuration is not None and release:
        errors = tuple(too_new(configuration, release[1]))
    if configuration is None or errors:
        stop(*(f"{file}: {error}" for error in errors))
    return configuration


# `dra extender check`: checks kube-scheduler's configuration for problems with the extender.


FORMATS = ("table", "json")
FLAGS_OPTION = "--kube-scheduler-flags"

_CHECK_EPILOG = """
\b
error:    pods get no devices, or two pods get one device; others can read or answer the calls; kube-scheduler does
          not start
warning:  pods are placed later, on worse nodes, or not at all

\b
Exit codes: 0 without errors, 1 with errors, 2 if the file is not a configuration of kube-scheduler.

\b
Examples:
  dra extender check kube-scheduler.yaml
  dra extender check kube-scheduler.yaml --kube-scheduler-flags "--v=2"
  dra extender config | dra extender check - -o json
"""


def _gates(_context: click.Context, _option: click.Parameter, text: str | None) -> Mapping[str, bool] | None:
    """The gates that the flags set; a component's name before a gate is left out."""
    if text is None:
        return None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.BadParameter(f"cannot be split into flags: {error}", param_hint=FLAGS_OPTION) from error
    gates = [gate.removeprefix("kube:") for value in _values(words) for gate in value.split(",")]
    return gates_of(",".join(gates))


def _values(words: list[str]) -> Iterator[str]:
    """What the flag for gates is given, as one word or as two."""
    for number, word in enumerate(words):
        name, _, value = word.partition("=")
        if name == GATES_FLAG:
            yield value if "=" in word else "".join(words[number + 1 : number + 2])


@click.command(name="check", epilog=_CHECK_EPILOG)
@click.argument("file", metavar="FILE", type=FilePath(path_type=Path, allow_dash=True))
@click.option(
    FLAGS_OPTION,
    "gates",
    metavar="FLAGS",
    callback=_gates,
    help="The flags of kube-scheduler, as one argument: feature gates are flags, not part of the file.",
)
@click.option("--url", metavar="URL", help="urlPrefix of the entry to check, if there are several.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Output format.")
@kubernetes_option
def check(
    file: Path, *, gates: Mapping[str, bool] | None, url: str | None, output: str, release: tuple[int, ...] | None
) -> None:
    """Check kube-scheduler's configuration for the extender.

    The output lists problems and suggests corrections. FILE is a KubeSchedulerConfiguration, or - for standard input.
    An entry of `extenders` with a bindVerb is checked as authoritative, others as advisory. docs/extender.md describes
    the findings and the JSON.
    """
    configuration = kube_configuration(file, release)
    judged = Judged(configuration, _number(file, configuration, url), gates, _known(release))
    traps = traps_of(judged)
    print_to_stderr(
        f"warning: {gate} was not checked: it has to be off; specify {FLAGS_OPTION}" for gate in unjudged(judged)
    )
    click.echo(_rendered(judged, traps, output))
    sys.exit(int(any(trap.severity is Severity.ERROR for trap in traps)))


def _number(file: Path, configuration: KubeSchedulerConfiguration, url: str | None) -> int:
    """The number of the entry of `extenders` to check."""
    prefixes = [extender.url_prefix for extender in configuration.extenders]
    if not prefixes:
        stop(f"{file}: extenders: is empty: kube-scheduler calls no extender")
    if url is None and len(prefixes) > 1:
        stop(f"{file}: extenders: has {len(prefixes)} entries: select one with --url: {', '.join(prefixes)}")
    numbers = [number for number, prefix in enumerate(prefixes) if url in (None, prefix)]
    if not numbers:
        stop(f"{file}: extenders: none has the urlPrefix {url}: {', '.join(prefixes)}")
    return numbers[0]


def _rendered(judged: Judged, traps: list[Trap], output: str) -> str:
    if output == "json":
        return orjson.dumps(object_of(judged, traps), option=orjson.OPT_INDENT_2).decode()
    return text_of(judged, traps)


_CONFIG_EPILOG = """
\b
Exit codes: 0 if the configuration was written, 2 if it would not work.

\b
Examples:
  dra extender config > kube-scheduler.yaml                    as in manifests/extender
  dra extender config --scheduler-name a --scheduler-name b    two profiles
  dra extender config --namespace gpu-system                   both are installed there
  dra extender config --mode advisory --scheduler-name default-scheduler
  dra extender config --kubernetes 1.36                        with the flag that kube-scheduler needs up to 1.36
  dra extender config --url http://127.0.0.1:9443/v1           on one machine, for a first try
"""


@click.command(name="config", epilog=_CONFIG_EPILOG)
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
@click.option(
    "--kubernetes",
    "release",
    metavar="RELEASE",
    callback=_release,
    help=f"Release of kube-scheduler, which may need flags.  [default: {DEFAULT_RELEASE}]",
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
    release: tuple[int, ...] | None,
) -> None:
    """Print a KubeSchedulerConfiguration for kube-scheduler with the extender.

    If kube-scheduler needs flags, they are printed as a comment and to standard error. Paths are paths on the machine
    or in the pod of kube-scheduler. Problems are reported as by `dra extender check`.
    """
    _check_names(schedulers)
    if problem := names.short_name(namespace):
        raise click.BadParameter(f"{namespace!r} {problem}", param_hint="--namespace")
    url = url or f"https://dra-extender.{namespace}.svc:9443/v1"
    certificates = (ca_file, cert_file, key_file)
    setup = Setup(
        Mode(mode), schedulers, url, *certificates, http_timeout, weight, kubeconfig, namespace, _known(release)
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
    configuration, errors = read(document(setup))
    assert configuration is not None, errors
    traps = traps_of(Judged(configuration, number=0, release=setup.release))
    print_to_stderr(f"{trap.severity}: {line_of(trap)}" for trap in traps)
    if any(trap.severity is Severity.ERROR for trap in traps):
        stop("nothing was written")
