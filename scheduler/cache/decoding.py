"""Decodes what the API server sends: pages of a list, and lines of a watch.

An error in an object affects only that object. The call fails only where the object cannot be identified, such as an
event without name or version.
Source: k8s.io/apimachinery meta/v1 WatchEvent and ListMeta; KEP-3157 for the end of a list by watch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from allocator.api import decode
from allocator.api.findings import FieldError, shown
from allocator.model import Allocation, Claim, Container, DeviceResult, PoolID
from scheduler.cache.kinds import WatchedClaim
from scheduler.cache.states import Input, ListEnd, Page
from scheduler.cache.watch_events import (
    Applied,
    Decoder,
    Deleted,
    Entry,
    Found,
    Holder,
    Key,
    Progressed,
    T,
    Undecodable,
    Undecoded,
    Unreadable,
)
from scheduler.client.errors import api_error
from scheduler.client.raw_json import dumps, loads_leniently
from scheduler.core_v1.pod import Pod
from scheduler.state.pods import ALL_ROOM

# What an object that cannot be read still holds: devices of a claim, a pod's resources on its node.
#
# It is read field by field, since something is wrong with the object. What cannot be determined counts as held: the
# whole device if the claim has a share of it, the pool or driver of a device without a name, all resources of a node.


Raw = Mapping[str, Any]

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


_LIST_END = "k8s.io/initial-events-end"
_VERSION_DIGITS = 19  # what a signed integer of 64 bits can hold


def holds_nothing(_: Mapping[str, Any]) -> None:
    """The holder of objects that hold neither nodes nor devices."""


def page_of(call: str, body: bytes, decode: Decoder[T], held: Holder = holds_nothing) -> Page[T]:
    """A page; its objects get the kind and version that only their list names. Raises Unreadable for what is none."""
    match loads_leniently(body):
        case {
            "apiVersion": str(version),
            "kind": str(kind),
            "items": list() | None as items,
            "metadata": dict(metadata),
        } if listed_at := _version(metadata):
            named = {"apiVersion": version, "kind": kind.removesuffix("List")}
            objects = tuple(found_in(_named(item, named), decode, held) for item in items or ())
            return Page(objects, _text(metadata, "continue"), listed_at)
        case _:
            raise Unreadable(call, "the response is not a list of objects")


def input_of(call: str, line: bytes, decode: Decoder[T], held: Holder = holds_nothing) -> Input[T]:
    """The input that a line of the watch carries. Raises ApiError for an error, Unreadable for any other line."""
    match loads_leniently(line):
        case {"type": "ADDED" | "MODIFIED", "object": dict(raw)} if _version(_metadata(raw)):
            return Applied(found_in(raw, decode, held))
        case {"type": "DELETED", "object": dict(raw)} if not _identity_error(raw):
            return Deleted(*_identity(raw))
        case {"type": "BOOKMARK", "object": dict(raw)} if _version(_metadata(raw)):
            return _bookmark(_metadata(raw))
        case {"type": "ERROR", "object": dict(raw)}:
            raise api_error(call, _code(raw), _status_text(raw))
        case _:
            raise Unreadable(call, f"a line is not a watch event: {shown(line[:100].decode(errors='replace'))}")


def found_in(raw: object, decode: Decoder[T], held: Holder) -> Found[T]:
    """The object as it is kept."""
    identity = key, uid, version = _identity(raw)
    if not isinstance(raw, dict):
        return Undecoded(*identity, f"it must be an object (got {shown(raw)})")
    is_complete = key.namespace and key.name and uid and version  # most objects are: nothing is looked at again
    if not is_complete and (problem := _identity_error(raw)):
        return Undecoded(*identity, problem, held(raw))
    try:
        return Entry(*identity, decode(raw))
    except Undecodable as error:
        return Undecoded(*identity, str(error), held(raw))
    except Exception as error:  # noqa: BLE001 - whatever it is, it costs this object alone; the reflector reports it
        return Undecoded(*identity, f"internal error: {type(error).__name__}: {error}", held(raw), error)


def _named(item: object, named: Mapping[str, str]) -> object:
    return {**named, **item} if isinstance(item, dict) else item


def _bookmark(metadata: Mapping[str, Any]) -> Progressed | ListEnd:
    version, annotations = _version(metadata), metadata.get("annotations")
    is_end = isinstance(annotations, dict) and annotations.get(_LIST_END) == "true"
    return ListEnd(version) if is_end else Progressed(version)


def _identity(raw: object) -> tuple[Key, str, int]:
    """Who the object is, as far as it says so."""
    match raw:
        case {"metadata": {"namespace": str(namespace), "name": str(name), "uid": str(uid)} as metadata}:
            return Key(namespace, name), uid, _version(metadata)  # as most objects do
    metadata = _metadata(raw)
    return Key(_text(metadata, "namespace"), _text(metadata, "name")), _text(metadata, "uid"), _version(metadata)


def _identity_error(raw: Mapping[str, Any]) -> str:
    """The problems of the fields by which an object is known."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        return str(FieldError("metadata", metadata, "must be an object"))
    for field in ("name", "uid"):
        if not _text(metadata, field):
            return str(FieldError(f"metadata.{field}", metadata.get(field), "must be a text that is not empty"))
    if not isinstance(metadata.get("namespace"), str | None):
        return str(FieldError("metadata.namespace", metadata["namespace"], "must be a string"))
    if not _version(metadata):
        return str(FieldError("metadata.resourceVersion", metadata.get("resourceVersion"), "must be a number as text"))
    return ""


def _metadata(raw: object) -> Mapping[str, Any]:
    found = raw.get("metadata") if isinstance(raw, dict) else None
    return found if isinstance(found, dict) else {}


def _text(metadata: Mapping[str, Any], field: str) -> str:
    value = metadata.get(field)
    return value if isinstance(value, str) else ""


def _version(metadata: Mapping[str, Any]) -> int:
    """The resource version; 0, which no object has, where it cannot be read."""
    text = metadata.get("resourceVersion")
    if not isinstance(text, str):
        return 0
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _VERSION_DIGITS else 0


def _code(status: Mapping[str, Any]) -> int:
    code = status.get("code")
    return code if isinstance(code, int) else 0


def _status_text(status: Mapping[str, Any]) -> bytes:
    try:
        return dumps(status)
    except TypeError:  # nested too deeply
        return b""
