"""A scenario: one policy, one seed, one fleet; from the state at the start to its figures."""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from operator import attrgetter, itemgetter

from allocator.api import ClaimTemplate
from allocator.gates import Features
from allocator.limits import TenantLimit
from allocator.model import Node
from allocator.policies.hardware import UNIT
from allocator.policies.power import PUBLISHED, PowerModels
from allocator.words import did_you_mean
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.core_v1.pod_volumes import NO_VOLUMES
from scheduler.decision.cluster import Cluster
from scheduler.decision.schedule_result import Failed, NotPlaced, Placed
from scheduler.defrag.search import DefragTerms
from scheduler.input.inventory import Inventory
from scheduler.offline.input_claims import Claims
from scheduler.offline.placement import Placement, PodToPlace, order_of
from scheduler.offline.snapshot_cluster import cluster_of, room_for, with_room
from scheduler.plugins.profile import Profile
from scheduler.pod_groups.group import NO_KINDS, POD_GROUP, GroupOfPods
from scheduler.pod_groups.group_placer import ReadyMembers
from scheduler.pod_groups.group_result import GroupResult
from scheduler.pod_groups.groups import Groups
from scheduler.simulation.changes import Appears, PodArrives, PodGoes, SimulationEvent
from scheduler.simulation.demand import Demand
from scheduler.simulation.engine import Attempted, Simulation
from scheduler.simulation.figures import Alignments, FleetFigures, RunFigures
from scheduler.simulation.group_figures import GroupFigures
from scheduler.simulation.jobs import (
    LATEST_S,
    AmountOf,
    Arrivals,
    Durations,
    InvalidWorkload,
    Job,
    Poisson,
    arrivals,
    inflated,
    one_after_the_other,
    scaled,
    with_durations,
)
from scheduler.simulation.result import Distribution, ExplainedAttempt, FleetSize, Measured, Scenario, distribution
from scheduler.simulation.trace import Trace

_STEPS = 200
"""Points of the series by time, if nothing waits for long."""

NOTHING = "nothing happens: no pod of the input is pending, and no trace has an event"
"""A run that would look at nothing."""

