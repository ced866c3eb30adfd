import json
from collections.abc import Sized
from typing import Any

import pytest

from allocator.gates import Features
from scheduler.input.documents import Finding, Place, RawObject
from scheduler.input.inventory import NO_OBJECT, take_inventory
from tests.unit.scheduler.manifests import (
    RESOURCE,
    Json,
    a_claim,
    a_class,
    a_namespace,
    a_node,
    a_pod,
    a_pod_template,
    a_request,
    a_slice,
    a_storage_class,
    a_template,
    a_volume,
    a_volume_claim,
    a_workload,
    an_allocation,
    an_object,
)
from tests.unit.scheduler.scenario import inventory_of, taken


def errors_of(*objects: Any) -> list[str]:
    return [str(error) for error in taken(*objects).errors]


def v1beta1(raw: Json) -> Json:
    """The slice or claim as v1beta1 writes it."""
    raw = {**raw, "apiVersion": "resource.k8s.io/v1beta1"}
    if raw["kind"] == "ResourceSlice":
        devices = [{"name": device["name"], "basic": {}} for device in raw["spec"]["devices"]]
        return {**raw, "spec": {**raw["spec"], "devices": devices}}
    requests = [{"name": r["name"], **r["exactly"]} for r in raw["spec"]["devices"]["requests"]]
    return {**raw, "spec": {"devices": {"requests": requests}}}


def a_taint_rule(name: str = "rule-1", *, version: str = RESOURCE, **spec: Any) -> Json:
    taint = {"key": "broken", "effect": "NoExecute"}
    return {**an_object(version, "DeviceTaintRule", name), "spec": {"taint": taint, **spec}}


def test_every_kind_that_counts_is_taken_in_any_order() -> None:
    inventory = inventory_of(
        a_workload("Deployment"),
        a_pod(claim="c"),
        a_template(),
        a_claim(),
        a_taint_rule(),
        a_class(),
        a_slice(),
        a_namespace(),
        a_node(),
    )
    assert [len(found) for found in (inventory.slices, inventory.classes, inventory.taint_rules)] == [1, 1, 1]
    assert [len(found) for found in (inventory.claims, inventory.templates, inventory.namespaces)] == [1, 1, 1]
    assert [len(found) for found in (inventory.nodes, inventory.pods, inventory.workloads)] == [1, 1, 1]
    assert not inventory.skipped
    assert not inventory.warnings


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "CronJob"])
def test_every_workload_is_taken(kind: str) -> None:
    assert [workload.kind for workload in inventory_of(a_workload(kind)).workloads] == [kind]


def test_every_kind_that_says_something_of_volumes_is_taken() -> None:
    group = "storage.k8s.io/v1"
    spec: Json = {"spec": {"attacher": "d.io", "nodeName": "n", "source": {}}}
    inventory = inventory_of(
        a_volume(),
        a_volume_claim(),
        a_storage_class(),
        an_object(group, "CSINode", "n"),
        an_object(group, "CSIDriver", "d.io"),
        {**an_object(group, "CSIStorageCapacity", "c", "default"), "storageClassName": "w"},
        {**an_object(group, "VolumeAttachment", "va"), **spec},
    )
    assert sum(map(len, inventory.objects.values())) == 7
    assert not inventory.skipped


def test_what_is_wrong_with_a_storage_object_is_reported_with_its_name_and_field() -> None:
    (error,) = errors_of(a_volume(capacity={"storage": "much"}))
    assert error.startswith("test.yaml, document 1: PersistentVolume pv: spec.capacity[storage]: must be a quantity")
    (error,) = errors_of({**a_volume_claim(), "apiVersion": "storage.k8s.io/v1"})
    assert "apiVersion: must be v1 for a PersistentVolumeClaim" in error


@pytest.mark.parametrize("version", ["x.example.com/v1", "cluster.sigs.k8s.io/v1"])
def test_a_kind_of_another_project_with_the_name_of_ours_is_no_error(version: str) -> None:
    assert errors_of({**a_pod(), "apiVersion": version}) == []


def test_a_workload_of_the_old_group_is_taken() -> None:
    old = {**a_workload("Deployment"), "apiVersion": "extensions/v1beta1"}
    assert [workload.kind for workload in inventory_of(old).workloads] == ["Deployment"]


