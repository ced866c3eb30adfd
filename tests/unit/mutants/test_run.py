import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.run import batches, drawn
from tests.mutants.tests_by_function import files_that_run
from tests.mutants.tree import Trace

pytestmark = pytest.mark.depends_on("tests/mutants")  # it breaks a project of its own

ROOT = Path(__file__).resolve().parents[3]

SOURCE = """
def is_small(number: int) -> bool:
    return number < 10


def without_tests(number: int) -> int:
    return number + 1
"""
WEAK = """
from allocator.numbers import is_small
def test_small(): assert is_small(1) and not is_small(20)
"""
STRONG = """
from allocator.numbers import is_small, without_tests
def test_edge(): assert is_small(9) is True and is_small(10) is False
def test_next(): assert without_tests(1) == 2
"""
COUNTS = """
def half(number: int) -> int:
    rounds = 0
    while number:
        number -= 2
        rounds += 1
    return rounds
"""
HALVES = """
from allocator.numbers import half
def test_half(): assert half(6) == 3
"""


class Project:
    """A project with a source and its tests, and the tester of its tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.temporary = root.with_name("temporary")
        self.write("allocator/numbers.py", SOURCE)
        self.write("tests/unit/test_numbers.py", WEAK)
        self.write("pytest.ini", "[pytest]\naddopts = --import-mode=importlib\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """The exit code, and what was written to both outputs."""
        with self.started(*arguments) as running:
            output, error = running.communicate()
        return running.returncode, output, error

    def started(self, *arguments: str) -> "subprocess.Popen[str]":
        self.temporary.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TMPDIR": str(self.temporary),
        }
        command = [sys.executable, "-m", "tests.mutants.run", "--jobs", "2", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.root, env=environment, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_survivors_are_reported_with_their_place_and_change_until_a_test_notices(project: Project) -> None:
    code, output, progress = project.run("allocator")
    assert code == 1
    assert "allocator/numbers.py:3: comparison changed\n-    return number < 10\n+    return number <= 10\n" in output
    assert "allocator/numbers.py:7: arithmetic changed\n-    return number + 1\n+    return number - 1\n" in output
    assert output.splitlines()[-1] == "9/9 mutants: 2 killed, 0 timed out, 7 survived"
    assert "finding which tests call what: 1/1 test files" in progress
    assert (project.root / "allocator" / "numbers.py").read_text() == SOURCE

    project.write("tests/unit/test_numbers.py", STRONG)
    code, output, _ = project.run("allocator")
    assert (code, output) == (0, "\n9/9 mutants: 9 killed, 0 timed out, 0 survived\n")


def test_run_goes_on_where_it_was(project: Project) -> None:
    first = project.run("allocator")
    again = project.run("allocator")
    assert again[:2] == first[:2]
    assert again[2] == ""


def test_same_seed_draws_the_same_mutants(project: Project) -> None:
    one, same, other = (drawn(project.root, ["allocator"], 3, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert len(set(one)) == 3
    assert len(drawn(project.root, ["allocator"], 100, 1)) == 9


def test_endless_loop_is_ended(project: Project) -> None:
    project.write("allocator/numbers.py", COUNTS)
    project.write("tests/unit/test_numbers.py", HALVES)
    code, output, _ = project.run("allocator", "--grace", "3")
    assert code == 0
    assert "timed out, 0 survived" in output
    assert " 0 timed out" not in output


@pytest.mark.usefixtures("hears_control_c")
def test_interrupted_run_leaves_nothing_behind_and_the_next_one_goes_on(project: Project) -> None:
    with project.started("allocator") as running:
        assert running.stderr is not None
        next(line for line in running.stderr if line.startswith("1/9 mutants"))
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130
        assert running.stderr.read().endswith("interrupted: the next run goes on from here\n")
    assert list(project.temporary.iterdir()) == []
    code, _, progress = project.run("allocator")
    assert code == 1
    assert "1/9 mutants" not in progress
    assert "finding" not in progress


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--count", "0"], "--count: 0 is less than 1"),
        (["--count", "many"], "argument --count: invalid int value: 'many'"),
        (["--seed", "x"], "argument --seed: invalid int value: 'x'"),
        (["--jobs", "-1"], "--jobs: -1 is less than 1"),
        (["--grace", "0"], "--grace: 0 is less than 1"),
        (["allocator", "nowhere"], "nowhere: no Python files of the project there"),
        (["../project/allocator"], "../project/allocator: no Python files of the project there"),
        (["/"], "/: no Python files of the project there"),
    ],
)
def test_bad_argument_is_reported(project: Project, arguments: list[str], message: str) -> None:
    code, output, error = project.run(*arguments)
    assert (code, output) == (2, "")
    assert message in error


def test_tests_that_fail_anyway_are_reported(project: Project) -> None:
    project.write("tests/unit/test_broken.py", "def test_broken(): assert 1 == 2")
    code, output, error = project.run("allocator")
    assert (code, output) == (2, "")
    assert "tests/unit/test_broken.py fails without a mutant" in error
    assert "assert 1 == 2" in error


def test_those_tests_go_first_that_call_most_for_their_time() -> None:
    traces = {
        "slow": Trace(9, frozenset({"a.py:f", "a.py:g", "b.py:h"})),
        "other": Trace(1, frozenset({"a.py:g", "b.py:f"})),
        "quick": Trace(1, frozenset({"a.py:f"})),
        "thorough": Trace(1.5, frozenset({"a.py:f", "a.py:g"})),
    }
    assert files_that_run("a.py", "f", traces) == ["thorough", "quick", "slow"]


def test_batches_double() -> None:
    assert list(map(len, batches([str(n) for n in range(20)]))) == [2, 4, 8, 6]
