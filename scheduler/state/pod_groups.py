"""The PodGroups and CompositePodGroups of a cluster, as the watches show them."""

from typing import TypeVar

from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_group import CompositePodGroup, PodGroup

Grouping = TypeVar("Grouping", PodGroup, CompositePodGroup)


class PodGroupIndex:
    """The groups by namespace and name."""

    def __init__(self) -> None:
        self._groups: dict[NamespacedName, PodGroup] = {}
        self._composites: dict[NamespacedName, CompositePodGroup] = {}

    def set(self, group: PodGroup) -> None:
        """The group is there, or has changed."""
        self._groups[group.key] = group

    def remove(self, group: PodGroup) -> None:
        """The group is gone."""
        self._groups.pop(group.key, None)

    def set_composite(self, group: CompositePodGroup) -> None:
        """The group of groups is there, or has changed."""
        self._composites[group.key] = group

    def remove_composite(self, group: CompositePodGroup) -> None:
        """The group of groups is gone."""
        self._composites.pop(group.key, None)

    def get(self, namespace: str, name: str) -> PodGroup | None:
        """The group of that name."""
        return self._groups.get((namespace, name))

    def of(self, pod: Pod) -> PodGroup | None:
        """The group of the pod, None where it is in none, or that is not there."""
        return self.get(pod.namespace, pod.group) if pod.group else None

    def parent_of(self, group: PodGroup | CompositePodGroup) -> CompositePodGroup | None:
        """The group that this one is in, None where it is in none, or that is not there."""
        return self._composites.get((group.namespace, group.parent)) if group.parent else None
