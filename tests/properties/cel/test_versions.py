"""Semantic versions: reading, writing, order."""

from hypothesis import given
from hypothesis import strategies as st

from cel.values.semver import Semver

_IDENTIFIERS = st.from_regex(r"0|[1-9][0-9]{0,8}|[0-9]{0,3}[A-Za-z-][0-9A-Za-z-]{0,4}", fullmatch=True)
_NUMBERS = st.integers(0, 2**64 - 1)


@st.composite
def versions(draw: st.DrawFn) -> str:
    """The text of a strict version."""
    core = ".".join(str(draw(_NUMBERS)) for _ in range(3))
    prerelease = draw(st.lists(_IDENTIFIERS, max_size=3))
    build = draw(st.lists(_IDENTIFIERS, max_size=2))
    return core + ("-" + ".".join(prerelease) if prerelease else "") + ("+" + ".".join(build) if build else "")


@given(versions())
def test_text_survives_reading(text: str) -> None:
    assert Semver.parse(text).text == text
    assert Semver.parse_tolerant("v" + text) == Semver.parse(text)


@given(st.lists(versions(), min_size=3, max_size=3))
def test_order_is_total(texts: list[str]) -> None:
    low, middle, high = sorted(map(Semver.parse, texts))
    assert low <= middle <= high
    assert low <= high
    assert low.compare(high) == -high.compare(low)


@given(versions())
def test_prerelease_precedes_its_release(text: str) -> None:
    version = Semver.parse(text)
    release = Semver(version.major, version.minor, version.patch)
    assert (version < release) is bool(version.prerelease)


@given(st.text("0123456789.-+v ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (Semver.parse, Semver.parse_tolerant):
        try:
            version = parse(text)
        except ValueError:
            continue
        assert Semver.parse(version.text) == version
