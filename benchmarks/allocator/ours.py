"""The allocator's side of the benchmark: the same cases, the same questions, times of this process."""

import gc
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from allocator.allocate import allocate
from allocator.api import decode
from allocator.cluster.snapshot import Snapshot
from allocator.fleet.fleet import Chosen, Fleet
from allocator.gates import Features
from allocator.model import Claim, Node, Slice
from allocator.outcome import AllocationError
from benchmarks.allocator.cases import CLASS, FEATURES, Json, claim, large_slices, request
from scheduler.cli.verify_allocation import AllocationCase, case_of


def decoded(case: Json) -> AllocationCase:
    """The case in the allocator's form."""
    names = [node["metadata"]["name"] for node in case["nodes"]]
    expected = {"results": dict.fromkeys(names), "errors": {}}
    return case_of({**case, "features": "none", "expected": expected})


def snapshot_of(case: AllocationCase, slices: Sequence[Slice] | None = None) -> Snapshot:
    """A snapshot in which nothing has been worked out."""
    return Snapshot.of(case.slices if slices is None else slices, case.classes, case.in_use, Features.of(FEATURES))


def place_pods(case: AllocationCase, pods: int) -> float:
    """Pods per second, each looking at every node: decision and the next snapshot."""
    started = time.perf_counter()
    place = placing(fleet_of(case), case.claims)
    for number in range(pods):
        place(number)
    return pods / (time.perf_counter() - started)


def fleet_of(case: AllocationCase) -> Fleet:
    """All nodes of the case."""
    return Fleet(snapshot_of(case), [node for node in case.nodes if node])


def placing(fleet: Fleet, claims: Sequence[Claim]) -> Callable[[int], object]:
    """What places the pod of a number, with claims of its own."""
    return lambda number: _place(fleet, _copies(claims, number))


def attempt_seconds(case: AllocationCase, repeat: int) -> float:
    """The median time of an attempt on the first node, all that can be known before worked out."""
    snapshot, node = snapshot_of(case), case.nodes[0]
    _attempt(snapshot, node, case.claims)
    return statistics.median(_timed(lambda: _attempt(snapshot, node, case.claims)) for _ in range(repeat))


def cold_attempt_seconds(case: AllocationCase, repeat: int) -> float:
    """The same with nothing worked out but the class's selector, which is compiled."""
    snapshots = [snapshot_of(case) for _ in range(repeat)]
    return statistics.median(_timed(lambda s=one: _attempt(s, case.nodes[0], case.claims)) for one in snapshots)  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Large:
    """A fleet too large for the reference. load_s: from raw objects to the fleet; p99_s: of the decisions."""

    load_s: float
    peak_gib: float
    p99_s: float


def large(nodes: int, pods: int) -> Large:
    """Load a fleet of eight devices a node, and place pods that each want two of one NUMA node."""
    started = time.perf_counter()
    gc.disable()
    slices = [decoded_slice(raw) for raw in large_slices(nodes)]
    classes = [decode({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", **CLASS}).object]
    names = [slice_.reach.node_name for slice_ in slices]
    fleet = Fleet(
        Snapshot.of(slices, classes, (), Features.of(FEATURES)),  # type: ignore[arg-type] # the class is one
        [Node(name, {"kubernetes.io/hostname": name}) for name in names],
    )
    gc.freeze()
    gc.enable()
    load_s = time.perf_counter() - started
    raw = claim("claim", request("gpus", 2), match="numa")
    found = decode({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **raw}).object
    assert isinstance(found, Claim)
    times = sorted(_timed(lambda n=number: _place(fleet, _copies([found], n))) for number in range(pods))  # type: ignore[misc]
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Large(load_s, peak_gib, times[int(pods * 0.99) - 1])


def decoded_slice(raw: Json) -> Slice:
    """The slice, which has to be right."""
    found = decode(raw)
    assert isinstance(found.object, Slice), found.errors
    return found.object


def _place(fleet: Fleet, claims: Sequence[Claim]) -> Chosen | None:
    chosen = fleet.choose(claims, fleet.all)
    if chosen is not None:
        allocations = chosen.allocated.allocations
        held = [replace(claim, allocation=allocation) for claim, allocation in zip(claims, allocations, strict=True)]
        fleet.add_allocated(held)
    return chosen


def _copies(claims: Sequence[Claim], number: int) -> list[Claim]:
    return [replace(claim, name=f"{claim.name}-{number}", uid=f"{claim.uid}-{number}") for claim in claims]


def _attempt(snapshot: Snapshot, node: Node | None, claims: Sequence[Claim]) -> None:
    try:
        allocate(snapshot, node, claims)
    except AllocationError:
        return


def _timed(question: Callable[[], object]) -> float:
    started = time.perf_counter()
    question()
    return time.perf_counter() - started
