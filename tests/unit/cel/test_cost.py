"""Costs by hand; thousands more are compared with recorded ones in tests/conformance and with the reference itself."""

import pytest

import cel
from cel.errors import Cancelled
from cel.run.frame import COST_LIMIT

DEVICE = cel.PlainDevice("d.io", {"s": ("string", "x" * 25), "l": ("ints", (1, 2, 3))})
S = "device.attributes['d.io'].s"


@pytest.mark.parametrize(
    ("expression", "estimated", "actual"),
    [
        ("true", 0, 0),
        ("device.driver == 'd.io'", 3, 3),
        (f"{S} == 'x'", 5, 5),
        (f"{S} == 'xxxxxxxxxxxxxxxxxxxxxxxxx'", 7, 7),
        (f"{S}.startsWith('xxxxxxxxxxxx')", 6, 6),
        (f"{S}.matches('x+y')", 11, 7),
        (f"{S} in ['a', 'b']", 16, 4),
        (f"has({S})", 3, 3),
        (f"has({S}) && {S} == 'x'", 8, 8),
        (f"false && {S} == 'x'", 5, 0),
        (f"true ? {S} == 'x' : true", 5, 5),
        ("device.attributes['d.io'].?nothing.orValue(true)", 5, 3),
        ("device.attributes['d.io'].l.exists(x, x == 2)", 389, 20),
        ("device.attributes['d.io'].l.map(x, x) == [1]", 858, 45),
        ("[1, 2] == [1, 2]", 21, 1),
        ("cel.bind(x, 1 + 1, x + x == 4)", 15, 5),
        ("device.attributes['d.io'].nothing == 'x'", 5, 5),
        ("dyn(1) == 1", 2, 1),
        ("dyn(optional.of('xxxxxxxxxxxxxxxxxxxxx')) == dyn(optional.of('x'))", 1_844_674_407_370_955_268, 5),
        ("dyn(optional.of('xxxxxxxxxxxxxxxxxxxxx')) == dyn(optional.of('xxxxxxxxxxx'))", 1_844_674_407_370_955_268, 6),
        ("isIP(dyn(optional.of('xxxxxxxxxxxxxxxxxxxxx'))) || true", 1_844_674_407_370_955_266, 3),
        ("has((true ? {'a': 1} : {'b': 1}).a)", 30, 0),
    ],
)
def test_cost_in_units_of_the_reference(expression: str, estimated: int, actual: int) -> None:
    program = cel.compile(expression)
    assert (program.estimated_cost, program.run(DEVICE).cost) == (estimated, actual)


@pytest.mark.parametrize(
    ("expression", "estimated", "actual"),
    [
        ("google.protobuf.Int64Value{value: device.attributes['d.io'].nothing} == 1", 45, 5),
        ("google.protobuf.Int32Value{value: 3000000000} == 1", 41, 41),
        ("[1].slice(2, 2) == []", 31, 12),
        ("lists.range(-1) == []", 21, 12),
        (f"url({S}).getHost() == 'x'", 13, 8),
        (f"url({S}).getEscapedPath().matches('x+')", 32, 7),
        ("{'a': 'xxxxxxxxxxxx'}['a'] == 'xxxxxxxxxxxx'", 33, 4),
        ("'c' > {}['']", 32, 2),
        ("[1, ?optional.none()].min() == 1", 13, 13),
        ("['a'].distinct() == ['a']", 35, 14),
        ("['b', 'a'].sort()[0] < 'xxxxxxxxxxxxxxx'", 32, 22),
        ("{'a': true}[?device.attributes['d.io'].nothing].orValue(true)", 36, 5),
        ("has((true ? {'a': 1} : {'b': 1}).a)", 31, 1),
        ("dyn('').all(x, true)", 2, 1),
        ("dyn(optional.of('xxxxxxxxxxxxxxxxxxxxx')) == dyn(optional.of('xxxxxxxxxxx'))", 1_844_674_407_370_955_268, 5),
        ("dyn(optional.of('xxxxxxxxxxxxxxxxxxxxx')).contains('xxxxxxxxxxxxxxxxxxxxxxx') || true", 2**64 - 1, 5),
    ],
)
def test_cost_in_units_of_1_38(expression: str, estimated: int, actual: int) -> None:
    program = cel.compile(expression, cel.V1_38)
    assert (program.estimated_cost, program.run(DEVICE).cost) == (estimated, actual)


@pytest.mark.parametrize("environment", [cel.V1_37, cel.V1_38])
def test_sizes_of_deep_lists_are_estimated(environment: cel.Environment) -> None:
    deep = "[" * 240 + "]" * 240
    assert cel.compile(f"size({deep}) == 1", environment).estimated_cost == 2402


def test_evaluation_stops_at_the_limit() -> None:
    program = cel.compile("lists.range(100).all(x, x >= 0)")
    exact = program.run(DEVICE).cost
    assert program.run(DEVICE, cost_limit=exact).value is True
    stopped = program.run(DEVICE, cost_limit=exact - 1)
    assert isinstance(stopped.error, cel.EvalAbortedError)
    assert stopped.cost == exact


def test_cost_that_is_given_back_before_there_was_any_is_beyond_the_limit() -> None:
    outcome = cel.compile("has((true ? {'b': {}} : {}).?a.b) || true").run(DEVICE)
    assert isinstance(outcome.error, cel.EvalAbortedError)
    assert outcome.cost == 2**64 - 1


