"""The engine on a small fleet: a virtual clock, the live queue, and what events do to those who wait."""

from dataclasses import replace
from pathlib import Path

import pytest

from allocator.gates import DEFAULT_RELEASE, Features
from allocator.model import Node, Taint, Toleration
from allocator.policies import policy_of
from scheduler.core_v1.pod import Owner, Pod
from scheduler.offline.input_claims import Claims
from scheduler.offline.placement import Placement
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.plugins.profile import Profile
from scheduler.simulation.changes import (
    Appears,
    Goes,
    NodeDrains,
    PodArrives,
    PodGoes,
    SimulationEvent,
)
from scheduler.simulation.engine import Attempted, Follower, Simulation
from scheduler.simulation.jobs import copy_of
from scheduler.simulation.openb import GATES, Openb

FEATURES = Features.of(DEFAULT_RELEASE, GATES)
NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,8000,1024,1,A\nnode-1,8000,1024,2,B\n"
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
whole-a,1000,10,1,1000,A
half,1000,10,1,500,
two,1000,10,2,1000,
cpu,4000,10,0,0,
"""
WHOLE_A, HALF, TWO, CPU = range(4)


@pytest.fixture
def trace(tmp_path: Path) -> Openb:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "small.csv").write_text(PODS)
    return Openb(tmp_path, "small")


@pytest.fixture
def placement(trace: Openb) -> Placement:
    inventory = trace.inventory(FEATURES)
    claims = Claims(inventory)
    profiles = (Profile(policy=policy_of("best-fit")),)
    return Placement(cluster_of(inventory, claims, (), FEATURES, profiles=profiles), claims, inventory.namespaces)


def pods(trace: Openb, *rows: int) -> list[Pod]:
    jobs = trace.jobs()
    return [copy_of(jobs[row].spec, f"openb-{number:05}") for number, row in enumerate(rows)]


def run(
    placement: Placement, *events: tuple[float, SimulationEvent], retries: bool = True
) -> tuple[list[str], Simulation]:
    """What became of the pods, as `time pod node`, or the reasons in place of the node."""
    told: list[str] = []

    def tell(decision: Attempted) -> None:
        came_of_it = decision.node or ",".join(sorted(map(str, decision.reasons))) or decision.failure
        told.append(f"{decision.time_s:g} {decision.pod.name} {came_of_it}")

    simulation = Simulation(placement, tell, retries=retries)
    simulation.run(events)
    return told, simulation


# -- preemption


class Evictions(Follower):
    """Takes down who was evicted, what was lost by it, and whether for a pod of higher priority."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float, bool]] = []

    def evicted(self, pod: Pod, lost_s: float, *, by_preemption: bool = False, by_move: bool = False) -> None:
        assert not by_move
        self.told.append((pod.name, lost_s, by_preemption))


def preempting(
    placement: Placement, *events: tuple[float, SimulationEvent], preempts: bool = True
) -> tuple[list[str], list[tuple[str, float, bool]]]:
    """What became of the pods, as `time pod node message`, and who was evicted."""
    told: list[str] = []

    def tell(decision: Attempted) -> None:
        message = decision.message if decision.node else ""
        told.append(f"{decision.time_s:g} {decision.pod.name} {decision.node or '-'} {message}".strip())

    follower = Evictions()
    Simulation(placement, tell, follower, preempts=preempts).run(events)
    return told, follower.told


def test_pod_of_higher_priority_gets_the_device_of_a_lower_one_which_runs_again_in_full(
    trace: Openb, placement: Placement
) -> None:
    low, other, high = pods(trace, WHOLE_A, TWO, WHOLE_A)
    high = high.changed(priority=10)
    arrivals = [PodArrives(low, 100.0), PodArrives(other), PodArrives(high, 30.0)]
    told, evicted = preempting(placement, (0, arrivals[0]), (1, arrivals[1]), (40, arrivals[2]), (1000, PodGoes("no")))
    assert evicted == [(low.name, 40.0, True)]
    assert told[:4] == [
        f"0 {low.name} node-0",
        f"1 {other.name} node-1",
        f"40 {high.name} node-0 evicts {low}",
        f"40 {low.name} -",
    ]
    assert told[-1] == f"70 {low.name} node-0"
    assert not placement.cluster.pods.is_placed(low.uid)  # it has ended 100 s after that


def test_nobody_is_evicted_by_equals_nor_without_preemption(trace: Openb, placement: Placement) -> None:
    low, equal = pods(trace, WHOLE_A, WHOLE_A)
    told, evicted = preempting(placement, (0, PodArrives(low)), (1, PodArrives(equal)))
    assert (told[1], evicted) == (f"1 {equal.name} -", [])


