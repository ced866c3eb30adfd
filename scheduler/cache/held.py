"""What an object that cannot be read still holds: devices of a claim, a pod's resources on its node.

It is read field by field, since something is wrong with the object. What cannot be determined counts as held: the whole
device if the claim has a share of it, the pool or driver of a device without a name, all resources of a node.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from allocator.api import decode
from allocator.model import Allocation, Claim, Container, DeviceResult, PoolID
from scheduler.cache.kinds import WatchedClaim
from scheduler.core_v1.pod import Pod
from scheduler.state.pod_requests import ALL_ROOM

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
    node = _text(_map(raw, "spec"), "nodeName")
    if not node:
        return None
    return Pod(*_names(raw), node_name=node, containers=(Container("", ALL_ROOM),))


def _names(raw: Raw) -> tuple[str, str, str]:
    metadata = _map(raw, "metadata")
    return _text(metadata, "namespace"), _text(metadata, "name"), _text(metadata, "uid")


def _results(raw: Raw) -> Iterator[Raw]:
    found = _map(_map(_map(raw, "status"), "allocation"), "devices").get("results")
    yield from (one for one in (found if isinstance(found, list) else ()) if isinstance(one, dict))


def _device(result: Raw) -> DeviceResult | None:
    request, driver, pool, device = (_text(result, field) for field in ("request", "driver", "pool", "device"))
    if not (driver and pool and device):
        return None
    status = {"allocation": {"devices": {"results": [result]}}}
    read = decode({**_A_CLAIM, "status": status}, validate=False, apply_defaults=False).object
    if isinstance(read, Claim) and read.allocation:
        return read.allocation.results[0]
    return DeviceResult(request, driver, pool, device, admin_access=result.get("adminAccess") is True)


def _pool(result: Raw) -> PoolID | None:
    driver = _text(result, "driver")
    return PoolID(driver, _text(result, "pool")) if driver else None


def _map(holder: Raw, field: str) -> Raw:
    found = holder.get(field)
    return found if isinstance(found, dict) else {}


def _text(holder: Raw, field: str) -> str:
    found = holder.get(field)
    return found if isinstance(found, str) else ""
