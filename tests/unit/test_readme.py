"""The README: short, its commands run, and what it shows is what they print."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click import Context

from scheduler.cli.main import dra as program
from tests.unit.scheduler.cli.command import dra

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
QUESTIONS = re.findall(r"^\| (.*\?) \| (.*) \|$", TEXT, re.MULTILINE)


@pytest.fixture(autouse=True)
def in_the_folder_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "manifests" / "examples")
    monkeypatch.setenv("COLUMNS", "80")


def sessions() -> Iterator[tuple[str, Sequence[str]]]:
    """Each command of the tool that a block shows, with the lines below it."""
    for block in BLOCKS:
        for found in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = found.splitlines()
            if command.startswith("dra "):
                yield command, lines


def run(command: str) -> str:
    found = dra(*shlex.split(command)[1:])
    assert found.code in (0, 1), found.err
    return found.out or found.err  # a check that finds nothing says so there


def test_what_is_shown_is_what_the_commands_print_on_80_columns() -> None:
    shown = list(sessions())
    assert len(shown) > 1
    for command, lines in shown:
        printed = iter(run(command).splitlines())
        assert lines
        for line in lines:
            # Three dots stand for the rest of a line, or for lines that are left out.
            start, is_cut = line.removesuffix("..."), line.endswith("...")
            assert line == "..." or any(one == line or (is_cut and one.startswith(start)) for one in printed), line


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
def test_the_command_for_a_question_answers_it(question: str, answer: str) -> None:
    commands = re.findall(r"\[`(dra (\w[\w-]*).*?)`\]\((.*?)\)", answer)
    assert commands, question
    for command, name, page in commands:
        assert run(command), question
        assert f"# `dra {name}`" in (ROOT / page).read_text()


def test_a_newcomer_reads_it_on_one_page() -> None:
    lines = TEXT.splitlines()
    assert len(lines) < 100
    assert [line for block in BLOCKS for line in block.splitlines() if len(line) > 80] == []
    headings = [line for line in lines if line.startswith("## ")]
    assert headings[-1] == "## Development"
    assert "make test" in TEXT.partition("## Development")[2]
    assert "make demo" in BLOCKS[0]
    assert len(QUESTIONS) > 6


def test_its_targets_commands_and_pictures_are_there() -> None:
    targets = set(re.findall(r"`make ([\w-]+)", TEXT)) | set(re.findall(r"^\$ make ([\w-]+)", TEXT, re.MULTILINE))
    assert {one for one in targets if not re.search(rf"^{one}:.*##", MAKEFILE, re.MULTILINE)} == set()
    named = set(re.findall(r"`dra (\w+)", TEXT))
    assert named <= set(program.list_commands(Context(program)))
    pictures = re.findall(r'src(?:set)?="(.*?)"', TEXT)
    assert len(pictures) == 2
    assert all((ROOT / one).read_bytes().startswith(b"\x89PNG") for one in pictures)
