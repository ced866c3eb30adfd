"""Kinds that hold pod templates and are none of Kubernetes' own, as their projects' examples write them."""

from typing import Any

import pytest

from scheduler.core_v1.group_terms import KUEUE_GROUP, KUEUE_IS_GROUP, KUEUE_TOTAL
from tests.unit.scheduler.manifests import Json, a_pod, a_pod_template, an_object, owned_by
from tests.unit.scheduler.scenario import taken, virtual_pods

TEMPLATE = a_pod_template(containers=[{"name": "main"}])
ONE = [{"name": "gpu", "resourceClaimTemplateName": "one"}]


def an_mpi_job(**spec: Any) -> Json:
    replicas = {"Launcher": {"replicas": 1, "template": TEMPLATE}, "Worker": {"replicas": 3, "template": TEMPLATE}}
    return {**an_object("kubeflow.org/v2beta1", "MPIJob", "mpi"), "spec": {"mpiReplicaSpecs": replicas, **spec}}


def a_job_set() -> Json:
    job = {"spec": {"parallelism": 2, "completions": 2, "template": TEMPLATE}}
    jobs = [
        {"name": "leader", "template": {"spec": {"template": TEMPLATE}}},
        {"name": "w", "replicas": 2, "template": job},
    ]
    return {**an_object("jobset.x-k8s.io/v1alpha2", "JobSet", "set"), "spec": {"replicatedJobs": jobs}}


def a_leader_worker_set(**template: Any) -> Json:
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE, **template}}
    return {**an_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws"), "spec": spec}


def a_ray_cluster() -> Json:
    workers = [{"groupName": "gpu", "replicas": 2, "minReplicas": 1, "numOfHosts": 2, "template": TEMPLATE}]
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE}, "workerGroupSpecs": workers}
    return {**an_object("ray.io/v1", "RayCluster", "ray"), "spec": spec}


