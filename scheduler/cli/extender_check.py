"""`dra extender check`: checks kube-scheduler's configuration for problems with the extender."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import orjson

from scheduler.cli.ending import print_to_stderr, stop
from scheduler.cli.feature_options import gates_of
from scheduler.cli.kube_configuration import kube_configuration
from scheduler.kube_scheduler.configuration import KubeSchedulerConfiguration
from scheduler.kube_scheduler.trap_report import object_of, text_of, unjudged
from scheduler.kube_scheduler.traps import GATES_FLAG, Judged, Severity, Trap, traps_of

FORMATS = ("table", "json")
FLAGS_OPTION = "--kube-scheduler-flags"

_EPILOG = """
\b
error:    pods get no devices, or two pods get one device; others can read or answer the calls; kube-scheduler does
          not start
warning:  pods are placed later, on worse nodes, or not at all

\b
Exit codes: 0 without errors, 1 with errors, 2 if the file is not a configuration of kube-scheduler.

\b
Examples:
  dra extender check kube-scheduler.yaml
  dra extender check kube-scheduler.yaml --kube-scheduler-flags "--feature-gates=DRAExtendedResource=false --v=2"
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


@click.command(name="check", epilog=_EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    FLAGS_OPTION,
    "gates",
    metavar="FLAGS",
    callback=_gates,
    help="The flags of kube-scheduler, as one argument: feature gates are flags, not part of the file.",
)
@click.option("--url", metavar="URL", help="urlPrefix of the entry to check, if there are several.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Output format.")
def check(file: Path, *, gates: Mapping[str, bool] | None, url: str | None, output: str) -> None:
    """Check kube-scheduler's configuration for the extender.

    The output lists problems and suggests corrections. FILE is a KubeSchedulerConfiguration, or - for standard input.
    An entry of `extenders` with a bindVerb is checked as authoritative, others as advisory. docs/extender.md describes
    the findings and the JSON.
    """
    configuration = kube_configuration(file)
    judged = Judged(configuration, _number(file, configuration, url), gates)
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
    found = [number for number, prefix in enumerate(prefixes) if url in (None, prefix)]
    if not found:
        stop(f"{file}: extenders: none has the urlPrefix {url}: {', '.join(prefixes)}")
    return found[0]


def _rendered(judged: Judged, traps: list[Trap], output: str) -> str:
    if output == "json":
        return orjson.dumps(object_of(judged, traps), option=orjson.OPT_INDENT_2).decode()
    return text_of(judged, traps)
