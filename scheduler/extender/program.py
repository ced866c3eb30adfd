"""The extender as a program: fill the caches, recover, answer until stopped.

On SIGTERM it accepts no further calls; bindings in progress are completed or undone within ten seconds.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from allocator.limits.count import limit_statuses
from allocator.policies import policy_of
from scheduler.attempt.attempts import Attempts
from scheduler.core_v1.pod import Pod
from scheduler.extender import wire
from scheduler.extender.bind import Binds, is_tried
from scheduler.extender.configuration import ROLLBACK_S, ExtenderConfiguration, Mode, Ranking
from scheduler.extender.metrics import ExtenderMetrics, ExtenderReading
from scheduler.extender.poke import Poke
from scheduler.extender.verbs import Sampling, Verbs, is_ours
from scheduler.plugins.profile import Profile
from scheduler.runtime import health, running, server
from scheduler.runtime.access import secure
from scheduler.runtime.core import Core, Reporter, Site, now
from scheduler.runtime.listening import Limits
from scheduler.runtime.server import ServedVerbs, Verb
from scheduler.runtime.tls import Certificates, Files
from scheduler.state.cluster_changes import Event
from scheduler.ui.time_line import DecisionLog
from scheduler.ui.ui_server import PATH, Ui, UiSource

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
