"""JSON values as keys: equal if they have the same text, which also distinguishes 1, true and 1.0."""

from typing import Generic, TypeVar

T = TypeVar("T")


class ByText(Generic[T]):
    """A value as a key. Raises RecursionError if it is nested too deeply, ValueError for a number with too many digits.

    text: the quickest that there is.
    """

    __slots__ = ("text", "value")

    def __init__(self, value: T) -> None:
        self.value = value
        self.text = repr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByText) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)
