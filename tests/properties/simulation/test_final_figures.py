"""What a run says of itself at its end is what a recount of its final state and of its log says, done the slow way."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from operator import itemgetter
from random import Random
from typing import Any

import pytest

from allocator.gates import CONSUMABLE_CAPACITY, DEFAULT_RELEASE, Features
from allocator.model import Claim
from allocator.policies import policy_of
from scheduler.core_v1.pod import Pod
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.offline.input_claims import Claims
from scheduler.offline.placement import Placement
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.plugins.profile import Profile
from scheduler.pod_groups.groups import Groups
from scheduler.simulation.changes import ChangingFleet, PodArrives, PodGoes, SimulationEvent
from scheduler.simulation.demand import Demand
from scheduler.simulation.engine import Attempted, Simulation
from scheduler.simulation.figures import Alignments, FleetFigures, RunFigures
from scheduler.simulation.group_figures import GroupFigures
from scheduler.simulation.result import Summary

DRIVER = "gpu.example.com"
NUMA = "resource.kubernetes.io/numaNode"
FEATURES = Features.of(DEFAULT_RELEASE, {CONSUMABLE_CAPACITY: True})
SHAPES = [(1, 0, 0), (4, 0, 0), (1, 1, 500), (2, 1, 300), (1, 1, 1000), (2, 2, 1000), (1, 3, 1000)]
"""cpu, GPUs, and thousandths of each."""

Shape = tuple[int, int, int]


def a_node(name: str, cpu: int) -> Mapping[str, Any]:
    allocatable = {"cpu": str(cpu), "memory": "1Ti", "pods": "99"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def a_slice(node: str, gpus: int) -> Mapping[str, Any]:
    policy = {"default": "1000", "validRange": {"min": "1", "max": "1000", "step": "1"}}
    devices = [
        {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "attributes": {NUMA: {"int": number // 2}},
            "capacity": {"milli": {"value": "1000", "requestPolicy": policy}},
        }
        for number in range(gpus)
    ]
    spec = {"driver": DRIVER, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}
    return {**resource("ResourceSlice", node), "spec": {**spec, "devices": devices}}


def resource(kind: str, name: str, **metadata: str) -> Mapping[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, **metadata}}


def template_of(shape: Shape) -> str:
    return f"t-{shape[1]}-{shape[2]}"


def a_template(shape: Shape) -> Mapping[str, Any]:
    amounts = {"requests": {"milli": str(shape[2])}}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": shape[1], "capacity": amounts}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    return {**resource("ResourceClaimTemplate", template_of(shape), namespace="default"), "spec": spec}


def a_pod(name: str, shape: Shape) -> Mapping[str, Any]:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": str(shape[0])}}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": template_of(shape)}] if shape[1] else []
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "resourceClaims": claims},
    }


def read(objects: Iterable[Mapping[str, Any]]) -> Inventory:
    found = take_inventory([RawObject(Place("generated"), one) for one in objects], features=FEATURES)
    assert not found.errors, found.errors
    return found


class World:
    """A fleet, what happens on it, and what came of it."""

    def __init__(self, seed: int) -> None:
        draw = Random(seed)  # noqa: S311 - not for secrets
        self.gpus = {f"n{number}": draw.choice([0, 1, 2, 4, 4]) for number in range(draw.randint(1, 5))}
        self.cpus = {name: draw.choice([2, 6, 16]) for name in self.gpus}
        self.shapes = {f"p{number}": draw.choice(SHAPES) for number in range(draw.randint(1, 40))}
        templates = [a_template(shape) for shape in {one[1:]: one for one in SHAPES if one[1]}.values()]
        nodes = [a_node(name, self.cpus[name]) for name in self.gpus]
        slices = [a_slice(name, gpus) for name, gpus in self.gpus.items() if gpus]
        self.inventory = read([*nodes, *slices, {**resource("DeviceClass", "gpu"), "spec": {}}, *templates])
        pods = read(a_pod(name, shape) for name, shape in self.shapes.items()).pods
        self.events = self._events(draw, pods)
        self.log: list[Attempted] = []
        self.claims: list[Claim] = []
        self.evicted = self.allocated_s = self.allocated_s_at_last_arrival = self.peak = 0.0

    def _events(self, draw: Random, pods: Sequence[Pod]) -> list[tuple[float, SimulationEvent]]:
        found: list[tuple[float, SimulationEvent]] = []
        for pod in pods:
            time_s, duration_s = draw.randint(0, 60), draw.choice([None, 5.0, 30.0, 100.0])
            found.append((float(time_s), PodArrives(pod, duration_s)))
            if draw.random() < 0.1:
                found.append((time_s + draw.choice([0.0, 10.0]), PodGoes(pod.uid)))
        fleet = ChangingFleet.of(self.inventory)
        for time_s in sorted(draw.sample(range(1, 90), draw.randint(0, 4))):
            node = draw.choice(sorted(self.gpus))
            change = draw.choice(["drain", "fail", "cordon", "uncordon", "recover"])
            found += [(float(time_s), event) for event in fleet.change(f"{change}:{node}")]
        return sorted(found, key=itemgetter(0))

    def run(self, policy: str, *, retries: bool) -> Summary:
        claims = Claims(self.inventory)
        cluster = cluster_of(self.inventory, claims, (), FEATURES, profiles=(Profile(policy=policy_of(policy)),))
        placement = Placement(cluster, claims, self.inventory.namespaces)
        demand, figures = Demand(cluster, claims), FleetFigures(cluster.free_resources)
        arriving = [event.pod for _, event in self.events if isinstance(event, PodArrives)]
        cluster.free_resources.workload.set(demand.of(pod) for pod in arriving)
        groups = GroupFigures(cluster, Groups(cluster, lambda: 0.0))
        watch = Watch(self, demand, figures, Alignments(cluster.slices), groups, retries=retries, step_s=1.0)

        def decided(found: Attempted) -> None:
            self.log.append(found)
            watch.decided(found)

        self.simulation = Simulation(placement, decided, watch, retries=retries)
        self.simulation.run(self.events)
        return watch.summary()

    # -- the slow way

    def left(self) -> dict[str, list[int]]:
        """Node to what is left of each of its GPUs."""
        left = {name: [1000] * gpus for name, gpus in self.gpus.items()}
        for placed in self.simulation.placed.values():
            for claim in placed.claims:
                assert claim.allocation is not None
                for one in claim.allocation.results:
                    left[one.pool][int(one.device[4:])] -= int(one.consumed_capacity["milli"].nanos // 10**9)
        return left

    def cpu_left(self) -> dict[str, int]:
        left = dict(self.cpus)
        for placed in self.simulation.placed.values():
            assert placed.pod is not None
            left[placed.node] -= self.shapes[placed.pod.name][0]
        return left

    def allocated(self) -> float:
        left, capacity = sum(map(sum, self.left().values())), 1000 * sum(self.gpus.values())
        return 100 * (capacity - left) / capacity if capacity else 0.0

    def typical(self) -> list[tuple[float, Shape]]:
        counts = Counter(self.shapes.values())
        order = sorted(counts, key=lambda s: (counts[s], s[0], (s[2],) if s[1] else (), s[1]), reverse=True)
        chosen: list[Shape] = []
        while sum(counts[one] for one in chosen) < 0.95 * len(self.shapes):
            chosen.append(order[len(chosen)])
        covered = sum(counts[one] for one in chosen)
        return [(counts[one] / covered, one) for one in chosen]

    def causes(self) -> dict[str, float]:
        found: dict[str, float] = {}
        cpu_left, capacity = self.cpu_left(), 1000 * sum(self.gpus.values())
        for node, units in self.left().items():
            for share, (cpu, count, milli) in self.typical():
                for cause, amount in wasted(units, cpu_left[node] >= cpu, count, milli):
                    found[cause] = found.get(cause, 0.0) + (100 * share * amount / capacity if capacity else 0.0)
        return found

    def waits(self) -> list[float]:
        arrived = {event.pod.uid: time_s for time_s, event in self.events if isinstance(event, PodArrives)}
        first = {one.pod.uid: one.time_s for one in reversed(self.log) if one.node}
        return sorted(time_s - arrived[uid] for uid, time_s in first.items())

    def aligned(self) -> tuple[int, int]:
        several = [one.allocation.results for one in self.claims if one.allocation and len(one.allocation.results) > 1]
        return len(several), sum(len({int(one.device[4:]) // 2 for one in results}) == 1 for results in several)


def wasted(units: Sequence[int], has_cpu: bool, count: int, milli: int) -> Iterable[tuple[str, int]]:  # noqa: FBT001
    """What of a node a shape cannot use, and why."""
    if not count:
        return [("no device asked for" if has_cpu else "no device asked for, and cpu", sum(units))]
    if not units:
        return []
    has_devices = sum(left >= milli for left in units) >= count
    if has_devices and has_cpu:
        return [("devices", sum(left for left in units if left < milli))]
    return [("cpu" if has_devices else "devices" if has_cpu else "cpu and devices", sum(units))]


class Watch(RunFigures):
    """Also integrates the slow way."""

    def __init__(self, world: World, *figures: Any, **options: Any) -> None:
        super().__init__(*figures, **options)
        self.world = world
        self.last_s: float | None = None

    def at(self, time_s: float) -> None:
        super().at(time_s)
        if self.last_s is not None:
            self.world.allocated_s += self.world.allocated() * (time_s - self.last_s)
        self.last_s = time_s
        self.world.peak = max(self.world.peak, self.world.allocated())

    def arrived(self, pod: Pod) -> None:
        super().arrived(pod)
        self.world.allocated_s_at_last_arrival = self.world.allocated_s

    def bound(self, claims: Sequence[Claim]) -> None:
        super().bound(claims)
        self.world.claims += claims

    def evicted(self, pod: Pod, lost_s: float, *, by_preemption: bool = False, by_move: bool = False) -> None:
        super().evicted(pod, lost_s, by_preemption=by_preemption, by_move=by_move)
        self.world.evicted += 1


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of the values do not exceed."""
    need = ceil(len(values) * percent / 100)
    return next((one for one in values if sum(other <= one for other in values) >= need), 0.0)


