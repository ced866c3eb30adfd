"""Devices that every node reaches, and two of our schedulers: a claim never leaves the pod that was bound with it.

A second attempt at a pod may choose another node, since the claim reaches all: by a scheduler whose watch of pods is
behind, or by one that goes on where another was killed.
"""

import pytest

from tests.controlplane.contents import restore
from tests.controlplane.faults import Lag, withhold_answer
from tests.controlplane.identities import OURS
from tests.controlplane.ours import WITHOUT_LEASE, Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import CLASS, POD, SLICE, TEMPLATE, Json, RestClient
from tests.integration.live.crowd import (
    BIND,
    NAMESPACE,
    W1,
    W2,
    WITHIN_S,
    a_pod,
    await_placed,
    emptied,
    furnish,
    send,
)
from tests.integration.live.history import History

NODES, PODS = 6, 40
FABRIC = "fabric.example.com"
BEHIND = 6
"""Lines that the watch of pods of the second scheduler is behind."""

STEPS = {"mark": (W1, 1), "allocate": (W2, 1), "bind": (BIND, 1)}


@pytest.fixture(scope="module")
def fleet(plane: ControlPlane) -> RestClient:
    """Nodes without devices of their own, and a pool that all of them reach."""
    api = plane.client()
    furnish(api, NODES, 1)
    chosen = [{"cel": {"expression": f"device.driver == '{FABRIC}'"}}]
    request = {"name": "r", "exactly": {"deviceClassName": FABRIC}}
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    ports = [{"name": f"port-{number}"} for number in range(2 * PODS)]
    spec: Json = {"driver": FABRIC, "allNodes": True, "pool": pool, "devices": ports}
    head = {"apiVersion": "resource.k8s.io/v1"}
    template = {"spec": {"devices": {"requests": [request]}}}
    named = {"name": FABRIC}
    restore(
        api,
        [
            {**head, "kind": CLASS.kind, "metadata": named, "spec": {"selectors": chosen}},
            {**head, "kind": TEMPLATE.kind, "metadata": {**named, "namespace": NAMESPACE}, "spec": template},
            {**head, "kind": SLICE.kind, "metadata": {"name": "fabric"}, "spec": spec},
        ],
    )
    return api


api = emptied()


def pods(name: str, number: int) -> list[Json]:
    return [a_pod(f"{name}-{one}", FABRIC) for one in range(number)]


def test_two_schedulers_take_no_claim_from_a_pod_that_the_other_has_bound(plane: ControlPlane, api: RestClient) -> None:
    with (
        History(api) as history,
        scheduler(plane, WITHOUT_LEASE, name="first"),
        scheduler(plane, WITHOUT_LEASE, name="second"),
    ):
        send(plane, pods("pod", PODS))
        await_placed(api, PODS)
    assert history.wrongs() == []


def test_scheduler_whose_watch_of_pods_is_behind_takes_no_claim_from_a_bound_pod(
    plane: ControlPlane, proxy: Proxy, api: RestClient
) -> None:
    lag = Lag(BEHIND)
    proxy.on("GET", r"/api/v1/pods$", lag, where=lambda request: request.is_watch, times=None)
    late = Scheduler(plane, WITHOUT_LEASE, kubeconfig=proxy.kubeconfig(OURS), name="late")
    try:
        late.await_readyz()
        with History(api) as history:
            lag.is_on = True
            with scheduler(plane, WITHOUT_LEASE, name="punctual"):
                for number in range(5):
                    send(plane, pods(f"round-{number}", PODS // 5))
                    await_placed(api, (number + 1) * (PODS // 5))
            lag.is_on = False
        assert history.wrongs() == []
    finally:
        late.stop()


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_write_it_leaves_its_pods_to_another_that_keeps_their_claims(
    plane: ControlPlane, proxy: Proxy, api: RestClient, step: str
) -> None:
    """Its last writes were carried out, and it never learnt of it; the other one runs all the time."""
    (method, path), nth = STEPS[step]
    rule = proxy.on(method, path, withhold_answer, nth=nth, times=None)
    with History(api) as history:
        victim = Scheduler(plane, WITHOUT_LEASE, kubeconfig=proxy.kubeconfig(OURS), name="victim")
        try:
            victim.await_readyz()
            send(plane, pods("pod", PODS // 4))
            rule.met.wait(WITHIN_S)
            with scheduler(plane, WITHOUT_LEASE, name="survivor"):
                victim.kill()
                await_placed(api, PODS // 4)
        finally:
            victim.kill()
            proxy.forget_rules()
    assert history.wrongs() == []
    assert len(api.list(POD, NAMESPACE)) == PODS // 4
