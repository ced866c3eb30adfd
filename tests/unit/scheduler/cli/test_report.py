"""What is said on standard error about the input, beside errors: what does not count, and what is only guessed."""

from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.cli.main import dra as program
from scheduler.decision.filters import LABEL
from scheduler.output.input_report import MAX_REPORTED
from tests.unit.scheduler.cli.command import ROOM, Run, dra
from tests.unit.scheduler.manifests import (
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_namespace,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_storage_class,
    a_volume,
    a_volume_claim,
    a_workload,
    an_object,
    text_of,
    volumes_of,
)


def allocate(*objects: Json, options: tuple[str, ...] = ()) -> Run:
    return dra("allocate", "-", *options, stdin=text_of(*objects))


def warnings_of(*objects: Json, options: tuple[str, ...] = ()) -> list[str]:
    lines = allocate(*objects, options=options).err.splitlines()
    return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]


def test_room_that_the_input_does_not_report_is_reported_once_where_a_pod_waits_for_devices() -> None:
    def reported(*objects: Json) -> list[str]:
        found = CliRunner().invoke(program, ["allocate", "-"], input=text_of(*objects)).stderr
        return [line for line in found.splitlines() if ROOM.fullmatch(f"{line}\n")]

    assert len(reported(*a_cluster("a", "b"), a_pod("p", template="one"))) == 1
    assert reported(*a_cluster("a", "b"), a_claim("c")) == []
    assert reported(a_slice(), a_class(), a_pod("p", claim="c"), a_claim("c")) == []


def anti_affinity(when: str) -> Json:
    term = {"topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {when: [term]}}


# Volumes


@pytest.mark.parametrize(
    ("objects", "reported"),
    [
        ((), "no PersistentVolume, no PersistentVolumeClaim, no StorageClass"),
        ((a_volume_claim(volume="pv"),), "no PersistentVolume, no StorageClass"),
        ((a_volume_claim(), a_volume(), a_storage_class()), ""),
    ],
)
def test_volumes_that_the_input_reports_too_little_of_are_not_checked(objects: tuple[Json, ...], reported: str) -> None:
    pod = a_pod("p", template="one", volumes=volumes_of("data"))
    found = allocate(*a_cluster(), *objects, pod)
    warning = f"warning: the input contains {reported}: volumes of 1 pod are not checked against them"
    assert [line for line in found.err.splitlines() if "volumes" in line] == ([warning] if reported else [])
    assert "1 of 1 placed" in found.err


# Requirements of pods that placement does not look at


@pytest.mark.parametrize(
    ("spec", "reported"),
    [
        (
            {"schedulingGroup": {"podGroupName": "workers"}},
            "without a PodGroup in the input, pod groups are ignored (1 pod)",
        ),
        (
            {"workloadRef": {"name": "train", "podGroup": "workers"}},
            "without a PodGroup in the input, pod groups are ignored (1 pod)",
        ),
    ],
)
def test_what_placement_does_not_look_at_is_reported(spec: Json, reported: str) -> None:
    assert warnings_of(*a_cluster(), a_pod("p", template="one", **spec)) == [reported]


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": anti_affinity("requiredDuringSchedulingIgnoredDuringExecution")},
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone", "maxSkew": 1}]},
        {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]},
        {"volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "config", "configMap": {"name": "c"}}]},
        {"containers": {"a": 1}, "volumes": [7]},
    ],
)
def test_what_only_prefers_or_binds_to_no_node_is_not_reported(spec: Json) -> None:
    assert warnings_of(*a_cluster(), a_pod("p", template="one", **spec)) == []


def test_pods_that_need_no_node_any_more_are_not_reported() -> None:
    spread: dict[str, Any] = {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}
    pods = [
        a_pod("bound", template="one", nodeName="node-1", **spread),
        a_pod("over", template="one", status={"phase": "Succeeded"}, **spread),
        a_pod("plain", **spread),
    ]
    assert warnings_of(*a_cluster(), *pods) == []


def test_only_the_pods_that_are_asked_for_are_reported() -> None:
    volumes: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}
    objects = [*a_cluster(), a_pod("p", template="one"), a_pod("q", template="one", **volumes)]
    assert warnings_of(*objects, options=("--pod", "p")) == []
    assert len(warnings_of(*objects, options=("--pod", "q"))) == 1


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("deviceclass.resource.kubernetes.io/gpu", ("limits",)),
        ("deviceclass.resource.kubernetes.io/gpu", ("requests",)),
        ("gpu.example/whole", ("limits",)),
        ("gpu.example/whole", ("limits", "requests")),
    ],
)
def test_resources_that_a_class_serves_are_looked_at(name: str, parts: tuple[str, ...]) -> None:
    pods = [a_pod(pod, containers=[{"resources": {part: {name: 1} for part in parts}}]) for pod in "ab"]
    cluster = [one for one in a_cluster() if one["kind"] != "DeviceClass"]
    objects = [*cluster, a_class(extendedResourceName="gpu.example/whole"), *pods]
    assert warnings_of(*objects) == []
    assert allocate(*objects).err == "2 of 2 placed\n"


