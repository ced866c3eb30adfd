"""`dra scheduler run` behind `dra guard serve`, which the API server asks about each allocation."""

import sys
from pathlib import Path

from benchmarks.endtoend.contender import Running, metrics_of
from benchmarks.endtoend.contenders.ours import start_scheduler
from benchmarks.endtoend.workload import SCHEDULER
from tests.controlplane.guarded import WEBHOOK, install
from tests.controlplane.identities import GUARD
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.process import Process

_DRA = Path(sys.executable).with_name("dra")


class Guarded:
    """Both programs."""

    name = "dra-scheduler behind the guard"
    column = "guarded"
    schedulers = (SCHEDULER,)

    def start(self, plane: ControlPlane) -> Running:
        """Start both; the scheduler's writes fail until the guard answers, and are tried again."""
        guard, _ = start_guard(plane)
        scheduler = start_scheduler(plane, SCHEDULER)
        return Running([*scheduler.processes, guard], scheduler.metrics)


def start_guard(plane: ControlPlane) -> tuple[Process, int]:
    """The guard with its webhook, once it leads, and the port of its metrics."""
    port, health = free_ports(2)
    install(plane.client(), port)
    reach = [f"--kubeconfig={plane.kubeconfig(GUARD)}", f"--health-address=127.0.0.1:{health}"]
    serve = [f"--address=127.0.0.1:{port}", f"--publish-certificate={WEBHOOK}"]
    command: list[str | Path] = [_DRA, "guard", "serve", *reach, *serve]
    guard = Process("dra-guard", command, plane.folder / "logs" / "dra-guard.log")
    guard.await_ready(lambda: 'leader_election_master_status{name="dra-guard"} 1.0' in _told(health))
    return guard, health


def _told(port: int) -> str:
    """The guard's metrics; empty while it does not serve them yet."""
    try:
        return metrics_of(port)
    except OSError:
        return ""
