"""The guard as a program: fill the caches, become the leader, wait for updates of the previous leader, answer.

Only the leader answers, because only it knows the updates that it allowed until the watch shows them. A new leader
starts once nothing that the previous one allowed can still be stored: at once if that one released the lease, which it
does only if it has no open updates; otherwise after the API server's request timeout. Then it lists all claims.

A standby has filled caches, and refuses every call. So does a leader whose lease is in doubt.

The leader publishes its path, certificate and address, so that the API server finds and trusts it. The path and the
certificate go into the `clientConfig` of each webhook of the ValidatingWebhookConfiguration, and the address into the
EndpointSlice of the Service: the other replicas are ready as well, but do not answer. All are checked regularly, since
others can reset them, such as a replaced manifest. Who may read webhook configurations knows the path; to all others
the leader answers 404, before it reads a body.
"""

import asyncio
import base64
import gc
import logging
import random
import secrets
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import Any, Never
from urllib.parse import urlsplit

from allocator.api.versions import Json
from allocator.cluster.usage import occupying
from allocator.limit_use import limit_statuses
from allocator.model import DeviceClass
from scheduler import garbage, kinds
from scheduler.attempt.write_outcome import Denials
from scheduler.client.api_resources import ENDPOINT_SLICES, WEBHOOKS, Resource
from scheduler.client.connection import STRATEGIC_MERGE, Api
from scheduler.client.errors import CallFailed
from scheduler.client.watch_states import Found, Undecoded
from scheduler.client.watcher import Reflector, Watcher
from scheduler.core_v1.node import Namespace
from scheduler.decision.cluster import Cluster
from scheduler.guard import reviewer
from scheduler.guard.configuration import GuardConfiguration
from scheduler.guard.ledger import Ledger, counting
from scheduler.guard.reviewer import GuardMetrics, GuardReading, Reviewer, holder_of
from scheduler.kinds import BY_MODEL, held_by_claim
from scheduler.runtime import core, health, running, server
from scheduler.runtime.cluster_updates import ClusterUpdates
from scheduler.runtime.configuration import host_and_port
from scheduler.runtime.core import AGAIN_S, CHECK_S, TIME, Site
from scheduler.runtime.health import secure
from scheduler.runtime.leader_election import CLOCK, LeaderElection, namespace_of, new_identity
from scheduler.runtime.listening import Limits
from scheduler.runtime.server import ServedVerbs
from scheduler.runtime.tls import Certificates, Files, self_signed
from scheduler.state.invariants import Violation

EVERY_S = 5.0
"""How often it is looked whether what was published is still there."""

RENEW_AFTER = 60
"""A path is replaced once it was looked at so many times: after five minutes."""

PORT = "webhook"
"""Name of the port in Service and EndpointSlice."""

_SECRET_BYTES = 32


