"""What each program for a cluster has: watched state, leader election, health, metrics."""

import asyncio
import gc
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar, get_args
from uuid import uuid4

from allocator.gates import Features
from allocator.limits import TenantLimit
from allocator.model import DeviceClass, Node, Slice
from scheduler import garbage
from scheduler.attempt.binder import Binder, Time, WatchedClaims, WatchedVolumes
from scheduler.attempt.claim_objects import ANNOTATION, ClaimRef
from scheduler.attempt.decision import AttemptOutcome, Decision, Listener, Point
from scheduler.client.api_resources import CONFIG_MAPS, Resource
from scheduler.client.connection import Api, Connection
from scheduler.client.discovery import Served
from scheduler.client.errors import CallFailed
from scheduler.client.watch_states import Found, Undecoded
from scheduler.client.watcher import Reflector, Watcher
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.decision.cluster import Cluster
from scheduler.decision.time_limits import DecisionTimeLimit
from scheduler.kinds import KINDS, WatchedClaim
from scheduler.plugins.profile import Profile
from scheduler.repair import EVERY_S, ClaimStatuses, Leftover, Sweep, epoch_after, recover, should_have_been_freed
from scheduler.runtime import health, metrics
from scheduler.runtime.cluster_updates import ClusterUpdates
from scheduler.runtime.configuration import Allocating, Common
from scheduler.runtime.limit_settings import limits_decoder
from scheduler.runtime.metrics import CommonMetrics, Watch
from scheduler.state.cluster_changes import Event
from scheduler.state.invariants import Violation
from scheduler.state.volumes import STORAGE

# The reflectors of all kinds that decisions read.


T = TypeVar("T")

ChangeHandler = Callable[[Resource, Found[Any] | None, Found[Any] | None], None]  # Any: of whatever kind
"""Called with the resource, and its object as it was and as it is: None before it was there, and after it is gone."""


class WatchedState:
    """The reflectors. chance: gives a random number from 0 to 1. clock: seconds that only go forward.

    places_pods: whether volumes, Services and controllers are watched as well, which decide where a pod can be but not
    which devices it gets. beside: models of kinds that are watched where it is not. limits: of the ConfigMap with them.
    """

    def __init__(  # noqa: PLR0913 - what is watched, and how
        self,
        connection: Connection,
        served: Served,
        chance: Callable[[], float],
        clock: Callable[[], float],
        *,
        places_pods: bool,
        beside: Collection[type] = (),
        limits: "Reflector[Sequence[TenantLimit]] | None" = None,
    ) -> None:
        self._every: dict[str, Reflector[Any]] = {}  # Any: of whatever kind
        for kind in KINDS:
            resource = served.resource(kind.resource)
            if resource and kind.is_watched and (places_pods or not kind.places_pods or kind.model in beside):
                watcher = Watcher(connection, resource, kind.watch_decoder, chance, kind.selector, held=kind.holds)
                self._every[kind.name] = Reflector(watcher, clock)
        if limits is not None:
            self._every[limits.resource.kind] = limits
        self.nodes: Reflector[Node] = self._every["Node"]
        self.pods: Reflector[Pod] = self._every["Pod"]
        self.claims: Reflector[WatchedClaim] = self._every["ResourceClaim"]
        self.slices: Reflector[Slice] = self._every["ResourceSlice"]
        self.classes: Reflector[DeviceClass] = self._every["DeviceClass"]

    def __iter__(self) -> Iterator[Reflector[Any]]:  # Any: of whatever kind
        return iter(self._every.values())

    def on_change(self, handler: ChangeHandler) -> None:
        """Call the handler with every change of every object from now on."""
        for reflector in self:
            reflector.store.on_change(partial(handler, reflector.resource))

    async def run(self) -> None:
        """Fill the stores until cancelled. Raises HistoryLost."""
        async with asyncio.TaskGroup() as watching:
            for reflector in self:
                watching.create_task(reflector.run(), name=reflector.name)

    async def filled(self) -> None:
        """Wait until everything was listed once."""
        for reflector in self:
            await reflector.store.synced.wait()


def limits_reflector(
    configuration: Common, connection: Connection, clock: Callable[[], float]
) -> Reflector[Sequence[TenantLimit]] | None:
    """Of the ConfigMap with limits; None where the configuration names none. clock: as of `WatchedState`."""
    namespace, _, name = configuration.limits_config_map.partition("/")
    if not name:
        return None
    # By both names: a right to watch objects of one name is enough.
    selected = {"fieldSelector": f"metadata.name={name},metadata.namespace={namespace}"}
    decoder = limits_decoder(configuration.limits_in_force())
    watcher: Watcher[Sequence[TenantLimit]] = Watcher(connection, CONFIG_MAPS, decoder, random.random, selected)
    return Reflector(watcher, clock, needs_all=True)  # nothing is given before it is known what a limit leaves


