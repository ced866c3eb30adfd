"""The page of a simulation in a real browser: light, dark and printed."""

import re
import shutil
import struct
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.output.data_page import STYLE
from scheduler.output.simulation_report import SimulationReport
from scheduler.simulation.result import Distribution, ExplainedAttempt, ShapeSummary
from tests.browser import FLAGS, MISSING, PROGRAM, Browser, browser
from tests.extent import PRODUCT
from tests.unit.scheduler.simulated import SUMMARY, a_result, a_scenario

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.depends_on(*PRODUCT)]

Colour = tuple[int, int, int]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    line = [float(at) for at in range(101)]
    path = tmp_path / "page.html"
    scenarios = [
        a_scenario(policy, seed, allocated=[min(at, most + seed) for at in line])
        for policy, most in (("first-fit", 60), ("fgd", 90))
        for seed in (1, 2)
    ]
    path.write_text(SimulationReport(a_result(*scenarios)).html())
    return path


def chromium(page: Path, *flags: str) -> str:
    """What it writes; it has nothing to complain of the page."""
    profile = page.with_name("profile")
    command = [PROGRAM, *FLAGS, "--enable-logging=stderr", f"--user-data-dir={profile}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "CONSOLE" not in done.stderr, done.stderr
    shutil.rmtree(profile)
    return done.stdout


def colours(page: Path, *flags: str) -> Counter[Colour]:
    """How many pixels of a picture of the page have each colour."""
    picture = page.with_suffix(".png")
    chromium(page, "--window-size=700,1200", f"--screenshot={picture}", *flags)
    return Counter(pixels(picture.read_bytes()))


def pixels(png: bytes) -> list[Colour]:
    """The pixels of a PNG of 8 bits a channel, without or with transparency. Source: ISO/IEC 15948, filters of rows."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind) in {(8, 2), (8, 6)}
    size = 3 if kind == 2 else 4
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    raw, above, found = zlib.decompress(data), bytearray(width * size), []
    for row in range(height):
        start = row * (width * size + 1)
        above = unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + width * size]), above, size)
        found += [(above[at], above[at + 1], above[at + 2]) for at in range(0, width * size, size)]
    return found


def unfiltered(kind: int, row: bytearray, above: bytearray, size: int) -> bytearray:
    for at in range(len(row)):
        left, up = (row[at - size] if at >= size else 0), above[at]
        corner = above[at - size] if at >= size else 0
        near = min((left, up, corner), key=lambda one: abs(left + up - corner - one))
        row[at] = (row[at] + (0, left, up, (left + up) // 2, near)[kind]) & 255
    return row


def defined(name: str, place: int) -> Colour:
    """The colour of that name, where the style sheet gives it for the time of that number."""
    text = re.findall(rf"{name}: #(\w{{6}})", STYLE)[place]
    return int(text[:2], 16), int(text[2:4], 16), int(text[4:], 16)


@pytest.mark.parametrize(("flags", "place"), [((), 0), (("--blink-settings=preferredColorScheme=0",), 1)])
def test_page_is_drawn_in_the_colours_of_the_reader(page: Path, flags: tuple[str, ...], place: int) -> None:
    found = colours(page, *flags)
    assert found.most_common(1)[0][0] == defined("--paper", place)
    for name in ("--colour-0", "--colour-1", "--rule", "--ink"):
        assert found[defined(name, place)] > 50, name


def test_browser_reads_the_page_as_it_was_written(page: Path) -> None:
    dom = chromium(page, "--dump-dom")
    for part in ("<svg", "<table", "<details", "<tr", 'class="line"', 'class="area'):
        assert dom.count(part) == page.read_text().count(part) > 0


def test_page_can_be_printed(page: Path) -> None:
    printed = page.with_suffix(".pdf")
    chromium(page, f"--print-to-pdf={printed}", "--no-pdf-header-footer")
    assert printed.read_bytes().startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) <= 4


# -- what the browser measures

HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "\u202e\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "x" * 5000,
    "&lt;/style&gt;</style></title>",
)

TEXTS = """(() => {
  const shown = one => one.checkVisibility() && one.getClientRects().length;
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const brightness = colour => {
    const linear = one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = colour.map(one => linear(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = one => {
    for (; one; one = one.parentElement) {
      const colour = numbers(getComputedStyle(one).backgroundColor);
      if (colour.length === 3) return colour;
    }
    throw new Error("no background");
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const one = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || one.localName === "title" || !shown(one)) continue;
    const style = getComputedStyle(one), svg = one.ownerSVGElement;
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    const both = [numbers(svg ? style.fill : style.color), behind(one)].map(brightness);
    const box = one.getBoundingClientRect(), around = svg && svg.getBoundingClientRect();
    found.push({
      text: walk.currentNode.data.slice(0, 60),
      size: parseFloat(style.fontSize) * scale,
      contrast: (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05),
      isCut: !!svg && (box.left < around.left - 1 || box.right > around.right + 1
        || box.top < around.top - 1 || box.bottom > around.bottom + 1),
      isOfChart: !!svg,
    });
  }
  return found;
})()"""
"""Of each text that is seen: its size and contrast (WCAG 2.2, relative luminance), and whether a chart cuts it off."""

WIDTH = "document.documentElement.scrollWidth"
TOO_WIDE = """[...document.querySelectorAll("main *")].filter(one => one.checkVisibility() && !one.closest("svg")
  && one.getBoundingClientRect().right > innerWidth + 1 && !one.parentElement.closest(".wide, .values"))
  .map(one => one.outerHTML.slice(0, 200))"""
SCROLLERS = """[...document.querySelectorAll("*")].filter(one => one.scrollWidth > one.clientWidth + 1
  && ["auto", "scroll"].includes(getComputedStyle(one).overflowX) && one.clientWidth)
  .map(one => ({index: one.tabIndex, name: one.ariaLabel}))"""
SIDEWAYS = """[...document.querySelectorAll(".wide")].filter(one => one.scrollWidth > one.clientWidth + 1)
  .map(one => one.ariaLabel)"""
OPEN_ALL = 'document.querySelectorAll("details").forEach(one => { one.open = true; })'


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Ten policies with seeds and parameters, and an explained attempt."""
    line = [float(at) for at in range(101)]
    policies = [f"policy-{number}" for number in range(9)] + ["least-fragmentation:gpu.example.com/model"]
    scenarios = [
        a_scenario(
            policy,
            seed,
            parameters=parameters,
            allocated=[min(at, 60 + 3 * number + seed) for at in line],
            explained=[ExplainedAttempt("ml/train-0", 1.5, 1, reason="0/4 nodes are available: " + "no device. " * 20)],
        )
        for parameters in ({}, {"arrivals": "poisson:0.95"})
        for number, policy in enumerate(policies)
        for seed in (1, 2)
    ]
    path = tmp_path / "many.html"
    path.write_text(SimulationReport(a_result(*scenarios)).html())
    return path


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    shapes = tuple(ShapeSummary(name, 5, 4, 80.0, Distribution()) for name in HOSTILE)
    names = dict.fromkeys(HOSTILE, 3)
    summary = replace(SUMMARY, shapes=shapes, refusals=names, causes=dict.fromkeys(HOSTILE, 1.0))
    explained = [ExplainedAttempt(name, 1.0, 1, reason=name) for name in HOSTILE]
    scenarios = [
        a_scenario(name, parameters={name: name}, summary=summary, explained=explained)
        for name in (*HOSTILE, "first-fit")
    ] + [a_scenario(name, summary=summary) for name in (*HOSTILE, "first-fit")]
    path = tmp_path / "hostile.html"
    path.write_text(SimulationReport(a_result(*scenarios)).html())
    return path


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize("width", [360, 600, 821, 1200])
@pytest.mark.parametrize("name", ["many", "hostile"])
def test_text_can_be_read_at_every_width_and_only_tables_scroll(
    tab: Browser, request: pytest.FixtureRequest, name: str, width: int
) -> None:
    tab.open(request.getfixturevalue(name), width)
    tab.evaluate(OPEN_ALL)
    texts = tab.evaluate(TEXTS)
    assert sum(one["isOfChart"] for one in texts) > 50
    assert [one for one in texts if one["size"] < 11] == []
    assert [one for one in texts if one["isCut"]] == []
    assert tab.evaluate(WIDTH) == width
    assert tab.evaluate(TOO_WIDE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("media", ["screen", "print"])
def test_text_stands_out_from_what_is_behind_it(tab: Browser, many: Path, scheme: str, media: str) -> None:
    tab.open(many, 1000, scheme=scheme, media=media)
    texts = tab.evaluate(TEXTS)
    assert len(texts) > 100
    assert [one for one in texts if one["contrast"] < 4.5] == []


@pytest.mark.parametrize("name", ["many", "hostile"])
def test_wide_tables_are_printed_whole(tab: Browser, request: pytest.FixtureRequest, name: str) -> None:
    """On A4 with the margins of the style sheet: 186 mm at 96 pixels an inch."""
    tab.open(request.getfixturevalue(name), 703, media="print")
    assert tab.evaluate(WIDTH) == 703
    assert tab.evaluate(TOO_WIDE) == []
    assert tab.evaluate('[...document.querySelectorAll("table")].filter(one => one.offsetWidth > 704).length') == 0
    assert [one for one in tab.evaluate(TEXTS) if one["size"] < 9] == []


@pytest.mark.parametrize("name", ["many", "hostile"])
def test_no_table_scrolls_sideways_on_a_phone(tab: Browser, request: pytest.FixtureRequest, name: str) -> None:
    """Its rows are cards, and each value follows its column's title."""
    tab.open(request.getfixturevalue(name), 390)
    assert tab.evaluate(SIDEWAYS) == []
    title = 'getComputedStyle(document.querySelector(".wide td"), "::before").content'
    assert "Placed, %" in tab.evaluate(f'document.querySelector(".wide caption").textContent + {title}')


def test_what_scrolls_is_reached_by_keyboard_and_has_a_name(tab: Browser, many: Path) -> None:
    tab.open(many, 700)
    tab.evaluate(OPEN_ALL)
    found = tab.evaluate(SCROLLERS)
    assert len(found) > 3
    assert all(one["index"] == 0 and one["name"] for one in found)


def test_screen_readers_are_told_what_each_chart_and_table_is(tab: Browser, many: Path) -> None:
    tab.open(many, 1000)
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    named = [(one["role"]["value"], one.get("name", {}).get("value")) for one in nodes if not one["ignored"]]
    charts = [name for role, name in named if role in ("image", "img")]
    assert len(charts) == tab.evaluate('document.querySelectorAll(".chart:not(.narrow)").length')
    assert all("At the end" in name for name in charts)
    for role in ("region", "rowheader", "columnheader", "heading"):
        names = [name for found, name in named if found == role]
        assert names
        assert all(names), role


@pytest.mark.parametrize("name", ["many", "hostile"])
def test_browser_loads_nothing_else_and_complains_of_nothing(
    tab: Browser, request: pytest.FixtureRequest, name: str
) -> None:
    page = request.getfixturevalue(name)
    tab.open(page, 1000)
    assert tab.evaluate('document.querySelectorAll("script, img, link, iframe").length') == 0
    assert [one["request"]["url"] for one in tab.told("Network.requestWillBeSent")] == [page.as_uri()]
    assert [
        *tab.told("Log.entryAdded"),
        *tab.told("Runtime.consoleAPICalled"),
        *tab.told("Runtime.exceptionThrown"),
    ] == []


def test_browser_refuses_what_the_page_does_not_hold(tab: Browser, page: Path) -> None:
    """What would be loaded if names were ever read as markup."""
    tab.open(page, 1000)
    tab.evaluate('document.body.insertAdjacentHTML("beforeend", "<img src=\'http://127.0.0.1:9/x.png\'>")')
    tab.evaluate(
        '{ const one = document.createElement("script"); one.text = "window.ran = 1"; document.body.append(one) }'
    )
    assert tab.evaluate("window.ran") is None
    assert any("Content Security Policy" in one["entry"]["text"] for one in tab.told("Log.entryAdded"))
