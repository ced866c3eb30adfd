"""The live scheduler as a program: fill the caches, become the leader, recover, schedule until stopped.

A replica that does not lead watches and writes nothing; a leader that loses the lease stops writing and exits. On
SIGTERM no further pod is tried. Attempts in progress are completed or undone, and events and conditions are written,
all within ten seconds.
"""

import asyncio
import logging
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from typing import Any

from allocator.limit_use import LimitStatus, limit_statuses
from scheduler.attempt import eviction
from scheduler.attempt.attempts import Attempts
from scheduler.attempt.claim_objects import ClaimRef
from scheduler.attempt.decision import Decision
from scheduler.client import api_resources
from scheduler.client.api_resources import Resource
from scheduler.client.watch_states import Undecoded
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod, claim_keys
from scheduler.decision.time_limits import MOST_S
from scheduler.live.endings import GroupConditions, KnownGroups, LoopDependencies
from scheduler.live.kept_rooms import KeptRooms
from scheduler.live.loop import BEAT_S, Loop
from scheduler.live.preemptions import MOST_CLAIMS, Preemptions, PreemptionTerms
from scheduler.output.time_line import DecisionLog
from scheduler.output.ui_server import PATH, Ui, UiSource
from scheduler.plugins.profile import REASONS
from scheduler.pod_groups.group_reservations import GroupReservations
from scheduler.pod_groups.groups import Groups
from scheduler.queue import LOOK_S, PodPlace, Queue
from scheduler.rates import PodBackoff
from scheduler.reporting import Events, Refusals
from scheduler.runtime import health, running
from scheduler.runtime.configuration import DEFAULT_LEASE, Configuration, PreemptionMode
from scheduler.runtime.core import TIME, Core, Reporter, Site, now
from scheduler.runtime.health import secure, serving
from scheduler.runtime.leader_election import CLOCK, LeaderElection, new_identity
from scheduler.runtime.metrics import Metrics, Reading
from scheduler.state.claims import Waiting
from scheduler.state.cluster_changes import ClaimChanged, Event, PodChanged, PodGroupChanged
from scheduler.state.invariants import Violation

# The pods that were created with a node and lack devices. Events say at which of them to look again; who reads looks.


class Prescheduled:
    """These pods, by uid. is_so: whether a pod is one of them, as the cluster knows it and its claims now.

    That is asked when somebody asks here: hundreds of pods may use a claim that changes again and again.
    """

    def __init__(self, is_so: Callable[[Pod], bool]) -> None:
        self._is_so = is_so
        self._placed: dict[str, Pod] = {}
        self._users: dict[NamespacedName, dict[str, None]] = {}
        self._found: set[str] = set()
        self._not_looked_at: dict[str, None] = {}

    def __len__(self) -> int:
        """As of this moment; where pods with thousands of claims have changed, of some as of their turn."""
        left = MOST_CLAIMS
        for uid in list(self._not_looked_at):
            left -= len(self._placed[uid].claims)
            self._look(uid)
            if left <= 0:
                break
        return len(self._found)

    def __contains__(self, pod_uid: str) -> bool:
        if pod_uid in self._not_looked_at:
            self._look(pod_uid)
        return pod_uid in self._found

    def on_event(self, event: Event) -> None:
        """Something has changed, and the cluster knows it. Cost: O(claims of the pod), or O(pods of the claim)."""
        if isinstance(event, PodChanged):
            self._forget(event.old)
            self._keep(event.new)
        elif isinstance(event, ClaimChanged):
            self._not_looked_at.update(self._users.get(event.key, {}))

    def _forget(self, pod: Pod | None) -> None:
        if pod is None or self._placed.pop(pod.uid, None) is None:
            return
        self._found.discard(pod.uid)
        self._not_looked_at.pop(pod.uid, None)
        for key in claim_keys(pod):
            users = self._users.get(key, {})
            users.pop(pod.uid, None)
            if not users:
                self._users.pop(key, None)

    def _keep(self, pod: Pod | None) -> None:
        if pod is None or not pod.node_name or not pod.claims or pod.is_over:
            return
        self._placed[pod.uid] = pod
        for key in claim_keys(pod):
            self._users.setdefault(key, {})[pod.uid] = None
        self._not_looked_at[pod.uid] = None

    def _look(self, uid: str) -> None:
        self._not_looked_at.pop(uid, None)
        if self._is_so(self._placed[uid]):
            self._found.add(uid)
        else:
            self._found.discard(uid)


