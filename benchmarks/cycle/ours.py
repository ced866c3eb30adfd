"""Our side: the decisions of the live scheduler in this process, one pod after the other, without an API server.

The argument is the policy (first-fit). Reads a case of `cases` from standard input, and writes for which node
each decision was and how long it took, as `plugins cycle` does. What is timed is what the loop does for a pod: its
claims, the decision, and taking what it got.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import orjson

from allocator.gates import DEFAULT_RELEASE, Features
from allocator.policies import policy_of
from allocator.policies.contract import FIRST_FIT, Policy
from benchmarks.endtoend.workload import Json
from scheduler import garbage
from scheduler.cli.verify_scheduling import FIELDS
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import Placed
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import take_inventory
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.plugins.profile import Profile
from scheduler.state.claims import Waiting, full


class NotDecided(Exception):
    """A pod that should get a node gets none; the message says why."""


def main() -> None:
    """The program."""
    garbage.filling()
    policy = policy_of(sys.argv[1]) if len(sys.argv) > 1 else FIRST_FIT
    cluster, waiting = loaded(orjson.loads(sys.stdin.buffer.read()), policy)
    garbage.keep()
    nodes, nanoseconds = [], []
    for pod in waiting:
        started = time.perf_counter_ns()
        nodes.append(cycle(cluster, pod))
        nanoseconds.append(time.perf_counter_ns() - started)
    sys.stdout.buffer.write(orjson.dumps({"nodes": nodes, "nanoseconds": nanoseconds}))


def loaded(case: Mapping[str, Sequence[Json]], policy: Policy = FIRST_FIT) -> tuple[Cluster, list[Pod]]:
    """The cluster, and the pods without a node in their order."""
    inventory = take_inventory(_objects(case))
    if inventory.errors:
        raise ValueError("; ".join(map(str, inventory.errors)))
    claims, features, profiles = Claims(inventory), Features.of(DEFAULT_RELEASE), (Profile(policy=policy),)
    cluster = cluster_of(inventory, claims, inventory.pods, features, assumes_room=False, profiles=profiles)
    cluster.fleet.refresh()  # as the program does once it has seen everything
    return cluster, [pod for pod in inventory.pods if not pod.node_name]


def cycle(cluster: Cluster, pod: Pod) -> str:
    """Decide for the pod and take what it gets; the answer is its node. Raises NotDecided where it gets none."""
    found = cluster.claims_of(pod)
    if isinstance(found, Waiting):
        raise NotDecided(f"pod {pod} waits: {found.reason}")
    claims = [one.claim for one in found]
    cluster.expect(pod, claims)
    result = decide(cluster, pod, claims, full(pod, found))
    if not isinstance(result, Placed):
        raise NotDecided(f"pod {pod} is not placed: {result}")
    cluster.reserve(pod, result)
    return result.node


def _objects(case: Mapping[str, Sequence[Json]]) -> Iterator[RawObject]:
    for name, objects in case.items():
        what = FIELDS[name]
        for number, one in enumerate(objects):
            yield RawObject(Place(f"{name}[{number}]"), {"apiVersion": what.api_version, "kind": what.kind, **one})


if __name__ == "__main__":
    main()
