"""What is kept for a preemptor takes from no claim what that has: nobody is a rival for it, and nothing is violated.

The victims still have their devices while the record already keeps the same ones.
"""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from allocator.bits import bits
from allocator.model import DeviceID, PoolID
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced
from scheduler.preemption.preemption import Preemptor
from scheduler.preemption.records import PreemptionRecord, PreemptionRecords
from tests import extent
from tests.properties.preemption.worlds import PART, SHARE, a_world, cluster_of_world

WORLDS = extent.chosen("RECORD_WORLDS", 1200, 20_000)


def overlaps(cluster: Cluster) -> Mapping[str, Any]:
    """What claims say of each other, and devices of their capacity, and pools of their counters."""
    rivals, found = cluster.rival_claims, dict[str, Any]()
    for number in bits(cluster.fleet.all):
        for device in sorted(cluster.fleet.reached_by(cluster.fleet.node(number))):
            found[f"capacity of {device}"] = rivals.short_of(device)
            found[f"counters of {device.pool}"] = rivals.overdrawn(PoolID(device.driver, device.pool))
            found |= {f"rivals of {uid}": rivals.of(uid) for uid in cluster.claims.holders(DeviceID(*device))}
    return found


def test_nobody_is_a_rival_for_what_a_record_keeps() -> None:
    kinds: Counter[str] = Counter()
    for number in range(WORLDS):
        world = a_world(Random(f"records/{number}"))  # noqa: S311 - not for secrets
        if not {wish.kind for wish in world.wishes} & {PART, SHARE}:
            continue  # whole devices are not added up
        cluster, pod, claims = cluster_of_world(world)
        refused = decide(cluster, pod, claims)
        if not isinstance(refused, NotPlaced):
            continue
        won = Preemptor(cluster).preemption(PodCycle(cluster, pod, claims), refused)
        if won.candidate is None:
            continue
        before = overlaps(cluster)
        records = PreemptionRecords(cluster)
        records.set(PreemptionRecord.of(pod, won))
        assert overlaps(cluster) == before, f"world {number}: {world}"
        kinds.update(wish.kind for wish in world.wishes)
    assert min(kinds[kind] for kind in (PART, SHARE)) > WORLDS // 200
