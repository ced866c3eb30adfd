from collections import Counter
from collections.abc import Callable, Mapping

import pytest

import cel
from allocator.cluster.pools import NodeView
from allocator.cluster.snapshot import Selection, Selectors
from allocator.model import Attribute, Device, Slice
from allocator.outcome import InvalidClaim
from tests.builders import (
    DRIVER,
    Scalar,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_request,
    a_slice,
    a_snapshot,
    a_term,
    all_devices,
    an_allocated_claim,
    devices,
    everywhere,
    kubernetes,
    match,
    on_node,
    per_device,
    requires,
    strings,
    version,
    where,
)
from tests.unit.allocator.answers import decide, funnel, names, shortage

OK = 'device.attributes["gpu.example"].ok'
BROKEN = "device.noSuchField"
GOOD, BAD, FAILING = a_device("good", {"ok": True}), a_device("bad", {"ok": False}), a_device("failing")


def view(*slices: Slice) -> NodeView:
    return a_snapshot(*slices).view(a_node())


def selection(expression: str, *slices: Slice) -> Selection:
    return Selectors(cel.V1_37).select(expression, view(*slices))


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """How often each expression was evaluated on each device."""
    times: Counter[tuple[str, str]] = Counter()
    judge = cel.Program.judge

    def counted(program: cel.Program, device: Device, is_cancelled: Callable[[], bool]) -> cel.Worked:
        times[program.source, device.name] += 1
        return judge(program, device, is_cancelled)

    monkeypatch.setattr(cel.Program, "judge", counted)
    return times


# -- selections


def test_selection_has_matches_and_failures_by_device() -> None:
    assert selection(OK, a_slice(GOOD, BAD, FAILING, "nix")) == Selection(matches=0b0001, errors=0b1100)


def test_verdict_goes_over_slices() -> None:
    slices = (
        a_slice(BAD, GOOD, name="a", slice_count=2),
        a_slice(FAILING, GOOD.__class__("z", "", ""), name="b", slice_count=2),
    )
    assert selection(OK, *slices) == Selection(matches=0b0010, errors=0b1100)


def test_expression_that_does_not_compile_fails_on_every_device() -> None:
    assert selection(BROKEN, a_slice(GOOD, BAD)) == Selection(0, 0b11)


def test_result_that_is_no_bool_is_a_failure() -> None:
    number = 'device.attributes["gpu.example"].n'
    assert selection(number, a_slice(a_device("x", {"n": 1}), a_device("y", {"n": True}))) == Selection(0b10, 0b01)


def test_error_text_is_made_on_demand() -> None:
    selectors = Selectors(cel.V1_37)
    assert selectors.error(OK, a_slice(GOOD).devices[0]) == ""
    error = selectors.error(OK, a_slice(FAILING).devices[0])
    assert error.startswith("CEL runtime error: no such key: ok (a device that may lack it is asked with has(...)")
    assert selectors.error(BROKEN, a_slice(GOOD).devices[0]).startswith("CEL compile error: ")


COSTLY = "lists.range(90).all(a, lists.range(90).all(b, a + b >= 0))"


