"""`dra allocate` on dumps of a real API server, and its results written back to it."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.input.yaml_1_1 import dump
from tests.controlplane.contents import manifests, of_kind, restore
from tests.controlplane.rest import CLAIM, CLASS, NODE, POD, SLICE, TEMPLATE, Json, Kind, RestClient
from tests.integration.conftest import FLEET, ROOT

INVENTORIES = ROOT.parent / "shared" / "inventories"
RECORDED = (INVENTORIES / "cluster.yaml", INVENTORIES / "pending.yaml")
DRA = Path(sys.executable).with_name("dra")
FINALIZER = "resource.kubernetes.io/delete-protection"
VERSIONS = ("v1", "v1beta1", "v1beta2")

needs_inventories = pytest.mark.skipif(not INVENTORIES.is_dir(), reason="no inventories beside the project")


def dumped(api: RestClient, folder: Path, version: str = "v1") -> Path:
    """What kubectl would dump of the cluster."""
    kinds = [NODE, POD, *(Kind(f"resource.k8s.io/{version}", kind.kind) for kind in (SLICE, CLASS, TEMPLATE, CLAIM))]
    path = folder / f"{version}.yaml"
    path.write_text(dump({"apiVersion": "v1", "kind": "List", "items": [o for kind in kinds for o in api.list(kind)]}))
    return path


def allocated(path: Path, *options: str) -> list[Json]:
    """The claims and pods that the command writes for the dump."""
    done = subprocess.run([DRA, "allocate", path, "-o", "yaml", *options], capture_output=True, text=True, check=False)
    assert re.search(r"^\d+ of \d+ placed$", done.stderr, re.MULTILINE), done.stderr
    assert done.returncode in (0, 1)
    written = path.with_suffix(".allocated.yaml")
    written.write_text(done.stdout)
    return [dict(obj) for obj in manifests(written)]


def names(objects: list[Json]) -> set[str]:
    return {f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" for obj in objects}


def has_its_claims(pod: Mapping[str, Any]) -> bool:
    wanted = [entry for entry in pod["spec"].get("resourceClaims", ()) if "resourceClaimTemplateName" in entry]
    return len(pod.get("status", {}).get("resourceClaimStatuses", ())) == len(wanted)


def await_claims(api: RestClient, pods: int) -> None:
    """Wait until all pods are there, and all claims of their templates."""
    api.await_all(POD, lambda found: len(found) == pods and all(map(has_its_claims, found)))


def write_back(api: RestClient, claim: Json) -> None:
    """The two writes of a scheduler; the server keeps exactly what was written."""
    stored = api.replace({key: value for key, value in claim.items() if key != "status"})
    assert FINALIZER in stored["metadata"]["finalizers"]
    kept = api.replace_status({**stored, "status": claim["status"]})
    assert kept["status"] == claim["status"]
    assert kept["spec"] == claim["spec"]


def test_results_for_the_example_fleet_are_accepted(api: RestClient, tmp_path: Path) -> None:
    restore(api, manifests(FLEET))
    await_claims(api, pods=9)  # of two replicas of the StatefulSet one waits for the other
    written = allocated(dumped(api, tmp_path))
    placed = [claim for claim in of_kind(written, CLAIM) if "allocation" in claim["status"]]
    assert {name.partition("/")[0] for name in names(placed)} == {"inference", "research", "training"}
    assert names(of_kind(written, CLAIM)) - names(placed) == {"research/five-gpus"}
    assert len(placed) == 7
    for claim in placed:
        write_back(api, claim)
    again = {claim["metadata"]["uid"]: claim["status"] for claim in of_kind(allocated(dumped(api, tmp_path)), CLAIM)}
    assert [again[claim["metadata"]["uid"]] for claim in placed] == [claim["status"] for claim in placed]


@needs_inventories
def test_recorded_cluster_is_accepted_as_it_is(api: RestClient) -> None:
    recorded = manifests(INVENTORIES / "cluster.yaml")
    restore(api, recorded)
    for kind in (SLICE, CLASS):
        specs = {obj["metadata"]["name"]: obj["spec"] for obj in of_kind(recorded, kind)}
        assert {obj["metadata"]["name"]: obj["spec"] for obj in api.list(kind)} == specs
    labels = {obj["metadata"]["name"]: obj["metadata"]["labels"] for obj in of_kind(recorded, NODE)}
    assert {obj["metadata"]["name"]: obj["metadata"]["labels"] for obj in api.list(NODE)} == labels


@needs_inventories
def test_results_for_the_recorded_cluster_are_accepted(api: RestClient, tmp_path: Path) -> None:
    recorded = manifests(*RECORDED)
    restore(api, recorded)
    await_claims(api, pods=len(of_kind(recorded, POD)))
    # Packed: scores spread the pods that want one device, and leave too few nodes for those that want eight.
    written = allocated(dumped(api, tmp_path), "--policy=pack")
    placed = {pod["metadata"]["name"] for pod in of_kind(written, POD) if "nodeName" in pod["spec"]}
    wanted = {pod["metadata"]["name"] for pod in of_kind(recorded, POD)}
    assert {name for name in wanted if name.startswith(("infer-", "train-"))} <= placed
    claims = [claim for claim in of_kind(written, CLAIM) if "allocation" in claim["status"]]
    assert claims
    for claim in claims:
        write_back(api, claim)


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param((FLEET,), id="example fleet"),
        pytest.param(RECORDED, id="recorded cluster", marks=needs_inventories),
    ],
)
def test_every_version_of_a_dump_gives_the_same_result(
    api: RestClient, tmp_path: Path, inputs: tuple[Path, ...]
) -> None:
    objects = manifests(*inputs)
    restore(api, objects)
    await_claims(api, pods=9 if inputs == (FLEET,) else len(of_kind(objects, POD)))
    first, *others = [allocated(dumped(api, tmp_path, version)) for version in VERSIONS]
    assert any("allocation" in claim["status"] for claim in of_kind(first, CLAIM))
    assert others == [first, first]
