"""A preemption goes on where its process was killed, where another one leads, and where nobody answered for a while.

In each state of its record: the preemptor gets what comes free, a rival of its priority does not, nobody else goes, and
nothing is left.
"""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests import extent
from tests.controlplane.faults import Hold, cut_before
from tests.controlplane.identities import OURS
from tests.controlplane.ours import Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.proxy import WRITES, Proxy
from tests.controlplane.rest import POD, Json
from tests.integration.live.replicas import SHORT, await_leading
from tests.integration.live.test_preemption import CLASSES, NOMINATION, a_user, deleted, disruption, is_ending
from tests.integration.live.world import PRIORITY, World, claims_of, is_free, settings_file, users_of

OUTAGE_S = extent.chosen("OUTAGE_SECONDS", 2, 30)
STATES = ("evicting", "leaving", "releasing", "held")


@pytest.fixture(autouse=True)
def classes(world: World) -> Iterator[None]:
    """Pods of three priorities."""
    for name, value in CLASSES.items():
        world.a_priority(name, value)
    yield
    for name in CLASSES:
        world.api.delete(PRIORITY, name)


Run = Callable[..., AbstractContextManager[Scheduler]]


@pytest.fixture
def run(plane: ControlPlane, proxy: Proxy, tmp_path: Path) -> Run:
    """Starts another process of the scheduler, as a replica if it elects a leader."""

    def started(name: str, *, elects: bool = False) -> AbstractContextManager[Scheduler]:
        election = {"leaderElection": SHORT} if elects else {}
        file = settings_file(tmp_path, schedulerName="mortal", **election)
        return scheduler(plane, [f"--config={file}"], kubeconfig=proxy.kubeconfig(OURS), name=name)

    return started


class Preempting:
    """A pod of the scheduler `mortal` preempts another one's device, as far as a state of its record."""

    def __init__(self, world: World, state: str, stack: ExitStack) -> None:
        self._world, self._state, self._stack = world, state, stack
        self._hold = Hold()
        stack.callback(self._hold.release)
        world.a_cluster()
        a_user(world, "low", "low")
        world.bound("low")
        if state == "evicting":
            self._until("DELETE", r"/pods/low$")
        elif state == "releasing":
            self._pause_controllers()
            self._until("PUT", r"/resourceclaims/of-low/status$", lambda: world.delete_pod("low"))
        else:
            self._preempt()

    def _preempt(self) -> None:
        a_user(self._world, "preemptor", "middle", schedulerName="mortal")
        self._world.pod_when("preemptor", lambda pod: "nominatedNodeName" in pod["status"])
        reached = is_ending if self._state != "evicting" else lambda pod: disruption(pod) is not None
        self._world.pod_when("low", reached)

    def _until(self, method: str, path: str, act: Callable[[], None] = lambda: None) -> None:
        """Preempt, and act, until this call is on its way, where it stays."""
        rule = self._world.proxy.on(method, path, self._hold)
        self._preempt()
        act()
        rule.met.wait()

    def _pause_controllers(self) -> None:
        controllers = self._world.plane.pids()["kube-controller-manager"]
        os.kill(controllers, signal.SIGSTOP)
        self._stack.callback(os.kill, controllers, signal.SIGCONT)

    def come_free(self) -> None:
        """Nobody is at work: all comes free, if that is the state."""
        if self._state == "held":
            self._world.delete_pod("low")
            self._world.claim_when("of-low", is_free)

    def a_rival(self) -> None:
        """A pod of the same priority, which is listed first."""
        a_user(self._world, "a-rival", "middle", schedulerName="mortal")

    def release(self) -> None:
        """The call that is on its way arrives."""
        self._hold.release()

    def end(self) -> None:
        """Somebody is at work again."""
        world = self._world
        if self._state in ("evicting", "leaving"):
            self._hold.release()
            world.pod_when("low", is_ending)
            world.delete_pod("low")
        assert world.devices_of("preemptor") == ["node-0/gpu-0"]
        assert "nodeName" not in world.pod("a-rival")["spec"]
        assert set(deleted(world)) == {"low"}
        world.claim_when("of-low", is_free)
        assert users_of(world.claim("of-preemptor")) == ["preemptor"]


@pytest.mark.parametrize("state", STATES)
def test_killed_and_started_again(world: World, run: Run, state: str) -> None:
    with ExitStack() as stack:
        with run("killed") as program:
            preempting = Preempting(world, state, stack)
            program.kill()
        preempting.come_free()
        preempting.a_rival()
        with run("started"):
            preempting.end()


@pytest.mark.parametrize("state", extent.part(STATES, 2))
def test_killed_while_another_stands_by(world: World, run: Run, state: str) -> None:
    with run("leads", elects=True) as leader:
        await_leading(leader)
        with run("stands-by", elects=True), ExitStack() as stack:
            preempting = Preempting(world, state, stack)
            leader.kill()
            preempting.come_free()
            preempting.a_rival()
            preempting.end()


@pytest.mark.parametrize("state", extent.part(STATES, 2))
def test_api_server_does_not_answer_for_a_while(world: World, run: Run, state: str) -> None:
    with ExitStack() as stack, run("waits") as program:
        preempting = Preempting(world, state, stack)
        preempting.a_rival()
        with outage(world, program):
            preempting.come_free()
        preempting.release()
        preempting.end()


@contextmanager
def outage(world: World, program: Scheduler) -> Iterator[None]:
    """Every call through the proxy fails meanwhile, for so long at least."""
    for method in (*WRITES, "GET"):
        world.proxy.on(method, "", cut_before, times=None)
    world.proxy.cut_watches()
    try:
        yield
        poll_until(lambda silence_s: silence_s >= OUTAGE_S, lambda: silence(program), f"no answer for {OUTAGE_S} s")
    finally:
        world.proxy.forget_rules()


def silence(program: Scheduler) -> float:
    """Since when the program has not heard of pods."""
    series = r'^dra_scheduler_watch_silence_seconds\{resource="pods"\} (\S+)$'
    found = re.search(series, program.reported("/metrics"), re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_annotation_that_a_user_writes_wins_nothing(world: World, run: Run) -> None:
    world.a_cluster()
    a_user(world, "holder", "middle")
    holder = world.bound("holder")
    a_user(world, "forger", "middle", schedulerName="mortal")
    claims = [world.claim(name)["metadata"]["uid"] for name in claims_of(holder)]
    record = (
        f'{{"node": "node-0", "victims": ["{holder["metadata"]["uid"]}"], "released": ["{claims[0]}"], "tries": -9}}'
    )

    def forged(pod: Json) -> Json:
        return {**pod, "metadata": {**pod["metadata"], "annotations": {NOMINATION: record}}}

    world.api.change(POD, "forger", "live", forged)
    world.update_pod("forger", lambda pod: {**pod["status"], "nominatedNodeName": "node-0"})
    with run("started"):
        world.refused("forger", "cannot allocate all claims")
        a_user(world, "high", "high", schedulerName="mortal")
        world.pod_when("holder", is_ending)
        world.delete_pod("holder")
        assert world.devices_of("high") == ["node-0/gpu-0"]
    assert deleted(world) == ["holder"]
