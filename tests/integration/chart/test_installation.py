"""What helm installs on a real API server, in a namespace of its own: pods that are admitted, and programs that work as
their accounts with the rights of these and no more."""

import base64
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from tests.controlplane.contents import READY, clear, ensure_namespace
from tests.controlplane.guarded import LEASE, WEBHOOK, WEBHOOKS
from tests.controlplane.identities import Identity, write_kubeconfig
from tests.controlplane.ours import Program
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import poll_until
from tests.controlplane.profiles import EVERY_VERSION
from tests.controlplane.rest import CLAIM, CLASS, NODE, POD, Json, Kind, RestClient
from tests.integration.chart.helm import RELEASE, Helm, Values
from tests.integration.chart.schema import CHART
from tests.integration.conftest import Planes
from tests.integration.guard.scene import a_claim, a_result, give, publish, refusal

NAMESPACE = "gpu-system"
USERS = "guarded"
CONFIG = Kind("v1", "ConfigMap")
DEPLOYMENT = Kind("apps/v1", "Deployment")
ENDPOINTS = Kind("discovery.k8s.io/v1", "EndpointSlice")
LEASE_NAME = "gpu-scheduler"
VALUES: Values = {
    "scheduler": {"config": {"leaderElection": {"resourceName": LEASE_NAME}}},
    "guard": {"enabled": True, "replicas": 1},
    "policy": {"enabled": True},
}


@pytest.fixture(scope="module")
def plane(planes: Planes) -> Iterator[ControlPlane]:
    running = planes.of(EVERY_VERSION)
    yield running
    clear(running)


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> RestClient:
    return plane.client()


