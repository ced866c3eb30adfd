"""Results as a table: one line for each device, or the reason why there is none."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

import click

from allocator.explain.text import summary
from allocator.model import Claim, DeviceResult
from scheduler.offline.placement import PlacedPod, Result, UnplacedPod
from scheduler.output.node_groups import answer_text
from scheduler.terminal_text import GAP, padded, printable, width_of

_NARROWEST = 40
"""Columns that a reason has at least, however narrow the terminal is."""


def table(results: Sequence[Result], *, is_wide: bool, width: int | None = None) -> str:
    """The table, columns aligned; reasons are red on a terminal.

    is_wide: with the class of each request, the number of configurations, and the reason of every node. width: of the
    terminal, in columns, for reasons to be wrapped in; None for a line each.
    """
    header = ["POD", "CLAIM", "NODE", "REQUEST", "DEVICE", *(["CLASS", "CONFIG"] if is_wide else [])]
    rows = [[printable(cell) for cell in row] for result in results for row in _rows(result, is_wide=is_wide)]
    widths = _widths(header, rows)
    return "\n".join(line for row in [header, *rows] for line in _lines(row, widths, width))


def _widths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The widths of the columns; of a row with a reason only pod and claim count."""
    return [
        max(width_of(row[column]) for row in [header, *rows] if column < 2 or len(row) == len(header))
        for column in range(len(header))
    ]


def reason_of(result: UnplacedPod) -> str:
    """Why nothing was placed, in one line: an error of a selector shows the place in its source below that."""
    groups = [(one.node, one.answer, one.number) for one in result.unfit]
    line, _, _ = (result.reason or summary(groups, result.asked, result.updating)).partition("\n")
    return printable("; ".join(filter(None, (line, result.kept))))


def _rows(result: Result, *, is_wide: bool) -> Iterable[list[str]]:
    pod = str(result.pod) if result.pod else "-"
    if isinstance(result, PlacedPod):
        for claim in result.claims:
            for device in claim.allocation.results if claim.allocation else ():
                yield [pod, str(claim), result.node, device.request, str(device.id), *_extra(claim, device, is_wide)]
            if claim.allocation is not None and not claim.allocation.results:
                yield [pod, str(claim), result.node, *_dashes(is_wide)]
        if not result.claims:
            yield [pod, "-", result.node, *_dashes(is_wide)]
        return
    claims = ",".join(str(claim) for claim in result.claims) or "-"
    yield [pod, claims, reason_of(result)]
    for name, answer in (result.nodes or {}).items() if is_wide else ():
        yield ["", "", f"{name}: {answer_text(answer)}"]


def _dashes(is_wide: bool) -> list[str]:  # noqa: FBT001 - a column's switch
    return ["-"] * (4 if is_wide else 2)


def _extra(claim: Claim, device: DeviceResult, is_wide: bool) -> list[str]:  # noqa: FBT001 - a column's switch
    if not is_wide:
        return []
    allocation = claim.allocation
    assert allocation is not None
    name = device.request
    classes = [a.class_name for request in claim.requests for a in request.alternatives if a.name == name]
    config = [c for c in allocation.config if not c.requests or {name, name.partition("/")[0]} & set(c.requests)]
    return [classes[0] if classes else "-", str(len(config))]


def _lines(row: Sequence[str], widths: Sequence[int], width: int | None) -> Iterator[str]:
    if len(row) == len(widths):
        yield GAP.join(map(padded, row, widths)).rstrip()
        return
    pod, claim, reason = row
    before = GAP.join([padded(pod, widths[0]), padded(claim, widths[1]), ""])
    room = max(_NARROWEST, (width or 0) - width_of(before))
    lines = wrap(reason, room, break_long_words=False, break_on_hyphens=False) if width else [reason]
    for number, line in enumerate(lines or [""]):
        yield (before if number == 0 else " " * width_of(before)) + click.style(line, fg="red")
