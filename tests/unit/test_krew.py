"""The plugin `kubectl dra` for krew: what krew accepts, and an archive that holds what the manifest says.

Source: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/, and krew's validation of manifests.
"""

import hashlib
import importlib.util
import io
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

KREW = Path(__file__).resolve().parents[2] / "manifests" / "krew"

SPEC = {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
PLATFORM = {"uri", "sha256", "selector", "files", "bin"}
OPERATORS = {"In", "NotIn", "Exists", "DoesNotExist"}


def problems(manifest: Mapping[str, Any]) -> list[str]:
    """Why krew would refuse the manifest: it reads strictly, and then validates."""
    spec = manifest["spec"]
    found = [
        manifest.keys() == {"apiVersion", "kind", "metadata", "spec"} or "unknown field",
        manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2" or "apiVersion",
        manifest["kind"] == "Plugin" or "kind",
        re.fullmatch(r"[\w-]+", manifest["metadata"]["name"]) is not None or "name",
        spec.keys() <= SPEC or "unknown field of spec",
        re.fullmatch(r"v\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?", spec["version"]) is not None or "version",
        (0 < len(spec["shortDescription"]) <= 50 and "\n" not in spec["shortDescription"]) or "shortDescription",
        bool(spec["platforms"]) or "platforms",
    ]
    return [
        str(one) for one in (*found, *(p for one in spec["platforms"] for p in of_platform(one))) if one is not True
    ]


def of_platform(platform: Mapping[str, Any]) -> list[Any]:
    expressions = platform["selector"]["matchExpressions"]
    return [
        platform.keys() <= PLATFORM or "unknown field of a platform",
        re.match(r"(https|file)://", platform["uri"]) is not None or "uri",
        re.fullmatch(r"[a-f0-9]{64}", platform["sha256"]) is not None or "sha256",
        (bool(platform["bin"]) and not platform["bin"].startswith("/") and ".." not in platform["bin"]) or "bin",
        all(one.keys() == {"from", "to"} and one["from"] and one["to"] for one in platform["files"]) or "files",
        all(one["key"] in ("os", "arch") and one["operator"] in OPERATORS for one in expressions) or "selector",
    ]


@pytest.fixture
def building() -> ModuleType:
    spec = importlib.util.spec_from_file_location("krew_archive", KREW / "archive.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_krew_accepts_the_manifest() -> None:
    assert problems(yaml.safe_load((KREW / "dra.yaml").read_text())) == []


def test_a_manifest_that_is_none_is_refused() -> None:
    broken = yaml.safe_load((KREW / "dra.yaml").read_text())
    broken["spec"]["platforms"][0]["sha256"] = "1"
    broken["spec"]["licence"] = "unknown"
    assert problems(broken) == ["unknown field of spec", "sha256"]


def test_the_archive_holds_what_the_manifest_names(building: ModuleType, tmp_path: Path) -> None:
    wheel = tmp_path / "dra_scheduler-1.2.3-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    packed = building.archive(wheel)
    assert packed == building.archive(wheel)
    found = building.manifest(packed, wheel, "https://example.com/dra.tar.gz")
    assert problems(found) == []
    assert found["spec"]["version"] == "v1.2.3"
    [platform] = found["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(packed).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        modes = {one.name: one.mode for one in tar.getmembers()}
    assert modes == {"kubectl-dra": 0o755, "requirements.txt": 0o644, "LICENSE": 0o644, wheel.name: 0o644}
    assert platform["bin"] in modes


def test_the_launcher_runs_what_is_installed_beside_it(tmp_path: Path) -> None:
    launcher = tmp_path / "kubectl-dra"
    launcher.write_bytes((KREW / "kubectl-dra").read_bytes())
    launcher.chmod(0o755)
    installed = tmp_path / "environment" / "bin" / "kubectl-dra"
    installed.parent.mkdir(parents=True)
    installed.write_text('#!/bin/sh\necho "called with $*"; exit 3\n')
    installed.chmod(0o755)
    (tmp_path / "installed").touch()
    link = tmp_path / "linked"
    link.symlink_to(launcher)  # as krew does
    run = subprocess.run([link, "status", "-n", "a b"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (3, "called with status -n a b\n")


def test_without_a_usable_python_the_launcher_says_so(tmp_path: Path) -> None:
    launcher = tmp_path / "kubectl-dra"
    launcher.write_bytes((KREW / "kubectl-dra").read_bytes())
    launcher.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": "/bin/false"}
    run = subprocess.run([launcher], capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 1
    assert not (tmp_path / "installed").exists()
