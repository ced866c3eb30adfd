"""What is kept for a preemptor between the first eviction and its place."""

from dataclasses import replace

from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.preemption.preemption import Preemptor
from scheduler.preemption.records import PreemptionRecord, PreemptionRecords, RecordState
from tests.builders import (
    NODE,
    a_claim,
    a_class,
    a_node,
    a_slice,
    a_user,
    amounts,
    an_allocated_claim,
    kubernetes,
    watched,
)

HELD = an_allocated_claim("gpu-0", name="held")
VICTIM = a_user("victim", "held", node_name=NODE, priority=1)
URGENT = a_user("urgent", "own", priority=10)
OWN = a_claim(name="own")


def a_cluster() -> Cluster:
    """One node whose only device a pod of priority 1 has."""
    cluster = Cluster(kubernetes(), is_ours=lambda _: True)
    cluster.set_class(a_class())
    cluster.set_node(a_node(allocatable=amounts(cpu="2", memory="1Gi", pods="9")))
    cluster.set_slice(a_slice("gpu-0"))
    cluster.set_pod(VICTIM)
    cluster.set_claim(watched(HELD, users=[VICTIM]), 1)
    cluster.set_claim(watched(OWN), 1)
    return cluster


def a_record(cluster: Cluster, records: PreemptionRecords) -> PreemptionRecord:
    refused = decide(cluster, URGENT, [OWN])
    assert isinstance(refused, NotPlaced)
    won = Preemptor(cluster).preemption(PodCycle(cluster, URGENT, [OWN]), refused)
    record = PreemptionRecord.of(URGENT, won, since=7)
    records.set(record)
    return record


def is_placed(cluster: Cluster, records: PreemptionRecords, pod: Pod) -> bool:
    """Whether the pod, with a claim of its own for a device, is placed."""
    claim = OWN if pod.uid == URGENT.uid else a_claim(name=f"of-{pod.name}")
    with records.seen_by(pod):
        return isinstance(decide(cluster, pod, [claim]), Placed)


def test_record_names_who_goes_and_what_the_pod_gets() -> None:
    cluster = a_cluster()
    record = a_record(cluster, PreemptionRecords(cluster))
    assert (record.node, record.victims, record.released) == (NODE, frozenset({VICTIM.uid}), frozenset({HELD.uid}))
    (claim,) = record.claims
    assert claim.allocation is not None
    assert [result.device for result in claim.allocation.results] == ["gpu-0"]
    assert record.since == 7


def test_states_follow_what_the_watches_show() -> None:
    cluster = a_cluster()
    record = a_record(cluster, PreemptionRecords(cluster))
    states = [record.state(cluster)]
    cluster.set_pod(replace(VICTIM, is_deleting=True))
    states.append(record.state(cluster))
    cluster.remove_pod(VICTIM.uid)
    states.append(record.state(cluster))
    cluster.set_claim(watched(replace(HELD, allocation=None)), 2)
    states.append(record.state(cluster))
    assert states == [RecordState.EVICTING, RecordState.LEAVING, RecordState.RELEASING, RecordState.HELD]


def test_freed_devices_are_kept_against_pods_that_do_not_go_before() -> None:
    cluster = a_cluster()
    records = PreemptionRecords(cluster)
    a_record(cluster, records)
    cluster.remove_pod(VICTIM.uid)
    cluster.remove_claim(HELD.uid)
    priorities = {
        priority: is_placed(cluster, records, a_user(f"p{priority}", priority=priority)) for priority in (1, 10, 11)
    }
    assert priorities == {1: False, 10: False, 11: True}
    assert is_placed(cluster, records, URGENT)
    records.drop(URGENT.uid)
    assert is_placed(cluster, records, a_user("p1", priority=1))


def test_nobody_else_goes_for_a_pod_of_the_node_before_all_is_free() -> None:
    cluster = a_cluster()
    records = PreemptionRecords(cluster)
    record = a_record(cluster, records)
    other = a_user("other", nominated_node=NODE)
    assert records.ongoing(other) is record
    assert records.ongoing(replace(other, nominated_node="")) is None
    cluster.remove_pod(VICTIM.uid)
    assert records.ongoing(other) is record
    cluster.remove_claim(HELD.uid)
    assert records.ongoing(other) is None


def test_second_record_of_a_pod_takes_the_place_of_the_first() -> None:
    cluster = a_cluster()
    records = PreemptionRecords(cluster)
    record = a_record(cluster, records)
    records.set(replace(record, tries=1))
    assert records.records[URGENT.uid].tries == 1
    records.drop(URGENT.uid)
    records.drop(URGENT.uid)
    assert not records.records
