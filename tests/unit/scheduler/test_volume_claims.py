"""Claims for volumes that controllers will make: of StatefulSets' templates, and of ephemeral volumes."""

from typing import Any

import pytest

from scheduler.offline.input_claims import identified
from scheduler.offline.snapshot_cluster import VolumeClaims, volume_claims_to_be
from scheduler.offline.virtual_pods import expand
from scheduler.output.input_report import early_volumes, unchecked_volumes
from tests.unit.scheduler.manifests import (
    Json,
    a_cluster,
    a_node,
    a_pod,
    a_pod_template,
    a_storage_class,
    a_volume,
    a_volume_claim,
    a_workload,
    an_object,
    owned_by,
    volumes_of,
)
from tests.unit.scheduler.scenario import inventory_of, run, taken, virtual_pods

STATIC = a_storage_class(provisioner="kubernetes.io/no-provisioner")
ZONE = "topology.kubernetes.io/zone"


def a_claim_template(name: str = "data", **spec: Any) -> Json:
    usual = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "w"}
    return {"metadata": {"name": name}, "spec": {**usual, **spec}}


def a_set(*templates: Json, replicas: int = 1, **spec: Any) -> Json:
    return a_workload("StatefulSet", "web", replicas=replicas, volumeClaimTemplates=list(templates), **spec)


def with_hostnames(*names: str) -> list[Json]:
    """Nodes with their hostnames, each in a zone of its own name."""
    nodes = [a_node(name, labels={"kubernetes.io/hostname": name, ZONE: name}) for name in names]
    return [*nodes, *a_cluster(*names)[len(names) :]]


def only_in(zone: str, **more: Any) -> Json:
    """A class whose volumes can be made in that zone."""
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}]
    return {**a_storage_class(**more), "allowedTopologies": topologies}


def default(storage_class: Json, created: str) -> Json:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    own = {**storage_class["metadata"], "annotations": annotations, "creationTimestamp": created}
    return {**storage_class, "metadata": own}


def claims_to_be(*objects: Json) -> VolumeClaims:
    inventory = inventory_of(*objects)
    pods = [*inventory.pods, *expand(inventory.workloads, inventory.pods, inventory.nodes)]
    return volume_claims_to_be(inventory, identified(pods))


def names_of(found: VolumeClaims) -> list[str]:
    return [one.name for one in found.waiting]


# Of StatefulSets


def test_each_pod_of_a_set_names_its_own_claim() -> None:
    pods = virtual_pods(a_set(a_claim_template("data"), a_claim_template("logs"), replicas=2))
    assert [list(pod.volumes.named_claims) for pod in pods] == [
        ["data-web-0", "logs-web-0"],
        ["data-web-1", "logs-web-1"],
    ]


def test_a_claim_stands_in_for_the_volume_of_the_same_name() -> None:
    template = a_pod_template(volumes=[{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}])
    (pod,) = virtual_pods(a_set(a_claim_template("data"), template=template))
    spec = pod.raw["spec"]
    assert isinstance(spec, dict)
    assert spec["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
        {"name": "tmp", "emptyDir": {}},
    ]


def test_pods_of_a_set_get_a_volume_each() -> None:
    volumes = [a_volume("pv-b", node="b"), a_volume("pv-c", node="c")]
    cluster = with_hostnames("a", "b", "c")
    scenario = run(*cluster, *volumes, STATIC, a_set(a_claim_template(), replicas=3))
    assert [scenario.node_of(f"web-{number}") for number in range(3)] == ["b", "c", ""]


def test_a_claim_that_is_there_wins() -> None:
    there = a_volume_claim("data-web-0", volume="pv")
    cluster = [*with_hostnames("a", "b"), a_storage_class(), a_volume(node="b", phase="Bound"), there]
    assert run(*cluster, a_set(a_claim_template())).node_of("web-0") == "b"
    assert claims_to_be(*cluster, a_set(a_claim_template())) == VolumeClaims()


def test_a_claim_with_errors_is_not_made_again() -> None:
    broken = a_volume_claim("data-web-0", accessModes=5)
    inventory = taken(broken, a_storage_class(), a_set(a_claim_template()))
    pods = identified(list(expand(inventory.workloads, inventory.pods, inventory.nodes)))
    assert volume_claims_to_be(inventory, pods) == VolumeClaims()


def test_volumes_are_made_where_the_class_allows() -> None:
    assert run(*with_hostnames("a", "b"), only_in("b"), a_set(a_claim_template())).node_of("web-0") == "b"


def test_a_pod_that_waits_for_its_claim_gets_it() -> None:
    """kube-controller-manager makes missing claims of pods that are pending as well."""
    pod = a_pod("web-0", template="one", metadata=owned_by("StatefulSet", "web"), volumes=volumes_of("data-web-0"))
    objects = [*with_hostnames("a", "b"), only_in("b"), a_volume_claim("other"), pod]
    assert run(*objects, a_set(a_claim_template())).node_of("web-0") == "b"
    assert run(*objects).reason_of("web-0") == 'persistentvolumeclaim "data-web-0" not found'


def test_claims_of_pods_that_have_a_node_are_not_made() -> None:
    metadata = owned_by("StatefulSet", "web")
    pod = a_pod("web-0", metadata=metadata, volumes=volumes_of("data-web-0"), nodeName="a")
    assert claims_to_be(pod, a_storage_class(), a_set(a_claim_template())) == VolumeClaims()


