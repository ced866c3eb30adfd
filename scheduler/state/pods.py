"""The pods on each node: those that the watch shows there, and assumed ones.

A pod is *assumed* on its node from the decision on, and confirmed when the watch shows it bound. An event older than
the binding shows it without a node, and changes nothing. Pods on unknown nodes are counted as soon as the node is
known.
Source: kube-scheduler's cache, assumed pods.
"""

from collections.abc import Iterator
from typing import Protocol

from scheduler.core_v1.pod import Pod


class Counts(Protocol):
    """Who counts what pods take of each node."""

    def add_pod(self, number: int, pod: Pod) -> None:
        """The pod is on the node of that number."""
        ...

    def remove_pod(self, number: int, pod: Pod) -> None:
        """The pod that was added is there no more."""
        ...

    def change_pod(self, number: int, old: Pod, new: Pod) -> None:
        """The pod that was added is this one by now."""
        ...


class NodePods:
    """Pods by the name of their node. counts: all who count what pods take."""

    def __init__(self, *counts: Counts) -> None:
        self._counts = counts
        self._numbers: dict[str, int] = {}
        self._watched: dict[str, Pod] = {}
        self._assumed: dict[str, tuple[Pod, str]] = {}
        self._on_node: dict[str, dict[str, Pod]] = {}
        self._places: dict[str, str] = {}

    @property
    def assumed(self) -> int:
        """How many pods are where a decision has put them, and not seen there yet."""
        return len(self._assumed)

    # -- nodes

    def node_comes(self, name: str, number: int) -> None:
        """The node is known from now on, by that number."""
        self._numbers[name] = number
        for pod in self._on_node.get(name, {}).values():
            self._add(number, pod)

    def node_goes(self, name: str) -> None:
        """The node is gone; its pods stay with its name."""
        number = self._numbers.pop(name)
        for pod in self._on_node.get(name, {}).values():
            self._remove(number, pod)

    # -- pods

    def set(self, pod: Pod) -> None:
        """The watch shows the pod; one that is over takes nothing."""
        if pod.is_finished:
            self.remove(pod.uid)
            return
        self._watched[pod.uid] = pod
        if pod.node_name:
            self._assumed.pop(pod.uid, None)
        self._recount(pod.uid)

    def remove(self, uid: str) -> None:
        """The watch shows that the pod is gone."""
        self._watched.pop(uid, None)
        self._assumed.pop(uid, None)
        self._recount(uid)

    def assume(self, pod: Pod, node: str) -> None:
        """A decision puts the pod on the node."""
        if not self._is_bound(pod.uid):
            self._assumed[pod.uid] = (pod, node)
            self._recount(pod.uid)

    def forget(self, uid: str) -> None:
        """The decision came to nothing."""
        if self._assumed.pop(uid, None) is not None:
            self._recount(uid)

    # -- questions

    def known(self, uid: str) -> Pod | None:
        """The pod as the watch shows it, or else as a decision has put it on a node."""
        assumed = self._assumed.get(uid)
        return self._watched.get(uid) or (assumed[0] if assumed else None)

    def on_nodes(self) -> Iterator[tuple[int, Pod]]:
        """All pods that are counted, with the numbers of their nodes."""
        for node, pods in self._on_node.items():
            if node in self._numbers:
                yield from ((self._numbers[node], pod) for pod in pods.values())

    def pending(self) -> Iterator[Pod]:
        """The pods that the watch shows and that are on no node, the newest first. Cost: O(pods)."""
        return (pod for uid, pod in reversed(self._watched.items()) if not self.is_placed(uid))

    def shown(self, uid: str) -> Pod | None:
        """The pod, where the watch shows it."""
        return self._watched.get(uid)

    def is_shown(self, uid: str) -> bool:
        """Whether the watch shows the pod."""
        return uid in self._watched

    def is_placed(self, uid: str) -> bool:
        """Whether the pod is on a node: bound, as the watch shows it, or assumed."""
        return uid in self._assumed or self._is_bound(uid)

    def bound(self, uid: str) -> Pod | None:
        """The pod, where the watch shows it on a node."""
        return self._watched.get(uid) if self._is_bound(uid) else None

    def _is_bound(self, uid: str) -> bool:
        return uid in self._watched and bool(self._watched[uid].node_name)

    def _recount(self, uid: str) -> None:
        """Count the pod where it is now, and as it is now."""
        pod, node = self._assumed.get(uid, (self._watched.get(uid), ""))
        if pod is not None and not node:
            node = pod.node_name
        old = self._places.get(uid, "")
        counted = self._on_node[old][uid] if old else None
        if counted is not None and pod is not None and old == node:
            self._change(node, counted, pod)
            return
        if old and counted is not None:
            self._take_away(uid, old, counted)
        if node and pod is not None:
            self._put(node, pod)

    def _change(self, node: str, old: Pod, new: Pod) -> None:
        self._on_node[node][new.uid] = new
        if node in self._numbers and old is not new:
            for counts in self._counts:
                counts.change_pod(self._numbers[node], old, new)

    def _put(self, node: str, pod: Pod) -> None:
        self._places[pod.uid] = node
        self._on_node.setdefault(node, {})[pod.uid] = pod
        if node in self._numbers:
            self._add(self._numbers[node], pod)

    def _take_away(self, uid: str, node: str, pod: Pod) -> None:
        del self._places[uid]
        del self._on_node[node][uid]
        if not self._on_node[node]:
            del self._on_node[node]
        if node in self._numbers:
            self._remove(self._numbers[node], pod)

    def _add(self, number: int, pod: Pod) -> None:
        for counts in self._counts:
            counts.add_pod(number, pod)

    def _remove(self, number: int, pod: Pod) -> None:
        for counts in self._counts:
            counts.remove_pod(number, pod)