def test_versions_mix_and_mean_the_same() -> None:
    inventory = inventory_of(
        a_slice("s1", node="n1"),
        {**a_slice("s2", node="n2"), "apiVersion": "resource.k8s.io/v1beta2"},
        v1beta1(a_slice("s3", node="n3")),
        a_claim("c1", a_request(count=2)),
        v1beta1(a_claim("c2", a_request(count=2))),
    )
    assert len({slice_.devices[0].name for slice_ in inventory.slices}) == 1
    first, second = (found.claim.requests for found in inventory.claims.values())
    assert first == second


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_taint_rules_are_taken_in_every_version_that_serves_them(version: str) -> None:
    assert len(inventory_of(a_taint_rule(version=f"resource.k8s.io/{version}")).taint_rules) == 1


@pytest.mark.parametrize(
    ("version", "kind", "replacement"),
    [
        ("v1alpha2", "ResourceClass", "DeviceClass"),
        ("v1alpha2", "ResourceClaim", "spec.devices.requests"),
        ("v1alpha2", "PodSchedulingContext", "the scheduler allocates by itself"),
        ("v1alpha1", "PodScheduling", "the scheduler allocates by itself"),
    ],
)
def test_gone_versions_are_refused_with_what_replaced_them(version: str, kind: str, replacement: str) -> None:
    (error,) = errors_of({**an_object(f"resource.k8s.io/{version}", kind, "old"), "driverName": "x"})
    assert error.startswith(f"test.yaml, document 1: {kind} old: apiVersion: {version} is no longer served")
    assert replacement in error


def test_an_unknown_version_of_the_group_is_refused() -> None:
    (error,) = errors_of({**a_claim(), "apiVersion": "resource.k8s.io/v7"})
    assert "is not a known version; ResourceClaim is served by v1, v1beta2, v1beta1" in error


def test_other_kinds_are_counted_by_kind_and_group() -> None:
    inventory = taken(
        an_object("v1", "ConfigMap", "a"),
        an_object("v1", "ConfigMap", "b"),
        an_object("example.com/v1", "Pod", "c"),
        an_object("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", "d"),
        an_object("example.com/v1", "Job", "e"),
    )
    assert dict(inventory.skipped) == {
        "ConfigMap (core)": 2,
        "Pod (example.com)": 1,
        "ResourcePoolStatusRequest (resource.k8s.io)": 1,
        "Job (example.com)": 1,
    }
    assert not inventory.errors


@pytest.mark.parametrize(
    "raw",
    [{}, {"kind": "Pod"}, {"apiVersion": "v1"}, {"apiVersion": 1, "kind": "Pod"}, {"apiVersion": "v1", "kind": []}],
)
def test_what_does_not_say_its_kind_and_version_is_an_error(raw: Json) -> None:
    assert errors_of(raw) == ["test.yaml, document 1: is not a Kubernetes object: apiVersion and kind must be strings"]


def test_an_error_names_file_document_object_field_and_value() -> None:
    (error,) = errors_of(a_node(), a_claim("c", a_request(count=-1)))
    place, subject, message = error.split(": ", 2)
    assert (place, subject) == ("test.yaml, document 2", "ResourceClaim default/c")
    assert message == "spec.devices.requests[0].exactly.count: must be at least 1 (got -1)"


def test_all_errors_of_all_objects_are_reported_together() -> None:
    bad_pod = a_pod("p", claim="c", priority="high", nodeSelector=5)
    errors = errors_of(a_slice("s", driver="UPPER_", devices=[{"name": "A"}, {"name": "A"}]), bad_pod)
    subjects = [error.split(": ")[1] for error in errors]
    assert subjects.count("ResourceSlice s") >= 3
    assert subjects.count("Pod default/p") == 2


def test_findings_of_the_reader_are_errors_of_the_inventory() -> None:
    finding = Finding(Place("x"), "cannot be read: gone")
    assert take_inventory([finding]).errors == [finding]


def test_two_devices_of_one_name_are_an_error_that_names_it() -> None:
    (error,) = errors_of(a_slice("s", devices=[{"name": "gpu-0"}, {"name": "gpu-0"}]))
    assert error.endswith('ResourceSlice s: spec.devices[1]: the name must be unique within the slice (got "gpu-0")')


