"""Claims as the guard knows them: who they are and what they hold, not what they request.

What is left out costs time with each update and memory with each claim, and cannot be wrong: a claim whose requests
cannot be read is judged by its devices.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.cache.kinds import WatchedClaim, claim_of

Raw = Mapping[str, Any]  # Any: an object of the API

_METADATA = ("namespace", "name", "uid", "resourceVersion", "finalizers")
"""Who it is, and what keeps it from being deleted: an invariant reads that."""


def holder_of(raw: Raw) -> WatchedClaim:
    """The claim with its devices, in any served version. Raises Undecodable."""
    metadata = raw["metadata"]
    return claim_of(
        {
            **{field: raw[field] for field in ("apiVersion", "kind") if field in raw},
            "metadata": {field: metadata[field] for field in _METADATA if field in metadata},
            "status": _only(raw.get("status"), "allocation", "devices", "results"),
        }
    )


def _only(value: object, *path: str) -> object:
    """What is at the path, and nothing beside it. A value that is no object stays as it is: its decoder refuses it."""
    if not path or not isinstance(value, dict):
        return value
    field, *rest = path
    return {field: _only(value[field], *rest)} if field in value else {}
