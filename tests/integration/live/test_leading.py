"""Several replicas: one leads, another goes on where it ends, dies, is cut off or held up, and who led is silent.

Where a test is about the lease being given up or taken away, it lasts for so long that nothing else could let go of it.
"""

import os
import re
import signal

from scheduler.attempt.claim_objects import intent_of
from tests.controlplane.faults import Hold, cut_before
from tests.controlplane.ours import Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import ApiError
from tests.integration.live.replicas import LEASE, LONG, Start, await_leading, ended, is_leading, lease
from tests.integration.live.world import NAMESPACE, World, users_of

STATUS = r"/resourceclaims/claim/status$"
OURS_IN = f"/namespaces/{NAMESPACE}/"


def a_cluster(plane: ControlPlane, proxy: Proxy, program: Scheduler, *claims: str) -> World:
    world = World(plane, proxy, program)
    world.a_cluster(devices=2)
    for name in claims:
        world.a_claim(name)
    return world


def test_one_leads_and_the_other_is_ready_and_decides_and_writes_nothing(
    plane: ControlPlane, proxy: Proxy, start: Start
) -> None:
    leader = start("leader")
    await_leading(leader)
    standby = start("standby", is_proxied=True)
    world = a_cluster(plane, proxy, leader, "claim")
    world.a_pod("pod", "claim")
    world.bound("pod")
    assert not is_leading(standby)
    assert standby.reported("/readyz") == "ok"
    reported = standby.reported("/readyz?verbose")
    assert f"stands by: lease kube-system/dra-scheduler is held by {lease(plane)['holderIdentity']}" in reported
    assert World(plane, proxy, standby).metric("scheduler_scheduling_algorithm_duration_seconds_count") == 0
    assert proxy.writes() == []


def test_pod_that_a_killed_leader_was_about_to_bind_is_bound_by_the_other(
    plane: ControlPlane, proxy: Proxy, start: Start
) -> None:
    victim = start("victim", is_proxied=True)
    await_leading(victim)
    survivor = start("survivor")
    world = a_cluster(plane, proxy, survivor, "claim")
    rule = proxy.on("PUT", STATUS, Hold(), times=None)
    world.a_pod("pod", "claim")
    rule.met.wait()
    begun = intent_of(world.claim())
    victim.kill()
    world.bound("pod")
    after = intent_of(world.claim())
    assert begun is not None
    assert after is not None
    assert after.epoch > begun.epoch
    assert users_of(world.claim()) == ["pod"]
    assert lease(plane)["leaseTransitions"] == 1


def test_leader_that_is_asked_to_end_lets_another_lead_at_once(plane: ControlPlane, proxy: Proxy, start: Start) -> None:
    first = start("first", LONG)
    await_leading(first)
    second = start("second", LONG)
    world = a_cluster(plane, proxy, second, "claim")
    first.stop()
    assert first.exit_code == 0
    world.a_pod("pod", "claim")
    world.bound("pod")
    assert is_leading(second)


def test_leader_that_cannot_renew_ends_and_takes_nothing_back(plane: ControlPlane, proxy: Proxy, start: Start) -> None:
    victim = start("victim", is_proxied=True)
    await_leading(victim)
    world = a_cluster(plane, proxy, victim, "claim")
    rule = proxy.on("PUT", STATUS, Hold(), times=None)
    world.a_pod("pod", "claim")
    rule.met.wait()
    proxy.on("PUT", "/leases/", cut_before, times=None)
    proxy.on("GET", "", cut_before, times=None)
    proxy.cut_watches()
    last = ended(victim)
    assert victim.exit_code == 1
    assert "not renewed within the renew deadline of 3 s (" in last["message"]
    assert "this process writes nothing any more" in last["message"]
    written = [str(write) for write in proxy.writes(OURS_IN)]
    assert re.search(STATUS, written[-1].partition(": ")[0])
    survivor = start("survivor")
    await_leading(survivor)
    world.bound("pod")


def test_leader_that_was_held_up_writes_nothing_when_it_goes_on(
    plane: ControlPlane, proxy: Proxy, start: Start
) -> None:
    """It is in the middle of one pod, and hears of another, when it wakes."""
    sleeper = start("sleeper", is_proxied=True)
    await_leading(sleeper)
    other = start("other")
    world = a_cluster(plane, proxy, other, "claim", "second")
    hold = Hold()
    rule = proxy.on("PUT", STATUS, hold, times=None)
    world.a_pod("pod", "claim")
    rule.met.wait()
    os.kill(sleeper.pid, signal.SIGSTOP)
    hold.release()
    world.a_pod("second", "second")
    for name in ("pod", "second"):
        world.bound(name)
    proxy.requests.clear()
    os.kill(sleeper.pid, signal.SIGCONT)
    last = ended(sleeper)
    assert sleeper.exit_code == 1
    assert "this process writes nothing any more" in last["message"]
    assert proxy.writes() == []
    assert [users_of(world.claim(name)) for name in ("claim", "second")] == [["pod"], ["second"]]


def test_leader_whose_lease_is_somebody_elses_ends(plane: ControlPlane, start: Start) -> None:
    leader = start("leader", LONG)
    await_leading(leader)

    def take() -> bool:
        held = plane.client().get(LEASE, "dra-scheduler", "kube-system")
        kind = {"apiVersion": LEASE.api_version, "kind": LEASE.kind}
        try:
            plane.client().replace({**kind, **held, "spec": {**held["spec"], "holderIdentity": "somebody"}})
        except ApiError:
            return False  # it was renewed meanwhile
        return True

    poll_until(bool, take, "the lease is somebody else's")
    assert "lost to somebody" in ended(leader)["message"]
    assert leader.exit_code == 1
    assert lease(plane)["holderIdentity"] == "somebody"
