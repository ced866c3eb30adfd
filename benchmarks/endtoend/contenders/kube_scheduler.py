"""Kubernetes' own scheduler, as it comes; only its limits of queries a second are lifted.

Source: the clientConnection of KubeSchedulerConfiguration; it limits itself to 50 queries a second otherwise.
"""

from collections.abc import Callable
from functools import partial

from benchmarks.endtoend.contender import Running, metrics_of
from benchmarks.endtoend.workload import SCHEDULER
from tests.controlplane.identities import STOCK
from tests.controlplane.plane import ControlPlane, free_ports

_QUERIES_A_SECOND = 5000
UNLIMITED = {
    "clientConnection": {
        "qps": _QUERIES_A_SECOND,
        "burst": _QUERIES_A_SECOND,
        "contentType": "application/vnd.kubernetes.protobuf",
    }
}
_CONFIGURATION = {"profiles": [{"schedulerName": SCHEDULER}], **UNLIMITED}


class KubeScheduler:
    """The reference."""

    name = "kube-scheduler"
    column = "peer"
    schedulers = (SCHEDULER,)

    def start(self, plane: ControlPlane) -> Running:
        """Start it, and wait until it is healthy."""
        (port,) = free_ports(1)
        return Running([plane.start_scheduler(_CONFIGURATION, port)], metrics_at(plane, port))


def metrics_at(plane: ControlPlane, port: int) -> Callable[[], str]:
    """What reads the metrics of a kube-scheduler that was started with that port."""
    ca_file = plane.folder / "kube-scheduler" / "kube-scheduler.crt"
    return partial(metrics_of, port, ca_file, plane.token_file(STOCK).read_text())
