"""Pods that are nominated to a node (`status.nominatedNodeName`) and not bound yet.

Pods of every scheduler count: kube-scheduler nominates after preemption or before a long binding, and so do Cluster
Autoscaler and this program. kube-scheduler counts only its own pods.
Source: kube-scheduler's nominator; KEP-5278.
"""

from collections.abc import Callable, Iterator, Sequence

from scheduler.core_v1.pod import Pod


class Nominations:
    """The pods by the name of the node. is_placed: whether a pod (by uid) is counted on a node already."""

    def __init__(self, is_placed: Callable[[str], bool]) -> None:
        self._is_placed = is_placed
        self._nodes: dict[str, str] = {}
        self._pods: dict[str, dict[str, Pod]] = {}

    def set(self, pod: Pod) -> None:
        """The watch shows the pod."""
        self.remove(pod.uid)
        if pod.nominated_node and not pod.node_name and not pod.is_finished:
            self._nodes[pod.uid] = pod.nominated_node
            self._pods.setdefault(pod.nominated_node, {})[pod.uid] = pod

    def remove(self, uid: str) -> None:
        """The watch shows that the pod is gone."""
        node = self._nodes.pop(uid, None)
        if node is not None:
            del self._pods[node][uid]
            if not self._pods[node]:
                del self._pods[node]

    def before(self, pod: Pod) -> Iterator[tuple[str, Sequence[Pod]]]:
        """The nodes where others go before the pod: those of its priority or a higher one."""
        for node, pods in self._pods.items():
            first = [one for one in pods.values() if self._goes_before(one, pod)]
            if first:
                yield node, first

    def _goes_before(self, one: Pod, pod: Pod) -> bool:
        is_higher = (one.priority or 0) >= (pod.priority or 0)
        return is_higher and one.uid != pod.uid and not self._is_placed(one.uid)
