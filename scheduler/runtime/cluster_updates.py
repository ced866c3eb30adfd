"""Applies changes of watched objects to the cluster, and turns them into events for pods.

An object that cannot be decoded is left out, but keeps what it holds: a claim its devices, a pod its resources, a rule
its taints.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from allocator.api import TaintRule
from allocator.limit_use import exceeded_text, limit_statuses
from allocator.limits import TenantLimit
from allocator.model import Claim
from scheduler.client.api_resources import CONFIG_MAPS, Resource
from scheduler.client.watch_states import Entry, Found, Undecoded
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.kinds import KINDS, ObjectKind, WatchedClaim
from scheduler.state.claims import with_devices_of
from scheduler.state.cluster_changes import ClaimChanged, Event, LimitsChanged, PodChanged, TaintRulesChanged

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

Update = Callable[[Found[Any] | None, Found[Any] | None], Event | None]  # Any: of whatever kind


class ClusterUpdates:
    """Takes the changes of watched objects into the cluster. limits: beside those of a ConfigMap."""

    def __init__(self, cluster: Cluster, limits: Sequence[TenantLimit] = ()) -> None:
        self._cluster = cluster
        self._unread_limits = ""
        self._exceeded: Mapping[tuple[str, str], str] = {}
        self._limits = tuple(limits)
        self._last_read: tuple[TenantLimit, ...] = ()
        self._in_force = self._limits
        if self._limits:
            cluster.set_limits(self._limits)
        self._undecoded_claims: dict[str, Claim] = {}
        self._undecoded_pods: dict[str, Pod] = {}
        self._by_kind: Mapping[str, Update] = {
            **{kind.name: _replaces(cluster, kind) for kind in KINDS},
            "DeviceTaintRule": self._taint_rule,
            "ResourceClaim": self._claim,
            "Pod": self._pod,
            CONFIG_MAPS.kind: self._config_map,
        }

    def update(self, resource: Resource, old: Found[T] | None, new: Found[T] | None) -> Event | None:
        """Change the cluster; the event, None where no pod can find a difference."""
        return self._by_kind[resource.kind](old, new)

    def _taint_rule(self, old: Found[TaintRule] | None, new: Found[TaintRule] | None) -> Event | None:
        """A rule that is gone taints nothing; while it merely cannot be decoded, it is in force as it was last seen."""
        now, is_changed = _value(new), False
        if now is not None:
            is_changed = self._cluster.set_taint_rule(now)
        elif new is None and old is not None:
            is_changed = self._cluster.remove_taint_rule(old.key.name)
        return TaintRulesChanged() if is_changed else None

    def _config_map(
        self, _: Found[Sequence[TenantLimit]] | None, new: Found[Sequence[TenantLimit]] | None
    ) -> Event | None:
        """While a ConfigMap is there that cannot be read, those are in force that were read last.

        It may be another one than they were read from: it was deleted, and created again with an error.
        """
        if isinstance(new, Entry):
            self._last_read = tuple(new.value)
        self._warn_of_unread(new)
        limits = self._limits if new is None else (*self._limits, *self._last_read)
        if limits == self._in_force:
            return None
        self._in_force = limits
        self._cluster.set_limits(limits)
        return LimitsChanged()

    @property
    def limits_trouble(self) -> str:
        """Why limits are in force that the ConfigMap does not say, and which were exceeded when we looked last."""
        return "; ".join(filter(None, (self._unread_limits, *self._exceeded.values())))

    def log_exceeded(self, only_held: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        """Warn of limits of which more is in use than may be: soft ones, and those that were so before they held.

        Once for each, until it is so no more. only_held: while it is open nothing counts that others still hold.
        """
        exceeded = self._exceeded_now()
        if exceeded:
            with only_held():
                exceeded = self._exceeded_now()
        for limit, text in exceeded.items():
            if limit not in self._exceeded:
                _LOG.warning(text)
        self._exceeded = exceeded

    def _exceeded_now(self) -> Mapping[tuple[str, str], str]:
        every = limit_statuses(self._cluster.fleet.current)
        return {(one.limit.name, one.namespace): exceeded_text(one) for one in every if one.is_exceeded}

    def _warn_of_unread(self, now: Found[Sequence[TenantLimit]] | None) -> None:
        before, self._unread_limits = self._unread_limits, ""
        if not isinstance(now, Undecoded):
            return
        kept = f"the {len(self._last_read)} limits that were read from it last stay in force"
        self._unread_limits = f"ConfigMap {now.key} cannot be read, {kept}: {now.error}"
        if self._unread_limits != before:
            _LOG.warning(self._unread_limits)

    def _claim(self, old: Found[WatchedClaim] | None, new: Found[WatchedClaim] | None) -> Event | None:
        if isinstance(new, Undecoded):
            return self._hold_claim(new)
        if isinstance(new, Entry):
            return self._set_claim(_value(old), new)
        assert old is not None
        uid, before = _held_uid(old), _value(old)
        claim = before.claim if before else self._undecoded_claims.pop(uid, None)
        if claim is None:
            return None
        self._cluster.remove_claim(uid)
        return ClaimChanged(claim, None)

    def _set_claim(self, old: WatchedClaim | None, new: Entry[WatchedClaim]) -> Event | None:
        before = self._undecoded_claims.pop(new.uid, old.claim if old else None)
        self._cluster.leave_alone(new.uid, ())
        self._cluster.set_claim(new.value, new.resource_version)
        return None if old and is_same(old, new.value) else ClaimChanged(before, new.value.claim)

    def _hold_claim(self, undecoded: Undecoded) -> Event:
        """It keeps the devices that it had, and has those that it is seen to have."""
        held, holding = undecoded.held, self._cluster.claims.holding(_held_uid(undecoded))
        assert isinstance(held, WatchedClaim), held
        before = holding.watched.claim if holding and holding.watched else None
        seen = replace(held.claim, uid=_held_uid(undecoded))
        claim = with_devices_of(seen, holding.stored if holding else None)
        self._undecoded_claims[claim.uid] = claim
        self._cluster.leave_alone(claim.uid, held.unknown_pools)
        self._cluster.set_claim(replace(held, claim=claim, error=undecoded.error), undecoded.resource_version)
        return ClaimChanged(before, claim)

    def _pod(self, old: Found[Pod] | None, new: Found[Pod] | None) -> Event | None:
        before, now = _value(old), _value(new)
        if now is not None:
            before = self._undecoded_pods.pop(now.uid, before)
            self._cluster.set_pod(now)
        elif isinstance(new, Undecoded):
            self._hold_pod(new)
            return PodChanged(before, None) if before else None
        elif old is not None:
            before = before or self._undecoded_pods.pop(_held_uid(old), None)
            self._cluster.remove_pod(_held_uid(old))
        return PodChanged(before, now)

    def _hold_pod(self, undecoded: Undecoded) -> None:
        """It keeps its place with the requests that it had; where these are unknown, nothing else fits on its node."""
        held, pod_before = undecoded.held, self._cluster.pods.known(_held_uid(undecoded))
        if isinstance(held, Pod):
            pod = (
                replace(pod_before, node_name=held.node_name) if pod_before else replace(held, uid=_held_uid(undecoded))
            )
            self._undecoded_pods[pod.uid] = pod
            self._cluster.set_pod(pod)


def _replaces(cluster: Cluster, kind: ObjectKind[T]) -> Update:
    """The update of a kind of which objects are replaced; one that cannot be decoded is as one that is gone."""

    def update(old: Found[T] | None, new: Found[T] | None) -> Event | None:
        before, now = _value(old), _value(new)
        if now is not None:
            kind.put(cluster, now)
        elif before is not None:
            kind.drop(cluster, before)
        return kind.changed(before, now) if before != now else None

    return update


def _held_uid(found: Found[T]) -> str:
    """By which it is counted: an object without a readable uid has a name at least."""
    return found.uid or str(found.key)


def is_same(old: WatchedClaim, new: WatchedClaim) -> bool:
    """Whether no pod can find a difference: what attempts write to claims beside their devices wakes nobody."""
    if old.claim.allocation and any(result.binding_conditions for result in old.claim.allocation.results):
        return False  # their devices' status decides as well
    return _deciding(old) == _deciding(new)


def _deciding(found: WatchedClaim) -> tuple[object, ...]:
    return found.claim, found.reserved_for, found.metadata.deletion_timestamp, found.metadata.owners


def _value(found: Found[T] | None) -> T | None:
    return found.value if isinstance(found, Entry) else None
