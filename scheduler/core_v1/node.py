"""Node, Namespace and PriorityClass: what decisions read of them."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from allocator.api import names
from allocator.api.findings import FieldError
from allocator.model import Image, Node, Taint
from scheduler.core_v1.object_fields import Int32, ObjectFields, ObjectMetaFields, metadata_errors, name_error, typed
from scheduler.core_v1.resources import Amount, amount_errors, objects

# Images: those that a pod needs, and those that a node has.
#
# Names are those of the container runtime: without a tag they mean the tag `latest`. Many nodes have the same images,
# so each name and each image is stored once. Fields are read leniently: an invalid entry counts as none. Source:
# k8s.io/api core/v1 ContainerImage, ImageVolumeSource.


_KEPT = 1 << 14

_MOST_BYTES = 2**60


def images_of_pod(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The image of each container, init container and image volume; empty for one that names none. spec: raw."""
    return tuple(sys.intern(_with_tag(name)) if isinstance(name, str) and name else "" for name in _named(spec))


def images_of_node(raw: Mapping[str, Any]) -> tuple[Image, ...]:
    """What the node says that it has."""
    status = raw.get("status")
    listed = objects(status, "images") if isinstance(status, dict) else ()
    pairs = ((one.get("names"), one.get("sizeBytes")) for one in listed)
    return tuple(
        _image(tuple(name for name in names if isinstance(name, str)), size)
        for names, size in pairs
        if isinstance(names, list) and isinstance(size, int) and 0 < size < _MOST_BYTES
    )


def _named(spec: Mapping[str, Any]) -> Iterator[object]:
    for kind in ("initContainers", "containers"):
        yield from (container.get("image") for container in objects(spec, kind))
    for volume in objects(spec, "volumes"):
        if isinstance(image := volume.get("image"), dict):
            yield image.get("reference")


def _with_tag(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


@lru_cache(maxsize=_KEPT)
def _image(names: tuple[str, ...], size: int) -> Image:
    return Image(tuple(map(sys.intern, names)), size)


# PriorityClasses: the priority of a pod that names a class, or none.
#
# The API server writes the number into each pod; a manifest only has the name. Source: k8s.io/api scheduling/v1
# PriorityClass, and the admission plugin Priority.


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A priority class by its name. is_default: for pods that name no class."""

    name: str
    value: int
    is_default: bool = False


BUILT_IN = (
    PriorityClass("system-cluster-critical", 2_000_000_000),
    PriorityClass("system-node-critical", 2_000_001_000),
)
"""The classes that every cluster has."""


class _PriorityClassFields(ObjectFields):
    metadata: ObjectMetaFields
    value: Int32
    globalDefault: bool | None = None  # noqa: N815 - the API's name


def decode_priority_class(raw: Mapping[str, object]) -> tuple[PriorityClass | None, tuple[FieldError, ...]]:
    """The class, or the errors."""
    fields, errors = typed(_PriorityClassFields, raw)
    if fields is None:
        return None, errors
    if errors := tuple(metadata_errors(fields.metadata)):
        return None, errors
    return PriorityClass(fields.metadata.name, fields.value, bool(fields.globalDefault)), ()


# Namespaces: their labels count, one of which permits admin access to devices, and whether they are going.
#
# Source: k8s.io/api core/v1 Namespace.


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace by its name."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    is_deleted: bool = False
    """It goes with all that is in it (metadata.deletionTimestamp): the API server takes nothing new, nor a binding."""


class _NamespaceFields(ObjectFields):
    metadata: ObjectMetaFields


def decode_namespace(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[Namespace | None, tuple[FieldError, ...]]:
    """The namespace, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_NamespaceFields, raw)
    if fields is None:
        return None, errors
    if validate and (errors := tuple(metadata_errors(fields.metadata))):
        return None, errors
    metadata = fields.metadata
    return Namespace(metadata.name, metadata.labels or {}, metadata.deletionTimestamp is not None), ()


# Nodes: the part of a Node that placement looks at.
#
# Source: k8s.io/api core/v1 Node.


class _NodeTaintFields(ObjectFields):
    key: str
    value: str | None = None
    effect: str


class _NodeSpecFields(ObjectFields):
    unschedulable: bool | None = None
    taints: list[_NodeTaintFields] | None = None


class _NodeStatusFields(ObjectFields):
    declaredFeatures: list[str] | None = None  # noqa: N815 - the API's name
    allocatable: dict[str, Amount] | None = None


class _NodeFields(ObjectFields):
    metadata: ObjectMetaFields
    spec: _NodeSpecFields | None = None
    status: _NodeStatusFields | None = None


_NO_FEATURES: frozenset[str] = frozenset()
"""The only instance that nodes without any need: a fleet has many."""


def decode_node(raw: Mapping[str, object], *, validate: bool = True) -> tuple[Node | None, tuple[FieldError, ...]]:
    """The node, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_NodeFields, raw)
    if fields is None:
        return None, errors
    spec, status = fields.spec or _NodeSpecFields(), fields.status or _NodeStatusFields()
    if validate and (errors := _errors(fields.metadata, spec, status)):
        return None, errors
    node = Node(
        name=fields.metadata.name,
        labels=fields.metadata.labels or {},
        taints=tuple(Taint(taint.key, taint.value or "", taint.effect) for taint in spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        declared_features=frozenset(status.declaredFeatures) if status.declaredFeatures else _NO_FEATURES,
        allocatable=status.allocatable or {},
        images=images_of_node(raw),
    )
    return node, ()


def _errors(metadata: ObjectMetaFields, spec: _NodeSpecFields, status: _NodeStatusFields) -> tuple[FieldError, ...]:
    return *metadata_errors(metadata), *_taint_errors(spec), *_status_errors(status)


def _taint_errors(spec: _NodeSpecFields) -> Iterator[FieldError]:
    for position, taint in enumerate(spec.taints or ()):
        yield from name_error(f"spec.taints[{position}].key", taint.key, names.label_key)
        yield from name_error(f"spec.taints[{position}].value", taint.value or "", names.label_value)


def _status_errors(status: _NodeStatusFields) -> Iterator[FieldError]:
    yield from amount_errors("status.allocatable", status.allocatable or {})


# Features of the kubelet that a pod needs, and that its node has to declare.
#
# Fields are read leniently: a field of a wrong type requires nothing. Features that only updates of a pod need do not
# matter to a scheduler. Source: KEP-5328; k8s.io/component-helpers nodedeclaredfeatures.


RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


def required_features_of(spec: Mapping[str, Any]) -> frozenset[str]:
    """The features that the pod needs. spec: raw."""
    return frozenset(_required(spec))


def _required(spec: Mapping[str, Any]) -> Iterator[str]:
    containers = (*objects(spec, "initContainers"), *objects(spec, "containers"))
    rules = (rule for container in containers for rule in objects(container, "restartPolicyRules"))
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        yield RESTART_ALL_CONTAINERS
    if spec.get("hostNetwork") is True and spec.get("hostUsers") is False:
        yield USER_NAMESPACES_ON_HOST_NETWORK
