from collections.abc import Mapping
from typing import Any

import pytest

from allocator.api import decode
from scheduler.offline.placement import PlacedPod, UnplacedPod
from scheduler.output.placement_report import PlacementReport
from scheduler.output.report import object_of
from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.manifests import (
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_slice,
    an_allocated_claim,
    owned_by,
    text_of,
)
from tests.unit.scheduler.scenario import Scenario, run

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


def a_container(name: str = "main", **resources: int) -> Json:
    """A container with limits; keywords: gpu, fpga."""
    return {"name": name, "resources": {"limits": {f"example.com/{key}": n for key, n in resources.items()}}}


def a_gpu_pod(name: str = "pod-1", count: int = 1, **spec: Any) -> Json:
    return a_pod(name, containers=[a_container(gpu=count)], **spec)


def nodes(*names: str, count: int = 2, plugin: Mapping[str, int] | None = None) -> list[Json]:
    """Nodes with devices and the class of the resource. plugin: node to how many its device plugin offers."""
    offered = plugin or {}
    found = [
        {**a_node(name), "status": {"allocatable": {GPU: str(offered[name])} if name in offered else {}}}
        for name in names
    ]
    return [*found, *(a_slice(node=name, count=count) for name in names), a_class(extendedResourceName=GPU)]


def listed(scenario: Scenario) -> list[Json]:
    found = object_of(PlacementReport(scenario.results, scenario.placement.claims))
    assert isinstance(found, dict)
    items = found["items"]
    assert isinstance(items, list)
    return items


def why(scenario: Scenario, node: str) -> object:
    (result,) = [one for one in scenario.results if isinstance(one, UnplacedPod)]
    assert result.nodes
    return result.nodes[node]


def test_a_pod_gets_a_claim_for_its_extended_resource() -> None:
    scenario = run(*nodes("node-1"), a_gpu_pod("p", 2))
    assert (scenario.node_of("p"), scenario.devices_of("p")) == ("node-1", ["gpu-0", "gpu-1"])


def test_every_class_stands_for_a_resource_of_its_own_name() -> None:
    pod = a_pod("p", containers=[{"name": "c", "resources": {"requests": {IMPLICIT: "1"}}}])
    assert run(*a_cluster(), pod).devices_of("p") == ["gpu-0"]


