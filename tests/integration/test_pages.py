"""Pages with tables and a map in a real browser: sorting, filtering, keyboard, screen readers, screens and paper."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from allocator.gates import DEFAULT_RELEASE
from scheduler import VERSION
from scheduler.output import ui_server
from scheduler.output.data_page import DataPage, MapColumns, PageTable, data_page
from scheduler.output.table import ColumnTable
from tests.browser import MISSING, PROGRAM, Browser, browser
from tests.builders import watched
from tests.controlplane.fleet import EXAMPLES
from tests.controlplane.polling import poll_until
from tests.extent import PRODUCT
from tests.integration.test_simulation_page import TEXTS, TOO_WIDE, WIDTH
from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.manifests import a_claim, a_cluster, a_pod, a_request, a_template, an_allocated_claim, text_of
from tests.unit.scheduler.output.shown import Program as LiveProgram
from tests.unit.scheduler.output.shown import a_holder, served
from tests.unit.scheduler.output.test_data_page import HOSTILE

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.depends_on(*PRODUCT)]

FLEET = str(EXAMPLES / "fleet")
HEADER = ["DEVICE", "NODE", "STATE", "CLAIMS", "USED BY", "CAPACITY LEFT"]
MAP = MapColumns("devices", name="DEVICE", node="NODE", state="STATE", holders="CLAIMS")
STATES = ("allocated", "free", "shared", "tainted", "blocked", "unusable")


def a_row(node: int, device: int) -> list[str]:
    state = STATES[(node + device) % 6]
    holder = f"team-{node % 12}/job-{node}" if state in ("allocated", "shared") else "-"
    name = f"node-{node:04}"
    return [f"gpu.example.com/{name}/gpu-{device}", name, state, holder, f"pod/job-{node}-0", "memory 10Gi of 80Gi"]


def a_fleet(nodes: int) -> DataPage:
    """Nodes with eight devices each."""
    rows = [a_row(node, device) for node in range(nodes) for device in range(8)]
    drivers = [["net.example.com", "9"], ["gpu.example.com", "100"], ["npu.example.com", "20"]]
    tables = [
        PageTable("drivers", "Drivers", ColumnTable(["DRIVER", "DEVICES"], drivers, frozenset({"DEVICES"}))),
        PageTable("devices", "Devices", ColumnTable(HEADER, rows)),
    ]
    return DataPage("Devices", ["Some devices are free.", "More of it."], tables, MAP)


def hostile() -> DataPage:
    rows = [[name, name, "allocated", f"{name}/{name}", name, name] for name in HOSTILE]
    table = PageTable("devices", HOSTILE[0], ColumnTable(HEADER, rows))
    return DataPage(HOSTILE[0], HOSTILE, [table], MAP)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    found = {"small": a_fleet(10), "large": a_fleet(5000), "hostile": hostile(), "grouped": grouped()}
    folder = tmp_path_factory.mktemp("pages")
    for name, page in found.items():
        (folder / f"{name}.html").write_text(data_page(page))
    return {name: folder / f"{name}.html" for name in found}


def grouped() -> DataPage:
    """A row of three pods that say the same, and one of another."""
    table = ColumnTable(["POD", "NODE", "REASON"], [["ml/b and 2 more", "-", "too few"], ["ml/a", "-", "too many"]])
    members = {0: [[f"ml/{name}", "", ""] for name in "bcd"]}
    return DataPage("Pods", ["Some wait."], [PageTable("pods", "Pods", table, members=members)])


COMMANDS: Mapping[str, Sequence[str]] = {
    "status": ["status", "-"],
    "claims": ["claims", "-"],
    "explain": ["explain", "default/p", "-"],
    "explain-all": ["explain", "--all", "-"],
    "fit": ["fit", "pod/default/p", "-"],
    "whatif": ["whatif", "-", "--overlay", "drain:node-1", "--overlay", "remove:node/node-2"],
    "defrag": ["defrag", "-", "--for", "p"],
    "lint": ["lint", "-"],
    "audit": ["audit", "-"],
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """What the subcommands print of a small cluster in which something is wrong."""
    broken = a_claim("broken", a_request(selectors=[{"cel": {"expression": "device.driver =="}}]))
    twice = [an_allocated_claim(name, "gpu-0") for name in ("a", "b")]
    objects = [*a_cluster("node-1", "node-2", "node-3"), a_template("one"), *twice, a_pod("p", template="one")]
    folder = tmp_path_factory.mktemp("printed")
    for name, command in COMMANDS.items():
        stdin = text_of(*objects, *([broken] if name == "lint" else []))
        (folder / f"{name}.html").write_text(dra(*command, "-o", "html", stdin=stdin).out)
    return {name: folder / f"{name}.html" for name in COMMANDS}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


ROWS = """(name => [...document.querySelectorAll(`[aria-label="${name}"] tbody tr:not(.gap)`)]
  .map(row => [...row.cells].map(cell => cell.textContent)))"""
SORTS = """[...document.querySelectorAll('section[aria-label="Drivers"] th[aria-sort]')].map(one => one.ariaSort)"""
TILES = '[...document.querySelectorAll(".node")].map(one => one.ariaLabel)'


def rows(tab: Browser, table: str) -> list[list[str]]:
    found: list[list[str]] = tab.evaluate(f"{ROWS}({table!r})")
    return found


def press(tab: Browser, key: str) -> None:
    text = {"Enter": "\r", " ": " "}.get(key, "")
    code = {"Enter": 13, " ": 32, "Tab": 9, "ArrowRight": 39, "ArrowDown": 40, "End": 35, "Home": 36}[key]
    common: dict[str, object] = {"key": key, "windowsVirtualKeyCode": code}
    tab.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
    tab.call("Input.dispatchKeyEvent", type="keyUp", **common)


def focused(tab: Browser) -> str:
    return str(tab.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent"))


def complaints(tab: Browser) -> list[dict[str, Any]]:
    names = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
    return [one for name in names for one in tab.told(name)]


@pytest.mark.parametrize("name", ["small", "large", "hostile"])
def test_browser_loads_nothing_else_and_complains_of_nothing(
    tab: Browser, pages: Mapping[str, Path], name: str
) -> None:
    tab.open(pages[name], 1000)
    assert tab.evaluate('document.querySelectorAll("#drawn tbody tr").length') > 5
    assert [one["request"]["url"] for one in tab.told("Network.requestWillBeSent")] == [pages[name].as_uri()]
    assert complaints(tab) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_what_subcommands_print_is_drawn_without_a_complaint(
    tab: Browser, printed: Mapping[str, Path], name: str
) -> None:
    tab.open(printed[name], 360)
    maps = 2 if name in ("defrag", "fit", "whatif") else 1  # before and after
    assert tab.evaluate('document.querySelectorAll(".map").length') == maps
    assert tab.evaluate('document.querySelectorAll(".node").length') == maps * (1 if name == "claims" else 3)
    assert tab.evaluate('document.querySelectorAll("table").length') >= 2
    assert complaints(tab) == []
    assert tab.evaluate(WIDTH) == 360
    assert [one for one in tab.evaluate(TEXTS) if one["size"] < 11 or one["contrast"] < 4.5] == []


def test_browser_refuses_what_the_page_does_not_hold(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["small"], 1000)
    tab.evaluate('document.body.insertAdjacentHTML("beforeend", "<img src=\'http://127.0.0.1:9/x.png\'>")')
    tab.evaluate('{ const one = document.createElement("script"); one.text = "ran = 1"; document.body.append(one) }')
    tab.evaluate('fetch("http://127.0.0.1:9/x").catch(() => {}); 1')
    assert tab.evaluate("window.ran") is None
    refused = [one["entry"]["text"] for one in tab.told("Log.entryAdded")]
    assert sum("Content Security Policy" in text for text in refused) >= 3
    assert not [one for one in tab.told("Network.responseReceived") if "127.0.0.1" in one["response"]["url"]]


def test_hostile_names_are_text(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["hostile"], 1000)
    assert tab.evaluate('document.querySelectorAll("img").length') == 0
    assert tab.evaluate('document.querySelectorAll("script").length') == 2
    shown = ["".join(c if c.isprintable() else ascii(c)[1:-1] for c in name) for name in HOSTILE]
    assert [row[0] for row in rows(tab, HOSTILE[0].replace('"', '\\"'))] == shown


# -- tables


def test_a_table_is_sorted_by_the_button_in_its_header(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["small"], 1000)
    tab.evaluate("""document.querySelector('section[aria-label="Drivers"] th:nth-child(2) button').focus()""")
    assert tab.evaluate(SORTS) == ["none", "none"]
    press(tab, "Enter")
    assert [row[1] for row in rows(tab, "Drivers")] == ["9", "20", "100"]
    assert tab.evaluate(SORTS) == ["none", "ascending"]
    press(tab, " ")
    assert [row[1] for row in rows(tab, "Drivers")] == ["100", "20", "9"]
    assert tab.evaluate(SORTS) == ["none", "descending"]


@pytest.mark.parametrize("field", ["filter-devices", "filter-map"])
def test_a_pod_is_found_by_its_name_among_5000_nodes(tab: Browser, pages: Mapping[str, Path], field: str) -> None:
    tab.open(pages["large"], 1000)
    tab.evaluate(f'document.getElementById("{field}").focus()')
    tab.call("Input.insertText", text="POD/job-4321-0 shared")
    assert [row[0] for row in rows(tab, "Devices")] == [
        "gpu.example.com/node-4321/gpu-1",
        "gpu.example.com/node-4321/gpu-7",
    ]
    assert [one.partition(":")[0] for one in tab.evaluate(TILES)] == ["node-4321"]
    assert tab.evaluate("""document.querySelector('output[for="filter-devices"]').textContent""") == "2 of 40,000 rows"
    assert tab.evaluate("""document.querySelector('output[for="filter-map"]').textContent""") == "1 of 5,000 nodes"


def test_what_a_filter_leaves_is_sorted_as_before(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["large"], 1000)
    tab.evaluate("""document.querySelectorAll('section[aria-label="Devices"] th button')[2].click()""")
    tab.evaluate('document.getElementById("filter-devices").focus()')
    tab.call("Input.insertText", text="node-0007")
    states = [row[2] for row in rows(tab, "Devices")]
    assert states == sorted(states)
    assert len(states) == 8


# -- 5,000 nodes

FRAME = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
LONGEST = """window.box = [...document.querySelectorAll("{kind}")].sort((a, b) => b.scrollHeight - a.scrollHeight)[0];
  window.elements = 0;
  new MutationObserver(found => found.forEach(one => one.addedNodes.forEach(
    node => elements += 1 + (node.querySelectorAll ? node.querySelectorAll("*").length : 0)))
  ).observe(box, {{childList: true, subtree: true}});
  box.scrollIntoView(); box.scrollHeight - box.clientHeight"""


def work_ms(tab: Browser) -> float:
    """Processor time of the page's thread so far, which other programs on the machine do not add to."""
    found = {one["name"]: one["value"] for one in tab.call("Performance.getMetrics")["metrics"]}
    return 1000 * float(found["TaskDuration"])


