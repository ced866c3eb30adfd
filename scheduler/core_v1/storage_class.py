"""StorageClasses: who provisions volumes of a class, when, and on which nodes.

Source: k8s.io/api storage/v1 StorageClass, and its defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocator.api.findings import FieldError
from allocator.model import NodeSelector, Requirement, Term
from scheduler.core_v1.object_fields import AnnotatedFields, ObjectFields, metadata_errors, typed

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
_IMMEDIATE = "Immediate"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A class by its name. topologies: the nodes for which volumes can be provisioned, None for all.

    is_default: for new claims that name no class; created: RFC 3339, the newest of several is taken.
    """

    name: str
    provisioner: str = ""
    binding_mode: str = _IMMEDIATE
    topologies: NodeSelector | None = None
    is_default: bool = False
    created: str = ""

    @property
    def waits(self) -> bool:
        """Claims of the class are bound when a pod that uses them is placed."""
        return self.binding_mode == WAIT_FOR_FIRST_CONSUMER

    @property
    def provisions(self) -> bool:
        """Volumes are made for claims that find none."""
        return self.provisioner not in ("", NO_PROVISIONER)


class _LabelRequirementFields(ObjectFields):
    key: str
    values: list[str] | None = None


class _TopologyTermFields(ObjectFields):
    matchLabelExpressions: list[_LabelRequirementFields] | None = None  # noqa: N815 - the API's name


class _StorageClassFields(ObjectFields):
    metadata: AnnotatedFields
    provisioner: str = ""
    volumeBindingMode: str | None = None  # noqa: N815 - the API's name
    allowedTopologies: list[_TopologyTermFields] | None = None  # noqa: N815 - the API's name


def decode_storage_class(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[StorageClass | None, tuple[FieldError, ...]]:
    """The class, or the errors. validate: what the API server refuses is an error."""
    fields, errors = typed(_StorageClassFields, raw)
    if fields is None:
        return None, errors
    if validate and (errors := tuple(metadata_errors(fields.metadata))):
        return None, errors
    topologies = tuple(map(_term, fields.allowedTopologies or ()))
    mode = fields.volumeBindingMode or _IMMEDIATE
    return StorageClass(
        name=fields.metadata.name,
        provisioner=fields.provisioner,
        binding_mode=mode,
        topologies=topologies or None,
        is_default=any((fields.metadata.annotations or {}).get(name) == "true" for name in IS_DEFAULT),
        created=fields.metadata.creationTimestamp or "",
    ), ()


def _term(fields: _TopologyTermFields) -> Term:
    return Term(
        tuple(Requirement(one.key, "In", tuple(one.values or ())) for one in fields.matchLabelExpressions or ())
    )
