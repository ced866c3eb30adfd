"""The kinds that decisions read, one row for each: where they are, how they are read, and where they go.

Watches, the cluster, files, dumps and redaction take all that they need to know of a kind from its row. A new kind is a
row and its decoder, and whatever reads it.

Raw JSON is kept only for claims, because a write sends back fields that are unknown here; for other kinds it would take
most of the memory. managedFields are dropped: they are a third of an object, and the API server keeps its own if a
write omits them. Defaults and limits of resource.k8s.io are those of the API server, which may be newer than this
program: only types and unknown fields are checked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import orjson

from allocator.api import ClaimTemplate, TaintRule, decode
from allocator.api.allocation import Consumer
from allocator.api.decode import Decoded
from allocator.api.findings import FieldError
from allocator.api.metadata import Metadata
from allocator.api.schema import MOST_ERRORS
from allocator.model import Allocation, Claim, Container, DeviceClass, DeviceResult, Node, PoolID, Slice
from scheduler.client import api_resources
from scheduler.client.api_resources import Resource
from scheduler.client.raw_json import dumps, loads_leniently
from scheduler.client.watch_states import Decoder, Holder, Undecodable, holds_nothing
from scheduler.core_v1.node import Namespace, PriorityClass, decode_namespace, decode_node, decode_priority_class
from scheduler.core_v1.pod import Pod, decode_pod
from scheduler.core_v1.pod_group import (
    CompositePodGroup,
    PodGroup,
    decode_composite_pod_group,
    decode_pod_group,
)
from scheduler.core_v1.pod_selector import (
    PodDisruptionBudget,
    PodSelector,
    decode_disruption_budget,
    decode_pod_selector,
)
from scheduler.core_v1.storage_objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    decode_csi_driver,
    decode_csi_node,
    decode_csi_storage_capacity,
    decode_persistent_volume,
    decode_persistent_volume_claim,
    decode_storage_class,
    decode_volume_attachment,
)
from scheduler.state.cluster_changes import (
    ClassChanged,
    CSIDriverChanged,
    CSINodeChanged,
    CSIStorageCapacityChanged,
    Event,
    NamespaceChanged,
    NodeChanged,
    PersistentVolumeChanged,
    PersistentVolumeClaimChanged,
    PodGroupChanged,
    SliceChanged,
    StorageClassChanged,
    TaintRulesChanged,
    VolumeAttachmentChanged,
)
from scheduler.state.pods import ALL_ROOM

if TYPE_CHECKING:
    from scheduler.decision.cluster import Cluster  # with all that decides; whoever only reads files needs none of it

# Entries of status.resourceClaimStatuses that name no claim only because this program restored them once.
#
# An entry without a claim means that no claim is needed. But with server-side apply, the name and the claim of an entry
# have separate owners. If the controller creates another claim for an entry that was restored, it owns the claim alone,
# and the name together with us. When it next applies only other entries, it gives up the claim, and an entry without
# claim remains that nobody intended. Such an entry is unusable. Source: server-side apply; kubernetes issue 138407,
# observed on 1.36.3.


MANAGER = "dra-scheduler.dev/claim-statuses"
"""In whose name all our programs put entries back, so that each knows what another one did."""


def unusable_entries(managed_fields: object) -> frozenset[str]:
    """The names of the entries that are ours, of those that name no claim. managed_fields: of the pod's metadata."""
    found = managed_fields if isinstance(managed_fields, list) else ()
    ours = (one for one in found if isinstance(one, dict) and one.get("manager") == MANAGER)
    return frozenset(name for one in ours for name in _owned(one))


def _owned(managed: Mapping[str, Any]) -> Iterator[str]:
    """The names; what is not of the form that the API server writes owns nothing."""
    found: object = managed
    for name in ("fieldsV1", "f:status", "f:resourceClaimStatuses"):
        found = found.get(name) if isinstance(found, dict) else None
    for key in found if isinstance(found, dict) else ():
        if key.startswith("k:") and (name := _name_of(key.removeprefix("k:"))):
            yield name


def _name_of(key: str) -> str:
    try:
        found = orjson.loads(key)
    except orjson.JSONDecodeError:
        return ""
    name = found.get("name") if isinstance(found, dict) else None
    return name if isinstance(name, str) else ""


