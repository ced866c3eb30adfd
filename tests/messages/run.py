"""`make messages`: every message of the program once, as its source has it: to be read as a whole.

A message is a text of two words or more that is no docstring and no code: what is printed, logged, answered or told in
help. `{...}` stands for a value, by the name that it has in the source.
"""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("allocator", "cel", "scheduler")

_WORDS = re.compile(r"[A-Za-z'`-]{2,}[,:;]? +(?:[A-Za-z'`({-]|\d)")
_CODE = re.compile(r"^[\s\x1b(?:^\[#:]|<|;|default-src|\\|\w+-src ")


def messages(text: str) -> Iterator[tuple[int, str]]:
    """The messages of a source, with their lines."""
    tree = ast.parse(text)
    passed_over = set(_silent(tree))
    for node in ast.walk(tree):
        if id(node) not in passed_over and isinstance(node, ast.Constant | ast.JoinedStr):
            told = _told(node)
            if _WORDS.search(re.sub(r"\{[^{}]*\}", "x", told)) and not _CODE.match(told):
                yield node.lineno, " ".join(told.split())


def _silent(tree: ast.AST) -> Iterator[int]:
    """Nodes that tell nobody anything: docstrings, loose strings, patterns, and the parts of f-strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)
        elif isinstance(node, ast.JoinedStr):
            yield from (id(part) for part in ast.walk(node) if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
            yield from (id(part) for part in ast.walk(node))


def _told(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_told(one) if isinstance(one, ast.Constant) else f"{{{_name(one)}}}" for one in node.values)
    return node.value if isinstance(node.value, str) else ""


def _name(node: ast.expr) -> str:
    return re.sub(r"[{}]", "", ast.unparse(node.value)) if isinstance(node, ast.FormattedValue) else ""


def listed(rooms: tuple[str, ...] = ROOMS) -> Iterator[str]:
    """A line for each message, at the first of its places, file by file."""
    seen: set[str] = set()
    for path in sorted(path for room in rooms for path in (ROOT / room).rglob("*.py")):
        for line, message in sorted(messages(path.read_text(encoding="utf-8"))):
            if message not in seen:
                seen.add(message)
                yield f"{path.relative_to(ROOT)}:{line}: {message}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="*", default=ROOMS, help="folders of the product; all by default")
    print("\n".join(listed(tuple(parser.parse_args().rooms))))  # noqa: T201 - what it is for