def scrolled(tab: Browser, places: Sequence[float]) -> list[float]:
    """The work of the frame after each step."""
    frames = []
    for place in places:
        before = work_ms(tab)
        tab.call("Runtime.evaluate", expression=f"box.scrollTop = {place}; {FRAME}", awaitPromise=True)
        frames.append(work_ms(tab) - before)
    return frames


@pytest.mark.parametrize("kind", [".map", ".rows"])
def test_no_frame_takes_50_ms_of_work_while_40000_devices_scroll(
    tab: Browser, pages: Mapping[str, Path], kind: str
) -> None:
    tab.open(pages["large"], 1100)
    tab.call("Performance.enable", timeDomain="threadTicks")
    height = tab.evaluate(LONGEST.format(kind=kind))
    assert height > 40_000
    places = [step * 120 for step in range(20)]  # by the wheel
    places += [height * (step * 7 % 10) / 10 for step in range(10)]  # by the scroll bar
    # What takes long by itself does so each time; a collection of garbage does not.
    frames = [min(found) for found in zip(*(scrolled(tab, places) for _ in range(3)), strict=True)]
    assert min(frames) > 0
    assert [one for one in frames if one >= 50] == []
    assert 500 < tab.evaluate("elements") < 3 * 30 * 1000
    assert tab.evaluate('document.querySelectorAll("*").length') < 3000


