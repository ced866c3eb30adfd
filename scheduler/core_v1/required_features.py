"""Features of the kubelet that a pod needs, and that its node has to declare.

Fields are read leniently: a field of a wrong type requires nothing. Features that only updates of a pod need do not
matter to a scheduler.
Source: KEP-5328; k8s.io/component-helpers nodedeclaredfeatures.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.core_v1.host_ports import objects

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


def required_features_of(spec: Mapping[str, Any]) -> frozenset[str]:
    """The features that the pod needs. spec: raw."""
    return frozenset(_required(spec))


def _required(spec: Mapping[str, Any]) -> Iterator[str]:
    containers = (*objects(spec, "initContainers"), *objects(spec, "containers"))
    rules = (rule for container in containers for rule in objects(container, "restartPolicyRules"))
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        yield RESTART_ALL_CONTAINERS
    if spec.get("hostNetwork") is True and spec.get("hostUsers") is False:
        yield USER_NAMESPACES_ON_HOST_NETWORK
