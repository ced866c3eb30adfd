"""What a program shows of itself at `/ui`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from scheduler.decision.cluster import Cluster
from scheduler.ui.decision_log import DecisionLog


@dataclass(frozen=True, slots=True)
class UiSource:
    """What a program shows. title: of the page. queue: pods that wait, as JSON objects; waiting: how many they are.

    troubles: what keeps the program from its work, or an operator should know of.
    """

    title: str
    cluster: Cluster
    decisions: DecisionLog
    queue: Callable[[], Iterable[Mapping[str, object]]]
    waiting: Callable[[], int]
    troubles: Callable[[], Iterable[str]]
