"""Semantic versions as devices publish them: `535.104.5`, `1.0.0-rc.1+build`.

The values of attributes of type version, and of CEL's `semver`. `parse` is strict; `parse_tolerant` also accepts the
looser forms that people use, such as `v1` and `01.2`.
Source: semver.org 2.0.0 as github.com/blang/semver/v4 reads it; the tolerant form as k8s.io/apiserver does.
"""

import json
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

MAX_CHARACTERS = 10_240  # a literal in the longest expression that the API server admits still fits
MAX_UINT64 = 2**64 - 1

_LONGEST_ATTRIBUTE = 64  # characters of a version that a device may have
_DIGITS = re.compile(r"[0-9]*+")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]*+")


class VersionLimitError(ValueError):
    """A version that is longer than supported here."""


@dataclass(frozen=True, eq=False)
class Semver:
    """A semantic version: immutable, ordered by precedence; versions that differ in their build only are equal."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> "Semver":
        """Parses a version strictly.

        Raises ValueError, and VersionLimitError beyond MAX_CHARACTERS.
        """
        return recent_versions(text) if len(text) <= _LONGEST_ATTRIBUTE else _parse(text)

    @staticmethod
    def parse_tolerant(text: str) -> "Semver":
        """Parses a version after dropping a leading `v` and leading zeros, and adding missing numbers as 0.

        Raises like `parse`.
        """
        parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        return Semver.parse(".".join([*parts, "0", "0"][:3]))

    @cached_property
    def precedence(self) -> tuple[object, ...]:
        """The sort key of the version."""
        identifiers = tuple((isinstance(part, str), part) for part in self.prerelease)
        return self.major, self.minor, self.patch, not identifiers, identifiers

    @property
    def text(self) -> str:
        """The version as it is written."""
        prerelease = "-" + ".".join(map(str, self.prerelease)) if self.prerelease else ""
        build = "+" + ".".join(self.build) if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{prerelease}{build}"

    def __str__(self) -> str:
        return self.text

    def compare(self, other: "Semver") -> int:
        """-1, 0 or 1 as this version precedes, equals or follows the other."""
        mine, others = self.precedence, other.precedence
        return (mine > others) - (mine < others)

    def __eq__(self, other: object) -> bool:
        return self.precedence == other.precedence if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: "Semver") -> bool:
        return self.precedence < other.precedence

    def __le__(self, other: "Semver") -> bool:
        return self.precedence <= other.precedence

    def __gt__(self, other: "Semver") -> bool:
        return self.precedence > other.precedence

    def __ge__(self, other: "Semver") -> bool:
        return self.precedence >= other.precedence

    def __hash__(self) -> int:
        return hash(self.precedence)


def _parse(text: str) -> Semver:
    if len(text) > MAX_CHARACTERS:
        raise VersionLimitError(f"versions of more than {MAX_CHARACTERS} characters are not supported")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found" if text else "Version string empty")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    return Semver(
        major,
        minor,
        _number(patch, "patch"),
        tuple(map(_prerelease_identifier, prerelease.split("."))) if dash else (),
        tuple(map(_build_identifier, build.split("."))) if plus else (),
    )


@lru_cache(maxsize=4096)
def recent_versions(text: str) -> Semver:
    """`Semver.parse` of a short text, cached: fleets repeat the same few."""
    return _parse(text)


def is_version(text: str) -> bool:
    """Whether `Semver.parse` accepts the text."""
    return _is_short_version(text) if len(text) <= _LONGEST_ATTRIBUTE else _is_version(text)


def _is_version(text: str) -> bool:
    try:
        return bool(Semver.parse(text))
    except ValueError:
        return False


_is_short_version = lru_cache(maxsize=4096)(_is_version)


def _number(text: str, name: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise ValueError(f"Invalid character(s) found in {name} number {_quoted(text)}")
    if _has_leading_zeros(text):
        raise ValueError(f"{name.capitalize()} number must not contain leading zeroes {_quoted(text)}")
    return _uint64(text)


def _prerelease_identifier(text: str) -> int | str:
    if not text:
        raise ValueError("Prerelease is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError(f"Invalid character(s) found in prerelease {_quoted(text)}")
    if not _DIGITS.fullmatch(text):
        return text
    if _has_leading_zeros(text):
        raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {_quoted(text)}")
    return _uint64(text)


def _build_identifier(text: str) -> str:
    if not text:
        raise ValueError("Build meta data is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError(f"Invalid character(s) found in build meta data {_quoted(text)}")
    return text


def _uint64(digits: str) -> int:
    if not digits:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    if len(digits) > 20 or int(digits) > MAX_UINT64:
        raise ValueError(f"strconv.ParseUint: parsing {_quoted(digits)}: value out of range")
    return int(digits)


def _has_leading_zeros(digits: str) -> bool:
    return len(digits) > 1 and digits[0] == "0"


def _without_leading_zeros(number: str) -> str:
    """The number without leading zeros, except for a single one."""
    if len(number) <= 1:
        return number
    stripped = number.lstrip("0")
    return stripped if "0" <= stripped[:1] <= "9" else "0" + stripped


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
