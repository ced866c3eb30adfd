"""A container uses a request that its claim does not have: it gets no device."""

from collections.abc import Iterator
from typing import Any

from allocator.did_you_mean import did_you_mean
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.resources import objects


def _check(manifests: Manifests) -> Iterator[Observation]:
    for one in manifests.pods:
        entries = {entry.name: entry for entry in one.pod.claims}
        for field, name, request in _used(one.pod):
            claim = manifests.named(one.pod, entries[name]) if name in entries else None
            known = [own.name for own in claim.requests] if claim else [request]
            if request not in known:
                text = f"claim {name} has no request {request}{did_you_mean(request, known)}"
                yield Observation(one.subject, text, f"{one.path}.{field}")


def _used(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """(field, entry of the pod, request) of each use of a part of a claim."""
    spec: Any = pod.raw.get("spec")
    for field in ("initContainers", "containers"):
        for number, container in enumerate(objects(spec, field) if isinstance(spec, dict) else ()):
            resources = container.get("resources")
            for position, use in enumerate(objects(resources, "claims") if isinstance(resources, dict) else ()):
                name, request = use.get("name"), use.get("request")
                if isinstance(name, str) and isinstance(request, str) and request:
                    yield f"{field}[{number}].resources.claims[{position}].request", name, request


UNKNOWN_REQUEST = Check(
    "unknown-request",
    FindingLevel.ERROR,
    "A container uses a request that the claim does not have.",
    "Name a request of the claim or template, or leave the request out: the container then uses all of the claim.",
    _check,
)
