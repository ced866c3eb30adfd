"""What is kept for one pod on a node keeps nobody from preempting on other nodes, in small random worlds."""

from collections import Counter
from dataclasses import replace
from random import Random

from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced
from scheduler.preemption.preemption import NodeToWin, Preemption, Preemptor
from scheduler.preemption.records import PreemptionRecord, PreemptionRecords
from tests import extent
from tests.builders import watched
from tests.properties.preemption.worlds import World, a_full_world, cluster_of_world

WORLDS = extent.chosen("PREEMPTION_WORLDS", 400, 20_000)
SEED = extent.chosen("PREEMPTION_SEED", 1, extent.day())


def preemption(cluster: Cluster, pod: Pod) -> Preemption | None:
    """What the pod wins; None where it need not win anything, or cannot be decided."""
    found = cluster.claims_of(pod)
    assert isinstance(found, list | tuple)
    claims = [one.claim for one in found]
    decided = decide(cluster, pod, claims)
    if not isinstance(decided, NotPlaced):
        return None
    return Preemptor(cluster).preemption(PodCycle(cluster, pod, claims), decided)


def another_like(cluster: Cluster, pod: Pod) -> Pod:
    """A pod that asks for the same, with claims of its own."""
    found = cluster.claims_of(pod)
    assert isinstance(found, list | tuple)
    for one in found:
        own = replace(one.claim, name=f"{one.claim.name}-2", uid=f"{one.claim.uid}-2")
        cluster.set_claim(watched(own), 1)
    entries = tuple(replace(entry, claim_name=f"{entry.claim_name}-2") for entry in pod.claims)
    other = replace(pod, name="other", uid="uid-other", claims=entries)
    cluster.set_pod(other)
    return other


def won(found: Preemption | None) -> tuple[NodeToWin | None, str] | None:
    """The node and who goes there, without what is kept elsewhere."""
    return (replace(found.candidate, number=0), found.nominated or "") if found and found.candidate else None


def check(world: World) -> str:
    """What became of the second pod."""
    cluster, pod, _ = cluster_of_world(world)
    first = preemption(cluster, pod)
    if first is None or first.candidate is None or not first.candidate.victims:
        return "nobody goes for the first"
    other, records = another_like(cluster, pod), PreemptionRecords(cluster)
    record = PreemptionRecord.of(pod, first)
    records.set(record)
    cluster.nominations.set(replace(pod, nominated_node=record.node))
    with records.seen_by(other):
        beside = preemption(cluster, other)
    records.drop(pod.uid)
    cluster.nominations.remove(pod.uid)
    cluster.remove_node(record.node)
    elsewhere = preemption(cluster, other)
    assert beside is not None, "the first pod has found no node"
    if beside.candidate is not None and beside.candidate.node == record.node:
        return "the same node"
    assert won(beside) == won(elsewhere)
    return "another node" if beside.candidate else "nobody goes for the second"


def test_who_goes_on_other_nodes_is_as_if_the_node_that_is_kept_were_not_there() -> None:
    outcomes: Counter[str] = Counter()
    for number in range(WORLDS):
        world = a_full_world(Random(f"{SEED}/beside/{number}"))  # noqa: S311 - not for secrets
        try:
            outcomes[check(world)] += 1
        except AssertionError as error:
            error.add_note(f"PREEMPTION_SEED={SEED}, world {number}: {world}")
            raise
    assert (
        min(outcomes[kind] for kind in ("another node", "the same node", "nobody goes for the second")) > WORLDS // 100
    )
