"""A cluster for each test, where our identity has the rights of the manifests."""

from collections.abc import Iterator

import pytest

from scheduler.client import connection
from tests.controlplane.contents import clear
from tests.controlplane.identities import OURS
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.profiles import EVERY_VERSION
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import Kind, RestClient
from tests.controlplane.rights import grant
from tests.integration.attempt.scene import Scene
from tests.integration.conftest import Planes

REVIEW = Kind("authorization.k8s.io/v1", "SelfSubjectAccessReview")


@pytest.fixture(scope="module")
def granted(planes: Planes) -> Iterator[ControlPlane]:
    """A control plane where our identity has its rights."""
    running = planes.of(EVERY_VERSION)
    grant_and_await(running)
    yield running
    clear(running)


@pytest.fixture
def plane(granted: ControlPlane) -> Iterator[ControlPlane]:
    yield granted
    granted.stop("kube-scheduler")
    clear(granted, with_rights=False)


@pytest.fixture
def scene(plane: ControlPlane, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(connection, "WRITE_TIMEOUT_S", 4.0)  # else a write that is held takes more than a minute
    return Scene(plane, proxy)


def grant_and_await(plane: ControlPlane) -> None:
    """Give our identity its rights; the API server knows of them then."""
    grant(plane.client())
    for subresource in ("binding", "status"):
        await_right(plane.client(OURS), resource="resourceclaims", subresource=subresource, is_given=True)


def await_right(
    ours: RestClient,
    *,
    resource: str,
    subresource: str,
    is_given: bool,
    group: str = "resource.k8s.io",
    verb: str = "update",
) -> None:
    """Ask until the API server's authorizer has seen that the right was given, or taken away."""
    right = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    review = {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "metadata": {}}
    poll_until(
        lambda answer: answer["status"]["allowed"] == is_given,
        lambda: ours.create({**review, "spec": {"resourceAttributes": right}}),
        f"{resource}/{subresource}: the right is {is_given}",
    )
