"""Semantic versions as values: strict and tolerant reading, precedence."""

import pytest

from cel.values.semver import Semver


def version(text: str) -> Semver:
    return Semver.parse(text)


@pytest.mark.parametrize("text", ["0.0.0", "535.104.5", "1.2.3-rc.1", "1.2.3-a-b.0+build.01", "1.0.0+-", "1.0.0--"])
def test_text_survives_reading(text: str) -> None:
    assert version(text).text == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Version string empty"),
        ("1", "No Major.Minor.Patch"),
        ("1.2", "No Major.Minor.Patch"),
        ("1.2.3.4", "Invalid character"),
        ("v1.2.3", "Invalid character"),
        ("01.2.3", "leading zeroes"),
        ("1.2.03", "leading zeroes"),
        ("..", "invalid syntax"),
        ("1.2.", "invalid syntax"),
        ("18446744073709551616.0.0", "out of range"),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-a..b", "Prerelease is empty"),
        ("1.2.3-01", "leading zeroes"),
        ("1.2.3-\u00e9", "Invalid character"),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+a_b", "Invalid character"),
        (" 1.2.3", "Invalid character"),
        ("\u0661.2.3", "Invalid character"),
    ],
)
def test_text_that_is_no_version_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        version(text)


def test_precedence_is_that_of_the_specification() -> None:
    ordered = ["1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc.1"]
    ordered += ["1.0.0", "1.0.1", "1.10.0", "2.0.0"]
    versions = [version(text) for text in ordered]
    shuffled = versions[1::2] + versions[::2]
    assert sorted(shuffled) == versions
    assert version("1.0.0-1").compare(version("1.0.0-alpha")) == -1


def test_build_counts_for_nothing() -> None:
    assert version("1.0.0+a") == version("1.0.0+b")
    assert len({version("1.0.0+a"), version("1.0.0")}) == 1
    assert version("1.0.0").compare(version("1.0.0+z")) == 0


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ("v1.2.3", "1.2.3"),
        ("1", "1.0.0"),
        ("1.2", "1.2.0"),
        ("01.02.03", "1.2.3"),
        ("1.2.000", "1.2.0"),
        ("1.2.03-rc.1", "1.2.3-rc.1"),
        ("v00", "0.0.0"),
    ],
)
def test_tolerant_reading_takes_loose_forms(text: str, strict: str) -> None:
    assert Semver.parse_tolerant(text).text == strict


@pytest.mark.parametrize("text", ["V1.2.3", "vv1", " 1.2.3", "1.2-rc", "1-rc", "1.2.3.4", "v", ""])
def test_tolerant_reading_has_its_limits(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Semver.parse_tolerant(text)
