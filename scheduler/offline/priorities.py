"""Priorities of pods that only name a class: the numbers that the API server would write.

Source: k8s.io/kubernetes, the admission plugin Priority.
"""

from collections.abc import Iterable

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.priority_class import BUILT_IN, PriorityClass


class Priorities:
    """What the classes of the input, and those that every cluster has, give to pods."""

    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        every = [*BUILT_IN, *classes]
        self._values = {one.name: one.value for one in every}
        self._default = min((one.value for one in every if one.is_default), default=0)

    def of(self, pod: Pod) -> int:
        """The priority of the pod; 0 where its class is not known."""
        if pod.priority is not None:
            return pod.priority
        return self._values.get(pod.priority_class, 0) if pod.priority_class else self._default

    def knows(self, pod: Pod) -> bool:
        """False for a pod whose priority only a class would say that is not there."""
        return pod.priority is not None or pod.priority_class in ("", *self._values)
