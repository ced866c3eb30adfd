from dataclasses import fields, replace
from typing import Any

import pytest

from allocator.model import Requirement, Taint, Term, Toleration
from scheduler.core_v1.node import decode_node
from scheduler.core_v1.object_fields import MOST_CHARACTERS, MOST_ENTRIES, SpecRead
from scheduler.core_v1.pod import Owner, Pod, PodClaim, Preference, _decoded, decode_pod
from scheduler.core_v1.pod_status import Condition
from scheduler.core_v1.resources import HostPort
from scheduler.core_v1.workload import MAX_PODS, Workload, decode_workload
from tests.unit.scheduler.manifests import Json, a_node, a_pod, a_pod_template, a_workload, owned_by

LABEL_RULE = "must consist of letters, digits, '-', '_' and '.', starting and ending with a letter or digit"


def pod_of(raw: Json) -> Pod:
    pod, errors = decode_pod(raw)
    assert errors == ()
    assert pod is not None
    return pod


def pod_errors(raw: Json) -> list[str]:
    pod, errors = decode_pod(raw)
    assert pod is None
    return [str(error) for error in errors]


def workload_of(raw: Json) -> Workload:
    workload, errors = decode_workload(raw["kind"], raw)
    assert errors == ()
    assert workload is not None
    return workload


def workload_errors(raw: Json) -> list[str]:
    workload, errors = decode_workload(raw["kind"], raw)
    assert workload is None
    return [str(error) for error in errors]


def affine_to(*terms: Json) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": required}


def test_a_node_is_its_name_labels_taints_cordon_and_features() -> None:
    taints = [{"key": "a", "value": "b", "effect": "NoSchedule"}, {"key": "c", "effect": "NoExecute"}]
    raw = {
        **a_node("n", labels={"zone": "a"}, unschedulable=True, taints=taints),
        "status": {"declaredFeatures": ["X"]},
    }
    node, errors = decode_node(raw)
    assert errors == ()
    assert node is not None
    assert (node.name, node.labels, node.unschedulable) == ("n", {"zone": "a"}, True)
    assert node.taints == (Taint("a", "b", "NoSchedule"), Taint("c", "", "NoExecute"))
    assert node.declared_features == {"X"}


def test_a_node_needs_nothing_but_its_name() -> None:
    node, errors = decode_node({"metadata": {"name": "n"}})
    assert errors == ()
    assert node is not None
    assert (node.labels, node.taints, node.unschedulable) == ({}, (), False)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ({}, "metadata: is required"),
        ({"metadata": 5}, "metadata: must be an object (got 5)"),
        ({"metadata": {"name": 5}}, "metadata.name: must be a string (got 5)"),
        ({"metadata": {"name": "n", "labels": {"a": 1}}}, "metadata.labels[a]: must be a string (got 1)"),
        ({"metadata": {"name": "n"}, "spec": []}, "spec: must be an object (got a list of 0 entries)"),
        (a_node(unschedulable="yes"), 'spec.unschedulable: must be true or false (got "yes")'),
        (a_node(taints={}), "spec.taints: must be a list (got an object of 0 fields)"),
        (a_node(taints=[{"effect": "NoSchedule"}]), "spec.taints[0].key: is required"),
        (a_node(taints=[5]), "spec.taints[0]: must be an object (got 5)"),
        (a_node(taints=[{"key": "-", "effect": "NoSchedule"}]), f'spec.taints[0].key: {LABEL_RULE} (got "-")'),
    ],
)
def test_a_broken_node_is_an_error_with_field_and_value(raw: Json, error: str) -> None:
    node, errors = decode_node(raw)
    assert node is None
    assert [str(found) for found in errors] == [error]


def test_a_pod_is_what_placement_needs_of_it() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    raw = a_pod(
        "p",
        entries=[{"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimTemplateName": "t"}],
        namespace="ml",
        metadata={"uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z", **owned_by("Job", "j", "u2")},
        status={
            "phase": "Pending",
            "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x"}, {"name": "z"}],
        },
        nodeName="n",
        nodeSelector={"disk": "ssd"},
        affinity=affine_to({"matchExpressions": [expression]}),
        tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        priority=7,
        schedulingGates=[{"name": "wait"}],
    )
    assert pod_of(raw) == Pod(
        namespace="ml",
        name="p",
        uid="u1",
        created="2026-01-01T00:00:00Z",
        priority=7,
        node_name="n",
        node_selector={"disk": "ssd"},
        affinity=(Term((Requirement("zone", "In", ("a", "b")),)),),
        tolerations=(Toleration("k", "Exists", "", "NoExecute"),),
        gates=("wait",),
        claims=(PodClaim("a", claim_name="c"), PodClaim("b", template_name="t")),
        claim_statuses={"b": "p-b-x", "z": None},
        phase="Pending",
        owner=Owner("Job", "j", "u2"),
    )


