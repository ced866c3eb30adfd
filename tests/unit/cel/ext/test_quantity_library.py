"""`quantity` in expressions."""

from tests.unit.cel.ext.expressions import costs_of, failure_of, holds, refusal_of


def test_quantities_compare_by_methods_only() -> None:
    assert holds('device.capacity["d.io"].memory.isGreaterThan(quantity("40Gi"))')
    assert holds('quantity("1k").isLessThan(quantity("1Ki")) && quantity("200M").compareTo(quantity("0.2G")) == 0')
    assert "no matching overload" in refusal_of('quantity("1") > quantity("2")')


def test_sign_is_a_function_and_no_method() -> None:
    assert holds('sign(quantity("-5")) == -1 && sign(quantity("0")) == 0')
    assert "no matching overload" in refusal_of('quantity("1").sign()')


def test_arithmetic_takes_quantities_and_ints() -> None:
    assert holds('quantity("50k").add(20).sub(quantity("100k")).sub(-50000).compareTo(quantity("20")) == 0')
    assert "no matching overload" in refusal_of('quantity("50k").add("20k")')


def test_malformed_text_is_an_error_of_the_device_and_not_of_the_expression() -> None:
    assert "suffix" in failure_of('quantity("200K").isInteger()')
    assert holds('true || quantity("bad").isInteger()')
    assert holds('isQuantity("1.5Gi") && !isQuantity("1,3G")')


def test_as_integer_fails_where_is_integer_says_no() -> None:
    assert holds('quantity("999Gi").isInteger() && !quantity("1Pi").isInteger()')
    assert failure_of('quantity("1Pi").asInteger()') == "cannot convert value to integer"


def test_equality_is_defined_towards_plain_quantities_only() -> None:
    assert holds('quantity("1000m") == quantity("1")')
    assert holds('quantity("1").add(1) == quantity("2")')
    assert failure_of('quantity("2") == quantity("1").add(1)') == "no such overload"
    assert failure_of('dyn(quantity("1")) == 1') == "no such overload"
    assert holds('dyn(1) != quantity("1")')
    assert holds('!(quantity("2") in [quantity("1").add(1)])')


def test_keys_of_a_map_are_the_quantities_themselves_and_not_their_values() -> None:
    assert holds('{dyn(quantity("1")): 1, dyn(quantity("1")): 2}.size() == 2')
    assert holds('!(quantity("1") in {dyn(quantity("1")): 1})')
    assert holds('cel.bind(q, quantity("1"), q in {dyn(q): 1})')


def test_text_beyond_our_limit_is_an_error_and_not_refused_as_malformed() -> None:
    digits = '"11".replace("1", "' + "1" * 6000 + '")'
    assert "digits" in failure_of(f"isQuantity({digits})")
    assert "characters" in failure_of(f'isSemver("1.0.0-" + {digits})')
    assert "characters" in failure_of(f'isSemver("1.0.0-" + {digits}, true)')


def test_sum_too_large_to_be_held_is_an_error() -> None:
    assert "digits" in failure_of('quantity("1e99999999").add(1).isInteger()')
    assert "digits" in failure_of('quantity("1e99999999").sub(quantity("1")).isInteger()')


def test_reading_costs_by_length_and_the_rest_one_unit() -> None:
    assert costs_of('quantity("12345678901").isInteger()') == (3, 3)
    assert costs_of('quantity("1").compareTo(quantity("2")) == 1') == (4, 4)
