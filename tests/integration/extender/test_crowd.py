"""Hundreds of pods with claims and without: all are bound, no device twice, none at any moment without its devices.

The extender may be away for a while, or be killed in the middle: then pods wait, and none is bound without it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests import extent
from tests.controlplane.faults import withhold_answer
from tests.controlplane.ours import Extender
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import CLAIM, POD, Json, RestClient
from tests.integration.extender.beside import SCHEDULER, Door, start_kube_scheduler
from tests.integration.live.crowd import (
    BIND,
    GPU,
    NAMESPACE,
    NET,
    W1,
    W2,
    WITHIN_S,
    a_pod,
    await_claims,
    await_placed,
    devices_of,
    emptied,
    furnished,
    lose_names,
    named,
    placed,
    refused,
    send,
    send_claims,
    send_claims_away,
    wrongs,
)
from tests.integration.live.history import History

NODES, DEVICES = 20, 16 if extent.is_nightly() else 6
PODS, FEW = 300 if extent.is_nightly() else 100, 50

STEPS = {"mark": W1, "allocate": W2, "bind": BIND}


fleet = furnished(NODES, DEVICES, (GPU, NET))
api = emptied()


@pytest.fixture(scope="module")
def kube_scheduler(plane: ControlPlane, door: Door) -> Iterator[Process]:
    """It goes on whatever becomes of the extender."""
    program = start_kube_scheduler(plane, door.entry())
    yield program
    program.stop()


Start = Callable[[], Extender]


@pytest.fixture
def start(plane: ControlPlane, proxy: Proxy, door: Door, kube_scheduler: Process) -> Iterator[Start]:
    """Starts an extender where kube-scheduler calls it; whatever runs then ends with the test."""
    assert kube_scheduler.is_running
    with ExitStack() as running:

        def begin() -> Extender:
            program = door.extender(plane, proxy)
            running.callback(program.stop)
            program.await_readyz()
            return program

        yield begin
    proxy.forget_rules()


def a_crowd(number: int, *drivers: str) -> list[Json]:
    """So many pods with a claim of each driver, and as many without, one after the other."""
    pairs = ((a_pod(f"with-{at}", *drivers, scheduler=SCHEDULER), a_bare_pod(f"without-{at}")) for at in range(number))
    return [pod for pair in pairs for pod in pair]


def a_crowd_with_claims(number: int, *drivers: str) -> tuple[list[Json], list[Json]]:
    """The same with claims that the pods name, and these: nothing depends on how soon a controller makes them."""
    pods: list[Json] = []
    claims: list[Json] = []
    for pod in a_crowd(number, *drivers):
        its, own = named(pod)
        pods.append(its)
        claims += own
    return pods, claims


def a_bare_pod(name: str) -> Json:
    """A pod without claims."""
    return a_pod(name, scheduler=SCHEDULER)


def used(api: RestClient) -> list[str]:
    """All devices of all claims."""
    return [device for claim in api.list(CLAIM, NAMESPACE) for device in devices_of(claim)]


def test_pods_with_claims_and_pods_without_are_all_bound(plane: ControlPlane, api: RestClient, start: Start) -> None:
    start()
    with History(api) as history:
        send(plane, a_crowd(PODS, GPU))
        await_placed(api, 2 * PODS)
    assert history.wrongs() == []
    assert wrongs(api) == []
    devices = used(api)
    assert len(devices) == len(set(devices)) == PODS


def test_pods_beyond_the_last_device_wait_and_follow_those_that_go(
    plane: ControlPlane, api: RestClient, start: Start
) -> None:
    start()
    more = 10
    with History(api) as history:
        send(plane, [a_pod(f"pod-{at}", GPU, scheduler=SCHEDULER) for at in range(NODES * DEVICES + more)])
        first = placed(await_placed(api, NODES * DEVICES))
        api.await_all(POD, lambda pods: len(refused(pods)) == more, NAMESPACE, WITHIN_S)
        for pod in first[:more]:
            api.delete(POD, pod["metadata"]["name"], NAMESPACE)
        await_placed(api, NODES * DEVICES)
        await_claims(api, NODES * DEVICES)
    assert history.wrongs() == []
    assert wrongs(api) == []


@pytest.mark.parametrize("step", extent.part([*STEPS], 1))
def test_extender_that_is_killed_in_the_middle_and_started_again_binds_all(
    plane: ControlPlane, proxy: Proxy, api: RestClient, start: Start, step: str
) -> None:
    killed = start()
    rule = proxy.on(*STEPS[step], withhold_answer, nth=FEW // 2, times=None)
    pods, claims = a_crowd_with_claims(FEW, GPU, NET)
    send_claims(plane, claims)
    with History(api) as history:
        send(plane, pods)
        rule.met.wait(WITHIN_S)
        killed.kill()
        proxy.forget_rules()
        start()
        await_placed(api, 2 * FEW)
        assert wrongs(api) == []
    assert history.wrongs() == []
    send_claims_away(plane, claims)


def test_while_the_extender_is_away_pods_wait_and_none_is_bound(
    plane: ControlPlane, api: RestClient, start: Start
) -> None:
    with History(api) as history:
        send(plane, a_crowd(FEW, GPU))
        pods = api.await_all(POD, lambda pods: len(refused(pods)) == 2 * FEW, NAMESPACE, WITHIN_S)
        assert placed(pods) == []
        assert used(api) == []
        start()
        await_placed(api, 2 * FEW)
    assert history.wrongs() == []
    assert wrongs(api) == []


def test_extender_that_is_asked_to_end_finishes_or_takes_back_what_it_has_begun(
    plane: ControlPlane, api: RestClient, start: Start
) -> None:
    ended = start()
    with History(api) as history:
        send(plane, a_crowd(FEW, GPU))
        await_placed(api, FEW)
        ended.stop()
        assert ended.exit_code == 0
        assert wrongs(api) == []
        start()
        await_placed(api, 2 * FEW)
    assert history.wrongs() == []


def test_pod_that_names_its_claims_by_turns_is_placed(plane: ControlPlane, api: RestClient, start: Start) -> None:
    send(plane, [a_pod("pod", GPU, NET, scheduler=SCHEDULER)])
    lose_names(api, "c0")
    start()
    await_placed(api, 1)
    assert wrongs(api) == []