class SecretPath(Container[str]):
    """A path whose last segment nobody can guess. prefix: the rest of it. Contains the last segments that are valid.

    It does not stay secret: the API server shows it in messages about calls that failed, and schedulers show these to
    users. So it is renewed. The one before stays valid for as long, for API servers that do not know the new one yet.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._valid: tuple[str, ...] = (_segment(),)

    @property
    def newest(self) -> str:
        """The one to publish."""
        return f"{self._prefix}/{self._valid[0]}"

    def renew(self) -> None:
        """Make another one."""
        self._valid = (_segment(), self._valid[0])

    def __contains__(self, segment: object) -> bool:
        return any(secrets.compare_digest(str(segment).encode(), valid.encode()) for valid in self._valid)


def _segment() -> str:
    """The API server takes only segments that could be names of objects: small letters, and digits."""
    return secrets.token_hex(_SECRET_BYTES)


class Publication:
    """What to publish. webhook_configuration, endpoint_slice: names, empty for none. namespace: of the latter.

    certificate: empty where somebody else writes the `caBundle`. trouble: why it is not published; empty while it is.
    """

    def __init__(  # noqa: PLR0913 - the two objects that it writes
        self,
        api: Api,
        *,
        webhook_configuration: str,
        path: SecretPath,
        certificate: bytes,
        endpoint_slice: str,
        namespace: str,
        address: str,
        port: int,
    ) -> None:
        self.trouble = ""
        self._api = api
        self._webhook_configuration = webhook_configuration
        self._path = path
        self._looks = 0
        self._published: dict[str, str] = {}
        self._resets = Denials()
        self._bundle = base64.b64encode(certificate).decode()
        self._endpoint_slice = endpoint_slice
        self._namespace = namespace
        self._address = address
        self._port = port

    async def run(self) -> Never:
        """Keep it there until cancelled."""
        while True:
            try:
                await self._publish()
            except CallFailed as error:
                if str(error) != self.trouble:
                    _LOG.warning("cannot publish the path, certificate and address of the leader: %s", error)
                self.trouble = str(error)
            else:
                self.trouble = ""
            await asyncio.sleep(EVERY_S)

    async def _publish(self) -> None:
        """Raises CallFailed."""
        if self._webhook_configuration:
            await self._publish_path()
        if self._endpoint_slice:
            await self._publish_address()

    async def _publish_path(self) -> None:
        path = WEBHOOKS.path(name=self._webhook_configuration)
        stored = await self._api.request("GET", path)
        changed = [
            {"name": webhook["name"], "clientConfig": wanted}
            for webhook in stored.get("webhooks") or ()
            if (wanted := self._wanted(webhook["clientConfig"]))
        ]
        if changed:
            await self._api.request("PATCH", path, body={"webhooks": changed}, content_type=STRATEGIC_MERGE)
            fields = sorted({field for one in changed for field in one["clientConfig"]})
            self._wrote(f"{WEBHOOKS.kind} {self._webhook_configuration}", "clientConfig", fields, self._path.newest)
        self._looks += 1
        if self._looks >= RENEW_AFTER:  # from the next look on: what is published is valid, whatever fails
            self._looks = 0
            self._path.renew()

    def _wanted(self, config: Json) -> Json:
        """What is to be changed in the clientConfig of a webhook; empty where nothing is."""
        changes: Json = {}
        if self._bundle and config.get("caBundle") != self._bundle:
            changes["caBundle"] = self._bundle
        if "url" in config:
            url = urlsplit(config["url"])
            if url.path != self._path.newest:
                changes["url"] = url._replace(path=self._path.newest).geturl()
        elif config["service"].get("path") != self._path.newest:
            changes["service"] = {"path": self._path.newest}
        return changes

    async def _publish_address(self) -> None:
        path = ENDPOINT_SLICES.path(self._namespace, self._endpoint_slice)
        stored = await self._api.request("GET", path)
        wanted: Json = {
            "endpoints": [{"addresses": [self._address], "conditions": {"ready": True}}],
            "ports": [{"name": PORT, "port": self._port, "protocol": "TCP"}],
        }
        if fields := [field for field, value in wanted.items() if stored.get(field) != value]:
            await self._api.request("PUT", path, body={**stored, **wanted})
            self._wrote(f"{ENDPOINT_SLICES.kind} {self._namespace}/{self._endpoint_slice}", "", fields, self._address)

    def _wrote(self, where: str, within: str, fields: Sequence[str], what: str) -> None:
        """Log that it is published there, and what others have changed: who does so all the time keeps this unfound."""
        named = ", ".join(f"{within}.{field}".lstrip(".") for field in fields)
        if self._published.get(where) == what:
            message = f"{where}: somebody else has changed {named}, which the API server needs to call this process"
            self._resets.denied(where, f"{message}; wrote it again", time.monotonic())
        else:
            _LOG.info("%s: published %s", where, named)
        self._published[where] = what


VERB = "resourceclaims-status"
"""What follows `/v1/` in the path that the API server calls; after it comes the secret, if it is published."""

KIND = "ResourceClaim"
"""Of what the ledger knows; the others are slices."""

PREFIX = "/v1"

OPEN = "anybody who reaches the address may call: set publish.webhookConfiguration or tls.clientCaFile"

SLACK_S = 15.0
"""For so long after its request timeout the API server, and etcd behind it, may still store something.

