"""CEL's `semver(...)`: semantic versions in selectors, such as the version attributes of a device.

The values are `cel.values.semver.Semver`. The reference holds a version in slices, which Go cannot hash.
Source: k8s.io/apiserver/pkg/cel/library/semverlib.go, version 1, with the costs of cost.go.
"""

import operator
from typing import Final

from cel.check.overloads import Library, Overload
from cel.ext.declare import method, scanning, succeeds, with_eval_errors
from cel.values.semver import Semver, VersionLimitError
from cel.values.types import BOOL, INT, SEMVER, STRING
from cel.values.values import register, unhashable

register(Semver, SEMVER, key=unhashable("cel.Semver"))


def _parse(text: str, normalize: bool) -> Semver:  # noqa: FBT001 - the argument of an expression
    return Semver.parse_tolerant(text) if normalize else Semver.parse(text)


def _number_named(name: str) -> Overload:
    def number(version: Semver) -> int:
        value: int = getattr(version, name)
        return (value + 2**63) % 2**64 - 2**63  # the reference casts to int64

    return method(name, f"semver_{name}", (SEMVER,), INT, number)


_PAIR: Final = (SEMVER, SEMVER)

LIBRARY: Final = Library(
    "kubernetes.Semver",
    overloads=(
        scanning("semver", "string_to_semver", (STRING,), SEMVER, with_eval_errors(Semver.parse)),
        scanning("semver", "string_bool_to_semver", (STRING, BOOL), SEMVER, with_eval_errors(_parse)),
        scanning("isSemver", "is_semver_string", (STRING,), BOOL, succeeds(Semver.parse, VersionLimitError)),
        scanning("isSemver", "is_semver_string_bool", (STRING, BOOL), BOOL, succeeds(_parse, VersionLimitError)),
        method("isGreaterThan", "semver_is_greater_than", _PAIR, BOOL, operator.gt),
        method("isLessThan", "semver_is_less_than", _PAIR, BOOL, operator.lt),
        method("compareTo", "semver_compare_to", _PAIR, INT, Semver.compare),
        _number_named("major"),
        _number_named("minor"),
        _number_named("patch"),
    ),
)
