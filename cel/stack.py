"""Stack space for recursion: deep recursion continues on the stack of a new thread.

An expression may nest deeper than Python's recursion limit, and may be compiled when most of that limit is used up. The
limit belongs to the process and is not changed: each new thread starts with all of it, and the caller waits for it.
"""

import sys
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

MOST_FRAMES: Final = 500  # half of what Python allows by default; the rest is for what happens until the next look
LEVELS: Final = 16  # from one look to the next; the parser, which needs most, takes 17 frames for a level


def with_room(function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
    """Calls the function, on a new stack if this one is deep already."""
    try:
        sys._getframe(MOST_FRAMES)  # noqa: SLF001 - the quickest way to see how deep this is
    except ValueError:
        return function(*args, **kwargs)
    return on_own_stack(function, *args, **kwargs)


def on_own_stack(function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
    """Calls the function on a new stack."""
    answers: list[Result] = []
    errors: list[BaseException] = []
    done = allocate_lock()

    def run() -> None:
        try:
            answers.append(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - it is raised where it was waited for
            errors.append(error)
        finally:
            done.release()

    # From here on nothing takes a frame: where none is left this fails before the thread begins, and not after.
    done.acquire()
    start_new_thread(run, ())
    done.acquire()
    if errors:
        raise errors.pop()
    return answers.pop()
