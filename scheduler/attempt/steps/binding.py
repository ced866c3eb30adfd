"""Binds the pod to its node, with the pod's uid and resourceVersion as preconditions.

Source: k8s.io/kubernetes pkg/registry/core/pod/storage, BindingREST.
"""

from dataclasses import dataclass

from scheduler.attempt.decision import Bound
from scheduler.attempt.pod_step import PodStep, write_status
from scheduler.client.api_resources import PODS


@dataclass(eq=False)
class Bind(PodStep):
    """The binding of the pod."""

    async def send(self) -> Bound:
        """Bind the pod, whose status is written again where an earlier try has failed. Raises CallFailed."""
        await write_status(self.binder, self.attempt)
        pod, node = self.attempt.decision.pod, self.attempt.decision.node
        guard = {"uid": pod.uid, "resourceVersion": self.attempt.pod.version}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, **guard},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.binder.api.request("POST", PODS.path(pod.namespace, pod.name, "binding"), body=body)
        return Bound(node)