def test_affinity_without_terms_is_not_the_same_as_none() -> None:
    assert pod_of(a_pod()).affinity is None
    assert pod_of(a_pod(affinity={"podAffinity": {}})).affinity is None
    assert pod_of(a_pod(affinity=affine_to())).affinity == ()


@pytest.mark.parametrize(
    ("phase", "is_finished"), [("Succeeded", True), ("Failed", True), ("Running", False), ("", False)]
)
def test_a_pod_is_finished_by_its_phase(phase: str, *, is_finished: bool) -> None:
    assert pod_of(a_pod(status={"phase": phase})).is_finished is is_finished


def test_only_the_controller_among_the_owners_counts() -> None:
    owners = [{"kind": "A", "name": "a", "uid": "1"}, {"kind": "B", "name": "b", "uid": "2", "controller": False}]
    assert pod_of(a_pod(metadata={"ownerReferences": owners})).owner is None


def test_fields_that_placement_does_not_need_pass_unread() -> None:
    containers = [{"name": "main", "image": 5}]
    assert pod_of(a_pod("p", containers=containers, volumes=5)).name == "p"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"priority": "high"}, 'spec.priority: must be an integer (got "high")'),
        ({"priority": True}, "spec.priority: must be an integer (got true)"),
        ({"nodeSelector": ["a"]}, "spec.nodeSelector: must be an object (got a list of 1 entry)"),
        ({"tolerations": [{"key": []}]}, "spec.tolerations[0].key: must be a string (got a list of 0 entries)"),
        ({"schedulingGates": [{}]}, "spec.schedulingGates[0].name: is required"),
        ({"entries": [{"resourceClaimName": "c"}]}, "spec.resourceClaims[0].name: is required"),
        ({"entries": [None]}, "spec.resourceClaims[0]: must be an object"),
        ({"affinity": affine_to({"matchExpressions": [{"key": "a"}]})}, "spec.affinity.nodeAffinity."),
        ({"status": {"resourceClaimStatuses": 5}}, "status.resourceClaimStatuses: must be a list (got 5)"),
    ],
)
def test_a_broken_pod_is_an_error_with_field_and_value(changes: dict[str, Any], error: str) -> None:
    (found,) = pod_errors(a_pod("p", **changes))
    assert found.startswith(error)


def test_all_errors_of_a_pod_are_reported_together() -> None:
    assert len(pod_errors(a_pod("p", priority="high", nodeName=5, metadata={"uid": 1}))) == 3


@pytest.mark.parametrize(
    "entry", [{"name": "dev"}, {"name": "dev", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}]
)
def test_an_entry_names_either_a_claim_or_a_template(entry: Json) -> None:
    assert pod_errors(a_pod("p", entries=[entry])) == [
        'spec.resourceClaims[0]: needs exactly one of resourceClaimName and resourceClaimTemplateName (got "dev")'
    ]


def test_two_entries_of_one_name_are_an_error() -> None:
    entries = [{"name": "dev", "resourceClaimName": name} for name in ("a", "b")]
    assert pod_errors(a_pod("p", entries=entries)) == ['spec.resourceClaims[1].name: must be unique (got "dev")']


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_replicas_are_one_unless_said(kind: str) -> None:
    assert workload_of(a_workload(kind)).pods == 1
    assert workload_of(a_workload(kind, replicas=0)).pods == 0
    assert workload_of(a_workload(kind, replicas=3)).pods == 3


def test_a_daemon_set_has_no_number_of_pods() -> None:
    assert workload_of(a_workload("DaemonSet")).pods is None


@pytest.mark.parametrize(
    ("spec", "status", "pods"),
    [
        ({}, {}, 1),
        ({"parallelism": 3}, {}, 3),
        ({"parallelism": 0}, {}, 0),
        ({"parallelism": 3, "completions": 5}, {}, 3),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 3}, 2),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 9}, 0),
        ({"parallelism": 3, "completions": 2}, {}, 2),
        ({"completions": 5}, {}, 1),
        ({"parallelism": 3}, {"succeeded": 1}, 0),
        ({"parallelism": 3, "suspend": True}, {}, 0),
    ],
)
def test_a_job_asks_for_what_may_run_and_is_still_to_complete(spec: Json, status: Json, pods: int) -> None:
    assert workload_of({**a_workload("Job", **spec), "status": status}).pods == pods


def test_a_cron_job_asks_for_one_run_of_its_job() -> None:
    assert workload_of(a_workload("CronJob", parallelism=3)).pods == 3


def test_a_suspended_cron_job_asks_for_none_and_says_so() -> None:
    raw = a_workload("CronJob")
    raw["spec"]["suspend"] = True
    workload = workload_of(raw)
    assert (workload.pods, workload.note) == (0, "is suspended")


