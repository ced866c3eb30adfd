"""The last decisions of a program, for people who ask what it did just now."""

from collections import deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from allocator.model import Allocation
from scheduler.core_v1.pod import Pod

MOST = 200
"""Decisions that are kept."""

WAITS = "waits: the reason is below"
"""In place of the reason of a pod that the page lists among those that wait."""


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """A decision."""

    time: float
    """Seconds since 1970."""
    pod: str
    result: str
    """Such as `placed`."""
    node: str = ""
    allocations: Sequence[Allocation] = ()
    reason: str = ""
    """Why there is no node, or empty."""

    def cells(self, waiting: Container[str] = ()) -> list[str]:
        """Time, pod, result, node, and devices or the reason; waiting: pods whose reason stands in their own rows."""
        moment = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        devices = ", ".join(str(result.id) for one in self.allocations for result in one.results)
        reason = WAITS if self.reason and self.pod in waiting else self.reason
        return [f"{moment}Z", self.pod, self.result, self.node or "-", reason or devices or "-"]


class DecisionLog:
    """Keeps the last decisions. number: of all so far. Cost of a decision: one entry; texts are made by who reads."""

    def __init__(self) -> None:
        self.number = 0
        self._last: deque[LoggedDecision] = deque(maxlen=MOST)

    def placed(self, time: float, pod: Pod, node: str, allocations: Sequence[Allocation]) -> None:
        """The pod has a node, and devices, which are written next."""
        self._add(LoggedDecision(time, str(pod), "placed", node, allocations))

    def answered(self, time: float, pod: str, result: str, reason: str, node: str = "") -> None:
        """Any other result. pod: NAMESPACE/NAME."""
        self._add(LoggedDecision(time, pod, result, node, reason=reason))

    def kept(self) -> Iterator[tuple[int, LoggedDecision]]:
        """The last decisions with their numbers, the newest first."""
        return zip(range(self.number, 0, -1), reversed(self._last), strict=False)

    def _add(self, decision: LoggedDecision) -> None:
        self.number += 1
        self._last.append(decision)
