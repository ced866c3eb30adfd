"""What the pages of subcommands show is what the program prints."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.scheduler.cli.command import dra

ROOT = Path(__file__).resolve().parents[4]
FLEET = "manifests/examples/fleet"
CUT = " ..."
"""At the end of a line of a page: the rest of it is left out."""

PAGES = ("allocate", "audit", "cel", "dump", "fit", "status", "whatif")
"""Those of `dra explain`, `generate` and `simulate` have tests of their own."""


def examples(page: str) -> Iterator[tuple[str, list[str]]]:
    """The commands on the bundled fleet with the lines below them."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            if command.startswith("dra ") and FLEET in command:
                yield command, lines


def output_of(command: str) -> str:
    """What the last of the programs of a pipe prints."""
    text = ""
    for one in command.split(" | "):
        text = dra(*shlex.split(one)[1:], stdin=text).out
    return text


def agrees(shown: str, printed: str) -> bool:
    return printed.startswith(shown.removesuffix(CUT)) if shown.endswith(CUT) else shown == printed


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_the_program_prints(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = list(examples(page))
    assert found, f"docs/{page}.md has no example on {FLEET}"
    for command, lines in found:
        printed = output_of(command).rstrip("\n").split("\n")
        assert len(printed) == len(lines), (command, printed)
        assert [(one, other) for one, other in zip(lines, printed, strict=True) if not agrees(one, other)] == [], (
            command
        )


def test_a_page_that_shows_something_else_is_found() -> None:
    assert agrees("a b", "a b")
    assert agrees("a ...", "a b")
    assert not agrees("a b", "a c")
    assert not agrees("b ...", "a b")
