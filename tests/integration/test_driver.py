"""The sample driver publishes what its hardware file says, with its own rights and no more."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.contents import manifests, of_kind, restore
from tests.controlplane.identities import DRIVER, OURS, Identity
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import NODE, SLICE, Json, RestClient
from tests.integration.conftest import FLEET, ROOT

DRIVER_FOLDER = ROOT / "manifests" / "examples" / "driver"
HARDWARE = DRIVER_FOLDER / "hardware.json"


@pytest.fixture
def nodes(api: RestClient) -> None:
    restore(api, [*of_kind(manifests(FLEET), NODE), *manifests(DRIVER_FOLDER / "rbac.yaml")])


def publish(plane: ControlPlane, hardware: Path = HARDWARE, identity: Identity = DRIVER) -> str:
    """What the driver says; CalledProcessError with its words where it fails."""
    reach: list[str | Path] = ["--server", plane.server, "--ca-file", plane.ca_file]
    command = [sys.executable, DRIVER_FOLDER / "publish.py", *reach, "--token-file", plane.token_file(identity)]
    return subprocess.run([*command, hardware], check=True, capture_output=True, text=True).stdout


def pools(slices: list[Mapping[str, Any]]) -> dict[tuple[str, str], Json]:
    """The specs by pool, of pools of one slice."""
    specs = [slice_["spec"] for slice_ in slices]
    return {(spec["driver"], spec["pool"]["name"]): spec for spec in specs}


def changed(tmp_path: Path, hardware: list[Any]) -> Path:
    path = tmp_path / "hardware.json"
    path.write_text(json.dumps(hardware))
    return path


@pytest.mark.usefixtures("nodes")
def test_hardware_of_the_example_becomes_the_slices_of_the_fleet(plane: ControlPlane, api: RestClient) -> None:
    said = publish(plane)
    published = api.list(SLICE)
    assert pools(list(published)) == pools(list(of_kind(manifests(FLEET), SLICE)))
    assert len(published) == len(said.splitlines()) == 7
    assert publish(plane).count("generation 1, unchanged") == 7
    assert api.list(SLICE) == published


@pytest.mark.usefixtures("nodes")
def test_changed_hardware_becomes_a_new_generation(plane: ControlPlane, api: RestClient, tmp_path: Path) -> None:
    publish(plane)
    hardware = json.loads(HARDWARE.read_text())
    del hardware[0]["devices"][0]
    said = publish(plane, changed(tmp_path, hardware))
    assert "gpu.example.com/gpu-a: generation 2, 3 devices" in said
    assert "gpu.example.com/gpu-c: generation 1, unchanged" in said
    found = pools(list(api.list(SLICE)))
    assert len(found) == len(api.list(SLICE)) == 7
    assert found["gpu.example.com", "gpu-a"]["devices"] == hardware[0]["devices"]


@pytest.mark.usefixtures("nodes")
def test_hardware_that_is_gone_is_withdrawn(plane: ControlPlane, api: RestClient, tmp_path: Path) -> None:
    publish(plane)
    said = publish(plane, changed(tmp_path, json.loads(HARDWARE.read_text())[-1:]))
    assert said.count("withdrawn") == 6
    assert list(pools(list(api.list(SLICE)))) == [("fabric.example.com", "zone-1")]


@pytest.mark.usefixtures("nodes")
def test_large_pool_is_spread_over_slices_of_one_generation(
    plane: ControlPlane, api: RestClient, tmp_path: Path
) -> None:
    tainted = {"taints": [{"key": "example.com/new", "effect": "None"}]}
    devices = [{"name": f"port-{index}"} for index in range(129)]
    entry = {"driver": "d.example", "pool": "a/b"}
    entry["nodeSelector"] = json.loads(HARDWARE.read_text())[-1]["nodeSelector"]
    publish(plane, changed(tmp_path, [{**entry, "devices": devices}]))
    assert [len(slice_["spec"]["devices"]) for slice_ in api.list(SLICE)] == [128, 1]
    publish(plane, changed(tmp_path, [{**entry, "devices": [*devices[:-1], {**devices[-1], **tainted}]}]))
    found = [(slice_["spec"]["pool"], len(slice_["spec"]["devices"])) for slice_ in api.list(SLICE)]
    assert found == [({"name": "a/b", "generation": 2, "resourceSliceCount": 3}, size) for size in (64, 64, 1)]


@pytest.mark.usefixtures("nodes")
def test_slices_vanish_with_their_node(plane: ControlPlane, api: RestClient) -> None:
    publish(plane)
    api.delete(NODE, "gpu-a")
    left = api.await_all(SLICE, lambda slices: len(slices) == 5)
    assert "gpu-a" not in {slice_["spec"].get("nodeName") for slice_ in left}


@pytest.mark.usefixtures("nodes")
def test_driver_without_rights_says_what_the_server_said(plane: ControlPlane) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        publish(plane, identity=OURS)
    assert failed.value.returncode == 1
    assert "GET /api/v1/nodes: 403" in failed.value.stderr


@pytest.mark.usefixtures("nodes")
def test_hardware_without_a_driver_is_reported(plane: ControlPlane, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        publish(plane, changed(tmp_path, [{"devices": []}]))
    assert "an entry without 'driver'" in failed.value.stderr
