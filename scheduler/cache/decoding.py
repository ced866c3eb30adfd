"""Decodes what the API server sends: pages of a list, and lines of a watch.

An error in an object affects only that object. The call fails only where the object cannot be identified, such as an
event without name or version.
Source: k8s.io/apimachinery meta/v1 WatchEvent and ListMeta; KEP-3157 for the end of a list by watch.
"""

from collections.abc import Mapping
from typing import Any

from allocator.api.findings import FieldError, shown
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
    holds_nothing,
)
from scheduler.client.errors import api_error
from scheduler.client.raw_json import dumps, loads_leniently
from scheduler.terminal_text import in_short

_LIST_END = "k8s.io/initial-events-end"
_VERSION_DIGITS = 19  # what a signed integer of 64 bits can hold


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
        return Undecoded(*identity, in_short(str(error)), held(raw))
    except Exception as error:  # noqa: BLE001 - whatever it is, it costs this object alone; the reflector reports it
        return Undecoded(*identity, in_short(f"internal error: {type(error).__name__}: {error}"), held(raw), error)


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
            return str(FieldError(f"metadata.{field}", metadata.get(field), "must be a string that is not empty"))
    if not isinstance(metadata.get("namespace"), str | None):
        return str(FieldError("metadata.namespace", metadata["namespace"], "must be a string"))
    if not _version(metadata):
        return str(FieldError("metadata.resourceVersion", metadata.get("resourceVersion"), "must be a number, quoted"))
    return ""


def _metadata(raw: object) -> Mapping[str, Any]:
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    return metadata if isinstance(metadata, dict) else {}


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