def test_preemption_can_be_turned_off(trace: Openb, placement: Placement) -> None:
    low, high = pods(trace, WHOLE_A, WHOLE_A)
    told, evicted = preempting(
        placement, (0, PodArrives(low)), (1, PodArrives(high.changed(priority=1))), preempts=False
    )
    assert (told[1], evicted) == (f"1 {high.name} -", [])


def test_no_more_go_than_have_to_and_the_least_important_first(trace: Openb, placement: Placement) -> None:
    first, second, urgent = pods(trace, HALF, TWO, WHOLE_A)
    arriving = [first.changed(priority=1), second.changed(priority=2), urgent.changed(priority=10)]
    told, evicted = preempting(placement, *((float(time), PodArrives(pod)) for time, pod in enumerate(arriving)))
    assert [name for name, *_ in evicted] == [first.name]
    assert told[2] == f"2 {urgent.name} node-0 evicts {first}"


def test_drain_loses_what_has_run_since_and_is_no_preemption(trace: Openb, placement: Placement) -> None:
    (pod,) = pods(trace, WHOLE_A)
    _, evicted = preempting(placement, (5, PodArrives(pod)), (12, NodeDrains("node-0")))
    assert evicted == [(pod.name, 7.0, False)]


# -- arrivals


def test_pods_are_decided_when_they_arrive(trace: Openb, placement: Placement) -> None:
    first, second = pods(trace, WHOLE_A, TWO)
    told, simulation = run(placement, (2, PodArrives(first)), (5, PodArrives(second)))
    assert told == ["2 openb-00000 node-0", "5 openb-00001 node-1"]
    assert simulation.now == 5
    assert [placed.node for placed in simulation.placed.values()] == ["node-0", "node-1"]


def test_a_pod_that_ends_gives_back_its_devices_and_whoever_waits_for_them_is_tried(
    trace: Openb, placement: Placement
) -> None:
    first, second = pods(trace, WHOLE_A, WHOLE_A)
    told, simulation = run(placement, (0, PodArrives(first, 100.0)), (1, PodArrives(second, 50.0)))
    assert told == ["0 openb-00000 node-0", "1 openb-00001 devices", "100 openb-00001 node-0"]
    assert simulation.now == 150
    assert not simulation.placed
    assert not placement.cluster.fleet.usage.allocated_in(next(iter(placement.cluster.fleet.slices.by_pool)))
    assert not placement.claims.objects


def test_a_wakeup_within_the_backoff_waits_for_its_end(trace: Openb, placement: Placement) -> None:
    first, second = pods(trace, WHOLE_A, WHOLE_A)
    told, _ = run(placement, (0, PodArrives(first, 10.5)), (10, PodArrives(second)))
    assert told == ["0 openb-00000 node-0", "10 openb-00001 devices", "11 openb-00001 node-0"]


def test_an_event_that_helps_nobody_wakes_nobody(trace: Openb, placement: Placement) -> None:
    waits, other = pods(trace, CPU, CPU)
    big = replace(waits, containers=tuple(replace(c, requests={**c.requests}) for c in waits.containers))
    fill = pods(trace, CPU, CPU, CPU, CPU)
    arrivals = [(0.0, PodArrives(replace(pod, name=f"fill-{n}", uid=f"fill-{n}"))) for n, pod in enumerate(fill)]
    taint = Appears(replace(_node(placement, "node-0"), taints=(Taint("key", "", "NoSchedule"),)))
    told, simulation = run(placement, *arrivals, (1, PodArrives(big)), (50, taint))
    assert [line for line in told if "openb-00000" in line] == ["1 openb-00000 NodeResourcesFit"]
    assert simulation.waiting() == 1
    assert other.uid not in simulation.placed


def test_a_refused_pod_is_given_up_without_retries(trace: Openb, placement: Placement) -> None:
    first, second = pods(trace, WHOLE_A, WHOLE_A)
    events = ((0, PodArrives(first, 100.0)), (1, PodArrives(second)))
    told, simulation = run(placement, *events, retries=False)
    assert told == ["0 openb-00000 node-0", "1 openb-00001 devices"]
    assert simulation.waiting() == 0


def test_a_deleted_pod_is_gone_whether_it_waits_or_runs(trace: Openb, placement: Placement) -> None:
    first, second, third = pods(trace, WHOLE_A, WHOLE_A, WHOLE_A)
    told, simulation = run(
        placement,
        (0, PodArrives(first)),
        (1, PodArrives(second)),
        (2, PodGoes(second.uid)),
        (3, PodGoes(first.uid)),
        (4, PodArrives(third)),
    )
    assert told == ["0 openb-00000 node-0", "1 openb-00001 devices", "4 openb-00002 node-0"]
    assert list(simulation.placed) == [third.uid]


