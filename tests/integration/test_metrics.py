"""Dashboards made for kube-scheduler read our metrics: same names, types, labels and bounds as its own."""

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from scheduler.runtime.metrics import AttemptResult, Metrics, Point, PointStatus, Reading
from tests.controlplane.binaries import Binaries
from tests.controlplane.contents import manifests, restore
from tests.controlplane.identities import STOCK
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.rest import POD
from tests.integration.conftest import FLEET, is_decided

READING = Reading({"active": 0}, {("mine", "NodeResourcesFit"): 0}, {"nodes": 0}, [], 0, 0, 0, 0, {}, {})


@pytest.fixture
def theirs(binaries: Binaries, tmp_path: Path) -> Iterator[dict[str, Metric]]:
    """What kube-scheduler tells when it has placed or refused each pod of the fleet; which ones, its order decides."""
    readable = {"kube-scheduler": ["--authorization-always-allow-paths=/healthz,/metrics"]}
    with ControlPlane(binaries, tmp_path / "plane", flags=readable) as plane:
        api = plane.client()
        restore(api, manifests(FLEET))
        (port,) = free_ports(1)
        plane.start_scheduler({}, port)
        api.await_all(POD, lambda pods: len(pods) == 9 and sum(map(is_decided, pods)) == 9)
        yield families(metrics_of(plane, port))


def metrics_of(plane: ControlPlane, port: int) -> str:
    """What the component says of itself."""
    tls = ssl.create_default_context(cafile=plane.folder / "kube-scheduler" / "kube-scheduler.crt")
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_S, context=tls)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {plane.token_file(STOCK).read_text()}"})
    with connection.getresponse() as answer:
        assert answer.status == 200
        text = answer.read().decode()
    connection.close()
    return text


DECISIONS = "scheduler_scheduling_algorithm_duration_seconds"
"""Has more bounds than theirs: decisions take less than a millisecond, where theirs begin."""


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def ours() -> dict[str, Metric]:
    """All that we tell under kube-scheduler's names."""
    metrics = Metrics(lambda: READING)
    metrics.attempted("mine", AttemptResult.SCHEDULED, 1)
    metrics.scheduled(1, 1)
    metrics.decided(1)
    metrics.passed("mine", Point.PRE_BIND, PointStatus.SUCCESS, 1)
    metrics.queued("active", "PodAdd")
    found = families(metrics.exposition("")[0].decode())
    return {name: family for name, family in found.items() if name.startswith("scheduler_")}


def shape(family: Metric) -> tuple[str, set[str]]:
    """Type, and names of labels."""
    return family.type, {name for sample in family.samples for name in sample.labels}


def bounds(family: Metric) -> set[float]:
    return {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}


def test_metrics_are_shaped_as_those_of_kube_scheduler(theirs: dict[str, Metric]) -> None:
    found = ours()
    assert len(found) == 12
    assert found.keys() - theirs.keys() == set()
    for name, family in found.items():
        assert shape(family) == shape(theirs[name]), name
        missing = [one for one in bounds(theirs[name]) if all(one != pytest.approx(own) for own in bounds(family))]
        assert not missing, name
        assert name == DECISIONS or len(bounds(family)) == len(bounds(theirs[name])), name
