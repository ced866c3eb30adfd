"""A bind ends within the time that its caller waits: what is not done by then is taken back before it answers."""

import pytest

from scheduler.extender.configuration import LEAST_TIMEOUT_S, ROLLBACK_S
from tests.controlplane.faults import Hold
from tests.integration.extender.beside import Beside
from tests.integration.extender.between import bind
from tests.integration.live.crowd import BIND, W1, W2
from tests.integration.live.world import is_free

SETTINGS = {"httpTimeoutSeconds": LEAST_TIMEOUT_S}


@pytest.fixture
def world(without_kube_scheduler: Beside) -> Beside:
    """A cluster without kube-scheduler: the test asks in its place."""
    return without_kube_scheduler


@pytest.mark.parametrize("write", [W1, W2, BIND], ids=["mark", "allocate", "bind"])
def test_bind_that_does_not_end_in_time_is_taken_back_before_it_is_answered(
    world: Beside, write: tuple[str, str]
) -> None:
    world.a_cluster()
    world.a_claim()
    hold = Hold()
    world.proxy.on(*write, hold, times=2)  # it is sent once more before the time is up
    pod = world.a_pod("pod", "claim")
    late = f"pod live/pod was not bound within {LEAST_TIMEOUT_S - ROLLBACK_S:.0f} s: it was at step "
    assert bind(world.door, pod).startswith(late)
    assert is_free(world.claim())
    assert "nodeName" not in world.pod()["spec"]
    hold.release()
    assert bind(world.door, pod) == ""
    assert world.devices_of() == ["node-0/gpu-0"]
