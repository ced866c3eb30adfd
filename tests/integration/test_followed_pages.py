"""Pages of docs that are followed line by line on a control plane: what their commands print is what they show.

Only what cannot be the same is looked over: ages, generated names, and which replica is on which of the nodes.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.controlplane.ours import PROGRAM
from tests.controlplane.polling import TIMEOUT_S, poll_until
from tests.integration.conftest import ROOT

PAGE = ROOT / "docs" / "statefulset.md"
EXAMPLE = ROOT / "manifests" / "examples" / "statefulset"
FOLDER = "/tmp/try-dra"  # noqa: S108 - the page's; the test has another one
OMITTED = "..."


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the page, and the lines that it shows."""

    command: str
    shown: tuple[str, ...]


def steps(page: str) -> Iterator[Step]:
    """The commands of the page, in order."""
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = entry.splitlines()
            yield Step(command, tuple(line for line in shown if line))


def of_groups() -> str:
    """What docs/groups.md has for a control plane."""
    _, _, rest = (ROOT / "docs" / "groups.md").read_text().partition("## The JobSet on a local control plane\n")
    assert rest, "it has that section"
    return rest.partition("\n## ")[0]


def plain(line: str) -> str:
    """The line without what differs each time."""
    line = re.sub(r"\bpair-workers-\d-\d-\w{5}\b", "pair-workers-?", line)
    line = re.sub(r"\b(llm-\d+-gpu-)\w{5}\b", r"\1?????", line)
    line = re.sub(r"(?<=\s)\d+s(?=\s|$)|^\d+s\b", "AGE", line)
    line = re.sub(r"\bllm-[0-7]\b", "llm-?", line)
    line = re.sub(r"\bgpu-[abc](-ssd-\d)?\b", "gpu-?", line) if "ssd" in line and "created" not in line else line
    return " ".join(line.split())


def shows(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether all that is shown was printed, in this order; "..." stands for any lines."""
    left = iter(printed)
    return all(line == OMITTED or line in left for line in shown)


@contextmanager
def in_background(command: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The program while the context is open."""
    with log.open("wb") as output, subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as program:
        try:
            yield program
        finally:
            program.terminate()


def await_line(program: "subprocess.Popen[bytes]", log: Path, text: str) -> None:
    """Return when the program has printed it."""

    def is_printed(printed: str) -> bool:
        assert program.poll() is None, printed
        return text in printed

    poll_until(is_printed, log.read_text, f"{text!r} printed")


@pytest.fixture
def environment(kubectl: Path, tmp_path: Path) -> Mapping[str, str]:
    """Where kubectl is found."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(kubectl)
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize(
    "text", [pytest.param(PAGE.read_text(), id="statefulset"), pytest.param(of_groups(), id="groups")]
)
def test_page_is_what_happens(text: str, environment: Mapping[str, str], tmp_path: Path) -> None:
    cluster, ours, export, *others = steps(text.replace(FOLDER, str(tmp_path / "try")))
    assert cluster.command == f'make cluster ARGS="--folder {tmp_path / "try"}"'
    start = [sys.executable, "-m", "tests.controlplane.cluster", "--folder", str(tmp_path / "try")]
    assert ours.command.startswith(".venv/bin/dra scheduler run ")
    schedule = [str(PROGRAM), *ours.command.split()[1:], "--health-address=127.0.0.1:0"]
    variable, _, value = export.command.removeprefix("export ").partition("=")
    log = tmp_path / "cluster.log"
    with in_background(start, log) as program:
        await_line(program, log, "Ctrl-C")
        with in_background(schedule, tmp_path / "scheduler.log"):
            follow(others, {**environment, variable: value})


def follow(commands: Sequence[Step], environment: Mapping[str, str]) -> None:
    """Run the commands as a reader does it, and compare what they print."""
    for step in commands:
        command = step.command.replace(".venv/bin/dra", str(PROGRAM))
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        printed, shown = ([plain(line) for line in lines] for lines in (done.stdout.splitlines(), step.shown))
        assert not done.stderr, (step.command, done.stderr)
        assert shows(shown, printed), (step.command, shown, done.stdout)


def test_page_shows_lines_of_the_manifest() -> None:
    manifest = (EXAMPLE / "statefulset.yaml").read_text()
    excerpts = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(excerpts) == 2
    for excerpt in excerpts:
        assert excerpt in manifest