def test_the_claim_is_the_one_that_kube_scheduler_makes() -> None:
    claim, pod = listed(run(*nodes("node-1"), a_gpu_pod("p", 2, metadata={"uid": "u"})))
    metadata = claim["metadata"]
    assert "generateName" not in metadata
    assert metadata["name"].startswith("p-extended-resources-")
    assert metadata["annotations"] == {ANNOTATION: "true"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    assert metadata["ownerReferences"] == [owner]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    assert claim["spec"] == {"devices": {"requests": [{"name": "container-0-request-0", "exactly": exactly}]}}
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "u"}]
    assert pod["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": metadata["name"],
        "requestMappings": [{"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}],
    }
    decoded = decode(claim)
    assert (decoded.errors, decoded.warnings) == ((), ())


def test_the_name_of_the_claim_is_that_of_the_pod_as_far_as_there_is_room() -> None:
    (claim, _) = listed(run(*nodes("node-1"), a_gpu_pod("p" * 250)))
    assert claim["metadata"]["name"].startswith("p" * 200)
    assert len(claim["metadata"]["name"]) == 253


def test_the_name_of_the_claim_depends_on_which_pod_of_the_name_it_is() -> None:
    claims = [listed(run(*nodes("node-1"), a_gpu_pod("p", metadata={"uid": uid})))[0] for uid in ("u", "u", "v")]
    first, again, other = (claim["metadata"]["name"] for claim in claims)
    assert first == again != other


def test_the_devices_of_the_claims_are_in_use_for_the_next_pod() -> None:
    scenario = run(*nodes("node-1", "node-2", count=1), *[a_gpu_pod(name) for name in "abc"])
    assert [scenario.node_of(name) for name in "abc"] == ["node-1", "node-2", ""]


def test_the_claim_comes_last_and_all_claims_fit_together_or_none() -> None:
    objects = [a_claim("c"), a_gpu_pod("p", claim="c")]
    scenario = run(*nodes("node-1"), *objects)
    (result,) = scenario.results
    assert isinstance(result, PlacedPod)
    assert [claim.name.partition("-")[0] for claim in result.claims] == ["c", "p"]
    assert scenario.devices_of("p") == ["gpu-0", "gpu-1"]
    assert run(*nodes("node-1", count=1), *objects).node_of("p") == ""


def test_a_node_with_a_device_plugin_needs_no_claim() -> None:
    scenario = run(*nodes("node-1", plugin={"node-1": 4}), a_gpu_pod("p"))
    assert (scenario.node_of("p"), scenario.devices_of("p")) == ("node-1", [])
    (pod,) = listed(scenario)
    assert "status" not in pod


def test_a_node_whose_device_plugin_offers_none_gives_the_resource_by_claim() -> None:
    assert run(*nodes("node-1", plugin={"node-1": 0}), a_gpu_pod("p")).devices_of("p") == ["gpu-0"]


def test_a_claim_of_the_pod_stands_alone_where_the_device_plugin_gives_the_rest() -> None:
    scenario = run(*nodes("node-1", plugin={"node-1": 4}), a_claim("c"), a_gpu_pod("p", claim="c"))
    assert scenario.devices_of("p") == ["gpu-0"]
    assert [item["metadata"]["name"] for item in listed(scenario)] == ["c", "p"]


def test_a_resource_that_nobody_offers_keeps_the_pod_from_the_node() -> None:
    pod = a_pod("p", containers=[a_container(gpu=1, fpga=1)])
    scenario = run(*nodes("node-1", plugin={"node-1": 0}), pod)
    assert why(scenario, "node-1") == "Insufficient example.com/fpga"


def test_a_resource_that_no_class_offers_is_not_counted_on_a_node_that_does_not_say_what_it_has() -> None:
    pod = a_pod("p", containers=[a_container(gpu=1, fpga=1)])
    assert run(*nodes("node-1"), pod).devices_of("p") == ["gpu-0"]


def test_a_pod_without_a_resource_of_a_class_is_none_of_our_business() -> None:
    scenario = run(*nodes("node-1"), a_pod("p", containers=[a_container(fpga=1)], claim="c"), a_claim("c"))
    assert scenario.devices_of("p") == ["gpu-0"]


def test_without_the_gate_no_class_stands_for_a_resource() -> None:
    scenario = run(*nodes("node-1"), a_gpu_pod("p"), gates={"DRAExtendedResource": False})
    assert (scenario.node_of("p"), scenario.devices_of("p")) == ("node-1", [])


def test_a_claim_that_an_earlier_attempt_left_has_to_go_first() -> None:
    metadata = {"annotations": {ANNOTATION: "true"}, **owned_by("Pod", "p", "u")}
    left = a_claim("p-extended-resources-x", metadata=metadata)
    scenario = run(*nodes("node-1"), left, a_gpu_pod("p", metadata={"uid": "u"}))
    expected = "claim default/p-extended-resources-x of an earlier attempt must be deleted first"
    assert scenario.reason_of("p") == expected


def test_a_claim_of_somebody_else_that_has_the_name_is_in_the_way() -> None:
    first, _ = listed(run(*nodes("node-1"), a_gpu_pod("p")))
    name = first["metadata"]["name"]
    reason = run(*nodes("node-1"), an_allocated_claim(name, "gpu-0"), a_gpu_pod("p")).reason_of("p")
    expected = "which is not the pod's, has the name of the claim for its extended resources"
    assert reason == f"claim default/{name}, {expected}"


@pytest.mark.parametrize("number", [33])
def test_more_requests_than_a_claim_can_have_are_reported(number: int) -> None:
    containers = [a_container(f"c{position}", gpu=1) for position in range(number)]
    reason = str(why(run(*nodes("node-1"), a_pod("p", containers=containers)), "node-1"))
    assert reason.startswith("no claim can be made for its extended resources: spec.devices.requests: ")


# On the command line


def test_a_pod_that_has_nothing_but_extended_resources_is_placed_from_the_command_line() -> None:
    run = dra(
        "allocate",
        "-",
        stdin=text_of(*nodes("node-1"), a_gpu_pod("p"), a_pod("other", containers=[a_container(fpga=1)])),
    )
    assert run.code == 0
    (row,) = run.out.splitlines()[1:]
    assert row.split()[2:] == ["node-1", "container-0-request-0", "gpu.example/node-1/gpu-0"]


def test_a_bound_pod_with_its_claim_is_not_placed_again() -> None:
    metadata = {"annotations": {ANNOTATION: "true"}, **owned_by("Pod", "p", "u")}
    bound = a_gpu_pod("p", metadata={"uid": "u"}, nodeName="node-1")
    held = {**an_allocated_claim("p-extended-resources-x", "gpu-0")}
    held["metadata"] |= metadata
    run = dra("allocate", "-", stdin=text_of(*nodes("node-1"), bound, held, a_gpu_pod("q")))
    assert [row.split()[0::4] for row in run.out.splitlines()[1:]] == [["default/q", "gpu.example/node-1/gpu-1"]]


def test_the_gate_switches_it_off_on_the_command_line() -> None:
    options = ("--kubernetes", "1.36", "--feature-gates", "DRAExtendedResource=false")
    run = dra("allocate", "-", *options, stdin=text_of(*nodes("node-1"), a_gpu_pod("p")))
    assert "0 of 0 placed" in run.err


def test_what_is_not_looked_at_is_shown_of_pods_with_extended_resources_and_not_of_those_without_devices() -> None:
    pods = [
        a_pod("none", schedulingGroup={"podGroupName": "g"}),
        a_pod("p", containers=[a_container(gpu=1)], schedulingGroup={"podGroupName": "g"}),
    ]
    run = dra("allocate", "-", stdin=text_of(*nodes("node-1"), *pods))
    assert "pod groups are ignored (1 pod)" in run.err
