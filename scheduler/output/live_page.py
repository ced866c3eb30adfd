"""The page at `/ui` of a running program: the page of `dra status`, which follows the program's events."""

from collections.abc import Sequence
from dataclasses import replace

from scheduler.output.data_page import DataPage, PageTable, data_page, live_policy
from scheduler.output.status_report import MAP, class_columns, closed_nodes, device_map, tally_columns
from scheduler.output.table import ColumnTable

ANSWER, QUEUE, DECISIONS, PROBLEMS = "answer", "queue", "decisions", "problems"
GROUPS = "groups"
DRIVERS, CLASSES = "drivers", "classes"
TIME_LINE = "time-line"
"""Names of the tables; the answer is none, and has a line for each sentence."""

EVENTS = "ui/events"
"""Where the page gets its data, from the place of the page."""

_TIME_LINE = ("TIME", "PODS THAT WAIT", "DECISIONS A SECOND", "ALLOCATED DEVICES OF EACH CLASS")

_GROUP_NUMBERS = frozenset({"PODS", "WAITING", "MINIMUM"})

_TABLES = (
    PageTable(
        DECISIONS,
        "Last decisions",
        ColumnTable(["TIME", "POD", "RESULT", "NODE", "DEVICES, OR WHY THERE ARE NONE"], ()),
        "No decision since the program started.",
    ),
    PageTable(
        QUEUE,
        "Pods that wait",
        ColumnTable(["POD", "QUEUE", "PRIORITY", "ATTEMPTS", "REASON"], (), frozenset({"PRIORITY", "ATTEMPTS"})),
        "No pod waits.",
    ),
    PageTable(
        GROUPS,
        "Groups of pods that wait",
        ColumnTable(["GROUP", "SOURCE", "PODS", "WAITING", "MINIMUM", "REASON"], (), _GROUP_NUMBERS),
        "No group of pods waits.",
    ),
    PageTable(
        PROBLEMS, "Pools with problems", ColumnTable(["POOL", "PROBLEM"], ()), "No pool read so far has problems."
    ),
    PageTable(DRIVERS, "Drivers", tally_columns("DRIVER", ()), "No driver read so far."),
    PageTable(CLASSES, "Classes", class_columns((), {}), "No class read so far."),
    replace(device_map((), (), None), none="No device read so far."),
    closed_nodes(None),
    PageTable(
        TIME_LINE,
        "Numbers of the last hour",
        ColumnTable(_TIME_LINE, (), frozenset(_TIME_LINE[1:3])),
        "No sample so far: the program takes one every 10 seconds.",
    ),
)


def live_page(title: str, head: Sequence[str]) -> str:
    """The page, as HTML, without data."""
    return data_page(DataPage(title, ["Connecting ..."], _TABLES, MAP, events=EVENTS), head)


def headers() -> dict[str, str]:
    """Of the page: what it may do, which is what its own policy says, and where it may be shown."""
    return {
        "Content-Security-Policy": live_policy("frame-ancestors 'none'"),
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
