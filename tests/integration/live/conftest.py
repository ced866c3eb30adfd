"""Our scheduler beside a control plane, one for each module, and an empty cluster for each test.

A module may say what it needs: `PROFILE` of the control plane, `SETTINGS` of the scheduler's file. The scheduler runs
as in a cluster, with the rights of the manifests; all that it asks for goes through a proxy, which keeps a log.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.controlplane.contents import clear
from tests.controlplane.identities import OURS
from tests.controlplane.ours import Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.profiles import EVERY_VERSION
from tests.controlplane.proxy import Proxy
from tests.controlplane.rights import grant
from tests.integration.attempt.conftest import await_right
from tests.integration.conftest import Planes
from tests.integration.live.replicas import LEASE, SHORT, Start
from tests.integration.live.world import World, settings_file


@pytest.fixture(scope="module")
def plane(planes: Planes, request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane where our identity has its rights."""
    running = planes.of(getattr(request.module, "PROFILE", EVERY_VERSION))
    grant(running.client())
    await_right(running.client(OURS), resource="resourceclaims", subresource="binding", is_given=True)
    yield running
    running.stop("kube-scheduler")
    clear(running)


@pytest.fixture(scope="module")
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    with Proxy(plane) as running:
        yield running


@pytest.fixture(scope="module")
def program(
    plane: ControlPlane, proxy: Proxy, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    """The module's scheduler."""
    file = settings_file(tmp_path_factory.mktemp("settings"), **getattr(request.module, "SETTINGS", {}))
    name = f"dra-scheduler-{request.module.__name__.rpartition('.')[2]}"
    with scheduler(plane, [f"--config={file}"], kubeconfig=proxy.kubeconfig(OURS), name=name) as running:
        yield running


@pytest.fixture
def world(plane: ControlPlane, proxy: Proxy, program: Scheduler) -> Iterator[World]:
    """An empty cluster with the module's scheduler, which has to have kept its rules at the end."""
    proxy.forget_rules()
    proxy.requests.clear()
    found = World(plane, proxy, program)
    yield found
    found.check()
    clear(plane, with_rights=False)
    found.await_seen()


@pytest.fixture
def start(plane: ControlPlane, proxy: Proxy, tmp_path: Path) -> Iterator[Start]:
    """Starts a replica, by default as it comes but for its durations; it is ready."""
    proxy.requests.clear()
    with ExitStack() as running:

        def start(name: str, durations: Mapping[str, float] = SHORT, *, is_proxied: bool = False) -> Scheduler:
            file = settings_file(tmp_path, leaderElection=durations)
            kubeconfig = proxy.kubeconfig(OURS) if is_proxied else None
            program = Scheduler(plane, [f"--config={file}"], kubeconfig=kubeconfig, name=name)
            running.callback(program.kill)
            program.await_readyz()
            return program

        yield start
    proxy.forget_rules()
    clear(plane, with_rights=False)
    plane.client().delete(LEASE, "dra-scheduler", "kube-system")
