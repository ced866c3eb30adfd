"""The metadata of an object, as far as a decision or a message depends on it.

Source: k8s.io/apimachinery meta/v1 ObjectMeta.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.findings import FieldError, Findings, step_text
from allocator.api.schema import Int64, Timestamp

ANNOTATIONS_MAX_BYTES = 256 * 1024

_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
"""Finalizers that the garbage collector reads, of which an object can have one."""

STANDARD_FINALIZERS = frozenset({_ORPHAN, _FOREGROUND, "kubernetes"})
"""Finalizers without a domain."""

_OF_TEMPLATES = frozenset({"labels", "annotations"})
"""Fields of the metadata in a template."""


class OwnerReferenceFields(TypedDict, total=False):
    """An entry of metadata.ownerReferences."""

    apiVersion: str | None
    kind: str | None
    name: str | None
    uid: str | None
    controller: bool | None
    blockOwnerDeletion: bool | None


class MetadataFields(TypedDict, total=False):
    """metadata; what no decision depends on is known, and left untyped."""

    name: str | None
    generateName: str | None
    namespace: str | None
    selfLink: object
    uid: str | None
    resourceVersion: str | None
    generation: Int64 | None
    creationTimestamp: Timestamp | None
    deletionTimestamp: Timestamp | None
    deletionGracePeriodSeconds: Int64 | None
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    ownerReferences: list[OwnerReferenceFields] | None
    finalizers: list[str] | None
    managedFields: object


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """An owner of an object; is_controller: the one that manages it."""

    kind: str
    name: str
    uid: str
    is_controller: bool = False


@dataclass(frozen=True, slots=True)
class Metadata:
    """Who an object is. Time stamps are RFC 3339 text, "" where absent."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[OwnerReference, ...] = ()


def check_metadata(fields: MetadataFields, *, is_namespaced: bool, findings: Findings) -> None:
    """The rules of an object's metadata; a namespace may be absent, as in a manifest that is applied to any."""
    if problem := names.object_name(fields.get("name") or "", fields.get("generateName") or ""):
        findings.error("metadata.name", fields.get("name"), problem)
    _check_namespace(fields.get("namespace") or "", is_namespaced=is_namespaced, findings=findings)
    check_labels(fields, "metadata", findings)
    finalizers = fields.get("finalizers") or ()
    for error in finalizer_errors(finalizers):
        findings.error(error.path, error.value, error.message)
    for position, finalizer in enumerate(finalizers):  # of other groups' kinds they may lack it
        if finalizer and "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            message = f"must have a domain, such as example.com/{finalizer}"
            findings.error(f"metadata.finalizers[{position}]", finalizer, message)


def check_template_metadata(fields: MetadataFields, path: str, findings: Findings) -> None:
    """The rules of the metadata in a template, which has labels and annotations only."""
    check_labels(fields, path, findings)
    for name, value in fields.items():
        is_unset = value is None or value == "" or (name, value) == ("generation", 0)
        if name not in _OF_TEMPLATES and not is_unset:
            findings.error(f"{path}.{name}", value, "must be absent: a template sets only labels and annotations")


def finalizer_errors(finalizers: Sequence[str]) -> Iterator[FieldError]:
    """The problems of metadata.finalizers."""
    for position, finalizer in enumerate(finalizers):
        if problem := names.label_key(finalizer):
            yield FieldError(f"metadata.finalizers[{position}]", finalizer or None, problem)
    if {_ORPHAN, _FOREGROUND} <= set(finalizers):
        yield FieldError("metadata.finalizers", finalizers, f"must not have both {_ORPHAN} and {_FOREGROUND}")


def owner_errors(owners: Sequence[Mapping[str, object]]) -> Iterator[FieldError]:
    """The problems of metadata.ownerReferences: what the API server requires of each, and of all of them."""
    for position, owner in enumerate(owners):
        at, version = f"metadata.ownerReferences[{position}]", str(owner.get("apiVersion") or "")
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                yield FieldError(f"{at}.{name}", None, "is required")
        if version.count("/") > 1 or version.endswith("/"):
            yield FieldError(f"{at}.apiVersion", version, "must be a version, or a group and a version")
        if (version, owner.get("kind")) == ("v1", "Event"):
            yield FieldError(f"{at}.kind", "Event", "must not be an Event: these own nothing")
    if sum(owner.get("controller") is True for owner in owners) > 1:
        yield FieldError("metadata.ownerReferences", None, "must not have several with controller: true")


def _check_namespace(namespace: str, *, is_namespaced: bool, findings: Findings) -> None:
    if namespace and not is_namespaced:
        findings.note("metadata.namespace", namespace, "is ignored: the kind has no namespaces")
    elif namespace and (problem := names.short_name(namespace)):
        findings.error("metadata.namespace", namespace, problem)


def check_labels(fields: MetadataFields, path: str, findings: Findings) -> None:
    """The rules of labels and annotations."""
    for key, value in (fields.get("labels") or {}).items():
        if problem := names.label_key(key):
            findings.error(f"{path}.labels", key, problem)
        if problem := names.label_value(value):
            findings.error(f"{path}.labels[{step_text(key)}]", value, problem)
    annotations = fields.get("annotations") or {}
    for key in annotations:
        if problem := names.label_key(key.lower()):
            findings.error(f"{path}.annotations", key, problem)
    total = sum(names.size(key) + names.size(value) for key, value in annotations.items())
    if total > ANNOTATIONS_MAX_BYTES:
        findings.error(f"{path}.annotations", total, f"must not take more than {ANNOTATIONS_MAX_BYTES} bytes in all")


def build_metadata(fields: MetadataFields | None) -> Metadata:
    """The metadata in the form that callers use."""
    fields = fields or {}
    return Metadata(
        name=fields.get("name") or "",
        namespace=fields.get("namespace") or "",
        uid=fields.get("uid") or "",
        resource_version=fields.get("resourceVersion") or "",
        creation_timestamp=fields.get("creationTimestamp") or "",
        deletion_timestamp=fields.get("deletionTimestamp") or "",
        labels=fields.get("labels") or {},
        annotations=fields.get("annotations") or {},
        owners=tuple(_owner(owner) for owner in fields.get("ownerReferences") or ()),
    )


def _owner(fields: OwnerReferenceFields) -> OwnerReference:
    name, uid = fields.get("name") or "", fields.get("uid") or ""
    return OwnerReference(fields.get("kind") or "", name, uid, is_controller=bool(fields.get("controller")))