@pytest.mark.parametrize(
    ("classes", "spec", "waiting"),
    [
        ([a_storage_class("w", mode="Immediate")], {}, False),
        ([a_storage_class()], {"storageClassName": ""}, False),
        ([a_storage_class()], {"storageClassName": None}, False),
        ([a_storage_class()], {}, True),
        ([], {"storageClassName": None}, True),  # which class there is, nobody knows
        ([a_storage_class("other")], {}, True),  # and is refused, as its class is not there
    ],
)
def test_claims_that_do_not_wait_for_their_pod_are_not_looked_at(
    classes: list[Json], spec: Json, *, waiting: bool
) -> None:
    found = claims_to_be(*classes, a_set(a_claim_template(**spec)))
    assert names_of(found) == (["data-web-0"] if waiting else [])
    assert found.bound_before == (frozenset() if waiting else {("default", "data-web-0")})


def test_a_pod_whose_volume_is_bound_before_goes_anywhere() -> None:
    early = a_storage_class(mode="Immediate")
    assert run(*with_hostnames("a", "b"), early, a_set(a_claim_template())).node_of("web-0") == "a"


def test_a_claim_of_a_class_that_is_not_there_refuses_its_pod() -> None:
    scenario = run(*with_hostnames("a"), a_storage_class("other"), a_set(a_claim_template()))
    assert scenario.reason_of("web-0") == "pod has unbound immediate PersistentVolumeClaims"


def test_a_claim_that_names_no_class_takes_the_newest_default() -> None:
    old = default(only_in("a", name="old"), "2026-01-01T00:00:00Z")
    new = default(only_in("b", name="new"), "2026-02-01T00:00:00Z")
    for classes in ([old, new], [new, old]):
        (found,) = claims_to_be(*classes, a_set(a_claim_template(storageClassName=None))).waiting
        assert found.storage_class == "new"
    (found,) = claims_to_be(old, only_in("b", name="none"), a_set(a_claim_template(storageClassName=None))).waiting
    assert found.storage_class == "old"


@pytest.mark.parametrize(
    ("template", "error"),
    [
        (5, "spec.volumeClaimTemplates[0]: must be an object (got 5)"),
        ({"metadata": 5}, "spec.volumeClaimTemplates[0].metadata: must be an object (got 5)"),
        ({"spec": {}}, "spec.volumeClaimTemplates[0].metadata.name: is required"),
        (
            a_claim_template(resources={"requests": {"storage": "-1"}}),
            'spec.volumeClaimTemplates[0].spec.resources.requests[storage]: must not be negative (got "-1")',
        ),
    ],
)
def test_what_is_wrong_with_a_template_is_an_error(template: Any, error: str) -> None:
    assert [one.message for one in taken(a_set(template)).errors] == [error]


# Of ephemeral volumes


def ephemeral(template: Any) -> list[Json]:
    return [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]


def test_an_ephemeral_volume_is_made_where_its_class_allows() -> None:
    pod = a_pod("p", template="one", volumes=ephemeral({"spec": a_claim_template()["spec"]}))
    objects = [*with_hostnames("a", "b"), pod]
    assert run(*objects, only_in("b")).node_of("p") == "b"
    assert run(*objects, a_storage_class(mode="Immediate")).node_of("p") == "a"


def test_an_ephemeral_volume_with_errors_is_not_looked_at_and_reported() -> None:
    pod = a_pod("p", template="one", volumes=ephemeral({"spec": {"accessModes": 5}}))
    objects = [*with_hostnames("a", "b"), only_in("b"), a_volume_claim(), pod]
    (warning,) = taken(*objects).warnings
    error = "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: must be a list (got 5)"
    assert warning.message == f"{error}; the claim is not checked"
    assert run(*objects).node_of("p") == "a"


# What the input does not hold


def test_static_volumes_are_not_missed_where_the_input_holds_none() -> None:
    assert run(*with_hostnames("a", "b"), STATIC, a_set(a_claim_template())).node_of("web-0") == "a"


def test_capacity_is_not_missed_where_the_input_holds_none() -> None:
    driver = {**an_object("storage.k8s.io/v1", "CSIDriver", "d.io"), "spec": {"storageCapacity": True}}
    objects = [*with_hostnames("a", "b"), a_storage_class(), driver, a_set(a_claim_template())]
    assert run(*objects).node_of("web-0") == "a"
    capacity = {"storageClassName": "w", "nodeTopology": {"matchLabels": {ZONE: "b"}}, "capacity": "5Gi"}
    reported = {**an_object("storage.k8s.io/v1", "CSIStorageCapacity", "c", "kube-system"), **capacity}
    assert run(*objects, reported).node_of("web-0") == "b"


def test_pods_are_counted_whose_volumes_are_bound_before() -> None:
    objects = [a_storage_class(mode="Immediate"), a_set(a_claim_template(), replicas=2)]
    (line,) = early_volumes(virtual_pods(*objects), claims_to_be(*objects).bound_before)
    assert line.startswith("warning: 2 pods have PersistentVolumeClaims that do not exist yet")


def test_claims_that_are_known_from_templates_are_not_missed() -> None:
    pods, unseen = virtual_pods(a_set(a_claim_template())), {"PersistentVolumeClaim"}
    assert list(unchecked_volumes(pods, unseen, {("default", "data-web-0")})) == []
    assert list(unchecked_volumes(pods, unseen, ())) == [
        "warning: the input contains no PersistentVolumeClaim: volumes of 1 pod are not checked against them"
    ]
