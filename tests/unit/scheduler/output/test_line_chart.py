"""Charts: where lines are, and that they can be told apart without colour."""

import re
from collections.abc import Sequence
from itertools import pairwise
from xml.etree.ElementTree import Element

import pytest

from scheduler.output.line_chart import Band, Chart, line_chart, number


def chart(*means: Sequence[float], from_zero: bool = True, name: str = "policy") -> Element:
    bands = [
        Band(f"{name}-{place}", range(len(of)), of, [one - 1 for one in of], [one + 1 for one in of])
        for place, of in enumerate(means)
    ]
    return line_chart(Chart("Allocated", "arrived", "percent", bands, from_zero=from_zero))


def of_class(root: Element, name: str) -> list[Element]:
    return [one for one in root.iter() if name in one.get("class", "").split()]


def points(path: Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path.get("d", ""))]


def texts(root: Element) -> list[tuple[str, float, float]]:
    return [(one.text or "", float(one.get("x", "0")), float(one.get("y", "0"))) for one in root.iter("text")]


def test_lines_are_where_the_axes_say() -> None:
    drawn = chart([0, 40, 80])
    grid = {int(text): y - 4 for text, x, y in texts(drawn) if x == 56.0}
    (line,) = of_class(drawn, "line")
    assert [y for _, y in points(line)] == pytest.approx([grid[0], grid[40], grid[80]])
    (area,) = of_class(drawn, "area")
    assert len(points(area)) == 6


def test_thirty_lines_differ_in_dashes_or_marks() -> None:
    drawn = chart(*([float(place)] * 3 for place in range(30)))
    looks = set()
    for group in drawn.iter("g"):
        lines = of_class(group, "line")
        if lines:
            (mark,) = {mark.get("d") for mark in of_class(group, "mark")}
            looks.add((lines[0].get("stroke-dasharray"), mark))
    assert len(looks) == 30


@pytest.mark.parametrize("means", [[50.0, 50.0, 50.0], [0.0, 0.0, 0.1], [99.0, 98.9, 99.1, 3.0], [0.0] * 12])
def test_labels_are_apart_on_the_chart_and_in_the_order_of_the_lines(means: list[float]) -> None:
    drawn = chart(*([value, value] for value in means))
    labels = sorted((y, int(text.removeprefix("policy-"))) for text, _, y in texts(drawn) if text.startswith("policy-"))
    assert all(below - above >= 16.9 for (above, _), (below, _) in pairwise(labels))
    assert labels[0][0] >= 14
    assert labels[-1][0] <= 400 - 46
    assert [means[place] for _, place in labels] == sorted(means, reverse=True)


def test_more_labels_than_there_is_room_for_stay_on_the_chart() -> None:
    heights = [y for text, _, y in texts(chart(*([1.0, 1.0] for _ in range(40)))) if text.startswith("policy-")]
    assert min(heights) >= 14
    assert max(heights) <= 400 - 40


def test_an_axis_starts_at_zero_unless_a_detail_is_shown() -> None:
    def lowest(root: Element) -> str:
        return min((text for text in texts(root) if text[1] == 56.0), key=lambda text: -text[2])[0]

    assert lowest(chart([90.0, 95.0])) == "0"
    assert lowest(chart([90.0, 95.0], from_zero=False)) not in ("0", "")
    assert float(lowest(chart([90.0, 95.0], from_zero=False))) >= 85


def test_a_flat_line_has_axes() -> None:
    assert len(of_class(chart([0.0, 0.0]), "grid")) > 1
    assert len(of_class(chart([7.0, 7.0], from_zero=False), "grid")) > 1


def test_what_is_counted_has_no_parts_on_the_axis() -> None:
    def ticks(*values: float) -> set[str]:
        return {text for text, x, _ in texts(chart(values)) if x < 64}

    assert {text for text in ticks(0, 1, 1) if "." in text} == set()
    assert {text for text in ticks(0, 0.5, 1) if "." in text}


def test_the_description_says_how_lines_end() -> None:
    assert chart([0, 40.25], [0, 80]).get("aria-label") == (
        "Allocated. At the end (percent): policy-0 40.25, policy-1 80."
    )


def test_a_long_name_is_cut_in_the_label_and_whole_in_the_title() -> None:
    drawn = chart([0.0, 1.0], name="module_of_a_user:" + "Policy" * 10)
    assert max(len(text) for text, _, _ in texts(drawn)) == 30
    assert [one.text for one in drawn.iter("title")] == ["module_of_a_user:" + "Policy" * 10 + "-0"]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (5.0, "5"), (0.5, "0.50"), (123.46, "123.5"), (6212.4, "6,212"), (-3.25, "-3.25")]
)
def test_numbers_have_the_digits_that_are_read(value: float, text: str) -> None:
    assert number(value) == text
