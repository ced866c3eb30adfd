import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PASSES = """
def test_passes(): pass
"""
FAILS = """
def test_fails():
    print("the output of a test that fails")
    assert 1 + 1 == 3
"""
FAILS_FIRST = """
def test_fails_first(tmp_path_factory):
    from pathlib import Path
    marker = Path(__file__).with_suffix(".ran")
    ran = marker.exists()
    marker.touch()
    print("the second run's output" if ran else "the first run's output")
    assert ran, "not the first time"
"""


class Suite:
    """A project with tests of its own, and what became of them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "120",
        }
        (root / "pytest.ini").write_text("[pytest]\naddopts = -ra --import-mode=importlib\n")

    def add(self, path: str, *texts: str) -> None:
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(texts))

    def run(self, *options: str) -> tuple[int, str]:
        """The exit code and the output."""
        command = [sys.executable, "-m", "pytest", "-q", *options]
        ended = subprocess.run(
            command, cwd=self._root, env=self._environment, check=False, capture_output=True, text=True
        )
        assert not ended.stderr
        return ended.returncode, ended.stdout

    def run_as_the_gate(self, *options: str) -> tuple[int, str]:
        return self.run("-p", "tests.second_run", *options)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def closing_line(output: str) -> str:
    """Without the time."""
    return output.splitlines()[-1].rpartition(" in ")[0]


def test_integration_test_that_passes_alone_is_unstable_and_the_gate_passes(suite: Suite) -> None:
    suite.add("tests/integration/live/test_a.py", FAILS_FIRST, PASSES)
    suite.add("tests/unit/test_b.py", PASSES)
    code, output = suite.run_as_the_gate()
    assert code == 0
    assert closing_line(output) == "2 passed, 1 unstable"
    name = "tests/integration/live/test_a.py::test_fails_first"
    assert output.splitlines()[-2] == f"UNSTABLE {name}: failed, then passed alone"
    assert "AssertionError: not the first time" in output
    assert output.rindex("the first run's output") < output.rindex("the second run's output")
    assert "FAILED" not in output


def test_tests_of_several_processes_run_again_in_the_one_that_started_them(suite: Suite) -> None:
    suite.add("tests/integration/live/test_a.py", FAILS_FIRST, PASSES)
    suite.add("tests/unit/test_b.py", PASSES)
    code, output = suite.run_as_the_gate("-p", "xdist.plugin", "-n", "2")
    assert code == 0
    assert closing_line(output) == "2 passed, 1 unstable"
    assert output.count("Running again, alone: ") == 1


def test_integration_test_that_fails_twice_fails_the_gate(suite: Suite) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST, FAILS)
    code, output = suite.run_as_the_gate()
    assert code == 1
    assert closing_line(output) == "1 failed, 1 unstable"
    assert "second run of tests/integration/test_a.py::test_fails: failed" in output
    assert output.count("the output of a test that fails") == 4  # in the source and captured, of both runs
    assert "FAILED tests/integration/test_a.py::test_fails - assert (1 + 1) == 3" in output
    assert "UNSTABLE tests/integration/test_a.py::test_fails_first: failed, then passed alone" in output


def test_three_failures_have_second_runs_and_four_have_none(suite: Suite) -> None:
    for name in "abc":
        suite.add(f"tests/integration/test_{name}.py", FAILS_FIRST)
    suite.add("tests/integration/test_d.py", PASSES)
    assert suite.run_as_the_gate()[0] == 0
    for name in "abcd":
        suite.add(f"tests/integration/test_new_{name}.py", FAILS_FIRST)
    code, output = suite.run_as_the_gate()
    assert code == 1
    assert closing_line(output) == "4 failed, 4 passed"
    assert "again" not in output


@pytest.mark.parametrize("folder", ["unit", "integration_of_old"])
def test_failure_of_another_test_fails_the_gate_at_once(suite: Suite, folder: str) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST)
    suite.add(f"tests/{folder}/test_b.py", FAILS_FIRST)
    code, output = suite.run_as_the_gate()
    assert code == 1
    assert closing_line(output) == "2 failed"
    assert "again" not in output


@pytest.mark.parametrize("broken", ["raise OSError", "import there_is_no_such_module"])
@pytest.mark.parametrize("options", [[], ["--continue-on-collection-errors"]])
def test_file_that_cannot_be_collected_fails_the_gate_at_once(suite: Suite, broken: str, options: list[str]) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST)
    suite.add("tests/unit/test_b.py", broken)
    code, output = suite.run_as_the_gate(*options)
    assert code in (1, 2)
    assert "1 error" in closing_line(output)
    assert "again" not in output


def test_error_inside_pytest_fails_the_gate_at_once(suite: Suite) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST, PASSES)
    suite.add("conftest.py", "def pytest_runtest_logfinish(nodeid): assert 'test_passes' not in nodeid")
    code, output = suite.run_as_the_gate()
    assert code == 3
    assert "again" not in output


@pytest.mark.parametrize("when", ["before", "after"])
def test_error_in_a_fixture_of_an_integration_test_is_its_failure(suite: Suite, when: str) -> None:
    fixture = f"""
import pytest
@pytest.fixture(autouse=True)
def cluster():
    {"yield" if when == "after" else ""}
    {FAILS_FIRST.partition(":")[2].lstrip()}
    {"yield" if when == "before" else ""}
"""
    suite.add("tests/integration/test_a.py", fixture, PASSES)
    code, output = suite.run_as_the_gate()
    assert code == 0
    assert closing_line(output) == "1 unstable"
    assert "the second run's output" in output


def test_integration_test_that_is_skipped_the_second_time_has_not_passed(suite: Suite) -> None:
    skips = FAILS_FIRST.replace("assert ran", "if ran: import pytest; pytest.skip('no control plane')\n    assert ran")
    suite.add("tests/integration/test_a.py", skips)
    code, output = suite.run_as_the_gate()
    assert code == 1
    assert closing_line(output) == "1 failed"


def test_second_run_is_of_one_case_in_a_process_of_its_own(suite: Suite) -> None:
    suite.add(
        "tests/integration/test_a.py",
        """
import pytest
seen = []
@pytest.mark.parametrize("case", ["first", "a::b/c[d]"])
def test_is_alone(case):
    seen.append(case)
    assert len(seen) == 1
""",
    )
    code, output = suite.run_as_the_gate()
    assert code == 0
    assert closing_line(output) == "1 passed, 1 unstable"


def test_run_that_ends_early_has_no_second_run(suite: Suite) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST, PASSES)
    assert suite.run_as_the_gate("-x")[0] == 1


def test_person_who_does_not_ask_sees_the_failure(suite: Suite) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST)
    code, output = suite.run("tests/integration/test_a.py")
    assert code == 1
    assert closing_line(output) == "1 failed"


def test_gate_of_a_suite_that_passes_says_no_more_than_before(suite: Suite) -> None:
    suite.add("tests/integration/test_a.py", PASSES)
    code, output = suite.run_as_the_gate()
    assert code == 0
    assert closing_line(output) == "1 passed"
    assert len(output.splitlines()) == 2