@pytest.mark.parametrize(
    ("spec", "status", "note"),
    [({"suspend": True}, {}, "is suspended"), ({}, {"succeeded": 1}, "has succeeded"), ({}, {}, "")],
)
def test_a_job_that_asks_for_none_says_why(spec: Json, status: Json, note: str) -> None:
    assert workload_of({**a_workload("Job", **spec), "status": status}).note == note


@pytest.mark.parametrize(
    ("condition", "note"),
    [
        ("Complete", "has succeeded"),
        ("SuccessCriteriaMet", "has succeeded"),
        ("Failed", "has failed"),
        ("FailureTarget", "has failed"),
    ],
)
def test_a_job_that_is_over_asks_for_none(condition: str, note: str) -> None:
    def job(value: str) -> Workload:
        status = {"failed": 7, "conditions": [{"type": condition, "status": value}]}
        return workload_of({**a_workload("Job", completions=2, parallelism=2), "status": status})

    assert (job("True").pods, job("True").note) == (0, note)
    assert (job("False").pods, job("False").note) == (2, "")


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "Job"])
def test_a_workload_that_is_being_deleted_asks_for_none_and_says_so(kind: str) -> None:
    workload = workload_of(a_workload(kind, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert (workload.pods, workload.note) == (0, "is being deleted")


def test_the_template_makes_a_pod_of_the_namespace_of_the_workload() -> None:
    template = workload_of(a_workload("Job", "j", template=a_pod_template(priority=3))).template
    assert (template.namespace, template.name, template.priority) == ("default", "j", 3)
    assert template.claims == (PodClaim("dev", template_name="one"),)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (a_workload("Deployment", template=None), "spec.template: is required"),
        (a_workload("Deployment", template=5), "spec.template: must be an object (got 5)"),
        (a_workload("Deployment", replicas="3"), 'spec.replicas: must be an integer (got "3")'),
        (a_workload("CronJob", template=None), "spec.jobTemplate.spec.template: must be an object"),
        (a_workload("Job", template=a_pod_template(priority=[])), "spec.template.spec.priority: must be an integer"),
        (
            a_workload("CronJob", template=a_pod_template(tolerations=5)),
            "spec.jobTemplate.spec.template.spec.tolerations: must be a list (got 5)",
        ),
    ],
)
def test_a_broken_workload_is_an_error_with_field_and_value(raw: Json, error: str) -> None:
    assert workload_errors(raw)[0].startswith(error)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (a_workload("Deployment", replicas=-3), "spec.replicas: must not be negative (got -3)"),
        (a_workload("StatefulSet", ordinals={"start": -1}), "spec.ordinals.start: must not be negative (got -1)"),
        (a_workload("Job", parallelism=-1), "spec.parallelism: must not be negative (got -1)"),
        (a_workload("Job", completions=-1), "spec.completions: must not be negative (got -1)"),
        (a_workload("CronJob", parallelism=-1), "spec.jobTemplate.spec.parallelism: must not be negative (got -1)"),
    ],
)
def test_a_number_of_pods_that_cannot_be_is_an_error(raw: Json, error: str) -> None:
    assert workload_errors(raw) == [error]


def test_the_largest_number_of_pods_is_taken() -> None:
    assert workload_of(a_workload("Deployment", replicas=MAX_PODS)).pods == MAX_PODS
    assert workload_of(a_workload("Job", completions=MAX_PODS + 1)).pods == 1
    assert workload_of(a_workload("Job", completions=5, parallelism=MAX_PODS + 1)).pods == 5


def test_workload_that_asks_for_more_stands_for_no_pods() -> None:
    workload = workload_of(a_workload("Deployment", replicas=2**31 - 1))
    assert (workload.pods, workload.unplaced) == (0, 2**31 - 1)


def test_a_label_and_an_entry_of_a_selector_are_reported_alike() -> None:
    labels, selector = {"labels": {"a": 1}}, {"a.example/b": 1}
    assert pod_errors(a_pod("p", metadata=labels, nodeSelector=selector)) == [
        "metadata.labels[a]: must be a string (got 1)",
        "spec.nodeSelector[a.example/b]: must be a string (got 1)",
    ]


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (a_pod("Infer_0"), "metadata.name"),
        (a_pod("p", namespace="ML"), "metadata.namespace"),
        (a_pod("p", entries=[{"name": "Dev", "resourceClaimName": "c"}]), "spec.resourceClaims[0].name"),
        (a_pod("p", claim="C"), "spec.resourceClaims[0].resourceClaimName"),
        (a_pod("p", template="T"), "spec.resourceClaims[0].resourceClaimTemplateName"),
        (a_pod("p", schedulingGates=[{"name": "a b"}]), "spec.schedulingGates[0].name"),
        (a_pod("p", nodeName="N"), "spec.nodeName"),
        (a_pod("p", priorityClassName="High"), "spec.priorityClassName"),
        (
            a_pod("p", status={"resourceClaimStatuses": [{"name": "dev", "resourceClaimName": "C"}]}),
            "status.resourceClaimStatuses[0].resourceClaimName",
        ),
    ],
)
def test_a_name_that_the_api_server_would_refuse_is_an_error(pod: Json, field: str) -> None:
    (error,) = pod_errors(pod)
    assert error.startswith(f"{field}: ")


