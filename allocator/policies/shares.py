"""Shares of devices that allow several: what one takes, and what is taken already.

Source: KEP-5075.
"""

from collections.abc import Iterable, Mapping

from allocator.exact import exact
from allocator.features.consumable_capacity import part_of
from allocator.features.contract import Attempt
from allocator.gates import FRACTIONAL_CAPACITY_RANGE
from allocator.model import Alternative, PoolID
from allocator.search.rules import Pick

Amounts = Mapping[str, int]
"""Amounts by capacity, in 10**-9 of its unit."""


def share_of(attempt: Attempt, alternative: Alternative, device: int) -> Amounts:
    """What one share for the alternative takes of the device, which is a candidate for it."""
    requested = alternative.capacity or {}
    memo, key = attempt.view.memo, ("share of", device, exact(requested))
    if key not in memo:
        features = attempt.features
        part = part_of(
            attempt.view.devices[device],
            requested,
            is_fractional=features.has(FRACTIONAL_CAPACITY_RANGE),
            is_strict=features.is_strict,
        )
        assert part is not None, f"device {attempt.view.devices[device].id} is no candidate"
        memo[key] = {name: amount.nanos for name, amount in part.items()}
    share: Amounts = memo[key]
    return share


def shared_of(attempt: Attempt, device: int, picks: Iterable[Pick]) -> dict[str, int]:
    """What is taken of the device by all its shares, those among the picks included."""
    subject = attempt.view.devices[device]
    held = attempt.usage.shares_in(PoolID(subject.driver, subject.pool)).get(subject.name)
    amounts = dict(held.consumed) if held else {}
    for pick in picks:
        if pick.device == device:
            for name, amount in share_of(attempt, pick.candidates.alternative, device).items():
                amounts[name] = amounts.get(name, 0) + amount
    return amounts
