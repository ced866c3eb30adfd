"""How many copies fit, as a table and as JSON (docs/fit.md describes each field)."""

from scheduler.offline.copies import FittingCopies
from scheduler.offline.placement import UnplacedPod
from scheduler.output.columns import ColumnTable
from scheduler.output.status_report import API_VERSION
from scheduler.output.table import reason_of

KIND = "Fit"

Json = dict[str, object]


def fit_table(subject: str, found: FittingCopies) -> str:
    """How many, a line for each node, and what stops the next one. subject: in words, such as `pod ml/train-0`."""
    lines = [counted_text(subject, found)]
    if found.by_node:
        lines += ["", str(copies_table(found))]
    if found.elsewhere:
        lines += ["", f"{found.elsewhere} on nodes without the labels of -l"]
    if found.stopped is not None:
        lines += ["", next_text(found.stopped)]
    return "\n".join(lines)


def counted_text(subject: str, found: FittingCopies) -> str:
    """How many fit."""
    least = "at least " if found.is_cut else ""
    return f"{least}{found.number} more of {subject} fit{'s' if found.number == 1 else ''}"


def copies_table(found: FittingCopies) -> ColumnTable:
    """A line for each node with copies, the most first."""
    rows = [[node, str(number)] for node, number in _sorted(found)]
    return ColumnTable(["NODE", "COPIES"], rows, frozenset({"COPIES"}))


def next_text(stopped: UnplacedPod) -> str:
    """Why the next one does not fit."""
    return f"The next one: {reason_of(stopped)}"


def _sorted(found: FittingCopies) -> list[tuple[str, int]]:
    return sorted(found.by_node.items(), key=lambda one: (-one[1], one[0]))


def fit_object(subject: str, found: FittingCopies) -> Json:
    """All of it. Fields are only added."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "subject": subject,
        "copies": found.number,
        "isLimited": found.is_cut,
        "copiesOnOtherNodes": found.elsewhere,
        "nodes": [{"name": node, "copies": number} for node, number in _sorted(found)],
        "next": {"reason": reason_of(found.stopped)} if found.stopped is not None else None,
    }