def test_pods_know_their_group() -> None:
    assert pod_of(a_pod("p", schedulingGroup={"podGroupName": "workers"})).group == "workers"
    pod, _ = decode_pod(a_pod("p", schedulingGroup={}), validate=False)
    assert (pod and pod.group) == ""


def with_ports(*ports: Json, **more: Any) -> Json:
    return {"name": "a", "ports": list(ports), **more}


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        ({"containers": [with_ports({"containerPort": 80, "hostPort": 8080})]}, (HostPort(8080),)),
        (
            {"containers": [with_ports({"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"})]},
            (HostPort(53, "UDP", "10.0.0.1"),),
        ),
        ({"containers": [with_ports({"containerPort": 80})]}, ()),
        ({"containers": [with_ports({"containerPort": 80})], "hostNetwork": True}, (HostPort(80),)),
        ({"initContainers": [with_ports({"hostPort": 80}, restartPolicy="Always")]}, (HostPort(80),)),
        ({"initContainers": [with_ports({"hostPort": 80})]}, ()),
        ({"containers": [with_ports({"hostPort": "80"}), with_ports({"hostPort": -1})]}, ()),
    ],
)
def test_host_ports_are_those_of_containers_that_last(spec: Json, ports: tuple[HostPort, ...]) -> None:
    assert pod_of(a_pod("p", **spec)).host_ports == ports


def test_preferred_affinity_is_its_terms_with_their_weights() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    preferred = [{"weight": 7, "preference": {"matchExpressions": [expression]}}]
    pod = pod_of(a_pod("p", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}))
    assert pod.preferences == (Preference(7, Term((Requirement("zone", "In", ("a",)),))),)
    assert pod.affinity is None


def test_a_pod_of_a_cluster_carries_what_a_scheduler_writes_and_compares() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "observedGeneration": 2}
    status = {"nominatedNodeName": "n1", "conditions": [{**condition, "message": "no room"}]}
    raw = a_pod(
        "p",
        metadata={"resourceVersion": "42", "generation": 3},
        status=status,
        schedulerName="dra",
    )
    pod = pod_of(raw)
    assert (pod.resource_version, pod.generation) == ("42", 3)
    assert (pod.scheduler_name, pod.nominated_node) == ("dra", "n1")
    assert pod.conditions == (Condition("PodScheduled", "False", "Unschedulable", "no room", 2),)


def test_the_raw_object_is_kept_only_where_it_is_wanted() -> None:
    raw = a_pod("p")
    assert pod_of(raw).raw is raw
    pod, _ = decode_pod(raw, keeps_raw=False)
    assert pod is not None
    assert pod.raw == {}


def test_a_long_spec_is_decoded_once_for_as_long_as_its_pod_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[SpecRead] = []

    def decode(spec: SpecRead, namespace: str, validate: bool) -> Pod | None:  # noqa: FBT001 - as it is called
        decoded.append(spec)
        return _decoded(spec, namespace, validate)

    monkeypatch.setattr("scheduler.core_v1.pod._decoded", decode)
    terms = [{"matchExpressions": [{"key": f"k{number}", "operator": "Exists"}]} for number in range(500)]
    raw = a_pod(affinity=affine_to(*terms))
    first = pod_of(raw)
    raw["metadata"]["labels"] = {"changed": "yes"}
    second = pod_of(raw)
    assert (first.labels, second.labels) == ({}, {"changed": "yes"})
    assert second.affinity is first.affinity
    assert len(decoded) == 1
    del first, second
    pod_of(raw)
    assert len(decoded) == 2, "nothing is kept of what is gone"


def test_long_specs_that_differ_in_one_character_are_different() -> None:
    specs = [affine_to(*[{"matchExpressions": [{"key": "k" * 5000 + end, "operator": "Exists"}]}]) for end in "ab"]
    first, second = (decode_pod(a_pod(affinity=spec), validate=False)[0] for spec in specs)
    assert first is not None
    assert second is not None
    assert first.affinity != second.affinity


