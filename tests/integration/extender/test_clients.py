"""Who may call: kube-scheduler with the right certificate, and nobody else. Whoever may not gets no pod bound."""

import json
import ssl
from collections.abc import Callable

import pytest

from tests.controlplane.certificates import Certificates, CertificatesPair
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import Json
from tests.integration.extender.beside import Beside, start_kube_scheduler
from tests.integration.extender.between import call

BIND = {"PodName": "pod", "PodNamespace": "live", "PodUID": "unknown", "Node": "node-0"}

TlsConfig = Callable[[Certificates], Json]

STRANGERS: dict[str, tuple[TlsConfig, str]] = {
    "of another authority": (lambda made: made.tls_of_scheduler(made.stranger()), "tls: unknown certificate authority"),
    "of another name": (lambda made: made.tls_of_scheduler(made.client_named("somebody")), "code 403"),
    "none at all": (lambda made: {"caFile": str(made.server_ca)}, "tls: certificate required"),
}
"""How kube-scheduler says who it is, and what it then tells of its calls."""


@pytest.fixture
def world(without_kube_scheduler: Beside) -> Beside:
    """A cluster without kube-scheduler: each test starts its own."""
    return without_kube_scheduler


def bind(world: Beside, client: CertificatesPair | None) -> tuple[int, str]:
    """Status and error of a call of bind."""
    status, body = call(world.door.port, world.door.certificates.context(client), "bind", json.dumps(BIND).encode())
    return status, json.loads(body)["Error"]


def test_client_with_the_right_certificate_is_answered(world: Beside) -> None:
    assert bind(world, world.door.certificates.client) == (200, "pod live/pod with uid unknown no longer exists")


def test_client_without_a_certificate_is_refused_before_it_can_ask(world: Beside) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        bind(world, None)


def test_client_of_another_authority_is_refused_before_it_can_ask(world: Beside) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        bind(world, world.door.certificates.stranger())


def test_client_whose_name_is_not_on_the_list_is_shown_so(world: Beside) -> None:
    status, error = bind(world, world.door.certificates.client_named("somebody"))
    assert status == 403
    assert "somebody" in error


@pytest.mark.parametrize("stranger", STRANGERS)
def test_kube_scheduler_with_a_certificate_that_may_not_call_binds_no_pod(
    plane: ControlPlane, world: Beside, stranger: str
) -> None:
    world.a_cluster()
    world.a_claim()
    tls_config, reported = STRANGERS[stranger]
    entry = world.door.entry(tlsConfig=tls_config(world.door.certificates))
    kube_scheduler = start_kube_scheduler(plane, entry)
    try:
        world.a_pod("pod", "claim")
        world.a_pod("without")
        for name in ("pod", "without"):
            assert world.refused(name, reported)["reason"] == "SchedulerError"
    finally:
        kube_scheduler.stop()
    again = start_kube_scheduler(plane, world.door.entry())
    try:
        assert world.devices_of() == ["node-0/gpu-0"]
        world.bound("without")
    finally:
        again.stop()