FINISH_S = 5.0
"""How long attempts may continue after SIGTERM; then they are undone."""

REPORT_S = 1.5
"""How long events and conditions are written after that."""

STUCK_S = 60.0
"""A loop that has not been at work for so long is stuck."""

_REFUSING = frozenset(reason.plugin for reason in REASONS if reason.plugin)

_LOG = logging.getLogger(__name__)


def run(configuration: Configuration) -> int:
    """Schedule until stopped; the exit status. Logging has to be set up."""

    async def work(stop: asyncio.Event) -> None:
        async with running.connected(configuration) as site:
            scheduler = Scheduler(configuration, site)
            secured = secure(configuration, site.connection)
            hosts = configuration.secure_serving.allowed_hosts
            async with serving(configuration.health_address, scheduler.probes(), secured, hosts) as url:
                _LOG.info("serving /healthz, /livez, /readyz, /metrics, /debug/queue and /ui at %s", url)
                await scheduler.run(stop)

    return running.run(work)


class _EventReporter(Reporter):
    """Writes events as well. claims: the resource in the served version."""

    def __init__(self, metrics: Metrics, events: Events, claims: Resource) -> None:
        super().__init__(metrics)
        self._claims = claims
        self._events = events

    def pending(self, decision: Decision, message: str) -> None:
        """The pod waits for its devices to be made ready."""
        self._events.binding_conditions_pending(decision.pod, message)

    def undecoded(self, resource: Resource, found: Undecoded) -> None:
        """An event of the object says so."""
        self._events.unreadable(resource, found.key, found.uid, found.error)

    def violated(self, violation: Violation) -> None:
        """The claims that hold too much together say so as well."""
        super().violated(violation)
        for claim in violation.claims:
            message = f"{violation.subject}: {violation.text_for(claim.namespace)}"
            self._events.device_double_allocated(self._claims, ClaimRef(*claim), message)