_MILLI = 1000.0
_MILLI_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Start:
    """What a run starts from. pods: of the inventory, each with uid and priority. trace: None for what waits alone.

    expected: what policies expect to arrive at first, until they have learned from what does; None: they know that.
    """

    inventory: Inventory
    pods: Sequence[Pod]
    trace: Trace | None = None
    expected: "Start | None" = None

    @property
    def has_events(self) -> bool:
        """Whether anything happens."""
        return bool(self.jobs or (self.trace and self.trace.events))

    @property
    def jobs(self) -> list[Job]:
        """What arrives: pods that wait, at once if there is a trace beside them, else one after the other."""
        waiting = sorted((pod for pod in self.pods if not pod.node_name and not pod.is_over), key=order_of)
        if self.trace is None:
            return one_after_the_other(waiting)
        return [*(Job(pod) for pod in waiting), *self.trace.jobs]


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run it."""

    features: Features
    seed: int
    arrivals: Arrivals = None
    """When pods arrive, as in `jobs`."""
    inflate: float = 0.0
    """Percent of the capacity that all pods together ask for, 0 for the pods as they are."""
    durations: Durations = None
    """How long pods run, as in `jobs`."""
    time_scale: float = 1.0
    retries: bool = True
    preempts: bool = True
    defrag: DefragTerms | None = None
    places: Mapping[str, int] = field(default_factory=dict)
    """The place of each node in the order of the search, as for `cluster_of`; empty for the order of the names."""
    explained: frozenset[str] = frozenset()
    """Pods whose attempts are kept."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What distinguishes the scenario, for the result."""
    limits: Sequence[TenantLimit] = ()
    """Of tenants."""
    group_kinds: frozenset[str] = NO_KINDS
    """Controllers whose pods are groups, of RECOGNIZED."""
    power_models: PowerModels = PUBLISHED
    """What hardware draws."""
    reservation_s: float = 0.0
    """How long a group waits before it holds what frees, 0 for never."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """What the machine measures, in seconds. wall: for one decision. processor: for the run."""

    wall: Callable[[], float]
    processor: Callable[[], float]


def run(
    start: Start,
    profiles: Sequence[Profile],
    settings: Settings,
    clocks: Clocks,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Scenario:
    """One run. progress: of arrivals, as (done, all). Raises InvalidWorkload, PolicyFailed.

    Cost: a decision for each arrival, and for those that wait whenever an event may help them.
    """
    before_s = clocks.processor()
    prepared = _Prepared.of(start, profiles, settings, clocks.wall)
    record = prepared.record(settings, progress)
    simulation = Simulation(
        prepared.placement,
        record.decided,
        record.metrics,
        retries=settings.retries,
        preempts=settings.preempts,
        defrag=settings.defrag,
        groups=prepared.groups,
        reservation_s=settings.reservation_s,
    )
    for pod in prepared.bound:
        simulation.adopt(pod)
    simulation.run(_events(prepared.jobs, prepared.others))
    return Scenario(
        policy=profiles[0].policy.name,
        seed=settings.seed,
        parameters=settings.parameters,
        fleet=prepared.size,
        summary=record.metrics.summary(),
        by_arrivals=record.metrics.by_arrivals,
        by_time=record.metrics.by_time,
        measured=Measured(round(clocks.processor() - before_s, 3), prepared.placement.measured()),
        explained=tuple(record.explained),
    )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A scenario as it begins."""

    placement: "_Timed"
    groups: Groups
    demand: Demand
    figures: FleetFigures
    jobs: Sequence[Job]
    """Pods that arrive, with their times."""
    others: Sequence[tuple[float, SimulationEvent]]
    """What else happens."""
    bound: Sequence[Pod]
    """Pods that have a node at the start."""
    size: FleetSize
    """The size of the fleet."""

    @staticmethod
    def of(start: Start, profiles: Sequence[Profile], settings: Settings, clock: Callable[[], float]) -> "_Prepared":
        """The fleet with what is there at the start. clock: for one decision. Raises InvalidWorkload."""
        population = start.jobs
        _require_known(settings.explained, start.pods, population)
        pods = [*start.pods, *_distinct(population)]
        placement = _placement(pods, with_templates(start.inventory, pods), profiles, settings, clock)
        placement.cluster.free_resources.power_models = settings.power_models
        demand, figures = Demand(placement.cluster, placement.claims), FleetFigures(placement.cluster.free_resources)
        groups = _groups(placement, start.inventory, settings)
        _set_workload(placement.cluster, demand, population, start.expected)
        figures.catch_up()
        if settings.inflate and any(groups.key_of(job.spec) for job in population):
            raise InvalidWorkload("--inflate: the workload has groups of pods, which it would take apart")
        jobs = _jobs(population, demand, figures, settings)
        others = _other_events(start.trace, room_for(pods, placement.cluster.extended_resources), settings)
        bound = [pod for pod in start.pods if pod.node_name and not pod.is_finished]
        size = FleetSize(len(start.inventory.nodes), figures.capacity // UNIT, len(bound))
        return _Prepared(placement, groups, demand, figures, jobs, others, bound, size)

    def record(self, settings: Settings, progress: Callable[[int, int], None]) -> "_RunRecord":
        """What is to be recorded of the run. Raises InvalidWorkload."""
        metrics = RunFigures(
            self.demand,
            self.figures,
            Alignments(self.placement.cluster.slices),
            GroupFigures(self.placement.cluster, self.groups),
            retries=settings.retries,
            step_s=_horizon(self.jobs, self.others) / _STEPS,
        )
        arrivals = len(self.jobs)
        return _RunRecord(metrics, settings.explained, lambda done: progress(done, arrivals), arrivals)


def _set_workload(cluster: Cluster, demand: Demand, population: Iterable[Job], expected: Start | None) -> None:
    """Policies know what all pods request, or expect at first what others do."""
    workload = cluster.free_resources.workload
    if expected is None:
        workload.set(demand.of(job.spec) for job in population)
    else:
        demand = Demand(cluster, Claims(expected.inventory, keeps_raw=False))
        workload.start_with(demand.of(job.spec) for job in expected.jobs)


def _jobs(population: Sequence[Job], demand: Demand, figures: FleetFigures, settings: Settings) -> list[Job]:
    """What arrives, with its times."""
    originals = {job.pod.uid for job in population if _names_claims(job)}
    timed = _timed(population, settings, figures.capacity / UNIT, lambda job: demand.amount(job.spec) / UNIT)
    return [_with_own_claims(job, originals) for job in timed]


def _distinct(jobs: Iterable[Job]) -> Iterator[Pod]:
    """The pods that arrive; of those with one spec only the first, unless their volumes are their own."""
    seen: set[int] = set()
    for job in jobs:
        if id(job.spec) not in seen or job.spec.volumes != NO_VOLUMES:
            seen.add(id(job.spec))
            yield job.pod


@dataclass(slots=True)
class _RunRecord:
    """What comes of decisions."""

    metrics: RunFigures
    named: Collection[str]
    """Pods whose attempts are kept."""
    progress: Callable[[int], None]
    """Called with the pods decided so far."""
    arrivals: int
    explained: list[ExplainedAttempt] = field(default_factory=list)
    decided_once: int = 0

    def decided(self, found: Attempted) -> None:
        """An attempt."""
        self.metrics.decided(found)
        if self.named and str(found.pod) in self.named:
            self.explained.append(_explained(found))
        if found.attempt == 1 and self.decided_once < self.arrivals:  # evicted pods of the start are no arrivals
            self.decided_once += 1
            self.progress(self.decided_once)


class _Timed(Placement):
    """A placement that measures its decisions."""

    def __init__(self, cluster: Cluster, claims: Claims, namespaces: Iterable[str], clock: Callable[[], float]) -> None:
        super().__init__(cluster, claims, namespaces)
        self._decisions_ms = array("d")
        self._clock = clock

    def decide(self, look: PodToPlace) -> Placed | NotPlaced | Failed:
        """The decision, with its time measured."""
        before = self._clock()
        decided = super().decide(look)
        self._decisions_ms.append((self._clock() - before) * _MILLI)
        return decided

    def decide_group(self, group: GroupOfPods, ready: ReadyMembers) -> GroupResult:
        """The decision for all of the group, with its time measured as one."""
        before = self._clock()
        decided = super().decide_group(group, ready)
        self._decisions_ms.append((self._clock() - before) * _MILLI)
        return decided

    def measured(self) -> Distribution:
        """How long decisions took, in milliseconds."""
        return distribution(sorted(self._decisions_ms), _MILLI_DIGITS)


def _placement(
    pods: Sequence[Pod],
    inventory: Inventory,
    profiles: Sequence[Profile],
    settings: Settings,
    clock: Callable[[], float],
) -> _Timed:
    claims = Claims(inventory, keeps_raw=False)
    cluster = cluster_of(
        inventory, claims, pods, settings.features, profiles=profiles, places=settings.places, limits=settings.limits
    )
    return _Timed(cluster, claims, inventory.namespaces, clock)


def _groups(placement: Placement, inventory: Inventory, settings: Settings) -> Groups:
    """Pods of PodGroups are pods of their own where the input has no PodGroup at all."""
    is_read = POD_GROUP in inventory.kinds
    return Groups(placement.cluster, lambda: 0.0, settings.group_kinds, lambda pod: is_read or not pod.group)


def _timed(jobs: Sequence[Job], settings: Settings, capacity: float, amount: AmountOf) -> list[Job]:
    """The jobs with their durations and times. capacity: in units."""
    jobs = with_durations(jobs, settings.durations, settings.seed)
    if settings.inflate:
        jobs = inflated(jobs, settings.inflate / 100 * capacity, amount, settings.seed)
    timed = arrivals(jobs, settings.arrivals, capacity, amount, settings.seed)
    if isinstance(settings.arrivals, Poisson):  # drawn for a load, which other times would change
        return timed
    return scaled(timed, settings.time_scale)


def _events(
    jobs: Iterable[Job], others: Sequence[tuple[float, SimulationEvent]]
) -> Iterator[tuple[float, SimulationEvent]]:
    """In the order of time; of one moment: first what happens to the fleet, then arrivals, then deletions."""
    goes = [one for one in others if isinstance(one[1], PodGoes)]
    fleet = [one for one in others if not isinstance(one[1], PodGoes)]
    pods = ((job.time_s, PodArrives(job.pod, job.duration_s)) for job in sorted(jobs, key=attrgetter("time_s")))
    return merge(_in_time(fleet), pods, _in_time(goes), key=itemgetter(0))


def _in_time(events: Iterable[tuple[float, SimulationEvent]]) -> list[tuple[float, SimulationEvent]]:
    return sorted(events, key=itemgetter(0))


def _other_events(
    trace: Trace | None, room: Mapping[str, Quantity], settings: Settings
) -> Sequence[tuple[float, SimulationEvent]]:
    """What happens beside arrivals. Raises InvalidWorkload."""
    given = trace.events if trace else ()
    if any(isinstance(event, PodGoes) for _, event in given) and (settings.arrivals or settings.inflate):
        raise InvalidWorkload("the trace deletes pods at given times: use --arrivals trace, and no --inflate")
    return [(time_s * settings.time_scale, _roomy(event, room)) for time_s, event in given]


def _roomy(event: SimulationEvent, room: Mapping[str, Quantity]) -> SimulationEvent:
    """A node without allocatable resources has room for everything, as at the start."""
    match event:
        case Appears(Node() as node):
            return Appears(with_room(node, room))
    return event


def _horizon(jobs: Iterable[Job], events: Iterable[tuple[float, SimulationEvent]]) -> float:
    """The end of the last job if no pod waits. Raises InvalidWorkload, if it is beyond the end of time."""
    ends = [job.time_s + (job.duration_s or 0.0) for job in jobs]
    last_s = max([*ends, *(time_s for time_s, _ in events)], default=0.0)
    if last_s > LATEST_S:
        raise InvalidWorkload(f"the last event is at {last_s:.15g} s, and time ends at {LATEST_S:g} s")
    return last_s


def _explained(found: Attempted) -> ExplainedAttempt:
    return ExplainedAttempt(str(found.pod), found.time_s, found.attempt, found.node, found.message or found.failure)


def _require_known(names: Collection[str], pods: Iterable[Pod], jobs: Iterable[Job]) -> None:
    if not names:
        return
    names_there = {str(pod) for pod in (*pods, *(job.pod for job in jobs))}
    for name in sorted(names):
        if name not in names_there:
            raise InvalidWorkload(
                f"pod {name} is neither in the input nor in the trace{did_you_mean(name, names_there)}"
            )


# -- claims of pods that come again


def with_templates(inventory: Inventory, pods: Iterable[Pod]) -> Inventory:
    """The inventory with templates for claims without one: a pod that is recreated gets new claims.

    Of a claim that was made of a template which the input does not hold, and of claims that pods name.
    """
    templates = dict(inventory.templates)
    for pod in pods:
        for entry in pod.claims:
            name = entry.claim_name or pod.claim_statuses.get(entry.name)
            claim = inventory.claims.get((pod.namespace, name)) if name else None
            if claim is not None:
                template = _of_claim(entry.claim_name) if entry.claim_name else entry.template_name
                made = ClaimTemplate(pod.namespace, template, spec=claim.raw.get("spec") or {})
                templates.setdefault((pod.namespace, template), made)
    return replace(inventory, templates=templates)


def _with_own_claims(job: Job, originals: Collection[str]) -> Job:
    """A copy of a pod gets claims of its own for those that the pod names."""
    if not _names_claims(job) or job.pod.uid in originals:
        return job
    pod = job.pod
    entries = tuple(
        PodClaim(entry.name, template_name=_of_claim(entry.claim_name)) if entry.claim_name else entry
        for entry in pod.claims
    )
    return replace(job, spec=replace(pod, claims=entries), name="")


def _names_claims(job: Job) -> bool:
    return any(entry.claim_name for entry in job.spec.claims)


def _of_claim(name: str) -> str:
    """No object can have this name."""
    return f"claim {name}"
