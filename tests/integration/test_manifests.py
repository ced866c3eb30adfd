"""The manifests are what the API server takes, and grant what the scheduler needs and nothing else."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from scheduler import VERSION
from scheduler.runtime.configuration import Configuration, host_and_port, is_loopback, load
from scheduler.runtime.health import is_open
from tests.controlplane.contents import ensure_namespace, manifests
from tests.controlplane.identities import DRIVER, OURS
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import ApiError, Json, Kind, RestClient
from tests.controlplane.rights import BASE, grant
from tests.integration.access import asked, await_rights, rights
from tests.integration.conftest import ROOT

EXAMPLES = ROOT / "manifests" / "examples" / "scheduler"
DEPLOYMENT = Kind("apps/v1", "Deployment")
CONFIG_MAP = Kind("v1", "ConfigMap")

READ = ("get", "list", "watch")
CLUSTER_WIDE: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "nodes"): READ,
    ("", "namespaces"): READ,
    ("", "pods"): (*READ, "patch", "delete"),
    ("", "pods/binding"): ("create",),
    ("", "pods/status"): ("patch",),
    ("", "services"): READ,
    ("", "replicationcontrollers"): READ,
    ("apps", "replicasets"): READ,
    ("apps", "statefulsets"): READ,
    ("policy", "poddisruptionbudgets"): READ,
    ("storage.k8s.io", "storageclasses"): READ,
    ("scheduling.k8s.io", "podgroups"): READ,
    ("scheduling.k8s.io", "podgroups/status"): ("patch",),
    ("scheduling.k8s.io", "compositepodgroups/status"): ("patch",),
    ("scheduling.k8s.io", "compositepodgroups"): READ,
    ("storage.k8s.io", "csinodes"): READ,
    ("storage.k8s.io", "csidrivers"): READ,
    ("storage.k8s.io", "csistoragecapacities"): READ,
    ("storage.k8s.io", "volumeattachments"): READ,
    ("", "persistentvolumes"): (*READ, "update", "patch"),
    ("", "persistentvolumeclaims"): (*READ, "update", "patch"),
    ("resource.k8s.io", "deviceclasses"): READ,
    ("resource.k8s.io", "resourceslices"): READ,
    ("resource.k8s.io", "devicetaintrules"): READ,
    ("resource.k8s.io", "resourceclaims"): (*READ, "create", "update", "patch", "delete"),
    ("resource.k8s.io", "resourceclaims/status"): ("get", "update", "patch"),
    ("resource.k8s.io", "resourceclaims/binding"): ("update", "patch"),
    ("events.k8s.io", "events"): ("create", "patch", "update"),
    ("authentication.k8s.io", "tokenreviews"): ("create",),
    ("authorization.k8s.io", "subjectaccessreviews"): ("create",),
}
NEEDED = {(group, resource, verb, "") for (group, resource), verbs in CLUSTER_WIDE.items() for verb in verbs}
LEASE = {
    ("coordination.k8s.io", "leases", "create", ""),
    ("coordination.k8s.io", "leases", "get", "dra-scheduler"),
    ("coordination.k8s.io", "leases", "update", "dra-scheduler"),
}
REFUSED: tuple[tuple[str, str, str], ...] = (
    ("", "pods", "create"),
    ("", "pods", "update"),
    ("", "pods/status", "update"),
    ("", "nodes", "patch"),
    ("", "secrets", "get"),
    ("", "persistentvolumeclaims", "create"),
    ("", "persistentvolumes", "delete"),
    ("", "configmaps", "get"),
    ("resource.k8s.io", "resourceclaims", "deletecollection"),
    ("resource.k8s.io", "resourceclaimtemplates", "create"),
    ("resource.k8s.io", "resourceclaims/driver", "update"),
    ("resource.k8s.io", "resourceslices", "create"),
    ("rbac.authorization.k8s.io", "clusterroles", "escalate"),
)


@pytest.fixture
def base(kubectl: Path, tmp_path: Path) -> Sequence[Mapping[str, Any]]:
    """The objects of the base, as kustomize puts them together."""
    path = tmp_path / "base.yaml"
    subprocess.run([kubectl, "kustomize", BASE, "--output", path], check=True)
    return manifests(path)


def the(objects: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any]:
    """The only object of the kind with the name of the whole; of a ConfigMap the only one."""
    named = (obj for obj in objects if kind == "ConfigMap" or obj["metadata"]["name"] == "dra-scheduler")
    (found,) = (obj for obj in named if obj["kind"] == kind)
    return found


def test_base_is_applied_by_one_command(plane: ControlPlane, kubectl: Path, base: Sequence[Mapping[str, Any]]) -> None:
    config = f"--kubeconfig={plane.kubeconfig()}"
    command: list[str | Path] = [kubectl, config, "apply", "--server-side", "--dry-run=server", "-k", BASE]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    assert said.stdout.count("serverside-applied (server dry run)") == len(base) == 14
    assert said.stderr == ""


def test_rollout_undo_finds_the_configuration_of_before(
    plane: ControlPlane, api: RestClient, kubectl: Path, tmp_path: Path
) -> None:
    """As docs/operations.md says of rolling back with kustomize, and of what is left after uninstalling."""
    folder = Path(shutil.copytree(BASE, tmp_path / "base"))
    at: list[str | Path] = [kubectl, f"--kubeconfig={plane.kubeconfig()}", "--namespace=kube-system"]

    def configuration() -> Json:
        """The ConfigMap that the pods mount."""
        (volume,) = api.get(DEPLOYMENT, "dra-scheduler", "kube-system")["spec"]["template"]["spec"]["volumes"]
        return api.get(CONFIG_MAP, volume["configMap"]["name"], "kube-system")

    def is_rolled_out(found: Sequence[Json]) -> bool:
        return any(one["status"].get("observedGeneration") == one["metadata"]["generation"] for one in found)

    def run(*command: str | Path) -> None:
        subprocess.run([*at, *command], check=True, capture_output=True)

    def roll_out(*command: str | Path) -> Json:
        run(*command)
        api.await_all(DEPLOYMENT, is_rolled_out, "kube-system")  # each revision has its ReplicaSet
        return configuration()

    before = roll_out("apply", "-k", folder)
    with (folder / "config.yaml").open("a") as file:
        file.write("podMaxBackoffSeconds: 7\n")
    assert roll_out("apply", "-k", folder)["data"] != before["data"]
    assert roll_out("rollout", "undo", "deployment/dra-scheduler") == before
    run("delete", "-k", folder)
    left = [one["metadata"]["name"] for one in api.list(CONFIG_MAP, "kube-system")]
    assert before["metadata"]["name"] in left
    run("delete", "configmap", "--selector=app.kubernetes.io/name=dra-scheduler")
    left = [one["metadata"]["name"] for one in api.list(CONFIG_MAP, "kube-system")]
    assert not [name for name in left if name.startswith("dra-")]


def test_renamed_configuration_renames_nothing_else(base: Sequence[Mapping[str, Any]]) -> None:
    config = the(base, "ConfigMap")["metadata"]["name"]
    assert config.startswith("dra-scheduler-config-")
    pod = the(base, "Deployment")["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "config", "configMap": {"name": config}}]
    roles = {f"dra-scheduler-{name}" for name in ("auth-delegator", "metrics-reader", "preemption")}
    assert {obj["metadata"]["name"] for obj in base if obj["kind"] != "ConfigMap"} == {"dra-scheduler", *roles}
    assert the(base, "Role")["rules"][1]["resourceNames"] == ["dra-scheduler"]


def test_pods_are_as_restricted_as_pod_security_can_ask_for(api: RestClient, base: Sequence[Mapping[str, Any]]) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted", "labels": label}}
    api.create(namespace)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "restricted"}}
    spec = the(base, "Deployment")["spec"]["template"]["spec"]
    assert api.create({**pod, "spec": spec}, is_dry=True)["spec"]["priority"] == 2_000_000_000
    with pytest.raises(ApiError, match="violates PodSecurity"):
        api.create({**pod, "spec": {**spec, "securityContext": {}}}, is_dry=True)


def test_replicas_of_which_one_leads_are_kept_apart_and_survive_a_drain(base: Sequence[Mapping[str, Any]]) -> None:
    spec, budget = the(base, "Deployment")["spec"], the(base, "PodDisruptionBudget")["spec"]
    election = load(Configuration, BASE / "config.yaml", {}).leader_election
    assert election.leader_elect
    assert the(base, "Role")["rules"][1]["resourceNames"] == [election.resource_name]
    labels = spec["template"]["metadata"]["labels"]
    (apart,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert apart["podAffinityTerm"]["labelSelector"] == budget["selector"] == {"matchLabels": labels}
    assert budget["minAvailable"] < spec["replicas"]


def test_image_is_of_this_version(base: Sequence[Mapping[str, Any]]) -> None:
    (container,) = the(base, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"dra-scheduler:{VERSION}"


def test_only_what_is_served_over_https_is_reached(base: Sequence[Mapping[str, Any]]) -> None:
    template = the(base, "Deployment")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    config = load(Configuration, BASE / "config.yaml", {})
    assert container["ports"] == [{"name": "https-metrics", "containerPort": host_and_port(config.health_address)[1]}]
    assert not is_loopback(config.health_address)
    policy, service = the(base, "NetworkPolicy")["spec"], the(base, "Service")["spec"]
    assert policy["podSelector"]["matchLabels"] == service["selector"] == template["metadata"]["labels"]
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": "https-metrics"}]}]
    assert [port["targetPort"] for port in service["ports"]] == ["https-metrics"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = container[probe]["httpGet"]
        assert (get["port"], get["scheme"]) == ("https-metrics", "HTTPS")
        assert is_open(get["path"], config.secure_serving.authorization_always_allow_paths)


def test_examples_are_taken_as_they_are_and_name_the_scheduler(api: RestClient) -> None:
    objects = manifests(EXAMPLES)
    assert len(objects) > 10
    ensure_namespace(api, "demo")
    for obj in objects:
        if obj["kind"] != "Namespace":
            api.create(obj, is_dry=True)
    templates = [obj["spec"]["template"]["spec"] for obj in objects if "template" in obj.get("spec", {})]
    assert {template["schedulerName"] for template in templates} == {"dra-scheduler"}


def test_scheduler_may_do_what_it_needs_in_every_namespace(plane: ControlPlane, api: RestClient) -> None:
    grant(api)
    await_rights(plane, OURS, "default", NEEDED)
    ours = plane.client(OURS)
    assert [right for right in sorted(NEEDED) if not asked(ours, *right[:3])] == []


def test_scheduler_may_do_nothing_else(plane: ControlPlane, api: RestClient) -> None:
    anybody = {namespace: rights(plane, DRIVER, namespace) for namespace in ("default", "kube-system")}
    grant(api)
    await_rights(plane, OURS, "kube-system", NEEDED | LEASE)
    assert rights(plane, OURS, "default") - anybody["default"] == NEEDED
    assert rights(plane, OURS, "kube-system") - anybody["kube-system"] == NEEDED | LEASE
    ours = plane.client(OURS)
    assert [right for right in REFUSED if asked(ours, *right)] == []