def test_rows_in_the_middle_are_drawn_where_they_are(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["large"], 1000)
    tab.evaluate(LONGEST.format(kind=".rows"))
    tab.call("Runtime.evaluate", expression=f"box.scrollTop = 26 * 20000; {FRAME}", awaitPromise=True)
    seen = tab.evaluate(
        """(() => { const at = box.getBoundingClientRect();
        return document.elementFromPoint(at.left + 20, at.top + 200).closest("tr").ariaRowIndex })()"""
    )
    shown = [row[0] for row in rows(tab, "Devices")]
    assert "gpu.example.com/node-2500/gpu-0" in shown
    assert 20_000 < int(seen) < 20_012


# -- keyboard and screen readers


def test_the_map_is_walked_by_arrow_keys_and_enter_shows_a_node(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["large"], 1100)
    tab.evaluate('document.querySelector(".map").focus()')
    for key, name in (
        ("ArrowRight", "node-0000"),
        ("ArrowRight", "node-0001"),
        ("ArrowDown", "node-0007"),
        ("End", "node-4999"),
    ):
        press(tab, key)
        assert focused(tab).startswith(f"{name}: 8 devices: ")
    press(tab, "Enter")
    assert tab.evaluate("document.activeElement.ariaPressed") == "true"
    shown = rows(tab, "Devices of node-4999")
    assert [row[0] for row in shown] == [f"gpu.example.com/node-4999/gpu-{number}" for number in range(8)]


