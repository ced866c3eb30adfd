"""Whatever may go wrong on the way goes wrong now and then, with all calls: everything ends placed all the same."""

import random

from tests.controlplane.ours import Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.proxy import Proxy
from tests.controlplane.trouble import spoil
from tests.integration.live.crowd import GPU, a_pod, await_placed, empty, furnish, send, wrongs
from tests.integration.live.history import History

NODES, DEVICES, PODS = 10, 20, 200
SEED = 1
SHARE = 0.05


def test_pods_are_placed_through_a_connection_on_which_every_twentieth_call_fails(
    plane: ControlPlane, proxy: Proxy, program: Scheduler
) -> None:
    api = plane.client()
    furnish(api, NODES, DEVICES)
    troubles = spoil(proxy, random.Random(SEED), SHARE)  # noqa: S311 - no secret
    with History(api) as history:
        proxy.cut_watches()
        send(plane, [a_pod(f"pod-{number}", GPU) for number in range(PODS)])
        await_placed(api, PODS)
        assert wrongs(api) == []
    assert history.wrongs() == []
    # A sixth of what is to be expected: even half of it may be missed once in a thousand runs.
    assert len([call for trouble in troubles.values() for call in trouble.met]) > PODS * 3 * SHARE / 6
    assert program.is_running
    proxy.forget_rules()
    empty(plane)
