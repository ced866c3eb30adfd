"""The program `kubelet` as a process: a node's DRA manager and its drivers; kubelet/main.go says what it does."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process
from tests.controlplane.rest import Json


class Kubelet(Process):
    """The kubelet of a node, while the process runs.

    drivers: by name, what they publish as kubeletplugin.DriverResources, {} for nothing.
    folder: for its files; empty or absent.
    """

    def __init__(
        self, program: Path, plane: ControlPlane, folder: Path, drivers: Mapping[str, Json], node: str = "node-0"
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._records = folder / "records.jsonl"
        given = folder / "drivers.json"
        given.write_text(json.dumps(drivers))
        reach = [f"--kubeconfig={plane.kubeconfig()}", f"--node={node}", *plane.profile.gate_flags()]
        files = [f"--drivers={given}", f"--records={self._records}"]
        super().__init__("kubelet", [program, *reach, *files], plane.folder / "logs" / f"kubelet-{node}.log")

    def await_registered(self) -> None:
        """Wait until its drivers have registered. Raises StartError."""
        self.await_ready(lambda: bool(self.records("ready")))

    def records(self, step: str = "", uid: str = "") -> list[Json]:
        """What it did, in order. step: such as prepare, or NodePrepareResources of a driver; uid: of a pod or claim."""
        text = self._records.read_text() if self._records.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [one for one in found if step in ("", one["step"]) and uid in ("", one.get("uid"))]
