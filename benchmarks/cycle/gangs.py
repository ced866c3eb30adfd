"""Groups of pods alone: one decision for all members, again and again, in a cluster that stays as it is.

The arguments are a case and a number of decisions. Of 500 nodes, 256 get a member with 8 devices each, or one node less
has room than there are members; of 5,000 nodes in racks of 40, all of 32 members have to be in one rack, and the racks
have room for 31 each, but the last. Writes nanoseconds of the processor: a decision waits for nothing else, so a busy
machine only adds the time of others.
"""

import sys
import time
from collections.abc import Mapping

import orjson

from benchmarks.cycle.ours import NotDecided, loaded
from benchmarks.endtoend import workload
from benchmarks.endtoend.workload import CLASS, NAMESPACE, REQUEST, Json, Size
from scheduler import garbage
from scheduler.core_v1.group_terms import GROUP, MINIMUM, REQUIRED
from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.group import GroupOfPods, groups_of
from scheduler.pod_groups.group_placer import place_group
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupPlaced

PLACED, REFUSED, RACK = "256 pods of 8 devices", "256 pods of 8 devices, refused", "32 pods in a rack"
CASES: Mapping[str, tuple[int, int, int]] = {PLACED: (500, 256, 8), REFUSED: (500, 256, 8), RACK: (5000, 32, 8)}
"""Nodes, members, and devices of each."""

TARGETS_MS: Mapping[str, int] = {PLACED: 200, REFUSED: 500, RACK: 50}
"""How long a decision may take."""

_RACK, _RACK_NODES = "example.com/rack", 40


def main() -> None:
    """The program."""
    case, decisions = sys.argv[1], int(sys.argv[2])
    garbage.filling()
    cluster, group = gang(case)
    garbage.keep()
    nanoseconds = []
    for _ in range(decisions):
        started = time.process_time_ns()
        found = place_group(cluster, group)
        nanoseconds.append(time.process_time_ns() - started)
        if not isinstance(found, GroupNotPlaced if case == REFUSED else GroupPlaced):
            raise NotDecided(f"{case}: {found}")
    sys.stdout.buffer.write(orjson.dumps({"nanoseconds": nanoseconds}))


def gang(case: str) -> tuple[Cluster, GroupOfPods]:
    """The cluster and the group that waits there."""
    cluster, waiting = loaded(objects(case, *CASES[case]))
    (group,) = groups_of(waiting, cluster.pod_groups)
    return cluster, group


def objects(case: str, nodes: int, members: int, devices: int) -> Mapping[str, list[Json]]:
    """What there is, by the names that `dra verify scheduling` has for it; the same on every run."""
    size = Size(nodes, members)
    found = list(workload.nodes(size))
    for number, node in enumerate(found):
        node["metadata"]["labels"][_RACK] = f"rack-{number // _RACK_NODES}"
        if not _is_open(case, number, nodes, members):
            node["spec"] = {"unschedulable": True}
    return {
        "nodes": found,
        "pods": [_pod(number, members, case) for number in range(members)],
        "deviceClasses": [workload.device_class()],
        "resourceSlices": list(workload.slices(size)),
        "resourceClaims": [_claim(number, devices) for number in range(members)],
    }


def for_kube_scheduler(case: str) -> Mapping[str, list[Json]]:
    """The same for kube-scheduler, whose groups are PodGroups."""
    found = objects(case, *CASES[case])
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": len(found["pods"])}}}
    if case == RACK:
        spec["schedulingConstraints"] = {"topology": [{"key": _RACK}]}
    group = {"metadata": {"name": "gang", "namespace": NAMESPACE, "uid": "uid-of-gang"}, "spec": spec}
    ours = {"schedulerName": "default-scheduler", "schedulingGroup": {"podGroupName": "gang"}}
    pods = [{**pod, "spec": {**pod["spec"], **ours}} for pod in found["pods"]]
    return {**found, "pods": pods, "podGroups": [group]}


def _is_open(case: str, number: int, nodes: int, members: int) -> bool:
    if case == REFUSED:
        return number < members - 1
    is_last = number // _RACK_NODES == (nodes - 1) // _RACK_NODES
    return case != RACK or is_last or number % _RACK_NODES < members - 1


def _pod(number: int, members: int, case: str) -> Json:
    name = f"gang-{number:03d}"
    term = {REQUIRED: _RACK} if case == RACK else {}
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-of-{name}",
        "labels": {GROUP: "gang"},
        "annotations": {MINIMUM: str(members), **term},
    }
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpus", "resourceClaimName": name}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _claim(number: int, devices: int) -> Json:
    name = f"gang-{number:03d}"
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": devices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-claim-{name}"},
        "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}},
    }


if __name__ == "__main__":
    main()
