"""One attempt to place a pod, as plugins see it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from allocator.gates import Features
from cel import Cancelled
from scheduler.core_v1.pod import Pod
from scheduler.plugins.pod_signature import PodSignature
from scheduler.state.labels import PodSelectors
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pods import PodRequests, counted, uncounted
from scheduler.state.volumes import Volumes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cycle:
    """The pod, what it requests of the nodes in question, and what is in the cluster."""

    pod: Pod
    requests: PodRequests
    infos: NodeInfos
    signature: PodSignature
    """What plugins say of the pod and each node alone."""
    selectors: PodSelectors
    """Services and controllers."""
    volumes: Volumes
    """All of storage."""
    features: Features
    """What plugins follow; strict, they answer as kube-scheduler also where they would do better."""
    nominated: Mapping[int, Sequence[Pod]] = field(default_factory=dict)
    """The pods that go before this one, by the number of the node that they are promised."""
    is_cancelled: Callable[[], bool] = lambda: False
    """Whether the attempt has taken all its time."""

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """The items, one after the other, of which a pod can have thousands. Raises Cancelled."""
        for item in items:
            if self.is_cancelled():
                raise Cancelled("cancelled between the terms of a pod")
            yield item

    def requesting(self, requests: PodRequests) -> "Cycle":
        """The same attempt at nodes of which the pod takes this."""
        return self if requests is self.requests else replace(self, requests=requests)

    def without(self, gone: Sequence[tuple[int, Pod]]) -> AbstractContextManager[None]:
        """Do not count these pods on their nodes meanwhile; `Cluster.without` also takes their claims away."""
        return uncounted((self.infos, self.volumes), gone)

    def beside(self, nominated: Mapping[int, Sequence[Pod]]) -> AbstractContextManager[None]:
        """Count these pods on their nodes meanwhile."""
        return counted(
            (self.infos, self.volumes), [(number, pod) for number, pods in nominated.items() for pod in pods]
        )
