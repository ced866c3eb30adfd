"""Which of equal nodes goes first: by number, or in an order that identity and names decide."""

import numpy as np

from scheduler.decision.node_order import NodeOrder

NODES = 200


def an_order(identity: str, names: list[str]) -> NodeOrder:
    order = NodeOrder(identity)
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
