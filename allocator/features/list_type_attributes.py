"""List attributes: an attribute with several values, which constraints compare as a set.

With the gate on, devices match if all of them have one value in common, and are distinct if no two share a value. With
the gate off, a list matches nothing, not even itself.
Source: KEP-5491, feature gate DRAListTypeAttributes.
"""

from typing import Final

from allocator.model import SCALAR_TYPES, Attribute

Token = tuple[str, object]
"""What two devices have in common or not: (type of the value, value)."""

_ITEM: Final = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}


def is_list(attribute: Attribute) -> bool:
    """True for the types with several values, and for an attribute without any."""
    return attribute[0] not in SCALAR_TYPES


def tokens(attribute: Attribute, device: int, *, has_lists: bool) -> tuple[Token, ...]:
    """The values by which constraints compare the attribute of a device, each once; none where it can never match.

    has_lists: the gate is on. If it is off, a list counts as one value that no other device has.
    """
    type_, value = attribute
    if not is_list(attribute):
        return (attribute,)
    if not has_lists:
        return (("list", device),)
    return tuple(dict.fromkeys([(_ITEM[type_], item) for item in value])) if type_ else ()  # type: ignore[attr-defined]
