import pytest

from allocator.model import Requirement, Term
from scheduler.plugins.profile import refusal
from tests.unit.scheduler.manifests import Json, a_node, a_pod, a_pod_template, a_workload, owned_by
from tests.unit.scheduler.scenario import inventory_of, virtual_pods

BEING_DELETED = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


def names_of(*objects: Json) -> list[str]:
    return [pod.name for pod in virtual_pods(*objects)]


def owned(kind: str, name: str, *, replicas: int = 1, by: tuple[str, str] = ("Deployment", "web")) -> Json:
    """A workload of that kind that another one controls."""
    return a_workload(kind, name, metadata=owned_by(*by), replicas=replicas)


def test_a_workload_stands_for_as_many_pods_as_it_asks_for() -> None:
    assert names_of(a_workload("Deployment", "web", replicas=3)) == ["web-0", "web-1", "web-2"]
    assert names_of(a_workload("Job", "train", parallelism=2, completions=5)) == ["train-0", "train-1"]
    assert names_of(a_workload("CronJob", "nightly", parallelism=2)) == ["nightly-0", "nightly-1"]
    assert names_of(a_workload("Deployment", "web", replicas=0)) == []


def test_a_virtual_pod_is_made_of_the_template() -> None:
    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": "w"}
    (pod,) = virtual_pods(a_workload("Job", "train", metadata=metadata, template=a_pod_template(priority=5)))
    assert (pod.namespace, pod.name, pod.priority, pod.created) == ("default", "train-0", 5, "2026-01-01T00:00:00Z")
    assert [entry.template_name for entry in pod.claims] == ["one"]
    assert pod.owner is not None
    assert (pod.owner.kind, pod.owner.name, pod.owner.uid) == ("Job", "train", "w")


def test_a_virtual_pod_is_an_object_with_the_labels_of_the_template() -> None:
    (pod,) = virtual_pods(a_workload("Job", "train"))
    metadata = pod.raw["metadata"]
    assert (pod.raw["apiVersion"], pod.raw["kind"]) == ("v1", "Pod")
    assert metadata == {"labels": {"app": "test"}, "name": "train-0", "namespace": "default", "uid": pod.uid}


def test_virtual_pods_are_the_same_on_every_run() -> None:
    objects = [a_workload("Deployment", "web", replicas=3)]
    assert virtual_pods(*objects) == virtual_pods(*objects)


def test_a_deployment_with_its_replica_set_and_pods_counts_once() -> None:
    objects = [
        a_workload("Deployment", "web", replicas=3),
        owned("ReplicaSet", "web-7d4f", replicas=3),
        owned("ReplicaSet", "web-old", replicas=0),
        a_pod("web-7d4f-a", template="one", metadata=owned_by("ReplicaSet", "web-7d4f")),
        a_pod("web-7d4f-b", template="one", metadata=owned_by("ReplicaSet", "web-7d4f")),
    ]
    assert names_of(*objects) == ["web-0"]
    assert names_of(*reversed(objects)) == ["web-0"]


def test_a_deployment_with_all_of_its_pods_asks_for_none() -> None:
    objects = [a_workload("Deployment", "web", replicas=1), owned("ReplicaSet", "web-7d4f")]
    assert names_of(*objects, a_pod("web-7d4f-a", metadata=owned_by("ReplicaSet", "web-7d4f"))) == []


def test_more_pods_than_asked_for_are_left_alone() -> None:
    pods = [a_pod(f"web-{n}", metadata=owned_by("ReplicaSet", "web")) for n in range(3)]
    assert names_of(a_workload("ReplicaSet", "web", replicas=1), *pods) == []


def test_a_replica_set_without_its_deployment_stands_for_itself() -> None:
    assert names_of(owned("ReplicaSet", "web-7d4f", replicas=2)) == ["web-7d4f-0", "web-7d4f-1"]


