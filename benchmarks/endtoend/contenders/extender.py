"""kube-scheduler as `dra extender config` sets it up, and `dra extender serve` beside it.

Over mutual TLS as in two pods, or over plain HTTP as in one. The extender is ready before kube-scheduler starts:
what that takes counts as a part of the start.
"""

import json
from pathlib import Path

from benchmarks.endtoend.contender import Running
from benchmarks.endtoend.contenders.kube_scheduler import UNLIMITED, metrics_at
from benchmarks.endtoend.workload import SCHEDULER
from scheduler.extender.configuration import Mode
from scheduler.kube_scheduler.conversion import Setup, document, flags
from tests.controlplane.certificates import Certificates
from tests.controlplane.ours import Extender
from tests.controlplane.plane import ControlPlane, free_ports

TIMEOUT_S = 30


class WithExtender:
    """The stock scheduler with our devices. is_sidecar: in one pod."""

    schedulers = (SCHEDULER,)

    def __init__(self, *, is_sidecar: bool = False) -> None:
        self.name = "kube-scheduler + sidecar" if is_sidecar else "kube-scheduler + extender"
        self.column = "sidecar" if is_sidecar else "extender"
        self._is_sidecar = is_sidecar

    def start(self, plane: ControlPlane) -> Running:
        """Start both, one after the other."""
        port, scheduler_port = free_ports(2)
        certificates = None if self._is_sidecar else certificates_in(plane.folder / "certificates")
        extender = start_extender(plane, certificates, port)
        setup = Setup(
            Mode.AUTHORITATIVE,
            [SCHEDULER],
            f"{'https' if certificates else 'http'}://127.0.0.1:{port}/v1",
            str(certificates.server_ca) if certificates else "",
            str(certificates.client.certificate) if certificates else "",
            str(certificates.client.key) if certificates else "",
            TIMEOUT_S,
        )
        alone = {"leaderElection": {"leaderElect": False}}
        configuration = {**document(setup), **alone, **UNLIMITED}
        scheduler = plane.start_scheduler(configuration, scheduler_port, flags(setup))
        return Running([scheduler, extender], metrics_at(plane, scheduler_port))


def certificates_in(folder: Path) -> Certificates:
    """New certificates for both sides, in a folder of their own."""
    folder.mkdir()
    return Certificates(folder)


def start_extender(plane: ControlPlane, certificates: Certificates | None, port: int) -> Extender:
    """Start the extender for the pods of the workload, and wait until it is ready. Without certificates: plain HTTP."""
    configuration = {
        "apiVersion": "dra-scheduler.dev/v1alpha1",
        "kind": "DraExtenderConfiguration",
        "schedulerNames": [SCHEDULER],
        "address": f"127.0.0.1:{port}",
        **({"tls": certificates.tls_of_extender()} if certificates else {}),
        "httpTimeoutSeconds": TIMEOUT_S,
    }
    path = plane.folder / "extender.json"
    path.write_text(json.dumps(configuration))
    extender = Extender(plane, [f"--config={path}"])
    extender.await_readyz()
    return extender
