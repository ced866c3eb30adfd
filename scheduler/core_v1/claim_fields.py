"""The fields with which a pod asks for claims, where the API has none of that name: kubectl apply refuses them.

Of a pod, only what has to do with claims is known in full; of all else, fields are left to the API server.
Source: k8s.io/api core/v1 PodSpec, PodResourceClaim, ResourceRequirements, ResourceClaim.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from typing_extensions import TypedDict

from allocator.api.findings import UnknownField, step_text
from allocator.api.schema import advice_on_place
from allocator.words import similar
from scheduler.core_v1.resources import objects


class _ClaimOfContainer(TypedDict):
    name: str
    request: str


class _ResourcesOfContainer(TypedDict):
    limits: dict[str, object]
    requests: dict[str, object]
    claims: list[_ClaimOfContainer]


class _ContainerWithClaims(TypedDict):
    resources: _ResourcesOfContainer


class _ClaimOfPod(TypedDict):
    name: str
    source: object  # up to Kubernetes 1.30, reported as an error of its own
    resourceClaimName: str
    resourceClaimTemplateName: str


class _SpecWithClaims(TypedDict):
    resourceClaims: list[_ClaimOfPod]
    containers: list[_ContainerWithClaims]
    initContainers: list[_ContainerWithClaims]
    ephemeralContainers: list[_ContainerWithClaims]


class _PodWithClaims(TypedDict):
    spec: _SpecWithClaims


_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_ELSEWHERE = frozenset({"claims", "resourceClaims", "resourceClaimName", "resourceClaimTemplateName"})
_LIKE_CLAIMS = frozenset({"resources"})
"""Fields of their own that are like `resourceClaims`."""


def unknown_claim_fields(spec: Mapping[str, Any]) -> Iterator[UnknownField]:
    """The fields that are misplaced or misspelt. spec: of a pod, raw."""
    for path, name in _unknown(spec):
        at = f"{path}.{step_text(name)}"
        yield UnknownField(at, advice_on_place(f"{path}.{name}", _PodWithClaims))


def _unknown(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(object, name of the field in it)."""
    yield from (("spec", name) for name in spec if _is_misplaced(name) and name != "resourceClaims")
    for number, entry in enumerate(objects(spec, "resourceClaims")):
        yield from _others(f"spec.resourceClaims[{number}]", entry, _ClaimOfPod)
    for field in _CONTAINERS:
        for number, container in enumerate(objects(spec, field)):
            yield from _of_container(f"spec.{field}[{number}]", container)


def _of_container(path: str, container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from ((path, name) for name in container if _is_misplaced(name))
    resources = container.get("resources")
    if isinstance(resources, dict):
        yield from _others(f"{path}.resources", resources, _ResourcesOfContainer)
        for number, entry in enumerate(objects(resources, "claims")):
            yield from _others(f"{path}.resources.claims[{number}]", entry, _ClaimOfContainer)


@lru_cache(maxsize=1 << 10)
def _is_misplaced(name: object) -> bool:
    is_like = isinstance(name, str) and name not in _LIKE_CLAIMS and bool(similar(name, ["resourceClaims"]))
    return name in _ELSEWHERE or is_like


def _others(path: str, fields: Mapping[str, Any], type_: type) -> Iterator[tuple[str, str]]:
    """The fields that the type does not have."""
    yield from ((path, name) for name in fields if isinstance(name, str) and name not in type_.__annotations__)
