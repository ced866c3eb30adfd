"""The devices that certain claims hold, out of all pools."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from allocator.status.pool_status import PoolStatus


def held_by(pools: Iterable[PoolStatus], claims: Collection[str]) -> Iterator[PoolStatus]:
    """The pools of which the claims hold devices, with these devices alone and these claims as their only holders.

    claims: as `namespace/name`. The states of devices, and what is left of them, stay those of the whole pool.
    """
    for pool in pools:
        devices = tuple(
            replace(device, holders=_among(claims, device.holders))
            for device in pool.devices
            if _among(claims, device.holders)
        )
        unpublished = _unpublished(pool.unpublished, claims)
        if devices or unpublished:
            yield replace(pool, devices=devices, unpublished=unpublished)


def _unpublished(holders: Mapping[str, tuple[str, ...]], claims: Collection[str]) -> dict[str, tuple[str, ...]]:
    found = {name: _among(claims, names) for name, names in holders.items()}
    return {name: names for name, names in found.items() if names}


def _among(claims: Collection[str], holders: Iterable[str]) -> tuple[str, ...]:
    return tuple(holder for holder in holders if holder in claims)
