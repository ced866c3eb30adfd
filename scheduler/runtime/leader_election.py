"""Leader election: one replica holds and renews a Lease; the others try to acquire it.

A leader that loses the lease never leads again: it stops writing at the renew deadline, and the process ends.
Source: client-go's leaderelection; coordination.k8s.io/v1.
"""

import asyncio
import logging
import math
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Never
from uuid import uuid4

from allocator.api.versions import Json
from scheduler.attempt.binder import Time
from scheduler.client.api_resources import LEASES
from scheduler.client.connection import CALL_TIMEOUT_S, Api
from scheduler.client.errors import ApiError, ApiErrorKind, CallFailed
from scheduler.core_v1.object_fields import in_microseconds
from scheduler.runtime.configuration import JITTER, LeaderElectionSection

# The record of a Lease and what it means to a candidate: pure, with all times as arguments.
#
# Clocks of other processes are never compared with ours. A record expires if it has not changed for its duration, by
# our own monotonic clock. A leader may write until its renew deadline, counted from before the write that renewed the
# record began. Because the deadline is shorter than the duration, nobody else leads before that. Source: client-go's
# leaderelection; k8s.io/api coordination/v1 LeaseSpec.


Lease = Mapping[str, Any]
"""As the API server has it."""

_LEAST = timedelta(milliseconds=1)
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Durations:
    """In seconds. lease: a record that has not changed for so long counts as expired. retry_period: between two tries.

    renew_deadline: so long a leader may write, from when it began the last write that renewed the record.
    """

    lease: int
    renew_deadline: float
    retry_period: float


class Elector:
    """What one process knows of the lease, and whether it leads. identity: no other process has it.

    Times are seconds of one monotonic clock, and `wall` is the time of day, which is only published. leads_until:
    when it has to stop writing; it never leads again after that, or after it has seen another's name. was_released:
    the leader before this one has given the lease up, instead of being outlived.
    """

    def __init__(self, identity: str, durations: Durations) -> None:
        self.identity = identity
        self.durations = durations
        self.leads_until = -math.inf
        self.has_led = False
        self.was_released = False
        self._lease: Lease | None = None
        self._is_current = False
        self._spec: Mapping[str, Any] = {}
        self._seen_at = -math.inf

    @property
    def holder(self) -> str:
        """The holder of the lease, as last seen; empty if there is none."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def epoch(self) -> int:
        """When the leader was elected, in milliseconds; larger for each than for all before it."""
        return (_time_of(self._spec, "acquireTime") - _BEGIN) // _LEAST

    @property
    def must_read(self) -> bool:
        """Whether the lease has to be read before it can be written: another process may have written it."""
        return not self._is_current

    def leads(self, now: float) -> bool:
        """Whether this process may write."""
        return now < self.leads_until

    def read(self, lease: Lease | None, now: float) -> None:
        """The lease is so; None: there is none."""
        self._lease, self._is_current = lease, True
        if lease is not None:
            self._see(lease, now)
        if self.has_led and self.holder != self.identity:
            self.stop()

    def unsure(self) -> None:
        """A call has failed: what is stored is unknown."""
        self._is_current = False

    def lease_to_write(self, now: float, wall: datetime) -> Json | None:
        """The lease to write now: as read, with a new spec. None while another process holds it, or once it is lost."""
        if self.has_led and not self.leads(now):
            return None
        if self.holder not in ("", self.identity) and now < self._expires_at:
            return None
        is_ours = self.holder == self.identity
        if not is_ours:
            self.was_released = bool(self._spec) and not self.holder
        transitions = _number(self._spec, "leaseTransitions", 0) + (not is_ours and bool(self._spec))
        acquired = _time_of(self._spec, "acquireTime")
        # Later than all before it, whatever their clocks said.
        since = acquired if is_ours else max(wall, acquired + _LEAST)
        return self._written(self.identity, self.durations.lease, since, wall, transitions)

    def wrote(self, lease: Lease, began: float, now: float) -> None:
        """The lease was written. began: before the call was; now: when it was answered."""
        self.read(lease, now)
        if self.has_led and not self.leads(now):
            return
        self.has_led = self.has_led or began + self.durations.renew_deadline > now
        self.leads_until = began + self.durations.renew_deadline

    def stop(self) -> None:
        """Lead no more, now."""
        self.leads_until = -math.inf

    def released(self, wall: datetime) -> Json | None:
        """The lease given up, so that another can have it at once; None where it is not ours."""
        if self._lease is None or not self.has_led or self.holder != self.identity:
            return None
        transitions = _number(self._spec, "leaseTransitions", 0)
        return self._written("", 1, _time_of(self._spec, "acquireTime"), wall, transitions)

    def pause_s(self, now: float, chance: float) -> float:
        """How long to wait before the next try. chance: in [0, 1)."""
        period = self.durations.retry_period
        if self.has_led:
            return max(0.0, min(period, self.leads_until - now))
        jitter = JITTER * period * chance
        left = self._expires_at - now
        # Not to be late when the time comes, nor all at once.
        return left + jitter / 2 if 0 < left < period else period + jitter

    @property
    def _expires_at(self) -> float:
        return self._seen_at + _number(self._spec, "leaseDurationSeconds", self.durations.lease)

    def _see(self, lease: Lease, now: float) -> None:
        spec = lease.get("spec") or {}
        if spec != self._spec:
            self._spec, self._seen_at = spec, now

    def _written(self, holder: str, duration: int, since: datetime, wall: datetime, transitions: int) -> Json:
        spec = {
            **self._spec,
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "acquireTime": in_microseconds(since),
            "renewTime": in_microseconds(wall),
            "leaseTransitions": transitions,
        }
        return {**(self._lease or {}), "spec": spec}


def _number(spec: Mapping[str, Any], field: str, default: int) -> int:
    value = spec.get(field)
    return value if isinstance(value, int) else default


def _time_of(spec: Mapping[str, Any], field: str) -> datetime:
    """A MicroTime; long ago where there is none."""
    value = spec.get(field)
    return datetime.fromisoformat(value).astimezone(UTC) if value else _BEGIN


STALE_S = 20.0
"""A leader that has not renewed its lease for so long after that has expired is stuck, as kube-scheduler has it."""

WRITES = 5
"""How often a lease is written in one try that others write as well, if only its annotations."""

RELEASE_S = 1.0
"""For so long giving up the lease may take; then it expires by itself."""

ELSEWHERE = "kube-system"
"""Where the lease is of a process that runs in no pod."""

CLOCK = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Only goes forward, and goes on while the machine is suspended, where it can: others count that time as well."""

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_LOG = logging.getLogger(__name__)


