"""Two schedulers that know nothing of each other, on one driver: with the guard no device is given twice, and none is
left over, whatever ends in the middle of it."""

from collections.abc import Iterator

import pytest

from tests import extent
from tests.controlplane.door import Door
from tests.controlplane.ours import WITHOUT_LEASE, Guard, Scheduler
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, POD, RestClient
from tests.controlplane.rights import grant
from tests.integration.guard.scene import holders
from tests.integration.live.crowd import GPU, NAMESPACE, WITHIN_S, a_pod, empty, furnish, placed, send, wrongs
from tests.integration.live.history import History
from tests.soak.checker import HELD_TWICE

NODES, DEVICES, PODS = (10, 6, 120) if extent.is_nightly() else (8, 5, 80)
OURS, STOCK, SECOND = "dra-scheduler", "default-scheduler", "second-scheduler"
FAST = {"clientConnection": {"qps": 5000, "burst": 5000}}
PAIRS = ((OURS, STOCK), (STOCK, SECOND))


@pytest.fixture
def fleet(plane: ControlPlane, api: RestClient, guard: Guard) -> Iterator[RestClient]:
    """Ten nodes with six devices each; empty again afterwards, while the guard is there."""
    grant(api)
    furnish(api, NODES, DEVICES)
    yield api
    assert guard
    plane.stop("kube-scheduler")
    empty(plane)


@pytest.fixture(params=extent.part(PAIRS, 1), ids=" and ".join)
def pair(request: pytest.FixtureRequest, plane: ControlPlane, fleet: RestClient) -> Iterator[tuple[str, str]]:
    """Two schedulers, which have begun."""
    assert fleet
    started: list[Scheduler] = []
    names: tuple[str, str] = request.param
    for name in names:
        if name == OURS:
            started.append(Scheduler(plane, WITHOUT_LEASE))
            started[-1].await_readyz()
        else:
            plane.start_scheduler({**FAST, "profiles": [{"schedulerName": name}]})
    yield names
    for one in started:
        one.stop()
    plane.stop("kube-scheduler")


def send_both(plane: ControlPlane, pair: tuple[str, str]) -> None:
    """Half of the pods for each scheduler, by turns; there are devices for half of them all."""
    send(plane, [a_pod(f"pod-{number}", GPU, scheduler=pair[number % 2]) for number in range(PODS)])


def await_some(api: RestClient) -> None:
    """Return in the middle of it."""
    poll_until(lambda number: number >= 10, lambda: len(holders(api.list(CLAIM, NAMESPACE))), "some devices are given")


def check(api: RestClient) -> None:
    """All devices are in use in the end, each by one claim of a bound pod."""
    everything = NODES * DEVICES
    api.await_all(POD, lambda pods: len(placed(pods)) == everything, NAMESPACE, WITHIN_S)
    api.await_all(CLAIM, lambda claims: len(holders(claims)) == everything, NAMESPACE, WITHIN_S)
    by_device = holders(api.list(CLAIM, NAMESPACE))
    assert {device: claims for device, claims in by_device.items() if len(claims) > 1} == {}


def test_no_device_is_given_twice_and_all_end_in_use(
    plane: ControlPlane, fleet: RestClient, pair: tuple[str, str]
) -> None:
    with History(fleet) as history:
        send_both(plane, pair)
        check(fleet)
    assert [wrong for wrong in history.wrongs() if wrong.startswith(HELD_TWICE)] == []
    assert [wrong for wrong in wrongs(fleet) if "taken" in wrong] == []


def test_leader_is_killed_while_pods_are_bound(
    plane: ControlPlane, fleet: RestClient, pair: tuple[str, str], guard: Guard, way: Door
) -> None:
    (port,) = free_ports(1)
    with History(fleet) as history:
        standby = Guard(plane, port, guard.options, name="standby")
        try:
            standby.await_readyz()
            send_both(plane, pair)
            poll_until(
                lambda number: number >= 10, lambda: len(holders(fleet.list(CLAIM, NAMESPACE))), "some are given"
            )
            guard.kill()
            way.lead_to(port)
            check(fleet)
            # All may have been given before the old one was killed.
            leads = 'leader_election_master_status{name="dra-guard"} 1.0'
            poll_until(lambda found: leads in found, lambda: standby.reported("/metrics"), "the standby leads")
        finally:
            plane.stop("kube-scheduler")
            empty(plane)
            standby.stop()
    assert [wrong for wrong in history.wrongs() if wrong.startswith(HELD_TWICE)] == []


def test_api_server_starts_again_while_pods_are_bound(
    plane: ControlPlane, fleet: RestClient, pair: tuple[str, str]
) -> None:
    send_both(plane, pair)
    await_some(fleet)
    plane.restart_api_server()
    check(fleet)
