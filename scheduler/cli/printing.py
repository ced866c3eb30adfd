"""How commands print their reports, and the option for the format."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from scheduler.cli.ending import layout_of
from scheduler.cli.progress import Progress
from scheduler.output.report import FORMATS, PAGE, Block, Report, laid_out, listed, rendered


def output_option(*formats: str) -> Callable[[Any], Any]:
    """The option -o with these formats, the first of which is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Output format."
        + (" html: one page with a map of nodes and devices (docs/ui.md)." if PAGE in formats else ""),
    )


report_option = output_option(*FORMATS)
page_option = output_option(*FORMATS, PAGE)


def print_report(report: Report, output: str, head: Sequence[str] = ()) -> None:
    """Print it in that format. head: of a page."""
    click.echo(rendered(report, output, layout_of(sys.stdout), head), nl=False)


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print them as text."""
    if text := laid_out(blocks, layout_of(sys.stdout)):
        click.echo(text)


def print_reports(reports: Iterable[Report], kind: str, output: str, progress: Progress) -> None:
    """Print reports of a kind in that format, each as soon as it is there. progress: is wiped out before each."""
    for piece in listed(reports, kind, output, layout_of(sys.stdout)):
        progress.clear()
        click.echo(piece, nl=False)
