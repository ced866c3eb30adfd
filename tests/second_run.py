"""Integration tests that fail run again, each alone in a fresh process: `python -m pytest -p tests.second_run`.

A test on a real control plane can fail because the machine is busy; that must not hide that everything else passes.
What passes in its second run is `unstable`: the gate passes, and prints the test's name and the output of both runs.
Other tests depend on nothing but the code: where one of them fails, or more than three, nothing is run again.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = "tests/integration/"
MOST = 3
"""So many tests may fail by chance; more have a cause."""


@dataclass(frozen=True)
class SecondRun:
    """A test that failed, and how it ended when it ran alone. failures: the reports of the first run."""

    test: str
    failures: Sequence[pytest.TestReport]
    passed: bool
    output: str


SECOND_RUNS = pytest.StashKey[list[SecondRun]]()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Run again what may be, before pytest counts and prints what failed."""
    if hasattr(session.config, "workerinput"):  # one of several processes: the one that started them runs tests again
        return
    reporter = _reporter(session.config)
    session.config.stash[SECOND_RUNS] = runs = []
    if exitstatus != pytest.ExitCode.TESTS_FAILED or session.shouldfail or session.shouldstop:
        return
    for test, failures in _to_run_again(reporter.stats).items():
        reporter.write_line(f"\nRunning again, alone: {test}")
        passed, output = _run_alone(test, session.config.rootpath)
        runs.append(SecondRun(test, failures, passed, output))
    _count_unstable(reporter.stats, [run for run in runs if run.passed])
    if runs and all(run.passed for run in runs):
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> Iterator[None]:
    """The outputs above what pytest prints of failures, the names below."""
    runs = config.stash[SECOND_RUNS]
    for run in runs:
        _print_outputs(terminalreporter, run)
    yield
    for run in runs:
        if run.passed:
            terminalreporter.write_line(f"UNSTABLE {run.test}: failed, then passed alone", yellow=True)


def _reporter(config: pytest.Config) -> pytest.TerminalReporter:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    assert isinstance(reporter, pytest.TerminalReporter)
    return reporter


def _to_run_again(stats: Mapping[str, Sequence[pytest.TestReport]]) -> Mapping[str, Sequence[pytest.TestReport]]:
    """The failures of each test that failed, in order; none where one has no second run."""
    failures: dict[str, list[pytest.TestReport]] = {}
    for report in (*stats.get("failed", ()), *stats.get("error", ())):
        failures.setdefault(report.nodeid, []).append(report)
    return failures if len(failures) <= MOST and all(test.startswith(FOLDER) for test in failures) else {}


def _run_alone(test: str, root: Path) -> tuple[bool, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--color=no", "-p", "no:cacheprovider", test]
    ended = subprocess.run(
        command, cwd=root, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    # A test that is skipped ends with 0, too.
    return ended.returncode == 0 and bool(re.search("^(=+ )?1 passed in ", ended.stdout, re.MULTILINE)), ended.stdout


def _count_unstable(stats: dict[str, list[pytest.TestReport]], runs: Sequence[SecondRun]) -> None:
    """Count each test once, and as nothing else: its body may have passed, and its end failed."""
    tests = {run.test for run in runs}
    for category in ("passed", "failed", "error"):
        kept = [report for report in stats.pop(category, ()) if report.nodeid not in tests]
        if kept:
            stats[category] = kept
    if runs:
        stats["unstable"] = [run.failures[0] for run in runs]


def _print_outputs(reporter: pytest.TerminalReporter, run: SecondRun) -> None:
    reporter.write_sep("=", f"second run of {run.test}: {'passed' if run.passed else 'failed'}")
    if run.passed:  # pytest no longer prints its failures
        reporter.write_sep("_", "first run")
        for report in run.failures:
            reporter.write_line(report.longreprtext)
            for title, content in report.sections:
                reporter.write_sep("-", title)
                reporter.write_line(content)
        reporter.write_sep("_", "second run")
    reporter.write_line(run.output)
