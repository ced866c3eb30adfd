"""What a process has used of memory and processors, as Linux tells it in /proc.

Source: proc_pid_status(5) for VmRSS, proc_pid_stat(5) for the times.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    """resident_mib: now. cpu_s: of all its threads until now, in user and kernel mode."""

    resident_mib: float
    cpu_s: float


def usage_of(pid: int) -> Usage | None:
    """The usage of a process; None where it has ended."""
    folder = Path("/proc") / str(pid)
    try:
        status, stat = (folder / "status").read_text(), (folder / "stat").read_text()
    except OSError:
        return None
    resident = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    # The name, in parentheses, may hold anything; what follows it begins with the third field.
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[14 - 3]) + int(fields[15 - 3])
    return Usage(int(resident[1]) / 1024, ticks / os.sysconf("SC_CLK_TCK")) if resident else None
