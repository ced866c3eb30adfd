"""Two of `dra scheduler run` side by side: each has half of the pods, a name and a Lease of its own, and all devices.

Neither knows of the other but by what both write. Set up as docs/scheduler.md says for two schedulers.
"""

import json
from collections.abc import Sequence

from benchmarks.endtoend.contender import Running
from benchmarks.endtoend.contenders.ours import start_scheduler
from benchmarks.endtoend.workload import SCHEDULER
from tests.controlplane.identities import OURS
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import Kind

ROLE = Kind("rbac.authorization.k8s.io/v1", "Role")


class Pair:
    """Two active instances."""

    name = "two dra-schedulers"
    column = "pair"
    schedulers = (SCHEDULER, f"{SCHEDULER}-too")

    def start(self, plane: ControlPlane) -> Running:
        """Start both at the same time."""
        _allow_leases(plane, self.schedulers)
        running = [start_scheduler(plane, name, f"--config={_configuration(plane, name)}") for name in self.schedulers]
        processes = [process for one in running for process in one.processes]
        return Running(processes, lambda: "".join(one.metrics() for one in running))


def _configuration(plane: ControlPlane, lease: str) -> str:
    kind = {"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "DraSchedulerConfiguration"}
    path = plane.folder / f"{lease}.json"
    path.write_text(json.dumps({**kind, "leaderElection": {"resourceName": lease}}))
    return str(path)


def _allow_leases(plane: ControlPlane, names: Sequence[str]) -> None:
    """Let the Role of `manifests/base` name these."""
    api = plane.client()
    role = api.get(ROLE, OURS.name, "kube-system")
    rules = [{**rule, "resourceNames": list(names)} if "resourceNames" in rule else rule for rule in role["rules"]]
    api.replace({**role, "apiVersion": ROLE.api_version, "kind": ROLE.kind, "rules": rules})
