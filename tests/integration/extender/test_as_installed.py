"""What manifests/extender installs works as it is: configurations, certificates and rights, and nothing but these."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.contents import manifests, restore
from tests.controlplane.identities import EXTENDER, SECOND
from tests.controlplane.ours import Extender
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process
from tests.controlplane.profiles import chosen
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import Json, Kind
from tests.integration.conftest import ROOT
from tests.integration.extender.beside import Beside, Door
from tests.integration.live.world import a_request, users_of

INSTALLED = ROOT / "manifests" / "extender"
LEASE = Kind("coordination.k8s.io/v1", "Lease")
SERVER_NAME = "dra-extender.kube-system.svc"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the script of the manifests makes."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    folder = tmp_path_factory.mktemp("keys")
    script = shutil.copy(INSTALLED / "secret" / "certificates.sh", folder)
    subprocess.run(["/bin/sh", script], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def granted(plane: ControlPlane) -> ControlPlane:
    """The control plane where kube-scheduler has the rights of the manifests as well."""
    restore(plane.client(), manifests(INSTALLED / "base" / "kube-scheduler-rbac.yaml"))
    return plane


def document(name: str) -> Json:
    """A file of the base."""
    found = yaml.safe_load((INSTALLED / "base" / name).read_text())
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def extender(granted: ControlPlane, proxy: Proxy, door: Door, keys: Path) -> Iterator[Extender]:
    """The extender by the file of the manifests, but for where it listens and what lies where."""
    configuration = document("config.yaml") | {"address": f"127.0.0.1:{door.port}"}
    files = {"certFile": "extender.crt", "keyFile": "extender.key", "clientCaFile": "ca.crt"}
    configuration["tls"] |= {field: str(keys / file) for field, file in files.items()}
    path = door.folder / "config.yaml"
    path.write_text(yaml.safe_dump(configuration))
    program = Extender(granted, [f"--config={path}"], kubeconfig=proxy.kubeconfig(EXTENDER))
    try:
        program.await_readyz()
        yield program
    finally:
        program.stop()


@pytest.fixture(scope="module")
def kube_scheduler(granted: ControlPlane, door: Door, keys: Path) -> Iterator[Process]:
    """kube-scheduler in the same way, with the flags of its Deployment."""
    configuration = document("kube-scheduler-config.yaml")
    (entry,) = configuration["extenders"]
    files = {"caFile": "ca.crt", "certFile": "kube-scheduler.crt", "keyFile": "kube-scheduler.key"}
    entry["urlPrefix"] = door.url
    entry["tlsConfig"] = {field: str(keys / file) for field, file in files.items()} | {"serverName": SERVER_NAME}
    program = granted.start_scheduler(configuration, flags=flags(), identity=SECOND)
    yield program
    program.stop()


def flags() -> list[str]:
    """Those of the Deployment but for the configuration's place; with what docs/extender.md says of every gate on."""
    (deployment,) = (
        one for one in manifests(INSTALLED / "base" / "kube-scheduler.yaml") if one["kind"] == "Deployment"
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    own = [flag for flag in container["args"] if not flag.startswith("--config=")]
    return [*own, "--feature-gates=CoordinatedLeaderElection=false"] if chosen().gates.get("AllBeta") else own


def test_pod_gets_a_device_and_a_node(world: Beside) -> None:
    world.a_cluster(nodes=2, devices=1)
    world.a_claim()
    world.a_pod("pod", "claim")
    node = world.node_of()
    assert world.devices_of() == [f"{node}/gpu-0"]
    assert users_of(world.claim()) == ["pod"]


def test_second_kube_scheduler_holds_a_lease_of_its_own(world: Beside) -> None:
    held = world.api.await_all(LEASE, lambda found: any(is_held(one) for one in found), "kube-system")
    assert {one["metadata"]["name"] for one in held} >= {"dra-kube-scheduler"}


def is_held(lease: Json) -> bool:
    return lease["metadata"]["name"] == "dra-kube-scheduler" and bool(lease["spec"].get("holderIdentity"))


def test_pod_that_was_refused_is_woken_by_a_new_slice(world: Beside) -> None:
    world.a_class()
    world.a_node()
    world.a_claim()
    world.a_pod("pod", "claim")
    world.refused()
    world.a_slice("node-0", {"name": "gpu-0"})
    assert world.devices_of() == ["node-0/gpu-0"]


def test_devices_of_a_pod_that_ended_go_to_the_next(world: Beside) -> None:
    world.a_cluster()
    world.a_template("template", a_request())
    world.a_pod("first", template="template")
    assert world.devices_of("first") == ["node-0/gpu-0"]
    world.delete_pod("first")
    world.a_pod("second", template="template")
    assert world.devices_of("second") == ["node-0/gpu-0"]


def test_extended_resource_of_a_class_is_refused_with_the_flags_of_the_manifests(world: Beside) -> None:
    world.a_cluster()
    world.a_pod(requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
    message = world.refused()["message"]
    assert "only a device class provides deviceclass.resource.kubernetes.io/gpu" in message
