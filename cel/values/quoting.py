"""Texts in double quotes as Go's `%q` writes them, which the reference's messages and `format` show.

Which characters can be seen is asked of RE2, whose tables do not change with the Python that runs this.
"""

from functools import lru_cache
from typing import Final

import re2

_ESCAPES: Final = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}
_SEEN: Final = re2.compile(r"[\pL\pM\pN\pP\pS ]")


def quoted(text: str) -> str:
    """The text in double quotes; what cannot be seen is escaped, a lone surrogate as the byte that it stands for."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{text.translate(_Escaped())}"'


class _Escaped:
    """What is written for each code point."""

    def __getitem__(self, code: int) -> str:
        return _escaped(code)


@lru_cache(maxsize=4096)
def _escaped(code: int) -> str:
    character = chr(code)
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    if code < 0x20 or code == 0x7F or 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code & 0xFF:02x}"
    if _SEEN.fullmatch(character):
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
