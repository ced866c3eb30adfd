"""Entries of status.resourceClaimStatuses that name no claim only because this program restored them once.

An entry without a claim means that no claim is needed. But with server-side apply, the name and the claim of an entry
have separate owners. If the controller creates another claim for an entry that was restored, it owns the claim alone,
and the name together with us. When it next applies only other entries, it gives up the claim, and an entry without
claim remains that nobody intended. Such an entry is unusable.
Source: server-side apply; kubernetes issue 138407, observed on 1.36.3.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

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
    for field in ("fieldsV1", "f:status", "f:resourceClaimStatuses"):
        found = found.get(field) if isinstance(found, dict) else None
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
