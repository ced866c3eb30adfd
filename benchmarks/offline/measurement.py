"""What a program takes: time, processor time and memory."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler.cli.run_scenarios import worker_pool


@dataclass(frozen=True, slots=True)
class RunUsage:
    """wall_s: from start to end. cpu_s: in user and kernel mode. peak_mib: the most memory resident at a time."""

    exit_code: int
    wall_s: float
    cpu_s: float
    peak_mib: float


def measure(command: Sequence[str], output: Path, errors: Path) -> RunUsage:
    """Runs the program from a new process, with its output in files.

    Linux counts the memory of the process that starts a program into the program's peak: getrusage(2), ru_maxrss. The
    process that wrote the input and read other outputs has much of it, a new one has little.
    """
    with worker_pool(1) as fresh:
        return fresh.submit(run, command, output, errors).result()


def run(command: Sequence[str], output: Path, errors: Path) -> RunUsage:
    """Runs the program from this process."""
    with output.open("wb") as out, errors.open("wb") as err:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, used = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)  # or Popen would wait for it once more
    return RunUsage(child.returncode, wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
