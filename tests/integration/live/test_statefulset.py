"""The StatefulSet of docs/statefulset.md: eight pods with a disk and a GPU each, spread over the zones.

Each decision is asked again of kube-scheduler's own plugins. With one binding at a time the writes come in the order of
the decisions; what a decision saw is then what was there before the scheduler began, and what the decisions before it
have made of their pods.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.controlplane.contents import manifests, restore
from tests.controlplane.fleet import EXAMPLES, publish
from tests.controlplane.identities import OURS
from tests.controlplane.ours import scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import (
    CLAIM,
    CLASS,
    NODE,
    POD,
    SERVICE,
    SLICE,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_CLAIM,
    Json,
    Kind,
    RestClient,
)
from tests.differential.peer import Peer, built_plugins_or_skipped
from tests.integration.live.world import claims_of, place, results_of

SERVING = "serving"
REPLICAS = 8
ZONE = "topology.kubernetes.io/zone"
KINDS: Mapping[str, Kind] = {
    "nodes": NODE,
    "pods": POD,
    "namespaces": Kind("v1", "Namespace"),
    "services": SERVICE,
    "statefulSets": Kind("apps/v1", "StatefulSet"),
    "persistentVolumes": VOLUME,
    "persistentVolumeClaims": VOLUME_CLAIM,
    "storageClasses": STORAGE_CLASS,
    "resourceClaims": CLAIM,
    "resourceSlices": SLICE,
    "deviceClasses": CLASS,
}
"""By the fields of a case, what the plugins look at."""

Cluster = Mapping[str, Mapping[str, Json]]
"""All objects by field, and by namespace and name."""


@pytest.fixture
def plugins() -> Iterator[Peer]:
    with Peer(built_plugins_or_skipped()) as running:
        yield running


@pytest.fixture
def api(plane: ControlPlane) -> RestClient:
    """A control plane with the example fleet and the StatefulSet, whose pods have their claims and wait."""
    found = plane.client()
    restore(found, [obj for obj in manifests(EXAMPLES / "fleet") if obj["kind"] != SLICE.kind])
    publish(plane)
    restore(found, manifests(EXAMPLES / "statefulset"))
    found.await_all(POD, lambda pods: sum(bool(claims_of(pod)) for pod in pods) == REPLICAS, SERVING)
    found.await_all(VOLUME_CLAIM, lambda claims: len(claims) == REPLICAS, SERVING)
    found.await_all(VOLUME, lambda volumes: all(one["status"]["phase"] == "Available" for one in volumes))
    return found


def test_each_pod_is_on_one_of_the_nodes_that_kube_scheduler_finds_best(
    plane: ControlPlane, proxy: Proxy, api: RestClient, plugins: Peer
) -> None:
    before = cluster_of(api)
    options = ["--binding-concurrency=1", "--leader-elect=false"]
    with scheduler(plane, options, kubeconfig=proxy.kubeconfig(OURS)):
        pods = api.await_all(POD, lambda found: sum("nodeName" in pod["spec"] for pod in found) == REPLICAS, SERVING)
    after = cluster_of(api)
    order = in_order_of_decisions(proxy, pods)
    answers: list[Json] = []
    for number, name in enumerate(order):
        case = a_case(before, after, order[:number], name)
        answers.append(plugins.ask(case))
        assert node_of(after, name) in best_of(answers[-1]), (name, answers[-1])
    assert any(best_of(answer) < answer["scores"].keys() for answer in answers), "no decision was one of several"

    zones = Counter(after["nodes"][f"/{pod['spec']['nodeName']}"]["metadata"]["labels"][ZONE] for pod in pods)
    assert zones == {"zone-1": 4, "zone-2": 4}
    devices = [place(one) for name in order for one in results_of(claim_of(after, name))]
    assert len(set(devices)) == REPLICAS
    assert [device.partition("/")[0] for device in devices] == [node_of(after, name) for name in order]
    disks = [disk_of(after, name) for name in order]
    assert len(set(disks)) == REPLICAS
    assert [disk.rpartition("-ssd-")[0] for disk in disks] == [node_of(after, name) for name in order]


def cluster_of(api: RestClient) -> Cluster:
    return {field: {key(one): one for one in api.list(kind)} for field, kind in KINDS.items()}


def key(obj: Json) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def in_order_of_decisions(proxy: Proxy, pods: Sequence[Json]) -> list[str]:
    """The pods by when their allocations were written, each once: no attempt has failed."""
    writes = proxy.writes(rf"/namespaces/{SERVING}/resourceclaims/[^/]+/status$")
    claims = [re.findall(r"/resourceclaims/([^/]+)/", write.path)[0] for write in writes if write.status == 200]
    users = {claim: pod["metadata"]["name"] for pod in pods for claim in claims_of(pod)}
    order = [users[claim] for claim in claims]
    assert sorted(order) == sorted(users.values())
    return order


def a_case(before: Cluster, after: Cluster, decided: Sequence[str], name: str) -> Json:
    """The pod, and the cluster in which these had their node, claim and disk already, as what ran before had."""
    running = sum("nodeName" in one["spec"] for one in before["pods"].values())
    made = {field: dict(objects) for field, objects in before.items()}
    for one in decided:
        for field, changed in of_pod(after, one):
            made[field][changed] = after[field][changed]
    pod = made["pods"].pop(f"{SERVING}/{name}")
    fields = {field: list(objects.values()) for field, objects in made.items()}
    placed = [one for one in fields["pods"] if "nodeName" in one["spec"]]
    assert len(placed) == running + len(decided)
    return {**fields, "pods": placed, "pod": {**pod, "spec": {**pod["spec"], "schedulerName": "default-scheduler"}}}


def of_pod(after: Cluster, name: str) -> Iterator[tuple[str, str]]:
    """What is changed by placing the pod: field and key."""
    yield "pods", f"{SERVING}/{name}"
    yield "resourceClaims", key(claim_of(after, name))
    yield "persistentVolumeClaims", f"{SERVING}/model-{name}"
    yield "persistentVolumes", f"/{disk_of(after, name)}"


def node_of(after: Cluster, name: str) -> str:
    return str(after["pods"][f"{SERVING}/{name}"]["spec"]["nodeName"])


def claim_of(after: Cluster, name: str) -> Json:
    (claim,) = claims_of(after["pods"][f"{SERVING}/{name}"])
    return after["resourceClaims"][f"{SERVING}/{claim}"]


def disk_of(after: Cluster, name: str) -> str:
    return str(after["persistentVolumeClaims"][f"{SERVING}/model-{name}"]["spec"]["volumeName"])


def best_of(answer: Json) -> set[str]:
    """The nodes with the highest score."""
    assert "fault" not in answer, answer
    totals = {node: score["total"] for node, score in answer["scores"].items()}
    return {node for node, total in totals.items() if total == max(totals.values())}