def naming(number: int) -> Json:
    """Terms of about so many characters."""
    return affine_to(
        *({"matchExpressions": [{"key": f"{'k' * 60}", "operator": "Exists"}]} for _ in range(number // 120))
    )


def test_a_pod_that_says_more_than_is_looked_at_names_the_field_and_is_read_without_it() -> None:
    requests = [requesting("a", requests={"cpu": "2"})]
    pod = pod_of(a_pod("p", affinity=naming(1_200_000), containers=requests, nodeSelector={"zone": "a"}))
    assert pod.excess == (
        "its spec has 1,190,164 characters that decide where it runs, 1,190,093 of these in spec.affinity; "
        "at most 65,536 are looked at"
    )
    assert (pod.affinity, pod.node_selector) == (None, {"zone": "a"})
    assert [one.requests["cpu"].text for one in pod.containers] == ["2"]


def test_a_pod_that_says_as_much_as_is_looked_at_is_read_as_it_is() -> None:
    raw = a_pod("p", schedulerName="x", affinity=naming(60_000))
    spare = MOST_CHARACTERS - sum(len(repr(value)) for value in raw["spec"].values())
    raw["spec"]["schedulerName"] = "x" * (spare + 1)
    assert pod_of(raw).excess == ""
    raw["spec"]["schedulerName"] += "x"
    assert "characters" in pod_of(raw).excess


@pytest.mark.parametrize("name", ["resourceClaims", "volumes"])
def test_a_pod_with_more_entries_than_are_looked_at_names_the_list_and_is_read_without_it(name: str) -> None:
    def pod_with(number: int, *, is_watched: bool = False, **spec: Any) -> Pod:
        raw = a_pod("p", **spec)
        raw["spec"][name] = [
            {"name": f"c{one}", "resourceClaimName": "c"}
            if name == "resourceClaims"
            else {"name": f"v{one}", "persistentVolumeClaim": {"claimName": "v"}}
            for one in range(number)
        ]
        pod, _ = decode_pod(raw, keeps_raw=not is_watched)
        assert pod is not None
        return pod

    most = pod_with(MOST_ENTRIES)
    assert (most.excess, len(most.claims) + len(most.volumes.claims)) == ("", MOST_ENTRIES)
    more = pod_with(MOST_ENTRIES + 1)
    assert more.excess == f"spec.{name} has 129 entries; at most 128 are looked at"
    watched = pod_with(MOST_ENTRIES + 1, is_watched=True)
    assert (watched.excess, more.volumes.claims, watched.volumes.claims) == (more.excess, (), ())
    if name == "resourceClaims":
        assert len(watched.claims) == MOST_ENTRIES, "that it has claims is known"
        assert len(more.claims) == MOST_ENTRIES + 1, "none of a file is a claim of nobody"
    bound = pod_with(MOST_ENTRIES + 1, nodeName="node-0")
    assert bound.excess == more.excess
    assert len(bound.claims) + len(bound.volumes.claims) == MOST_ENTRIES + 1, "it has them"


def test_claims_that_are_no_list_are_an_error_however_long_they_are() -> None:
    raw = a_pod("p", resourceClaims={f"claim-{number}": "x" * 20 for number in range(5000)})
    pod, errors = decode_pod(raw)
    assert (pod, [error.path for error in errors]) == (None, ["spec.resourceClaims"])


def test_containers_may_use_claims_of_a_list_that_is_not_read() -> None:
    entries = [{"name": f"c{one}", "resourceClaimName": "c"} for one in range(MOST_ENTRIES + 1)]
    container = {"name": "a", "resources": {"claims": [{"name": "c7"}]}}
    assert pod_of(a_pod("p", resourceClaims=entries, containers=[container])).excess


def test_of_a_file_all_is_judged_however_much_a_pod_says() -> None:
    raw = a_pod("p", affinity=naming(100_000), nodeSelector={"!!": "x"})
    (error,) = pod_errors(raw)
    assert error.startswith("spec.nodeSelector[!!]: ")
    watched, _ = decode_pod(raw, keeps_raw=False)
    assert watched is not None
    assert watched.excess


def test_what_a_pod_takes_of_its_node_counts_however_much_it_says() -> None:
    requests = [requesting("a", requests={"cpu": "2"}), *({"name": f"{'c' * 40}-{one}"} for one in range(2_000))]
    pod = pod_of(a_pod("p", affinity=naming(100_000), containers=requests, nodeName="node-0"))
    assert (pod.affinity, len(pod.containers)) == (None, 2_001)
    assert pod.excess


def resized(conditions: list[Json] | None = None, **status: Any) -> Json:
    found = {"name": "a", "resources": {"requests": {"cpu": "1", "memory": "3Gi"}}, **status}
    container = requesting("a", requests={"cpu": "2", "memory": "1Gi"})
    return a_pod("p", containers=[container], status={"containerStatuses": [found], "conditions": conditions or []})


def test_a_container_that_is_resized_holds_the_most_of_what_it_should_have_has_and_was_promised() -> None:
    (container,) = pod_of(resized(allocatedResources={"cpu": "1500m", "memory": "4Gi"})).containers
    assert {name: amount.text for name, amount in container.requests.items()} == {"cpu": "2", "memory": "4Gi"}


def test_what_a_container_should_have_does_not_count_while_that_is_not_feasible() -> None:
    (container,) = pod_of(resized([{"type": "PodResizePending", "reason": "Infeasible"}])).containers
    assert {name: amount.text for name, amount in container.requests.items()} == {"cpu": "1", "memory": "3Gi"}
    (deferred,) = pod_of(resized([{"type": "PodResizePending", "reason": "Deferred"}])).containers
    assert deferred.requests["cpu"].text == "2"


def test_a_container_whose_status_says_nothing_of_resources_holds_what_it_requests() -> None:
    raw = a_pod("p", containers=[requesting("a", requests={"cpu": "2"})], status={"containerStatuses": [{"name": "a"}]})
    (container,) = pod_of(raw).containers
    assert container.requests["cpu"].text == "2"


def test_a_pod_that_is_resized_as_a_whole_holds_the_most_of_it() -> None:
    status = {"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "5"}}
    pod = pod_of(a_pod("p", resources={"requests": {"cpu": "4", "memory": "1Gi"}}, status=status))
    assert {name: amount.text for name, amount in pod.budget.items()} == {"cpu": "6", "memory": "1Gi"}


def requesting(name: str, **resources: Any) -> Json:
    return {"name": name, "resources": resources}


def test_init_containers_stand_before_the_others_and_one_that_restarts_always_lasts() -> None:
    init = [requesting("setup"), {**requesting("sidecar"), "restartPolicy": "Always"}]
    pod = pod_of(a_pod("p", initContainers=init, containers=[requesting("main")]))
    assert [(one.name, one.is_plain_init) for one in pod.containers] == [
        ("setup", True),
        ("sidecar", False),
        ("main", False),
    ]


def test_a_container_requests_its_limit_where_it_does_not_say_what_it_requests() -> None:
    limits, requests = {"cpu": 2, "a.example/gpu": "1"}, {"cpu": "500m", "memory": "1Gi"}
    (container,) = pod_of(a_pod("p", containers=[requesting("a", limits=limits, requests=requests)])).containers
    assert {name: amount.text for name, amount in container.requests.items()} == {
        "cpu": "500m",
        "a.example/gpu": "1",
        "memory": "1Gi",
    }


def test_a_container_names_the_entries_that_it_uses_once() -> None:
    claims = [{"name": "dev", "request": "a"}, {"name": "net", "request": "nic"}, {"name": "dev", "request": "b"}]
    entries = [{"name": name, "resourceClaimName": name} for name in ("dev", "net")]
    (container,) = pod_of(a_pod("p", entries=entries, containers=[requesting("a", claims=claims)])).containers
    assert container.claims == ("dev", "net")


def test_what_the_pod_and_its_runtime_need_as_a_whole_is_read() -> None:
    pod = pod_of(a_pod("p", resources={"requests": {"cpu": 4}}, overhead={"memory": "64Mi"}))
    assert (str(pod.budget["cpu"]), str(pod.overhead["memory"])) == ("4", "64Mi")


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"containers": [5]}, "spec.containers[0]: must be an object (got 5)"),
        (
            {"containers": [requesting("a", requests={"cpu": []})]},
            "spec.containers[0].resources.requests[cpu]: must be a quantity such as 80Gi, 500m or 4",
        ),
        (
            {"initContainers": [requesting("a", limits={"cpu": True})]},
            "spec.initContainers[0].resources.limits[cpu]: must be a quantity such as 80Gi, 500m or 4 (got true)",
        ),
        (
            {"containers": [requesting("a", limits={"cpu": "-1"})]},
            'spec.containers[0].resources.limits[cpu]: must not be negative (got "-1")',
        ),
        (
            {"containers": [requesting("a", limits={"a.example/gpu": "1500m"})]},
            "spec.containers[0].resources.limits[a.example/gpu]: must be a whole number: devices are not divided",
        ),
        ({"containers": [requesting("a", claims=[{}])]}, "spec.containers[0].resources.claims[0].name: is required"),
        ({"resources": {"requests": {"cpu": "-1"}}}, "spec.resources.requests[cpu]: must not be negative"),
        ({"overhead": {"cpu": "many"}}, "spec.overhead[cpu]: must be a quantity"),
        ({"overhead": {"cpu": "1e999999"}}, "spec.overhead[cpu]: must be a quantity"),
        (
            {"containers": [requesting("a", requests={"a.example/gpu": "1"})]},
            "spec.containers[0].resources.limits[a.example/gpu]: is required beside requests[a.example/gpu]",
        ),
        (
            {"containers": [requesting("a", requests={"a.example/gpu": "1"}, limits={"a.example/gpu": "2"})]},
            'spec.containers[0].resources.requests[a.example/gpu]: must be the same as the limit, 2 (got "1")',
        ),
        (
            {"initContainers": [requesting("a", requests={"cpu": "2"}, limits={"cpu": "1500m"})]},
            'spec.initContainers[0].resources.requests[cpu]: must be at most the limit, 1500m (got "2")',
        ),
        (
            {"containers": [requesting("a", claims=[{"name": "gpu"}])]},
            "spec.containers[0].resources.claims[0].name: must be the name of an entry of spec.resourceClaims",
        ),
    ],
)
def test_a_broken_amount_is_an_error_with_field_and_value(spec: Json, error: str) -> None:
    (found,) = pod_errors(a_pod("p", **spec))
    assert found.startswith(error)


