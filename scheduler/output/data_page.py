"""HTML pages that need nothing but themselves."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from xml.etree.ElementTree import Element, tostring

import orjson

from allocator.api.versions import Json
from allocator.status import DeviceState
from scheduler import VERSION
from scheduler.output.table import ColumnTable
from scheduler.terminal_text import printable

# HTML and SVG as trees, so that no text of the input is ever read as markup.


Child = Element | str


def element(tag: str, attributes: dict[str, str] | None = None, *children: Child) -> Element:
    """An element with its children in their order."""
    made = Element(tag, attributes or {})
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + child
        else:
            made.text = (made.text or "") + child
    return made


def table(header: list[str], rows: list[list[Child]], caption: str = "") -> Element:
    """A table whose first column names its rows."""
    head = element("tr", {}, *(element("th", {"scope": "col"}, text) for text in header))
    body = [_row(header, row) for row in rows]
    parts = [element("thead", {}, head), element("tbody", {}, *body)]
    return element("table", {}, *([element("caption", {}, caption)] if caption else []), *parts)


def _row(header: list[str], cells: list[Child]) -> Element:
    """Each cell carries the title of its column, which is shown before it where rows are cards."""
    first, *others = cells
    # A row that counts those that are left out has no other cells.
    titled = (element("td", {"data-title": title}, cell) for title, cell in zip(header[1:], others, strict=False))
    return element("tr", {}, element("th", {"scope": "row"}, first), *titled)


def policy(*allowed: str) -> str:
    """A Content-Security-Policy that forbids all that is not named. allowed: such as `script-src 'self'`."""
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def allowances(style: str, script: str, *, connects: bool) -> list[str]:
    """What a page needs: this style and script, and no other. connects: also the server that it comes from."""
    directives = [_allowed("style-src", style), *([_allowed("script-src", script)] if script else [])]
    return [*directives, *(["connect-src 'self'"] if connects else [])]


def _allowed(directive: str, text: str) -> str:
    digest = b64encode(sha256(text.encode()).digest()).decode()
    return f"{directive} 'sha256-{digest}'"


def embedded(data: object) -> Element:
    """Data as JSON in the page, in which nothing can end the element."""
    text = orjson.dumps(data).decode().replace("<", "\\u003c")
    return element("script", {"type": "application/json", "id": "data"}, text)


def document(title: str, style: str, *body: Child, script: str = "", connects: bool = False) -> str:
    """A page that loads nothing and runs this script alone: its policy forbids all else.

    style: CSS. connects: the script may connect to the server of the page.
    """
    metas = [
        {"charset": "utf-8"},
        {"name": "viewport", "content": "width=device-width, initial-scale=1"},
        {"name": "color-scheme", "content": "light dark"},
        {"name": "referrer", "content": "no-referrer"},
        {
            "http-equiv": "Content-Security-Policy",
            "content": policy(*allowances(style, script, connects=connects)),
        },
    ]
    head = element(
        "head",
        {},
        *(element("meta", attributes) for attributes in metas),
        element("title", {}, title),
        element("style", {}, style),
    )
    scripts = [element("script", {}, script)] if script else []
    page = element("html", {"lang": "en"}, head, element("body", {}, *body, *scripts))
    return "<!doctype html>\n" + tostring(page, encoding="unicode", method="html") + "\n"


# The style sheet of all pages, and the script of those with tables and a map.


_ROOM = files("scheduler.output")

STYLE = _ROOM.joinpath("page.css").read_text(encoding="utf-8")
"""For light and dark screens, small ones, and paper."""

SCRIPT = _ROOM.joinpath("page.js").read_text(encoding="utf-8")
"""Draws the data that the page holds as JSON, and sorts and filters it."""

LIVE_SCRIPT = _ROOM.joinpath("live_page.js").read_text(encoding="utf-8") + SCRIPT
"""The same for a page that follows a program."""


# An answer as a page of its own: in words, as a map of nodes and devices, and as tables that sort and filter.
#
# The page holds its data as JSON, and one script that draws it. It loads nothing, and its policy forbids all else.


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of a page."""

    name: str
    """Unique in the page."""
    caption: str
    """What it shows, in a few words."""
    table: ColumnTable
    none: str = ""
    """If it has no rows."""
    members: Mapping[int, Sequence[Sequence[str]]] = field(default_factory=dict)
    """By the number of a row that stands for several, the row of each, in which an empty cell is as in that row."""


