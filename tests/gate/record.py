"""Writes what becomes of each test, one JSON line each: `python -m pytest -p tests.gate.record --record=FILE`.

The last line is the process's own end: without it the process was killed, or left early with whatever exit code.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gate.unchanged import WORD

Line = Mapping[str, Any]  # Any: see Recorder, which writes them


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, required=True, help="file for a JSON line for each test")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(config))


class Recorder:
    """Appends lines to the file; each is there before the next test begins."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._file = config.getoption("--record")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that passes and fails at its end has two lines, as pytest counts it."""
        category = self._config.hook.pytest_report_teststatus(report=report, config=self._config)[0]
        line = {"file": report.nodeid.partition("::")[0], "seconds": report.duration}
        self._write(line if not category else {**line, **_outcome(category, report)})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file may be skipped as a whole, or be broken."""
        if not report.passed:
            category = "skipped" if report.skipped else "error"
            self._write({"file": report.nodeid.partition("::")[0], "seconds": 0.0, **_outcome(category, report)})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._write({"end": int(exitstatus)})

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No dot for what passes: what several processes print is read one after the other."""
        if report.passed and report.when == "call":
            return "passed", "", "PASSED"
        return ("unchanged", "", "UNCHANGED") if report.skipped and WORD in str(report.longrepr) else None

    def _write(self, line: Line) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _outcome(category: str, report: pytest.TestReport | pytest.CollectReport) -> Line:
    return {"test": report.nodeid, "category": category}