def test_a_resource_of_a_class_may_be_requested_below_its_limit_or_without() -> None:
    resource = "deviceclass.resource.kubernetes.io/gpu"
    for limits in ({}, {resource: "2"}):
        (container,) = pod_of(
            a_pod("p", containers=[requesting("a", requests={resource: "1"}, limits=limits)])
        ).containers
        assert container.requests[resource].text == "1"


@pytest.mark.parametrize(
    ("toleration", "error"),
    [
        ({}, "operator: must be Exists where there is no key"),
        ({"operator": "Equal"}, 'operator: must be Exists where there is no key (got "Equal")'),
        ({"key": "k", "operator": "Exists", "value": "v"}, 'value: must be empty for the operator Exists (got "v")'),
        ({"key": "a b", "operator": "Exists"}, "key: "),
        ({"key": "k", "value": "a b"}, "value: "),
        (
            {"key": "k", "effect": "NoSchedule", "tolerationSeconds": 3},
            'effect: must be NoExecute where there are tolerationSeconds (got "NoSchedule")',
        ),
        ({"key": "k", "effect": "NoExecute", "tolerationSeconds": "3"}, "tolerationSeconds: must be an integer"),
    ],
)
def test_a_broken_toleration_is_an_error_with_field_and_value(toleration: Json, error: str) -> None:
    (found,) = pod_errors(a_pod("p", tolerations=[{"operator": "Exists"}, toleration]))
    assert found.startswith(f"spec.tolerations[1].{error}")