@pytest.fixture
def installed(plane: ControlPlane, api: RestClient, helm: Helm) -> Iterator[Helm]:
    """The scheduler, the guard and the policy, in a namespace whose pods have to be restricted."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    ensure_namespace(api, NAMESPACE)
    namespace = api.get(Kind("v1", "Namespace"), NAMESPACE)
    api.replace({**namespace, "metadata": {**namespace["metadata"], "labels": label}})
    helm.run("install", RELEASE, CHART, *where(plane), values=VALUES)
    yield helm
    helm.run("uninstall", RELEASE, *where(plane))
    clear(plane)


def where(plane: ControlPlane) -> Sequence[str]:
    return (f"--kubeconfig={plane.kubeconfig()}", f"--namespace={NAMESPACE}")


def account(plane: ControlPlane, kubectl: Path, name: str) -> Path:
    """A kubeconfig with a token that the API server issued for that service account."""
    command: list[str | Path] = [kubectl, *where(plane), "create", "token", name]
    token = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    path = plane.folder / f"{NAMESPACE}-{name}.kubeconfig"
    identity = Identity(name, f"system:serviceaccount:{NAMESPACE}:{name}")
    write_kubeconfig(path, identity, server=plane.server, ca_file=plane.ca_file, token=token)
    return path


def container(api: RestClient, name: str) -> Json:
    """The only one of the Deployment."""
    (found,) = api.get(DEPLOYMENT, name, NAMESPACE)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def arguments(api: RestClient, folder: Path, name: str) -> list[str]:
    """Those of the container, with the ConfigMap as a file; a pod finds its namespace and its address by itself."""
    stored = yaml.safe_load(api.get(CONFIG, f"{name}-config", NAMESPACE)["data"]["config.yaml"])
    path = folder / f"{name}.yaml"
    election = {**stored.get("leaderElection", {}), "resourceNamespace": NAMESPACE}
    path.write_text(yaml.safe_dump({**stored, "leaderElection": election}))
    given = " ".join(container(api, name)["args"]).replace("$(POD_IP)", "10.1.2.3")
    return re.sub(r"(?<=--config=)\S+", str(path), given).split()


def test_objects_are_accepted_by_a_server_side_dry_run(plane: ControlPlane, helm: Helm, kubectl: Path) -> None:
    extender = {"enabled": True, "certManager": False}
    text = helm.run(
        *("template", RELEASE, CHART, "--namespace=kube-system"),
        values={**VALUES, "extender": extender, "monitoring": {"dashboard": {"enabled": True}}},
    )
    config = f"--kubeconfig={plane.kubeconfig()}"
    command: list[str | Path] = [kubectl, config, "apply", "--server-side", "--dry-run=server", "--filename=-"]
    said = subprocess.run(command, input=text, check=False, capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.count("serverside-applied (server dry run)") == text.count("\nkind: ")


@pytest.mark.usefixtures("installed")
def test_pods_are_admitted_to_a_restricted_namespace(api: RestClient) -> None:
    def names(pods: Sequence[Json]) -> list[str]:
        return sorted(pod["metadata"]["labels"]["app.kubernetes.io/name"] for pod in pods)

    wanted = ["dra-guard", "dra-scheduler", "dra-scheduler"]
    pods = api.await_all(POD, lambda found: names(found) == wanted, NAMESPACE)
    assert {pod["spec"]["priority"] for pod in pods} == {2_000_000_000}


@pytest.mark.usefixtures("installed")
def test_scheduler_places_a_pod_as_its_account(
    plane: ControlPlane, api: RestClient, kubectl: Path, tmp_path: Path
) -> None:
    given = arguments(api, tmp_path, "dra-scheduler")
    api.delete(WEBHOOKS, WEBHOOK)  # no guard runs here
    program = Program(given, plane, [], account(plane, kubectl, "dra-scheduler"), "installed-scheduler")
    try:
        program.await_readyz()
        ensure_namespace(api, USERS)
        node = {"apiVersion": NODE.api_version, "kind": NODE.kind, "metadata": {"name": "node"}, "status": READY}
        api.create(node)
        publish(api, {"name": "gpu-0"})
        selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
        device_class = {"apiVersion": CLASS.api_version, "kind": CLASS.kind, "metadata": {"name": "any"}}
        api.create({**device_class, "spec": {"selectors": [selector]}})
        a_claim(api, "claim")
        api.create(a_pod("claim"))
        (pod,) = api.await_all(POD, lambda pods: any("nodeName" in pod["spec"] for pod in pods), USERS)
        assert pod["spec"]["nodeName"] == "node"
        (result,) = api.get(CLAIM, "claim", USERS)["status"]["allocation"]["devices"]["results"]
        assert result["device"] == "gpu-0"
        assert api.get(LEASE, LEASE_NAME, NAMESPACE)["spec"]["holderIdentity"]
        assert "warn: credentials" not in program.reported("/readyz?verbose")
    finally:
        program.stop()


def a_pod(claim: str) -> Json:
    spec = {
        "schedulerName": "dra-scheduler",
        "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
    }
    metadata = {"name": "pod", "namespace": USERS}
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": spec}


@pytest.fixture
def guard(plane: ControlPlane, api: RestClient, installed: Helm, kubectl: Path, tmp_path: Path) -> Iterator[Program]:
    """The installed guard as its account, where no guard was before that it would have to wait for."""
    assert installed
    api.create(
        {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": "dra-guard", "namespace": NAMESPACE},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1},
        }
    )
    address = f"--address=127.0.0.1:{free_ports(1)[0]}"
    given = arguments(api, tmp_path, "dra-guard")
    program = Program(given, plane, [address], account(plane, kubectl, "dra-guard"), "installed-guard")
    try:
        program.await_readyz()
        yield program
    finally:
        program.stop()
        api.delete(LEASE, "dra-guard", NAMESPACE)


@pytest.mark.usefixtures("guard")
def test_guard_publishes_itself_as_its_account_and_an_upgrade_leaves_that(
    plane: ControlPlane, api: RestClient, installed: Helm
) -> None:
    before = poll_until(all, lambda: published(api), "certificate and address")
    assert [one["addresses"] for one in before[1]] == [["10.1.2.3"]]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(before[0]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert f"dra-guard.{NAMESPACE}.svc" in names.get_values_for_type(x509.DNSName)
    installed.run("upgrade", RELEASE, CHART, *where(plane), values={**VALUES, "image": {"tag": "next"}})
    assert container(api, "dra-scheduler")["image"] == "dra-scheduler:next"
    assert published(api) == before
    installed.run("rollback", RELEASE, "1", *where(plane))
    assert container(api, "dra-scheduler")["image"] != "dra-scheduler:next"
    assert published(api) == before


@pytest.mark.usefixtures("guard")
def test_guard_refuses_a_device_that_is_in_use(plane: ControlPlane, api: RestClient, installed: Helm) -> None:
    installed.run("upgrade", RELEASE, CHART, *where(plane), values={"guard": VALUES["guard"]})  # anybody may allocate
    poll_until(all, lambda: published(api), "certificate and address")
    call_directly(api)
    ensure_namespace(api, USERS)
    publish(api, {"name": "a"})
    one, two = a_claim(api, "one"), a_claim(api, "two")
    poll_until(lambda said: not said, lambda: refusal(api, one, a_result("a")), "the guard answers")
    give(api, one, a_result("a"))
    assert "is held by claim guarded/one" in refusal(api, two, a_result("a"))


def call_directly(api: RestClient) -> None:
    """Let the API server call the port in the EndpointSlice on this machine, where no Service leads anywhere."""
    (port,) = api.get(ENDPOINTS, "dra-guard", NAMESPACE)["ports"]
    found = api.get(WEBHOOKS, WEBHOOK)
    client = found["webhooks"][0]["clientConfig"]
    client["url"] = f"https://localhost:{port['port']}{client.pop('service')['path']}"
    api.replace({"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, **found})


def published(api: RestClient) -> tuple[str, Any]:
    """The certificate in the webhook, and the endpoints; empty while there is none."""
    (webhook,) = api.get(WEBHOOKS, WEBHOOK)["webhooks"]
    assert webhook["clientConfig"]["service"]["namespace"] == NAMESPACE
    return webhook["clientConfig"].get("caBundle", ""), api.get(ENDPOINTS, "dra-guard", NAMESPACE).get("endpoints")


def test_second_kube_scheduler_leads_where_it_is_installed(
    plane: ControlPlane, api: RestClient, helm: Helm, kubectl: Path
) -> None:
    values = {"scheduler": {"enabled": False}, "extender": {"enabled": True, "certManager": False}}
    helm.run("install", RELEASE, CHART, *where(plane), "--create-namespace", values=values)
    try:
        stored = api.get(CONFIG, "dra-kube-scheduler-config", NAMESPACE)["data"]["kube-scheduler-config.yaml"]
        configuration = {**yaml.safe_load(stored), "extenders": []}  # its certificates are in Secrets
        configuration["clientConnection"] = {"kubeconfig": str(account(plane, kubectl, "dra-kube-scheduler"))}
        plane.start_scheduler(configuration)
        api.await_all(LEASE, lambda found: "dra-kube-scheduler" in holders_of(found), NAMESPACE)
    finally:
        plane.stop("kube-scheduler")
        helm.run("uninstall", RELEASE, *where(plane))


def holders_of(leases: Sequence[Json]) -> list[str]:
    """The names of the leases that are held."""
    return [one["metadata"]["name"] for one in leases if one["spec"].get("holderIdentity")]


def test_nothing_is_left_after_uninstalling(plane: ControlPlane, api: RestClient, helm: Helm) -> None:
    values = {**VALUES, "extender": {"enabled": True, "certManager": False}}
    helm.run("install", RELEASE, CHART, *where(plane), "--create-namespace", values=values)
    kinds = {Kind(obj["apiVersion"], obj["kind"]) for obj in helm.rendered(values, NAMESPACE)}
    assert all(ours(api, kind) for kind in kinds)
    helm.run("uninstall", RELEASE, *where(plane))
    assert poll_until(lambda left: not left, lambda: [one for kind in kinds for one in ours(api, kind)], "gone") == []


def ours(api: RestClient, kind: Kind) -> list[str]:
    """The names of the objects that helm has installed, of a kind."""
    found = (obj["metadata"] for obj in api.list(kind))
    return [one["name"] for one in found if one.get("labels", {}).get("app.kubernetes.io/managed-by") == "Helm"]