def test_what_a_node_offers_is_not_reported() -> None:
    node = {**a_node("node-2"), "status": {"allocatable": {"other.example/gpu": "1"}}}
    resources = {"limits": {"cpu": 1, "other.example/gpu": 1}, "requests": {"memory": "1Gi"}}
    assert warnings_of(*a_cluster(), node, a_pod("p", containers=[{"resources": resources}])) == []


def test_extended_resources_that_nobody_offers_are_reported_with_the_number_of_pods() -> None:
    reported = "which neither a node nor a device class of the input offers"
    node = {**a_node("node-2"), "status": {"allocatable": {"other.example/gpu": "0"}}}
    pods = [a_pod(pod, containers=[{"resources": {"limits": {"cpu": 1, "other.example/gpu": 1}}}]) for pod in "pq"]
    over = a_pod("over", containers=pods[0]["spec"]["containers"], status={"phase": "Succeeded"})
    unknown = a_pod("r", containers=[{"resources": {"limits": {"deviceclass.resource.kubernetes.io/none": 1}}}])
    assert warnings_of(*a_cluster(), node, *pods, over, unknown) == [
        f"1 pod asks for deviceclass.resource.kubernetes.io/none, {reported}",
        f"2 pods ask for other.example/gpu, {reported}",
    ]
    served = [one for one in a_cluster() if one["kind"] != "DeviceClass"]
    served.append(a_class(extendedResourceName="other.example/gpu"))
    _, *warnings = warnings_of(*served, *pods, options=("--kubernetes", "1.35"))
    assert warnings == [
        f"2 pods ask for other.example/gpu, {reported}, for which DRAExtendedResource has to be on",
    ]


# Priorities


def a_priority_class(name: str, value: int) -> Json:
    return {**an_object("scheduling.k8s.io/v1", "PriorityClass", name), "value": value}


def test_priority_classes_decide_the_order() -> None:
    pods = [a_pod("a", template="one"), a_pod("b", template="one", priorityClassName="high")]
    run = allocate(*a_cluster(count=1), *pods, a_priority_class("high", 10), options=("-o", "name"))
    assert "pod/default/b" in run.out
    assert "pod/default/a" not in run.out
    assert run.err == "1 of 2 placed\n"


def test_a_priority_class_of_a_template_counts_for_the_pods_of_a_workload() -> None:
    template = {"spec": {**a_pod(template="one")["spec"], "priorityClassName": "system-node-critical"}}
    job = a_workload("Job", "job", template=template)
    run = allocate(*a_cluster(count=1), a_pod("a", template="one"), job, options=("-o", "name"))
    assert run.out.splitlines()[0] == "pod/default/job-0"


def test_a_priority_class_that_is_missing_is_reported_with_the_number_of_pods() -> None:
    pods = [a_pod(name, template="one", priorityClassName="none") for name in "ab"]
    assert warnings_of(*a_cluster(), *pods) == [
        "the input contains no PriorityClass none: the priority of 2 pods counts as 0"
    ]


# Admin access


ADMIN = a_claim("c", a_request(adminAccess=True))


def test_admin_access_is_for_namespaces_that_are_labelled_for_it() -> None:
    labelled = {**a_namespace(), "metadata": {"name": "default", "labels": {LABEL: "true"}}}
    assert allocate(*a_cluster(), ADMIN, labelled).code == 0


@pytest.mark.parametrize("labels", [{}, {LABEL: "false"}, {LABEL: "True"}, {"admin-access": "true"}])
def test_admin_access_is_refused_elsewhere(labels: Json) -> None:
    namespace = {**a_namespace(), "metadata": {"name": "default", "labels": labels}}
    run = allocate(*a_cluster(), ADMIN, namespace)
    assert run.code == 1
    reason = f'claim default/c requests admin access, but its namespace does not have the label {LABEL}: "true"'
    assert reason in run.out


def test_admin_access_in_a_namespace_that_is_not_there_is_given_and_reported() -> None:
    run = allocate(*a_cluster(), ADMIN)
    assert run.code == 0
    assert run.err.splitlines()[0] == (
        f"warning: the input contains no Namespace default: its label {LABEL}, which admin access needs, is not checked"
    )


def test_other_claims_do_not_need_the_label() -> None:
    run = allocate(*a_cluster(), a_namespace(), a_claim("c"), a_claim("d", a_request(adminAccess=False)))
    assert (run.code, run.err) == (0, "2 of 2 placed\n")


# In short


def test_of_many_findings_in_one_document_the_first_are_reported_and_the_others_counted() -> None:
    devices = [{"name": f"gpu-{number}", f"unknown{number}": 1} for number in range(MAX_REPORTED + 7)]
    warnings = warnings_of(*a_cluster(), a_slice("s", node="n2", devices=devices))
    assert len(warnings) == MAX_REPORTED + 1
    assert warnings[-1] == "standard input, document 5: and 7 more"


def test_of_many_other_kinds_the_first_are_reported_and_the_others_counted() -> None:
    others = [an_object("v1", f"Kind{number:03}", "x") for number in range(MAX_REPORTED + 3)]
    line = allocate(*a_cluster(), *others).err.splitlines()[0]
    assert line.startswith("ignored: 1 Kind000 (core), 1 Kind001 (core), ")
    assert line.endswith("1 Kind099 (core), objects of 3 more kinds")
