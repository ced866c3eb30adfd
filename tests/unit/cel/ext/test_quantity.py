"""Quantities as values: reading, arithmetic, order, and the texts that Kubernetes writes."""

import math

import pytest

from cel.values.quantity import MAX_DIGITS, Format, Quantity


def quantity(text: str) -> Quantity:
    return Quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1n", 1),
        ("1u", 10**3),
        ("250m", 250 * 10**6),
        ("1", 10**9),
        ("-3k", -3 * 10**12),
        ("1.5Gi", 1_610_612_736 * 10**9),
        ("2e3", 2 * 10**12),
        ("2E3", 2 * 10**12),
        ("1e+3", 10**12),
        ("1e-3", 10**6),
        ("1E", 10**27),
        (".5", 5 * 10**8),
        ("5.", 5 * 10**9),
        ("+", 0),
        (".", 0),
        ("Mi", 0),
        ("007", 7 * 10**9),
    ],
)
def test_text_is_read_exactly(text: str, nanos: int) -> None:
    assert quantity(text).nanos == nanos


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "regular expression"),
        (" 1", "regular expression"),
        ("0x10", "regular expression"),
        ("1,000", "regular expression"),
        ("1 Gi", "regular expression"),
        ("Three", "regular expression"),
        ("\u0661", "regular expression"),
        ("200K", "suffix"),
        ("1e", "suffix"),
        ("1ki", "suffix"),
        ("1k5", "suffix"),
        ("1e9223372036854775808", "suffix"),
        (".e-20", "numeric part"),
        ("9" * (MAX_DIGITS + 1), "digits"),
    ],
)
def test_text_that_is_no_quantity_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        quantity(text)


def test_less_than_one_nano_is_rounded_away_from_zero() -> None:
    assert quantity("1e-10") == quantity("1n")
    assert quantity("-0.1n") == quantity("-1n")
    assert quantity("1.0000000001") == quantity("1000000001n")


def test_binary_suffix_caps_the_value_and_decimal_does_not() -> None:
    assert quantity("100Ei").nanos == (2**63 - 1) * 10**9
    assert quantity("-100Ei").nanos == -(2**63 - 1) * 10**9
    assert quantity("8Ei") == quantity("100Ei")
    assert quantity("100E") > quantity("100Ei")


def test_extreme_exponents_are_harmless() -> None:
    assert quantity("1e-99999999") == quantity("1n")
    assert quantity("1e99999999") > quantity("1e99999998") > quantity("9" * 30 + "E")
    assert quantity("-1e99999999") < quantity("-9" + "0" * 30)
    assert quantity("1e99999999").as_approximate_float() == math.inf
    assert len({quantity("1e99999999"), quantity("10e99999998")}) == 1


def test_exponents_wrap_around_at_32_bits() -> None:
    assert quantity("1e4294967299") == quantity("1e3")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0", "0"),
        ("0Ki", "0"),
        ("1.5", "1500m"),
        ("1500m", "1500m"),
        ("1000m", "1"),
        ("0.5Gi", "512Mi"),
        ("1024Ki", "1Mi"),
        ("512", "512"),
        ("1023Ki", "1023Ki"),
        ("0.1Ki", "102400m"),
        ("1.5Ki", "1536"),
        ("1e3", "1e3"),
        ("10e3", "10e3"),
        ("1e-3", "1e-3"),
        ("100000k", "100M"),
        ("-1.5", "-1500m"),
        ("+5", "+5"),
        ("1.500", "1.500"),
        ("1.0", "1"),
        ("100Ei", "9223372036854775807"),
        ("1e21", "1e21"),
    ],
)
def test_text_is_written_as_kubernetes_does(text: str, written: str) -> None:
    assert quantity(text).text == written
    assert quantity(quantity(text).text) == quantity(text)


def test_amount_beyond_the_largest_suffix_keeps_its_value_in_writing() -> None:
    assert quantity("1000E").text == "1000E"
    assert Quantity(2**70, 0, is_small=False, format=Format.BINARY_SI).text == "1024Ei"


def test_long_numbers_are_read_and_written_whatever_python_limits() -> None:
    digits = "9" * 9000
    assert quantity(digits).text == digits


@pytest.mark.parametrize(
    ("text", "is_integer"),
    [
        ("1", True),
        ("50k", True),
        ("999Gi", True),
        ("10Ti", True),
        ("50000000G", True),
        ("1Pi", False),
        ("1.5Gi", False),
        ("1.0Gi", False),
        ("2.0", False),
        ("1000m", False),
        ("1000000000000000000", False),
        ("9999999999999999999999999999999999999G", False),
        ("99999P", False),
    ],
)
def test_whether_it_is_an_integer_depends_on_how_it_is_written(text: str, is_integer: bool) -> None:  # noqa: FBT001
    assert quantity(text).is_integer() is is_integer
    if is_integer:
        assert quantity(text).as_integer() * 10**9 == quantity(text).nanos
    else:
        with pytest.raises(ValueError, match="cannot convert value to integer"):
            quantity(text).as_integer()


def test_sum_stays_small_only_if_both_sides_are_and_it_fits() -> None:
    assert (quantity("1") + quantity("1k")).is_integer()
    assert not (quantity("1.5Gi") + quantity("0.5Gi")).is_integer()
    assert not (quantity("9E") + quantity("9E")).is_integer()
    assert not (Quantity.of(2**63 - 1) + quantity("1")).is_integer()
    assert (quantity("0") + quantity("2k")).as_integer() == 2000


def test_sum_takes_the_family_of_the_left_side_unless_that_is_zero() -> None:
    assert (quantity("1Gi") + quantity("1")).format is Format.BINARY_SI
    assert (quantity("0") + quantity("1Gi")).text == "1Gi"
    assert (quantity("0") - quantity("1Gi")).text == "-1Gi"
    assert (quantity("1G") - quantity("1Mi")).text == "998951424"


def test_sum_of_amounts_too_far_apart_is_refused() -> None:
    with pytest.raises(ValueError, match="digits"):
        quantity("1e99999999") + quantity("1")
    assert quantity("1e99999999") + quantity("0") == quantity("1e99999999")


def test_negative_of_the_least_int64_is_itself_as_in_the_reference() -> None:
    least = Quantity.of(-(2**63))
    assert quantity("0") - least == least
    assert quantity("-1") - least == Quantity.of(2**63 - 1)


def test_approximate_float_is_mantissa_times_power_of_ten() -> None:
    assert quantity("0.3").as_approximate_float() == 0.30000000000000004
    assert quantity("300m").as_approximate_float() == 0.3
    assert quantity("1.5Gi").as_approximate_float() == 1_610_612_736.0
    assert quantity("9" * 400).as_approximate_float() == math.inf
    assert quantity("-" + "9" * 400).as_approximate_float() == -math.inf
    assert math.isnan(quantity("0e400").as_approximate_float())


def test_whole_and_thousandth_parts() -> None:
    assert quantity("1.5").ceil_int() == 2
    assert quantity("-1.5").ceil_int() == -2
    assert quantity("1.5").milli() == 1500
    assert quantity("1u").milli() is None


def test_equality_and_hash_go_by_value() -> None:
    assert quantity("1000m") == quantity("1") == quantity("1e0")
    assert len({quantity("1024Ki"), quantity("1Mi"), quantity("1048576")}) == 1
    assert quantity("1") != "1"
    assert -quantity("1") == quantity("-1")
    assert quantity("0").sign == 0
