"""What decisions alone are measured on: a cluster where a pod is on every node already, and pods that wait.

All pods of a case ask for the same. Objects are complete, as a control plane and its controllers would leave them, and
the same on every run.
"""

from collections.abc import Iterator, Mapping

from benchmarks.endtoend import workload
from benchmarks.endtoend.workload import (
    CLASS,
    DRIVER,
    EVERY_FILTER,
    NAMESPACE,
    PLAIN,
    REQUEST,
    Asks,
    Json,
    Size,
    device_name,
    node_name,
    pod_name,
)

DEFAULT_SCHEDULER = "default-scheduler"

CASES: Mapping[str, Asks] = {
    "claim": PLAIN,
    "spread": Asks("hard zone spread", spread=True),
    "apart": Asks("host anti-affinity to its own app", apart=True),
    "near": Asks("one preferred affinity", near=True),
    "volume": Asks("a bound volume and a claim", device=True, volume=True),
    "every": EVERY_FILTER,
}
"""By a name for flags."""


def cluster(asks: Asks, nodes: int, waiting: int) -> Mapping[str, list[Json]]:
    """The objects by the names that `dra verify scheduling` has for them. waiting: pods that have no node yet."""
    size = Size(nodes, nodes + waiting)
    found = {"nodes": list(workload.nodes(size)), "pods": list(_pods(asks, size))}
    if asks.device:
        claims = [_device_claim(number, number if number < nodes else None) for number in range(size.pods)]
        slices = list(workload.slices(size))
        found |= {"deviceClasses": [workload.device_class()], "resourceSlices": slices, "resourceClaims": claims}
    if asks.volume:
        found |= {
            "storageClasses": [workload.storage_class()],
            "csiNodes": list(workload.csi_nodes(size)),
            "persistentVolumes": list(workload.volumes(size)),
            "persistentVolumeClaims": list(workload.volume_claims(size)),
        }
    return found


def _pods(asks: Asks, size: Size) -> Iterator[Json]:
    """Each with a uid and its claim; those that come first are on the node of their number."""
    for number, pod in enumerate(workload.pods(size, [DEFAULT_SCHEDULER], asks)):
        pod["metadata"]["uid"] = _uid(number)
        if asks.device:
            statuses = [{"name": "gpu", "resourceClaimName": pod_name(number)}]
            pod["status"] = {"resourceClaimStatuses": statuses}
        if number < size.nodes:
            pod["spec"]["nodeName"] = node_name(number)
        yield pod


def _uid(pod: int) -> str:
    return f"uid-of-{pod_name(pod)}"


def _device_claim(pod: int, node: int | None) -> Json:
    """The pod's claim, as it was made of the template. node: where it is allocated; None where it is not."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name(pod), "uid": _uid(pod), "controller": True}
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1}  # as the API server defaults it
    claim: Json = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": pod_name(pod),
            "namespace": NAMESPACE,
            "uid": f"uid-of-claim-{pod:05d}",
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}},
    }
    return claim if node is None else {**claim, "status": _allocated(pod, node)}


def _allocated(pod: int, node: int) -> Json:
    on_node = {"key": "metadata.name", "operator": "In", "values": [node_name(node)]}
    result = {"request": REQUEST, "driver": DRIVER, "pool": node_name(node), "device": device_name(0)}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [on_node]}]},
    }
    consumer = {"resource": "pods", "name": pod_name(pod), "uid": _uid(pod)}
    return {"allocation": allocation, "reservedFor": [consumer]}
