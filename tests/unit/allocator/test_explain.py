"""The lines that people read. Outcomes are made by hand where the words matter, not how they came about."""

from collections.abc import Mapping, Sequence

import pytest

from allocator.explain.text import OPERATOR, node_text, summary
from allocator.model import DeviceID, PoolID
from allocator.outcome import (
    AllBlocked,
    Allocated,
    CapacityShort,
    Cause,
    ConstraintUnmet,
    DeviceRefusal,
    Exhausted,
    InvalidPoolSeen,
    NotEnough,
    NotTogether,
    Outcome,
    Refused,
)
from tests.builders import kubernetes

FEATURES = kubernetes()


def refused(cause: Cause | InvalidPoolSeen) -> Refused:
    return Refused(cause, 1, FEATURES)


def ids(number: int) -> tuple[DeviceID, ...]:
    return tuple(DeviceID("gpu.example", "pool-0", f"gpu-{n}") for n in range(number))


def short_of(wanted: int, total: int, left: int, *refusals: DeviceRefusal, request: str = "gpus") -> Refused:
    return refused(NotEnough("ml/train", request, wanted, total, refusals, left))


SELECTOR = DeviceRefusal("fail selector #0 of class gpu (false)", 3, ids(3), "selector")
IN_USE = DeviceRefusal("are in use", 2, ids(2), "in use")


def summed(
    nodes: Mapping[str, str | Outcome], total: int | None = None, updating: Sequence[str] = (), number: int = 1
) -> str:
    """The summary of nodes that stand for so many each."""
    return summary([(name, answer, number) for name, answer in nodes.items()], total or len(nodes), updating)


# -- one node


def test_reason_that_is_text_is_reported_as_it_is() -> None:
    assert node_text("cordoned", reader=OPERATOR) == "cordoned"


def test_shortage_is_reported_as_a_funnel_with_selectors_last() -> None:
    assert node_text(short_of(4, 8, 3, SELECTOR, IN_USE), reader=OPERATOR) == (
        "request gpus needs 4 devices, 3 are left (8 devices: 2 are in use, 3 fail selector #0 of class gpu (false))"
    )


def test_shortage_of_a_node_without_devices_is_reported() -> None:
    assert node_text(short_of(1, 0, 0), reader=OPERATOR) == "request gpus needs 1 device, 0 are left (0 devices)"


def test_holders_are_reported_and_beyond_three_their_number() -> None:
    two = DeviceRefusal("are in use", 3, ids(3), "in use", (("ml/a", 2), ("ml/b", 1)))
    assert "3 are in use (held by ml/a \N{MULTIPLICATION SIGN}2, ml/b)" in node_text(
        short_of(1, 3, 0, two), reader=OPERATOR
    )
    many = DeviceRefusal("are in use", 5, ids(5), "in use", tuple((f"ml/{name}", 1) for name in "abcde"))
    assert "(held by ml/a, ml/b, ml/c and 2 more claims)" in node_text(short_of(1, 5, 0, many), reader=OPERATOR)
    four = DeviceRefusal("are in use", 4, ids(4), "in use", tuple((f"ml/{name}", 1) for name in "abcd"))
    assert "and 1 more claim)" in node_text(short_of(1, 4, 0, four), reader=OPERATOR)


def test_holders_of_other_namespaces_are_counted_for_readers_of_one() -> None:
    names = (("ml/a", 2), ("x/secret", 1), *((f"ml/{name}", 1) for name in "bcd"), ("ml-2/secret", 1))
    held = DeviceRefusal("are in use", 7, ids(7), "in use", names)
    assert "(held by ml/a \N{MULTIPLICATION SIGN}2, ml/b, ml/c, 1 more claim and 2 claims of other namespaces)" in (
        node_text(short_of(1, 7, 0, held), reader="ml")
    )
    alone = DeviceRefusal("are in use", 1, ids(1), "in use", (("x/secret", 1),))
    assert "1 is in use (held by a claim of another namespace)" in node_text(short_of(1, 1, 0, alone), reader="ml")
    assert "1 is in use (held by x/secret)" in node_text(short_of(1, 1, 0, alone), reader=OPERATOR)


