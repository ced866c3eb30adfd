"""Subcommands that read a live cluster give the answers that they give on a dump of it, and only read."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scheduler.client import cluster_dump
from scheduler.client.cluster_dump import ListedResource, dump
from scheduler.client.connection import connect
from scheduler.client.discovery import discover
from tests.controlplane.contents import manifests, restore
from tests.controlplane.identities import TENANT
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import RestClient
from tests.integration.conftest import FLEET

DRA = Path(sys.executable).with_name("dra")

COMMANDS = (
    ("allocate", "-o", "yaml"),
    ("explain", "--all"),
    ("status", "-o", "json"),
    ("claims", "-o", "json"),
    ("audit", "--fail-on", "never"),
    ("lint", "--fail-on", "never"),
)


def dra(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DRA, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def fleet(api: RestClient) -> RestClient:
    """Devices, and what is in use of them; no controller creates anything for it."""
    files = ("nodes.yaml", "slices.yaml", "classes.yaml", "in-use.yaml")
    restore(api, [one for name in files for one in manifests(FLEET / name)])
    return api


def listed(plane: ControlPlane) -> Sequence[ListedResource]:
    async def read() -> Sequence[ListedResource]:
        async with connect(kubeconfig=plane.kubeconfig()) as connection:
            return [one async for one in dump(connection, await discover(connection))]

    return asyncio.run(read())


def numbers(found: Sequence[ListedResource]) -> dict[str, int]:
    return {one.resource.kind: len(one.objects) for one in found}


def saved(plane: ControlPlane, folder: Path) -> Path:
    path = folder / "dump.json"
    items = [found for one in listed(plane) for found in one.objects]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


@pytest.mark.usefixtures("fleet")
def test_a_live_cluster_gives_the_answers_of_its_dump(plane: ControlPlane, tmp_path: Path) -> None:
    path = saved(plane, tmp_path)
    for command in COMMANDS:
        live, of_dump = dra(*command, "--kubeconfig", plane.kubeconfig()), dra(*command, path)
        assert (live.stdout, live.returncode) == (of_dump.stdout, of_dump.returncode), command
        first, *rest = live.stderr.splitlines()
        assert first.startswith(f"reading context admin: {plane.server}, Kubernetes v1.")
        assert rest == of_dump.stderr.splitlines(), command


@pytest.mark.usefixtures("fleet")
def test_a_list_of_many_pages_is_the_whole_list(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = listed(plane)
    monkeypatch.setattr(cluster_dump, "PAGE", 1)
    assert [(one.resource, len(one.objects)) for one in listed(plane)] == [
        (one.resource, len(one.objects)) for one in whole
    ]
    assert min(numbers(whole)[kind] for kind in ("Node", "ResourceSlice", "DeviceClass")) > 1
    assert [one.problem for one in whole if one.problem] == []


def test_without_the_rights_the_call_that_is_refused_is_named(plane: ControlPlane) -> None:
    run = dra("status", "--kubeconfig", plane.kubeconfig(TENANT))
    assert (run.returncode, run.stdout) == (2, "")
    assert "403 Forbidden" in run.stderr
    assert "resourceslices" in run.stderr


def test_a_context_that_is_not_there_is_named(plane: ControlPlane) -> None:
    run = dra("claims", "--kubeconfig", plane.kubeconfig(), "--context", "absent")
    assert (run.returncode, run.stdout) == (2, "")
    assert "absent" in run.stderr