@pytest.mark.parametrize(
    "raw",
    [
        a_slice(),
        a_class(),
        a_claim(),
        a_template(),
        a_taint_rule(),
        a_node(),
        a_namespace(),
        a_pod(claim="c"),
        a_workload("Job"),
    ],
    ids=lambda raw: str(raw["kind"]),
)
def test_an_object_that_is_there_twice_alike_counts_once(raw: Json) -> None:
    inventory = inventory_of(a_node("known"), raw, raw)
    places: list[Sized] = [inventory.slices, inventory.classes, inventory.taint_rules, inventory.nodes]
    places += [inventory.pods, inventory.workloads, inventory.claims, inventory.templates, inventory.namespaces]
    assert sum(map(len, places)) == 2


@pytest.mark.parametrize(
    ("first", "second", "subject"),
    [
        (a_slice("s", count=1), a_slice("s", count=2), "ResourceSlice s"),
        (a_claim("c"), a_claim("c", a_request(count=2)), "ResourceClaim default/c"),
        (a_template("t"), a_template("t", a_request(count=2)), "ResourceClaimTemplate default/t"),
        (a_class("g"), a_class("g", expressions=["true"]), "DeviceClass g"),
        (a_node("n"), a_node("n", unschedulable=True), "Node n"),
        (a_pod("p", claim="a"), a_pod("p", claim="b"), "Pod default/p"),
        (a_workload("Job", "j"), a_workload("Job", "j", parallelism=2), "Job default/j"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_object_that_is_there_twice_with_another_content_is_an_error_with_both_places(
    first: Json, second: Json, subject: str
) -> None:
    assert errors_of(first, second) == [
        f"test.yaml, document 2: {subject}: differs from the copy in test.yaml, document 1"
    ]


def test_what_no_decision_depends_on_may_differ_between_two_copies() -> None:
    first = a_node("n", labels={"a": "b"})
    second = {**first, "status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}}
    assert len(inventory_of(first, second).nodes) == 1


def read_at(version: str, raw: Json, uid: str = "u") -> Json:
    """The object as a server had it at a resource version."""
    return {**raw, "metadata": {**raw["metadata"], "uid": uid, "resourceVersion": version}}


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_reads_of_one_object_the_later_counts(order: int) -> None:
    reads = [read_at("99", a_pod("p", claim="c")), read_at("100", a_pod("p", claim="c", nodeName="n"))]
    inventory = taken(*reads[::order])
    assert inventory.errors == []
    assert [pod.node_name for pod in inventory.pods] == ["n"]


def test_the_later_read_of_a_claim_counts_in_what_the_allocator_does_not_see_too() -> None:
    later = a_claim("c")
    later["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    inventory = taken(read_at("1", a_claim("c")), read_at("2", later))
    assert inventory.claims["default", "c"].decoded.metadata.deletion_timestamp


@pytest.mark.parametrize(
    "second",
    [
        read_at("1", a_pod("p", claim="d")),
        read_at("2", a_pod("p", claim="d"), uid="another"),
        read_at("2", a_pod("p", claim="d"), uid=""),
        read_at("", a_pod("p", claim="d")),
        read_at("x", a_pod("p", claim="d")),
    ],
    ids=["at one version", "another object", "without uid", "without version", "no number"],
)
def test_two_copies_that_cannot_be_two_reads_of_one_object_have_to_say_the_same(second: Json) -> None:
    assert errors_of(read_at("1", a_pod("p", claim="c")), second) == [
        "test.yaml, document 2: Pod default/p: differs from the copy in test.yaml, document 1"
    ]


def test_one_name_in_two_namespaces_is_two_objects() -> None:
    inventory = inventory_of(a_claim("c", namespace="a"), a_claim("c", namespace="b"))
    assert sorted(inventory.claims) == [("a", "c"), ("b", "c")]


def test_no_namespace_is_the_default_namespace() -> None:
    pod = a_pod("p", claim="c", namespace="")
    inventory = inventory_of(a_claim("c", namespace=""), a_template("t", namespace=""), pod)
    assert [found.claim.namespace for found in inventory.claims.values()] == ["default"]
    assert (list(inventory.claims), list(inventory.templates)) == ([("default", "c")], [("default", "t")])
    assert inventory.pods[0].namespace == "default"


def test_a_claim_with_and_without_the_default_namespace_is_one_claim() -> None:
    assert errors_of(a_claim("c", namespace=""), a_claim("c", namespace="default")) == []


def test_an_unknown_field_is_a_warning_that_says_what_follows() -> None:
    inventory = taken(a_slice("s", devices=[{"name": "gpu-0", "flavour": "sweet"}]))
    field = "test.yaml, document 1: ResourceSlice s: spec.devices[0].flavour"
    assert [str(warning) for warning in inventory.warnings] == [
        f"{field}: unknown field; the object that contains it is not used"
    ]
    assert inventory.slices[0].devices[0].unknown_fields == ("flavour",)


def test_an_unknown_field_beside_what_is_asked_for_leaves_the_claim_in_use() -> None:
    claim = a_claim("c", metadata={"flavour": "sweet"}, status={"flavour": "sweet"})
    inventory = taken(claim)
    assert [str(warning).rpartition("c: ")[2] for warning in inventory.warnings] == [
        "metadata.flavour: unknown field; the field is ignored",
        "status.flavour: unknown field; the field is ignored",
    ]
    assert inventory.claims["default", "c"].claim.unknown_fields == ()


def test_an_unknown_field_of_a_taint_rule_leaves_the_rule_in_force() -> None:
    inventory = taken(a_taint_rule(flavour="sweet"))
    assert "the rest of the rule applies" in str(inventory.warnings[0])
    assert len(inventory.taint_rules) == 1


@pytest.mark.parametrize("raw", [a_node(""), a_pod("", claim="c"), a_workload("Job", "")], ids=["Node", "Pod", "Job"])
def test_an_object_without_a_name_is_an_error(raw: Json) -> None:
    (error,) = errors_of(raw)
    assert error == f"test.yaml, document 1: {raw['kind']}: metadata.name: is required"


@pytest.mark.parametrize("metadata", [5, {}, {"name": ""}, {"name": "a", "labels": 5}])
def test_a_namespace_of_a_wrong_shape_is_an_error(metadata: object) -> None:
    assert errors_of({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


@pytest.mark.parametrize(
    "raw",
    [
        a_pod("Infer_0", claim="c"),
        a_pod("träin", claim="c"),
        a_pod("a\n\x1b[31mb", claim="c"),
        a_pod("p", claim="c", namespace="ML"),
        a_node("-n"),
        a_workload("Job", "A"),
    ],
    ids=lambda raw: ascii(raw["metadata"]["name"]),
)
def test_a_name_that_no_api_server_takes_is_an_error(raw: Json) -> None:
    (error,) = errors_of(raw)
    assert "metadata.name" in error
    assert json.dumps(raw["metadata"]["name"]) in error or raw["metadata"]["namespace"] == "ML"


def test_a_name_of_ten_million_letters_is_reported_in_short() -> None:
    (error,) = errors_of(a_claim("x" * 10_000_000))
    assert len(error) < 1000


@pytest.mark.parametrize(
    "request_with_error",
    [a_request(count=-1), a_request(count="many"), a_request("other")],
    ids=["limit", "type", "name"],
)
def test_a_claim_with_an_error_keeps_the_devices_that_it_has(request_with_error: Json) -> None:
    claim = a_claim("c", request_with_error, status={"allocation": an_allocation("gpu-0")})
    inventory = taken(claim)
    assert inventory.errors
    assert inventory.claims == {}
    (holder,) = inventory.holders
    assert holder.allocation
    assert [device.device for device in holder.allocation.results] == ["gpu-0"]


def test_a_claim_with_an_error_that_has_no_devices_holds_none() -> None:
    assert taken(a_claim("c", a_request(count=-1))).holders == []
    assert taken(a_claim("c", a_request(count=-1), status={"allocation": "x"})).holders == []


@pytest.mark.parametrize("kind", ["Pod", "Job"])
def test_a_term_of_node_affinity_that_makes_no_sense_is_reported(kind: str) -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": operator, "values": ["a"]}]} for operator in ("In", "in")
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = {"nodeAffinity": required}
    job = a_workload("Job", "p", template=a_pod_template(affinity=affinity))
    inventory = taken(a_pod("p", claim="c", affinity=affinity) if kind == "Pod" else job)
    (warning,) = inventory.warnings
    assert warning.subject == f"{kind} default/p"
    assert warning.message == (
        "nodeSelectorTerms[1] of the required node affinity: "
        "zone: 'in' is not a valid operator of a node selector; no node matches it"
    )
    assert inventory.errors == []


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FIRST_TERM = "nodeSelectorTerms[0] of the required node affinity"
FIRST_CONSTRAINT = "spec.topologySpreadConstraints[0]"
ACTIONS = "must be DoNotSchedule or ScheduleAnyway"
ANY_EFFECT = "one of NoSchedule, PreferNoSchedule, NoExecute"


@pytest.mark.parametrize(
    ("spec", "reported"),
    [
        (
            {"tolerations": [{"key": "k", "operator": "Is"}]},
            'tolerations[0].operator: must be Exists or Equal (got "Is"); it tolerates nothing',
        ),
        (
            {"tolerations": [{"operator": "Exists"}, {"key": "k", "operator": "Exists", "effect": "NoSchedul"}]},
            f'tolerations[1].effect: must be absent or {ANY_EFFECT} (got "NoSchedul"); it tolerates nothing',
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Never"}]},
            f'{FIRST_CONSTRAINT}.whenUnsatisfiable: {ACTIONS} (got "Never"); the constraint has no effect',
        ),
        (
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "zone",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "nodeAffinityPolicy": "Honour",
                        "nodeTaintsPolicy": "Honor",
                    }
                ]
            },
            f'{FIRST_CONSTRAINT}.nodeAffinityPolicy: must be Honor or Ignore (got "Honour"); it counts as Ignore',
        ),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {}}}},
            "the required node affinity: must have at least one of nodeSelectorTerms; no node matches it",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.uid", "operator": "NotIn", "values": ["a"]}]}
                            ]
                        }
                    }
                }
            },
            f"{FIRST_TERM}: metadata.uid: nodes can be selected only by the field metadata.name",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["Pod", "Job"])
