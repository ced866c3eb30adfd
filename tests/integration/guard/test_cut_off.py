"""The guard cut off from the API server in one direction: it never allows what it cannot know of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.door import Door
from tests.controlplane.faults import Hold
from tests.controlplane.identities import GUARD
from tests.controlplane.ours import Guard
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import poll_until
from tests.controlplane.process import StartError
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import CLAIM, ApiError, RestClient
from tests.integration.guard.scene import a_claim, a_result, await_answers, give, holders, publish, refusal, serve

SHORT = """\
apiVersion: dra-scheduler.dev/v1alpha1
kind: DraGuardConfiguration
leaderElection: {leaseDurationSeconds: 12, renewDeadlineSeconds: 10, retryPeriodSeconds: 0.5}
"""
METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")
HELD = "device gpu.example.com/pool/a is held by claim guarded/one"


@pytest.fixture
def guard(plane: ControlPlane, proxy: Proxy, way: Door, tmp_path: Path) -> Iterator[Guard]:
    """A guard whose own calls and watches go through the proxy, while the API server reaches it as ever."""
    config = tmp_path / "guard.yaml"
    config.write_text(SHORT)
    running = serve(plane, way, free_ports(1)[0], f"--config={config}", kubeconfig=proxy.kubeconfig(GUARD))
    try:
        await_answers(plane)
        yield running
    finally:
        running.stop()


def test_guard_that_is_asked_and_hears_nothing_gives_nothing_twice_and_ends(
    api: RestClient, guard: Guard, proxy: Proxy
) -> None:
    """Its calls and watches stay open without an answer, and the API server asks on."""
    publish(api, {"name": "a"}, {"name": "b"})
    one, two, three = (a_claim(api, name) for name in ("one", "two", "three"))
    assert refusal(api, one, a_result("b")) == ""  # it has seen the devices
    hold = Hold()
    for method in METHODS:
        proxy.on(method, "", hold, times=None)
    proxy.silence_watches()
    give(api, one, a_result("a"))  # which no watch shows it: it knows by itself
    assert HELD in refusal(api, two, a_result("a"))
    with pytest.raises(StartError):
        guard.await_ready(lambda: False)
    assert guard.exit_code == 1
    with pytest.raises(ApiError, match="failed calling webhook"):
        give(api, three, a_result("b"))
    hold.release()
    assert holders(api.list(CLAIM)) == {"pool/a": ["one"]}


def test_guard_that_is_not_reached_is_in_nobodys_way_once_it_is_again(api: RestClient, guard: Guard, way: Door) -> None:
    """It leads on and sees all, and nothing is allocated, since nobody can ask it."""
    publish(api, {"name": "a"})
    one, two = a_claim(api, "one"), a_claim(api, "two")
    assert refusal(api, one, a_result("a")) == ""
    way.close_to(is_closed=True)
    assert "failed calling webhook" in refusal(api, one, a_result("a"), is_dry=False)
    assert holders(api.list(CLAIM)) == {}
    way.close_to(is_closed=False)
    poll_until(lambda said: "failed calling" not in said, lambda: refusal(api, one, a_result("a")), "it is reached")
    give(api, one, a_result("a"))
    assert HELD in refusal(api, two, a_result("a"))
    assert guard.is_running
