"""From what a soak saw to its figures and its verdict."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from tests.soak.checker import Waited
from tests.soak.plan import BOUND_WITHIN_S, GROWTH, ROOM_S, SHARE_IN_TIME, WARM_S
from tests.soak.processes import Gap, Sample, last_of_lives

_AT_ONCE_S = 90.0
"""How far apart samples may be that are taken for one moment."""


class Rule(NamedTuple):
    """A rule, what was seen of it, and whether that is as it has to be."""

    name: str
    seen: str
    holds: bool


class Waits(NamedTuple):
    """Of pods whose wait met no gap; p99_s: a wait that has not ended counts as long as it has lasted."""

    counted: int
    left_out: int
    p50_s: float
    p99_s: float
    longest_s: float
    unbound: int


def waits(waited: Iterable[Waited], gaps: Sequence[Gap], end_s: float) -> Waits:
    """How long pods waited. end_s: when it was looked at last."""
    every = [(one.ready_s, one.bound_s if one.bound_s is not None else end_s, one.bound_s is None) for one in waited]
    counted = [one for one in every if not any(_meets(one[0], one[1], gap) for gap in gaps)]
    lasted = sorted(until - since for since, until, _ in counted) or [0.0]
    return Waits(
        len(counted),
        len(every) - len(counted),
        percentile(lasted, 0.5),
        percentile(lasted, SHARE_IN_TIME),
        lasted[-1],
        sum(is_unbound for *_, is_unbound in every),
    )


def _meets(since_s: float, until_s: float, gap: Gap) -> bool:
    """Whether some of the wait was within the gap."""
    return gap.from_s <= until_s and (gap.until_s is None or since_s <= gap.until_s + ROOM_S)


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


def time_rule(found: Waits) -> Rule:
    """Whether pods were bound in time."""
    seen = f"p99 {found.p99_s:.2f} s of {found.counted} pods, {found.unbound} not bound at the end"
    is_in_time = bool(found.counted) and found.p99_s <= BOUND_WITHIN_S
    return Rule(f"good pods bound within {BOUND_WITHIN_S:.0f} s (p99)", seen, is_in_time)


def memory_rule(found: Mapping[str, float], end_s: float) -> Rule:
    """Whether memory stayed as it was."""
    is_short = end_s <= WARM_S
    seen = ", ".join(f"{name} {times:.2f} times" for name, times in found.items()) or "nobody was looked at"
    name = f"memory at most {GROWTH} times that of minute {WARM_S / 60:.0f}"
    has_kept = bool(found) and max(found.values()) <= GROWTH
    return Rule(name, "the run was too short to tell" if is_short else seen, is_short or has_kept)
