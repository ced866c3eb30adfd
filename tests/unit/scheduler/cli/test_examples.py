"""What the pages of subcommands show is what the program prints."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.cli.main import COMMANDS
from tests.unit.scheduler.cli.command import dra

ROOT = Path(__file__).resolve().parents[4]
FLEET = "manifests/examples/fleet"
CUT = " ..."
"""At the end of a line of a page: the rest of it is left out."""

PAGES = ("allocate", "audit", "cel", "claims", "defrag", "dump", "fit", "lint", "plan", "status", "verify", "whatif")
ELSEWHERE = {
    "compare": "differential/test_compare.py",
    "completion": "unit/scheduler/cli/test_main.py",
    "explain": "unit/scheduler/cli/test_explain.py",
    "extender": "unit/scheduler/extender/test_documentation.py",
    "generate": "unit/scheduler/cli/test_generate.py",
    "guard": "unit/scheduler/guard/test_documentation.py",
    "scheduler": "unit/scheduler/runtime/test_documentation.py",
    "simulate": "unit/scheduler/cli/test_simulation_pages.py",
}
"""The pages of other subcommands, and below tests/ what holds them to the program."""


def examples(page: str) -> Iterator[tuple[str, list[str]]]:
    """The commands on the bundled fleet with the lines below them."""
    return examples_of(page, FLEET)


def examples_of(page: str, files: str) -> Iterator[tuple[str, list[str]]]:
    """The commands on these files with the lines below them."""
    text = page_of(page)
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            if command.startswith(("dra ", "echo ")) and (files in command or command.endswith(" -")):
                yield command, lines


def page_of(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def output_of(command: str) -> str:
    """What the last of the programs of a pipe prints."""
    text = ""
    for one in command.split(" | "):
        program, *arguments = shlex.split(one)
        text = " ".join(arguments) if program == "echo" else dra(*arguments, stdin=text).out
    return text


def test_every_subcommand_has_a_page_that_a_test_holds_to_the_program() -> None:
    assert {*PAGES, *ELSEWHERE} == COMMANDS.keys()
    for name in COMMANDS:
        assert f"`dra {name}" in page_of(name)
    for name, test in ELSEWHERE.items():
        assert f"{name}.md" in (ROOT / "tests" / test).read_text()


def agrees(shown: str, printed: str) -> bool:
    return printed.startswith(shown.removesuffix(CUT)) if shown.endswith(CUT) else shown == printed


@pytest.mark.parametrize("page", [*PAGES, "explain"])
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
