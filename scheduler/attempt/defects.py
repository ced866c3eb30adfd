"""What keeps pods from being bound until an operator acts: the API server does not know us, or a right is missing.

A right may be missing in one namespace alone, and an API server that has just started knows nobody for a second or two.
So pods of a namespace where that was seen are tried one after the other, those of others as always, and it concerns the
program as a whole only if it lasts and no pod is bound meanwhile.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.client.errors import LASTS_S

PROBE_S = 1.0
"""How often one pod of all these namespaces is tried."""


@dataclass(slots=True)
class _Defect:
    """What was seen in one namespace. pod_uid: of the last pod that has shown it; since, last: when it was seen."""

    pod_uid: str
    reason: str
    since: float
    last: float


class Defects:
    """The defects, by namespace. is_tried: whether a pod, by its uid, is still one to be tried: only then it counts."""

    def __init__(self, is_tried: Callable[[str], bool]) -> None:
        self._is_tried = is_tried
        self._seen: dict[str, _Defect] = {}
        self._bound_at = -math.inf
        self._probe_at = -math.inf

    def __len__(self) -> int:
        return len(self._seen)

    def found(self, namespace: str, pod_uid: str, reason: str, now: float) -> None:
        """An attempt for the pod has failed for this reason; the first one stays, so that pods are told the same."""
        self._forget()
        known = self._seen.get(namespace)
        since, first = (known.since, known.reason) if known else (now, reason)
        self._seen[namespace] = _Defect(pod_uid, first, since, now)
        self._probe_at = now + PROBE_S

    def bound(self, namespace: str, now: float) -> None:
        """A pod of the namespace is bound. What was missing there is there, and most likely in the others as well."""
        self._bound_at = now
        if namespace in self._seen:
            self._seen.clear()

    def refused(self, pod_uid: str) -> None:
        """The pod shows nothing more: no node passes for it."""
        self._seen = {namespace: one for namespace, one in self._seen.items() if one.pod_uid != pod_uid}

    def objection(self, namespace: str, now: float) -> str:
        """Why no pod of the namespace is tried now; empty where one may be, which is then the only one for a while."""
        self._forget()
        if namespace not in self._seen:
            return ""
        if now < self._probe_at:
            return self._seen[namespace].reason
        self._probe_at = now + PROBE_S
        return ""

    @property
    def trouble(self) -> str:
        """Why no pod can be bound; empty while one can, or nothing is there that shows it, or not for long."""
        self._forget()
        lasting = (one for one in self._seen.values() if one.last - max(one.since, self._bound_at) >= LASTS_S)
        return next((one.reason for one in lasting), "")

    def _forget(self) -> None:
        if self._seen:
            self._seen = {namespace: one for namespace, one in self._seen.items() if self._is_tried(one.pod_uid)}