def a_kueue_workload(metadata: Json | None = None) -> Json:
    sets = [{"name": "main", "count": 2, "template": TEMPLATE}]
    return {
        **an_object("kueue.x-k8s.io/v1beta1", "Workload", "queued", metadata=metadata or {}),
        "spec": {"podSets": sets},
    }


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        (an_mpi_job(), ["mpi-launcher-0", "mpi-worker-0", "mpi-worker-1", "mpi-worker-2"]),
        (a_job_set(), ["set-leader-0", *(f"set-w-{number}" for number in range(4))]),
        (a_leader_worker_set(), [f"lws-{number}" for number in range(6)]),
        (
            a_leader_worker_set(leaderTemplate=TEMPLATE),
            ["lws-leader-0", "lws-leader-1", *(f"lws-worker-{number}" for number in range(4))],
        ),
        (a_ray_cluster(), ["ray-gpu-0", "ray-gpu-1", "ray-gpu-2", "ray-gpu-3", "ray-head-0"]),
        (a_kueue_workload(), ["queued-0", "queued-1"]),
        (
            {**an_object("v1", "ReplicationController", "rc"), "spec": {"replicas": 2, "template": TEMPLATE}},
            ["rc-0", "rc-1"],
        ),
        (
            {**an_object("a.example.com/v1", "Server", "s"), "spec": {"podSpec": TEMPLATE["spec"]}},
            ["s-0"],
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_an_object_stands_for_the_pods_of_its_templates(raw: Json, names: list[str]) -> None:
    pods = virtual_pods(raw)
    assert [pod.name for pod in pods] == names
    assert {entry.template_name for pod in pods for entry in pod.claims} == {"one"}


def test_pods_that_are_there_already_count_for_their_part() -> None:
    worker = a_pod("mpi-worker-7", template="one", metadata=owned_by("MPIJob", "mpi"))
    assert [pod.name for pod in virtual_pods(an_mpi_job(), worker)] == [
        "mpi-launcher-0",
        "mpi-worker-0",
        "mpi-worker-1",
    ]


def test_pods_of_jobs_of_the_object_count() -> None:
    job = {
        **an_object("batch/v1", "Job", "set-w-0", metadata=owned_by("JobSet", "set")),
        "spec": {"template": TEMPLATE},
    }
    pod = a_pod("set-w-0-abcde", template="one", metadata=owned_by("Job", "set-w-0"))
    assert len(virtual_pods(a_job_set(), job, pod)) == 4


def test_a_pod_that_does_not_name_its_part_counts_for_one_that_asks_for_the_same() -> None:
    other = {"spec": {**TEMPLATE["spec"], "resourceClaims": [{"name": "a", "resourceClaimTemplateName": "two"}]}}
    sets = [{"name": "a", "count": 1, "template": TEMPLATE}, {"name": "b", "count": 1, "template": other}]
    raw = {**an_object("x.example.com/v1", "Gang", "g"), "spec": {"sets": sets}}
    pod = a_pod("g-xyz", metadata=owned_by("Gang", "g"))
    pod["spec"]["resourceClaims"] = other["spec"]["resourceClaims"]
    assert [pod.name for pod in virtual_pods(raw, pod)] == ["g-a-0"]


def test_a_workload_of_kueue_stands_for_nothing_beside_its_job() -> None:
    job = {**an_object("batch/v1", "Job", "train"), "spec": {"parallelism": 2, "template": TEMPLATE}}
    assert [pod.name for pod in virtual_pods(job, a_kueue_workload(owned_by("Job", "train")))] == ["train-0", "train-1"]
    pod = a_pod("alone", template="one")
    assert virtual_pods(pod, a_kueue_workload(owned_by("Pod", "alone"))) == []


def test_pods_of_a_workload_of_kueue_are_a_group_where_it_was_made_for_one() -> None:
    raw = a_kueue_workload({"annotations": {KUEUE_IS_GROUP: "true"}})
    labelled = {**TEMPLATE, "metadata": {"labels": {KUEUE_GROUP: "own"}}}
    raw["spec"]["podSets"].append({"name": "more", "count": 3, "template": labelled})
    pods = virtual_pods(raw)
    assert [(pod.labels[KUEUE_GROUP], pod.grouping[KUEUE_TOTAL]) for pod in pods] == [
        *[("queued", "5")] * 2,
        *[("own", "5")] * 3,
    ]
    assert pods[0].labels["app"] == "test"
    assert pods[0].raw["metadata"]["labels"] == pods[0].labels  # type: ignore[index]
    for metadata in ({}, {"annotations": {KUEUE_IS_GROUP: "false"}}, {"annotations": {KUEUE_TOTAL: "2"}}):
        assert [KUEUE_GROUP in pod.labels for pod in virtual_pods(a_kueue_workload(metadata))] == [False, False]


@pytest.mark.parametrize(
    ("raw", "note"),
    [
        (an_mpi_job(runPolicy={"suspend": True}), "is suspended"),
        (an_mpi_job(suspend=True), "is suspended"),
        ({**an_mpi_job(), "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}, "has succeeded"),
        ({**a_job_set(), "status": {"conditions": [{"type": "Failed", "status": "True"}]}}, "has failed"),
        ({**a_kueue_workload(), "status": {"conditions": [{"type": "Finished", "status": "True"}]}}, "has finished"),
    ],
)
def test_an_object_that_is_over_or_suspended_stands_for_no_pods(raw: Json, note: str) -> None:
    inventory = taken(raw)
    assert {workload.note for workload in inventory.workloads} == {note}
    assert virtual_pods(raw) == []


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (
            {**an_mpi_job(), "spec": {"workers": {"replicas": -1, "template": TEMPLATE}}},
            "spec.workers.replicas: must be an integer that is not negative (got -1)",
        ),
        (
            {**an_mpi_job(), "spec": {"workers": {"replicas": "3", "template": TEMPLATE}}},
            'spec.workers.replicas: must be an integer that is not negative (got "3")',
        ),
        (
            {**an_mpi_job(), "spec": {"workers": [{"template": {"spec": {"containers": [{"name": 1}]}}}]}},
            "spec.workers[0].template.spec.containers[0].name: must be a string (got 1)",
        ),
    ],
)
def test_a_template_or_number_that_makes_no_sense_ends_no_command(raw: Json, error: str) -> None:
    inventory = taken(raw)
    assert [found.message for found in inventory.warnings] == [f"{error}; its pods are not placed"]
    assert not inventory.errors
    assert not inventory.workloads
    assert inventory.unseen == 1


@pytest.mark.parametrize("replicas", [10**6, 10**400])
def test_an_object_that_asks_for_more_pods_than_any_cluster_has_stands_for_none(replicas: int) -> None:
    raw = {**an_mpi_job(), "spec": {"workers": [{"replicas": replicas, "template": TEMPLATE}]}}
    inventory = taken(raw)
    [found] = inventory.warnings
    assert found.message == (
        f"asks for {min(replicas, 2**63)} pods, and no cluster has more than 150000: none of them is placed"
    )
    assert not inventory.errors
    assert virtual_pods(raw) == []
    assert inventory.unseen == 1


def test_an_unknown_kind_that_asks_for_claims_is_a_warning() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    graph = {**an_object("x.example.com/v1", "Graph", "g"), "spec": {"services": {"a": {"resourceClaims": claims}}}}
    inventory = taken(graph)
    assert inventory.unseen == 1
    assert [str(one) for one in inventory.warnings] == [
        "test.yaml, document 1: Graph g: requests claims, but its pods cannot be determined and are not placed"
    ]
    assert inventory.skipped == {"Graph (x.example.com)": 1}


def test_an_unknown_kind_whose_containers_use_claims_is_a_warning_too() -> None:
    container = {"name": "main", "resources": {"claims": [{"name": "gpu"}]}}
    workflow = {**an_object("x.example.com/v1", "Flow", "f"), "spec": {"steps": [{"container": container}]}}
    assert taken(workflow).unseen == 1
    container["resources"] = {"claims": []}
    assert taken(workflow).unseen == 0


@pytest.mark.parametrize("kind", ["PodTemplate", "ClusterTrainingRuntime", "SandboxTemplate"])
def test_what_others_make_pods_of_stands_for_none(kind: str) -> None:
    inventory = taken({**an_object("x.example.com/v1", kind, "t"), "spec": {"template": TEMPLATE}})
    assert not inventory.workloads
    assert inventory.unseen == 1


def test_the_history_of_a_workload_asks_for_nothing() -> None:
    inventory = taken({**an_object("apps/v1", "ControllerRevision", "r"), "data": {"spec": {"template": TEMPLATE}}})
    assert not inventory.workloads
    assert not inventory.unseen


GUEST = {
    "domain": {
        "cpu": {"cores": 2, "sockets": 2},
        "memory": {"guest": "2Gi"},
        "devices": {"gpus": [{"name": "g", "claimName": "gpu", "requestName": "r"}]},
    },
    "nodeSelector": {"zone": "a"},
    "resourceClaims": ONE,
}


def a_machine(**spec: Any) -> Json:
    template = {"metadata": {"labels": {"vm": "x"}}, "spec": GUEST}
    return {**an_object("kubevirt.io/v1", "VirtualMachine", "vm"), "spec": {"template": template, **spec}}


def an_instance(**more: Any) -> Json:
    return {**an_object("kubevirt.io/v1", "VirtualMachineInstance", "vmi"), "spec": GUEST, **more}


def a_nim_service(**spec: Any) -> Json:
    body = {
        "image": {"repository": "nim", "tag": "1"},
        "draResources": [{"resourceClaimTemplateName": "one", "requests": ["r"]}],
        "resources": {"requests": {"cpu": "4"}},
        "nodeSelector": {"zone": "a"},
    }
    return {**an_object("apps.nvidia.com/v1alpha1", "NIMService", "nim"), "spec": {**body, **spec}}


def a_graph(**decode: Any) -> Json:
    main = {"image": "vllm", "args": ["--model", "x"]}
    worker = {
        "componentType": "worker",
        "replicas": 2,
        "resources": {"requests": {"cpu": "4", "gpu": "1"}, "claims": [{"name": "gpu"}]},
        "extraPodSpec": {"mainContainer": main, "nodeSelector": {"zone": "a"}, "resourceClaims": ONE},
    }
    services = {"Frontend": {"extraPodSpec": {"mainContainer": main}}, "Decode": {**worker, **decode}}
    return {**an_object("nvidia.com/v1alpha1", "DynamoGraphDeployment", "llm"), "spec": {"services": services}}


def a_newer_graph() -> Json:
    components = [{"name": "decode", "replicas": 2, "multinode": {"nodeCount": 2}, "podTemplate": TEMPLATE}]
    return {**an_object("nvidia.com/v1beta1", "DynamoGraphDeployment", "llm"), "spec": {"components": components}}


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        (a_machine(runStrategy="Always"), ["vm-0"]),
        (an_instance(), ["vmi-0"]),
        (
            {
                **an_object("kubevirt.io/v1", "VirtualMachineInstanceReplicaSet", "set"),
                "spec": {"replicas": 2, "template": {"spec": GUEST}},
            },
            ["set-0", "set-1"],
        ),
        (
            {
                **an_object("pool.kubevirt.io/v1beta1", "VirtualMachinePool", "pool"),
                "spec": {"replicas": 2, "virtualMachineTemplate": a_machine(runStrategy="Always")},
            },
            ["pool-0", "pool-1"],
        ),
        (a_nim_service(), ["nim-0"]),
        (a_nim_service(replicas=2), ["nim-0", "nim-1"]),
        (a_nim_service(replicas=5, scale={"enabled": True, "hpa": {"minReplicas": 2}}), ["nim-0", "nim-1"]),
        (a_nim_service(multiNode={"size": 2}), ["nim-0", "nim-1"]),
        (a_graph(), ["llm-decode-0", "llm-decode-1"]),
        (a_graph(replicas=1, multinode={"nodeCount": 3}), ["llm-decode-0", "llm-decode-1", "llm-decode-2"]),
        (a_newer_graph(), [f"llm-{number}" for number in range(4)]),
    ],
)
def test_kinds_without_templates_stand_for_their_pods(raw: Json, names: list[str]) -> None:
    inventory = taken(raw)
    assert (inventory.warnings, inventory.errors, inventory.unseen) == ([], [], 0)
    pods = [pod for pod in virtual_pods(raw) if pod.claims]
    assert [pod.name for pod in pods] == names
    assert {entry.template_name for pod in pods for entry in pod.claims} == {"one"}


