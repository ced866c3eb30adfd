"""`semver` in expressions."""

from tests.unit.cel.ext.expressions import costs_of, failure_of, holds, refusal_of


def test_version_attributes_and_texts_compare() -> None:
    assert holds('device.attributes["d.io"].version.isLessThan(semver("1.2.3"))')
    assert holds(
        'semver("1.2.3").isGreaterThan(semver("1.2.3-alpha")) && semver("1.0.0+a").compareTo(semver("1.0.0")) == 0'
    )
    assert "no matching overload" in refusal_of('semver("1.0.0") < semver("2.0.0")')


def test_parts_are_signed_64_bit_integers() -> None:
    assert holds('semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3").patch() == 3')
    assert holds('semver("18446744073709551615.0.0").major() == -1')


def test_normalisation_is_asked_for() -> None:
    assert holds('semver("v01.2", true).compareTo(semver("1.2.0")) == 0 && isSemver("v1", true)')
    assert holds('!isSemver("v1.0") && !isSemver("v1.0", false)')
    assert "Invalid character" in failure_of('semver("v1.0.0").major()')


def test_equality_with_anything_else_is_an_error_on_the_left_and_false_on_the_right() -> None:
    assert failure_of('device.attributes["d.io"].version == "1.2.3-rc.1"') == "no such overload"
    assert holds('"1.2.3-rc.1" != device.attributes["d.io"].version')
    assert holds('semver("1.0.0+a") == semver("1.0.0+b")')


def test_version_in_a_constant_list_is_the_reference_crash() -> None:
    assert "unhashable type cel.Semver" in failure_of('device.attributes["d.io"].version in ["1", "2"] || true')


def test_reading_costs_by_length() -> None:
    assert costs_of('semver("1.2.3-aaaaa").major() == 1') == (4, 4)
    assert costs_of('isSemver("v1.2.3-aaaa", true)') == (2, 2)
