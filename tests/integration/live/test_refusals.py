"""What a pod is told that gets no node: once, in kube-scheduler's form, and in ours why the nearest node did not do."""

from collections.abc import Iterator

import pytest

from tests.controlplane import rest
from tests.controlplane.contents import ensure_namespace
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, NODE, POD, ApiError, Kind
from tests.integration.live.world import (
    NAMESPACE,
    SCHEDULER,
    World,
    a_device,
    a_request,
    an_object,
    reported,
    some_devices,
)

GOING = "going"
ADMISSION = "admissionregistration.k8s.io/v1"
POLICY, POLICY_BINDING = (Kind(ADMISSION, f"ValidatingAdmissionPolicy{suffix}") for suffix in ("", "Binding"))


@pytest.mark.needs("DRADeviceTaints")
def test_refused_pod_is_shown_how_many_nodes_fail_for_what_and_what_the_nearest_lacks(world: World) -> None:
    world.a_class()
    world.a_node("node-0")
    world.a_node("node-1")
    world.a_node("node-2", unschedulable=True)
    world.a_node("node-3", taints=[{"key": "example.com/ours", "value": "yes", "effect": "NoSchedule"}])
    world.a_slice("node-1", *some_devices(2))
    world.a_claim("claim", a_request(count=3))
    pod = world.a_pod("pod", "claim")
    condition = world.refused()
    message = (
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable,"
        " 2 cannot allocate all claims. no other node has 3 devices for request r,"
        " the most is 2, on node-1 (of 2 devices). still not schedulable, preemption: 0/4 nodes are available:"
        " 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )
    assert condition["message"] == message
    assert condition["reason"] == "Unschedulable"
    assert condition["observedGeneration"] == pod["metadata"]["generation"]
    (event,) = world.events("pod", "FailedScheduling")
    assert event["note"] == message
    assert (event["type"], event["action"]) == ("Warning", "Scheduling")
    assert event["reportingController"] == SCHEDULER
    assert world.queue()["pod"]["message"] == message


def test_same_refusal_is_not_written_again(world: World) -> None:
    world.a_cluster()
    world.a_claim("claim", a_request(count=2))
    world.a_pod("pod", "claim")
    world.refused()
    world.events("pod", "FailedScheduling")
    for attempt in (2, 3):
        node = world.api.get(NODE, "node-0")
        labels = {**node["metadata"]["labels"], "attempt": str(attempt)}
        world.api.replace({**node, "metadata": {**node["metadata"], "labels": labels}})
        world.await_queue("pod", queue="unschedulable", attempts=attempt)
    assert len(world.proxy.writes(rf"/namespaces/{NAMESPACE}/pods/pod/status$")) == 1
    assert len(world.proxy.writes(rf"/namespaces/{NAMESPACE}/events$")) == 1


def test_other_refusal_is_written_and_keeps_the_time_since_when_the_pod_waits(world: World) -> None:
    world.a_cluster()
    world.a_claim("claim", a_request(count=3))
    world.a_pod("pod", "claim")
    first = world.refused("pod", "the most is 1")
    world.a_node("node-1")
    world.a_slice("node-1", *some_devices(2))
    second = world.refused("pod", "0/2 nodes are available: 2 cannot allocate all claims.")
    assert second["lastTransitionTime"] == first["lastTransitionTime"]


def test_condition_says_so_once_the_pod_has_its_node(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_claim()
    world.a_pod("pod", "claim")
    world.refused()
    world.a_slice("node-0", a_device())
    pod = world.bound()
    assert reported(pod) is None
    (condition,) = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert condition["status"] == "True"


def test_pod_that_only_waits_for_its_claim_is_shown_nothing(world: World) -> None:
    world.a_cluster()
    world.a_pod("waiting", "absent")
    world.await_queue("waiting", queue="gated")
    world.a_pod("other")
    world.bound("other")
    assert reported(world.pod("waiting")) is None
    assert world.proxy.writes(r"/pods/waiting/status$") == []


@pytest.fixture
def going(world: World) -> Iterator[None]:
    """A namespace that is being deleted, with a pod that nobody may delete until the test has ended."""
    ensure_namespace(world.api, GOING)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}
    where = {"matchLabels": {"kubernetes.io/metadata.name": GOING}}
    constraints = {"namespaceSelector": where, "resourceRules": [rule]}
    policy = {"matchConstraints": constraints, "validations": [{"expression": "false"}]}
    world.api.create(an_object(POLICY, GOING, policy))
    world.api.create(an_object(POLICY_BINDING, GOING, {"policyName": GOING, "validationActions": ["Deny"]}))
    world.api.create(an_object(CLAIM, "claim", {"devices": {"requests": [a_request()]}}, GOING))
    a_pod_of(world, "pod", schedulingGates=[{"name": "example.com/gate"}])
    poll_until(bool, lambda: is_kept(world), "nobody may delete pods")
    world.api.delete(rest.NAMESPACE, GOING)
    yield
    world.api.delete(POLICY_BINDING, GOING)
    world.api.delete(POLICY, GOING)
    world.api.await_all(rest.NAMESPACE, lambda left: GOING not in [one["metadata"]["name"] for one in left])


def a_pod_of(world: World, name: str, **spec: object) -> None:
    container, claim = {"name": "c", "image": "none"}, {"name": "claim", "resourceClaimName": "claim"}
    fields = {"schedulerName": SCHEDULER, "containers": [container], "resourceClaims": [claim], **spec}
    world.api.create(an_object(POD, name, fields, GOING))


def is_kept(world: World) -> bool:
    """Whether a pod that was just made cannot be deleted."""
    name = f"asked-{len(world.api.list(POD, GOING))}"
    a_pod_of(world, name, schedulerName="nobody")
    try:
        world.api.delete(POD, name, GOING)
    except ApiError:
        return True
    return False


@pytest.mark.usefixtures("going")
def test_pod_of_a_namespace_that_is_being_deleted_costs_no_write_but_that_of_its_condition(world: World) -> None:
    world.a_cluster()
    world.api.change(POD, "pod", GOING, lambda pod: {**pod, "spec": {**pod["spec"], "schedulingGates": []}})
    told = poll_until(
        lambda condition: condition is not None and condition["reason"] == "Unschedulable",
        lambda: reported(world.api.get(POD, "pod", GOING)),
        "the pod is told",
    )
    assert told is not None
    assert told["message"].startswith(f"0/1 nodes are available: namespace {GOING} is being deleted.")
    world.a_claim()
    world.a_pod("pod", "claim")
    world.bound()
    assert world.proxy.writes(rf"/namespaces/{GOING}/(resourceclaims/|pods/pod/binding)") == []