def assert_mean_while_pods_arrive(world: World, found: Summary) -> None:
    first_s = min(time_s for time_s, _ in world.events)
    last_arrival_s = max(time_s for time_s, event in world.events if isinstance(event, PodArrives))
    if last_arrival_s > first_s:
        mean = world.allocated_s_at_last_arrival / (last_arrival_s - first_s)
        assert found.mean_allocated_percent == pytest.approx(mean, abs=0.006)
    elif found.end_s > first_s:
        assert found.mean_allocated_percent == pytest.approx(world.allocated_s / (found.end_s - first_s), abs=0.006)


@pytest.mark.parametrize("retries", [True, False])
@pytest.mark.parametrize("policy", ["first-fit", "best-fit"])
@pytest.mark.parametrize("seed", range(30))
def test_the_summary_is_what_a_recount_finds(seed: int, policy: str, retries: bool) -> None:  # noqa: FBT001
    world = World(seed)
    found = world.run(policy, retries=retries)
    left = world.left()
    whole = {name: sum(unit == 1000 for unit in units) for name, units in left.items()}
    assert all(0 <= unit <= 1000 for units in left.values() for unit in units)
    assert all(cpu >= 0 for cpu in world.cpu_left().values())
    assert found.allocated_percent == pytest.approx(world.allocated(), abs=0.006)
    assert (found.whole_units, found.largest_block) == (sum(whole.values()), max(whole.values()))
    assert found.whole_nodes == sum(0 < units == whole[name] for name, units in world.gpus.items())
    causes = world.causes()
    assert dict(found.causes) == pytest.approx({**dict.fromkeys(found.causes, 0.0), **causes}, abs=0.006)
    assert found.fragmentation_percent == pytest.approx(sum(causes.values()), abs=0.006)
    waits = world.waits()
    assert found.waiting_s.count == len(waits) == found.placed
    for percent, value in ((50, found.waiting_s.p50), (90, found.waiting_s.p90), (99, found.waiting_s.p99)):
        assert value == pytest.approx(percentile(waits, percent))
    assert found.waiting_s.mean == pytest.approx(sum(waits) / len(waits) if waits else 0.0, abs=1e-6)
    assert found.evictions == world.evicted
    assert found.decisions == len(world.log)
    assert (found.running, found.arrivals) == (len(world.simulation.placed), len(world.shapes))
    assert found.waiting == world.simulation.waiting()
    assert found.arrivals == (
        found.ended + found.running + found.waiting + found.refused + found.failed + found.withdrawn
    )
    claims, aligned = world.aligned()
    assert {name: (one.claims, one.aligned) for name, one in found.alignment.items()} == (
        {NUMA: (claims, aligned)} if claims else {}
    )
    assert_mean_while_pods_arrive(world, found)
    assert found.peak_allocated_percent >= round(world.peak, 2)
    names = {
        name: f"{count} gpu (milli {milli})" if count else "no devices"
        for name, (_, count, milli) in world.shapes.items()
    }
    placed = {one.pod.name for one in world.log if one.node}
    assert {one.shape: (one.arrivals, one.placed) for one in found.shapes} == {
        shape: (count, sum(names[name] == shape for name in placed)) for shape, count in Counter(names.values()).items()
    }
