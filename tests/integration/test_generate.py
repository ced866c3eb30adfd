"""A generated fleet and workload on a real API server."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.controlplane.contents import ensure_namespace
from tests.controlplane.rest import Json, RestClient

DRA = Path(sys.executable).with_name("dra")


def generated(*options: str) -> list[Json]:
    command: list[str | Path] = [DRA, "generate", "--namespace=generated", *options]
    done = subprocess.run(command, capture_output=True, check=True)
    return [orjson.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("claims", [(), ("--claims",)], ids=["templates", "claims"])
def test_every_machine_and_shape_is_accepted_as_it_is(api: RestClient, claims: tuple[str, ...]) -> None:
    """Strictly validated, without a field that the server drops or fills in, but for defaults."""
    ensure_namespace(api, "generated")
    found = generated(
        "--preset=mixed",
        "--machines=cpu=1,gpu-a100=1,mig-a100=2,mig-a100-80gb=2,mig-h100=2,nic-h100=2,shared-h100=2",
        "--nodes=60",
        "--pods=60",
        *claims,
    )
    machines = {one["metadata"]["labels"]["node.kubernetes.io/instance-type"] for one in found if one["kind"] == "Node"}
    assert len(machines) == 7
    for one in found:
        stored = api.create(one, is_dry=True)
        if one["kind"] == "ResourceSlice":
            assert stored["spec"] == one["spec"]