# The state of the watches, for metrics and probes.


Reflectors = Iterable[Reflector[Any]]  # Any: of whatever kind


def watch_states(reflectors: Reflectors, now: float) -> Sequence[Watch]:
    """Each watch as the metrics show it. now: in seconds of the reflectors' own clock."""
    return [
        Watch(
            resource=reflector.resource.plural,
            objects=len(reflector.store),
            restarts=reflector.store.restarts,
            refused=len(reflector.store.undecoded),
            failures=reflector.store.failures,
            silence_s=reflector.silence_s(now),
            is_alive=reflector.is_alive(now),
        )
        for reflector in reflectors
    ]


def unfilled(reflectors: Reflectors) -> str:
    """Which resources have not been listed or read yet, and why not; empty where all have."""
    return "; ".join(
        _said(reflector, _unread(reflector.store.undecoded.values()) or "not listed yet")
        for reflector in reflectors
        if not reflector.store.synced.is_set()
    )


def _unread(objects: Iterable[Undecoded]) -> str:
    return ", ".join(f"{one.key} cannot be read: {one.error}" for one in objects)


def silent(reflectors: Reflectors, now: float) -> str:
    """Which watches were once filled and are dead now; empty where none is."""
    dead = (one for one in reflectors if one.store.synced.is_set() and not one.is_alive(now))
    return "; ".join(_said(reflector, f"not heard for {reflector.silence_s(now):.0f} s") for reflector in dead)


def _shows(reflector: Reflector[Any], version: int, now: float) -> bool:
    """Whether the watch has shown everything up to the version, or has had nothing to show for a while."""
    return reflector.store.resource_version >= version or reflector.silence_s(now) >= STILL_S


def _said(reflector: Reflector[Any], what: str) -> str:
    return f"{reflector.name}: {what}{f' ({reflector.trouble})' if reflector.trouble else ''}"


# Reports attempts, removed leftovers, internal errors and violated invariants in logs and metrics.


_LOG = logging.getLogger(__name__)


class Reporter(Listener):
    """What programs for a cluster report."""

    def __init__(self, metrics: CommonMetrics) -> None:
        self._metrics = metrics

    def pending(self, decision: Decision, message: str) -> None:
        """The pod waits for its devices to be made ready."""
        _LOG.info(message, extra={"pod": str(decision.pod), "node": decision.node})

    def passed(self, decision: Decision, point: Point, *, is_done: bool, duration_s: float) -> None:
        """A phase of the attempt ended."""
        status = metrics.PointStatus.SUCCESS if is_done else metrics.PointStatus.ERROR
        self._metrics.passed(decision.pod.scheduler_name, metrics.Point(point), status, duration_s)

    def rolled_back(self, decision: Decision, outcome: AttemptOutcome) -> None:
        """What the attempt wrote was taken back."""
        kind = metrics.rollback_reason(type(outcome))
        reason = getattr(outcome, "reason", kind)
        _LOG.info("rolled back", extra={"pod": str(decision.pod), "node": decision.node, "reason": reason})
        self._metrics.rolled_back(kind)

    def swept(self, leftover: Leftover, number: int) -> None:
        """So many claims had such a left-over, which was removed."""
        self._metrics.swept(leftover, number)

    def undecoded(self, resource: Resource, found: Undecoded) -> None:
        """An object cannot be decoded, for another reason than before; the reflector has logged it."""

    def started(self, component: str) -> None:
        """A component of the program begins to work."""
        self._metrics.started(component)

    def failed(self, component: str) -> None:
        """A component of the program has failed unexpectedly; the failure is logged, and it restarts."""
        self._metrics.failed(component)

    def violated(self, violation: Violation) -> None:
        """An invariant is violated, as it was shortly before; reported once for as long as it lasts."""
        self._metrics.violated(violation.invariant)
        _LOG.error("%s: %s", violation.subject, violation.message, extra={"invariant": violation.invariant})


# The base of both programs: the watched state, the cluster that follows it, the writer, and regular checks.
#
# A program fills the caches, recovers what an earlier process left unfinished, and starts its own work. The watches,
# the sweep of leftovers and the check of the invariants run beside it.


_MARK = ANNOTATION.encode()

_BYTES_OF_A_TURN = 1 << 22
"""Claims that are searched for it before others have their turn: a megabyte of what is like it takes 2 ms."""

CHECK_S = 5.0
"""How often the invariants are looked at, and attempts that take long."""

STILL_S = 15.0
"""A watch that has been silent for so long is not behind the others."""

LASTS_S = 60.0
"""What is wrong for so long is no matter of watches, whatever their versions: kinds may have an etcd of their own."""

AGAIN_S = 1.0
"""How long after a failure a component of the program restarts."""


