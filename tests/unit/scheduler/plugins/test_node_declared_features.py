from typing import Any

import pytest

from scheduler.core_v1.pod import Pod, decode_pod
from scheduler.plugins.node_declared_features import NODE_DECLARED_FEATURES, node_declared_features
from scheduler.plugins.plugin import Refusal, RefusedPod
from scheduler.state.cluster_changes import NodeChanged
from scheduler.state.pods import pod_requests
from tests.builders import a_node
from tests.unit.scheduler import manifests
from tests.unit.scheduler.manifests import Json

RESTARTS: Json = {"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
RESTART = "RestartAllContainersOnContainerExits"
HOST_NETWORK = "UserNamespacesHostNetworkSupport"


def a_pod(**spec: Any) -> Pod:
    pod, errors = decode_pod(manifests.a_pod(**{"containers": [{"name": "c"}], **spec}))
    assert pod, errors
    return pod


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({}, set()),
        ({"containers": [RESTARTS]}, {RESTART}),
        ({"initContainers": [RESTARTS]}, {RESTART}),
        ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]}, set()),
        ({"hostNetwork": True, "hostUsers": False}, {HOST_NETWORK}),
        ({"hostNetwork": True, "hostUsers": True}, set()),
        ({"hostNetwork": True}, set()),
        ({"hostUsers": False}, set()),
        ({"hostNetwork": True, "hostUsers": False, "containers": [RESTARTS]}, {RESTART, HOST_NETWORK}),
    ],
)
def test_a_pod_needs_the_features_that_its_fields_ask_for(spec: Json, features: set[str]) -> None:
    assert a_pod(**spec).required_features == features


def test_a_node_has_to_declare_all_that_the_pod_needs() -> None:
    pod = a_pod(containers=[RESTARTS], hostNetwork=True, hostUsers=False)
    assert node_declared_features(pod, a_node(declared_features=frozenset({RESTART, HOST_NETWORK, "Other"}))) == ""
    assert node_declared_features(pod, a_node(declared_features=frozenset({RESTART}))) == (
        "node does not declare UserNamespacesHostNetworkSupport"
    )
    assert node_declared_features(a_pod(), a_node()) == ""


def test_a_refused_pod_is_helped_by_a_node_that_comes_to_declare_what_it_needs() -> None:
    pod = a_pod(containers=[RESTARTS])
    reason = NODE_DECLARED_FEATURES.reason
    who, hint = RefusedPod(pod, Refusal(frozenset({reason}), pod_requests(pod))), reason.hints[NodeChanged]
    without, declaring = a_node(), a_node(declared_features=frozenset({RESTART}))
    assert hint(who, NodeChanged(None, declaring))
    assert hint(who, NodeChanged(without, declaring))
    assert not hint(who, NodeChanged(None, without))
    assert not hint(who, NodeChanged(declaring, a_node(declared_features=frozenset({RESTART, "Other"}))))
    assert reason.node_fields == ("declared_features",)