def test_nodes_that_are_tainted_take_nobody_and_those_that_join_help(trace: Openb, placement: Placement) -> None:
    (pod,) = pods(trace, WHOLE_A)
    node = _node(placement, "node-0")
    tainted = replace(node, taints=(Taint("key", "", "NoSchedule"),))
    told, _ = run(placement, (0, Appears(tainted)), (1, PodArrives(pod)), (60, Appears(node)))
    assert told == ["1 openb-00000 TaintToleration,devices", "60 openb-00000 node-0"]


def test_a_node_that_leaves_takes_its_devices_along(trace: Openb, placement: Placement) -> None:
    (pod,) = pods(trace, TWO)
    node = _node(placement, "node-1")
    told, _ = run(placement, (0, Goes(Node("node-1"))), (1, PodArrives(pod)), (60, Appears(node)))
    assert told == ["1 openb-00000 devices", "60 openb-00000 node-1"]


def test_a_driver_that_publishes_late_helps_those_who_wait(trace: Openb, placement: Placement) -> None:
    (pod,) = pods(trace, TWO)
    (slice_,) = [one for one in trace.inventory(FEATURES).slices if one.name == "node-1"]
    told, _ = run(placement, (0, Goes(slice_)), (1, PodArrives(pod)), (60, Appears(slice_)))
    assert told == ["1 openb-00000 devices", "60 openb-00000 node-1"]


def test_a_pod_whose_template_is_missing_is_told_with_the_reason(trace: Openb, placement: Placement) -> None:
    (pod,) = pods(trace, HALF)
    claims = tuple(replace(one, template_name="gone") for one in pod.claims)
    told, _ = run(placement, (0, PodArrives(replace(pod, claims=claims))))
    assert told == ["0 openb-00000 claim template default/gone does not exist"]


def _node(placement: Placement, name: str) -> Node:
    node = placement.cluster.node(name)
    assert node is not None
    return node


def test_a_node_that_leaves_evicts_its_pods_which_start_anew_elsewhere(trace: Openb, placement: Placement) -> None:
    """The half runs for 100 s from the moment it has its second node, and does not end when it first would have."""
    (pod,) = pods(trace, HALF)
    told, simulation = run(placement, (0, PodArrives(pod, 100.0)), (90, Goes(Node("node-0"))))
    assert told == ["0 openb-00000 node-0", "90 openb-00000 node-1"]
    assert simulation.now == 190
    assert not placement.claims.objects


def test_an_untolerated_noexecute_taint_evicts_and_a_drain_does_so_without_one(
    trace: Openb, placement: Placement
) -> None:
    first, second = pods(trace, HALF, HALF)
    tolerant = replace(second, tolerations=(Toleration("key", "Exists"),))
    node = replace(_node(placement, "node-0"), taints=(Taint("key", "", "NoExecute"),))
    told, simulation = run(
        placement,
        (0, PodArrives(first)),
        (1, PodArrives(tolerant)),
        (50, Appears(node)),
        (60, NodeDrains("node-0")),
        (61, PodGoes(first.uid)),
    )
    assert told == [
        "0 openb-00000 node-0",
        "1 openb-00001 node-0",
        "50 openb-00000 node-1",
        "60 openb-00001 node-0",
    ]
    assert list(simulation.placed) == [second.uid]


def test_pods_of_the_node_itself_stay_when_it_is_drained_and_go_with_it(trace: Openb, placement: Placement) -> None:
    (pod,) = pods(trace, HALF)
    own = replace(pod, owner=Owner("DaemonSet", "agent", "uid"))
    told, simulation = run(placement, (0, PodArrives(own)), (10, NodeDrains("node-0")), (20, Goes(Node("node-0"))))
    assert told == ["0 openb-00000 node-0"]
    assert not simulation.placed
    assert simulation.waiting() == 0


def test_pods_wait_for_the_first_node_of_all(trace: Openb, placement: Placement) -> None:
    (pod,) = pods(trace, TWO)
    node = _node(placement, "node-1")
    gone = [(0.0, Goes(Node(name))) for name in ("node-0", "node-1")]
    told, _ = run(placement, *gone, (1, PodArrives(pod)), (60, Appears(node)))
    assert told == ["1 openb-00000 no nodes", "60 openb-00000 node-1"]
