"""Curves of several seeds as one: their mean, and the range that they are in."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

Curve = tuple[Sequence[float], Sequence[float]]
"""Places in ascending order, and a value at each, which holds until the next place."""


@dataclass(frozen=True, slots=True)
class Band:
    """A curve of one name. lows, highs: of the seeds at each place, equal to the mean where there is one seed."""

    name: str
    places: Sequence[float]
    means: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]

    def between(self, first: float, last: float) -> "Band":
        """The part between two places, both included."""
        kept = [number for number, place in enumerate(self.places) if first <= place <= last]
        columns = (self.places, self.means, self.lows, self.highs)
        return Band(self.name, *([column[number] for number in kept] for column in columns))


def band(name: str, curves: Sequence[Curve], places: Sequence[float]) -> Band:
    """The curves at those of the places where any of them is; a seed counts from its first place to its last."""
    found = [(place, values) for place in places if (values := list(_values(curves, place)))]
    return Band(
        name,
        [place for place, _ in found],
        [sum(values) / len(values) for _, values in found],
        [min(values) for _, values in found],
        [max(values) for _, values in found],
    )


def _values(curves: Sequence[Curve], place: float) -> list[float]:
    return [values[bisect_right(places, place) - 1] for places, values in curves if _covers(places, place)]


def _covers(places: Sequence[float], place: float) -> bool:
    return bool(places) and places[0] <= place <= places[-1]


def detail(bands: Sequence[Band]) -> Sequence[Band]:
    """The end of the bands, from where their means are half as far apart as they ever are, and somewhat before.

    Nothing where the means are the same, or where this is most of the bands.
    """
    means = [dict(zip(one.places, one.means, strict=True)) for one in bands]
    places = sorted(set().union(*means))
    apart = [max(values) - min(values) for place in places if (values := [of[place] for of in means if place in of])]
    widest = max(apart, default=0.0)
    start = next((at for at, distance in enumerate(apart) if distance > widest / 2), 0) - max(1, len(places) // 20)
    return [one.between(places[start], places[-1]) for one in bands] if start > len(places) // 3 else []