Raw = Mapping[str, Any]
Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)

UNFINISHED: Mapping[str, str] = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
"""Selects the pods that still need something; a pod that ends is reported as deleted."""


@dataclass(frozen=True, slots=True)
class WatchedClaim:
    """A claim. claim: what the allocator sees; data: JSON of the object in the version that is watched.

    error: why nothing but its devices is known, empty for a claim that can be read; unknown_pools: of which it has
    devices that nobody can name, a pool without a name for any of the driver's.
    """

    claim: Claim
    data: bytes
    metadata: Metadata = field(default_factory=Metadata)
    reserved_for: tuple[Consumer, ...] = ()
    error: str = ""
    unknown_pools: tuple[PoolID, ...] = ()

    @property
    def raw(self) -> Raw:
        """The object, read again where it is asked for: as text it takes a fifth of the memory, and is no garbage."""
        found = _read_again(self.data)
        assert isinstance(found, dict), found
        return found


_read_again = lru_cache(maxsize=8)(loads_leniently)
"""Hundreds of pods may share one claim, of a megabyte, and ask for it one after the other."""


def pod_of(raw: Raw) -> Pod:
    """The pod, without its raw form. Raises Undecodable, as all decoders here; they take managedFields out of `raw`."""
    managed_fields = _without_managed_fields(raw)
    pod = _decoded(*decode_pod(raw, keeps_raw=False))
    if None not in pod.claim_statuses.values():
        return pod
    unusable = unusable_entries(managed_fields)
    known = {entry: "" if name is None and entry in unusable else name for entry, name in pod.claim_statuses.items()}
    return replace(pod, claim_statuses=known)


def node_of(raw: Raw) -> Node:
    """The node."""
    _without_managed_fields(raw)
    return _decoded(*decode_node(raw))


def namespace_of(raw: Raw) -> Namespace:
    """The namespace."""
    _without_managed_fields(raw)
    return _decoded(*decode_namespace(raw))


def claim_of(raw: Raw, most_errors: int = MOST_ERRORS) -> WatchedClaim:
    """The claim, in any served version. most_errors: as `decode` takes it."""
    decoded = _trusted(raw, most_errors)
    claim = _as(Claim, decoded)
    if not claim.namespace:
        raise Undecodable("metadata.namespace: is required")
    # The others, of which there may be thousands, decide nothing; the API server has at most one that is.
    controllers = tuple(owner for owner in decoded.metadata.owners if owner.is_controller)
    return WatchedClaim(claim, _data(raw), replace(decoded.metadata, owners=controllers), decoded.reserved_for)


def _data(raw: Raw) -> bytes:
    try:
        # orjson gives a text with the room that it has written in: several times the text's own.
        return bytes(memoryview(dumps(raw)))
    except TypeError as error:
        raise Undecodable(f"it cannot be serialized: {error}") from error


def slice_of(raw: Raw) -> Slice:
    """The slice, in any served version."""
    return _as(Slice, _trusted(raw))


def class_of(raw: Raw) -> DeviceClass:
    """The class, in any served version."""
    return _as(DeviceClass, _trusted(raw))


def taint_rule_of(raw: Raw) -> TaintRule:
    """The rule, in any served version."""
    return _as(TaintRule, _trusted(raw))


def _trusted(raw: Raw, most_errors: int = MOST_ERRORS) -> Decoded:
    _without_managed_fields(raw)
    return decode(raw, validate=False, apply_defaults=False, most_errors=most_errors)


def _without_managed_fields(raw: Raw) -> object:
    """What they were; they are none of `raw` any more."""
    return raw["metadata"].pop("managedFields", None)


def _as(kind: type[Value], decoded: Decoded) -> Value:
    found = decoded.object
    if found is None:
        raise Undecodable(_text(decoded.errors))
    assert isinstance(found, kind), found
    return found


def _decoded(found: Value | None, errors: Iterable[FieldError]) -> Value:
    if found is None:
        raise Undecodable(_text(errors))
    return found


def _text(errors: Iterable[FieldError]) -> str:
    return "; ".join(map(str, errors))


# What an object that cannot be read still holds: devices of a claim, a pod's resources on its node.
#
# It is read field by field, since something is wrong with the object. What cannot be determined counts as held: the
# whole device if the claim has a share of it, the pool or driver of a device without a name, all resources of a node.


