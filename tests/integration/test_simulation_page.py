"""The page of a simulation in a real browser: light, dark and printed."""

import re
import shutil
import struct
import subprocess
import zlib
from collections import Counter
from pathlib import Path

import pytest

from scheduler.output.simulation_page import simulation_page
from scheduler.output.simulation_style import STYLE
from tests.unit.scheduler.simulated import a_result, a_scenario

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")

pytestmark = pytest.mark.skipif(
    not BROWSER, reason="no Chromium on the PATH (chromium, chromium-browser, google-chrome)"
)

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr"),
)

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
    path.write_text(simulation_page(a_result(*scenarios)))
    return path


def chromium(page: Path, *flags: str) -> str:
    """What it writes; it has nothing to complain of the page."""
    profile = page.with_name("profile")
    command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "CONSOLE" not in done.stderr, done.stderr
    shutil.rmtree(profile)
    return done.stdout


def colours(page: Path, *flags: str) -> Counter[Colour]:
    """How many pixels of a picture of the page have each colour."""
    picture = page.with_suffix(".png")
    chromium(page, "--window-size=640,900", f"--screenshot={picture}", *flags)
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
