"""Line charts as SVG: lines are distinguished by dashes, marks and labels at their ends, and by colour besides."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from textwrap import wrap
from xml.etree.ElementTree import Element

from scheduler.output.data_page import element

# Curves of several seeds as one: their mean, and the range that they are in.


Curve = tuple[Sequence[float], Sequence[float]]
"""Places in ascending order, and a value at each, which holds until the next place."""


@dataclass(frozen=True, slots=True)
class Band:
    """A curve of one name."""

    name: str
    places: Sequence[float]
    means: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]
    """lows, highs: of the seeds at each place, equal to the mean where there is one seed."""

    def between(self, first: float, last: float) -> "Band":
        """The part between two places, both included."""
        kept = [number for number, place in enumerate(self.places) if first <= place <= last]
        columns = (self.places, self.means, self.lows, self.highs)
        return Band(self.name, *([column[number] for number in kept] for column in columns))


def band(name: str, curves: Sequence[Curve], places: Sequence[float]) -> Band:
    """The curves at those of the places where any of them is; a seed counts from its first place to its last."""
    known = [(place, values) for place in places if (values := list(_values(curves, place)))]
    return Band(
        name,
        [place for place, _ in known],
        [sum(values) / len(values) for _, values in known],
        [min(values) for _, values in known],
        [max(values) for _, values in known],
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


COLOURS = 8
"""The style sheet has a class for the colour of each: colour-0 and so on."""

_TOP = 14
_LABEL_GAP = 17
_LEGEND_GAP = 20
_LETTER = 8
"""Pixels of a letter of a label, on average."""

_LONGEST_LABEL = 30
_DASHES = ("none", "9 4", "2 3", "12 3 2 3", "5 5", "16 4 5 4")
_MARKS = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "M-4,-4h8v8h-8z",
    "M0,-5L5,4H-5z",
    "M0,-5.5L5.5,0L0,5.5L-5.5,0z",
    "M-5,-3.5H5L0,5z",
)
"""Dashes and marks have no number in common that divides their counts: thirty lines differ in one or the other."""

_MARKS_OF_LINE = 6


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart."""

    title: str
    x_label: str
    y_label: str
    bands: Sequence[Band]
    from_zero: bool = True
    """The vertical axis starts at 0, or below where values are."""

    @property
    def least_step(self) -> float:
        """Between two ticks of the vertical axis: what is counted has no parts."""
        ends = (value for one in self.bands for value in (*one.lows, *one.highs))
        return 1.0 if all(value == int(value) for value in ends) else 0.0


@dataclass(frozen=True, slots=True)
class ChartFrame:
    """The size of a picture in pixels, and how many ticks of the horizontal axis and letters of its label fit."""

    name: str
    width: int
    height: int
    left: int
    bottom: int
    """Room below the lines."""
    ticks: int
    letters: int
    has_legend: bool = False
    """The names of the lines are below the picture, not at their ends."""


WIDE = ChartFrame("chart", 900, 400, 64, 50, 7, 100)
NARROW = ChartFrame("chart narrow", 336, 270, 54, 64, 4, 42, has_legend=True)
"""For screens on which letters of the wide one could not be read."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """Values from low to high on pixels from start to end, with about so many ticks."""

    low: float
    high: float
    start: float
    end: float
    most_ticks: int = 7
    least_step: float = 0.0

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        step = _step(max((self.high - self.low) / self.most_ticks, self.least_step))
        for number in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1):
            yield number * step


def _step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 and so on, also below 1."""
    power = 10.0 ** floor(log10(least))
    return next(one * power for one in (1, 2, 5, 10) if one * power >= least * (1 - 1e-9))


def line_chart(chart: Chart, frame: ChartFrame = WIDE) -> Element:
    """The picture; its description says how the lines end."""
    x, y = _horizontal(chart, frame), _vertical(chart, frame)
    height = frame.height + frame.has_legend * _LEGEND_GAP * len(chart.bands)
    described = {"role": "img", "viewBox": f"0 0 {frame.width} {height}", "class": frame.name}
    lines = [_line(number, one, x, y) for number, one in enumerate(chart.bands)]
    return element(
        "svg",
        {**described, "aria-label": f"{chart.title}. {ends(chart)}"},
        *_grid(chart, frame, x, y),
        *(_area(number, one, x, y) for number, one in enumerate(chart.bands)),
        *lines,
        *(_legend(chart, frame) if frame.has_legend else _labels(chart, x, y)),
    )


def ends(chart: Chart) -> str:
    """A sentence with the last value of each line."""
    values = ", ".join(f"{one.name} {number(one.means[-1])}" for one in chart.bands)
    return f"At the end ({chart.y_label}): {values}."


def number(value: float) -> str:
    """With as many digits as are read."""
    digits = 0 if abs(value) >= 1000 or value == int(value) else 2 if abs(value) < 100 else 1
    return f"{value:,.{digits}f}"


def _horizontal(chart: Chart, frame: ChartFrame) -> _Axis:
    places = [place for one in chart.bands for place in one.places]
    low, high = min(places), max(places)
    low = 0 if 0 < low < high / 10 else low
    labels = 14 if frame.has_legend else _LETTER * max(len(_short(one.name)) for one in chart.bands) + 40
    return _Axis(low, high if high > low else low + 1, frame.left, frame.width - labels, frame.ticks)


