"""kube-scheduler and our extender beside a control plane, one of each for a module, and an empty cluster for each test.

They speak mutual TLS. A module may say what it needs: `SETTINGS` of the extender's file. The extender runs with its own
rights, and what it asks of the API server goes through a proxy, which keeps a log.
"""

from collections.abc import Iterator

import pytest

from tests.controlplane.certificates import Certificates
from tests.controlplane.contents import clear, manifests, restore
from tests.controlplane.identities import EXTENDER
from tests.controlplane.ours import Extender
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process
from tests.controlplane.profiles import EVERY_VERSION
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import Json
from tests.integration.attempt.conftest import await_right
from tests.integration.conftest import ROOT, Planes
from tests.integration.extender.beside import Beside, Door, start_kube_scheduler
from tests.integration.extender.between import Between

RIGHTS = ROOT / "manifests" / "extender" / "base" / "extender-rbac.yaml"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def plane(planes: Planes) -> Iterator[ControlPlane]:
    """A control plane where the extender has the rights of the manifests, and no more."""
    running = planes.of(EVERY_VERSION)
    restore(running.client(), manifests(RIGHTS))
    await_right(running.client(EXTENDER), resource="resourceclaims", subresource="binding", is_given=True)
    yield running
    running.stop("kube-scheduler")
    clear(running)


@pytest.fixture(scope="module")
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    with Proxy(plane) as running:
        yield running


@pytest.fixture(scope="module")
def door(certificates: Certificates, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Door:
    """Where the module's extender listens."""
    return Door(certificates, tmp_path_factory.mktemp("extender"), getattr(request.module, "SETTINGS", {}))


@pytest.fixture(scope="module")
def extender(plane: ControlPlane, proxy: Proxy, door: Door) -> Iterator[Extender]:
    """The module's extender."""
    program = door.extender(plane, proxy)
    try:
        program.await_readyz()
        yield program
    finally:
        program.stop()


@pytest.fixture(scope="module")
def way(door: Door) -> Iterator[Between]:
    """Somebody who keeps what is said, for modules whose kube-scheduler takes this way."""
    with Between(door.port, door.certificates.context(door.certificates.client)) as running:
        yield running


@pytest.fixture
def between(way: Between) -> Between:
    """With the calls of this test."""
    way.calls.clear()
    return way


@pytest.fixture(scope="module")
def entry(door: Door) -> Json:
    """The extender as kube-scheduler is told of it."""
    return door.entry()


@pytest.fixture(scope="module")
def kube_scheduler(plane: ControlPlane, entry: Json) -> Iterator[Process]:
    """The module's kube-scheduler; it has a profile that keeps the plugin as well."""
    program = start_kube_scheduler(plane, entry, with_in_tree=True)
    yield program
    program.stop()


@pytest.fixture
def without_kube_scheduler(plane: ControlPlane, proxy: Proxy, extender: Extender, door: Door) -> Iterator[Beside]:
    """An empty cluster with the module's extender, which has to have kept the rules at the end; no kube-scheduler."""
    proxy.forget_rules()
    proxy.requests.clear()
    found = Beside(plane, proxy, extender, door)
    yield found
    found.check()
    clear(plane, with_rights=False)
    found.await_seen()


@pytest.fixture
def world(without_kube_scheduler: Beside, kube_scheduler: Process) -> Iterator[Beside]:
    """The same with the module's kube-scheduler, which has to be there at the end."""
    yield without_kube_scheduler
    assert kube_scheduler.is_running, kube_scheduler.tail()
