"""Objects to what becomes of them, below the command line."""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.gates import Features
from scheduler.core_v1.pod import Pod
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.offline.input_claims import Claims, identified
from scheduler.offline.placement import PlacedPod, Placement, Result, UnplacedPod, unused_claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.offline.virtual_pods import expand
from tests.unit.scheduler.manifests import Json


def taken(*objects: Json) -> Inventory:
    """The inventory of objects as the documents of one file."""
    return take_inventory(RawObject(Place("test.yaml", number), raw) for number, raw in enumerate(objects, 1))


def inventory_of(*objects: Json) -> Inventory:
    """The inventory of objects that hold no error."""
    inventory = taken(*objects)
    assert [str(error) for error in inventory.errors] == []
    return inventory


def virtual_pods(*objects: Json) -> list[Pod]:
    """The pods that the workloads among the objects stand for."""
    inventory = inventory_of(*objects)
    return list(expand(inventory.workloads, inventory.pods, inventory.nodes))


@dataclass(frozen=True)
class Scenario:
    """A finished run over all pods, and the claims that none of them uses."""

    results: list[Result]
    placement: Placement
    reported: list[tuple[int, int]]

    def node_of(self, pod: str) -> str:
        """The node of the pod, empty where it has none."""
        result = self._of(pod)
        return result.node if isinstance(result, PlacedPod) else ""

    def reason_of(self, pod: str) -> str:
        """What holds for all nodes and speaks against the pod."""
        result = self._of(pod)
        assert isinstance(result, UnplacedPod)
        return result.reason

    def devices_of(self, pod: str) -> list[str]:
        """The names of the pod's devices."""
        result = self._of(pod)
        allocations = [claim.allocation for claim in result.claims if claim.allocation]
        return [device.device for allocation in allocations for device in allocation.results]

    @property
    def order(self) -> list[str]:
        """The pods in the order in which they were taken."""
        return [result.pod.name for result in self.results if result.pod]

    def _of(self, pod: str) -> Result:
        return next(result for result in self.results if result.pod and result.pod.name == pod)


def run(
    *objects: Json, release: str = "1.36", gates: Mapping[str, bool] | None = None, budget_steps: int = 1000
) -> Scenario:
    """Place the pods of the objects, and the claims that none of them uses."""
    inventory = inventory_of(*objects)
    claims = Claims(inventory)
    features = Features.of(release, gates)
    pods = identified([*inventory.pods, *expand(inventory.workloads, inventory.pods, inventory.nodes)])
    cluster = cluster_of(inventory, claims, pods, features, budget_steps=budget_steps)
    placement = Placement(cluster, claims, inventory.namespaces, shows_every_node=True)
    unused = unused_claims(claims, pods)
    reported: list[tuple[int, int]] = []
    results = placement.run(pods, unused, lambda done, total: reported.append((done, total)))
    return Scenario(results, placement, reported)