def test_a_part_of_a_pod_without_effect_is_reported(kind: str, spec: Json, reported: str) -> None:
    job = a_workload("Job", "p", template=a_pod_template(**spec))
    inventory = taken(a_pod("p", claim="c", **spec) if kind == "Pod" else job)
    assert [warning.message for warning in inventory.warnings] == [reported]
    assert inventory.errors == []


def test_a_taint_of_an_effect_that_is_none_is_reported() -> None:
    inventory = taken(a_node("n", taints=[{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoSchedul"}]))
    (warning,) = inventory.warnings
    assert warning.message == f'spec.taints[1].effect: must be {ANY_EFFECT} (got "NoSchedul"); it keeps no pod away'


def test_metadata_of_a_pod_template_has_to_be_an_object() -> None:
    (error,) = errors_of(a_workload("Deployment", "web", template={"metadata": "x", "spec": {}}))
    assert error.endswith('Deployment default/web: spec.template.metadata: must be an object (got "x")')


# Names that a server would make, versions that are another kind's, folders, overlays, status details


def test_an_object_with_generate_name_gets_a_name_that_is_the_same_each_run() -> None:
    def named() -> list[str]:
        raw = a_claim("")
        raw["metadata"] = {"generateName": "train-", "namespace": "default"}
        return [name for _, name in inventory_of(raw, raw, a_pod("", metadata={"generateName": "p-"})).claims]

    names = named()
    assert len(names) == len(set(names)) == 2
    assert all(name.startswith("train-") and len(name) == len("train-") + 5 for name in names)
    assert named() == names


@pytest.mark.parametrize(
    ("raw", "version", "expected"),
    [
        (a_claim(), "v1", "resource.k8s.io/v1"),
        (a_class(), "devices.k8s.io/v1", "resource.k8s.io/v1"),
        (a_pod(), "core/v1", "v1"),
        (a_workload("Deployment"), "v1", "apps/v1"),
        (a_workload("Job"), "apps/v1", "batch/v1"),
    ],
)
def test_a_version_of_another_group_is_an_error_that_reports_the_right_one(
    raw: Json, version: str, expected: str
) -> None:
    inventory = taken({**raw, "apiVersion": version})
    kind = raw["kind"]
    assert [one.message for one in inventory.errors] == [
        f'apiVersion: must be {expected} for a {kind} (got "{version}")'
    ]


def test_a_kind_of_another_project_may_have_the_name_of_one_of_kubernetes() -> None:
    inventory = inventory_of({**an_object("batch.volcano.sh/v1alpha1", "Job", "j"), "spec": {}})
    assert inventory.skipped == {"Job (batch.volcano.sh)": 1}


@pytest.mark.parametrize(
    ("raw", "is_broken"),
    [
        ({"apiVersion": "v1", "metadata": {"name": "a"}, "spec": {}}, True),
        ({"kind": "Pod", "spec": {}}, True),
        ({"apiVersion": 1, "kind": "Pod"}, True),
        ({"apiVersion": "v2", "name": "chart"}, False),
        ({"kind": "values"}, False),
        ({"metadata": {}, "spec": {}}, False),
        ({}, False),
    ],
)
def test_in_a_folder_what_was_meant_to_be_an_object_and_is_none_is_an_error(raw: Json, *, is_broken: bool) -> None:
    inventory = take_inventory([RawObject(Place("folder/a.yaml", 1), raw, is_named=False)])
    assert [str(one.place) for one in inventory.errors] == ["folder/a.yaml, document 1"] * is_broken
    assert inventory.skipped == ({} if is_broken else {NO_OBJECT: 1})


def raws(file: str, *objects: Json) -> list[RawObject]:
    return [RawObject(Place(file, number), raw) for number, raw in enumerate(objects, 1)]


def test_an_overlay_replaces_objects_of_the_same_name_and_adds_others() -> None:
    base = raws("base.yaml", a_node("a"), a_node("b"), {**a_node("c"), "spec": 1})
    overlay = raws("overlay.yaml", a_node("b", labels={"new": "1"}), a_node("c"), a_node("d"))
    inventory = take_inventory(base, overlay)
    assert inventory.errors == []
    assert {node.name: node.labels for node in inventory.nodes} == {"a": {}, "b": {"new": "1"}, "c": {}, "d": {}}


def test_an_overlay_of_one_namespace_leaves_the_others_alone() -> None:
    base = raws("base.yaml", a_claim("c"), a_claim("c", namespace="other"))
    inventory = take_inventory(base, raws("overlay.yaml", a_claim("c", a_request(count=2))))
    counts = {key: found.claim.requests[0].alternatives[0].count for key, found in inventory.claims.items()}
    assert counts == {("default", "c"): 2, ("other", "c"): 1}


def test_two_objects_of_one_name_in_an_overlay_are_an_error() -> None:
    overlay = raws("overlay.yaml", a_node("a"), a_node("a", labels={"new": "1"}))
    (error,) = take_inventory([], overlay).errors
    assert str(error) == ("overlay.yaml, document 2: Node a: differs from the copy in overlay.yaml, document 1")


def test_details_of_a_status_on_which_nothing_depends_are_warnings() -> None:
    device = {"driver": "gpu.example", "pool": "node-1", "device": "gpu-0", "conditions": [{"type": "Ready"}]}
    users = [{"resource": "pods", "name": "p"}]
    status = {"allocation": an_allocation("gpu-0"), "reservedFor": users, "devices": [device]}
    inventory = inventory_of(a_claim("c", status=status))
    assert ("default", "c") in inventory.claims
    assert [one.message for one in inventory.warnings] == [
        "status.reservedFor[0].uid: is required; no decision depends on it",
        "status.devices[0].conditions[0].status: must be True, False or Unknown; no decision depends on it",
        "status.devices[0].conditions[0].lastTransitionTime: is required; no decision depends on it",
        "status.devices[0].conditions[0].reason: is required; no decision depends on it",
    ]


def test_without_nodes_those_that_slices_name_are_taken() -> None:
    inventory = inventory_of(a_slice(node="b"), a_slice(node="a"), a_slice("x", allNodes=True))
    assert [(node.name, node.labels) for node in inventory.nodes] == [("a", {}), ("b", {})]


def test_a_slice_of_a_node_that_is_gone_makes_no_node() -> None:
    inventory = inventory_of(a_slice(node="b"), a_node("a"))
    assert [node.name for node in inventory.nodes] == ["a"]


@pytest.mark.parametrize("release", ["1.34", "1.35"])
def test_a_slice_with_devices_and_counters_is_read_as_a_release_that_has_such(release: str) -> None:
    counters = [{"name": "s", "counters": {"c": {"value": "1"}}}]
    found = raws("a.yaml", a_slice(sharedCounters=counters))
    inventory = take_inventory(found, features=Features.of(release))
    assert inventory.errors == []
    assert [len(slice_.devices) for slice_ in inventory.slices] == [2]
    (error,) = take_inventory(found, features=Features.of("1.36")).errors
    assert error.message == "spec: must not set both devices and sharedCounters: only Kubernetes 1.34 reads both"
