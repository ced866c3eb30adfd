"""From what a soak saw to its figures and its verdict."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from tests.soak.checker import Waited
from tests.soak.plan import BOUND_WITHIN_S, GROWTH, READY_WITHIN_S, ROOM_S, SHARE_IN_TIME, WARM_S
from tests.soak.processes import Gap, Sample, last_of_lives

_AT_ONCE_S = 90.0
"""How far apart samples may be that are taken for one moment."""


class Rule(NamedTuple):
    """A rule, what was seen of it, and whether that is as it has to be."""

    name: str
    seen: str
    holds: bool


class WaitTimes(NamedTuple):
    """Without what was within the gaps of kills. p99_s: a wait that has not ended counts as far as it has lasted.

    left_out: pods that met a gap and were bound in time otherwise.
    """

    counted: int
    left_out: int
    p50_s: float
    p99_s: float
    longest_s: float
    unbound: int


def waits(waited: Iterable[Waited], gaps: Sequence[Gap], end_s: float, within_s: float = BOUND_WITHIN_S) -> WaitTimes:
    """How long pods waited. end_s: when it was looked at last. within_s: how long they may."""
    every = [(one.ready_s, end_s if one.bound_s is None else one.bound_s, one.bound_s is None) for one in waited]
    ends = [(gap.from_s, _end_of(gap)) for gap in gaps]
    outside = [(until - since) - _within(since, until, ends) for since, until, _ in every]
    met = [any(start <= until and since <= end for start, end in ends) for since, until, _ in every]
    pairs = zip(outside, met, strict=True)
    lasted = sorted(wait_s for wait_s, is_met in pairs if not is_met or wait_s > within_s)
    known = lasted or [0.0]
    return WaitTimes(
        counted=len(lasted),
        left_out=len(every) - len(lasted),
        p50_s=percentile(known, 0.5),
        p99_s=percentile(known, SHARE_IN_TIME),
        longest_s=known[-1],
        unbound=sum(is_unbound for *_, is_unbound in every),
    )


def _end_of(gap: Gap) -> float:
    """Where a process takes too long to be ready, the rest of its gap is no excuse."""
    latest_s = gap.from_s + READY_WITHIN_S
    return ROOM_S + (latest_s if gap.until_s is None else min(gap.until_s, latest_s))


def _within(since_s: float, until_s: float, gaps: Sequence[tuple[float, float]]) -> float:
    """How much of the time was within gaps, which come in the order of their beginnings and may overlap."""
    found, at_s = 0.0, since_s
    for start, end in gaps:
        low, high = max(at_s, start), min(until_s, end)
        found += max(0.0, high - low)
        at_s = max(at_s, high)
    return found


def percentile(ascending: Sequence[float], share: float) -> float:
    """The least value that this share of them does not exceed."""
    return ascending[max(0, -int(-share * len(ascending) // 1) - 1)]


def growth(samples: Sequence[Sample], end_s: float) -> dict[str, float]:
    """How many times the memory of `plan.WARM_S` it is at the end, by process; empty for a run that was shorter.

    A process that has lived on since is compared with itself, one that is killed at the ages at which it was killed.
    Infinite where there is nothing to compare.
    """
    names = dict.fromkeys(sample.name for sample in samples) if end_s > WARM_S else {}
    return {name: _growth([sample for sample in samples if sample.name == name], end_s) for name in names}


def _growth(samples: Sequence[Sample], end_s: float) -> float:
    lives_on = samples[-1].age_s >= end_s - WARM_S
    alike = samples if lives_on else last_of_lives(samples)
    before = [one.resident_mib for one in alike if abs(one.at_s - WARM_S) <= _AT_ONCE_S]
    after = [one.resident_mib for one in alike if one.at_s >= end_s - _AT_ONCE_S]
    return median(after) / median(before) if before and after else math.inf


def time_rule(found: WaitTimes, within_s: float = BOUND_WITHIN_S) -> Rule:
    """Whether pods were bound in time."""
    seen = f"p99 {found.p99_s:.2f} s of {found.counted} pods, {found.unbound} not bound at the end"
    is_in_time = bool(found.counted) and found.p99_s <= within_s
    return Rule(f"good pods bound within {within_s:g} s (p99)", seen, is_in_time)


def memory_rule(found: Mapping[str, float], end_s: float) -> Rule:
    """Whether memory stayed as it was."""
    is_short = end_s <= WARM_S
    seen = ", ".join(f"{name} {times:.2f} times" for name, times in found.items()) or "nobody was looked at"
    name = f"memory at most {GROWTH} times that of minute {WARM_S / 60:.0f}"
    has_kept = bool(found) and max(found.values()) <= GROWTH
    return Rule(name, "the run was too short to tell" if is_short else seen, is_short or has_kept)
