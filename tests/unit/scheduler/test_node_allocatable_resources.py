from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.offline.placement import UnplacedPod
from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.manifests import Json, a_claim, a_class, a_node, a_pod, a_request, a_slice, text_of
from tests.unit.scheduler.scenario import Scenario, run

GATE = {"DRANodeAllocatableResources": True}
CPUS = {"cpu": {"mapping": {"deviceMultiplier": "4"}}}
HOST_MEMORY = {"memory": {"overhead": {"perPod": "1Gi", "perContainer": "512Mi"}}}


def a_cluster(taken: Mapping[str, Any], *, count: int = 2, **allocatable: str) -> list[Json]:
    """A node, and devices that take this of it."""
    devices = [{"name": f"gpu-{number}", "nodeAllocatableResources": taken} for number in range(count)]
    return [{**a_node(), "status": {"allocatable": allocatable}}, a_slice(devices=devices), a_class()]


def a_user(name: str = "p", claim: str = "c", *, uses: str = "dev", **spec: Any) -> Json:
    """A pod with a container that requests one cpu and uses the pod's claim."""
    resources = {"requests": {"cpu": "1"}, "claims": [{"name": uses}] if uses else []}
    return a_pod(name, claim=claim, containers=[{"name": "main", "resources": resources}], **spec)


def placed(*objects: Json, gates: Mapping[str, bool] = GATE, release: str = "1.37") -> Scenario:
    return run(*objects, release=release, gates=gates)


def why(scenario: Scenario, pod: str = "p") -> object:
    (result,) = [one for one in scenario.results if isinstance(one, UnplacedPod) and one.pod and one.pod.name == pod]
    assert result.nodes
    return result.nodes["node-1"]


def test_a_pod_whose_devices_fit_the_node_is_placed() -> None:
    assert placed(*a_cluster(CPUS, cpu="5"), a_claim("c"), a_user()).devices_of("p") == ["gpu-0"]


def test_a_refusal_names_resource_need_and_allocatable() -> None:
    scenario = placed(*a_cluster(CPUS, cpu="4900m"), a_claim("c"), a_user())
    assert why(scenario) == "needs 5 of cpu with its devices, the node has 4900m"


def test_a_node_that_does_not_say_what_it_has_has_room() -> None:
    assert placed(*a_cluster(HOST_MEMORY), a_claim("c"), a_user()).node_of("p") == "node-1"


def test_all_that_is_short_is_reported() -> None:
    scenario = placed(*a_cluster(HOST_MEMORY | CPUS, cpu="4", memory="1Gi"), a_claim("c"), a_user())
    reported = (
        "needs 5 of cpu with its devices, the node has 4",
        "needs 1536Mi of memory with its devices, the node has 1Gi",
    )
    assert why(scenario) == "; ".join(reported)


def test_every_device_of_the_claim_counts() -> None:
    scenario = placed(*a_cluster(CPUS, cpu="8"), a_claim("c", a_request(count=2)), a_user())
    assert why(scenario) == "needs 9 of cpu with its devices, the node has 8"


def test_without_the_gate_nothing_is_counted() -> None:
    assert placed(*a_cluster(CPUS, cpu="1"), a_claim("c"), a_user(), gates={}).node_of("p") == "node-1"


def test_what_bound_pods_and_those_placed_before_take_is_counted() -> None:
    bound = a_pod("b", nodeName="node-1", containers=[{"name": "c", "resources": {"requests": {"cpu": "2"}}}])
    objects = [*a_cluster(CPUS, cpu="11"), bound, a_claim("c"), a_claim("d")]
    scenario = placed(*objects, a_user("p", "c"), a_user("q", "d"))
    assert scenario.node_of("p") == "node-1"
    assert why(scenario, "q") == "needs 5 of cpu with its devices, the node has 11, of which 7 are taken"


def test_a_finished_pod_takes_nothing() -> None:
    over = a_pod(
        "b", nodeName="node-1", status={"phase": "Succeeded"}, containers=[{"resources": {"limits": {"cpu": 9}}}]
    )
    assert placed(*a_cluster(CPUS, cpu="5"), over, a_claim("c"), a_user()).node_of("p") == "node-1"