_A_CLAIM = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}


def held_by_claim(raw: Raw) -> WatchedClaim:
    """The claim with its devices, and the pools of which it has unknown devices."""
    results = list(_results(raw))
    known = tuple(found for one in results if (found := _device(one)))
    claim = Claim(*_names(raw), allocation=Allocation(known) if known else None)
    pools = dict.fromkeys(pool for one in results if not _device(one) and (pool := _pool(one)))
    return WatchedClaim(claim, b"{}", unknown_pools=tuple(pools))


def held_by_pod(raw: Raw) -> Pod | None:
    """The pod, which takes all the room of the node that it is on; None where it is on none."""
    node = _text_of(_map(raw, "spec"), "nodeName")
    if not node:
        return None
    return Pod(*_names(raw), node_name=node, containers=(Container("", ALL_ROOM),))


def _names(raw: Raw) -> tuple[str, str, str]:
    metadata = _map(raw, "metadata")
    return _text_of(metadata, "namespace"), _text_of(metadata, "name"), _text_of(metadata, "uid")


def _results(raw: Raw) -> Iterator[Raw]:
    found = _map(_map(_map(raw, "status"), "allocation"), "devices").get("results")
    yield from (one for one in (found if isinstance(found, list) else ()) if isinstance(one, dict))


def _device(result: Raw) -> DeviceResult | None:
    request, driver, pool, device = (_text_of(result, field) for field in ("request", "driver", "pool", "device"))
    if not (driver and pool and device):
        return None
    status = {"allocation": {"devices": {"results": [result]}}}
    read = decode({**_A_CLAIM, "status": status}, validate=False, apply_defaults=False).object
    if isinstance(read, Claim) and read.allocation:
        return read.allocation.results[0]
    return DeviceResult(request, driver, pool, device, admin_access=result.get("adminAccess") is True)


def _pool(result: Raw) -> PoolID | None:
    driver = _text_of(result, "driver")
    return PoolID(driver, _text_of(result, "pool")) if driver else None


def _map(holder: Raw, field: str) -> Raw:
    found = holder.get(field)
    return found if isinstance(found, dict) else {}


def _text_of(holder: Raw, field: str) -> str:
    found = holder.get(field)
    return found if isinstance(found, str) else ""


# The table.


class ObjectDecoder(Protocol[Value_co]):
    """Reads an object of a file, or of a watch that keeps nothing of its raw form."""

    def __call__(
        self, raw: Mapping[str, object], *, validate: bool = True
    ) -> tuple[Value_co | None, tuple[FieldError, ...]]:
        """The object, or the errors. validate: what the API server refuses is an error."""
        ...


def _goes_nowhere(_cluster: object, _found: object) -> None:
    """What the cluster learns of an object that it does not hold, or of a kind that `ClusterUpdates` knows itself."""


def _wakes_nobody(_old: object, _new: object) -> None:
    """The event of a kind that decides which node is better, but not whether there is one."""


OBJECTS = "objects"
"""The field of an inventory with the objects that have no list of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectKind(Generic[Value]):
    """A kind that decisions read."""

    resource: Resource
    """In the version that is used; of resource.k8s.io in the newest, of which the API server may serve an older one."""

    model: type[Value]
    """What an object becomes; several kinds may become the same."""

    decode: ObjectDecoder[Value] | None = None
    """Reads an object; None where files are read otherwise: by `allocator.api`, or as a workload."""

    watched: Decoder[Value] | None = None
    """Reads an object of a watch where that keeps more, or less, than `decode` reads."""

    is_watched: bool = True
    """False where only files and dumps hold it: what decides is the field that the API server fills in from it."""

    places_pods: bool = True
    """False where it decides which devices a claim can get, and not only where a pod can be."""

    selector: Mapping[str, str] = field(default_factory=dict)
    """Query parameters of the watch: which objects are watched."""

    holds: Holder = holds_nothing
    """What an object still holds in the cluster while it cannot be read."""

    put: "Callable[[Cluster, Value], object]" = _goes_nowhere
    """Tells the cluster that the object is there, or has changed."""

    drop: "Callable[[Cluster, Value], object]" = _goes_nowhere
    """Tells the cluster that the object is gone."""

    changed: Callable[[Value | None, Value | None], Event | None] = _wakes_nobody
    """The event that wakes pods: the object as it was, and as it is."""

    inventory: str = OBJECTS
    """The list of an `Inventory` with the objects of files; claims and templates stand there by name instead."""

    drivers_at: tuple[str, ...] = ()
    """Path to the names of drivers that an object publishes, which a redacted dump keeps."""

    @property
    def name(self) -> str:
        """As an object's kind spells it."""
        return self.resource.kind

    @property
    def watch_decoder(self) -> Decoder[Value]:
        """Reads an object of a watch."""
        if self.watched is not None:
            return self.watched
        assert self.decode is not None, f"nothing reads a {self.name} of a watch"
        return partial(_read, self.decode)


