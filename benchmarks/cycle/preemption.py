"""Preemption alone: full nodes with eight pods each, of three priorities, and pods that fit nowhere.

The arguments are a case and the number of nodes. What is timed is what follows a refusal: who has to go, and what the
pod gets then. The victims go, and the pod is there before the next one comes. Writes nodes and nanoseconds as `ours`.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from random import Random

import orjson

from benchmarks.cycle.ours import NotDecided, loaded
from benchmarks.endtoend import workload
from benchmarks.endtoend.workload import CLASS, DRIVER, NAMESPACE, REQUEST, Json, Size, device_name, node_name, pod_name
from scheduler import garbage
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced
from scheduler.preemption.preemption import NodeToWin, Preemptor
from scheduler.state.claims import Waiting, full

CASES = ("nobody is lower", "cpu", "cpu, 50 budgets", "devices")
OF_NODE = 8
APPS = 50
LOW = (0, 1, 5)
ABOVE, BELOW = 100, -1


def main() -> None:
    """The program."""
    case, nodes, waiting = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    garbage.filling()
    cluster, pods = loaded(objects(case, nodes, waiting))
    garbage.keep()
    preemptor = Preemptor(cluster)
    names, nanoseconds = [], []
    for pod in pods:
        name, took = _once(preemptor, cluster, pod)
        names.append(name)
        nanoseconds.append(took)
    sys.stdout.buffer.write(orjson.dumps({"nodes": names, "nanoseconds": nanoseconds}))


def _once(preemptor: Preemptor, cluster: Cluster, pod: Pod) -> tuple[str, int]:
    """The node that the pod wins, and how long that took. Raises NotDecided."""
    found = cluster.claims_of(pod)
    if isinstance(found, Waiting):
        raise NotDecided(f"pod {pod} waits: {found.reason}")
    claims, used_up = [one.claim for one in found], full(pod, found)
    refused = decide(cluster, pod, claims, used_up)
    if not isinstance(refused, NotPlaced):
        raise NotDecided(f"pod {pod} should fit nowhere: {refused}")
    started = time.perf_counter_ns()
    won = preemptor.preemption(PodCycle(cluster, pod, claims, used_up), refused)
    took = time.perf_counter_ns() - started
    if (won.candidate is None) is (pod.priority == ABOVE):
        raise NotDecided(f"pod {pod}: {won.text}")
    if won.candidate is not None:
        _take(cluster, pod, won.candidate)
        cluster.claims.reserve(pod.uid, won.candidate.node, [(claim, claim.allocation) for claim in won.given])
    return won.nominated or "", took


def _take(cluster: Cluster, pod: Pod, won: NodeToWin) -> None:
    """The victims and their claims are gone, and the pod has its node."""
    for victim in won.pods:
        cluster.remove_pod(victim.uid)
        for one in victim.claims:
            cluster.remove_claim(_claim_uid(one.claim_name))
    cluster.pods.assume(pod, won.node)


def objects(case: str, nodes: int, waiting: int) -> Mapping[str, list[Json]]:
    """What there is, by the names that `dra verify scheduling` has for it; the same on every run."""
    rng, size = Random(1), Size(nodes, nodes * OF_NODE + waiting)  # noqa: S311 - not for secrets
    has_devices, priority = case == "devices", BELOW if case == CASES[0] else ABOVE
    pods = [_pod(number, size, rng, priority, has_devices=has_devices) for number in range(size.pods)]
    found = {"nodes": list(workload.nodes(size)), "pods": pods}
    if has_devices:
        claims = [_claim(number, size) for number in range(size.pods)]
        slices = [_full(one) for one in workload.slices(size)]
        found |= {"deviceClasses": [workload.device_class()], "resourceSlices": slices, "resourceClaims": claims}
    if case == CASES[2]:
        found["podDisruptionBudgets"] = list(_budgets())
    return found


def _pod(number: int, size: Size, rng: Random, priority: int, *, has_devices: bool) -> Json:
    name, is_new = pod_name(number), number >= size.nodes * OF_NODE
    cpu = "100m" if has_devices else f"{8 * rng.randint(1, 3)}" if is_new else "8"
    resources: Json = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    spec: Json = {"containers": [{"name": "main", "image": "registry.example.com/main:1", "resources": resources}]}
    spec["schedulerName"] = "default-scheduler"
    spec["priority"] = priority if is_new else rng.choice(LOW)
    if has_devices:
        resources["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    metadata = {"name": name, "namespace": NAMESPACE, "uid": _uid(number), "labels": {"app": f"app-{number % APPS}"}}
    pod: Json = {"metadata": metadata, "spec": spec}
    if not is_new:
        spec["nodeName"] = node_name(number // OF_NODE)
        pod["status"] = {"startTime": f"2026-11-01T{rng.randrange(24):02}:{rng.randrange(60):02}:00Z"}
    return pod


def _full(slice_: Json) -> Json:
    """The slice with as many devices as there are pods on a node."""
    spec = slice_["spec"]
    return {**slice_, "spec": {**spec, "devices": spec["devices"][:OF_NODE]}}


def _uid(pod: int) -> str:
    return f"uid-of-{pod_name(pod)}"


def _claim_uid(name: str) -> str:
    return f"uid-of-claim-{name}"


def _claim(pod: int, size: Size) -> Json:
    name, is_new = pod_name(pod), pod >= size.nodes * OF_NODE
    count = 1 + pod % 4 if is_new else 1
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
    claim: Json = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": _claim_uid(name)},
        "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}},
    }
    if is_new:
        return claim
    node = node_name(pod // OF_NODE)
    result = {"request": REQUEST, "driver": DRIVER, "pool": node, "device": device_name(pod % OF_NODE)}
    on_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [on_node]}]}
    users = [{"resource": "pods", "name": name, "uid": _uid(pod)}]
    allocation = {"devices": {"results": [result]}, "nodeSelector": selector}
    return {**claim, "status": {"allocation": allocation, "reservedFor": users}}


def _budgets() -> Iterator[Json]:
    for number in range(APPS):
        selector = {"matchLabels": {"app": f"app-{number}"}}
        metadata = {"name": f"app-{number}", "namespace": NAMESPACE}
        yield {"metadata": metadata, "spec": {"selector": selector}, "status": {"disruptionsAllowed": 1}}


if __name__ == "__main__":
    main()