def test_everything_is_reached_by_the_keyboard(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["small"], 1000)
    reached = []
    for _ in range(20):
        press(tab, "Tab")
        reached.append(tab.evaluate("document.activeElement.id || document.activeElement.className || "
                                    "document.activeElement.textContent"))  # fmt: skip
    assert reached[:9] == [
        "filter-map",
        "colours",
        "map",
        "node",
        "filter-drivers",
        "rows",
        "Driver",
        "Devices",
        "filter-devices",
    ]


def test_screen_readers_are_told_what_everything_is(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["large"], 1000)
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    named = [(one["role"]["value"], one.get("name", {}).get("value", "")) for one in nodes if not one["ignored"]]
    for role in ("region", "table", "columnheader", "rowheader", "searchbox", "button", "combobox", "heading"):
        names = [name for found, name in named if found == role]
        assert names, role
        assert all(names), role
    assert ("searchbox", "Filter: Drivers") in named
    assert ("button", "node-0000: 8 devices: 2 allocated, 2 free, 1 shared, 1 tainted, 1 blocked, 1 unusable") in named
    assert tab.evaluate("""document.querySelector('section[aria-label="Devices"] table').ariaRowCount""") == "40001"
    ids = tab.evaluate('[...document.querySelectorAll("[id]")].map(one => one.id)')
    assert len(ids) == len(set(ids)) > 3


