"""Makes a case that shows a difference small: delta debugging on expressions, texts, devices and any JSON.

`differs` says whether a candidate still shows it. All functions are greedy: they take the first smaller candidate that
still differs, and end where none does.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from tests.generators.expressions import Node
from tests.generators.grammar import LITERALS

Json = Any  # any JSON value
T = TypeVar("T")


def shrink_expression(node: Node, differs: Callable[[Node], bool]) -> Node:
    """The smallest expression found: parts replaced by what they contain or by literals, then the text cut."""
    smaller = _descend(node, _smaller_nodes, differs)
    text = shrink_text(str(smaller), lambda text: differs(Node(node.kind, (text,))))
    return smaller if text == str(smaller) else Node(node.kind, (text,))


def shrink_text(text: str, differs: Callable[[str], bool]) -> str:
    """The shortest text found by leaving out stretches of it, long ones first."""
    return _descend(text, _shorter_texts, differs)


def shrink_json(value: Json, differs: Callable[[Json], bool], keep: Collection[str] = ()) -> Json:
    """The smallest JSON found by leaving out entries of objects and lists, at any depth.

    keep: keys that no object loses, those without which it would not be what it is.
    """
    return _descend(value, lambda current: _smaller_values(current, keep), differs)


def _descend(start: T, candidates: Callable[[T], Iterator[T]], differs: Callable[[T], bool]) -> T:
    current = start
    while (smaller := next(filter(differs, candidates(current)), None)) is not None:
        current = smaller
    return current


def _smaller_nodes(node: Node) -> Iterator[Node]:
    """What this node may become, the smallest first: a literal, a part of the same kind, itself with a smaller part."""
    size = len(str(node))
    own = [Node(node.kind, (text,)) for text in LITERALS.get(node.kind.name, ())[:2]]
    own += [inner for inner in node.descendants() if inner.kind == node.kind]
    yield from sorted((n for n in own if len(str(n)) < size), key=lambda n: len(str(n)))
    for position, part in enumerate(node.parts):
        if isinstance(part, Node):
            for smaller in _smaller_nodes(part):
                yield _with_part(node, position, smaller)


def _with_part(node: Node, position: int, part: Node) -> Node:
    return Node(node.kind, (*node.parts[:position], part, *node.parts[position + 1 :]), node.is_operation)


def _shorter_texts(text: str) -> Iterator[str]:
    length = len(text) // 2
    while length:
        for start in range(0, len(text) - length + 1, max(1, length // 2)):
            yield text[:start] + text[start + length :]
        length //= 2


def _smaller_values(value: Json, keep: Collection[str]) -> Iterator[Json]:
    """Values with one entry less, then with one entry smaller."""
    match value:
        case dict():
            for key in [k for k in value if k not in keep]:
                yield {k: v for k, v in value.items() if k != key}
            for key, inner in value.items():
                yield from ({**value, key: smaller} for smaller in _smaller_values(inner, keep))
        case list():
            for i in range(len(value)):
                yield value[:i] + value[i + 1 :]
            for i, inner in enumerate(value):
                yield from ([*value[:i], smaller, *value[i + 1 :]] for smaller in _smaller_values(inner, keep))
