"""The record of a Lease and what it means to a candidate: pure, with all times as arguments.

Clocks of other processes are never compared with ours. A record expires if it has not changed for its duration, by our
own monotonic clock. A leader may write until its renew deadline, counted from before the write that renewed the record
began. Because the deadline is shorter than the duration, nobody else leads before that.
Source: client-go's leaderelection; k8s.io/api coordination/v1 LeaseSpec.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduler.attempt.timestamps import in_microseconds
from scheduler.client.connection import Json
from scheduler.runtime.configuration import JITTER

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
    found = spec.get(field)
    return found if isinstance(found, int) else default


def _time_of(spec: Mapping[str, Any], field: str) -> datetime:
    """A MicroTime; long ago where there is none."""
    found = spec.get(field)
    return datetime.fromisoformat(found).astimezone(UTC) if found else _BEGIN