@dataclass(frozen=True, slots=True)
class StateLook:
    """How the map shows a state. letter: read without colours. colour: a number of the style sheet, None for none."""

    name: str
    letter: str
    colour: int | None
    text: str


DEVICE_STATES = (
    StateLook(DeviceState.FREE, "F", None, "can be allocated"),
    StateLook(DeviceState.ALLOCATED, "A", 0, "a claim holds it alone"),
    StateLook(DeviceState.SHARED, "S", 6, "claims hold shares of it"),
    StateLook(DeviceState.UNUSABLE, "U", 7, "its pool cannot be used, or it has fields that are not known"),
    StateLook(DeviceState.TAINTED, "T", 4, "only for requests that tolerate its taint"),
    StateLook(DeviceState.BLOCKED, "B", 3, "devices in use have taken its counters"),
)


@dataclass(frozen=True, slots=True)
class MapColumns:
    """A map of the devices of a table, by its columns."""

    table: str
    name: str
    node: str
    state: str
    holders: str
    marks: str = ""
    """A column; devices where it is not `-` have a border, which mark_text explains."""
    mark_text: str = ""
    kind: str = ""
    """A column whose values have a shape each."""
    place: str = ""
    whole: str = ""
    """place, whole: columns by which the devices of a node are grouped: where they are, and what they are cut from."""
    check: str = ""
    """A column with a symbol in place of the letter, or `-`; checks explain the symbols."""
    checks: Sequence[tuple[str, str]] = ()
    before: tuple[str, str] | None = None
    """State and holders before a change, of a map beside this one."""
    nodes: str = ""
    """A table of nodes that the map marks, with the reason beside each name."""
    groups: Sequence[tuple[str, str]] = (("namespace", "Namespace"), ("claim", "Claim"))
    """What devices can be coloured by besides their states, as (value, title); by all but `namespace`, the first of the
    holders counts as it is written.
    """
    states: Sequence[StateLook] = DEVICE_STATES


@dataclass(frozen=True, slots=True)
class DataPage:
    """A page."""

    title: str
    answer: Sequence[str]
    """Sentences, the first of which is the answer; the others add to it."""
    tables: Sequence[PageTable]
    map: MapColumns | None = None
    sections: Sequence[Element] = ()
    """More of it, before the map."""
    details: Sequence[Element] = ()
    """After the tables. Both are there without the script."""
    events: str = ""
    """Of a page that follows a program, where its data comes from, relative to the page; else empty."""


def data_page(page: DataPage, head: Sequence[str] = ()) -> str:
    """The page, as HTML. head: what it is about: the input, the release, and the time."""
    title = printable(page.title)
    main = element(
        "main",
        {},
        element("h1", {}, title),
        head_line(head),
        *_answer(page.answer),
        *(_live() if page.events else []),
        *page.sections,
        element("noscript", {}, element("p", {}, "The map and the tables are drawn by a script, which is off.")),
        element("div", {"id": "drawn"}),
        *page.details,
    )
    script = LIVE_SCRIPT if page.events else SCRIPT
    return document(title, STYLE, main, embedded(_data(page)), script=script, connects=bool(page.events))


def head_line(head: Sequence[str]) -> Element:
    """What the page is about, and which program made it."""
    return element("p", {"class": "head"}, " · ".join([*map(printable, head), f"dra-scheduler {VERSION}"]))


def live_policy(*more: str) -> str:
    """The policy of a page that follows a program, for the header of HTTP. more: what only a header can say."""
    return policy(*allowances(STYLE, LIVE_SCRIPT, connects=True), *more)


