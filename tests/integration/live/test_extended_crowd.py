"""Many pods that ask for extended resources, kill -9 at each write, two schedulers: one claim each, and none left."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from scheduler.attempt.claim_objects import allocation_of, consumers_of
from tests import extent
from tests.controlplane.faults import Fault, HangUp, cut_before, lose_answer, refuse, send_twice, withhold_answer
from tests.controlplane.identities import OURS
from tests.controlplane.ours import WITHOUT_LEASE, Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import CLAIM, CLASS, POD, Json, Kind, RestClient
from tests.integration.live.crowd import (
    BIND,
    NAMESPACE,
    W2,
    WITHIN_S,
    a_pod,
    await_all_placed,
    await_claims,
    await_placed,
    emptied,
    furnish,
    lose_one_of_two,
    placed,
    send,
    send_away,
    wrongs,
)
from tests.integration.live.crowd import GPU as DRIVER
from tests.integration.live.history import History

pytestmark = pytest.mark.needs("DRAExtendedResource")

TRIES = 12
"""More than one attempt makes of one write."""

NODES, DEVICES = 8, 5 if extent.is_nightly() else 3
FEW = 6
MANY = NODES * DEVICES
GPU = "example.com/gpu"


@dataclass(frozen=True, slots=True)
class CrowdStep:
    """A write, and what shows that it was stored for some pod: an object of that kind for which that holds."""

    write: tuple[str, str]
    kind: Kind
    is_stored: Callable[[Json], bool]


STEPS: Mapping[str, CrowdStep] = {
    "make": CrowdStep(("POST", r"/resourceclaims$"), CLAIM, lambda _: True),
    "allocate": CrowdStep(W2, CLAIM, lambda claim: allocation_of(claim) is not None),
    "tell": CrowdStep(
        ("PATCH", r"/pods/[^/]+/status$"), POD, lambda pod: "extendedResourceClaimStatus" in pod["status"]
    ),
    "bind": CrowdStep(BIND, POD, lambda pod: "nodeName" in pod["spec"]),
}


FAULTS: Mapping[str, tuple[Fault, int]] = {
    "conflict again and again": (refuse(409, "Conflict"), TRIES),
    "done, and then a conflict": (send_twice(409, "Conflict"), FEW),
    "server in trouble again and again": (refuse(500, "InternalError"), TRIES),
    "server in trouble though it was done": (send_twice(500, "InternalError"), FEW),
    "answer lost, done": (lose_answer, FEW),
    "answer lost again and again, not done": (cut_before, TRIES),
    "no answer for long, done": (HangUp(2, is_done=True), 1),
    "no answer for long, not done": (HangUp(2, is_done=False), 1),
}


@pytest.fixture(scope="module")
def fleet(plane: ControlPlane) -> RestClient:
    """Nodes with devices, whose class stands for the resource."""
    api = plane.client()
    furnish(api, NODES, DEVICES)
    found = api.get(CLASS, DRIVER)
    api.replace({**found, "spec": {**found["spec"], "extendedResourceName": GPU}})
    return api


api = emptied()


def pods(name: str, number: int) -> list[Json]:
    return [a_gpu_pod(f"{name}-{one}") for one in range(number)]


def a_gpu_pod(name: str) -> Json:
    amounts = {GPU: "1"}
    container = {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    pod = a_pod(name)
    return {**pod, "spec": {**pod["spec"], "containers": [container]}}


def faults(api: RestClient) -> list[str]:
    """What is not as it should be while nobody has anything under way."""
    claims = api.list(CLAIM, NAMESPACE)
    found = [wrong for pod in placed(api.list(POD, NAMESPACE)) for wrong in faults_of_pod(pod, claims)]
    return [*wrongs(api), *found]


def faults_of_pod(pod: Json, claims: Sequence[Json]) -> Iterator[str]:
    """What is wrong with the claim of a pod that has a node."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    own = [claim for claim in claims if claim["metadata"]["ownerReferences"][0]["uid"] == uid]
    if len(own) != 1:
        yield f"pod {name} has {len(own)} claims"
        return
    (claim,) = own
    if pod["status"].get("extendedResourceClaimStatus", {}).get("resourceClaimName") != claim["metadata"]["name"]:
        yield f"pod {name} does not name its claim"
    if consumers_of(claim) != (uid,):
        yield f"the claim of pod {name} is not reserved for it"
    if {one["pool"] for one in claim["status"]["allocation"]["devices"]["results"]} != {pod["spec"]["nodeName"]}:
        yield f"the claim of pod {name} has devices of another node"


