"""Programs by expression and environment, compiled when they are first asked for; a refused expression is kept too.

What compiling needs (front end, libraries, overload tables) is imported with the first expression: `import cel` and
programs that meet none stay quick.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, TypeVar

from cel.environment import V1_37, Environment
from cel.errors import CompileError
from cel.memo import Memo
from cel.program import Program, ValueProgram
from cel.stack import with_room

LONGEST_SOURCE: Final = 10 * 1024  # bytes of UTF-8, as the API server allows
MOST_PROGRAMS: Final = 4096
MOST_TEXT: Final = 2**19  # characters of all programs that are kept; a program takes up to 240 bytes for each

_Some = TypeVar("_Some", Program, ValueProgram)
_Memo: TypeAlias = Memo[tuple[str, Environment], _Some | CompileError]


def compile_selector(text: str, environment: Environment = V1_37) -> Program:
    """A selector, compiled or from the cache; raises CompileError, for a refused one from the cache too."""
    return _known(_selectors, text, environment, _selector)


def compile_value(text: str, environment: Environment = V1_37) -> ValueProgram:
    """The expression of a derived attribute, compiled or from the cache; raises CompileError."""
    return _known(_values, text, environment, _attribute)


class CacheInfo(NamedTuple):
    """How full the cache of programs is: entries, of at most `most`, and how often one was found or made."""

    entries: int
    most: int
    hits: int
    misses: int


def cache_info() -> CacheInfo:
    """The state of the cache of selectors."""
    return CacheInfo(len(_selectors), _selectors.most, _selectors.hits, _selectors.misses)


_selectors: Final[_Memo[Program]] = Memo(MOST_PROGRAMS, MOST_TEXT)
_values: Final[_Memo[ValueProgram]] = Memo(MOST_PROGRAMS, MOST_TEXT)


def _known(
    memo: _Memo[_Some],
    text: str,
    environment: Environment,
    compile_: Callable[[str, Environment], _Some],
) -> _Some:
    """What is made of an expression, now or before; raises CompileError, anew each time."""
    if len(text) > LONGEST_SOURCE:
        return with_room(compile_, text, environment)

    def make() -> _Some | CompileError:
        try:
            return with_room(compile_, text, environment)
        except CompileError as error:
            return error.with_traceback(None)

    found = memo.get((text, environment), len(text), make)
    if isinstance(found, CompileError):
        raise CompileError(found.message, found.line, found.column, found.source)
    return found


def _selector(text: str, environment: Environment) -> Program:
    from cel import compiler

    return compiler.selector(text, environment)


def _attribute(text: str, environment: Environment) -> ValueProgram:
    from cel import compiler

    return compiler.attribute(text, environment)