@pytest.mark.parametrize(
    ("raw", "requests"),
    [
        (an_instance(), {"cpu": 0.4, "memory": 2 * 2**30}),
        (
            an_instance(spec={**GUEST, "domain": {"cpu": {"cores": 4, "dedicatedCpuPlacement": True}}}),
            {"cpu": 4},
        ),
        (
            an_instance(
                spec={
                    "domain": {
                        "cpu": {},
                        "resources": {"requests": {"cpu": "3"}},
                        "devices": {"hostDevices": [{"deviceName": "example.com/nic"}] * 2},
                    }
                }
            ),
            {"cpu": 3, "example.com/nic": 2},
        ),
        (a_nim_service(), {"cpu": 4}),
        (a_graph(), {"cpu": 4, "nvidia.com/gpu": 1}),
    ],
)
def test_containers_of_such_pods_request_what_the_object_says(raw: Json, requests: dict[str, float]) -> None:
    [container] = virtual_pods(raw)[0].containers
    found = {name: amount.nanos / 10**9 for name, amount in container.requests.items()}
    assert found == requests


@pytest.mark.parametrize("raw", [a_machine(), an_instance(), a_nim_service(), a_graph()])
def test_a_container_of_such_pods_uses_the_claim(raw: Json) -> None:
    [pod] = [pod for pod in virtual_pods(raw) if pod.claims][:1]
    assert [one.claims for one in pod.containers] == [(pod.claims[0].name,)]
    assert pod.node_selector == {"zone": "a"}


