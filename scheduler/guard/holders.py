"""Claims as the guard knows them: who they are and what they hold, not what they request.

What is left out costs time with each update and memory with each claim, and cannot be wrong: a claim whose requests
cannot be read is judged by its devices. Nor is a claim decoded again that differs from another one in nothing but its
name: the guard sees most allocations twice, in the API server's question and in the watch.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from allocator.api.by_text import ByText
from allocator.model import Claim
from scheduler.cache.kinds import WatchedClaim, claim_of
from scheduler.cache.watch_events import Undecodable
from scheduler.state.claim_index import FINALIZER

Raw = Mapping[str, Any]  # Any: an object of the API

REMEMBERED = 1 << 10
"""Claims that need not be decoded again: more than are allocated while an update is under way."""

MOST_ERRORS = 16
"""Of a claim that cannot be read, of which the writer is told."""

MOST_CHARACTERS = 1 << 14
"""Of a claim that is remembered, as text: several times those of 32 devices."""


def holder_of(raw: Raw) -> WatchedClaim:
    """The claim with its devices, in any served version. Raises Undecodable.

    Its `raw` has no name, and of the metadata the finalizer that keeps it from being deleted, which an invariant reads.
    Others may be a megabyte of every claim that a tenant makes.
    """
    metadata = raw["metadata"]
    if not metadata.get("namespace"):
        raise Undecodable("metadata.namespace: is required")
    like = _decoded(_without_name(raw))
    claim = Claim(metadata["namespace"], metadata["name"], metadata["uid"], allocation=like.claim.allocation)
    return WatchedClaim(claim, like.data)


def with_requests(claim: Claim, raw: Raw) -> Claim:
    """The claim with its requests, on which it depends whether it may have admin access. Raises Undecodable."""
    return replace(claim, requests=claim_of(raw, MOST_ERRORS).claim.requests)


def _without_name(raw: Raw) -> Raw:
    finalizers = raw["metadata"].get("finalizers")
    protection = [FINALIZER] if isinstance(finalizers, list) and FINALIZER in finalizers else []
    return {
        **{field: raw[field] for field in ("apiVersion", "kind") if field in raw},
        "metadata": {"namespace": "any", "finalizers": protection},
        "status": _only(raw.get("status"), "allocation", "devices", "results"),
    }


def _decoded(raw: Raw) -> WatchedClaim:
    try:
        key = ByText(raw)
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return claim_of(raw, MOST_ERRORS)
    return _decoded_once(key) if len(key.text) <= MOST_CHARACTERS else claim_of(raw, MOST_ERRORS)


@lru_cache(maxsize=REMEMBERED)
def _decoded_once(key: ByText[Raw]) -> WatchedClaim:
    return claim_of(key.value, MOST_ERRORS)


def _only(value: object, *path: str) -> object:
    """What is at the path, and nothing beside it. A value that is no object stays as it is: its decoder refuses it."""
    if not path or not isinstance(value, dict):
        return value
    field, *rest = path
    return {field: _only(value[field], *rest)} if field in value else {}
