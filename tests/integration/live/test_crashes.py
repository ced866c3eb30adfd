"""kill -9 at each write, and a start after it: everything ends placed, and nothing is left of what was begun."""

import pytest

from tests.controlplane.faults import withhold_answer
from tests.controlplane.identities import OURS
from tests.controlplane.ours import WITHOUT_LEASE, Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import CLAIM, POD, Json, RestClient
from tests.integration.live.crowd import (
    BIND,
    GPU,
    NAMESPACE,
    NET,
    W1,
    W2,
    WITHIN_S,
    a_pod,
    await_placed,
    emptied,
    furnished,
    placed,
    send,
    send_away,
    wrongs,
)
from tests.integration.live.history import History

NODES, DEVICES, PODS = 4, 2, 6

STEPS = {"mark": (W1, 1), "allocate": (W2, 1), "mark the second": (W1, PODS + 1), "bind": (BIND, 1)}


fleet = furnished(NODES, DEVICES, (GPU, NET))
api = emptied()


def crash(plane: ControlPlane, proxy: Proxy, api: RestClient, step: str) -> None:
    """Pods with two claims each come, and the program dies when the write of one or more of them has been stored."""
    (method, path), nth = STEPS[step]
    rule = proxy.on(method, path, withhold_answer, nth=nth, times=None)
    program = Scheduler(plane, WITHOUT_LEASE, kubeconfig=proxy.kubeconfig(OURS), name="killed")
    try:
        program.await_readyz()
        send(plane, [a_pod(f"pod-{number}", GPU, NET) for number in range(PODS)])
        rule.met.wait(WITHIN_S)
        api.await_all(CLAIM, lambda claims: any(map(is_begun, claims)), NAMESPACE, WITHIN_S)
        if step == "bind":
            await_placed(api, 1)
    finally:
        program.kill()
        proxy.forget_rules()


def is_begun(claim: Json) -> bool:
    return bool(claim["metadata"].get("finalizers"))


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_write_and_started_again_it_places_all_pods(
    plane: ControlPlane, proxy: Proxy, api: RestClient, step: str
) -> None:
    with History(api) as history:
        crash(plane, proxy, api, step)
        with scheduler(plane, WITHOUT_LEASE, name="restarted"):
            await_placed(api, PODS)
        assert wrongs(api) == []
    assert history.wrongs() == []


def test_killed_and_its_pods_deleted_before_it_is_started_again_it_leaves_nothing(
    plane: ControlPlane, proxy: Proxy, api: RestClient
) -> None:
    crash(plane, proxy, api, "mark the second")
    send_away(plane, api.list(POD, NAMESPACE))
    api.await_all(CLAIM, lambda claims: not claims, NAMESPACE, WITHIN_S)
    with scheduler(plane, WITHOUT_LEASE, name="restarted"):
        send(plane, [a_pod(f"new-{number}", GPU, NET) for number in range(NODES * DEVICES)])
        assert len(placed(await_placed(api, NODES * DEVICES))) == NODES * DEVICES
    assert wrongs(api) == []
