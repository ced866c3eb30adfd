"""Subcommands that read a live cluster give the answers that they give on a dump of it, and only read."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scheduler.client import discovery
from scheduler.client.connection import connect
from scheduler.client.discovery import ListedResource, discover, dump
from scheduler.kinds import KINDS
from tests.controlplane.contents import manifests, restore
from tests.controlplane.identities import TENANT, Identity
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import RestClient
from tests.integration.conftest import FLEET
from tests.unit.scheduler.cli.command import without_progress
from tests.unit.scheduler.manifests import a_claim, a_request

DRA = Path(sys.executable).with_name("dra")

COMMANDS = (
    ("allocate", "-o", "yaml"),
    ("explain", "--all"),
    ("status", "-o", "json"),
    ("claims", "-o", "json"),
    ("audit", "--fail-on", "never"),
    ("lint", "--fail-on", "never"),
    ("fit", "claim/research/notebook-gpu", "-o", "json"),
    ("whatif", "--overlay", "cordon:gpu-a", "-o", "json"),
)

READ_ONLY = ("get", "list", "watch")


def dra(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DRA, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def fleet(api: RestClient) -> RestClient:
    """Devices, what is in use of them, and a claim that waits; no controller creates anything for it."""
    files = ("nodes.yaml", "slices.yaml", "classes.yaml", "in-use.yaml")
    waiting = a_claim("waiting", a_request(device_class="gpu.example.com"), namespace="research")
    restore(api, [*(one for name in files for one in manifests(FLEET / name)), waiting])
    return api


RESOURCES = [kind.resource for kind in KINDS]


def listed(plane: ControlPlane) -> Sequence[ListedResource]:
    async def read() -> Sequence[ListedResource]:
        async with connect(kubeconfig=plane.kubeconfig()) as connection:
            return [one async for one in dump(connection, await discover(connection), RESOURCES)]

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
        live = dra(*command, "--kubeconfig", plane.kubeconfig())
        first, *rest = without_progress(live.stderr).splitlines()
        assert first.startswith(f"reading context admin: {plane.server}, Kubernetes v1.")
        release = first.partition(", Kubernetes v")[2].rpartition(".")[0]
        of_dump = dra(*command, path, "--kubernetes", release)
        assert (live.stdout, live.returncode) == (of_dump.stdout, of_dump.returncode), command
        assert rest == without_progress(of_dump.stderr).splitlines(), command


def allow_reading(api: RestClient, identity: Identity) -> None:
    """Give the identity the rights to read everything, and no other."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    about = {"apiVersion": f"{role['apiGroup']}/v1", "metadata": {"name": "reader"}}
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": list(READ_ONLY)}]
    user = {"apiGroup": role["apiGroup"], "kind": "User", "name": identity.user}
    restore(api, [{**about, "kind": "ClusterRole", "rules": rules}])
    restore(api, [{**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [user]}])


def test_every_command_needs_the_rights_to_read_and_no_other(plane: ControlPlane, fleet: RestClient) -> None:
    allow_reading(fleet, TENANT)
    for command in COMMANDS:
        run = dra(*command, "--kubeconfig", plane.kubeconfig(TENANT))
        assert run.returncode in (0, 1), (command, run.stderr)
        assert "cannot be read" not in run.stderr, command
        assert run.stdout or " rules: 0 errors" in run.stderr, command


@pytest.mark.usefixtures("fleet")
def test_the_release_is_that_of_the_server_unless_another_is_chosen(plane: ControlPlane) -> None:
    access = ("--kubeconfig", plane.kubeconfig())
    ours = dra("status", *access, "-v").stderr.splitlines()
    assert ours[0].startswith(f"reading context admin: {plane.server}, Kubernetes v1.36")
    assert ours[1].startswith("features in force: Kubernetes 1.36: ")
    chosen = dra("status", *access, "-v", "--kubernetes", "1.34").stderr
    assert "features in force: Kubernetes 1.34: " in chosen


@pytest.mark.usefixtures("fleet")
def test_a_list_of_many_pages_is_the_whole_list(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = listed(plane)
    monkeypatch.setattr(discovery, "PAGE", 1)
    assert [(one.resource, len(one.objects)) for one in listed(plane)] == [
        (one.resource, len(one.objects)) for one in whole
    ]
    assert min(numbers(whole)[kind] for kind in ("Node", "ResourceSlice", "DeviceClass")) > 1
    assert [one.problem for one in whole if one.problem] == []


def test_all_kinds_are_read_as_of_one_moment_whatever_changes_meanwhile(
    plane: ControlPlane, fleet: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "PAGE", 1)
    before = numbers(listed(plane))

    async def read() -> Sequence[ListedResource]:
        async with connect(kubeconfig=plane.kubeconfig()) as connection:
            found = dump(connection, await discover(connection), RESOURCES)
            first = await anext(found)
            restore(fleet, [a_claim("late", a_request(device_class="gpu.example.com"), namespace="research")])
            return [first, *[one async for one in found]]

    found = asyncio.run(read())
    assert numbers(found) == before
    assert len({one.moment for one in found}) == 1
    assert numbers(listed(plane))["ResourceClaim"] == before["ResourceClaim"] + 1


def test_without_the_rights_the_call_that_is_refused_is_named(plane: ControlPlane) -> None:
    run = dra("status", "--kubeconfig", plane.kubeconfig(TENANT))
    assert (run.returncode, run.stdout) == (2, "")
    assert "403 Forbidden" in run.stderr
    assert "resourceslices" in run.stderr


def test_a_context_that_is_not_there_is_named(plane: ControlPlane) -> None:
    run = dra("claims", "--kubeconfig", plane.kubeconfig(), "--context", "absent")
    assert (run.returncode, run.stdout) == (2, "")
    assert "absent" in run.stderr
