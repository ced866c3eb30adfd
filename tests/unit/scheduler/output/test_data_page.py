"""A page holds its data as JSON, and nothing in it is read as markup or run, but its own script."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from scheduler.output.data_page import (
    LIVE_SCRIPT,
    SCRIPT,
    STYLE,
    DataPage,
    MapColumns,
    PageTable,
    data_page,
    element,
    tree,
)
from scheduler.output.table import ColumnTable
from tests.unit.scheduler.output.pages import data_of

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\"><img src=x onerror='alert(1)'>",
    "javascript:alert(1)",
    "\u202e\u05e9\u05dc\u05d5\u05dd",
    "\u2028\u2029\x00\ud800",
    "x" * 253,
    "&lt;/style&gt;</style></title>",
)
"""Names that no API server lets through, and files can hold."""

HEADER = ["DEVICE", "NODE", "STATE", "CLAIMS"]
MAP = MapColumns("devices", name="DEVICE", node="NODE", state="STATE", holders="CLAIMS")


def a_page(*rows: list[str], title: str = "Devices", answer: tuple[str, ...] = ("1 device.",)) -> DataPage:
    return DataPage(title, answer, [PageTable("devices", "Devices", ColumnTable(HEADER, rows))], MAP)


class Parsed(HTMLParser):
    """The elements of a page, and the texts of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open = tag

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open, data))

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.tags if found == tag]

    def policy(self) -> str:
        (policy,) = [one["content"] for one in self.attributes("meta") if "http-equiv" in one]
        assert policy
        return policy


def test_data_is_what_the_tables_hold() -> None:
    data = data_of(data_page(a_page(["d/p/gpu-0", "node-1", "free", "-"])))
    assert data["tables"][0]["columns"] == [
        {"title": title, "isNumber": False} for title in ("Device", "Node", "State", "Claims")
    ]
    assert data["tables"][0]["groups"] == [["", [["d/p/gpu-0", "node-1", "free", "-"]]]]
    assert {name: data["map"][name] for name in ("name", "node", "state", "holders", "marks")} == {
        "name": 0,
        "node": 1,
        "state": 2,
        "holders": 3,
        "marks": None,
    }


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_never_markup(name: str) -> None:
    plain = Parsed(data_page(a_page(["a", "a", "a", "a"], title="a", answer=("a", "a"))))
    text = data_page(a_page([name, name, name, name], title=name, answer=(name, name)))
    page = Parsed(text)
    assert page.tags == plain.tags
    (row,) = data_of(text)["tables"][0]["groups"][0][1]
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    assert row == [shown] * 4
    assert ("h1", shown) in page.texts


def test_the_policy_allows_the_script_and_the_style_of_the_page_alone() -> None:
    text = data_page(a_page())
    page = Parsed(text)
    (style,) = [one for tag, one in page.texts if tag == "style"]
    scripts = [one for tag, one in page.texts if tag == "script"]
    assert style == STYLE
    assert scripts[-1] == SCRIPT
    assert page.attributes("script")[-1] == {}

    def hashed(one: str) -> str:
        return base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()

    assert page.policy() == (
        f"default-src 'none'; style-src 'sha256-{hashed(style)}'; script-src 'sha256-{hashed(scripts[-1])}'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_a_page_loads_nothing() -> None:
    page = Parsed(data_page(a_page()))
    assert not {"link", "img", "iframe", "object", "form", "base"} & {tag for tag, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on") or name == "src"]
    assert not re.search(
        r"https?://|@import|url\(|innerHTML|insertAdjacentHTML|document\.write|eval\(", STYLE + LIVE_SCRIPT
    )


def test_lines_are_lists_by_how_far_they_are_indented() -> None:
    found = tree(["node a", "  claim c", "    2 left", "  claim d", "", "other nodes", "  1 node"])
    words = [("".join(one.itertext()), one.find("ul") is not None) for one in found.iter("li")]
    assert words == [
        ("node aclaim c2 leftclaim d", True),
        ("claim c2 left", True),
        ("2 left", False),
        ("claim d", False),
        ("other nodes1 node", True),
        ("1 node", False),
    ]


def test_sections_are_in_the_page_without_the_script() -> None:
    page = DataPage("a", ["b"], [], sections=[element("p", {"class": "x"}, "of its own")])
    assert ("p", "of its own") in Parsed(data_page(page)).texts