def test_a_virtual_machine_and_its_instance_are_one_pod() -> None:
    launcher = a_pod("virt-launcher-vm", template="one", metadata=owned_by("VirtualMachineInstance", "vm"))
    instance = {**an_instance(), "metadata": {"name": "vm", **owned_by("VirtualMachine", "vm")}}
    assert [pod.name for pod in virtual_pods(a_machine(), instance)] == ["vm-0"]
    assert virtual_pods(a_machine(), instance, launcher) == []


@pytest.mark.parametrize(
    ("raw", "note"),
    [
        (a_machine(running=False), "is halted"),
        (a_machine(runStrategy="Halted"), "is halted"),
        (a_machine(runStrategy="Manual"), "is not started"),
        (an_instance(status={"phase": "Succeeded"}), "has succeeded"),
    ],
)
def test_a_machine_that_does_not_run_stands_for_no_pod(raw: Json, note: str) -> None:
    assert [workload.note for workload in taken(raw).workloads] == [note]
    assert virtual_pods(raw) == []


def test_an_error_names_the_field_of_the_object() -> None:
    raw = a_graph(extraPodSpec={"nodeSelector": {"a b": "c"}, "resourceClaims": ONE})
    [error] = taken(raw).warnings
    assert error.message.startswith("spec.services.Decode.extraPodSpec.nodeSelector[a b]: ")


@pytest.mark.parametrize(
    "raw",
    [
        a_nim_service(draResources=[{"claimSpec": {"devices": [{"name": "gpu"}]}}]),
        a_graph(gpuMemoryService={"enabled": True}),
    ],
)
def test_claims_that_an_operator_makes_by_itself_are_a_warning(raw: Json) -> None:
    inventory = taken(raw)
    assert inventory.unseen == 1
    [warning] = inventory.warnings
    assert "requests claims, but some of its pods cannot be determined and are not placed" in str(warning)


@pytest.mark.parametrize("field", ["resourceClaimName", "resourceClaimTemplateName"])
def test_a_claim_named_beside_the_templates_is_a_warning(field: str) -> None:
    raw = an_mpi_job(accelerator={"settings": [{field: "other"}]})
    assert taken(raw).unseen == 1
    assert [pod.name for pod in virtual_pods(raw)][:1] == ["mpi-launcher-0"]


def test_a_claim_named_at_the_root_of_an_object_is_a_warning() -> None:
    assert taken({**an_object("x.example.com/v1", "Graph", "g"), "resourceClaimName": "q"}).unseen == 1
    assert taken({**an_object("x.example.com/v1", "Graph", "g"), "resourceClaims": [ONE[0]]}).unseen == 1


def test_a_history_of_another_group_asks_for_its_pods() -> None:
    raw = {**an_object("x.example.com/v1", "ControllerRevision", "r"), "spec": {"template": TEMPLATE}}
    assert [pod.name for pod in virtual_pods(raw)] == ["r-0"]


def test_what_a_status_names_asks_for_nothing() -> None:
    raw = {**an_object("x.example.com/v1", "Graph", "g"), "status": {"claims": [{"resourceClaimName": "c"}]}}
    assert not taken(raw).unseen
