"""The leader goes while a crowd is being bound: nothing is lost or given twice, and who led writes no more."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus

import pytest

from tests import extent
from tests.controlplane.faults import Hold, refuse
from tests.controlplane.ours import Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.proxy import Proxy, Request
from tests.controlplane.rest import RestClient
from tests.integration.attempt.scene import Landing
from tests.integration.live.crowd import (
    BIND,
    GPU,
    W1,
    W2,
    a_pod,
    await_all_placed,
    await_placed,
    empty,
    furnish,
    send,
    wrongs,
)
from tests.integration.live.history import History
from tests.integration.live.replicas import DEFAULT, LONG, Start, await_leading, ended

NODES, DEVICES, PODS, FEW = 20, 12, 200 if extent.is_nightly() else 100, 6
WRITES = (W1, W2, BIND)
BUSY: Mapping[str, float] = {"leaseDurationSeconds": 8, "renewDeadlineSeconds": 6, "retryPeriodSeconds": 0.5}
"""Durations that a leader keeps even while the machine has much else to do."""

METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[RestClient]:
    """A fleet with room for the crowd."""
    found = plane.client()
    furnish(found, NODES, DEVICES)
    yield found
    empty(plane)


def test_all_pods_that_a_killed_leader_leaves_are_bound_once(
    plane: ControlPlane, api: RestClient, start: Start
) -> None:
    leader, _ = two(start, BUSY)
    with crowd_is_bound_once(plane, api):
        leader.kill()


def test_all_pods_that_a_stopped_leader_leaves_are_bound_once(
    plane: ControlPlane, api: RestClient, start: Start
) -> None:
    leader, _ = two(start, LONG)
    with crowd_is_bound_once(plane, api):
        leader.stop()
        assert leader.exit_code == 0


def test_leader_under_load_that_is_held_up_for_longer_than_its_lease_writes_nothing_when_it_wakes(
    plane: ControlPlane, proxy: Proxy, api: RestClient, start: Start
) -> None:
    """With default durations. Calls that it had begun may still arrive; each is refused, for what it is based on."""
    sleeper, other = two(start, DEFAULT)
    with crowd_is_bound_once(plane, api):
        os.kill(sleeper.pid, signal.SIGSTOP)
        await_leading(other)
        await_all_placed(api, PODS)
        before = len(proxy.requests)
        os.kill(sleeper.pid, signal.SIGCONT)
        assert "this process writes nothing any more" in ended(sleeper)["message"]
        assert sleeper.exit_code == 1
        assert stored(proxy.requests[before:]) == []


def test_leader_under_load_that_is_cut_off_ends_and_what_it_sent_is_refused_when_it_arrives(
    plane: ControlPlane, proxy: Proxy, api: RestClient, start: Start
) -> None:
    cut_off, other = two(start, BUSY)
    with crowd_is_bound_once(plane, api):
        hold = Hold()
        for method in METHODS:
            proxy.on(method, "", hold, times=None)
        proxy.silence_watches()
        assert "not renewed within the renew deadline" in ended(cut_off)["message"]
        assert cut_off.exit_code == 1
        await_leading(other)
        await_all_placed(api, PODS)
        assert proxy.under_way, "nothing was being sent when it was cut off"
        hold.release()
        poll_until(bool, lambda: not proxy.under_way, "all that it sent has arrived")


def test_writes_that_are_carried_out_after_their_leader_was_stopped_change_nothing(
    plane: ControlPlane, proxy: Proxy, api: RestClient, start: Start
) -> None:
    """One of each kind, of three pods: the API server takes longer than the leader has left to live."""
    leader, _ = two(start, LONG)
    held = [Late() for _ in WRITES]
    rules = [proxy.on(*write, late.hold) for write, late in zip(WRITES, held, strict=True)]
    with few_are_bound_once(plane, api):
        for rule in rules:
            rule.met.wait()
        leader.stop()
        assert leader.exit_code == 0
        await_all_placed(api, FEW)
        assert [late.status() for late in held] == [HTTPStatus.CONFLICT] * len(held)


def test_what_a_leader_was_taking_back_when_it_was_stopped_is_taken_back_by_the_next(
    plane: ControlPlane, proxy: Proxy, api: RestClient, start: Start
) -> None:
    leader, _ = two(start, LONG)
    proxy.on(*BIND, refuse(400, "BadRequest"), times=None)
    late = Late()
    rule = proxy.on(*W2, late.hold, where=takes_back)
    with few_are_bound_once(plane, api):
        rule.met.wait()
        leader.stop()
        assert leader.exit_code == 0
        await_all_placed(api, FEW)
        assert late.status() == HTTPStatus.CONFLICT


def takes_back(request: Request) -> bool:
    return "allocation" not in request.sent["status"]


class Late:
    """A write that arrives long after nobody waits for its answer any more."""

    def __init__(self) -> None:
        self._landing = Landing()
        self.hold = Hold(self._landing)

    def status(self) -> int:
        """What the API server says of it, now that it arrives."""
        self.hold.release()
        return self._landing.status()


@contextmanager
def few_are_bound_once(plane: ControlPlane, api: RestClient) -> Iterator[None]:
    """As `crowd_is_bound_once`, from before the first write for a few pods."""
    with History(api) as history:
        send(plane, (a_pod(f"pod-{number}", GPU) for number in range(FEW)))
        yield
        await_all_placed(api, FEW)
        assert wrongs(api) == []
    assert history.wrongs() == []


def two(start: Start, durations: Mapping[str, float]) -> tuple[Scheduler, Scheduler]:
    """The leader, whose calls go through the proxy, and another one that stands by."""
    leader = start("leader", durations, is_proxied=True)
    await_leading(leader)
    return leader, start("standby", durations)


@contextmanager
def crowd_is_bound_once(plane: ControlPlane, api: RestClient) -> Iterator[None]:
    """Open while pods are waiting, being bound and bound; then all are bound, and no device was ever used twice."""
    with History(api) as history:
        send(plane, (a_pod(f"pod-{number}", GPU) for number in range(PODS)))
        await_placed(api, PODS // 4)
        yield
        await_all_placed(api, PODS)
        assert wrongs(api) == []
    assert history.wrongs() == []


def stored(requests: Sequence[Request]) -> list[str]:
    """The writes among them that the API server has carried out."""
    return [str(one) for one in requests if one.is_write and HTTPStatus.OK <= one.status < HTTPStatus.MULTIPLE_CHOICES]
