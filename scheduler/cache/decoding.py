"""From what the API server sends to inputs of a watcher: pages of a list, and lines of a watch.

Source: k8s.io/apimachinery meta/v1 WatchEvent and ListMeta; KEP-3157 for the end of a list by watch.
"""

from typing import Any

import orjson

from scheduler.cache.events import Applied, Decoder, Deleted, Entry, Key, Observed, Progressed, Refused, T, Undecodable
from scheduler.cache.states import Input, ListEnd, Page
from scheduler.client.errors import Unanswered, api_error

_LIST_END = "k8s.io/initial-events-end"


def page_of(call: str, raw: dict[str, Any], decode: Decoder[T]) -> Page[T]:
    """A page; its objects get the kind and version that only their list names. Raises Unanswered for what is none."""
    match raw:
        case {
            "apiVersion": str(version),
            "kind": str(kind),
            "items": list() | None as items,
            "metadata": dict(metadata),
        }:
            named = {"apiVersion": version, "kind": kind.removesuffix("List")}
            objects = tuple(observed({**named, **item}, decode) for item in items or ())
            return Page(objects, metadata.get("continue") or "", int(metadata["resourceVersion"]))
        case _:
            raise Unanswered(call, "the answer is no list of objects", is_ambiguous=False)


def input_of(call: str, line: bytes, decode: Decoder[T]) -> Input[T]:
    """What a line of the watch tells. Raises ApiError for one that tells an error, Unanswered for one that is none."""
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise Unanswered(call, f"a line is no JSON: {error}", is_ambiguous=False) from error
    match raw:
        case {"type": "ADDED" | "MODIFIED", "object": dict(found)}:
            return Applied(observed(found, decode))
        case {"type": "DELETED", "object": dict(found)}:
            return Deleted(*_identity(found))
        case {"type": "BOOKMARK", "object": dict(found)}:
            return _bookmark(found["metadata"])
        case {"type": "ERROR", "object": dict(found)}:
            raise api_error(call, int(found.get("code") or 0), orjson.dumps(found))
        case _:
            raise Unanswered(call, "a line is no event of an object", is_ambiguous=False)


def observed(raw: dict[str, Any], decode: Decoder[T]) -> Observed[T]:
    """The object as it is kept."""
    identity = _identity(raw)
    try:
        return Entry(*identity, decode(raw))
    except Undecodable as error:
        return Refused(*identity, str(error))


def _bookmark(metadata: dict[str, Any]) -> Progressed | ListEnd:
    version = int(metadata["resourceVersion"])
    is_end = (metadata.get("annotations") or {}).get(_LIST_END) == "true"
    return ListEnd(version) if is_end else Progressed(version)


def _identity(raw: dict[str, Any]) -> tuple[Key, str, int]:
    metadata = raw["metadata"]
    key = Key(metadata.get("namespace") or "", metadata["name"])
    return key, metadata["uid"], int(metadata["resourceVersion"])
