import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.output.table import ColumnTable
from scheduler.terminal_text import padded, printable, width_of


@given(st.text(max_size=20))
def test_what_is_printed_steers_no_terminal(text: str) -> None:
    shown = printable(text)
    assert not [one for one in shown if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("text", "width"),
    [("gpu", 3), ("", 0), ("漢字", 4), ("\uff47", 2), ("é", 1), ("e\u0301", 1), ("עברית", 5), ("🚀", 2), ("·", 1)],
)
def test_a_text_is_as_wide_as_a_terminal_shows_it(text: str, width: int) -> None:
    assert width_of(text) == width


@given(st.lists(st.tuples(st.text("aé漢🚀\u0301\x1b\u202e", max_size=6), st.just("end")), min_size=1, max_size=5))
def test_columns_begin_at_one_place(rows: list[tuple[str, str]]) -> None:
    lines = str(ColumnTable(("TITLE", "NEXT"), rows)).split("\n")
    assert (
        len({width_of(line[: -len(last)]) for line, last in zip(lines, ["NEXT", *["end"] * len(rows)], strict=True)})
        == 1
    )


def test_numbers_end_at_one_place() -> None:
    assert str(ColumnTable(["N", "漢"], [["10", "b"]], frozenset({"N"}))) == " N   漢\n10   b"
    assert padded("漢", 4, is_number=True) == "  漢"
