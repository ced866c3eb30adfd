import sys
import threading

import pytest

import cel
from cel import cache, compiler
from cel.stack import MOST_FRAMES, on_own_stack, with_room
from tests.unit.cel.frames import FEWEST, with_frames_left

DEVICE = cel.PlainDevice("d.io", {"i": ("int", 3)})
MOST = 249  # levels that the grammar allows, less one for what stands around


def nested(levels: int, opening: str, closing: str, inside: str = "true") -> str:
    """`#` stands for the number of the level, `<` for that of the one before."""
    openings = [opening.replace("#", str(level)).replace("<", str(level - 1)) for level in range(1, levels + 1)]
    return f"{''.join(openings)}{inside}{closing * levels}"


DEEP = {
    "parentheses": nested(MOST, "(", ")"),
    "lists": nested(248, "[", "]", "1") + ".size() == 1",
    "lists that are compared": f"{nested(240, '[', ']', '1')} == {nested(240, '[', ']', '1')}",
    "maps": nested(240, "{1: ", "}", "1") + ".size() == 1",
    "negations": nested(MOST, "!(", ")"),
    "indices": nested(MOST, "[0][", "]", "0") + " == 0",
    "a chain": "1" + " + 1" * 249 + " == 250",
    "conditions": "(" + nested(120, "false ? 1 : (", ")", "2") + ") == 2",
    "conditions on conditions": nested(120, "(true ? ", " : 2)", "1") + " == 1",
    "logic": nested(60, "!(false || false || true && true && ", ")"),
    "loops": nested(60, "[1].all(x#, ", ")"),
    "loops over loops": "[1]" + ".filter(x, true)" * 60 + ".size() == 1",
    "names": f"cel.bind(x0, 1, {nested(240, 'cel.bind(x#, x< + 1, ', ')', 'x240 == 241')})",
    "names of what nests": f"cel.bind(x0, 1, {nested(100, 'cel.bind(x#, [[[[x<]]]], ', ')', 'x100 == x100')})",
    "names of what nests, of any type": (
        f"cel.bind(x0, 1, {nested(150, 'cel.bind(x#, dyn([dyn([x<])]), ', ')', 'x150 == x150')})"
    ),
    "messages": (
        "cel.bind(x0, 1, "
        f"{nested(150, 'cel.bind(x#, dyn([[[[x<]]]]), ', ')', 'google.protobuf.Value{list_value: x150} != 1')})"
    ),
    "optionals": f"cel.bind(x0, 1, {nested(150, 'cel.bind(x#, optional.of(x<), ', ')', 'x150 == x150')})",
}


def reported(expression: str) -> tuple[object, ...]:
    """All that the expression comes to, nothing of it known before."""
    cache._selectors._kept.clear()
    compiler._checked.cache_clear()
    compiled = cel.compile(expression)
    outcome = compiled.run(DEVICE)
    return outcome.value, str(outcome.error), outcome.cost, compiled.estimated_cost, compiled.reads


@pytest.mark.parametrize("expression", DEEP.values(), ids=DEEP)
def test_what_nests_deep_is_answered_alike_wherever_it_is_asked(expression: str) -> None:
    first = reported(expression)
    assert isinstance(first[0], bool)
    for frames in (FEWEST, 150, 300, 500):
        assert with_frames_left(frames, lambda: reported(expression)) == first


def test_each_thread_may_ask_where_it_is_deep() -> None:
    answers: list[object] = []
    asked = [DEEP["lists"], DEEP["loops"]]
    expected = [reported(expression) for expression in asked]

    def ask() -> None:
        answers.append(with_frames_left(FEWEST, lambda: list(map(reported, asked))))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * len(threads)


@pytest.mark.parametrize("opening", ["(", "[", "{1: ", "!(", "-(", "f(", "a[", "true ? ", "1 + (", "[1].all(x, ", "a."])
def test_too_much_nesting_is_an_error_of_the_expression(opening: str) -> None:
    with pytest.raises(cel.CompileError):
        with_frames_left(FEWEST, lambda: cel.compile(opening * 251))
    with pytest.raises(cel.CompileError):
        with_frames_left(FEWEST, lambda: cel.compile(opening * 2000))


def test_limit_of_the_process_stays_as_it_is() -> None:
    before = sys.getrecursionlimit()
    for expression in DEEP.values():
        reported(expression)
    assert sys.getrecursionlimit() == before


def test_limit_that_is_too_low_for_any_stack_is_an_error_of_the_expression_or_of_the_device() -> None:
    limit = sys.getrecursionlimit()
    deepest = DEEP["names of what nests"]
    compiled = cel.compile(deepest)
    cache._selectors._kept.clear()
    compiler._checked.cache_clear()
    sys.setrecursionlimit(MOST_FRAMES // 2)
    try:
        with pytest.raises(cel.CompileError, match="nest too deep"):
            cel.compile(deepest)
        with pytest.raises(cel.EvalAbortedError, match="nested deeper"):
            compiled.evaluate(DEVICE)
    finally:
        sys.setrecursionlimit(limit)
        cache._selectors._kept.clear()


def test_call_with_room_stays_on_its_stack_and_one_without_leaves_it() -> None:
    here = threading.get_ident()
    assert with_room(threading.get_ident) == here
    assert with_frames_left(FEWEST, lambda: with_room(threading.get_ident)) != here


def test_error_on_another_stack_is_raised_where_it_was_called() -> None:
    def fail() -> None:
        raise KeyError("there")

    with pytest.raises(KeyError, match="there"):
        on_own_stack(fail)
