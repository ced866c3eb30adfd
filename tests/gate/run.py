"""`make check`: checks and tests side by side, what fails by chance once more, and one summary and exit code.

A test on a real control plane can fail because the machine is busy; that must not hide that everything else passes.
Where at most three such tests fail, and nothing else, each runs again, alone in a fresh process when all others have
ended. What passes then is `unstable`: the gate passes, and prints the test's name and the output of both runs.
Exits with 0 if everything passed, 1 if anything failed, was killed or did not run, and 130 after Ctrl-C.
"""

import argparse
import compileall
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.controlplane.binaries import cache_folder
from tests.extent import DAY, EXTENT, NIGHTLY, PRODUCT
from tests.gate.parts import INTEGRATION, SECONDS, Lane, Part, files, lanes
from tests.gate.record import Line

MOST = 3
"""So many tests may fail by chance; more have a cause."""

POLL_S, TOLD_EVERY_S, GRACE_S = 0.1, 60.0, 60.0
BROKEN = ("failed", "error")


class Ended(Exception):
    """Somebody wants the gate to end."""


@dataclass
class Process:
    """A part that runs, or has ended. It is the first of a group of its own, so that Ctrl-C reaches it through us."""

    part: Part
    folder: Path
    code: int | None = None
    seconds: float = 0.0
    cpu: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        own = [f"--record={self._record}", f"--basetemp={self.folder / 'temporary'}"] if self.part.is_tests else []
        polite = ["nice", "-n", "5"] if self.part.is_patient else []
        with self.output_file.open("wb") as output:
            self._process = subprocess.Popen(
                [*polite, *self.part.command, *own],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output_file(self) -> Path:
        """What it prints."""
        return self.folder / "output"

    @property
    def output(self) -> str:
        """What it printed so far."""
        return self.output_file.read_text(errors="replace")

    @property
    def _record(self) -> Path:
        return self.folder / "record"

    @property
    def lines(self) -> Sequence[Line]:
        """Of its record; a last one that is half written is none."""
        if not self._record.exists():
            return []
        return [json.loads(line) for line in self._record.read_text().splitlines(keepends=True) if line.endswith("\n")]

    @property
    def has_broken(self) -> str:
        """Why what it says cannot be relied on; empty where it has ended as it should, whatever failed in it."""
        assert self.code is not None
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        if not self.part.is_tests:
            return f"exit code {self.code}" if self.code else ""
        if not any("end" in line for line in self.lines):
            return f"left before its end, with exit code {self.code}"
        if self.code not in (0, 1):
            return {5: "collected no test"}.get(self.code, f"pytest's exit code {self.code}")
        if self.code == 1 and not any(line.get("category") in BROKEN for line in self.lines):
            return "exit code 1, and no test failed"
        return ""

    def poll(self) -> bool:
        """Whether it has ended."""
        if self.code is None:
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self.code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.seconds, self.cpu = time.monotonic() - self.started, used.ru_utime + used.ru_stime
        return self.code is not None

    def wait(self) -> None:
        """Until it has ended, which is soon for one that was killed."""
        while not self.poll():
            time.sleep(POLL_S)

    def send(self, number: signal.Signals) -> None:
        """Send it to the whole group, of which some may be left when the first has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def main() -> int:
    """The program; the present folder is the project."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nightly", action="store_true", help="everything, with the seeds of today")
    if parser.parse_args().nightly:
        os.environ[EXTENT] = NIGHTLY
    os.environ.setdefault(DAY, datetime.now(UTC).date().isoformat())  # one day for all, past midnight too
    root, cache = Path.cwd(), cache_folder(os.environ) / "gate"
    with TemporaryDirectory(prefix="dra-gate-", ignore_cleanup_errors=True) as folder:
        claims = Path(folder) / "claims"
        claims.mkdir()
        return gate(lanes(root, claims, cache), files(root), Path(folder), cache)


def gate(lanes: Sequence[Lane], expected: frozenset[str], folder: Path, cache: Path) -> int:
    """Run the lanes; the exit code. expected: the test files of which something has to be heard.

    folder: for what processes write. cache: for what each test file took, which orders them the next time.
    """
    started = time.monotonic()
    try:
        with _ended_by_signals():
            _make_bytecode()
            processes = list(_run(lanes, folder))
            lines = _once([line for process in processes for line in process.lines])
            unstable = _second_runs(processes, lines, expected)
    except Ended:
        print("\ninterrupted", flush=True)
        return 130
    _keep(cache / SECONDS, _seconds_by_file(lines))
    return _summary(processes, lines, expected, unstable, time.monotonic() - started)


