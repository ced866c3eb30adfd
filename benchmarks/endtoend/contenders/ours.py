"""`dra scheduler run`, in a process of its own and with its own rights, as it comes."""

import sys
from functools import partial
from pathlib import Path

from benchmarks.endtoend.contender import Running, metrics_of
from benchmarks.endtoend.workload import SCHEDULER
from tests.controlplane.identities import OURS
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.process import Process

_DRA = Path(sys.executable).with_name("dra")


class Ours:
    """What is measured."""

    name = "dra-scheduler"
    column = "ours"
    schedulers = (SCHEDULER,)

    def start(self, plane: ControlPlane) -> Running:
        """Start it."""
        return start_scheduler(plane, SCHEDULER)


def start_scheduler(plane: ControlPlane, name: str, *options: str) -> Running:
    """Start one for the pods that name it so. options: further flags."""
    (port,) = free_ports(1)
    reach = [f"--kubeconfig={plane.kubeconfig(OURS)}", f"--health-address=127.0.0.1:{port}"]
    command: list[str | Path] = [_DRA, "scheduler", "run", *reach, f"--scheduler-name={name}", *options]
    process = Process(name, command, plane.folder / "logs" / f"{name}.log")
    return Running([process], partial(metrics_of, port))
