"""Curves of several seeds as one, against a slow reading of the definition."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from scheduler.output.line_chart import Band, Curve, band, detail

PLACES = st.lists(st.integers(0, 20), unique=True, max_size=8).map(sorted)
VALUES = st.integers(-5, 100).map(float)
CURVES = st.lists(
    PLACES.flatmap(
        lambda places: st.lists(VALUES, min_size=len(places), max_size=len(places)).map(lambda v: (places, v))
    ),
    min_size=1,
    max_size=4,
)


def value_at(curve: Curve, place: float) -> list[float]:
    """The value of the last point up to the place, where the curve is."""
    places, values = curve
    before = [value for at, value in zip(places, values, strict=True) if at <= place]
    return before[-1:] if any(at >= place for at in places) else []


@given(CURVES, PLACES)
def test_a_band_is_the_mean_and_the_range_of_the_seeds_that_are_there(
    curves: Sequence[Curve], places: Sequence[float]
) -> None:
    found = band("fgd", curves, places)
    expected = [(place, values) for place in places if (values := [v for one in curves for v in value_at(one, place)])]
    assert list(found.places) == [place for place, _ in expected]
    assert list(found.means) == [sum(values) / len(values) for _, values in expected]
    assert list(found.lows) == [min(values) for _, values in expected]
    assert list(found.highs) == [max(values) for _, values in expected]


def a_band(name: str, means: Sequence[float]) -> Band:
    return Band(name, range(len(means)), means, means, means)


def test_the_detail_is_the_end_where_policies_differ() -> None:
    one, other = [float(at) for at in range(100)], [min(float(at), 90.0) for at in range(100)]
    found = detail([a_band("one", one), a_band("other", other)])
    assert [one.places[0] for one in found] == [90] * 2  # they are 5 apart from 95 on, and it begins 5 before
    assert [one.places[-1] for one in found] == [99] * 2
    assert found[1].means == [90.0] * 10


def test_there_is_no_detail_where_policies_are_alike_or_differ_from_the_start() -> None:
    line = [float(at) for at in range(100)]
    assert not detail([a_band("one", line)])
    assert not detail([a_band("one", line), a_band("other", line)])
    assert not detail([a_band("one", line), a_band("other", [at + 7 for at in line])])
    assert not detail([])
