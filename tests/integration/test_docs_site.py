"""The pages of docs/ as a site in a real browser: groups by reader, and a search that needs no server."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.browser import MISSING, PROGRAM, Browser, browser
from tests.integration.test_pages import complaints
from tests.integration.test_simulation_page import WIDTH

pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason=MISSING),
    pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed (make docs installs it)"),
]

ROOT = Path(__file__).resolve().parents[2]
SEARCH = 'document.querySelector("input.md-search__input")'
FOUND = '[...document.querySelectorAll(".md-search-result__link")].map(one => one.getAttribute("href"))'

TYPED_ON = f'{SEARCH}.dispatchEvent(new Event("keyup"))'
"""What is typed before the page listens is heard by nobody."""

SHOWN = f"new Promise(done => setInterval(() => {FOUND}.length ? done() : {TYPED_ON}, 50))"


def built(config: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    paths = ["--config-file", str(config), "--site-dir", str(site)]
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", *paths]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    run = built(ROOT / "mkdocs.yml", folder)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def test_pages_are_grouped_by_who_reads_them(tab: Browser, site: Path) -> None:
    tab.open(site / "index.html", 1400)
    tabs = tab.evaluate('[...document.querySelectorAll(".md-tabs__link")].map(one => one.textContent.trim())')
    assert tabs[1:] == ["Answer a question", "Run it in a cluster", "Simulate", "Extend"]
    assert complaints(tab) == []


def test_search_finds_a_page_without_a_server(tab: Browser, site: Path) -> None:
    tab.open(site / "index.html", 1400)
    tab.evaluate(f"{SEARCH}.focus()")
    tab.call("Input.insertText", text="drain")
    tab.call("Runtime.evaluate", expression=SHOWN, awaitPromise=True)
    found = tab.evaluate(FOUND)
    assert any("whatif.html" in one for one in found)
    urls = [one["request"]["url"] for one in tab.told("Network.requestWillBeSent")]
    assert {url.partition(":")[0] for url in urls} <= {"file", "data", "blob"}


@pytest.mark.parametrize("page", ["index.html", "allocate.html", "runbooks/DRASchedulerAbsent.html"])
def test_a_page_fits_a_phone(tab: Browser, site: Path, page: str) -> None:
    tab.open(site / page, 390, scheme="dark")
    assert tab.evaluate(WIDTH) == 390


OUTSIDE = 'not included in the "nav"'
DEAD, HEADING = "contains a link 'gone.md', but the target is not found", "does not contain an anchor"


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ({"extra.md": "# Extra"}, OUTSIDE),
        ({"a.md": "# A\n\n[b](gone.md)"}, DEAD),
        ({"a.md": "# A\n\n[b](index.md#gone)"}, HEADING),
    ],
)
def test_a_page_that_nobody_finds_and_a_dead_link_fail(tmp_path: Path, pages: Mapping[str, str], message: str) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    groups = "\n\n## Run it in a cluster\n\n- [A](a.md)\n\n## Extend\n\n- [A](a.md)\n"
    for name, text in {"index.md": f"# Start{groups}", "a.md": "# A", **pages}.items():
        (folder / name).write_text(text)
    config = tmp_path / "mkdocs.yml"
    hook = ROOT / "manifests" / "site" / "navigation.py"
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {folder}\nhooks: [{hook}]\n")
    run = built(config, tmp_path / "site")
    assert run.returncode == 1
    assert message in run.stderr
