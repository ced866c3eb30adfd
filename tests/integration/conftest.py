"""A real control plane for tests: started once for each profile that is asked for, cleared after each test.

CONTROL_PLANE_PROFILE names another one for the tests that ask for nothing in particular. Those are skipped whose
features it lacks, which `needs` names by their gates or API versions, and those that ask for a profile of their own.
Without the programs, and without Go to build them, the tests that need them are skipped, and one line at the end says
how to get them.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.controlplane.binaries import HOW_TO_GET, Binaries, find, is_at_hand
from tests.controlplane.contents import clear
from tests.controlplane.plane import ControlPlane
from tests.controlplane.profiles import ALL, EVERY_VERSION, ControlPlaneProfile, chosen
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import Json, RestClient

ROOT = Path(__file__).resolve().parents[2]
FLEET = ROOT / "manifests" / "examples" / "fleet"


def is_decided(pod: Json) -> bool:
    """Whether the scheduler has looked at it, or it has had its node from the start."""
    return "conditions" in pod["status"] or "nodeName" in pod["spec"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(*names): gates and API versions that the test expects of the control plane"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    is_here, profile = is_at_hand(os.environ), chosen()
    for item in items:
        if needs_programs(item) and (reason := _obstacle(item, profile) if is_here else "no control plane at hand"):
            item.add_marker(pytest.mark.skip(reason=reason))


def _obstacle(item: pytest.Item, profile: ControlPlaneProfile) -> str:
    """Why the test cannot run against the profile; empty if it can."""
    needed = {gate for mark in item.iter_markers("needs") for gate in mark.args}
    if lacking := sorted(needed & profile.lacks):
        return f"the profile {profile.name} lacks {', '.join(lacking)}"
    if profile is not EVERY_VERSION and hasattr(getattr(item, "module", None), "PROFILE"):
        return "it has a profile of its own"
    return ""


def needs_programs(item: pytest.Item) -> bool:
    return "binaries" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """The last word, after pytest's own list of what was skipped."""
    yield
    if not is_at_hand(os.environ):
        terminalreporter.write_line(f"Integration tests did not run: {HOW_TO_GET}", yellow=True, bold=True)


class Planes:
    """The running control planes, by profile."""

    def __init__(self, binaries: Binaries, folder: Path, stack: ExitStack) -> None:
        self._binaries = binaries
        self._folder = folder
        self._stack = stack
        self._running: dict[str, ControlPlane] = {}

    def of(self, profile: ControlPlaneProfile) -> ControlPlane:
        """The control plane of the profile, or of the one chosen in place of the usual; started if it does not run."""
        if profile is EVERY_VERSION:
            profile = chosen()
        if profile.name not in self._running:
            plane = ControlPlane(self._binaries, self._folder / profile.name, profile)
            self._running[profile.name] = self._stack.enter_context(plane)
        return self._running[profile.name]


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Binaries:
    """The programs of a control plane; building them is told past pytest's capture, since it takes minutes."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def tell(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", file=sys.stderr, flush=True)  # noqa: T201 - a person waits for this

    return find(os.environ, tell)


@pytest.fixture
def kubectl(binaries: Binaries) -> Path:
    """kubectl, of which the kustomization is a part."""
    if binaries.kubectl is None:
        pytest.skip("no kubectl in KUBEBUILDER_ASSETS")
    return binaries.kubectl


@pytest.fixture(scope="session")
def planes(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    with ExitStack() as stack:
        yield Planes(binaries, tmp_path_factory.mktemp("controlplane"), stack)


@pytest.fixture
def plane(planes: Planes) -> Iterator[ControlPlane]:
    """A control plane with the gates of a cluster as it comes, and every API version; empty again afterwards."""
    running = planes.of(EVERY_VERSION)
    yield running
    running.stop("kube-scheduler")  # it would place the next test's pods
    clear(running)


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    """A way to `plane` that does wrong what the test asks for."""
    with Proxy(plane) as running:
        yield running


@pytest.fixture
def api(plane: ControlPlane) -> RestClient:
    """The administrator's client of `plane`."""
    return plane.client()


@pytest.fixture
def api_with_all_gates(planes: Planes) -> Iterator[RestClient]:
    """The administrator's client of a control plane where DRA's alphas are on; empty again afterwards."""
    running = planes.of(ALL)
    yield running.client()
    clear(running)