def test_a_node_selector_is_of_labels() -> None:
    (key, value) = pod_errors(a_pod("p", nodeSelector={"a b": "c", "d": "e f"}))
    assert key.startswith("spec.nodeSelector[a b]: ")
    assert value.startswith("spec.nodeSelector[d]: ")


def test_a_key_of_node_affinity_is_that_of_a_label() -> None:
    exists = {"key": "a", "operator": "Exists"}
    affinity = affine_to({"matchExpressions": [exists]}, {"matchExpressions": [exists, {**exists, "key": "-a"}]})
    (error,) = pod_errors(a_pod("p", affinity=affinity))
    required = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    assert error.startswith(f"{required}.nodeSelectorTerms[1].matchExpressions[1].key: ")


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ("x", ": must be a list"),
        (["x"], "[0]: must be an object"),
        ([{"topologyKey": 1}], "[0].topologyKey: must be a string (got 1)"),
        ([{"namespaces": 5}], "[0].namespaces: must be a list (got 5)"),
        ([{"namespaces": [["a"]]}], "[0].namespaces[0]: must be a string"),
        ([{"labelSelector": "x"}], "[0].labelSelector: must be an object"),
        ([{"labelSelector": {"matchLabels": "x"}}], "[0].labelSelector.matchLabels: must be an object"),
        ([{"labelSelector": {"matchLabels": {"a.b": 1}}}], "[0].labelSelector.matchLabels[a.b]: must be a string"),
        ([{"labelSelector": {"matchExpressions": [{}]}}], "[0].labelSelector.matchExpressions[0].key: is required"),
        (
            [{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": 5}]}}],
            "[0].namespaceSelector.matchExpressions[0].values: must be a list (got 5)",
        ),
    ],
)
def test_broken_anti_affinity_is_an_error_with_field_and_value(broken: object, error: str) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    found = pod_errors(a_pod("p", affinity={"podAntiAffinity": {required: broken}}))
    assert found[0].startswith(f"spec.affinity.podAntiAffinity.{required}{error}")


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"maxSkew": 0}, "maxSkew: must be at least 1 (got 0)"),
        ({"maxSkew": 2**31}, f"maxSkew: must be at most {2**31 - 1} (got {2**31})"),
        ({"minDomains": 0}, "minDomains: must be at least 1 (got 0)"),
        ({"minDomains": -(2**31) - 1}, f"minDomains: must be at least {-(2**31)} (got {-(2**31) - 1})"),
        ({"topologyKey": ""}, "topologyKey: is required"),
    ],
)
def test_a_broken_spread_constraint_is_an_error_with_field_and_value(changed: dict[str, object], error: str) -> None:
    (found,) = pod_errors(a_pod("p", topologySpreadConstraints=[SPREAD, {**SPREAD, **changed}]))
    assert found.startswith(f"spec.topologySpreadConstraints[1].{error}")


