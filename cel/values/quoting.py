"""Go's `%q`: texts in double quotes, as in the reference's messages and in `format`.

RE2 decides which characters are printable, since its tables do not depend on the version of Python.
"""

from functools import lru_cache
from typing import Final

import re2

_ESCAPES: Final = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}
_PRINTABLE: Final = re2.compile(r"[\pL\pM\pN\pP\pS ]")


def quoted(text: str) -> str:
    """The text in double quotes. Unprintable characters are escaped, a lone surrogate as its byte."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{text.translate(_Escaped())}"'


class _Escaped:
    """The table of escapes, by code point."""

    def __getitem__(self, code: int) -> str:
        return _escaped(code)


@lru_cache(maxsize=4096)
def _escaped(code: int) -> str:
    character = chr(code)
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    if code < 0x20 or code == 0x7F or 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code & 0xFF:02x}"
    if _PRINTABLE.fullmatch(character):
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
