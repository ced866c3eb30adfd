import numpy as np

from scheduler.state.labels import Topology
from tests.builders import a_node


def a_topology(*zones: str) -> Topology:
    """Nodes in these zones, in none for an empty one."""
    topology = Topology(len(zones))
    for number, zone in enumerate(zones):
        topology.set_node(number, a_node(f"n{number}", {"zone": zone} if zone else {}))
    return topology


def spread_out(topology: Topology, counts: list[int]) -> list[int]:
    domains = topology.domains("zone")
    return list(domains.spread_out(domains.sums(np.array(counts))))


def test_what_is_on_nodes_adds_up_by_domain() -> None:
    assert spread_out(a_topology("a", "b", "a", ""), [1, 2, 4, 8]) == [5, 2, 5, 0]


def test_a_node_without_the_label_is_in_no_domain() -> None:
    assert list(a_topology("a", "").domains("zone").labelled) == [True, False]
    assert not a_topology("a", "").domains("rack").labelled.any()


def test_domains_follow_the_labels_of_nodes() -> None:
    topology = a_topology("a", "a", "b")
    assert spread_out(topology, [1, 1, 1]) == [2, 2, 1]
    topology.set_node(1, a_node("n1", {"zone": "b"}))
    assert spread_out(topology, [1, 1, 1]) == [1, 2, 2]
    topology.remove_node(2)
    assert spread_out(topology, [1, 1, 1]) == [1, 1, 0]


def test_there_is_room_for_more_nodes() -> None:
    topology = a_topology("a")
    topology.domains("zone")
    topology.grow(3)
    topology.set_node(2, a_node("n2", {"zone": "a"}))
    assert spread_out(topology, [1, 8, 2]) == [3, 0, 3]


def test_values_that_are_gone_do_not_pile_up() -> None:
    topology = a_topology("a")
    for number in range(100):
        topology.set_node(0, a_node("n0", {"zone": f"zone-{number}"}))
        assert topology.domains("zone").number <= 3


def test_keys_that_no_node_has_take_no_room() -> None:
    topology = a_topology("a", "b")
    nowhere = topology.domains("key-0")
    assert all(topology.domains(f"key-{number}") is nowhere for number in range(100))
    topology.set_node(0, a_node("n0", {"key-1": "x"}))
    assert list(topology.domains("key-1").labelled) == [True, False]
    assert topology.domains("key-0") is nowhere
    topology.remove_node(0)
    assert topology.domains("key-1") is nowhere


def test_it_is_known_which_keys_nodes_have() -> None:
    topology = a_topology("a", "b")
    version = topology.keys_version
    topology.remove_node(0)
    assert topology.has("zone")
    assert topology.keys_version == version
    topology.remove_node(1)
    assert not topology.has("zone")
    assert topology.keys_version > version