def test_states_are_told_without_colours(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["small"], 1000)
    assert tab.evaluate('document.querySelector(".node .cells").textContent') == "AFSTBUAF"
    legend = tab.evaluate('[...document.querySelectorAll(".legend li")].map(one => one.textContent)')
    assert [text.partition(":")[0] for text in legend] == [
        "Ffree",
        "Aallocated",
        "Sshared",
        "Uunusable",
        "Ttainted",
        "Bblocked",
    ]


def test_the_map_is_coloured_by_who_holds_devices(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["large"], 1000)
    choose = """(value => { const one = document.getElementById("colours"); one.value = value;
      one.dispatchEvent(new Event("change")) })"""
    tab.evaluate(f'{choose}("namespace")')
    legend = tab.evaluate('[...document.querySelectorAll(".legend li")].map(one => one.textContent)')
    assert legend[0].startswith("1team-")
    assert legend[-1] == "+4 more, in the same colours"
    tab.evaluate(f'{choose}("claim")')
    assert tab.evaluate('document.querySelector(".node .cell").textContent') == "1"


# -- screens and paper


@pytest.mark.parametrize("width", [360, 821, 1200])
@pytest.mark.parametrize("name", ["small", "hostile"])
def test_text_can_be_read_at_every_width_and_only_boxes_scroll(
    tab: Browser, pages: Mapping[str, Path], name: str, width: int
) -> None:
    tab.open(pages[name], width)
    tab.evaluate('document.querySelector(".node").click()')
    assert [one for one in tab.evaluate(TEXTS) if one["size"] < 11] == []
    assert tab.evaluate(WIDTH) == width
    boxes = TOO_WIDE.replace(".wide, .values", ".wide, .rows, .map")
    assert tab.evaluate(boxes) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(tab: Browser, pages: Mapping[str, Path], scheme: str) -> None:
    tab.open(pages["small"], 1000, scheme=scheme)
    texts = tab.evaluate(TEXTS)
    assert len(texts) > 100
    assert [one for one in texts if one["contrast"] < 4.5] == []
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}[scheme]


def test_a_long_table_is_printed_up_to_a_thousand_rows(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["large"], 1000)
    tab.evaluate('dispatchEvent(new Event("beforeprint"))')
    assert len(rows(tab, "Devices")) == 1000
    tab.evaluate('dispatchEvent(new Event("afterprint"))')
    assert len(rows(tab, "Devices")) < 100


@pytest.mark.parametrize("name", ["small", "hostile"])
def test_the_map_and_tables_are_printed_whole(tab: Browser, pages: Mapping[str, Path], name: str) -> None:
    """On A4 with the margins of the style sheet: 186 mm at 96 pixels an inch."""
    tab.open(pages[name], 1000)
    tab.evaluate('dispatchEvent(new Event("beforeprint"))')
    tab.call("Emulation.setEmulatedMedia", media="print")
    tab.call("Emulation.setDeviceMetricsOverride", width=703, height=800, deviceScaleFactor=1, mobile=False)
    assert tab.evaluate(WIDTH) == 703
    assert tab.evaluate(TOO_WIDE) == []
    assert tab.call("Page.printToPDF")["data"]


# -- what pages say


def test_nothing_but_the_page_scrolls_on_a_phone_and_rows_are_cards(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["large"], 390)
    scrollers = """[...document.querySelectorAll("main *")].filter(one => one.checkVisibility()
      && [one.scrollHeight > one.clientHeight + 1 && getComputedStyle(one).overflowY,
          one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX]
        .some(value => ["auto", "scroll"].includes(value))).map(one => one.className)"""
    assert tab.evaluate(scrollers) == []
    assert tab.evaluate(WIDTH) == 390
    assert len(rows(tab, "Devices")) == 50
    card = """(row => [...row.cells].filter(one => one.checkVisibility())
      .map(one => getComputedStyle(one, "::before").content.replaceAll('"', "")))"""
    first = """document.querySelector('[aria-label="Devices"] tbody tr:not(.gap)')"""
    assert tab.evaluate(f"{card}({first})") == ["none", *(f"{one.capitalize()}: " for one in HEADER[1:])]
    more = """[...document.querySelectorAll('section[aria-label="Devices"] .more')][0]"""
    assert tab.evaluate(f"{more}.textContent") == "Show more of 40,000 rows"
    tab.evaluate(f"{more}.click()")
    assert len(rows(tab, "Devices")) == 200
    assert tab.evaluate('document.querySelectorAll(".node").length') == 50