def test_a_deployment_without_its_replica_set_counts_its_pods() -> None:
    metadata = {**owned_by("ReplicaSet", "web-7d4f"), "labels": {"pod-template-hash": "7d4f"}}
    deployment = a_workload("Deployment", "web", replicas=1)
    assert names_of(deployment, a_pod("web-7d4f-a", metadata=metadata)) == []
    assert names_of(deployment, a_pod("web-7d4f-a", metadata=owned_by("ReplicaSet", "web-7d4f"))) == ["web-0"]
    assert names_of(deployment, a_pod("web-7d4f-a", metadata={**metadata, "labels": {"pod-template-hash": "4f"}})) == [
        "web-0"
    ]


def test_a_replica_set_that_is_not_named_by_a_deployment_is_none_of_its() -> None:
    metadata = {**owned_by("ReplicaSet", "web"), "labels": {"pod-template-hash": "7d4f"}}
    assert names_of(a_workload("Deployment", "web"), a_pod("web-a", metadata=metadata)) == ["web-0"]


def test_a_cron_job_without_its_jobs_counts_their_pods() -> None:
    pods = [a_pod(f"p{name}", metadata=owned_by("Job", name)) for name in ("nightly-29012345", "nightly-x", "other-1")]
    assert names_of(a_workload("CronJob", "nightly", parallelism=2), *pods) == ["nightly-0"]


def test_a_cron_job_stands_for_its_jobs() -> None:
    objects = [
        a_workload("CronJob", "nightly", parallelism=2),
        a_workload("Job", "nightly-123", parallelism=2, metadata=owned_by("CronJob", "nightly")),
        a_pod("nightly-123-a", metadata=owned_by("Job", "nightly-123")),
    ]
    assert names_of(*objects) == ["nightly-0"]


def test_pods_of_another_namespace_do_not_count() -> None:
    pod = a_pod("web-a", namespace="other", metadata=owned_by("ReplicaSet", "web"))
    assert names_of(a_workload("ReplicaSet", "web"), pod) == ["web-0"]


@pytest.mark.parametrize(
    "gone",
    [
        {"status": {"phase": "Failed"}},
        {"status": {"phase": "Succeeded"}},
        BEING_DELETED,
    ],
)
def test_finished_and_deleted_pods_do_not_count(gone: Json) -> None:
    metadata = {**owned_by("ReplicaSet", "web"), **gone.get("metadata", {})}
    pod = a_pod("web-a", metadata=metadata, status=gone.get("status"))
    assert names_of(a_workload("ReplicaSet", "web"), pod) == ["web-0"]


def test_owners_in_a_circle_end() -> None:
    objects = [owned("ReplicaSet", "a", by=("ReplicaSet", "b")), owned("ReplicaSet", "b", by=("ReplicaSet", "a"))]
    assert names_of(*objects) == []


def test_a_stateful_set_fills_the_ordinals_that_are_missing() -> None:
    pods = [a_pod(f"db-{n}", metadata=owned_by("StatefulSet", "db")) for n in (0, 2)]
    assert names_of(a_workload("StatefulSet", "db", replicas=4), *pods) == ["db-1", "db-3"]


def test_a_stateful_set_begins_with_its_first_ordinal() -> None:
    assert names_of(a_workload("StatefulSet", "db", replicas=2, ordinals={"start": 5})) == ["db-5", "db-6"]


def test_the_name_of_a_pod_that_is_there_is_not_given_again() -> None:
    assert names_of(a_workload("Job", "train", parallelism=2), a_pod("train-0")) == ["train-1", "train-2"]


def test_two_workloads_of_one_name_stand_for_pods_of_different_names() -> None:
    names = names_of(a_workload("StatefulSet", "app"), a_workload("Job", "app"))
    assert names == ["app-0", "app-1"]


def test_pods_of_fixed_names_have_them_before_others_get_theirs() -> None:
    workloads = [a_workload("DaemonSet", "app"), a_workload("Deployment", "app"), a_workload("StatefulSet", "app")]
    for objects in (workloads, workloads[::-1]):
        assert names_of(*objects, a_node("0"), a_node("n1")) == ["app-0", "app-0-0", "app-n1", "app-1"]


@pytest.mark.parametrize("gone", [{"status": {"phase": "Failed"}}, BEING_DELETED])
def test_a_stateful_set_uses_the_name_of_a_pod_that_is_over_again(gone: Json) -> None:
    metadata = {**owned_by("StatefulSet", "db"), **gone.get("metadata", {})}
    pod = a_pod("db-0", metadata=metadata, status=gone.get("status"))
    assert names_of(a_workload("StatefulSet", "db", replicas=2), pod) == ["db-0", "db-1"]


