"""A control plane whose API server gives up early, a door to the guard, and the guard behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import Binaries
from tests.controlplane.contents import clear
from tests.controlplane.door import Door, door
from tests.controlplane.guarded import LEASE, WEBHOOK, WEBHOOKS, install
from tests.controlplane.ours import Guard
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.profiles import chosen
from tests.controlplane.rest import RestClient
from tests.integration.guard.scene import PATIENT, REQUEST_TIMEOUT_S, await_answers, serve


@pytest.fixture(scope="session")
def impatient(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose API server gives up a request after ten seconds."""
    flags = {"kube-apiserver": [f"--request-timeout={REQUEST_TIMEOUT_S}s"]}
    with ControlPlane(binaries, tmp_path_factory.mktemp("impatient") / "plane", chosen(), flags=flags) as running:
        yield running


@pytest.fixture
def plane(impatient: ControlPlane) -> Iterator[ControlPlane]:
    """It, empty again afterwards."""
    yield impatient
    impatient.stop("kube-scheduler")
    clear(impatient)


@pytest.fixture
def way(api: RestClient) -> Iterator[Door]:
    """Where the API server asks about allocations from now on; nobody is there yet."""
    with door() as opened:
        install(api, opened.port)
        yield opened
        api.delete(WEBHOOKS, WEBHOOK)
        api.delete(LEASE, "dra-guard", "kube-system")


@pytest.fixture
def guard(plane: ControlPlane, way: Door, tmp_path: Path) -> Iterator[Guard]:
    """The guard, which answers; it leads on while the API server starts again, however slow this machine is."""
    config = tmp_path / "guard.yaml"
    config.write_text(PATIENT)
    running = serve(plane, way, free_ports(1)[0], f"--config={config}")
    try:
        await_answers(plane)
        yield running
    finally:
        running.stop()
