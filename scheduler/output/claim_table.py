"""Claims as a table and as JSON (docs/status.md describes each field)."""

from collections.abc import Sequence
from datetime import UTC, datetime

from scheduler.output.columns import aligned
from scheduler.output.status_report import API_VERSION
from scheduler.status.claim_status import ClaimStatus

KIND = "ClaimStatusList"

MOST_USERS = 3
MOST_DEVICES = 4
"""Users and devices that a line names; of more, the number of the rest is given."""

Json = dict[str, object]

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_STEPS = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (float("inf"), _YEAR, "y", 0, ""),
)
"""(below so many seconds, the unit's seconds and name, those of the second unit, if there is one)."""


def claim_table(claims: Sequence[ClaimStatus], now: datetime) -> str:
    """A line for each claim. now: for their ages."""
    rows = [[*claim_cells(one, MOST_DEVICES, MOST_USERS), age(one.created, now)] for one in claims]
    return aligned(["NAMESPACE", "NAME", "STATE", "DEVICES", "NODE", "USED BY", "AGE"], rows)


def claim_cells(one: ClaimStatus, most_devices: int | None = None, most_users: int | None = None) -> list[str]:
    """Namespace, name, state, devices, node and users. Of more devices and users, the number of the rest is given."""
    return [
        one.claim.namespace,
        one.claim.name,
        ",".join(one.states),
        _listed([str(result.id) for result in one.devices], most_devices),
        one.node or "-",
        _listed(one.users, most_users),
    ]


def _listed(names: Sequence[str], most: int | None) -> str:
    shown = ",".join(names[:most])
    rest = len(names[most:]) if most is not None else 0
    return f"{shown} + {rest} more" if rest > 0 else shown or "-"


def list_of(claims: Sequence[ClaimStatus]) -> Json:
    """All claims, with all their devices."""
    return {"apiVersion": API_VERSION, "kind": KIND, "items": [_object(one) for one in claims]}


def _object(one: ClaimStatus) -> Json:
    return {
        "namespace": one.claim.namespace,
        "name": one.claim.name,
        "states": list(one.states),
        "node": one.node or None,
        "usedBy": list(one.users),
        "created": one.created or None,
        "devices": [
            {
                "request": result.request,
                "driver": result.driver,
                "pool": result.pool,
                "device": result.device,
                "adminAccess": result.admin_access,
                "shareID": result.share_id or None,
                "consumedCapacity": {name: str(amount) for name, amount in result.consumed_capacity.items()},
            }
            for result in one.devices
        ],
    }


def age(created: str, now: datetime) -> str:
    """How old it is, in the words of kubectl; `<unknown>` without a time stamp. created: RFC 3339."""
    if not created:
        return "<unknown>"
    return duration(int((now - datetime.fromisoformat(created).astimezone(UTC)).total_seconds()))


def duration(seconds: int) -> str:
    """A duration as kubectl writes it: two units while the second one matters, then one.

    Source: k8s.io/apimachinery/pkg/util/duration HumanDuration.
    """
    if seconds < 0:
        return "0s"
    _, size, unit, part, lesser = next(step for step in _STEPS if seconds < step[0])
    rest = seconds % size // part if part else 0
    return f"{seconds // size}{unit}" + (f"{rest}{lesser}" if rest else "")