class LeadershipLost(Exception):
    """This process led, and may not write any more."""


def new_identity() -> str:
    """A name that no other process has, with the host of this one."""
    return f"{socket.gethostname()}_{uuid4()}"


def own_namespace(file: Path = _OWN_NAMESPACE) -> str:
    """The namespace of the pod that this process runs in."""
    try:
        return file.read_text().strip() or ELSEWHERE
    except OSError:
        return ELSEWHERE


def namespace_of(settings: LeaderElectionSection) -> str:
    """The namespace of the lease."""
    return settings.resource_namespace or own_namespace()


class LeaderElection:
    """A candidate for leadership; `run` keeps it trying. api: for the lease alone, so that no other call delays it.

    time: its clock is that of all deadlines, such as `CLOCK`.
    """

    def __init__(self, api: Api, settings: LeaderElectionSection, identity: str, time: Time) -> None:
        self.name = settings.resource_name
        self._api = api
        self._time = time
        self._namespace = namespace_of(settings)
        durations = Durations(settings.lease_duration_s, settings.renew_deadline_s, settings.retry_period_s)
        self._timeout_s = min(CALL_TIMEOUT_S, durations.renew_deadline / 2)
        self._elector = Elector(identity, durations)
        self._is_elected = asyncio.Event()
        self._trouble = ""
        self._answered_at = self._time.monotonic()
        self._logged_holder = ""

    def is_leading(self) -> bool:
        """Whether this process may write: false from the renew deadline on, whoever has noticed."""
        return self._elector.leads(self._time.monotonic())

    @property
    def was_released(self) -> bool:
        """Whether the leader before this one has given the lease up, instead of being outlived; once it leads."""
        return self._elector.was_released

    @property
    def lease(self) -> str:
        """Its namespace and name."""
        return f"{self._namespace}/{self.name}"

    async def elected(self) -> int:
        """Wait until this process leads; its epoch, larger than those of all leaders before it."""
        await self._is_elected.wait()
        return self._elector.epoch

    async def run(self) -> Never:
        """Try to lead, and lead, until cancelled. Raises LeadershipLost."""
        _LOG.info("lease %s: trying to lead, as %s", self.lease, self._elector.identity)
        await self._try()
        while not self.is_leading():
            await self._pause()
            await self._try()
        _LOG.info("lease %s: leading, as %s", self.lease, self._elector.identity)
        self._is_elected.set()
        while self.is_leading():
            await self._pause()
            if self.is_leading():
                await self._try()
        raise LeadershipLost(self._loss())

    async def release(self) -> None:
        """Let another lead at once. Nothing may be under way any more that writes."""
        self._elector.stop()
        try:
            async with asyncio.timeout(RELEASE_S):
                await self._give_up()
        except (CallFailed, TimeoutError) as error:
            _LOG.warning("lease %s: cannot release it, other replicas wait until it expires: %s", self.lease, error)

    async def _give_up(self) -> None:
        while lease := self._elector.released(self._time.now()):
            try:
                await self._api.request("PUT", self._path(), body=lease, timeout_s=RELEASE_S)
            except ApiError as error:
                if error.kind is not ApiErrorKind.CONFLICT:
                    raise
                # By our own last renewal, which was cut off at the end, and stored.
                self._elector.read(await self._get(), self._time.monotonic())
            else:
                _LOG.info("lease %s: released", self.lease)
                return

    # -- notifications

    def stale(self) -> str:
        """Why only a restart helps: this process leads, and has stopped to renew its lease."""
        elector, durations = self._elector, self._elector.durations
        late_s = self._time.monotonic() - elector.leads_until + durations.renew_deadline
        is_stale = elector.has_led and late_s > durations.lease + STALE_S
        return f"lease {self.lease} was not renewed for {late_s:.0f} s" if is_stale else ""

    def unanswered(self) -> str:
        """Why this process could not even stand by: the lease can neither be read nor written."""
        silent_s = self._time.monotonic() - self._answered_at
        is_unanswered = self._trouble and silent_s > self._elector.durations.renew_deadline
        return f"lease {self.lease}: {self._trouble}" if is_unanswered else ""

    def standby(self) -> str:
        """Who leads instead of this process; empty while it does."""
        if self.is_leading():
            return ""
        return f"stands by: lease {self.lease} is held by {self._elector.holder or 'nobody'}"

    # -- one call after the other

    async def _pause(self) -> None:
        await self._time.sleep(self._elector.pause_s(self._time.monotonic(), self._time.random()))

    async def _try(self) -> None:
        """Renew the lease, or acquire it where that is possible; what fails is tried again."""
        try:
            async with asyncio.timeout(self._time_left_s()):
                await self._read_and_write()
        except (CallFailed, TimeoutError) as error:
            self._elector.unsure()
            self._fail(str(error) or "no answer in time")
        else:
            self._trouble, self._answered_at = "", self._time.monotonic()

    async def _read_and_write(self) -> None:
        """Write the lease, on what is stored: again at once where somebody else has written it in between."""
        for left in reversed(range(WRITES)):
            if self._elector.must_read:
                self._elector.read(await self._get(), self._time.monotonic())
                self._log_holder()
            try:
                await self._write()
            except ApiError as error:
                if error.kind is not ApiErrorKind.CONFLICT or not left:
                    raise
                self._elector.unsure()
            else:
                return

    def _time_left_s(self) -> float:
        """For so long a try may last: of a leader, until its deadline."""
        elector = self._elector
        return elector.leads_until - self._time.monotonic() if elector.has_led else elector.durations.renew_deadline

    async def _get(self) -> Json | None:
        try:
            return await self._api.request("GET", self._path(), timeout_s=self._timeout_s)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def _write(self) -> None:
        wanted = self._elector.lease_to_write(self._time.monotonic(), self._time.now())
        if wanted is None:
            self._elector.unsure()  # another holds it, and renews it
            return
        began = self._time.monotonic()
        if "metadata" in wanted:
            stored = await self._api.request("PUT", self._path(), body=wanted, timeout_s=self._timeout_s)
        else:
            metadata = {"name": self.name, "namespace": self._namespace}
            named = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, **wanted}
            path = LEASES.path(self._namespace)
            stored = await self._api.request("POST", path, body=named, timeout_s=self._timeout_s)
        self._elector.wrote(stored, began, self._time.monotonic())

    def _path(self) -> str:
        return LEASES.path(self._namespace, self.name)

    def _log_holder(self) -> None:
        holder = self._elector.holder
        if holder not in (self._logged_holder, self._elector.identity):
            _LOG.info("lease %s: held by %s", self.lease, holder or "nobody")
        self._logged_holder = holder

    def _fail(self, trouble: str) -> None:
        if trouble != self._trouble:
            _LOG.warning("lease %s: %s", self.lease, trouble)
        self._trouble = trouble

    def _loss(self) -> str:
        elector = self._elector
        if elector.holder != elector.identity:
            return f"lease {self.lease}: lost to {elector.holder or 'nobody'}; this process writes nothing any more"
        deadline = f"not renewed within the renew deadline of {elector.durations.renew_deadline:g} s"
        why = f" ({self._trouble})" if self._trouble else ""
        return f"lease {self.lease}: {deadline}{why}; this process writes nothing any more"
