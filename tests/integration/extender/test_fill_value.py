"""The extender with the policy fill-value: kube-scheduler follows what is left most useful to the pods that came."""

from tests.integration.extender.beside import Beside
from tests.integration.live.world import a_request, some_devices

SETTINGS = {"policy": "fill-value"}

LARGE = ("node-0", "node-2")
"""Nodes with four devices, and with so much cpu that kube-scheduler itself finds them best."""


def a_fleet(world: Beside) -> None:
    """Two nodes with four devices each, and two with one."""
    world.a_class()
    for number, (devices, cpu) in enumerate(((4, "96"), (1, "16"), (4, "96"), (1, "16"))):
        world.a_node(f"node-{number}", allocatable={"cpu": cpu})
        world.a_slice(f"node-{number}", *some_devices(devices))
    world.a_template("four", a_request(count=4))
    world.a_template("one")


def test_whole_nodes_are_kept_for_pods_that_need_them(world: Beside) -> None:
    a_fleet(world)
    world.a_pod("first", template="four", requests={"cpu": "4"})
    assert world.node_of("first") in LARGE
    small = []
    for name in ("a", "b"):
        world.a_pod(name, template="one", requests={"cpu": "4"})
        small.append(world.node_of(name))
    assert sorted(small) == ["node-1", "node-3"]
    world.a_pod("second", template="four", requests={"cpu": "4"})
    assert {world.node_of("first"), world.node_of("second")} == set(LARGE)
    world.a_pod("third", template="four", requests={"cpu": "4"})
    world.refused("third")


def test_what_a_pod_gave_back_is_counted_again(world: Beside) -> None:
    a_fleet(world)
    world.a_pod("first", template="four")
    node = world.node_of("first")
    world.delete_pod("first")
    for name in ("second", "third"):
        world.a_pod(name, template="four")
    assert {world.node_of("second"), world.node_of("third")} == set(LARGE)
    assert node in LARGE
