"""The Services and controllers of pods: the labels by which pods without spread constraints are spread.

Source: kube-scheduler's helper DefaultSelector.
"""

from collections.abc import Iterable

from allocator.model import Requirement
from scheduler.core_v1.label_selector import LabelSelector, selects
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import REPLICATION_CONTROLLER, SERVICE, PodSelector


class PodSelectors:
    """Those that are there: Services by namespace, controllers by kind, namespace and name."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, PodSelector]] = {}
        self._controllers: dict[tuple[str, str, str], PodSelector] = {}

    def set(self, found: PodSelector) -> None:
        """The object is there, or has changed."""
        if found.kind == SERVICE:
            self._services.setdefault(found.namespace, {})[found.name] = found
        else:
            self._controllers[found.kind, found.namespace, found.name] = found

    def remove(self, gone: PodSelector) -> None:
        """The object is gone, if it was there."""
        if gone.kind == SERVICE:
            services = self._services.get(gone.namespace, {})
            services.pop(gone.name, None)
            if not services:
                self._services.pop(gone.namespace, None)
        else:
            self._controllers.pop((gone.kind, gone.namespace, gone.name), None)

    def default_selector(self, pod: Pod) -> LabelSelector:
        """What the Services that select the pod and its controller select together; () where there are none.

        Cost: O(Services of the namespace).
        """
        services = self._services.get(pod.namespace, {}).values()
        labels = _by_key(one.selector for one in services if selects(one.selector, pod.labels))
        owner = pod.owner and self._controllers.get((pod.owner.kind, pod.namespace, pod.owner.name))
        if not owner:
            return tuple(labels.values())
        if owner.kind == REPLICATION_CONTROLLER:  # where it contradicts a Service, it prevails
            return tuple((labels | _by_key([owner.selector])).values())
        return tuple(dict.fromkeys((*labels.values(), *(owner.selector or ()))))


def _by_key(selectors: Iterable[LabelSelector]) -> dict[str, Requirement]:
    """The labels that selectors ask for, each of which has one requirement a key."""
    return {one.key: one for selector in selectors for one in selector or ()}