def test_a_workload_that_is_suspended_asks_for_none() -> None:
    assert names_of(a_workload("Job", "train", suspend=True)) == []


def test_a_workload_that_is_being_deleted_asks_for_none() -> None:
    assert names_of(a_workload("Job", "train", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})) == []


def test_a_daemon_set_stands_for_one_pod_on_each_node_pinned_to_it() -> None:
    pods = virtual_pods(a_workload("DaemonSet", "agent"), a_node("n1"), a_node("n2"))
    assert [(pod.name, pod.affinity) for pod in pods] == [
        (f"agent-{node}", (Term((), (Requirement("metadata.name", "In", (node,)),)),)) for node in ("n1", "n2")
    ]
    inventory = inventory_of(a_node("n1"), a_node("n2"))
    assert [refusal(pods[0], node) == "" for node in inventory.nodes] == [True, False]


def test_a_daemon_set_leaves_out_nodes_that_refuse_its_pods() -> None:
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    nodes = [a_node("n1", labels={"gpu": "yes"}), a_node("n2"), a_node("n3", labels={"gpu": "yes"}, taints=taints)]
    template = a_pod_template(nodeSelector={"gpu": "yes"})
    assert names_of(a_workload("DaemonSet", "agent", template=template), *nodes) == ["agent-n1"]


def test_a_daemon_set_uses_the_tolerations_of_its_template() -> None:
    node = a_node("n1", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    template = a_pod_template(tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert names_of(a_workload("DaemonSet", "agent", template=template), node) == ["agent-n1"]


@pytest.mark.parametrize(
    ("key", "effect"),
    [
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ],
)
def test_daemons_tolerate_what_the_controller_lets_them_tolerate(key: str, effect: str) -> None:
    node = a_node("n1", taints=[{"key": key, "effect": effect}])
    (pod,) = virtual_pods(a_workload("DaemonSet", "agent"), node)
    assert refusal(pod, inventory_of(node).nodes[0]) == ""


def test_only_daemons_in_their_hosts_network_do_without_a_network_for_pods() -> None:
    node = a_node("n1", taints=[{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}])
    template = a_pod_template(hostNetwork=True)
    (pod,) = virtual_pods(a_workload("DaemonSet", "agent", template=template), node)
    assert refusal(pod, inventory_of(node).nodes[0]) == ""
    assert names_of(a_workload("DaemonSet", "agent"), node) == []


def test_a_daemon_set_covers_cordoned_nodes() -> None:
    assert names_of(a_workload("DaemonSet", "agent"), a_node("n1", unschedulable=True)) == ["agent-n1"]


def test_a_daemon_set_skips_nodes_that_have_its_pod_bound_or_meant_for_them() -> None:
    pinned = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pinned]}}
    objects = [
        a_workload("DaemonSet", "agent"),
        a_pod("agent-a", nodeName="n1", metadata=owned_by("DaemonSet", "agent")),
        a_pod("agent-b", affinity={"nodeAffinity": required}, metadata=owned_by("DaemonSet", "agent")),
        a_pod("agent-c", nodeName="n3", metadata=owned_by("DaemonSet", "agent"), status={"phase": "Failed"}),
    ]
    assert names_of(*objects, *(a_node(f"n{number}") for number in (1, 2, 3))) == ["agent-n3"]


@pytest.mark.parametrize(
    "other",
    [
        a_pod("agent-a", nodeName="n1"),
        a_pod("agent-a", nodeName="n1", metadata=owned_by("DaemonSet", "other")),
        a_pod("agent-a", nodeName="n1", metadata=owned_by("ReplicaSet", "agent")),
        a_pod("agent-a", nodeName="n1", namespace="other", metadata=owned_by("DaemonSet", "agent")),
    ],
)
def test_pods_of_others_cover_no_node_for_a_daemon_set(other: Json) -> None:
    assert names_of(a_workload("DaemonSet", "agent"), a_node("n1"), other) == ["agent-n1"]
