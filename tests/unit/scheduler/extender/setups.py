"""Configurations of kube-scheduler as raw objects, and what is found in them."""

from collections.abc import Mapping
from typing import Any

from allocator.gates import DEFAULT_RELEASE, RELEASES, Release
from scheduler.extender.configuration import Mode
from scheduler.kube_scheduler.configuration import KubeSchedulerConfiguration, read
from scheduler.kube_scheduler.conversion import Setup, document
from scheduler.kube_scheduler.traps import Judged, Trap, traps_of
from tests.unit.scheduler.manifests import Json

OFF = {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}


def a_setup(
    mode: Mode = Mode.AUTHORITATIVE,
    *schedulers: str,
    url: str = "https://extender:9443/v1",
    release: Release = RELEASES[DEFAULT_RELEASE],
) -> Setup:
    files = ("/pki/ca", "/pki/cert", "/pki/key")
    return Setup(mode, schedulers or ("dra",), url, *files, http_timeout_s=30, weight=5, release=release)


def a_document(mode: Mode = Mode.AUTHORITATIVE, *, extender: Mapping[str, Any] | None = None, **fields: Any) -> Json:
    """What is written for a setup, with fields changed; None takes one away. extender: those of our entry."""
    found = without_nones({**document(a_setup(mode)), **fields})
    ours, *others = found["extenders"]
    return {**found, "extenders": [without_nones({**ours, **(extender or {})}), *others]}


def without_nones(fields: Mapping[str, Any]) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def profiles(*plugins: Mapping[str, Any]) -> list[Json]:
    """Profiles a, b ... with these plugins."""
    return [{"schedulerName": name, "plugins": one} for name, one in zip("abcd", plugins, strict=False)]


def configuration(raw: Json) -> KubeSchedulerConfiguration:
    found, errors = read(raw)
    assert found is not None, errors
    return found


def found(
    raw: Json,
    *,
    number: int = 0,
    gates: Mapping[str, bool] | None = None,
    release: Release = RELEASES[DEFAULT_RELEASE],
) -> list[Trap]:
    return traps_of(Judged(configuration(raw), number, gates, release))


def places(raw: Json, **judged: Any) -> list[tuple[str, str, object]]:
    """Severity, path and value of each finding."""
    return [(trap.severity.value, trap.path, trap.value) for trap in found(raw, **judged)]