etcd gives up what it could not commit within 5 s and two elections, of one second each by default.
"""

CLOSE_S = 3.0
"""How long a leader that stops waits for the outcome of open updates, so that it can release the lease."""

_LOOK_S = 0.05
_TICK_S = 1.0

_LOG = logging.getLogger(__name__)


def run(configuration: GuardConfiguration) -> int:
    """Answer until stopped; the exit status. Logging has to be set up."""

    async def work(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as open_:
            context, certificate, trouble = _certificates(configuration)
            site = await open_.enter_async_context(running.connected(configuration))
            guard = Guard(configuration, site)
            secured = secure(configuration, site.connection)
            hosts = configuration.secure_serving.allowed_hosts
            probes = health.serving(configuration.health_address, guard.probes(trouble), secured, hosts)
            url = await open_.enter_async_context(probes)
            _LOG.info("serving /healthz, /livez, /readyz, /metrics and /debug/queue at %s", url)
            if not (configuration.publish.webhook_configuration or configuration.tls.client_ca_file):
                _LOG.warning(OPEN)
            serving = server.serving(configuration.address, context, guard.served())
            url = await open_.enter_async_context(serving)
            _LOG.info("serving %s/%s", url, VERB)
            _, port = host_and_port(url.removeprefix("https://").removesuffix(PREFIX))
            await guard.run(stop, certificate, port)

    return running.run(work)


def _certificates(configuration: GuardConfiguration) -> tuple[SSLContext, bytes, Callable[[], str]]:
    """What to serve with, the certificate that was made for it, and why changed files are not in use."""
    tls = configuration.tls
    if not tls.cert_file:
        context, certificate = self_signed(tls.server_name or _service(configuration))
        return context, certificate, lambda: ""
    client_ca = Path(tls.client_ca_file) if tls.client_ca_file else None
    files = Certificates(Files(Path(tls.cert_file), Path(tls.key_file), client_ca))
    return files.context, b"", lambda: files.trouble


def _service(configuration: GuardConfiguration) -> str:
    """The name of the Service that the manifests install."""
    return f"dra-guard.{namespace_of(configuration.leader_election)}.svc"


def _for_limits(configuration: GuardConfiguration, site: Site) -> Iterator[Reflector[Any]]:  # Any: of whatever kind
    """What says which limits hold, for which namespaces, and what they count; nothing where there are none."""
    if not (configuration.limits or configuration.limits_config_map):
        return
    for kind in (BY_MODEL[Namespace], BY_MODEL[DeviceClass]):
        if resource := site.served.resource(kind.resource):
            yield Reflector(
                Watcher(site.connection, resource, kind.watch_decoder, random.random, held=kind.holds), time.monotonic
            )
    followed = core.limits_reflector(configuration, site.connection, time.monotonic)
    if followed is not None:
        yield followed


class Guard:
    """All parts of one guard, put together."""

    def __init__(self, configuration: GuardConfiguration, site: Site) -> None:
        self._configuration = configuration
        self._connection, served = site.connection, site.served
        self._outdated = site.outdated
        self._metrics = GuardMetrics(self._reading)
        self._cluster = Cluster(counting(site.features), is_ours=lambda _: False)
        self._updates = ClusterUpdates(self._cluster, configuration.limits_in_force())
        self._ledger = Ledger(self._cluster)
        self._violations: Sequence[Violation] = ()
        self._time = replace(TIME, monotonic=CLOCK)
        self._election = LeaderElection(
            site.connection.apart(calls=1), configuration.leader_election, new_identity(), self._time
        )
        self._reviewer = Reviewer(
            self._ledger, self._metrics, self._election.is_leading, self._time.monotonic, self._lasts_s
        )
        claims = Watcher(site.connection, served.claims, holder_of, random.random, held=held_by_claim)
        slices = Watcher(site.connection, served.slices, kinds.slice_of, random.random)
        self._claims, self._slices = Reflector(claims, time.monotonic), Reflector(slices, time.monotonic)
        self._reflectors: tuple[Reflector[Any], ...] = (  # Any: of whatever kind
            self._claims,
            self._slices,
            *_for_limits(configuration, site),
        )
        for reflector in self._reflectors:
            reflector.store.on_change(partial(self._on_change, reflector.resource))
        self._path = SecretPath(f"{PREFIX}/{VERB}")
        self._publication: Publication | None = None

    async def run(self, stop: asyncio.Event, certificate: bytes, port: int) -> None:
        """Answer until `stop` is set, or something breaks for good; raises what did. port: of the webhook."""
        async with AsyncExitStack() as stack:
            group = await stack.enter_async_context(asyncio.TaskGroup())
            tasks = [group.create_task(reflector.run()) for reflector in self._reflectors]
            leading = group.create_task(self._lead(group, certificate, port))
            await stop.wait()
            is_clean = not self._reviewer.waits_for and await self._closed()
            self._reviewer.waits_for = "this guard is being stopped"
            leading.cancel()
            for task in (*tasks, *self._beside):
                task.cancel()
        if is_clean or not self._has_led:
            await self._election.release()
        else:
            _LOG.warning("not releasing the lease: updates that were allowed may still be stored")

    # -- leading

    _beside: tuple[asyncio.Task[Never], ...] = ()
    _has_led = False

    async def _lead(self, group: asyncio.TaskGroup, certificate: bytes, port: int) -> None:
        """Answer as soon as it may, and forget in time what was allowed."""
        await self._filled()
        self._reviewer.waits_for = "this guard is a standby"
        self._beside = (group.create_task(self._election.run()), group.create_task(self._check_all_the_time()))
        await self._election.elected()
        self._has_led = True
        elected_at = self._time.monotonic()
        self._publication = publication = self._published(certificate, port)
        self._beside = (*self._beside, group.create_task(publication.run()))
        await self._outwait(elected_at)
        await self._catch_up(self._reflectors)
        self._reviewer.waits_for = ""
        _LOG.info("answering")
        await self._keep()

    async def _filled(self) -> None:
        """Wait until everything was listed once; no answer waits while the collector walks through it from then on."""
        garbage.filling()
        try:
            for reflector in self._reflectors:
                await reflector.store.synced.wait()
        finally:
            gc.collect()
            garbage.keep()

    def _published(self, certificate: bytes, port: int) -> Publication:
        publish = self._configuration.publish
        return Publication(
            self._connection.only_while(self._election.is_leading),
            webhook_configuration=publish.webhook_configuration,
            path=self._path,
            certificate=certificate,
            endpoint_slice=publish.endpoint_slice,
            namespace=self._election.lease.partition("/")[0],
            address=publish.pod_ip,
            port=port,
        )

    async def _outwait(self, elected_at: float) -> None:
        """Wait until nothing that an earlier leader has allowed can be stored any more."""
        if self._election.was_released:
            return
        until = elected_at + self._lasts_s
        left_s = until - self._time.monotonic()
        _LOG.warning("the previous leader did not release its lease: refusing all updates for %.0f s", left_s)
        while (left_s := until - self._time.monotonic()) > 0:
            self._reviewer.waits_for = (
                f"updates that the previous leader allowed may be stored for another {left_s:.0f} s"
            )
            await asyncio.sleep(min(left_s, _TICK_S))

    async def _catch_up(self, reflectors: Sequence[Reflector[Any]]) -> None:
        for reflector in reflectors:
            while True:
                try:
                    await reflector.catch_up()
                except CallFailed as error:
                    _LOG.warning("cannot list %s: %s", reflector.name, error)
                    await asyncio.sleep(AGAIN_S)
                else:
                    break

    async def _keep(self) -> Never:
        """Forget what cannot be stored any more, once a list has shown that it was not."""
        while True:
            await asyncio.sleep(_TICK_S)
            began, until = self._time.monotonic(), self._ledger.until()
            if until is not None and until <= began:
                await self._catch_up((self._claims,))
                forgotten = self._ledger.expire(began)
                _LOG.info("%d updates were allowed and never stored", forgotten)

    async def _check_all_the_time(self) -> Never:
        """A standby as well: what is gone would be kept until somebody looks."""
        while True:
            await asyncio.sleep(CHECK_S)
            self._check()

    def _check(self) -> None:
        self._cluster.fleet.refresh()  # nobody asks it here, and it would keep what has changed since then
        violations = self._cluster.violations()
        for violation in violations:
            if violation not in self._violations:
                self._metrics.violated(violation.invariant)
                _LOG.error("%s: %s", violation.subject, violation.message)
        self._violations = violations
        self._updates.log_exceeded()

    async def _closed(self) -> bool:
        """Whether nothing is open any more, soon after no more is allowed."""
        self._reviewer.waits_for = "this guard is being stopped"
        until = self._time.monotonic() + CLOSE_S
        while self._ledger.open and self._time.monotonic() < until:  # noqa: ASYNC110 - the watch, or the clock
            await asyncio.sleep(_LOOK_S)
        return not self._ledger.open

    @property
    def _lasts_s(self) -> float:
        """For so long an update that was allowed may still be stored."""
        return self._configuration.request_timeout_s + SLACK_S

    # -- the watches

    def _on_change(self, resource: Resource, old: Found[Any] | None, new: Found[Any] | None) -> None:
        if isinstance(new, Undecoded):
            _LOG.warning("%s %s cannot be read: %s", resource.kind, new.key, new.error)
        self._updates.update(resource, old, new)
        shown = new or old
        assert shown is not None
        if resource.kind == KIND:
            self._ledger.shown(shown.uid)

    # -- answers

    def served(self) -> ServedVerbs:
        """What the API server calls."""
        clients = frozenset(self._configuration.tls.client_names)
        limits = Limits(self._configuration.most_connections, refused=self._metrics.refused)
        most_calls, called = self._configuration.most_calls, self._metrics.called
        verbs = {VERB: self._reviewer.answer}
        secret = self._path if self._configuration.publish.webhook_configuration else None
        return ServedVerbs(
            PREFIX,
            verbs,
            reviewer.error_result,
            clients,
            most_calls,
            called,
            limits,
            largest_body=reviewer.LARGEST_REVIEW,
            secret=secret,
        )

    # -- probes and metrics

    def probes(self, certificates: Callable[[], str]) -> health.Endpoints:
        """What the endpoints serve. certificates: why changed files are not in use."""
        return health.Endpoints(
            live={"leaderElection": self._election.stale},
            ready={
                "caches": lambda: core.unfilled(self._reflectors),
                "watches": lambda: core.silent(self._reflectors, time.monotonic()),
                "credentials": lambda: self._connection.refused,
                "lease": self._election.unanswered,
            },
            warnings={
                "leaderElection": lambda: self._election.standby() or self._reviewer.waits_for,
                "devices": lambda: "; ".join(f"{one.subject}: {one.message}" for one in self._violations),
                "credentials": lambda: self._connection.trouble,
                "certificates": certificates,
                "publication": lambda: self._publication.trouble if self._publication else "",
                "limits": lambda: self._updates.limits_trouble,
                "served": self._outdated,
            },
            metrics=self._metrics.exposition,
            queue=self._queue,
        )

    def _queue(self) -> Iterator[Mapping[str, object]]:
        for allowed in tuple(self._ledger.opened()):
            claim = allowed.update.claim
            yield {
                "claim": str(claim),
                "uid": claim.uid,
                "resourceVersion": str(allowed.update.version),
                "devices": [str(result.id) for result in occupying(claim)],
                "secondsLeft": round(max(allowed.until - self._time.monotonic(), 0.0), 1),
            }

    def _reading(self) -> GuardReading:
        seen = core.watch_states(self._reflectors, time.monotonic())
        limits = list(limit_statuses(self._cluster.fleet.current))
        return GuardReading(seen, self._ledger.open, {self._election.name: self._election.is_leading()}, limits)
