"""DeviceClasses: selectors and configuration that requests refer to by name.

Source: k8s.io/api resource/v1 DeviceClass and its validation.
"""

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.driver_config import (
    CONFIG_MAX,
    ClassConfigFields,
    SelectorFields,
    build_class_config,
    build_selectors,
    check_count,
    check_opaque,
    check_selectors,
)
from allocator.api.findings import Findings
from allocator.api.metadata import MetadataFields, check_metadata
from allocator.model import DeviceClass


class ClassSpecFields(TypedDict, total=False):
    """spec of a DeviceClass."""

    selectors: list[SelectorFields] | None
    config: list[ClassConfigFields] | None
    extendedResourceName: str | None


class ClassFields(TypedDict, total=False):
    """A DeviceClass."""

    apiVersion: str
    kind: str
    metadata: MetadataFields | None
    spec: ClassSpecFields | None


def check_class(fields: ClassFields, findings: Findings) -> None:
    """The rules of a class."""
    check_metadata(fields.get("metadata") or {}, is_namespaced=False, findings=findings)
    spec = fields.get("spec") or {}
    check_selectors(spec.get("selectors"), "spec.selectors", findings)
    config = spec.get("config") or ()
    check_count(len(config), CONFIG_MAX, "spec.config", findings)
    for index, entry in enumerate(config):
        check_opaque(entry.get("opaque"), f"spec.config[{index}]", findings)
    resource = spec.get("extendedResourceName")
    if resource is not None and (problem := names.extended_resource_name(resource)):
        findings.error("spec.extendedResourceName", resource, problem)


def build_class(fields: ClassFields, findings: Findings) -> DeviceClass:
    """The class in the allocator's form."""
    metadata, spec = fields.get("metadata") or {}, fields.get("spec") or {}
    return DeviceClass(
        name=metadata.get("name") or "",
        selectors=build_selectors(spec.get("selectors")),
        config=build_class_config(spec.get("config")),
        extended_resource_name=spec.get("extendedResourceName") or "",
        creation_timestamp=metadata.get("creationTimestamp") or "",
        unknown_fields=findings.carried_by("spec"),
    )
