import unicodedata
from http import HTTPStatus

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.attempt.pod_calls import not_scheduled
from scheduler.extender.wire import ExtenderArgs, filter_result
from scheduler.extender.wire import error_result as extender_error
from scheduler.guard.reviewer import error_result, refused
from scheduler.output.table import ColumnTable
from scheduler.reporting import note_of
from scheduler.terminal_text import padded, printable, width_of


def steering(text: str) -> list[str]:
    return [one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


@given(st.text(max_size=20))
def test_what_is_printed_steers_no_terminal(text: str) -> None:
    shown = printable(text)
    assert not steering(shown)
    assert printable(shown) == shown


ARGS = ExtenderArgs(Pod={}, NodeNames=["gpu-a"])
CHARACTERS = st.characters() | st.sampled_from("\x1b\x9b\u202e\n\r\0")  # lone surrogates as well


@given(st.text(CHARACTERS, max_size=20).map(lambda text: f"selector {text!s} fails"))
def test_what_the_cluster_is_told_steers_no_terminal(message: str) -> None:
    """Users read it in conditions and events; what others wrote is in it, such as selectors."""
    reasons = filter_result(ARGS, (), {"gpu-a": message}, {"gpu-b": message})
    denial = refused("uid", HTTPStatus.CONFLICT, "Conflict", message)
    for told in (
        not_scheduled("Unschedulable", message, 1).message,
        note_of(message),
        orjson.loads(reasons)["FailedNodes"]["gpu-a"],
        orjson.loads(reasons)["FailedAndUnresolvableNodes"]["gpu-b"],
        orjson.loads(extender_error(message))["Error"],
        orjson.loads(denial)["response"]["status"]["message"],
        orjson.loads(error_result(message))["message"],
    ):
        assert told == printable(message)
        assert not steering(told)


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