def test_estimate_never_overflows() -> None:
    nested = "['a'].map(x, x + x)" + ".map(x, x + x)" * 40
    assert cel.compile(f"{nested} == []").estimated_cost < 2**64


def test_constant_calls_cost_the_same_every_time() -> None:
    program = cel.compile("semver('1.2.3-some.long.prerelease').major() == 1")
    assert {program.run(DEVICE).cost for _ in range(3)} == {5}


UNBOUNDED = 2**64 - 1


@pytest.mark.parametrize(
    ("expression", "before", "since"),
    [
        ('string(1) + "a" == "b"', 1844674407370955266, UNBOUNDED),
        ('b"a" + bytes(string(1)) == b"b"', 3689348814741910530, UNBOUNDED),
        ('"abc".startsWith(string(1))', 1844674407370955265, UNBOUNDED),
        ('"abc".endsWith(string(1))', 1844674407370955265, UNBOUNDED),
        ('string(1).contains("a")', 1844674407370955265, UNBOUNDED),
        ('string(1).contains("")', 1, 1),
        ('"a".matches(string(1))', 4611686018427387905, UNBOUNDED),
        ('bytes(string(1)) == b"a"', 1844674407370955266, UNBOUNDED),
        ('string(1).format([1]) == "a"', 1844674407370955276, UNBOUNDED),
        ('strings.quote(string(1)) == "a"', 1844674407370955265, UNBOUNDED),
        ("string(1) < string(2)", 1844674407370955266, 1844674407370955266),
        ("string(1) == string(2)", 1844674407370955266, 1844674407370955266),
        ('string(1).lowerAscii() == "a"', 1844674407370955266, 1844674407370955266),
        ('"abc".startsWith(device.driver)', 9, 9),
    ],
)
def test_what_has_no_bound_costs_without_bound_since_1_38(expression: str, before: int, since: int) -> None:
    estimated = [cel.compile(expression, one).estimated_cost for one in (cel.V1_37, cel.V1_38)]
    assert estimated == [before, since]


LETTERS = 25 * 2**12


def doubled(inner: str, times: int = 12) -> str:
    """An expression about `t`, which is the device's text so many times doubled, as a tenant can write it."""
    for number in range(times, 0, -1):
        inner = f"cel.bind({'t' if number == times else f't{number}'}, t{number - 1} + t{number - 1}, {inner})"
    return f"cel.bind(t0, {S}, {inner})"


@pytest.mark.parametrize(
    ("expression", "least"),
    [
        ("isURL(t)", LETTERS // 10),
        ("isURL('http://a/' + t)", LETTERS // 10),
        ("duration(t) == duration('1s')", LETTERS // 10),
        ("'%s'.format([t.split('')]) == ''", 16 * LETTERS),
        ("t.split('').isSorted()", 4 * LETTERS),
        ("t.split('').indexOf('a') == 0", 4 * LETTERS),
        ("t.split('').min() == ''", 4 * LETTERS),
    ],
)
def test_work_is_as_much_as_a_call_reads_whatever_its_cost(expression: str, least: int) -> None:
    assert cel.compile(doubled(expression)).judge(DEVICE).work >= least


def test_work_is_as_much_as_a_text_has_characters_that_are_asked_for_by_a_number() -> None:
    template, numbers = "%.65535e" * 100, ",".join(["1.0"] * 100)
    assert cel.compile(f"'{template}'.format([{numbers}]) == ''").judge(DEVICE).work >= 100 * 65_535 // 32


@pytest.mark.parametrize("call", ["'%s'.format([l]) == ''", "isURL(t)", "duration(t) == duration('1s')", "l == [t]"])
def test_no_call_that_is_much_work_is_made_once_the_caller_has_cancelled(call: str) -> None:
    calls, asked = 9, list[bool]()

    def is_cancelled() -> bool:
        asked.append(len(asked) > 1)
        return asked[-1]

    program = cel.compile(doubled(f"cel.bind(l, t.split(''), l.size() == 0 || {' || '.join([call] * calls)})"))
    with pytest.raises(Cancelled):
        program.judge(DEVICE, is_cancelled)
    assert asked == [False, False, True]


@pytest.mark.parametrize("call", ["a == b", "a.l == b.l", "sets.contains([a], [b])", "b in [a, a]"])
def test_looks_at_the_time_come_between_comparisons_of_lists(call: str) -> None:
    """However small each of them is, and though there is no loop."""
    looks = [0]

    def is_cancelled() -> bool:
        looks[0] += 1
        return False

    parts = {"a": "[lists.range(700)]", "b": "[lists.range(699) + [-1]]"}
    if "." in call.partition("(")[0]:
        parts = {name: f"{{'l': {part}}}" for name, part in parts.items()}
    many = " || ".join([call] * 200)
    cel.compile(f"[{parts['a']}].exists(a, [{parts['b']}].exists(b, {many} || false)) || true").judge(
        DEVICE, is_cancelled
    )
    assert looks[0] > 50


@pytest.mark.parametrize("inner", ["t.split('').size() > 0", "t.findAll('(a|xx)*?').size() > 0"])
def test_call_that_is_aborted_is_as_much_work_as_an_evaluation_may_be(inner: str) -> None:
    judged = cel.compile(doubled(inner, 16)).judge(DEVICE)
    assert "operation cancelled" in str(judged.found)
    assert judged.work >= COST_LIMIT


def test_list_that_was_made_is_work_also_where_it_costs_too_much() -> None:
    assert cel.compile(f"lists.range({COST_LIMIT}).size() > 0").judge(DEVICE).work >= COST_LIMIT
