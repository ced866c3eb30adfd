"""What any client in Python can reach: one that decides nothing and only writes (`three_writes.py`)."""

import sys
from pathlib import Path

from benchmarks.endtoend.contender import Running
from benchmarks.endtoend.workload import SCHEDULER
from tests.controlplane.identities import OURS
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process


class Ceiling:
    """The bound of what is possible."""

    name = "three writes"
    column = "ceiling"
    schedulers = (SCHEDULER,)

    def start(self, plane: ControlPlane) -> Running:
        """Start it."""
        reach: list[str | Path] = [
            "--server",
            plane.server,
            "--ca-file",
            plane.ca_file,
            "--token-file",
            plane.token_file(OURS),
        ]
        command = [sys.executable, "-m", "benchmarks.endtoend.three_writes", *reach]
        return Running([Process("three-writes", command, plane.folder / "logs" / "three-writes.log")], str)
