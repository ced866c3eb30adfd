"""What a process has used so far, as Linux tells it in /proc.

Source: proc_pid_status(5) for VmHWM, proc_pid_stat(5) for the times.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    """peak_mib: the most memory that was resident at a time. cpu_s: of all its threads, in user and kernel mode."""

    peak_mib: float
    cpu_s: float


def usage_of(pid: int) -> Usage:
    """The usage of a process that runs."""
    folder = Path("/proc") / str(pid)
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", (folder / "status").read_text(), re.MULTILINE)
    assert peak, "VmHWM is there while the process has memory"
    # The name, in parentheses, may hold anything; what follows it begins with the third field.
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[14 - 3]) + int(fields[15 - 3])
    return Usage(int(peak[1]) / 1024, ticks / os.sysconf("SC_CLK_TCK"))