def test_a_table_without_rows_is_a_line(tab: Browser, printed: Mapping[str, Path]) -> None:
    tab.open(printed["status"], 1000)
    section = """document.querySelector('section[aria-label="Pools with problems"]')"""
    assert tab.evaluate(f"{section}.innerText.trim()") == "No pool has problems."


def test_the_head_names_input_release_time_and_program(tab: Browser, printed: Mapping[str, Path]) -> None:
    for path in printed.values():
        tab.open(path, 1000)
        head = tab.evaluate('document.querySelector(".head").textContent').split(" · ")
        assert head[:2] == ["standard input", f"Kubernetes {DEFAULT_RELEASE}"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", head[2])
        assert head[3:] == [f"dra-scheduler {VERSION}"]


def test_bars_have_the_shares_that_the_numbers_say(tab: Browser, printed: Mapping[str, Path]) -> None:
    tab.open(printed["status"], 1000)
    bars = """[...document.querySelectorAll('section[aria-label="Nodes"] tbody tr:not(.gap)')].map(row => [
      row.cells[1].textContent,
      ...[...row.querySelectorAll(".bar span")].map(one => [one.className, one.style.flexGrow])])"""
    found = {bar[0]: dict(bar[1:]) for bar in tab.evaluate(bars)}
    assert found
    for devices, parts in found.items():
        assert sum(map(int, parts.values())) == int(devices)
        assert {"colour-0", "free"} <= parts.keys()


def test_times_are_short_and_whole_on_hover(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["small"], 1000)
    assert tab.evaluate('timeText("2026-01-02T13:35:32.123Z")') == "2026-01-02 13:35:32"
    assert tab.evaluate('timeText(new Date().toISOString().slice(0, 10) + "T13:35:32Z")') == "13:35:32"
    assert tab.evaluate('timeText("at 13:35")') == "at 13:35"


def test_each_device_of_the_described_node_has_the_check_that_removed_it(tab: Browser, tmp_path: Path) -> None:
    in_use = an_allocated_claim("a", "gpu-0")
    selector = {"cel": {"expression": 'device.driver == "other.example.com"'}}
    objects = [*a_cluster("node-1"), in_use, a_claim("c", a_request(selectors=[selector]))]
    page = tmp_path / "page.html"
    page.write_text(dra("explain", "claim/default/c", "-", "-o", "html", stdin=text_of(*objects)).out)
    tab.open(page, 1000)
    cells = tab.evaluate('document.querySelector(".node .cells").textContent')
    shown = tab.evaluate('[...document.querySelectorAll(".legend li")].map(one => one.textContent)')
    legend = {text[0]: text[1:] for text in shown}
    numbers = {one for one in cells if one.isdigit()}
    assert numbers
    assert all(legend[one].startswith("request ") for one in numbers)
    assert set(cells) <= legend.keys()


def test_what_moved_is_seen_before_and_after(tab: Browser, printed: Mapping[str, Path]) -> None:
    tab.open(printed["whatif"], 1400)
    titles = tab.evaluate('[...document.querySelectorAll(".beside h2")].map(one => one.textContent)')
    assert titles == ["Before the change", "After the change"]
    lefts = tab.evaluate('[...document.querySelectorAll(".map")].map(one => one.getBoundingClientRect().top)')
    assert lefts[0] == lefts[1]
    letters = """[...document.querySelectorAll(".map")].map(map => [...map.querySelectorAll(".node")]
      .map(node => [node.querySelector(".name").textContent, node.querySelector(".cells").textContent]))"""
    before, after = (dict(one) for one in tab.evaluate(letters))
    assert "G" not in "".join(before.values())
    assert before.keys() == {"node-1", "node-2", "node-3"}
    assert after.keys() == {"⊘ node-1", "⊘ node-2", "node-3"}  # drained and removed
    assert before["node-3"] != after["node-3"]


def test_each_of_several_that_share_a_row_is_found_and_shown(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["grouped"], 1000)
    shown = f"{ROWS}('Pods')"
    assert [row[0] for row in tab.evaluate(shown)] == ["ml/b and 2 more Show each", "ml/a"]
    tab.evaluate("""document.querySelector("tbody .more").click()""")
    names = ["ml/b and 2 more Show as one", "ml/b", "ml/c", "ml/d"]
    assert tab.evaluate(shown) == [*([name, "-", "too few"] for name in names), ["ml/a", "-", "too many"]]
    assert focused(tab) == "Show as one"
    tab.evaluate(
        """(one => { one.value = "ml/d"; one.dispatchEvent(new Event("input")); })(document.querySelector("input"))"""
    )
    assert [row[0] for row in tab.evaluate(shown)] == names
    tab.evaluate("""document.querySelector("tbody .more").click()""")
    assert [row[0] for row in tab.evaluate(shown)] == ["ml/b and 2 more Show each"]


def test_a_column_that_says_nothing_takes_no_room(tab: Browser, pages: Mapping[str, Path]) -> None:
    tab.open(pages["grouped"], 1000)
    heads = """[...document.querySelectorAll("thead th")].map(one => one.checkVisibility())"""
    assert tab.evaluate(heads) == [True, False, True]


@pytest.mark.parametrize("name", ["explain", "whatif"])
def test_the_devices_need_no_sideways_scrolling_at_1400_pixels(tab: Browser, name: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = {"explain": ["research/wish"], "whatif": ["--overlay", "drain:gpu-a"]}[name]
    page.write_text(dra(name, *asked, FLEET, "-o", "html").out)
    tab.open(page, 1400)
    boxes = """[...document.querySelectorAll(".rows")].filter(one => one.scrollWidth > one.clientWidth).length"""
    assert tab.evaluate(boxes) == 0


def test_the_live_page_says_since_when_the_program_is_silent_and_what_the_last_hour_was(
    tab: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui_server, "ALIVE_S", 3600.0)  # the stream stays open, and says nothing
    program = LiveProgram(1, 2)
    program.cluster.set_claim(watched(a_holder("a", "gpu-0")), 1)
    with served(program, samples=3) as url:
        tab.open(url, 1000)
        live = 'document.getElementById("live").textContent'
        poll_until(lambda text: text == "Live.", lambda: tab.evaluate(live), live)
        charts = '[...document.querySelectorAll(".trends svg")].map(one => one.ariaLabel)'
        found = poll_until(bool, lambda: tab.evaluate(charts), charts)
        assert found[0] == "Allocated devices of each class, in %, now: gpu 33.3"
        assert [one.partition(",")[0] for one in found[1:]] == ["Pods that wait", "Decisions a second"]
        assert tab.evaluate('document.querySelector(".head").textContent').startswith("context test · Kubernetes ")
        moved = """(real => { Date.now = () => real() + 20000; })(Date.now.bind(Date))"""
        tab.evaluate(moved)
        text = poll_until(lambda text: text != "Live.", lambda: tab.evaluate(live), live)
        assert re.match(r"The program cannot be reached since \d\d:\d\d:\d\d UTC, ", text)
        assert tab.evaluate('document.body.classList.contains("old")')
        program.waiting = [{"pod": "ml/a"}]
        poll_until(lambda text: text == "Live.", lambda: tab.evaluate(live), live)
        assert not tab.evaluate('document.body.classList.contains("old")')
        assert complaints(tab) == []