class Scheduler:
    """All parts of one scheduler, put together. clock: seconds that only go forward, for the queue and its backoffs."""

    def __init__(self, configuration: Configuration, site: Site, clock: Callable[[], float] = time.monotonic) -> None:
        name, elects = configuration.scheduler_name, configuration.leader_election
        self._configuration = configuration
        self._clock = clock
        profiles = configuration.in_force()
        self._names = frozenset(one.scheduler_name for one in profiles)
        self._writes = False
        self._election: LeaderElection | None = None
        api = site.connection
        self._cluster_name = site.name
        if elects.leader_elect and not configuration.dry_run:
            self._election = LeaderElection(api.apart(calls=1), elects, new_identity(), replace(TIME, monotonic=CLOCK))
            api = api.only_while(self._election.is_leading)
        self._metrics = Metrics(self._reading)
        self._decisions = DecisionLog()
        self._events = Events(api, name, socket.gethostname(), now)
        self._refusals = Refusals(api, now)
        self._core = Core(
            configuration,
            site,
            name=name,
            api=api,
            is_ours=self._is_ours,
            reporter=self._reporter(site.served.claims),
            on_event=self.on_event,
            makes_claims=True,
            places_pods=True,
            profiles=profiles,
            identity=_identity(self._election),
        )
        self._cluster, self._watched = self._core.cluster, self._core.watched
        self._prescheduled = Prescheduled(self._is_prescheduled)
        self._groups = Groups(self._cluster, clock, frozenset(configuration.groups_of), self._is_ours)
        self._queue = self._empty_queue()
        self._attempts = Attempts(
            self._cluster,
            self._core.binder,
            lambda event, _: self.on_event(event),
            concurrency=configuration.binding_concurrency,
            is_tried=self._queue.is_tried,
            waits_for_devices=True,
        )
        self._preemptions = Preemptions(
            self._cluster,
            _terms_of(configuration, self._is_ours),
            self._is_ours,
            self.on_event,
            self._metrics.preemption_failed,
            GroupReservations(
                self._cluster,
                configuration.group_reservation_s,
                self._groups.size,
                self.on_event,
            ),
        )
        self._core.only_held = self._preemptions.only_held
        self._conditions = GroupConditions(
            api,
            site.served.resource(api_resources.POD_GROUPS),
            now,
            self._attempts.start,
            site.served.resource(api_resources.COMPOSITE_POD_GROUPS),
        )
        self._known = KnownGroups(self._groups, self._conditions)
        known, start = self._cluster.pods.known, self._attempts.start
        self._rooms = KeptRooms(self._core.binder, self._preemptions, self._is_ours, known, start)
        self._loop = self._new_loop()

    def _new_loop(self) -> Loop:
        dependencies = LoopDependencies(
            self._cluster,
            self._queue,
            self._core.binder,
            self._attempts,
            self._events,
            self._refusals,
            self._metrics,
            self._preemptions,
            self._decisions,
            self._known,
        )
        return Loop(dependencies, self._clock, self._core.is_outdated, is_dry=self._configuration.dry_run)

    def _empty_queue(self) -> Queue:
        backoff = PodBackoff(
            self._configuration.pod_initial_backoff_s,
            self._configuration.pod_max_backoff_s,
            self._configuration.pod_max_in_unschedulable_pods_s,
        )
        return Queue(self._clock(), gate=self._gate, on_move=self._metrics.queued, backoff=backoff, look_s=LOOK_S)

    def _gate(self, pod: Pod) -> str:
        """Why the pod is not to be tried yet."""
        return self._cluster.gate(pod) or self._known.gate(pod)

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set, or something breaks for good; raises what did."""
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[None]] = []

            def start(*work: Coroutine[Any, Any, None]) -> None:
                tasks.extend(map(group.create_task, work))

            start(*self._core.background())
            deciding = group.create_task(self._decide(start))
            await stop.wait()
            _LOG.info("stopping: %d pods are being bound", self._attempts.number)
            deciding.cancel()
            await self._attempts.finish(FINISH_S)
            if self._writes:
                await self._report_the_rest()
            for task in tasks:
                task.cancel()
        if self._election:
            await self._election.release()

    async def _decide(self, start: Callable[..., None]) -> None:
        """Decide as soon as it may. start: lets other work go on beside."""
        writes = not self._configuration.dry_run
        await self._core.fill(recovers=writes and not self._election)
        if self._election:
            start(self._election.run())
            await self._core.succeed(await self._election.elected())
        if writes:
            self._writes = True
            await self._restore_preemptions()
            self._loop.group_cycle.recover()
            self._rooms.is_on = True
            for pod in self._preemptions.promised_pods():
                self._rooms.look(pod)
            events = self._core.kept("events", self._events.run)
            start(*self._core.mending(), events, self._core.kept("refusals", self._refusals.run))
        await self._core.kept("loop", self._loop.run)

    async def _restore_preemptions(self) -> None:
        """Keep what preemptions of an earlier process have won for their pods."""
        if not self._preemptions.terms.is_on:
            return
        records = await eviction.records_of(self._core.binder, self._preemptions.promised_pods())
        left_s = defaultdict[str, float](lambda: MOST_S)  # by namespace: others are not to wait for what it costs
        for pod, stored in records:
            began = self._clock()
            if not self._preemptions.restore(pod, stored, began, left_s[pod.namespace]):
                self._queue.goes_first(pod.uid)  # others of its priority would evict the same victims for themselves
            left_s[pod.namespace] -= self._clock() - began
            await asyncio.sleep(0)

    async def _report_the_rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(REPORT_S):
                await self._refusals.drain()
                await self._events.drain()

    def on_event(self, event: Event) -> None:
        """Where each event goes: what a watch shows, once the cluster has it, and what an attempt has given back."""
        moment = self._clock()
        self._prescheduled.on_event(event)
        self._preemptions.on_event(event)
        self._rooms.on_event(event)
        self._loop.group_cycle.on_event(event)
        if isinstance(event, PodGroupChanged) and event.old is not None and event.new is None:
            self._conditions.forget(event.old)
        again = self._groups.on_event(event)
        if isinstance(event, PodChanged) and event.new is not None and self._waits(event.new):
            self._queue.add(event.new, moment)
        else:
            if isinstance(event, PodChanged) and event.old is not None:
                self._queue.remove(event.old.uid)
                self._refusals.forget(event.old.uid)
            self._queue.on_event(event, moment)
        self._groups.wake(again, lambda uid: self._queue.look_again(uid, moment, type(event).__name__))
        self._loop.wake()

    def _reporter(self, claims: Resource) -> Reporter:
        if self._configuration.dry_run:
            return Reporter(self._metrics)
        return _EventReporter(self._metrics, self._events, claims)

    # -- what is so at the moment

    def probes(self) -> health.Endpoints:
        """What the endpoints serve."""
        election = self._election
        endpoints = health.Endpoints(
            live={"loop": self._stuck, **({"leaderElection": election.stale} if election else {})},
            ready={
                **self._core.ready(),
                "writes": lambda: self._attempts.trouble,
                **({"lease": election.unanswered} if election else {}),
            },
            warnings={**self._core.warnings(), **({"leaderElection": election.standby} if election else {})},
            metrics=self._metrics.exposition,
            queue=self._waiting_pods,
        )
        shown = UiSource(
            "dra scheduler",
            self._cluster,
            self._decisions,
            queue=self._waiting_pods,
            waiting=lambda: sum(self._queue.pending().values()),
            troubles=endpoints.troubles,
            cluster_name=self._cluster_name,
            groups=lambda most: self._groups.waiting(islice(self._queue.pods(), most)),
        )
        return replace(endpoints, attach=Ui(shown).attach, more_paths=(PATH,))

    def _waiting_pods(self) -> Iterator[dict[str, object]]:
        """As the queue shows them; a pod with an attempt under way says what that is at."""
        states = self._preemptions.states()
        for row in self._queue.dump():
            uid = str(row["uid"])
            if current := self._core.binder.progress.of(uid):
                yield {**row, "message": current}
            elif preempting := self._preemptions.status(uid, states):
                yield {**row, "message": f"{row['message']} (preemption: {preempting})".lstrip()}
            else:
                yield row

    def _stuck(self) -> str:
        silent_s = self._clock() - self._loop.beat_at
        return f"stuck for {silent_s:.0f} s" if silent_s > STUCK_S + BEAT_S else ""

    def _reading(self) -> Reading:
        places: Mapping[PodPlace, int] = self._queue.pending()
        pods = len(self._watched.pods.store)
        return Reading(
            queues={place.replace(" ", "_"): number for place, number in places.items()},
            unschedulable={**dict.fromkeys(product(self._names, _REFUSING), 0), **self._queue.unschedulable()},
            cache={"nodes": len(self._watched.nodes.store), "pods": pods, "assumed_pods": self._cluster.pods.assumed},
            watches=self._core.watches(),
            bindings=self._attempts.number,
            prescheduled=len(self._prescheduled),
            events_dropped=self._events.dropped,
            events_failed=self._events.failed,
            leading={self._election.name: self._election.is_leading()} if self._election else {},
            steps=self._core.binder.progress.by_step(),
            limits=self._limits(),
        )

    def _limits(self) -> Sequence[LimitStatus]:
        """What is in use of each; what was won from victims who still hold it is theirs."""
        with self._preemptions.only_held():
            return list(limit_statuses(self._cluster.fleet.current))

    # -- whose is what

    def _is_ours(self, pod: Pod) -> bool:
        return pod.scheduler_name in self._names

    def _waits(self, pod: Pod) -> bool:
        if not self._is_ours(pod) or pod.is_over:
            return False
        if not pod.node_name:
            # What says that a pod without an attempt under way is on a node is newer than this.
            return self._queue.get(pod.uid) is not None or not self._cluster.pods.is_placed(pod.uid)
        if not self._configuration.allocate_prescheduled:
            return False
        # What is written for it looks as if it needed nothing more, until the attempt has ended and may have failed.
        return self._is_being_allocated(pod) or pod.uid in self._prescheduled

    def _is_being_allocated(self, pod: Pod) -> bool:
        """Whether an attempt is under way that began when the pod had its node already."""
        queued = self._queue.get(pod.uid)
        return queued is not None and queued.place is PodPlace.IN_FLIGHT and bool(queued.pod.node_name)

    def _is_prescheduled(self, pod: Pod) -> bool:
        """Whether the pod has a node, and a claim without devices, or one that is not the pod's yet."""
        if not pod.node_name or not pod.claims or pod.is_over or not self._is_ours(pod):
            return False
        claims = self._cluster.claims_of(pod)
        if isinstance(claims, Waiting):
            return not claims.is_unsupported
        return any(
            one.claim.allocation is None or all(user.uid != pod.uid for user in one.reserved_for) for one in claims
        )


def _identity(election: LeaderElection | None) -> str:
    """By which equal nodes are put in order: replicas agree, and the default Lease with `dra allocate`."""
    return "" if election is None or election.name == DEFAULT_LEASE else election.lease


def _terms_of(configuration: Configuration, is_ours: Callable[[Pod], bool]) -> PreemptionTerms:
    return PreemptionTerms(
        is_on=configuration.preemption is not PreemptionMode.OFF,
        for_resources=configuration.preemption is PreemptionMode.ALL,
        delay_s=configuration.preemption_delay_s,
        spares=configuration.spared(is_ours),
    )
