"""Regular expressions in Go's syntax on RE2, and `find` and `findAll`."""

import pytest
import re2

import cel
from cel.errors import EvalAbortedError
from cel.run.patterns import compile_pattern
from tests.unit.cel.ext.expressions import DEVICE, costs_of, failure_of, holds, refusal_of


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\p{Letter}", "é"),
        (r"\p{uppercase letter}", "K"),
        (r"\p{greek}", "λ"),
        (r"\P{Lu}", "k"),
        (r"\p{^Lu}", "k"),
        (r"\P{^Lu}", "K"),
        (r"[\p{Decimal_Number}x]", "x"),
        (r"^\p{ASCII}$", "~"),
        (r"\p{LC}", "a"),
        (r"\p{Any}", "\n"),
        (r"\p{Cn}", "\u0378"),
        (r"^\PC$", "a"),
        (r"[^\P{Assigned}]", "a"),
        (r"\Q\C.\E", r"\C."),
        (r"(?P<name>a)(?<other>b)", "ab"),
        (r"[(?P<é>]", "é"),
        (r"(?i)straße", "STRAßE"),
        (r"(?s)a.b", "a\nb"),
        (r"x{2,3}", "xx"),
    ],
)
def test_pattern_matches_as_in_go(pattern: str, text: str) -> None:
    assert compile_pattern(pattern).matches(text)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\C",
        r"(?P<é>a)",
        r"\p{Nonsense}",
        "[",
        "(",
        "(?=a)",
        r"\1",
        "a{1001}",
        "a**",
        "(a{1000}){2}",
        r"\8",
        "[^]",
        "\\",
    ],
)
def test_pattern_is_refused_as_in_go(pattern: str) -> None:
    with pytest.raises(ValueError, match="error parsing regexp"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("opened", "closed", "most"),
    [
        pytest.param("(", ")", 999, id="groups"),
        pytest.param("(", ")*", 499, id="groups that repeat"),
        pytest.param("b(", ")", 499, id="groups in sequences"),
        pytest.param("bb+(", ")", 499, id="groups in sequences behind a repetition"),
        pytest.param("(b|[c(]", ")", 333, id="groups among choices"),
        pytest.param("(?:", ")?", 999, id="repetitions"),
    ],
)
def test_pattern_of_more_than_a_thousand_levels_is_refused_as_in_go(opened: str, closed: str, most: int) -> None:
    assert compile_pattern(f"{opened * most}a{closed * most}")
    deeper = f"{opened * (most + 1)}a{closed * (most + 1)}"
    with pytest.raises(ValueError, match=r"^error parsing regexp: expression nests too deeply: `") as refused:
        compile_pattern(deeper)
    assert str(refused.value).endswith(f"`{deeper}`")


@pytest.mark.parametrize("wide", [r"\(", r"[(]", "(a)", "(?:", "(?i)", "a|"])
def test_pattern_may_be_as_wide_as_it_likes(wide: str) -> None:
    """Groups beside each other, and those that do not capture, are no deeper."""
    assert compile_pattern(wide * 1_200 + ")" * 1_200 * (wide == "(?:"))


def test_every_character_is_in_one_general_category_or_unassigned() -> None:
    text = "aA1 _$\u0378\u00ad\U0001f600"
    assert compile_pattern(r"[\p{Assigned}\p{Cn}]").find_all(text, -1) == list(text)
    assert compile_pattern(r"\pC").find_all(text, -1) == ["\u0378", "\u00ad"]


def test_no_match_lies_inside_of_a_character() -> None:
    assert compile_pattern(r"\B").find_all("kK\u212a\n", -1) == ["", "", ""]
    assert not compile_pattern(r"a\B").matches("aéa")


def test_empty_match_next_to_a_match_does_not_count() -> None:
    assert compile_pattern("a*").find_all("baac", -1) == ["", "aa", ""]
    assert compile_pattern("").find_all("é", -1) == ["", ""]


def test_limit_is_the_number_of_matches_unless_negative() -> None:
    pattern = compile_pattern("[0-9]+")
    assert pattern.find_all("1 22 333", 2) == ["1", "22"]
    assert pattern.find_all("1 22 333", 0) == []
    assert pattern.find_all("1 22 333", -7) == ["1", "22", "333"]


def test_large_pattern_is_taken_and_a_huge_one_refused() -> None:
    assert compile_pattern(r"^\pL{63}$").matches("é" * 63)
    for pattern in (r"\pL{1000}", r"[\pC]" * 100):
        with pytest.raises(ValueError, match="too large"):
            compile_pattern(pattern)


_HARD = "|".join(f"a[ab]{{{number}}}c" for number in range(940, 1000))
"""RE2 has too little memory to learn texts of a and b: it follows all of its instructions for each character."""


@pytest.mark.parametrize(
    ("pattern", "text"), [("a*b|a", "a" * 100_000), (_HARD, "ab" * 1000), ("(?:(?:a|b)?){1000}c", "ab" * 10_000)]
)
def test_search_that_would_take_long_is_cancelled(pattern: str, text: str) -> None:
    with pytest.raises(EvalAbortedError, match="too long for the regular expression"):
        compile_pattern(pattern).find_all(text, -1)