@dataclass(frozen=True, slots=True)
class Site:
    """The cluster that a program works on."""

    connection: Connection
    """How it is reached."""
    served: Served
    """What it served at the start."""
    features: Features
    """The gates that follow from that."""
    name: str = ""
    """For people, such as `context prod`; empty where nobody is told."""
    outdated: Callable[[], str] = lambda: ""
    """What it serves otherwise by now; empty while nothing is, as of `ServedSince`."""


class Core:
    """The parts that programs share.

    name: in intents and logs. api: by which all is written. is_ours: whether a pod is the program's to bind. on_event:
    takes each event to whatever waits for it in the program. makes_claims: for extended resources of device classes.
    places_pods: it decides on nodes, not on devices alone. profiles: by which pods are decided. identity: by which it
    puts equal nodes in order (`NodeOrder`).
    """

    def __init__(  # noqa: PLR0913 - the two ends that it connects
        self,
        configuration: Allocating,
        site: Site,
        *,
        name: str,
        api: Api,
        is_ours: Callable[[Pod], bool],
        reporter: Reporter,
        on_event: Callable[[Event], None],
        makes_claims: bool,
        places_pods: bool,
        profiles: Sequence[Profile],
        identity: str = "",
    ) -> None:
        self.is_filled = False
        self._connection = site.connection
        self._outdated = site.outdated
        self.watched = WatchedState(
            site.connection,
            site.served,
            random.random,
            time.monotonic,
            places_pods=places_pods,
            beside=(PodDisruptionBudget,),
            limits=limits_reflector(configuration, site.connection, time.monotonic),
        )
        time_limit = DecisionTimeLimit(time.monotonic, processor=time.thread_time)
        self.cluster = Cluster(
            site.features,
            is_ours=is_ours,
            profiles=profiles,
            time_limit=time_limit,
            makes_claims=makes_claims,
            unseen=frozenset() if places_pods else STORAGE,
            identity=identity,
        )
        self.binder = Binder(
            api,
            site.served.claims,
            WatchedClaims(self.watched.claims, self.cluster),
            WatchedVolumes(self.cluster),
            TIME,
            name,
            time.time_ns() // 1_000_000,
            uuid4().hex,
            reporter,
            configuration.binding_timeout_s,
        )
        self._reporter = reporter
        self._violations: Sequence[Violation] = ()
        self._sweep = Sweep(name)
        self._claim_statuses = ClaimStatuses(api, self.cluster, is_ours)
        self._updates = ClusterUpdates(self.cluster, configuration.limits_in_force())
        self.only_held: Callable[[], AbstractContextManager[None]] = nullcontext
        """While it is open nothing counts as in use that was won from others who still hold it."""
        self._on_event = on_event
        self.watched.on_change(self.on_change)

    def on_change(self, resource: Resource, old: Found[Any] | None, new: Found[Any] | None) -> None:
        """Where each change of a watched object goes: to the cluster, the repairs, attempts, and pods that wait.

        All in one call: no decision comes between a change and the pods that it wakes.
        """
        if isinstance(new, Undecoded) and not (isinstance(old, Undecoded) and old.error == new.error):
            self._reporter.undecoded(resource, new)
        if event := self._updates.update(resource, old, new):
            self._claim_statuses.on_event(event)
            self.binder.changes.on_event(event)
            self._on_event(event)

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """What runs all the time."""
        return [self.watched.run(), self.kept("invariants", self._check_all_the_time)]

    def mending(self) -> list[Coroutine[Any, Any, None]]:
        """What runs while the program may write: left-overs are removed, and pods are mended."""
        sweep = self.kept("sweep", self._sweep_all_the_time)
        return [sweep, self.kept("claim statuses", self._claim_statuses.run)]

    async def kept(self, component: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work until cancelled; a failure is logged, and the work starts again."""
        self._reporter.started(component)
        logged = ""
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the program
                reason = f"{type(error).__name__}: {error}"
                if reason != logged:
                    _LOG.exception("%s failed; restarting it", component)
                logged = reason
                self._reporter.failed(component)
                await asyncio.sleep(AGAIN_S)
            else:
                return

    async def fill(self, *, recovers: bool) -> None:
        """Return once the caches are filled and, if it may write already, what an earlier process left is recovered."""
        began = time.monotonic()
        garbage.filling()
        try:
            await self.watched.filled()
            self.cluster.fleet.refresh()  # the first question need not wait for it
        finally:
            gc.collect()
            garbage.keep()
        nodes, pods = len(self.watched.nodes.store), len(self.watched.pods.store)
        _LOG.info(
            "caches filled: %d nodes, %d pods, %.1f s",
            nodes,
            pods,
            time.monotonic() - began,
        )
        if recovers:
            self.binder.epoch = epoch_after(self.binder, (one.raw for one in await self._marked_claims()))
            await self._recover()
        self.is_filled = True

    async def succeed(self, epoch: int) -> None:
        """Return once what the previous leader left is recovered. epoch: of when this one was elected."""
        self.binder.epoch = epoch
        while True:
            try:
                await self.watched.claims.catch_up()  # with all that an earlier leader has written, seen by now or not
            except CallFailed as error:
                _LOG.warning("cannot list claims: %s", error)
                await asyncio.sleep(AGAIN_S)
            else:
                break
        await self._recover()

    async def _recover(self) -> None:
        recovered = await recover(self.binder, (one.raw for one in await self._marked_claims()), self._is_bound)
        if recovered:
            _LOG.info("recovered %d claims of an earlier process", recovered)

    def is_outdated(self) -> bool:
        """Whether changes were lost that a list, which is under way, will make up for."""
        return any([reflector.is_outdated for reflector in self.watched])  # noqa: C419 - faster

    def ready(self) -> Mapping[str, health.Check]:
        """Why decisions cannot be made, or not be trusted: checks by name."""
        return {
            "caches": lambda: unfilled(self.watched) or ("" if self.is_filled else "recovering"),
            "watches": lambda: silent(self.watched, time.monotonic()),
            "credentials": lambda: self._connection.refused,
        }

    def warnings(self) -> Mapping[str, health.Check]:
        """What an operator should know of although decisions go on."""
        return {
            "devices": lambda: "; ".join(f"{one.subject}: {one.message}" for one in self._violations if one.claims),
            "credentials": lambda: self._connection.trouble,
            "limits": lambda: self._updates.limits_trouble,
            "terms": lambda: self.cluster.infos.terms.trouble,
            "policy": lambda: self.cluster.time_limit.scores_trouble,
            "served": self._outdated,
        }

    def watches(self) -> Sequence[metrics.Watch]:
        """Each watch, as the metrics show it."""
        return watch_states(self.watched, time.monotonic())

    async def _sweep_all_the_time(self) -> None:
        await self.watched.filled()
        while True:
            await asyncio.sleep(EVERY_S)
            due = self._sweep.due(await self._marked_claims(), self._is_in_flight, time.monotonic())
            for mark, watched in due:
                if should_have_been_freed(mark, watched.raw):
                    message = "it has been allocated by us and not reserved for more than two minutes"
                    self._reporter.violated(Violation("I3", f"claim {watched.claim}", message))
            for leftover in get_args(Leftover):
                of_kind = [watched for mark, watched in due if mark == leftover]
                try:
                    cleaned = await self._sweep.clean(self.binder, of_kind)
                except CallFailed as error:
                    _LOG.warning("cannot remove leftovers: %s", error)
                else:
                    self._reporter.swept(leftover, cleaned)

    async def _check_all_the_time(self) -> None:
        await self.watched.filled()
        seen: dict[Violation, tuple[float, int]] = {}
        while True:
            await asyncio.sleep(CHECK_S)
            self.binder.progress.log_late()
            violations, now = self.cluster.violations(), time.monotonic()
            # What is seen once may be a race that a writer is about to give up.
            lasting = [one for one in violations if one in seen and self._lasts(*seen[one], now)]
            reported, self._violations = {*self._violations}, lasting
            for violation in lasting:
                if violation not in reported:
                    self._reporter.violated(violation)
            newest = max(reflector.store.resource_version for reflector in self.watched)
            seen = {one: seen.get(one, (now, newest)) for one in violations}
            self._updates.log_exceeded(self.only_held)

    def _lasts(self, since: float, newest: int, now: float) -> bool:
        """Whether no watch is behind any more. since: when it was first seen; newest: what any watch had shown then.

        A claim that was given back with its pod may be shown long before the pod: pods may be a hundred times larger.
        """
        return now - since >= LASTS_S or all(_shows(reflector, newest, now) for reflector in self.watched)

    def _is_bound(self, pod_uid: str) -> bool:
        return self.cluster.pods.bound(pod_uid) is not None

    async def _marked_claims(self) -> Sequence[WatchedClaim]:
        """Those with an intent; as text, since reading them all would take seconds and half of the memory."""
        marked, looked_at = [], 0
        for watched in list(self.watched.claims.store.values()):
            if _MARK in watched.data:
                marked.append(watched)
            looked_at += len(watched.data)
            if looked_at > _BYTES_OF_A_TURN:
                looked_at = 0
                await asyncio.sleep(0)
        return marked

    def _is_in_flight(self, claim: ClaimRef) -> bool:
        return self.cluster.claims.reservation(claim.uid) is not None


def now() -> datetime:
    """The time of day, with its zone."""
    return datetime.now(UTC)


TIME = Time(time.monotonic, now, asyncio.sleep, random.random)
"""As it goes."""
