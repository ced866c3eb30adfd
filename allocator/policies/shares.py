"""Shares of devices that allow several: what one takes, and what is taken already.

Source: KEP-5075.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from allocator.exact import exact
from allocator.features.consumable_capacity import consumed_by_share
from allocator.features.contract import NodeAttempt
from allocator.gates import FRACTIONAL_CAPACITY_RANGE
from allocator.memo import Topic
from allocator.model import Alternative, Device, PoolID
from allocator.search.rules import Pick
from cel.values.quantity import Quantity

Amounts = Mapping[str, int]
"""Amounts by capacity, in 10**-9 of its unit."""

_SHARE: Final[Topic[Amounts]] = Topic("share")


def share_of(attempt: NodeAttempt, alternative: Alternative, device: int) -> Amounts:
    """What one share for the alternative takes of the device, which is a candidate for it."""
    requested = alternative.capacity or {}
    key = (_SHARE, device, exact(requested))
    return attempt.view.memo.remember(key, lambda: _share_of(attempt, attempt.view.devices[device], requested))


def _share_of(attempt: NodeAttempt, device: Device, requested: Mapping[str, Quantity]) -> Amounts:
    features = attempt.features
    is_fractional = features.has(FRACTIONAL_CAPACITY_RANGE)
    consumed = consumed_by_share(device, requested, is_fractional=is_fractional, is_strict=features.is_strict)
    assert consumed is not None, f"device {device.id} is no candidate"
    return {name: amount.nanos for name, amount in consumed.items()}


def shared_of(attempt: NodeAttempt, device: int, picks: Iterable[Pick]) -> dict[str, int]:
    """What is taken of the device by all its shares, those among the picks included."""
    subject = attempt.view.devices[device]
    held = attempt.usage.shares_in(PoolID(subject.driver, subject.pool)).get(subject.name)
    amounts = dict(held.consumed) if held else {}
    for pick in picks:
        if pick.device == device:
            for name, amount in share_of(attempt, pick.candidates.alternative, device).items():
                amounts[name] = amounts.get(name, 0) + amount
    return amounts