def test_a_spread_constraint_may_have_a_key_that_no_label_can_have() -> None:
    keys = ["a b", "-a", "a/b/c", "x" * 400, "\x1b[2J\n\u202e"]
    pod, _ = decode_pod(a_pod("p", topologySpreadConstraints=[{**SPREAD, "topologyKey": key} for key in keys]))
    assert pod is not None
    assert [constraint.topology_key for constraint in pod.spread] == keys


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_terms_of_affinity_need_a_key_and_a_weight(kind: str) -> None:
    required, preferred = (f"{one}DuringSchedulingIgnoredDuringExecution" for one in ("required", "preferred"))
    weighted = [{"weight": weight, "podAffinityTerm": {"topologyKey": "zone"}} for weight in (1, 100, 0, 101)]
    affinity = {kind: {required: [{}], preferred: [*weighted, {"weight": 1, "podAffinityTerm": {}}]}}
    assert pod_errors(a_pod("p", affinity=affinity)) == [
        f"spec.affinity.{kind}.{required}[0].topologyKey: is required",
        f"spec.affinity.{kind}.{preferred}[2].weight: must be between 1 and 100 (got 0)",
        f"spec.affinity.{kind}.{preferred}[3].weight: must be between 1 and 100 (got 101)",
        f"spec.affinity.{kind}.{preferred}[4].podAffinityTerm.topologyKey: is required",
    ]


def test_weights_of_preferred_nodes_are_checked() -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {preferred: [{"weight": 0, "preference": {}}]}}
    (error,) = pod_errors(a_pod("p", affinity=affinity))
    assert error == f"spec.affinity.nodeAffinity.{preferred}[0].weight: must be between 1 and 100 (got 0)"


def test_a_node_has_what_its_status_says_is_allocatable() -> None:
    node, errors = decode_node({**a_node(), "status": {"allocatable": {"cpu": "3920m", "a.example/gpu": 0}}})
    assert errors == ()
    assert node is not None
    assert {name: amount.text for name, amount in node.allocatable.items()} == {"cpu": "3920m", "a.example/gpu": "0"}


@pytest.mark.parametrize(
    ("amount", "error"), [("-1", "must not be negative"), ("four", "must be a quantity"), (None, "must be a quantity")]
)
def test_a_broken_allocatable_amount_is_an_error(amount: object, error: str) -> None:
    node, errors = decode_node({**a_node(), "status": {"allocatable": {"cpu": amount}}})
    assert node is None
    assert [str(found).partition(" (")[0] for found in errors] == [
        f"status.allocatable[cpu]: {error}{' such as 80Gi, 500m or 4' if 'quantity' in error else ''}"
    ]


def test_a_name_that_only_a_server_would_make_is_reported_as_missing() -> None:
    (error,) = pod_errors({**a_pod("p"), "metadata": {"generateName": "p-"}})
    assert error == (
        "metadata.name: is required: generateName becomes a name only when an API server creates the object"
    )


def test_an_entry_as_before_kubernetes_1_31_is_reported_with_what_has_changed() -> None:
    (error,) = pod_errors(a_pod("p", entries=[{"name": "gpu", "source": {"resourceClaimTemplateName": "one"}}]))
    assert error == (
        "spec.resourceClaims[0].source: was removed in Kubernetes 1.31: set its field next to name "
        "(got an object of 1 field)"
    )


def a_pod_of_a_template(name: str) -> Pod:
    resources = {"requests": {"cpu": "1"}, "claims": [{"name": "dev"}]}
    container = {"name": "main", "image": f"image-of-{name}", "resources": resources}
    volume = {"name": f"token-of-{name}", "projected": {}}
    metadata = {"labels": {"pod": name}}
    return pod_of(a_pod(name, claim=name, metadata=metadata, nodeName=name, containers=[container], volumes=[volume]))


def test_pods_of_one_template_share_what_is_read_of_their_spec_and_nothing_else() -> None:
    first, second = a_pod_of_a_template("a"), a_pod_of_a_template("b")
    assert first.containers is second.containers
    assert first.containers[0].claims == ("dev",)
    for pod, name in ((first, "a"), (second, "b")):
        assert (pod.name, pod.node_name, pod.labels) == (name, name, {"pod": name})
        assert pod.claims == (PodClaim("dev", name),)


def test_a_pod_with_other_values_is_what_replace_makes_of_it() -> None:
    pod = pod_of(a_pod("one", template="t", metadata={"uid": "u", "labels": {"a": "b"}}))
    changes: dict[str, Any] = {"node_name": "n1", "claim_statuses": {"dev": "claim"}, "labels": {}}
    assert vars_of(pod.changed(**changes)) == vars_of(replace(pod, **changes))
    with pytest.raises(KeyError):
        pod.changed(nodename="n1")


def vars_of(pod: Pod) -> dict[str, object]:
    """All fields, those that do not count for equality among them."""
    return {one.name: getattr(pod, one.name) for one in fields(pod)}
