"""The manifests of docs/migrate-from-device-plugins.md do in each step what the page says."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.cli.main import dra

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "manifests" / "examples" / "migration"


def placed(*files: str) -> tuple[str, list[str]]:
    """The node of the pod, and the devices of all claims."""
    result = CliRunner().invoke(dra, ["allocate", *(str(EXAMPLE / name) for name in files), "-o", "json"])
    assert result.exit_code == 0, result.output
    objects = json.loads(result.stdout)["items"]
    (node,) = (item["spec"]["nodeName"] for item in objects if item["kind"] == "Pod")
    claims = [item for item in objects if item["kind"] == "ResourceClaim"]
    return node, [one["device"] for claim in claims for one in claim["status"]["allocation"]["devices"]["results"]]


def cordoned(name: str, tmp_path: Path) -> str:
    """The path of the cluster with this node cordoned."""
    text = (EXAMPLE / "cluster.yaml").read_text()
    node = f"metadata: {{name: {name}}}\n"
    assert node in text
    path = tmp_path / "cluster.yaml"
    path.write_text(text.replace(node, f"{node}spec: {{unschedulable: true}}\n"))
    return str(path)


def test_device_plugin_provides_the_extended_resource_without_a_claim(tmp_path: Path) -> None:
    assert placed(cordoned("new-gpu", tmp_path), "class.yaml", "extended-resource.yaml") == ("old-gpu", [])


def test_class_provides_it_on_nodes_with_the_driver(tmp_path: Path) -> None:
    assert placed(cordoned("old-gpu", tmp_path), "class.yaml", "extended-resource.yaml") == ("new-gpu", ["gpu-0"])


def test_without_the_class_the_pod_waits_for_no_device(tmp_path: Path) -> None:
    files = [cordoned("old-gpu", tmp_path), str(EXAMPLE / "extended-resource.yaml")]
    result = CliRunner().invoke(dra, ["allocate", *files])
    assert "no pending pod or claim in the input" in result.stderr


def test_claim_selects_a_device_by_its_attributes() -> None:
    assert placed("cluster.yaml", "class.yaml", "claim.yaml") == ("new-gpu", ["gpu-0"])


@pytest.mark.parametrize("name", ["cluster.yaml", "class.yaml", "extended-resource.yaml", "claim.yaml"])
def test_page_names_each_manifest(name: str) -> None:
    assert name in (ROOT / "docs" / "migrate-from-device-plugins.md").read_text()
