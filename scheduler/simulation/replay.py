"""A replay of the openb trace: pods arrive one after the other, none departs, and none is tried again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from allocator.gates import CONSUMABLE_CAPACITY, DEFAULT_RELEASE, Features
from allocator.model import Claim
from allocator.policies.contract import Policy
from scheduler.input.inventory import Inventory
from scheduler.offline.input_claims import Claims
from scheduler.offline.placement import Placement
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.plugins.profile import ALL, PluginSet, PluginSets, Profile, plugins_of
from scheduler.simulation.curves import Curves, Fragments
from scheduler.simulation.engine import Attempted, Simulation
from scheduler.simulation.events import Event, PodArrives
from scheduler.simulation.openb import Openb, OpenbShape
from scheduler.simulation.orders import DrawnOrder
from scheduler.state.pods import PodRequests, pod_requests

FEATURES = Features.of(DEFAULT_RELEASE, {CONSUMABLE_CAPACITY: True})

ONLY_FILTERS = plugins_of(PluginSets(score=PluginSet(disabled=frozenset({ALL}))), {})
"""The default filters without any score: of nodes that the policy finds equal the first is taken."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay. placed, refused: pods. refusals: how many for each reason."""

    curves: Curves
    placed: int
    refused: int
    refusals: dict[str, int]


def replay(  # noqa: PLR0913 - the last two have defaults
    trace: Openb,
    inventory: Inventory,
    order: DrawnOrder,
    policy: Policy,
    watch: Callable[[Attempted], None] = lambda _: None,
    *,
    start: Sequence[Openb] | None = None,
) -> Replay:
    """The arrivals of the order, by the policy, which knows the shapes of the workload. inventory: of the trace.

    start: the policy learns the shapes from what arrives, and expects those of these workloads at first.
    Cost: one decision for each arrival.
    """
    placement = _placement(trace, inventory, order, policy)
    if start is None:
        placement.cluster.rooms.workload.set(_asked([trace]))
    else:
        placement.cluster.rooms.workload.start_with(_asked(start))
    arrivals = list(trace.arrivals(order))
    shapes = {pod.uid: shape for pod, shape in arrivals}
    counts: dict[str, int] = {}
    curves = Curves(trace.capacity, Fragments(placement.cluster.rooms))
    placed = 0

    def on_decision(decision: Attempted) -> None:
        nonlocal placed
        placed += bool(decision.node)
        for reason in sorted(map(str, decision.reasons)) or [decision.failure] * bool(decision.failure):
            counts[reason] = counts.get(reason, 0) + 1
        curves.add(_amount(shapes, decision), is_placed=bool(decision.node))
        watch(decision)

    events: Sequence[tuple[float, Event]] = [(float(i), PodArrives(pod)) for i, (pod, _) in enumerate(arrivals)]
    Simulation(placement, on_decision, retries=False).run(events)
    return Replay(curves, placed, len(arrivals) - placed, counts)


def _asked(traces: Iterable[Openb]) -> Iterator[tuple[PodRequests, Sequence[Claim]]]:
    return ((pod_requests(pod), claims) for trace in traces for pod, claims in trace.population())


def _amount(shapes: dict[str, OpenbShape], decision: Attempted) -> int:
    return shapes[decision.pod.uid].amount


def _placement(trace: Openb, inventory: Inventory, order: DrawnOrder, policy: Policy) -> Placement:
    claims = Claims(inventory, keeps_raw=False)
    places = {trace.nodes[row].name: place for place, row in enumerate(order.nodes)}
    profiles = (Profile(plugins=ONLY_FILTERS, policy=policy),)
    cluster = cluster_of(inventory, claims, (), FEATURES, profiles=profiles, places=places)
    return Placement(cluster, claims, inventory.namespaces)