def _live() -> Iterator[Element]:
    """Whether the page follows the program, and until when: the time changes too often to be read out."""
    state, moment = element("span", {"id": "live", "role": "status"}), element("span", {"id": "moment"})
    yield element("p", {"class": "live"}, state, " ", moment)


def _answer(sentences: Sequence[str]) -> list[Element]:
    first, *others = map(printable, sentences)
    points = [element("ul", {"class": "points"}, *(element("li", {}, one) for one in others))] if others else []
    return [element("p", {"class": "answer"}, first), *points]


def tree(lines: Sequence[str]) -> Element:
    """Lines as nested lists, by how far they are indented."""
    made = element("ul", {"class": "tree"})
    open_: list[tuple[int, Element]] = [(-1, made)]
    for line in filter(str.strip, lines):
        depth = len(line) - len(line.lstrip())
        while depth <= open_[-1][0]:
            open_.pop()
        item = element("li", {}, printable(line.strip()))
        _list_in(open_[-1][1]).append(item)
        open_.append((depth, item))
    return made


def _list_in(parent: Element) -> Element:
    """The list that the items of a list, or those below an item, are in."""
    if parent.tag == "ul":
        return parent
    branch = parent.find("ul")
    if branch is None:
        branch = element("ul", {"class": "tree"})
        parent.append(branch)
    return branch


def _data(page: DataPage) -> Json:
    has_rows = page.map and any(one.name == page.map.table and one.table.rows for one in page.tables)
    return {
        "map": _map(page.map, page.tables) if page.map and (has_rows or page.events) else None,
        "tables": [_table(one) for one in page.tables],
        "events": page.events,
    }


def _table(one: PageTable) -> Json:
    columns = [
        {"title": printable(title.capitalize()), "isNumber": title in one.table.numbers} for title in one.table.header
    ]
    rows: list[list[object]] = [_cells(row) for row in one.table.rows]
    for number, members in one.members.items():
        rows[number].append([_cells(row) for row in members])
    caption = printable(one.caption)
    none = one.none or f"{caption}: none."
    bar = _bar(list(one.table.header))
    return {"id": one.name, "caption": caption, "none": none, "columns": columns, "bar": bar, "groups": [["", rows]]}


def _cells(row: Sequence[str]) -> list[object]:
    return [printable(cell) for cell in row]


def _bar(header: Sequence[str]) -> Json | None:
    """How many devices are in which state, or how much of a limit is in use, of a table with these numbers."""
    if {"USED", "MOST", "%"} <= set(header):
        at = header.index("%")
        allocated = next(one for one in DEVICE_STATES if one.name == DeviceState.ALLOCATED)
        return {"column": at, "parts": [{"column": at, "colour": allocated.colour}], "whole": 100}
    if "DEVICES" not in header:
        return None
    looks = sorted(DEVICE_STATES, key=lambda one: one.colour is None)  # free ones stand last
    states = [(header.index(title), one) for one in looks if (title := one.name.upper()) in header]
    if not states:
        return None
    return {"column": header.index("DEVICES"), "parts": [{"column": at, "colour": one.colour} for at, one in states]}


def _map(columns: MapColumns, tables: Sequence[PageTable]) -> Json:
    header = next(list(one.table.header) for one in tables if one.name == columns.table)
    return {
        "table": columns.table,
        "name": header.index(columns.name),
        "node": header.index(columns.node),
        "state": header.index(columns.state),
        "holders": header.index(columns.holders),
        "marks": header.index(columns.marks) if columns.marks else None,
        "markText": columns.mark_text,
        "kind": header.index(columns.kind) if columns.kind else None,
        "place": header.index(columns.place) if columns.place else None,
        "whole": header.index(columns.whole) if columns.whole else None,
        "check": header.index(columns.check) if columns.check else None,
        "checks": columns.checks,
        "nodes": columns.nodes,
        "before": dict(zip(("state", "holders"), map(header.index, columns.before), strict=True))
        if columns.before
        else None,
        "groups": columns.groups,
        "states": [
            {"name": one.name, "letter": one.letter, "colour": one.colour, "text": one.text} for one in columns.states
        ],
    }
