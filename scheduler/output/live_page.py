"""The page at `/ui` of a running program: the page of `dra status`, which follows the program's events."""

from scheduler.output.columns import ColumnTable
from scheduler.output.data_page import DataPage, PageTable, data_page, live_policy
from scheduler.output.device_map import MAP, device_map
from scheduler.output.status_report import class_columns, tally_columns

ANSWER, QUEUE, DECISIONS, PROBLEMS = "answer", "queue", "decisions", "problems"
DRIVERS, CLASSES = "drivers", "classes"
"""Names of the tables; the answer is none, and has a line for each sentence."""

EVENTS = "ui/events"
"""Where the page gets its data, from the place of the page."""

_TABLES = (
    PageTable(
        DECISIONS,
        "Last decisions",
        ColumnTable(["TIME", "POD", "RESULT", "NODE", "DEVICES, OR WHY THERE ARE NONE"], ()),
    ),
    PageTable(
        QUEUE,
        "Pods that wait",
        ColumnTable(["POD", "QUEUE", "PRIORITY", "ATTEMPTS", "REASON"], (), frozenset({"PRIORITY", "ATTEMPTS"})),
    ),
    PageTable(PROBLEMS, "Pools with problems", ColumnTable(["POOL", "PROBLEM"], ())),
    PageTable(DRIVERS, "Drivers", tally_columns("DRIVER", ())),
    PageTable(CLASSES, "Classes", class_columns((), {})),
    device_map((), ()),
)


def live_page(title: str) -> str:
    """The page, as HTML, without data."""
    return data_page(DataPage(title, ["Connecting ..."], _TABLES, MAP, events=EVENTS))


def headers() -> dict[str, str]:
    """Of the page: what it may do, which is what its own policy says, and where it may be shown."""
    return {
        "Content-Security-Policy": live_policy("frame-ancestors 'none'"),
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