def _read(decode_object: ObjectDecoder[Value], raw: Raw) -> Value:
    return _decoded(*decode_object(raw, validate=False))


def _priority_class(
    raw: Mapping[str, object], *, validate: bool = True
) -> tuple[PriorityClass | None, tuple[FieldError, ...]]:
    del validate  # its value is needed in any case
    return decode_priority_class(raw)


def _pod_selector(resource: Resource, *, is_workload: bool) -> ObjectKind[PodSelector]:
    """Of a Service or a controller, by which pods are spread. is_workload: files are read for its pods as well."""
    decoder = partial(decode_pod_selector, resource.kind)
    return ObjectKind(
        resource=resource,
        model=PodSelector,
        decode=None if is_workload else decoder,
        watched=partial(_read, decoder),
        put=lambda cluster, one: cluster.selectors.set(one),
        drop=lambda cluster, one: cluster.selectors.remove(one),
    )


KINDS: Sequence[ObjectKind[Any]] = (  # Any: of each its own model
    ObjectKind(
        resource=api_resources.slices("v1"),
        model=Slice,
        watched=slice_of,
        places_pods=False,
        put=lambda cluster, one: cluster.set_slice(one),
        drop=lambda cluster, one: cluster.remove_slice(one.name),
        changed=SliceChanged,
        inventory="slices",
        drivers_at=("spec", "driver"),
    ),
    ObjectKind(
        resource=api_resources.classes("v1"),
        model=DeviceClass,
        watched=class_of,
        places_pods=False,
        put=lambda cluster, one: cluster.set_class(one),
        drop=lambda cluster, one: cluster.remove_class(one.name),
        changed=ClassChanged,
        inventory="classes",
    ),
    ObjectKind(
        resource=api_resources.claims("v1"),
        model=WatchedClaim,
        watched=claim_of,
        places_pods=False,
        holds=held_by_claim,
    ),
    ObjectKind(resource=api_resources.templates("v1"), model=ClaimTemplate, is_watched=False),
    ObjectKind(
        resource=api_resources.taint_rules("v1"),
        model=TaintRule,
        watched=taint_rule_of,
        places_pods=False,
        put=lambda cluster, one: cluster.set_taint_rule(one),
        drop=lambda cluster, one: cluster.remove_taint_rule(one.name),
        changed=lambda _old, _new: TaintRulesChanged(),
        inventory="taint_rules",
    ),
    ObjectKind(
        resource=api_resources.NODES,
        model=Node,
        decode=decode_node,
        watched=node_of,
        places_pods=False,
        put=lambda cluster, one: cluster.set_node(one),
        drop=lambda cluster, one: cluster.remove_node(one.name),
        changed=NodeChanged,
        inventory="nodes",
    ),
    ObjectKind(
        resource=api_resources.PODS,
        model=Pod,
        decode=decode_pod,
        watched=pod_of,
        places_pods=False,
        selector=UNFINISHED,
        holds=held_by_pod,
        inventory="pods",
    ),
    ObjectKind(
        resource=api_resources.NAMESPACES,
        model=Namespace,
        decode=decode_namespace,
        watched=namespace_of,
        places_pods=False,
        put=lambda cluster, one: cluster.set_namespace(one),
        drop=lambda cluster, one: cluster.remove_namespace(one.name),
        changed=NamespaceChanged,
    ),
    ObjectKind(resource=api_resources.PRIORITY_CLASSES, model=PriorityClass, decode=_priority_class, is_watched=False),
    ObjectKind(
        resource=api_resources.VOLUME_CLAIMS,
        model=PersistentVolumeClaim,
        decode=decode_persistent_volume_claim,
        put=lambda cluster, one: cluster.volumes.set_claim(one),
        drop=lambda cluster, one: cluster.volumes.remove_claim(one.key),
        changed=PersistentVolumeClaimChanged,
    ),
    ObjectKind(
        resource=api_resources.VOLUMES,
        model=PersistentVolume,
        decode=decode_persistent_volume,
        put=lambda cluster, one: cluster.volumes.set_volume(one),
        drop=lambda cluster, one: cluster.volumes.remove_volume(one.name),
        changed=PersistentVolumeChanged,
    ),
    ObjectKind(
        resource=api_resources.STORAGE_CLASSES,
        model=StorageClass,
        decode=decode_storage_class,
        put=lambda cluster, one: cluster.volumes.set_class(one),
        drop=lambda cluster, one: cluster.volumes.remove_class(one.name),
        changed=StorageClassChanged,
        drivers_at=("provisioner",),
    ),
    ObjectKind(
        resource=api_resources.CSI_NODES,
        model=CSINode,
        decode=decode_csi_node,
        put=lambda cluster, one: cluster.volumes.set_csi_node(one),
        drop=lambda cluster, one: cluster.volumes.remove_csi_node(one.name),
        changed=CSINodeChanged,
        drivers_at=("spec", "drivers", "name"),
    ),
    ObjectKind(
        resource=api_resources.CSI_DRIVERS,
        model=CSIDriver,
        decode=decode_csi_driver,
        put=lambda cluster, one: cluster.volumes.set_driver(one),
        drop=lambda cluster, one: cluster.volumes.remove_driver(one.name),
        changed=CSIDriverChanged,
        drivers_at=("metadata", "name"),
    ),
    ObjectKind(
        resource=api_resources.CSI_CAPACITIES,
        model=CSIStorageCapacity,
        decode=decode_csi_storage_capacity,
        put=lambda cluster, one: cluster.volumes.set_capacity(one),
        drop=lambda cluster, one: cluster.volumes.remove_capacity(one.key),
        changed=CSIStorageCapacityChanged,
    ),
    ObjectKind(
        resource=api_resources.ATTACHMENTS,
        model=VolumeAttachment,
        decode=decode_volume_attachment,
        put=lambda cluster, one: cluster.volumes.set_attachment(one),
        drop=lambda cluster, one: cluster.volumes.remove_attachment(one.name),
        changed=VolumeAttachmentChanged,
    ),
    ObjectKind(
        resource=api_resources.POD_GROUPS,
        model=PodGroup,
        decode=decode_pod_group,
        put=lambda cluster, one: cluster.pod_groups.set(one),
        drop=lambda cluster, one: cluster.pod_groups.remove(one),
        changed=PodGroupChanged,
    ),
    ObjectKind(
        resource=api_resources.COMPOSITE_POD_GROUPS,
        model=CompositePodGroup,
        decode=decode_composite_pod_group,
        put=lambda cluster, one: cluster.pod_groups.set(one),
        drop=lambda cluster, one: cluster.pod_groups.remove(one),
        changed=PodGroupChanged,
    ),
    ObjectKind(
        resource=api_resources.DISRUPTION_BUDGETS,
        model=PodDisruptionBudget,
        decode=decode_disruption_budget,
        put=lambda cluster, one: cluster.budgets.set(one),
        drop=lambda cluster, one: cluster.budgets.remove(one),
    ),
    _pod_selector(api_resources.SERVICES, is_workload=False),
    _pod_selector(api_resources.REPLICATION_CONTROLLERS, is_workload=True),
    _pod_selector(api_resources.REPLICA_SETS, is_workload=True),
    _pod_selector(api_resources.STATEFUL_SETS, is_workload=True),
)
"""All of them, in the order in which a dump lists them."""

BY_NAME: Mapping[str, ObjectKind[Any]] = {kind.name: kind for kind in KINDS}
BY_MODEL: Mapping[type[Any], ObjectKind[Any]] = {kind.model: kind for kind in KINDS}
IN_FILES: Mapping[tuple[str, str], ObjectKind[Any]] = {
    (kind.resource.group, kind.name): kind for kind in KINDS if kind.decode is not None
}
"""Those of which each object of a file becomes one of the model, by group and kind."""
