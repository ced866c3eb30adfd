"""The kinds that are watched, and which of their values are kept: those that decisions read.

Raw JSON is kept only for claims, because a write sends back fields that are unknown here; for other kinds it would take
most of the memory. managedFields are dropped: they are a third of an object, and the API server keeps its own if a
write omits them. Defaults and limits of resource.k8s.io are those of the API server, which may be newer than this
program: only types and unknown fields are checked.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import orjson

from allocator.api import TaintRule, decode
from allocator.api.allocation import Consumer
from allocator.api.decode import Decoded
from allocator.api.field_types import MOST_ERRORS
from allocator.api.findings import FieldError
from allocator.api.metadata import Metadata
from allocator.model import Claim, DeviceClass, Node, PoolID, Slice
from scheduler.cache.watch_events import Undecodable
from scheduler.client.raw_json import dumps, loads_leniently
from scheduler.core_v1.csi import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    VolumeAttachment,
    decode_csi_driver,
    decode_csi_node,
    decode_csi_storage_capacity,
    decode_volume_attachment,
)
from scheduler.core_v1.node import Namespace, decode_namespace, decode_node
from scheduler.core_v1.persistent_volume import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    decode_persistent_volume,
    decode_persistent_volume_claim,
    decode_storage_class,
)
from scheduler.core_v1.pod import Pod, decode_pod
from scheduler.core_v1.pod_selector import PodSelector, decode_pod_selector

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
    def raw(self) -> dict[str, Any]:  # Any: fields that are passed on may hold anything
        """The object, read again each time: as text it takes a fifth of the memory, and no time of the collector."""
        found = loads_leniently(self.data)
        assert isinstance(found, dict), found
        return found


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


def volume_of(raw: Raw) -> PersistentVolume:
    """The volume."""
    return _decoded(*decode_persistent_volume(raw, validate=False))


def volume_claim_of(raw: Raw) -> PersistentVolumeClaim:
    """The PersistentVolumeClaim."""
    return _decoded(*decode_persistent_volume_claim(raw, validate=False))


def storage_class_of(raw: Raw) -> StorageClass:
    """The storage class."""
    return _decoded(*decode_storage_class(raw, validate=False))


def csi_node_of(raw: Raw) -> CSINode:
    """The CSINode."""
    return _decoded(*decode_csi_node(raw, validate=False))


def csi_driver_of(raw: Raw) -> CSIDriver:
    """The CSIDriver."""
    return _decoded(*decode_csi_driver(raw, validate=False))


def csi_capacity_of(raw: Raw) -> CSIStorageCapacity:
    """The CSIStorageCapacity."""
    return _decoded(*decode_csi_storage_capacity(raw, validate=False))


def attachment_of(raw: Raw) -> VolumeAttachment:
    """The VolumeAttachment."""
    return _decoded(*decode_volume_attachment(raw, validate=False))


def pod_selector_of(raw: Raw) -> PodSelector:
    """The Service or controller of pods."""
    return _decoded(*decode_pod_selector(raw["kind"], raw, validate=False))


def claim_of(raw: Raw, most_errors: int = MOST_ERRORS) -> WatchedClaim:
    """The claim, in any served version. most_errors: as `decode` takes it."""
    decoded = _trusted(raw, most_errors)
    claim = _as(Claim, decoded)
    if not claim.namespace:
        raise Undecodable("metadata.namespace: is required")
    return WatchedClaim(claim, _data(raw), decoded.metadata, decoded.reserved_for)


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