def test_capacities_that_are_short_are_reported() -> None:
    short = (CapacityShort("bandwidth", 2, takes_all=True), CapacityShort("memory", 1, takes_all=False))
    stage = DeviceRefusal("have too little capacity left", 2, ids(2), "capacity", (("ml/a", 2),), short)
    assert node_text(short_of(1, 2, 0, stage), reader=OPERATOR).endswith(
        "2 have too little capacity left (every share takes all of capacity bandwidth, which has no request policy; "
        "too little of capacity memory on 1; held by ml/a \N{MULTIPLICATION SIGN}2))"
    )


def test_all_blocked_reports_what_blocks() -> None:
    outcome = refused(AllBlocked("ml/train", "gpus", 8, (IN_USE,)))
    assert node_text(outcome, reader=OPERATOR) == "request gpus needs all of 8 devices: 2 are in use"


def test_unmet_constraint_reports_how_far_it_goes() -> None:
    outcome = refused(ConstraintUnmet("ml/train", "matchAttribute gpu.example/numa", ("a", "b"), 4, 3))
    assert node_text(outcome, reader=OPERATOR) == (
        "at most 3 of 4 devices meet matchAttribute gpu.example/numa together (requests a, b)"
    )


def test_conflict_reports_the_claims() -> None:
    assert node_text(refused(NotTogether(("ml/a", "ml/b"))), reader=OPERATOR) == (
        "no choice of devices satisfies everything together (claims ml/a, ml/b)"
    )


def test_invalid_pools_are_reported_after_the_cause() -> None:
    pools = ((PoolID("gpu.example", "bad"), "device name x is published more than once"),)
    assert node_text(refused(InvalidPoolSeen(pools, NotTogether(("ml/a",)))), reader=OPERATOR) == (
        "no choice of devices satisfies everything together (claims ml/a); "
        "pool gpu.example/bad is invalid: device name x is published more than once"
    )
    assert node_text(refused(InvalidPoolSeen(pools, None)), reader=OPERATOR).startswith("no devices; pool")


def test_spent_budget_is_never_reported_as_impossible() -> None:
    assert node_text(Exhausted(500, FEATURES), reader=OPERATOR) == "not known: no answer after 500 steps"


def test_allocation_is_no_refusal() -> None:
    with pytest.raises(AssertionError, match="refuses nothing"):
        node_text(Allocated((), 0, FEATURES), reader=OPERATOR)


# -- all nodes


def test_nearest_node_is_that_with_the_most_devices_left() -> None:
    nodes = {"a": short_of(9, 8, 2), "b": short_of(9, 8, 8), "c": short_of(9, 8, 3)}
    assert summed(nodes) == "0/3 nodes: no node has 9 devices for request gpus, the most is 8, on b (of 8 devices)"


def test_of_nodes_with_nothing_left_the_nearest_has_the_most_devices_of_the_kind() -> None:
    selected = DeviceRefusal("are in use", 1, ids(1), "in use")
    nodes = {"a": short_of(1, 3, 0, SELECTOR), "b": short_of(1, 4, 0, SELECTOR, selected)}
    assert summed(nodes).startswith("0/2 nodes: no node has 1 device for request gpus, b comes nearest (of 4 devices:")


def test_reasons_of_other_nodes_are_counted_the_most_frequent_first() -> None:
    nodes: dict[str, str | Outcome] = {"a": "cordoned", "b": short_of(2, 1, 1), "c": "elsewhere", "d": "elsewhere"}
    assert summed(nodes) == (
        "0/4 nodes: 2 nodes: elsewhere; 1 node: cordoned; "
        "no other node has 2 devices for request gpus, the most is 1, on b (of 1 device)"
    )


def test_nodes_that_are_all_refused_by_text_are_counted() -> None:
    assert summed({"a": "cordoned", "b": "cordoned", "c": "full"}) == "0/3 nodes: 2 nodes: cordoned; 1 node: full"


