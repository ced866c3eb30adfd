"""`dra cel`: which devices an expression selects, what it costs, and where it fails; also one after the other."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import click

import cel
from allocator.model import Device
from allocator.status import pool_statuses
from scheduler.cli.cluster_source import ClusterSource, cluster_options
from scheduler.cli.ending import BAD_INPUT, print_to_stderr, stop
from scheduler.cli.inputs import inventory_of, keep_going_option, overlay_option
from scheduler.cli.printing import after_delay, print_report, report_option
from scheduler.input.documents import STDIN
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.output.report import text_of
from scheduler.output.selection_report import MOST_LISTED, SelectionReport
from scheduler.status import TABLES, fully_named, select

PROMPT = "cel> "

_EPILOG = """
\b
Exit codes: 0 if a device matches, 1 if none does, 2 if the expression does not compile or the input is invalid.

\b
Examples:
  dra cel 'device.driver == "gpu.example.com"' cluster.yaml
  dra cel 'device.attributes["gpu.example.com"].model == "A100"'          of the live cluster
  dra cel 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0' cluster.yaml -o json
  dra cel cluster.yaml                       ask for one expression after the other
"""


@click.command(name="cel", epilog=_EPILOG)
@click.argument("arguments", nargs=-1, metavar="[EXPR] [PATH...]")
@cluster_options
@click.option("--all", "is_all", is_flag=True, help=f"Name all devices that match, not only the first {MOST_LISTED}.")
@report_option
@overlay_option
@keep_going_option
def command(  # noqa: PLR0913 - one for each option
    *,
    arguments: tuple[str, ...],
    source: ClusterSource,
    overlays: tuple[str, ...],
    is_all: bool,
    output: str,
    keep_going: bool,
) -> None:
    """Print which devices a CEL expression selects, and what it costs.

    EXPR is a selector as in a DeviceClass or a request. PATH is as in `dra allocate`; an EXPR that is the name of a
    file is taken for a PATH. Each device of the newest generation of its pool is asked. An expression that does not
    compile is shown with a caret below the place.

    Without EXPR, on a terminal, expressions are asked for one after the other, until Ctrl-D. The Tab key completes
    attributes and capacities that devices of the input have.
    """
    if not source.shown.is_everything:
        raise click.UsageError("Devices are in no namespace and have no labels: -n and -l cannot be used.")
    expression, paths = _parsed(arguments)
    if expression is None and not sys.stdin.isatty():
        raise click.UsageError("Missing argument 'EXPR': without it, standard input has to be a terminal.")
    source = source.at(paths)
    inventory = inventory_of(source.objects(), overlays, source.features, keep_going=keep_going)
    if "ResourceSlice" not in inventory.kinds:
        stop("the input contains no ResourceSlice")
    cluster = cluster_of(inventory, Claims(inventory), inventory.pods, source.features)
    devices = [one.device for pool in pool_statuses(cluster.fleet.current) for one in pool.devices]
    environment = source.features.environment
    if expression is None:
        ask(_typed_lines(devices), devices, environment)
        sys.exit(BAD_INPUT if inventory.errors else 0)
    try:
        with after_delay("asking every device ..."):
            selection = select(expression, devices, environment)
    except cel.CompileError as error:
        stop(f"EXPR does not compile: {error}")
    print_report(SelectionReport(selection, None if is_all else MOST_LISTED), output)
    sys.exit(BAD_INPUT if inventory.errors else int(not selection.matching))


def _parsed(arguments: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The expression, None where there is none, and the paths."""
    if not arguments or arguments[0] == STDIN or _exists(arguments[0]):
        return None, arguments
    return arguments[0], arguments[1:]


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


def ask(lines: Iterable[str], devices: Sequence[Device], environment: cel.Environment) -> None:
    """Answer each line; an empty one is passed over."""
    for line in filter(None, map(str.strip, lines)):
        try:
            click.echo(text_of(SelectionReport(select(line, devices, environment))) + "\n")
        except cel.CompileError as error:
            print_to_stderr([f"{error}\n"])


def _typed_lines(devices: Sequence[Device]) -> Iterator[str]:
    """What a person types until Ctrl-D; Ctrl-C drops the line."""
    _prepare_terminal(completions(devices))
    print_to_stderr([f"{len(devices)} devices; Tab completes, Ctrl-D ends"])
    while True:
        try:
            yield input(PROMPT)
        except KeyboardInterrupt:
            print_to_stderr([""])
        except EOFError:
            print_to_stderr([""])
            return


def _prepare_terminal(words: Sequence[str]) -> None:
    with suppress(ImportError):  # there is no readline for some platforms
        import readline

        readline.set_completer_delims(" \t\n()!=<>&|?:,+-*%")
        readline.set_completer(lambda text, number: completed(words, text, number))
        readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")


def completed(words: Sequence[str], text: str, number: int) -> str | None:
    """The completion of that number, as readline asks for them."""
    matching = [word for word in words if word.startswith(text)]
    return matching[number] if number < len(matching) else None


def completions(devices: Sequence[Device]) -> Sequence[str]:
    """All that can be said of these devices."""
    named = [(table, name.partition("/")) for table in TABLES for name in fully_named(devices, table)]
    paths = sorted(f'device.{table}["{domain}"].{name}' for table, (domain, _, name) in named)
    return ["device.driver", "device.allowMultipleAllocations", *paths]
