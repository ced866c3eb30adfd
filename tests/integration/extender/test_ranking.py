"""kube-scheduler adds the policy's scores to its own, where the extender is set so."""

from tests.integration.extender.beside import Beside
from tests.integration.live.world import some_devices

SETTINGS = {"policy": "spread", "ranking": "prioritize"}


def test_node_that_the_policy_scores_highest_is_chosen(world: Beside) -> None:
    world.a_class()
    for number, devices in enumerate((1, 4, 2)):
        world.a_node(f"node-{number}")
        world.a_slice(f"node-{number}", *some_devices(devices))
    world.a_claim()
    world.a_pod("pod", "claim")
    assert world.devices_of() == ["node-1/gpu-0"]
    assert 'dra_extender_calls_total{code="200",verb="prioritize"} 1.0' in world.program.reported("/metrics")