@pytest.mark.parametrize(
    ("further", "nearer"),
    [
        ("cordoned", short_of(9, 8, 0)),
        (short_of(2, 8, 1), refused(AllBlocked("ml/train", "gpus", 8, (IN_USE,)))),
        (
            refused(AllBlocked("ml/train", "gpus", 8, (IN_USE,))),
            refused(ConstraintUnmet("ml/train", "matchAttribute x/y", ("a",), 4, 0)),
        ),
        (
            refused(ConstraintUnmet("ml/train", "matchAttribute x/y", ("a",), 4, 1)),
            refused(ConstraintUnmet("ml/train", "matchAttribute x/y", ("a",), 4, 3)),
        ),
        (refused(ConstraintUnmet("ml/train", "matchAttribute x/y", ("a",), 4, 3)), refused(NotTogether(("ml/train",)))),
        (refused(NotTogether(("ml/train",))), Exhausted(5, FEATURES)),
    ],
)
def test_later_causes_come_nearer(further: str | Refused, nearer: Refused | Exhausted) -> None:
    for line in (summed({"a": further, "b": nearer}), summed({"b": nearer, "a": further})):
        assert "node b" in line or "on b" in line or "b comes nearest" in line


def test_node_is_not_said_to_lack_what_another_node_has() -> None:
    nodes = {"a": short_of(4, 3, 3, request="gpus"), "b": short_of(1, 4, 0, request="nics")}
    assert summed(nodes) == "0/2 nodes: nearest is node a: request gpus needs 4 devices, 3 are left (3 devices)"


def test_nearest_node_is_reported_by_name_where_causes_differ() -> None:
    nodes = {"a": short_of(4, 3, 3), "b": refused(NotTogether(("ml/train",)))}
    assert summed(nodes) == (
        "0/2 nodes: nearest is node b: no choice of devices satisfies everything together (claims ml/train)"
    )


def test_invalid_pools_do_not_hide_how_near_a_node_is() -> None:
    pools = ((PoolID("gpu.example", "bad"), "contradictory"),)
    near = refused(InvalidPoolSeen(pools, NotEnough("ml/train", "gpus", 4, 3, (), 3)))
    line = summed({"a": short_of(4, 3, 2), "b": near})
    assert line.startswith("0/2 nodes: no node has 4 devices for request gpus, the most is 3, on b")


@pytest.mark.parametrize(
    ("updating", "reported"),
    [
        ([], ""),
        (["d/a (1 of 2)"], "; 1 pool is being updated: d/a (1 of 2)"),
        (["d/a (1)", "d/b (2)"], "; 2 pools are being updated: d/a (1), d/b (2)"),
        (["d/a (1)", "d/b (2)", "d/c (3)"], "; 3 pools are being updated: d/a (1), d/b (2) and 1 more"),
    ],
)
def test_pools_that_are_being_updated_end_the_line(updating: list[str], reported: str) -> None:
    nodes: dict[str, str | Outcome] = {"a": short_of(4, 3, 3), "b": "cordoned"}
    line = (
        "0/2 nodes: 1 node: cordoned; no other node has 4 devices for request gpus, the most is 3, on a (of 3 devices)"
    )
    assert summed(nodes, updating=updating) == line + reported


def test_nodes_that_say_the_same_are_reported_with_their_number() -> None:
    line = (
        "0/6 nodes: 3 nodes: cordoned; no other node has 4 devices for request gpus, the most is 3, on a (of 3 devices)"
    )
    assert summed({"a": short_of(4, 3, 3), "b": "cordoned"}, 6, number=3) == line


def test_pools_that_are_being_updated_are_not_reported_where_no_node_lacks_devices() -> None:
    assert summed({"a": "cordoned"}, updating=["d/a (1 of 2)"]) == "0/1 nodes: 1 node: cordoned"


def test_node_where_no_device_passes_the_selectors_is_not_reported_to_be_near() -> None:
    nodes = {"a": short_of(1, 0, 0), "b": short_of(1, 3, 0, SELECTOR)}
    assert summed(nodes) == (
        "0/2 nodes: no node has 1 device for request gpus, no device passes its selectors "
        f"(node b has {node_text(nodes['b'], reader=OPERATOR).partition('(')[2]}"
    )