def test_costly_selector_is_not_evaluated_again_to_say_why_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are those before it, which do not fail."""
    again: list[str] = []
    evaluate = cel.Program.evaluate

    def counted(program: cel.Program, device: Device, is_cancelled: Callable[[], bool]) -> bool:
        again.append(program.source)
        return evaluate(program, device, is_cancelled)

    monkeypatch.setattr(cel.Program, "evaluate", counted)
    members = [a_device("a"), a_device("b")]
    for last, is_again in ((f"{COSTLY} && {OK}", False), (OK, True)):
        claim = a_claim(a_request("r", 1, COSTLY, f"{COSTLY} || {OK}", last))
        with pytest.raises(InvalidClaim, match=r"selector #2 on device .*/a: CEL runtime error: no such key: ok"):
            decide(a_snapshot(a_slice(*members)), claim)
        assert again == [last] * is_again


def test_looking_for_an_error_ends_with_the_time() -> None:
    with pytest.raises(cel.Cancelled):
        Selectors(cel.V1_37).error(f"{COSTLY} && {OK}", a_slice(FAILING).devices[0], lambda: True)


def test_selectors_are_evaluated_as_the_release_does() -> None:
    """Without the gate for list attributes, 1.36 cannot even look at a device that has one."""
    slice_ = a_slice(a_device("x", {"tags": strings("a", "b")}))
    claim = a_claim(a_request("gpus", 1, '"a" in device.attributes["gpu.example"].tags'))
    for features in (kubernetes("1.37"), kubernetes("1.36", DRAListTypeAttributes=True)):
        assert names(decide(a_snapshot(slice_, features=features), claim)) == ["x"]
    with pytest.raises(InvalidClaim, match="CEL runtime error"):
        decide(a_snapshot(slice_, features=kubernetes("1.36")), claim)


# -- how often


def test_expression_is_evaluated_once_for_each_device_however_often_it_is_asked(
    evaluations: Counter[tuple[str, str]],
) -> None:
    snapshot = a_snapshot(a_slice(GOOD, BAD, reach=everywhere()), classes=[a_class("gpu", OK)])
    for node in ("node-0", "node-1", "node-2"):
        for _ in range(2):
            decide(snapshot, a_claim(a_request("r0", 1, OK), a_request("r1", 1, OK)), node=a_node(node))
    decide(snapshot.with_allocated([an_allocated_claim("good")]), a_claim())
    assert evaluations == {(OK, "good"): 1, (OK, "bad"): 1}


def test_slices_of_other_nodes_are_not_evaluated(evaluations: Counter[tuple[str, str]]) -> None:
    snapshot = a_snapshot(
        a_slice(GOOD), a_slice(BAD, pool="other", reach=on_node("node-1")), classes=[a_class("gpu", OK)]
    )
    decide(snapshot, a_claim())
    assert evaluations == {(OK, "good"): 1}


def test_expression_that_failed_is_not_evaluated_again(evaluations: Counter[tuple[str, str]]) -> None:
    snapshot = a_snapshot(a_slice(GOOD, FAILING), classes=[a_class("gpu", OK)])
    for _ in range(3):
        assert names(decide(snapshot, a_claim())) == ["good"]
    assert evaluations == {(OK, "good"): 1, (OK, "failing"): 1}


def test_devices_that_agree_in_what_an_expression_reads_are_evaluated_once(
    evaluations: Counter[tuple[str, str]],
) -> None:
    members = [a_device(f"d{n}", {"ok": n % 2 == 0, "number": n}) for n in range(6)]
    snapshot = a_snapshot(a_slice(*members), classes=[a_class("gpu", OK)])
    assert names(decide(snapshot, a_claim(a_request(count=3)))) == ["d0", "d2", "d4"]
    assert evaluations == {(OK, "d0"): 1, (OK, "d1"): 1}


def test_verdicts_are_kept_up_to_a_limit_over_all_expressions(
    evaluations: Counter[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allocator.cluster.snapshot.MOST_SELECTIONS", 6)
    monkeypatch.setattr("allocator.cluster.snapshot.LEAST_EXPRESSIONS", 1)
    seen = view(a_slice(GOOD, name="a", slice_count=2), a_slice(a_device("other"), name="b", slice_count=2))
    selectors = Selectors(cel.V1_37)
    expressions = [f'{number} == {number} && "ok" in device.attributes["gpu.example"]' for number in range(5)]
    for expression in expressions:
        assert selectors.select(expressions[0], seen) == selectors.select(expression, seen) == Selection(0b01, 0)
        assert selectors.kept <= 6
    assert evaluations == {(expression, name): 1 for expression in expressions for name in ("good", "other")}
    selectors.select(expressions[1], seen)
    assert evaluations[expressions[1], "good"] == 2


def test_verdicts_of_the_expression_that_is_asked_for_are_kept_however_many(
    evaluations: Counter[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allocator.cluster.snapshot.MOST_SELECTIONS", 1)
    monkeypatch.setattr("allocator.cluster.snapshot.LEAST_EXPRESSIONS", 0)
    seen = view(a_slice(GOOD, name="a", slice_count=2), a_slice(a_device("other"), name="b", slice_count=2))
    selectors = Selectors(cel.V1_37)
    for _ in range(2):
        assert selectors.select(OK, seen) == Selection(0b01, 0b10)
    assert (evaluations[OK, "good"], selectors.kept) == (1, 2)


def test_verdicts_on_a_slice_that_is_gone_are_not_kept() -> None:
    slices = a_slice(GOOD, name="a", slice_count=2), a_slice(BAD.__class__("z", "", ""), name="b", slice_count=2)
    seen = view(*slices)
    selectors = Selectors(cel.V1_37)
    for expression in (OK, "true"):
        selectors.select(expression, seen)
    assert selectors.kept == 4
    selectors.forget(seen.segments[0].slice)
    selectors.forget(seen.segments[0].slice)
    assert selectors.kept == 2
    assert selectors.select(OK, seen) == Selection(0b01, 0b10)


def test_some_expressions_are_kept_however_many_slices_there_are(
    evaluations: Counter[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allocator.cluster.snapshot.MOST_SELECTIONS", 1)
    monkeypatch.setattr("allocator.cluster.snapshot.LEAST_EXPRESSIONS", 2)
    seen = view(a_slice(GOOD, name="a", slice_count=2), a_slice(a_device("other"), name="b", slice_count=2))
    selectors = Selectors(cel.V1_37)
    for expression in (OK, "true", OK, "true"):
        selectors.select(expression, seen)
    assert evaluations[OK, "good"] == 1


def test_nothing_is_kept_of_an_expression_whose_slices_are_gone() -> None:
    seen = view(a_slice(GOOD))
    selectors = Selectors(cel.V1_37)
    selectors.select(OK, seen)
    selectors.forget(seen.segments[0].slice)
    assert (selectors.kept, len(selectors._known), len(selectors._slices)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("expression", "odd"),
    [
        (OK, {"ok": False, "other": 1}),
        (OK, {"gpu.example/ok": False}),
        (OK, {"ok": True, "tags": ("", None)}),
        ('device.attributes["gpu.example"].n == 1', {"n": True}),
        ('device.attributes["gpu.example"].n == 1', {"n": "1"}),
        ('device.attributes["gpu.example"].exists(name, name == "ok")', {"no": True}),
        ('device.attributes["std.example"].ok', {"ok": True}),
        ('"ok" in device.attributes["gpu.example"]', {"std.example/ok": True}),
    ],
)
def test_devices_that_differ_in_what_an_expression_reads_are_distinguished(
    expression: str, odd: Mapping[str, Scalar | Attribute]
) -> None:
    plain = {"ok": True, "std.example/ok": True, "n": 1}
    assert selection(expression, a_slice(a_device("x", plain), a_device("y", odd))).matches == 0b01
    assert selection(expression, a_slice(a_device("y", odd), a_device("x", plain))).matches == 0b10


def test_version_that_is_none_fails_every_expression_on_its_device_and_on_no_other() -> None:
    odd = a_device("odd", {"firmware": version("1.2")})
    assert selection(f'device.driver == "{DRIVER}"', a_slice(odd, "x")) == Selection(0b10, 0b01)
    assert selection(f'device.driver == "{DRIVER}"', a_slice("x", odd)) == Selection(0b01, 0b10)


def test_devices_that_differ_in_capacity_or_sharing_are_distinguished() -> None:
    large, small = (a_device(size, capacity={"memory": size}) for size in ("80Gi", "40Gi"))
    by_capacity = 'device.capacity["gpu.example"].memory.isGreaterThan(quantity("50Gi"))'
    assert selection(by_capacity, a_slice(large, small)).matches == 0b01
    members = a_device("x", allow_multiple_allocations=True), a_device("y")
    assert selection("device.allowMultipleAllocations", a_slice(*members)).matches == 0b01


# -- which selectors count


def test_selectors_of_class_and_request_all_have_to_hold() -> None:
    members = [a_device(f"dev-{a}{b}", {"a": a, "b": b}) for a in (0, 1) for b in (0, 1)]
    a, b = (f'device.attributes["gpu.example"].{name} == 1' for name in "ab")
    snapshot = a_snapshot(a_slice(*members), classes=[a_class("gpu", a)])
    assert names(decide(snapshot, a_claim(a_request("r", 1, b)))) == ["dev-11"]
    assert funnel(shortage(decide(snapshot, a_claim(a_request("r", 2, b))))) == [
        (f"fail selector #0 of class gpu ({a})", ["dev-00", "dev-01"]),
        (f"fail selector #0 of request r ({b})", ["dev-10"]),
    ]


def test_later_selector_is_not_asked_about_a_device_that_an_earlier_one_refused() -> None:
    guarded = a_class("gpu", '"ok" in device.attributes["gpu.example"]', OK)
    assert names(decide(a_snapshot(a_slice(FAILING, GOOD), classes=[guarded]), a_claim())) == ["good"]
    class_first = a_claim(a_request("r", 1, OK))
    by_class = a_snapshot(a_slice(FAILING, GOOD), classes=[a_class("gpu", '"ok" in device.attributes["gpu.example"]')])
    assert names(decide(by_class, class_first)) == ["good"]


def test_class_without_selectors_accepts_every_device() -> None:
    assert names(decide(a_snapshot(a_slice("x", driver="any.example")), a_claim())) == ["x"]


# -- failures


def test_failing_selector_ends_the_attempt_where_the_device_is_met() -> None:
    snapshot = a_snapshot(a_slice(FAILING, GOOD), classes=[a_class("gpu", OK)])
    with pytest.raises(
        InvalidClaim,
        match=r"^class gpu: selector #0 on device gpu.example/pool-0/failing: CEL runtime error: no such key: ok",
    ):
        decide(snapshot, a_claim())


def test_failing_selector_of_a_request_is_reported_with_its_claim() -> None:
    claim = a_claim(a_request("r", 1, "true", OK))
    with pytest.raises(
        InvalidClaim,
        match=r"^claim default/claim, request r: selector #1 on device gpu.example/pool-0/failing: CEL runtime error",
    ):
        decide(a_snapshot(a_slice(FAILING)), claim)


def test_selector_that_does_not_compile_ends_the_attempt() -> None:
    with pytest.raises(InvalidClaim, match=r"claim default/claim, request r: selector #0.*CEL compile error"):
        decide(a_snapshot(a_slice(GOOD)), a_claim(a_request("r", 1, BROKEN)))


def test_selector_that_does_not_compile_hurts_nobody_where_there_are_no_devices() -> None:
    assert shortage(decide(a_snapshot(), a_claim(a_request("r", 1, BROKEN)))).total == 0


def test_failure_behind_the_devices_that_are_taken_stays_hidden() -> None:
    snapshot = a_snapshot(a_slice(GOOD, FAILING), classes=[a_class("gpu", OK)])
    assert names(decide(snapshot, a_claim())) == ["good"]
    with pytest.raises(InvalidClaim, match="failing"):
        decide(snapshot, a_claim(a_request(count=2)))


def test_failure_on_a_device_in_use_stays_hidden() -> None:
    held = [an_allocated_claim("failing")]
    assert names(decide(a_snapshot(a_slice(FAILING, GOOD), classes=[a_class("gpu", OK)], held=held), a_claim())) == [
        "good"
    ]


def test_failure_on_a_device_that_the_attempt_has_picked_already_stays_hidden() -> None:
    snapshot = a_snapshot(a_slice(FAILING, GOOD))
    assert names(decide(snapshot, a_claim(a_request("r0"), a_request("r1", 1, OK)))) == ["failing", "good"]


def test_failure_on_a_device_that_chooses_another_node_is_met() -> None:
    elsewhere = a_device("failing", reach=on_node("node-1"))
    here = a_device("good", {"ok": True}, reach=on_node())
    with pytest.raises(InvalidClaim, match="failing"):
        decide(a_snapshot(a_slice(elsewhere, here, reach=per_device()), classes=[a_class("gpu", OK)]), a_claim())


def test_failure_on_a_device_that_a_constraint_refuses_stays_hidden_unless_strict() -> None:
    fine = [a_device(name, {"ok": True, "numa": 0}) for name in ("good", "fine")]
    slice_ = a_slice(fine[0], a_device("failing", {"numa": 1}), fine[1])
    claim = a_claim(a_request("r", 2, OK), constraints=[match("gpu.example/numa")])
    assert names(decide(a_snapshot(slice_), claim)) == ["good", "fine"]
    with pytest.raises(InvalidClaim, match="failing"):
        decide(a_snapshot(slice_, features=kubernetes(is_strict=True)), claim)


def test_failure_stays_hidden_where_there_are_too_few_devices_anyway_unless_strict() -> None:
    claim = a_claim(a_request("r", 3, OK))
    assert shortage(decide(a_snapshot(a_slice(FAILING, GOOD)), claim)).wanted == 3
    with pytest.raises(InvalidClaim, match="failing"):
        decide(a_snapshot(a_slice(FAILING, GOOD), features=kubernetes(is_strict=True)), claim)


def test_node_selector_that_makes_no_sense_ends_the_attempt_where_its_device_is_met() -> None:
    nonsense = where(a_term(requires("rank", "Gt", "high")))
    members = [a_device("good", {"ok": True}, reach=on_node()), a_device("odd", {"ok": False}, reach=nonsense)]
    snapshot = a_snapshot(a_slice(*members, reach=per_device()))
    assert names(decide(snapshot, a_claim(a_request("r", 1, OK)))) == ["good"]
    with pytest.raises(InvalidClaim, match=r"^device gpu.example/pool-0/odd: node selector: rank: Gt takes an integer"):
        decide(snapshot, a_claim(a_request("r", 2)))


def test_all_meets_every_device_of_the_node() -> None:
    held = [an_allocated_claim("failing")]
    snapshot = a_snapshot(a_slice(GOOD, FAILING), classes=[a_class("gpu", OK)], held=held)
    with pytest.raises(InvalidClaim, match="failing"):
        decide(snapshot, a_claim(all_devices()))


def test_cost_beyond_the_limit_ends_the_attempt() -> None:
    many = ", ".join(["0"] * 100)
    costly = f"[{many}].all(a, [{many}].all(b, [{many}].all(c, a == b && b == c)))"
    with pytest.raises(InvalidClaim, match="cost"):
        decide(a_snapshot(a_slice(GOOD)), a_claim(a_request("r", 1, costly)))


def test_long_selector_is_shortened_in_the_funnel() -> None:
    long = "false || " * 20 + "false"
    ((reason, _),) = funnel(shortage(decide(a_snapshot(a_slice(*devices(2))), a_claim(a_request("r", 1, long)))))
    assert reason == f"fail selector #0 of request r ({long[:97]}...)"


def test_selector_over_several_lines_is_reported_on_one() -> None:
    ((reason, _),) = funnel(shortage(decide(a_snapshot(a_slice("x")), a_claim(a_request("r", 1, "false\n  || false")))))
    assert reason == "fail selector #0 of request r (false || false)"
