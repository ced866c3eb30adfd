"""A refusal by a selector of several parts is explained as each part answers by itself, and no text is cut before the
guilty part, however long the selector is.
"""

from hypothesis import given
from hypothesis import strategies as st

import cel
from allocator.allocate import allocate
from allocator.explain.barren_selectors import BarrenSelectors
from allocator.explain.node_explanation import explain_on
from allocator.explain.selector_operands import GuiltyOperands, guilty
from allocator.explain.text import OPERATOR, node_text
from allocator.model import Device
from allocator.outcome import Refused
from tests.builders import DRIVER, a_claim, a_device, a_node, a_request, a_slice, a_snapshot

SIZE, FAST = (f'device.attributes["{DRIVER}"].{name}' for name in ("size", "fast"))
PARTS = (
    f'device.driver == "{DRIVER}"',
    f"{SIZE} >= 2 && {SIZE} < 100",
    f"({SIZE} == 1 || {FAST})",
    f"has({FAST})",
    f"!{FAST}",
    "false",
)

devices = st.lists(
    st.fixed_dictionaries({}, optional={"size": st.integers(1, 3), "fast": st.booleans()}), min_size=1, max_size=6
)


def judged(part: str, device: Device) -> bool | None:
    """None where it fails."""
    try:
        return cel.compile(part).evaluate(device)
    except cel.EvalError:
        return None


@given(devices, st.lists(st.sampled_from(PARTS), min_size=2, max_size=5))
def test_parts_are_counted_as_each_answers_and_the_guilty_one_is_never_cut(
    given_devices: list[dict[str, int]], parts: list[str]
) -> None:
    members = [a_device(f"d{number}", values) for number, values in enumerate(given_devices)]
    selector = " && ".join(parts)
    snapshot, claim = a_snapshot(a_slice(*members)), a_claim(a_request("r", 1, selector))
    explained = explain_on(snapshot, a_node(), [claim], {})
    for reason, operands in explained.offer.funnels[0].operands.items():
        split = cel.conjuncts(selector)
        assert [one.expression for one in operands] == list(split)
        for number, one in enumerate(operands):
            before = [d for d in members if all(judged(part, d) for part in split[:number])]
            after = [d for d in before if judged(one.expression, d)]
            assert one.alone == sum(judged(one.expression, d) is True for d in members)
            assert (one.passing, one.removed) == (len(after), 0 if after else len(before))
            undecided = [d for d in members if all(judged(part, d) is not False for part in split[:number])]
            answers = [judged(one.expression, d) for d in undecided]
            assert (one.asked, one.refused, one.failing) == (len(answers), answers.count(False), answers.count(None))
        last = guilty(operands)
        assert last is None or last.expression in reason
        assert (last is None) == any(all(judged(part, d) for part in split) for d in members)
    if isinstance(explained.answer, Refused):
        outcome = allocate(snapshot, a_node(), [claim])
        text = node_text(GuiltyOperands(snapshot).named(a_node(), [claim], outcome), reader=OPERATOR)
        for operands in explained.offer.funnels[0].operands.values():
            last = guilty(operands)
            assert last is not None
            assert last.expression in text
    barren = list(BarrenSelectors(snapshot).of([claim]))
    assert [one.operands for one in barren] == (
        [operands for operands in explained.offer.funnels[0].operands.values() if guilty(operands)]
        or [one.operands for one in barren if not explained.offer.funnels[0].operands]
    )


def test_parts_of_a_selector_come_after_the_selectors_before_it() -> None:
    members = [a_device("a", {"size": 1}), a_device("b", {"size": 2}), a_device("c", {"size": 3})]
    long = f"{SIZE} > 0 && {SIZE} < 100 && {SIZE} != 50 && {SIZE} == 1"
    claim = a_claim(a_request("r", 1, f"{SIZE} >= 2", long))
    outcome = allocate(a_snapshot(a_slice(*members)), a_node(), [claim])
    text = node_text(GuiltyOperands(a_snapshot(a_slice(*members))).named(a_node(), [claim], outcome), reader=OPERATOR)
    assert text.endswith(f"2 fail selector #1 of request r (part 4 of 4: {SIZE} == 1))")


def test_where_some_devices_pass_the_part_that_removes_the_most_is_named() -> None:
    members = [a_device(f"d{size}", {"size": size, "fast": size < 5}) for size in range(1, 6)]
    long = f'device.driver == "{DRIVER}" && {SIZE} < 100 && {FAST} && {SIZE} >= 3'
    snapshot, claim = a_snapshot(a_slice(*members)), a_claim(a_request("r", 3, long))
    outcome = allocate(snapshot, a_node(), [claim])
    text = node_text(GuiltyOperands(snapshot).named(a_node(), [claim], outcome), reader=OPERATOR)
    assert text.endswith(f"3 fail selector #0 of request r (2 of them part 4 of 4: {SIZE} >= 3))")
