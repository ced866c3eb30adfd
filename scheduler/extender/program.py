"""The extender as a program: fill the caches, recover, answer until stopped; and its metrics.

On SIGTERM it accepts no further calls; bindings in progress are completed or undone within ten seconds.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import get_args

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from allocator.limit_use import LimitStatus, limit_statuses
from allocator.policies import policy_of
from scheduler.attempt.attempts import Attempts
from scheduler.core_v1.pod import Pod
from scheduler.extender import wire
from scheduler.extender.bind import Binds, is_tried
from scheduler.extender.configuration import ROLLBACK_S, ExtenderConfiguration, Mode, Ranking
from scheduler.extender.poke import Poke
from scheduler.extender.verbs import Sampling, Verbs, is_ours
from scheduler.output.time_line import DecisionLog
from scheduler.output.ui_server import PATH, Ui, UiSource
from scheduler.plugins.profile import Profile
from scheduler.runtime import health, running, server
from scheduler.runtime.core import Core, Reporter, Site, now
from scheduler.runtime.health import secure
from scheduler.runtime.listening import Limits, Refusal
from scheduler.runtime.metrics import CommonMetrics, Watch, at_steps, of_limits, of_watches
from scheduler.runtime.server import ServedVerbs, Verb
from scheduler.runtime.tls import Certificates, Files
from scheduler.state.cluster_changes import Event

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


@dataclass(frozen=True, slots=True)
class ExtenderReading:
    """The values at the moment."""

    watches: Sequence[Watch]
    """Each watch."""
    binding: int
    """Calls of bind under way."""
    refused: int
    """Pods that no node passed for."""
    steps: Mapping[str, int]
    """Attempts under way, by the step that they are at."""
    limits: Sequence[LimitStatus] = ()
    """How much of each limit per tenant is in use."""


class ExtenderMetrics(CommonMetrics):
    """All metrics of an extender."""

    def __init__(self, read: Callable[[], ExtenderReading]) -> None:
        super().__init__()
        self._expose(lambda: _of_reading(read()))
        text, labels = "Answered calls, by verb and status.", ["verb", "code"]
        self._calls = Counter("dra_extender_calls", text, labels, registry=self._registry)
        duration, text = "dra_extender_call_duration_seconds", "Duration of calls, by verb."
        self._calls_s = Histogram(duration, text, ["verb"], buckets=_BUCKETS_S, registry=self._registry)
        text = "Connections closed because a limit was reached, by limit."
        self._refused = Counter("dra_extender_refused_connections", text, ["limit"], registry=self._registry)
        for limit in get_args(Refusal):
            self._refused.labels(limit)  # an increase is seen only of what is there before
        self._woken = Counter("dra_extender_pokes", "How often pending pods were woken.", registry=self._registry)

    def called(self, verb: str, status: int, duration_s: float) -> None:
        """A call was answered."""
        self._calls.labels(verb, str(status)).inc()
        self._calls_s.labels(verb).observe(duration_s)

    def refused(self, what: Refusal) -> None:
        """A connection was closed because a limit was reached."""
        self._refused.labels(what).inc()

    def woke(self) -> None:
        """Waiting pods were woken."""
        self._woken.inc()


def _of_reading(reading: ExtenderReading) -> Iterator[Metric]:
    yield from of_watches(reading.watches)
    yield from of_limits(reading.limits)
    yield GaugeMetricFamily("dra_extender_bindings_in_flight", "Calls of bind in progress.", value=reading.binding)
    yield at_steps(reading.steps)
    text = "Pods for which no node passed at the last call."
    yield GaugeMetricFamily("dra_extender_refused_pods", text, value=reading.refused)


NAME = "dra-extender"
"""Who we are in intents and logs."""

PREFIX = "/v1"
"""Of the paths that kube-scheduler calls."""

FINISH_S = 3.0
"""For so long bindings may go on after SIGTERM; then they are taken back."""

_LOG = logging.getLogger(__name__)


def run(configuration: ExtenderConfiguration) -> int:
    """Answer until stopped; the exit status. Logging has to be set up."""

    async def work(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as open_:
            certificates = _certificates(configuration)
            site = await open_.enter_async_context(running.connected(configuration))
            extender = Extender(configuration, site)
            secured = secure(configuration, site.connection)
            hosts = configuration.secure_serving.allowed_hosts
            probes = health.serving(configuration.health_address, extender.probes(certificates), secured, hosts)
            url = await open_.enter_async_context(probes)
            _LOG.info("serving /healthz, /livez, /readyz, /metrics, /debug/queue and /ui at %s", url)
            context = certificates.context if certificates else None
            serving = server.serving(configuration.address, context, extender.served())
            _LOG.info("serving %s at %s", ", ".join(extender.verbs()), await open_.enter_async_context(serving))
            await extender.run(stop)

    return running.run(work)


def _certificates(configuration: ExtenderConfiguration) -> Certificates | None:
    tls = configuration.tls
    if not tls.cert_file:
        return None
    client_ca = Path(tls.client_ca_file) if tls.client_ca_file else None
    return Certificates(Files(Path(tls.cert_file), Path(tls.key_file), client_ca))


class Extender:
    """All parts of one extender, put together."""

    def __init__(self, configuration: ExtenderConfiguration, site: Site) -> None:
        self._is_stopping = False
        self._cluster_name = site.name
        self._configuration = configuration
        self._is_authoritative = configuration.mode is Mode.AUTHORITATIVE
        self._metrics = ExtenderMetrics(self._reading)
        self._core = Core(
            configuration,
            site,
            name=NAME,
            api=site.connection,
            is_ours=self._is_ours,
            reporter=Reporter(self._metrics),
            on_event=self.on_event,
            makes_claims=False,
            places_pods=False,
            profiles=(Profile(policy=policy_of(configuration.policy)),),
        )
        self._core.cluster.by_priority.spares = configuration.spared(self._is_ours)
        self._poke = Poke(self._core.cluster, site.connection, asyncio.sleep, now, self._metrics.woke)
        self._attempts = Attempts(
            self._core.cluster,
            self._core.binder,
            lambda _, node: self._poke.note(node or None),
            concurrency=configuration.binding_concurrency,
            is_tried=partial(is_tried, self._core.cluster),
            waits_for_devices=False,
        )
        binds = self._binds() if self._is_authoritative else None
        self._decisions = DecisionLog()
        self._verbs = Verbs(
            self._core.cluster,
            configuration.scheduler_names,
            self._unready,
            binds,
            self._poke,
            decisions=self._decisions,
            sampling=Sampling(
                configuration.percentage_of_nodes_to_score, only_best=configuration.ranking is Ranking.FILTER
            ),
        )

    def _binds(self) -> Binds:
        return Binds(
            self._core.cluster,
            self._core.binder,
            self._attempts,
            is_ours=self._is_ours,
            timeout_s=self._configuration.http_timeout_s,
            wake=lambda: self._poke.note(None),
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, or something breaks for good; raises what did."""
        async with asyncio.TaskGroup() as group:
            background = [*self._core.background(), self._core.kept("poke", self._poke.run)]
            background.append(self._core.fill(recovers=self._is_authoritative))
            background += self._core.mending() if self._is_authoritative else []
            tasks = [group.create_task(work) for work in background]
            await stop.wait()
            self._is_stopping = True
            _LOG.info("stopping: %d pods are being bound", self._attempts.number)
            await self._attempts.finish(FINISH_S, ROLLBACK_S)
            for task in tasks:
                task.cancel()

    def verbs(self) -> Mapping[str, Verb]:
        """The verbs by name."""
        advice: dict[str, Verb] = {"filter": self._verbs.filter, "prioritize": self._verbs.prioritize}
        if not self._is_authoritative:
            return advice
        return {**advice, "preempt": self._verbs.preempt, "bind": self._verbs.bind}

    def served(self) -> ServedVerbs:
        """What kube-scheduler calls."""
        clients = frozenset(self._configuration.tls.client_names)
        limits = Limits(self._configuration.most_connections, refused=self._metrics.refused)
        most_calls = self._configuration.most_calls
        hosts = self._configuration.secure_serving.allowed_hosts
        called = self._metrics.called
        return ServedVerbs(PREFIX, self.verbs(), wire.error_result, clients, most_calls, called, limits, hosts=hosts)

    def probes(self, certificates: Certificates | None) -> health.Endpoints:
        """What the endpoints serve."""
        endpoints = health.Endpoints(
            live={},
            ready={
                **self._core.ready(),
                "writes": lambda: self._attempts.trouble,
            },
            # What was there before a bad change of the files stays in use, and works.
            warnings={
                **self._core.warnings(),
                "certificates": lambda: certificates.trouble if certificates else "",
            },
            metrics=self._metrics.exposition,
            queue=self._queue,
        )
        shown = UiSource(
            "dra extender",
            self._core.cluster,
            self._decisions,
            queue=self._queue,
            waiting=lambda: len(self._poke.waiting),
            troubles=endpoints.troubles,
            cluster_name=self._cluster_name,
        )
        return replace(endpoints, attach=Ui(shown).attach, more_paths=(PATH,))

    def _queue(self) -> Iterator[dict[str, object]]:
        waiting = tuple(self._poke.waiting.items())
        return ({"pod": pod.name, "uid": uid, "queue": "refused"} for uid, pod in waiting)

    def _unready(self) -> str:
        if self._is_stopping:
            return "the extender is being stopped"
        if not self._core.is_filled:
            return "the extender's caches are not filled yet"
        return "the extender has missed changes and is listing all objects again" if self._core.is_outdated() else ""

    def _reading(self) -> ExtenderReading:
        return ExtenderReading(
            self._core.watches(),
            self._attempts.number,
            len(self._poke.waiting),
            self._core.binder.progress.by_step(),
            list(limit_statuses(self._core.cluster.fleet.current)),
        )

    def _is_ours(self, pod: Pod) -> bool:
        return is_ours(pod, self._configuration.scheduler_names)

    def on_event(self, event: Event) -> None:
        """Where each event goes: what a watch shows, once the cluster has it."""
        self._poke.on_event(event)
