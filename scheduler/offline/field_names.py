"""The names of fields that decisions read: any other key of an object is one that somebody chose, or is not read.

Most are those of the types by which objects are read. Fields that are read without a type stand here by themselves.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, get_args, get_origin

from typing_extensions import is_typeddict

from allocator.api.attributes import AttributeFields
from allocator.api.capacity import CapacityFields
from allocator.api.device_class import ClassFields
from allocator.api.device_taint_rule import RuleFields
from allocator.api.resource_claim import ClaimFields, TemplateFields
from allocator.api.resource_slice import SliceFields
from scheduler.core_v1.object_fields import ObjectFields
from scheduler.offline.kept_texts import AMOUNTS, TIMES, WORDS

_OF_DEVICES = (AttributeFields, CapacityFields, ClassFields, RuleFields, ClaimFields, TemplateFields, SliceFields)

UNTYPED = frozenset(
    {
        *("items", "basic", "any", "allocationMultiplier", "nodeAllocatableResourceMappings"),
        *("action", "restartPolicyRules", "hostNetwork", "hostUsers", "ports", "protocol", "hostIP", "hostPort"),
        *("containerPort", "image", "images", "names", "reference", "sizeBytes", "ephemeralContainers"),
        *("containerName", "requestMappings", "requestName", "resourceName", "resourceClaim"),
        *("volumes", "persistentVolumeClaim", "claimName", "readOnly", "ephemeral", "volumeClaimTemplate", "volumeID"),
        *("awsElasticBlockStore", "azureDisk", "cinder", "gcePersistentDisk", "iscsi", "portworxVolume", "rbd"),
        *("pdName", "diskURI", "iqn", "monitors", "managed"),
        *("preferredAffinityTerms", "preferredAntiAffinityTerms", "requiredAffinityTerms", "requiredAntiAffinityTerms"),
        *("active", "instances", "numOfHosts", "minReplicas", "runPolicy", "groupName", "size"),
        *("leaderTemplate", "workerTemplate", "podTemplate", "podTemplateSpec", "podSpec"),
        *("claimCreationSpec", "claimSpec", "components", "services", "cores", "cpu", "memory", "sockets", "threads"),
        *("created", "custom", "dedicatedCpuPlacement", "deviceName", "domain", "draResources", "enabled", "hpa"),
        *("extraPodMetadata", "extraPodSpec", "gpu", "gpuMemoryService", "gpuType", "gpus", "guest", "hostDevices"),
        *("mainContainer", "multiNode", "multinode", "networks", "nodeCount", "pipeline", "runStrategy", "running"),
        "scale",
    }
)
"""Those that are read without a type."""


def _of_types() -> Iterator[str]:
    """The fields of all types that are read, and of the types within. Cost: O(types)."""
    rest: list[Any] = [ObjectFields, *_OF_DEVICES]  # Any: what annotates a field
    known = set[int]()
    while rest:
        one = rest.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        rest.extend(get_args(one))
        if isinstance(one, type) and (is_typeddict(one) or issubclass(one, ObjectFields)):
            yield from _annotations(one)
            rest.extend(_annotations(one).values())
            rest.extend(type.__subclasses__(one))


def _annotations(type_: type) -> Mapping[str, Any]:
    found: Mapping[str, Any] = vars(type_).get("__annotations__", {})
    return {name: one for name, one in found.items() if get_origin(one) is not ClassVar}


FIELDS = frozenset(_of_types()) | UNTYPED | WORDS.keys() | TIMES | AMOUNTS
