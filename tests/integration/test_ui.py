"""The page at /ui of running programs, in a real browser beside a real control plane: it follows what happens."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scheduler.output.time_line import WAITS
from tests.browser import MISSING, PROGRAM, Browser, browser
from tests.controlplane.contents import manifests, restore
from tests.controlplane.fleet import EXAMPLES, publish
from tests.controlplane.ours import Extender, Program, Scheduler
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import RestClient
from tests.controlplane.rights import grant
from tests.integration.test_operation import await_bound, create_pods
from tests.integration.test_pages import ROWS, complaints

pytestmark = pytest.mark.skipif(not PROGRAM, reason=MISSING)

WORLD = EXAMPLES / "scheduler"
ANSWER = (
    """[document.querySelector(".answer"), ...document.querySelectorAll(".points li")].map(one => one.textContent)"""
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(autouse=True)
def world(plane: ControlPlane, api: RestClient) -> None:
    """Ten nodes with eight devices each."""
    grant(api)
    restore(api, manifests(WORLD / "nodes.yaml", WORLD / "classes.yaml"))
    publish(plane, EXAMPLES / "driver" / "ten-nodes.json")


def started(program: Program) -> Iterator[Program]:
    try:
        program.await_readyz()
        yield program
    finally:
        program.stop()


@pytest.fixture
def scheduler(plane: ControlPlane) -> Iterator[Program]:
    yield from started(Scheduler(plane))


@pytest.fixture
def extender(plane: ControlPlane) -> Iterator[Program]:
    yield from started(Extender(plane, [f"--address=127.0.0.1:{free_ports(1)[0]}"]))


def shown(tab: Browser, expression: str, holds: Callable[[Any], bool]) -> Any:
    """The value once it holds; the page is not loaded again."""
    return poll_until(holds, lambda: tab.evaluate(expression), expression)


def test_page_of_the_scheduler_follows_what_it_does(tab: Browser, scheduler: Program, api: RestClient) -> None:
    tab.open(f"{scheduler.url}/ui", 1000)
    shown(tab, ANSWER, lambda found: found[0] == "80 of 80 devices are free.")
    lines = """[...document.querySelectorAll(".none")].filter(one => !one.hidden).map(one => one.textContent)"""
    shown(tab, lines, lambda found: {"No pod waits.", "No decision since the program started."} <= set(found))
    shown(tab, f"{ROWS}('Classes')", lambda rows: [row[-1] for row in rows][:1] == ["8 devices, on 10 nodes"])
    create_pods(api, "a", "b")
    create_pods(api, "too-much", count=9)
    await_bound(api, 2)
    shown(tab, ANSWER, lambda found: found[0] == "78 of 80 devices are free; 2 allocated.")
    (waiting,) = shown(tab, f"{ROWS}('Pods that wait')", lambda rows: len(rows) == 1 and rows[0][1] == "unschedulable")
    assert waiting[0] == "default/too-much"
    assert waiting[4].startswith("0/10 nodes are available: 10 cannot allocate all claims")
    last = shown(tab, f"{ROWS}('Last decisions')", lambda rows: len(rows) >= 3)
    decisions = {row[1]: row[2:] for row in last}
    assert decisions["default/too-much"][0] == "Unschedulable"
    assert decisions["default/too-much"][2] == WAITS
    bound = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in await_bound(api, 2)}
    for name in ("a", "b"):
        assert decisions[f"default/{name}"][:2] == ["placed", bound[name]]
        assert "/gpu-" in decisions[f"default/{name}"][2]
    held = f"{ROWS}('Devices').filter(row => row[2] === 'allocated').map(row => [row[1], row[3]])"
    expected = sorted([bound[name], f"default/{name}"] for name in ("a", "b"))
    shown(tab, held, lambda rows: sorted(rows) == expected)
    assert complaints(tab) == []
    assert {one["request"]["url"] for one in tab.told("Network.requestWillBeSent")} == {
        f"{scheduler.url}/ui",
        f"{scheduler.url}/ui/events",
    }


def test_page_is_there_again_after_the_program_was_away(tab: Browser, plane: ControlPlane, scheduler: Program) -> None:
    tab.open(f"{scheduler.url}/ui", 1000)
    shown(tab, ANSWER, lambda found: found[0] == "80 of 80 devices are free.")
    scheduler.stop()
    live = 'document.getElementById("live").textContent'
    found = shown(tab, live, lambda text: "cannot be reached" in text)
    assert re.match(r"The program cannot be reached since \d\d:\d\d:\d\d UTC, ", found)
    port = scheduler.url.rpartition(":")[2]
    again = Scheduler(plane, [f"--health-address=127.0.0.1:{port}"], name="again")
    try:
        shown(tab, live, lambda text: text == "Live.")
        shown(tab, ANSWER, lambda found: found[0] == "80 of 80 devices are free.")
    finally:
        again.stop()


def test_page_of_the_extender_shows_the_same_devices(tab: Browser, extender: Program) -> None:
    tab.open(f"{extender.url}/ui", 360, scheme="dark")
    shown(tab, ANSWER, lambda found: found[0] == "80 of 80 devices are free.")
    assert tab.evaluate("document.title") == "dra extender"
    shown(tab, 'document.querySelectorAll(".node").length', lambda number: number > 4)
    assert complaints(tab) == []
    assert json.loads(extender.reported("/debug/queue")) == []
