"""Which of equal nodes goes first: by number, or in an order that identity and names decide."""

import numpy as np
import pytest

from scheduler.decision.filters import MOST_BEHIND, MOST_OTHERS, NodeOrder

NODES = 200


def an_order(identity: str, names: list[str]) -> NodeOrder:
    order = NodeOrder({name: number for number, name in enumerate(names)}, identity)
    for number, name in enumerate(names):
        order.set_node(number, name)
    return order


def in_order(order: NodeOrder, names: list[str]) -> list[str]:
    left, found = np.arange(len(names)), []
    while len(left):
        first = order.first(left)
        found.append(names[first])
        left = left[left != first]
    return found


def names_of(number: int) -> list[str]:
    return [f"node-{one}" for one in range(number)]


def test_without_an_identity_nodes_go_as_they_are_numbered() -> None:
    names = names_of(NODES)
    assert in_order(an_order("", names), names) == names


def test_identity_and_names_decide_and_not_the_numbers() -> None:
    names = names_of(NODES)
    found = in_order(an_order("kube-system/one", names), names)
    assert sorted(found) == sorted(names)
    assert found != names
    assert in_order(an_order("kube-system/one", names[::-1]), names[::-1]) == found


def test_two_split_the_nodes_while_there_are_many_and_share_the_last() -> None:
    names = names_of(NODES)
    orders = [an_order(identity, names) for identity in ("kube-system/one", "kube-system/two")]
    one, two = (in_order(order, names) for order in orders)
    assert len(set(one[:20]) & set(two[:20])) <= 5
    assert {order.first(np.array([7])) for order in orders} == {7}


def test_number_that_another_node_has_now_goes_by_that_one() -> None:
    names = names_of(3)
    order = an_order("kube-system/one", names)
    order.set_node(1, "node-9")
    assert in_order(order, ["node-0", "node-9", "node-2"]) == in_order(
        an_order("kube-system/one", ["node-0", "node-9", "node-2"]), ["node-0", "node-9", "node-2"]
    )


def test_another_identity_puts_known_nodes_in_its_order_and_back() -> None:
    names = names_of(NODES)
    order = an_order("", names)
    order.search_as("kube-system/one")
    assert in_order(order, names) == in_order(an_order("kube-system/one", names), names)
    order.search_as("")
    assert in_order(order, names) == names


def test_schedulers_that_have_met_take_nodes_of_their_own_first() -> None:
    names = names_of(NODES)
    orders = [an_order("", names), an_order("kube-system/two", names), an_order("kube-system/three", names)]
    schedulers = ["one", "two", "three"]
    for order, own in zip(orders, schedulers, strict=True):
        order.split(own, set(schedulers) - {own})
    own_parts = [set(in_order(order, names)[: NODES // 4]) for order in orders]
    assert len(set().union(*own_parts)) == 3 * (NODES // 4)
    assert [sorted(in_order(order, names)) for order in orders] == [sorted(names)] * 3


def test_node_that_comes_after_a_split_is_of_one_of_them() -> None:
    orders = [an_order("", []), an_order("", [])]
    for order, own, other in zip(orders, ("one", "two"), ("two", "one"), strict=True):
        order.split(own, [other])
        for number, name in enumerate(names_of(NODES)):
            order.set_node(number, name)
    firsts = [in_order(order, names_of(NODES))[: NODES // 3] for order in orders]
    assert not set(firsts[0]) & set(firsts[1])


def test_without_others_the_order_is_as_before() -> None:
    names = names_of(NODES)
    order = an_order("kube-system/one", names)
    before = in_order(order, names)
    order.split("one", ["two"])
    assert in_order(order, names) != before
    order.split("", ())
    assert in_order(order, names) == before


def test_many_others_are_not_all_counted() -> None:
    order = an_order("", names_of(3))
    order.split("one", [f"other-{number}" for number in range(100)])
    assert len(order.others) == MOST_OTHERS


def split_in_two() -> tuple[NodeOrder, list[int], list[int]]:
    """An order, the nodes that are its own, and those of the other scheduler."""
    names = names_of(NODES)
    orders = [an_order("", names), an_order("", names)]
    for order, name, other in zip(orders, ("one", "two"), ("two", "one"), strict=True):
        order.split(name, [other])
    one, two = ([names.index(name) for name in in_order(order, names)] for order in orders)
    own = [number for number in one if one.index(number) < two.index(number)]
    return orders[0], sorted(own), sorted(set(range(NODES)) - set(own))


@pytest.mark.parametrize("behind", [1, MOST_BEHIND])
def test_own_node_that_comes_close_goes_before_the_best_of_another_scheduler(behind: int) -> None:
    order, own, others = split_in_two()
    totals = np.full(NODES, 50)
    totals[others], totals[own[5]] = 80, 80 - behind
    assert order.best(np.arange(NODES), totals) == (own[5], 80 - behind)


def test_own_node_that_is_clearly_worse_does_not() -> None:
    order, own, others = split_in_two()
    totals = np.full(NODES, 50)
    totals[others[3]] = totals[own].max() + MOST_BEHIND + 1
    assert order.best(np.arange(NODES), totals) == (others[3], 50 + MOST_BEHIND + 1)


def test_nodes_of_others_are_left_where_no_own_one_is_feasible() -> None:
    order, _, others = split_in_two()
    assert order.best(np.array(others), np.arange(len(others))) == (others[-1], len(others) - 1)


def test_alone_the_best_node_is_taken_however_close_others_come() -> None:
    totals = np.full(NODES, 50)
    totals[7] = 51
    assert an_order("kube-system/one", names_of(NODES)).best(np.arange(NODES), totals) == (7, 51)