def _make_bytecode() -> None:
    """Where Python is told to write none, each program that a test starts would compile all that it imports anew."""
    for room in filter(Path.is_dir, map(Path, PRODUCT)):
        compileall.compile_dir(room, quiet=2)  # what cannot be compiled fails in its tests


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Within it SIGINT, SIGTERM and SIGHUP raise Ended, also where a shell that starts us has them ignored."""

    def end(*_: object) -> None:
        raise Ended

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(lanes: Sequence[Lane], folder: Path) -> Iterator[Process]:
    """Each process when it has ended and its output is printed."""
    waiting = [list(lane) for lane in lanes]
    running: list[Process | None] = [None] * len(lanes)
    number, told = 0, time.monotonic()
    try:
        while any(waiting) or any(running):
            for index, lane in enumerate(waiting):
                process = running[index]
                if process and process.poll():
                    running[index] = None
                    _print_output(process)
                    yield process
                if lane and not running[index]:
                    number += 1
                    running[index] = Process(lane.pop(0), folder / str(number))
            if time.monotonic() - told > TOLD_EVERY_S:
                told = time.monotonic()
                print("running:", ", ".join(_progress(process) for process in running if process), flush=True)
            time.sleep(POLL_S)
    finally:
        _end([process for process in running if process])


def _progress(process: Process) -> str:
    done = f" ({sum('test' in line for line in process.lines):,} tests)" if process.part.is_tests else ""
    return f"{process.part.name}{done}"


def _end(processes: Sequence[Process]) -> None:
    """End them as Ctrl-C does, so that what they started is stopped; once more, or after a while, at once."""
    for process in processes:
        process.send(signal.SIGINT)
    deadline = time.monotonic() + GRACE_S
    try:
        while not all(process.poll() for process in processes) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    finally:
        for process in processes:
            process.send(signal.SIGKILL)
            process.wait()


def _print_output(process: Process) -> None:
    print(f"== {process.part.name}: {_result(process)}, {process.seconds:.0f} s, {process.cpu:.0f} s of processor time")
    print(process.output, flush=True)


def _result(process: Process) -> str:
    return process.has_broken or ("tests failed" if process.code else "passed")


def _second_runs(processes: Sequence[Process], lines: Sequence[Line], expected: frozenset[str]) -> Sequence[str]:
    """Run again what failed by chance, if anything: the tests that pass now. None where something else is wrong."""
    failed = list(dict.fromkeys(line["test"] for line in lines if line.get("category") in BROKEN))
    by_chance = len(failed) <= MOST and all(test.startswith(f"{INTEGRATION}/") for test in failed)
    if not by_chance or any(process.has_broken for process in processes) or _unheard(lines, expected):
        return []
    return [test for test in failed if _passes_alone(test)]


def _passes_alone(test: str) -> bool:
    """Whether it passes in a process of its own; what that prints stands below what the first run printed."""
    print(f"Running again, alone: {test}", flush=True)
    with TemporaryDirectory(prefix="dra-gate-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-rA", "--color=no", "-p", "no:cacheprovider", test]
        (ended,) = _run([[Part("second run", command)]], Path(folder) / "second")
        # A test that is skipped ends with 0, too.
        return ended.code == 0 and bool(re.search("^(=+ )?1 passed in ", ended.output, re.MULTILINE))


def _once(lines: Sequence[Line]) -> Sequence[Line]:
    """Without what several processes say of one file, which all of them collect."""
    of_files = {line["file"]: line for line in lines if "test" in line and line["test"] == line["file"]}
    return [*of_files.values(), *(line for line in lines if line.get("test") not in of_files)]


def _unheard(lines: Sequence[Line], expected: frozenset[str]) -> Sequence[str]:
    """Test files of which no test ran or was skipped."""
    return sorted(expected - {line["file"] for line in lines if "test" in line})


def _seconds_by_file(lines: Sequence[Line]) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in lines:
        if "file" in line:
            found[line["file"]] += line["seconds"]
    return found


def _keep(file: Path, seconds: Mapping[str, float]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps({name: round(took, 2) for name, took in seconds.items()}))
    written.replace(file)


def _summary(
    processes: Sequence[Process],
    lines: Sequence[Line],
    expected: frozenset[str],
    unstable: Sequence[str],
    seconds: float,
) -> int:
    """Print it; the exit code. unstable: what has passed in a second run."""
    print("== slowest files")
    for file, took in _seconds_by_file(lines).most_common(15):
        print(f"{took:6.1f} s  {file}")
    failed = [line for line in lines if line.get("category") in BROKEN and line["test"] not in unstable]
    wrong = [f"FAILED {process.part.name}: {process.has_broken}" for process in processes if process.has_broken]
    wrong += [f"{line['category'].upper()} {line['test']}" for line in failed]
    wrong += [f"ERROR {file}: none of its tests ran" for file in _unheard(lines, expected)]
    print("== summary", *wrong, *(f"UNSTABLE {test}: failed, then passed alone" for test in unstable), sep="\n")
    counts = Counter(line["category"] for line in lines if "test" in line and line["test"] not in unstable)
    counts["unstable"] = len(unstable)
    counted = ", ".join(f"{count:,} {category}" for category, count in counts.items() if count)
    spent = f"{seconds / 60:.1f} min, {sum(process.cpu for process in processes):.0f} s of processor time"
    print(f"{counted} in {spent}; {DAY}={os.environ.get(DAY)}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
