"""Caches: of the least recently used kind, and of programs by expression and environment, with errors of invalid ones.

This is the only place with a late import: the compiler (front end, libraries, overload tables) is imported with the
first expression, so that `import cel` is fast.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeAlias, TypeVar, final

from cel.errors import CompileError
from cel.program import V1_37, Environment, Program, ValueProgram
from cel.stack import with_room

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@final
class LruCache(Generic[K, V]):
    """Values by key, made on the first request. Beyond either limit the least recently used entry is dropped.

    most: entries. most_weight: of all entries together; a single entry may weigh more. Cost: O(1).
    """

    __slots__ = ("_kept", "most", "most_weight", "weight")

    def __init__(self, most: int, most_weight: int) -> None:
        self.most = most
        self.most_weight = most_weight
        self.weight = 0
        self._kept: dict[K, tuple[V, int]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def values(self) -> Iterator[V]:
        """All values, the least recently used first."""
        return (value for value, _ in self._kept.values())

    def get(self, key: K, weight: int, make: Callable[[], V]) -> V:
        """The value of a key. weight: of the entry. If `make` raises an error, nothing is kept."""
        known = self._kept.pop(key, None)
        if known is not None:
            self._kept[key] = known  # at the end: the first one is the least recently used
            return known[0]
        value = make()
        self._kept[key] = value, weight
        self.weight += weight
        while len(self._kept) > self.most or (self.weight > self.most_weight and len(self._kept) > 1):
            _, gone = self._kept.pop(next(iter(self._kept)))
            self.weight -= gone
        return value


LONGEST_SOURCE: Final = 10 * 1024  # bytes of UTF-8, as the API server allows
MOST_PROGRAMS: Final = 4096
MOST_TEXT: Final = 2**19  # characters of all programs that are kept; a program takes up to 240 bytes for each

_Some = TypeVar("_Some", Program, ValueProgram)
_Cache: TypeAlias = LruCache[tuple[str, Environment], _Some | CompileError]


def compile_selector(text: str, environment: Environment = V1_37) -> Program:
    """The program of a selector; raises CompileError."""
    return _known(_selectors, text, environment, _selector)


def compile_value(text: str, environment: Environment = V1_37) -> ValueProgram:
    """The program of a derived attribute; raises CompileError."""
    return _known(_values, text, environment, _attribute)


_selectors: Final[_Cache[Program]] = LruCache(MOST_PROGRAMS, MOST_TEXT)
_values: Final[_Cache[ValueProgram]] = LruCache(MOST_PROGRAMS, MOST_TEXT)


def _known(
    cache: _Cache[_Some],
    text: str,
    environment: Environment,
    compile_: Callable[[str, Environment], _Some],
) -> _Some:
    """The program of an expression, compiled now or before; raises a new CompileError each time."""
    if len(text) > LONGEST_SOURCE:
        return with_room(compile_, text, environment)

    def make() -> _Some | CompileError:
        try:
            return with_room(compile_, text, environment)
        except CompileError as error:
            return error.with_traceback(None)

    found = cache.get((text, environment), len(text), make)
    if isinstance(found, CompileError):
        raise CompileError(found.message, found.line, found.column, found.source)
    return found


def conjuncts(text: str) -> tuple[str, ...]:
    """The operands of the `&&` at the top of an expression that compiles; the expression alone if it is none."""
    from cel.syntax import lexer

    return lexer.conjuncts(text)


def _selector(text: str, environment: Environment) -> Program:
    from cel import compiler

    return compiler.selector(text, environment)


def _attribute(text: str, environment: Environment) -> ValueProgram:
    from cel import compiler

    return compiler.attribute(text, environment)
