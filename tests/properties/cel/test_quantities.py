"""Quantities against exact fractions."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from cel.values.quantity import Quantity

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MOST = 2**63 - 1


@st.composite
def written_quantities(draw: st.DrawFn) -> tuple[str, Fraction]:
    """The text of a quantity, and what it stands for."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = draw(st.integers(0, 10**25))
    fraction = draw(st.text("0123456789", max_size=12))
    suffix = draw(st.sampled_from([*_DECIMAL, *_BINARY, "e0", "E7", "e-4", "e+12", "e-30"]))
    value = Fraction(int(f"{whole}{fraction}"), 10 ** len(fraction)) * _factor(suffix)
    point = "." if fraction or draw(st.booleans()) else ""
    return f"{sign}{whole}{point}{fraction}{suffix}", _held(value, suffix) * (-1 if sign == "-" else 1)


def _factor(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(2 ** _BINARY[suffix])
    return Fraction(10) ** (_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))


def _held(value: Fraction, suffix: str) -> Fraction:
    nanos = Fraction(-(-value * 10**9 // 1), 10**9)
    return min(nanos, Fraction(_MOST)) if suffix in _BINARY else nanos


@given(written_quantities())
def test_value_is_what_the_text_says(written: tuple[str, Fraction]) -> None:
    text, value = written
    assert Fraction(Quantity.parse(text).nanos, 10**9) == value


@given(written_quantities())
def test_text_reads_back_as_the_same_value(written: tuple[str, Fraction]) -> None:
    quantity = Quantity.parse(written[0])
    again = Quantity.parse(quantity.text)
    assert again == quantity
    assert Quantity.parse(again.text).text == again.text


@given(written_quantities(), written_quantities())
def test_order_is_that_of_the_values(left: tuple[str, Fraction], right: tuple[str, Fraction]) -> None:
    one, other = Quantity.parse(left[0]), Quantity.parse(right[0])
    assert one.compare(other) == (left[1] > right[1]) - (left[1] < right[1])
    assert (one < other, one <= other, one == other) == (left[1] < right[1], left[1] <= right[1], left[1] == right[1])
    if one == other:
        assert hash(one) == hash(other)


@given(written_quantities(), written_quantities())
def test_sum_and_difference_are_exact(left: tuple[str, Fraction], right: tuple[str, Fraction]) -> None:
    one, other = Quantity.parse(left[0]), Quantity.parse(right[0])
    assert (one + other).nanos == one.nanos + other.nanos
    assert (one - other).nanos == one.nanos - other.nanos
    assert (-one).nanos == -one.nanos


@given(st.integers(-(2**63), _MOST))
def test_whole_number_is_an_integer(value: int) -> None:
    assert Quantity.of(value).as_integer() == value


@given(st.text("0123456789.+-eEinumkKMGTP", max_size=12) | st.text(max_size=5))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except ValueError:
        return
    assert quantity.scale >= -9