@pytest.mark.parametrize("call", ["matches({})", "find({}) != ''", "findAll({}).size() > 0"])
def test_search_counts_as_the_work_that_it_may_be(call: str) -> None:
    """By text times instructions, a thirtieth of it; nothing for what is short."""
    size = compile_pattern(_HARD).size

    def work(length: int, pattern: str) -> int:
        text = f'["{"ab" * 100}"].map(x, x + x + x)[0].substring(0, {length}).'
        return cel.compile(text + call.format(f'"{pattern}"')).judge(DEVICE).work

    least = work(0, "b")
    assert work(280, _HARD) > 280 * size // 32 > 100 * least
    assert work(60, "b") < 10 * least


@pytest.mark.parametrize(
    "call",
    ["y.findAll('c?').size() < 0", "y.matches('[ab]{900}c')", "y.find('c|d|e|f') == 'c'", "y.split('b').size() < 0"],
)
def test_calls_of_an_evaluation_come_between_looks_at_the_time(call: str) -> None:
    """However few loops they are in: looks come after a few milliseconds, and all of them are some seconds at most."""
    looks = [0]
    calls = "||".join([call] * 60)
    text = "ab" * 300
    program = cel.compile(f"['{text}'].exists(x, [{', '.join(['x'] * 100)}].exists(y, {calls})) || true")

    def is_cancelled() -> bool:
        looks[0] += 1
        return False

    worked = program.judge(DEVICE, is_cancelled)
    assert looks[0] >= worked.work // 100_000 > 10


def test_search_that_is_work_begins_with_a_look_at_the_time() -> None:
    looks = []

    def is_cancelled() -> bool:
        looks.append(1)
        return True

    program = cel.compile(f'"{"ab" * 100}".matches(device.attributes["d.io"].name + "{_HARD}")')
    with pytest.raises(cel.Cancelled):
        program.judge(DEVICE, is_cancelled)
    assert looks


@pytest.mark.parametrize(
    ("number", "pattern", "is_large"),
    [(50, "x{}", False), (70, "x{}", True), (2, "x{}a{{1000}}", False), (3, "\\\\pL{{9}}{}", True)],
)
def test_patterns_that_may_not_all_be_kept_count_each_time(number: int, pattern: str, is_large: bool) -> None:  # noqa: FBT001
    program = cel.compile(" || ".join(f'device.driver.matches("{pattern.format(one)}")' for one in range(number)))
    program.judge(DEVICE)
    compiled = 5 * sum(compile_pattern(pattern.format(one).replace("\\\\", "\\")).size for one in range(number))
    assert (program.judge(DEVICE).work > compiled) == is_large


def test_patterns_made_again_and_again_count_each_time() -> None:
    """Of more than are kept, each is compiled again when its turn comes."""

    def work(times: int) -> int:
        numbers, turns = (f"[{', '.join(map(str, range(number)))}]" for number in (10, times))
        pattern = '"a{300}" + string(i) + "_" + string(j)'
        loop = f"{turns}.all(t, {numbers}.all(i, {numbers}.all(j, !device.driver.matches({pattern}))))"
        return cel.compile(loop).judge(DEVICE).work

    once, twice, thrice = map(work, (1, 2, 3))
    assert thrice - twice >= twice - once > 5 * 100 * 300


def test_nobody_else_keeps_what_is_compiled() -> None:
    """RE2's module keeps the last 128 patterns, which take up to 8 MiB each."""
    for number in range(10):
        compile_pattern(f"a[ab]{{{number}}}c")
    assert re2._Regexp._make.cache_info().currsize == 0


@pytest.mark.parametrize("pattern", ["a|" * 3_000, "(?:" * 1_200, r"\\\\pL" * 200 + ")"])
def test_pattern_counts_for_what_it_takes_to_read_it(pattern: str) -> None:
    """Also where it is invalid, or a small program."""
    program = cel.compile(f'[1, 2].all(i, "a".matches("{pattern}" + device.driver) || true) || true')
    assert program.judge(DEVICE).work > 40_000


@pytest.mark.parametrize("pattern", [r"\pL" * 300, "a" * 10_241, "(?:a?){1000}" * 800, "a{1000}" * 1000])
def test_pattern_that_is_large_to_read_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="too large"):
        compile_pattern(pattern)


def test_find_gives_the_first_match_or_nothing() -> None:
    assert holds('"abc 123".find("[0-9]+") == "123" && "abc".find("x") == ""')
    assert holds('"123 abc 456".findAll("[0-9]+") == ["123", "456"] && "1 2".findAll("[0-9]", 1) == ["1"]')
    assert "error parsing regexp" in refusal_of('"a".find("[") == ""')
    assert "error parsing regexp" in failure_of('"a".find(device.attributes["d.io"].name + "[")')


def test_search_costs_text_times_pattern() -> None:
    assert costs_of('"abcdefghijklmno".find("[0-9]+") == ""') == (4, 4)


_TOO_MUCH = "operation cancelled: regular expressions of more than 131072 instructions in all"


def test_patterns_made_while_evaluating_are_compiled_within_a_budget() -> None:
    tens = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    loop = f'{tens}.all(i, {tens}.all(j, !"a".matches("\\\\pL{{100}}" + string(10 * i + j))))'
    assert failure_of(loop) == _TOO_MUCH


def test_the_same_pattern_is_counted_once() -> None:
    assert holds('[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(i, !"a".matches("\\\\pL{50}" + string(i % 2)))')


@pytest.mark.parametrize("call", ['"a".matches({})', '"a".find({}) == "a"'])
def test_known_patterns_are_compiled_within_the_same_budget(call: str) -> None:
    calls = " || ".join(call.format(f'"\\\\pL{{100}}{number}"') for number in range(50))
    assert refusal_of(calls).endswith(_TOO_MUCH)