def test_a_claim_that_stands_for_resources_belongs_to_one_pod() -> None:
    scenario = placed(*a_cluster(CPUS, cpu="64"), a_claim("c"), a_user("p"), a_user("q"))
    assert scenario.node_of("p") == "node-1"
    assert why(scenario, "q") == "claim default/c takes resources of the node (cpu), and another pod uses it already"


def test_a_claim_that_stands_for_resources_has_to_be_used_by_a_container_before_1_37() -> None:
    scenario = placed(*a_cluster(CPUS, cpu="64"), a_claim("c"), a_user(uses=""), release="1.36")
    assert why(scenario) == "claim default/c takes resources of the node (cpu), and no container of the pod uses it"


@pytest.mark.parametrize(("cpu", "node"), [("5", "node-1"), ("4999m", "")])
def test_a_claim_that_no_container_uses_counts_for_its_pod(cpu: str, node: str) -> None:
    assert placed(*a_cluster(CPUS, cpu=cpu), a_claim("c"), a_user(uses="")).node_of("p") == node


@pytest.mark.parametrize(("cpu", "node"), [("9", "node-1"), ("8", "")])
def test_devices_of_an_extended_resource_take_of_the_node_as_well(cpu: str, node: str) -> None:
    objects = a_cluster(CPUS, cpu=cpu, count=2)[:2]
    by_name = a_class(extendedResourceName="example.com/gpu")
    amounts = {"example.com/gpu": "2"}
    container = {"name": "main", "resources": {"requests": {"cpu": "1", **amounts}, "limits": amounts}}
    assert placed(*objects, by_name, a_pod("p", containers=[container])).node_of("p") == node


def test_a_claim_with_overhead_is_shared_and_each_pod_takes_its_own() -> None:
    objects = [*a_cluster(HOST_MEMORY, cpu="64", memory="3Gi"), a_claim("c")]
    scenario = placed(*objects, a_user("p"), a_user("q"), a_user("r"))
    assert [scenario.node_of(name) for name in "pqr"] == ["node-1", "node-1", ""]
    assert why(scenario, "r") == "needs 1536Mi of memory with its devices, the node has 3Gi, of which 3Gi are taken"


def test_the_requests_of_the_pod_as_a_whole_have_to_cover_its_claims() -> None:
    budget = {"requests": {"cpu": "4"}}
    scenario = placed(*a_cluster(CPUS, cpu="64"), a_claim("c"), a_user(resources=budget))
    assert why(scenario) == "its containers and claims need 5 of cpu, its own requests say 4"


@pytest.mark.parametrize(("cpu", "node"), [("5", "node-2"), ("4", "")])
def test_another_node_may_have_more(cpu: str, node: str) -> None:
    second = {**a_node("node-2"), "status": {"allocatable": {"cpu": cpu}}}
    devices = [{"name": "gpu-0", "nodeAllocatableResources": CPUS}]
    objects = [*a_cluster(CPUS, cpu="1"), second, a_slice(node="node-2", devices=devices)]
    assert placed(*objects, a_claim("c"), a_user()).node_of("p") == node


def test_a_claim_without_a_pod_takes_nothing_of_the_node() -> None:
    scenario = placed(*a_cluster(CPUS, cpu="1"), a_claim("c"))
    assert not isinstance(scenario.results[0], UnplacedPod)


def test_bound_pods_of_the_input_count_on_the_command_line() -> None:
    bound = a_pod("b", nodeName="node-1", containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
    objects = [*a_cluster(CPUS, cpu="5"), bound, a_claim("c"), a_user()]
    run = dra(
        "allocate",
        "-",
        "--kubernetes=1.37",
        "--feature-gates=DRANodeAllocatableResources=true",
        stdin=text_of(*objects),
    )
    assert run.code == 1
    assert "needs 5 of cpu with its devices, the node has 5, of which 1 are taken" in run.out