def _vertical(chart: Chart, frame: ChartFrame) -> _Axis:
    lows = [value for one in chart.bands for value in one.lows]
    highs = [value for one in chart.bands for value in one.highs]
    low, high = min(lows), max(highs)
    low = min(low, 0) if chart.from_zero else low
    high = high if high > low else low + 1
    step = _step(max((high - low) / 7, chart.least_step))
    ends = frame.height - frame.bottom, _TOP
    return _Axis(floor(low / step) * step, ceil(high / step) * step, *ends, least_step=chart.least_step)


def _grid(chart: Chart, frame: ChartFrame, x: _Axis, y: _Axis) -> Iterator[Element]:
    for tick in y.ticks():
        at = _px(y.at(tick))
        yield element("line", {"class": "grid", "x1": _px(x.start), "x2": _px(x.end), "y1": at, "y2": at})
        yield _text(number(tick), x.start - 8, y.at(tick) + 4, "end")
    for tick in x.ticks():
        at = _px(x.at(tick))
        yield element("line", {"class": "tick", "x1": at, "x2": at, "y1": _px(y.start), "y2": _px(y.start + 5)})
        yield _text(number(tick), x.at(tick), y.start + 20, "middle")
    yield element(
        "line", {"class": "axis", "x1": _px(x.start), "x2": _px(x.end), "y1": _px(y.start), "y2": _px(y.start)}
    )
    for row, words in enumerate(wrap(chart.x_label, frame.letters)):
        yield _text(words, (frame.left + x.end) / 2, y.start + 42 + 15 * row, "middle")
    middle = (y.start + y.end) / 2
    turned = _text(chart.y_label, 0, 0, "middle")
    turned.set("transform", f"translate(15 {_px(middle)}) rotate(-90)")
    yield turned


def _area(place: int, one: Band, x: _Axis, y: _Axis) -> Element:
    """The range over the seeds; nothing is seen of it where there is one seed."""
    there = [(x.at(at), y.at(value)) for at, value in zip(one.places, one.highs, strict=True)]
    back = [(x.at(at), y.at(value)) for at, value in zip(one.places, one.lows, strict=True)]
    return element("path", {"class": f"area colour-{place % COLOURS}", "d": _path([*there, *reversed(back)]) + "Z"})


def _line(place: int, one: Band, x: _Axis, y: _Axis) -> Element:
    points = [(x.at(at), y.at(value)) for at, value in zip(one.places, one.means, strict=True)]
    line = element("path", {"class": "line", "d": _path(points), "stroke-dasharray": _DASHES[place % len(_DASHES)]})
    marks = [_mark(place, *points[at]) for at in _marked(place, len(points))]
    return element("g", {"class": f"colour-{place % COLOURS}"}, element("title", {}, one.name), line, *marks)


def _marked(place: int, points: int) -> Iterator[int]:
    """Which points have marks: lines that lie on each other have theirs at different places."""
    for mark in range(_MARKS_OF_LINE):
        yield int((mark + (place * 0.37) % 1) / _MARKS_OF_LINE * points)


def _mark(place: int, x: float, y: float) -> Element:
    at = f"translate({_px(x)} {_px(y)})"
    return element("path", {"class": "mark", "d": _MARKS[place % len(_MARKS)], "transform": at})


def _labels(chart: Chart, x: _Axis, y: _Axis) -> Iterator[Element]:
    """The names beside the ends of the lines, moved apart."""
    wanted = [y.at(shown.means[-1]) for shown in chart.bands]
    for place, (shown, at) in enumerate(zip(chart.bands, _apart(wanted, y.end, y.start), strict=True)):
        start = (x.at(shown.places[-1]), wanted[place])
        lead = _path([start, (x.end + 12, at), (x.end + 22, at)])
        label = _text(_short(shown.name), x.end + 32, at + 4, "start")
        drawn = [element("path", {"class": "lead", "d": lead}), _mark(place, x.end + 22, at), label]
        yield element("g", {"class": f"colour-{place % COLOURS}"}, *drawn)


def _legend(chart: Chart, frame: ChartFrame) -> Iterator[Element]:
    """A row for each line with its last value, in the order in which the lines end, from above."""
    order = sorted(range(len(chart.bands)), key=lambda place: -chart.bands[place].means[-1])
    for row, place in enumerate(order):
        at, drawn = frame.height + 8 + row * _LEGEND_GAP, chart.bands[place]
        dashes = _DASHES[place % len(_DASHES)]
        line = element("path", {"class": "sample", "d": _path([(6, at), (46, at)]), "stroke-dasharray": dashes})
        label = _text(f"{_short(drawn.name)} {number(drawn.means[-1])}", 54, at + 4, "start")
        yield element("g", {"class": f"colour-{place % COLOURS}"}, line, _mark(place, 26, at), label)


def _apart(wanted: Sequence[float], top: float, bottom: float) -> Sequence[float]:
    """The heights, moved as little as keeps labels from each other and, where there is room, on the chart."""
    order = sorted(range(len(wanted)), key=lambda place: (wanted[place], place))
    gap = min(_LABEL_GAP, (bottom - top) / max(1, len(wanted) - 1))
    placed: list[float] = []
    for rank, place in enumerate(order):
        least = placed[-1] + gap if placed else top
        most = bottom - gap * (len(order) - 1 - rank)
        placed.append(min(max(wanted[place], least), most))
    return [placed[order.index(place)] for place in range(len(wanted))]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"


def _text(text: str, x: float, y: float, anchor: str) -> Element:
    return element("text", {"x": _px(x), "y": _px(y), "text-anchor": anchor}, text)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_px(x)},{_px(y)}" for x, y in points)


def _px(value: float) -> str:
    return f"{value:.1f}"