@pytest.mark.parametrize("fault", extent.part([*FAULTS], 2))
def test_every_pod_is_bound_with_one_claim_though_each_of_its_writes_may_go_wrong(
    plane: ControlPlane, proxy: Proxy, api: RestClient, fault: str
) -> None:
    wrong, times = FAULTS[fault]
    rules = [proxy.on(*step.write, wrong, times=times) for step in STEPS.values()]
    try:
        with History(api) as history:
            with scheduler(plane, WITHOUT_LEASE, kubeconfig=proxy.kubeconfig(OURS), name="hindered"):
                send(plane, pods("pod", FEW))
                await_placed(api, FEW)
                await_claims(api, FEW)
            assert faults(api) == []
    finally:
        proxy.forget_rules()
    assert history.wrongs() == []
    assert all(rule.matched >= times for rule in rules)


def crash(plane: ControlPlane, proxy: Proxy, api: RestClient, step: CrowdStep) -> None:
    """Some pods come, and the program dies when the write for one or more of them has been stored."""
    rule = proxy.on(*step.write, withhold_answer, times=None)
    program = Scheduler(plane, WITHOUT_LEASE, kubeconfig=proxy.kubeconfig(OURS), name="killed")
    try:
        program.await_readyz()
        send(plane, pods("pod", FEW))
        rule.met.wait(WITHIN_S)
        api.await_all(step.kind, lambda found: any(map(step.is_stored, found)), NAMESPACE, WITHIN_S)
    finally:
        program.kill()
        proxy.forget_rules()


@pytest.mark.parametrize("step", extent.part([*STEPS], 1))
def test_killed_at_a_write_and_started_again_it_binds_each_pod_with_one_claim(
    plane: ControlPlane, proxy: Proxy, api: RestClient, step: str
) -> None:
    with History(api) as history:
        crash(plane, proxy, api, STEPS[step])
        with scheduler(plane, WITHOUT_LEASE, name="restarted"):
            await_placed(api, FEW)
            await_claims(api, FEW)
        assert faults(api) == []
    assert history.wrongs() == []


@pytest.mark.parametrize("step", extent.part(["make", "allocate", "tell"], 1))
def test_killed_at_a_write_it_leaves_nothing_of_pods_that_are_deleted(
    plane: ControlPlane, proxy: Proxy, api: RestClient, step: str
) -> None:
    crash(plane, proxy, api, STEPS[step])
    send_away(plane, api.list(POD, NAMESPACE))
    api.await_all(CLAIM, lambda claims: not claims, NAMESPACE, WITHIN_S)


def test_two_schedulers_bind_each_pod_with_one_claim_and_no_device_is_used_twice(
    plane: ControlPlane, api: RestClient
) -> None:
    """First there are devices enough for all; then as many pods more come, for what is left until others go."""
    with History(api) as history:
        with scheduler(plane, WITHOUT_LEASE, name="first"), scheduler(plane, WITHOUT_LEASE, name="second"):
            send(plane, pods("early", MANY))
            early = await_placed(api, MANY)
            await_claims(api, MANY)
            assert faults(api) == []
            send(plane, pods("late", MANY))
            send_away(plane, early)
            await_all_placed(api, MANY)
            await_claims(api, MANY)
        assert faults(api) == []
    assert history.wrongs() == []


def test_one_that_dies_under_load_leaves_all_its_pods_to_the_other(plane: ControlPlane, api: RestClient) -> None:
    with History(api) as history:
        lose_one_of_two(plane, api, pods("load", MANY))
        await_claims(api, MANY)
        assert faults(api) == []
    assert history.wrongs() == []


def test_asked_to_end_under_load_it_leaves_no_claim_without_its_pod_on_a_node(
    plane: ControlPlane, api: RestClient
) -> None:
    with scheduler(plane, WITHOUT_LEASE, name="ended") as program:
        send(plane, pods("load", MANY))
        await_placed(api, 1)
        program.stop()
    assert faults(api) == []
    with scheduler(plane, WITHOUT_LEASE, name="next"):
        await_placed(api, MANY)
        await_claims(api, MANY)
    assert faults(api) == []
