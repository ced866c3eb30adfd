"""One attempt to place a pod, as plugins see it."""

from dataclasses import dataclass

from scheduler.core_v1.pod import Pod
from scheduler.plugins.template import Template
from scheduler.state.nodes import NodeInfos
from scheduler.state.pod_requests import PodRequests
from scheduler.state.pod_selectors import PodSelectors
from scheduler.state.volumes import Volumes


@dataclass(frozen=True, slots=True)
class Cycle:
    """The pod, what it requests of the nodes in question, and what is in the cluster.

    template: what plugins say of the pod and each node alone. selectors: Services and controllers. volumes: all of
    storage. is_strict: plugins answer as kube-scheduler also where they would do better.
    """

    pod: Pod
    requests: PodRequests
    infos: NodeInfos
    template: Template
    selectors: PodSelectors
    volumes: Volumes
    is_strict: bool = False
