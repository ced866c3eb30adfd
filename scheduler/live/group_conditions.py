"""Writes the condition of PodGroups: whether they have been scheduled, or why not.

Its type is that of the version that is served. A group that says the same but for numbers and names is told again after
a minute at the earliest; and one that was scheduled stays so.
Source: k8s.io/api scheduling, PodGroupStatus; kube-scheduler's schedule_one_podgroup.go.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler.attempt import pod_calls
from scheduler.client.api_resources import Resource
from scheduler.client.connection import STRATEGIC_MERGE, Api
from scheduler.client.errors import ApiError, ApiErrorKind, CallFailed
from scheduler.core_v1.pod_group import COMPOSITE_SCHEDULED, SCHEDULED, AnyPodGroup, CompositePodGroup, PodGroup
from scheduler.core_v1.pod_status import Condition
from scheduler.rates import backoff_s
from scheduler.reporting import Regarding
from scheduler.terminal_text import printable

DETAILS_EVERY_S = 60.0
"""A group is told other details of the same reasons after so long, at the earliest."""

TRIES = 5
AGAIN_S, MOST_S = 1.0, 10.0
"""How often a condition is sent, and how long after a failure; doubled with each."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _WrittenCondition:
    condition: Condition
    gist: str
    at: float


class GroupConditions:
    """What PodGroups were told. resource: in the version that is served; None where none is. start: runs a write.

    composites: the same of CompositePodGroups.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource | None,
        now: Callable[[], datetime],
        start: Callable[[Coroutine[Any, Any, None]], object],
        composites: Resource | None = None,
    ) -> None:
        self._api = api
        self._resources = {PodGroup: resource, CompositePodGroup: composites}
        self._now = now
        self._start = start
        self._written: dict[str, _WrittenCondition] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def scheduled(self, group: AnyPodGroup | None) -> None:
        """So many of its pods are bound as it needs."""
        self._write_later(group, "True", "Scheduled", "")

    def not_scheduled(self, group: AnyPodGroup | None, reason: str, message: str, gist: str = "") -> None:
        """Too few of its pods can be bound. gist: of the message, "" if it has no details that change all the time."""
        self._write_later(group, "False", reason, message, gist)

    def regarding(self, group: AnyPodGroup | None) -> Regarding | None:
        """The group as an event names it."""
        resource = self._resources[type(group)] if group else None
        if group is None or resource is None:
            return None
        return Regarding(resource.api_version, resource.kind, group.namespace, group.name, group.uid)

    def forget(self, group: AnyPodGroup) -> None:
        """The group is gone."""
        self._written.pop(group.uid, None)
        self._locks.pop(group.uid, None)

    def _write_later(self, group: AnyPodGroup | None, status: str, reason: str, message: str, gist: str = "") -> None:
        resource = self._resources[type(group)] if group else None
        if group is None or resource is None:
            return
        is_composite = isinstance(group, CompositePodGroup)
        type_ = COMPOSITE_SCHEDULED if is_composite else SCHEDULED[resource.version != "v1alpha2"]
        condition, gist = Condition(type_, status, reason, printable(message)), f"{reason} {gist or message}"
        last, at = self._written.get(group.uid), self._now().timestamp()
        is_known = last is not None and (
            last.condition == condition or (last.gist == gist and 0 <= at - last.at < DETAILS_EVERY_S)
        )
        if not is_known:
            self._written[group.uid] = _WrittenCondition(condition, gist, at)
            standing = last.condition if last else None
            self._start(self._write(resource, group, condition, standing))

    async def _write(
        self, resource: Resource, group: AnyPodGroup, condition: Condition, standing: Condition | None
    ) -> None:
        lock = self._locks.setdefault(group.uid, asyncio.Lock())
        body = {
            "metadata": {"uid": group.uid},
            "status": pod_calls.status_with(condition, standing, self._now()),
        }
        path = resource.path(group.namespace, group.name, "status")
        async with lock:  # one after the other: the last one stays
            for tries in range(1, TRIES + 1):
                try:
                    await self._api.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE)
                except CallFailed as error:
                    if isinstance(error, ApiError) and error.kind is ApiErrorKind.MISSING:
                        return
                    _LOG.warning("group %s: cannot write its condition: %s", group, error)
                    await asyncio.sleep(backoff_s(tries, AGAIN_S, MOST_S))
                else:
                    return
        self._written.pop(group.uid, None)
