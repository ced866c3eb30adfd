"""List attributes: an attribute with several values, which constraints compare as a set.

With the gate on, devices match if all of them have one value in common, and are distinct if no two share a value. With
the gate off, a list matches nothing, not even itself; from 1.38 on, a device with one ends the attempt.
Source: KEP-5491, feature gate DRAListTypeAttributes.
"""

from typing import Final

from allocator.gates import LIST_TYPE_ATTRIBUTES, Features
from allocator.model import SCALAR_TYPES, Attribute
from cel.values.semver import is_version

Token = tuple[str, object]
"""What two devices have in common or not: (type of the value, value)."""

_ITEM: Final = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}


class Incomparable(ValueError):
    """An attribute whose value a constraint cannot compare; a device with it, if it is tried, ends the attempt."""


def is_list(attribute: Attribute) -> bool:
    """True for the types with several values, and for an attribute without any."""
    return attribute[0] not in SCALAR_TYPES


UNSUPPORTED: Final = "unsupported attribute value"
"""Why an attribute cannot be compared."""


def tokens(attribute: Attribute, device: int, features: Features, *, is_derived: bool = False) -> tuple[Token, ...]:
    """The values by which constraints compare the attribute of a device, each once; none where it can never match.

    is_derived: an empty list is a value, which has nothing in common with any. Raises Incomparable.
    """
    type_, value = attribute
    has_lists = features.has(LIST_TYPE_ATTRIBUTES)
    if features.release.compares_as_written:
        if not is_list(attribute):
            return (attribute,)
        if not has_lists:
            return (("list", device),)  # one value that no other device has
        return tuple(dict.fromkeys([(_ITEM[type_], item) for item in value])) if type_ else ()  # type: ignore[attr-defined]
    if is_list(attribute) and not (type_ and has_lists and (value or is_derived)):
        raise Incomparable(UNSUPPORTED)
    items = value if is_list(attribute) else (value,)
    return tuple(dict.fromkeys([_compared(_ITEM.get(type_, type_), item) for item in items]))  # type: ignore[attr-defined]


def _compared(type_: str, item: object) -> Token:
    """Versions compare by precedence, in which build metadata does not count."""
    if type_ != "version":
        return type_, item
    text = str(item)
    if not is_version(text):
        raise Incomparable(UNSUPPORTED)
    return type_, text.partition("+")[0]
