"""The time of day of the guard may be wrong and jump: neither what it allows nor how long it holds depends on it."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.controlplane.door import Door
from tests.controlplane.ours import Guard
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import Json, RestClient
from tests.controlplane.within import launcher, move_clock
from tests.integration.guard.scene import (
    PATIENT,
    a_claim,
    a_result,
    await_answers,
    give,
    publish,
    refusal,
    serve,
)

YEAR_S = 365 * 86_400.0
HELD = "device gpu.example.com/pool/a is held by claim guarded/one"
WITHIN_S = 60.0


@pytest.fixture
def offset_s(request: pytest.FixtureRequest) -> float:
    """By how much the guard's time of day is off when it starts."""
    found: float = getattr(request, "param", 0.0)
    return found


@pytest.fixture
def guard(plane: ControlPlane, way: Door, tmp_path: Path, offset_s: float) -> Iterator[Guard]:
    """A guard whose clock is in `tmp_path`."""
    config = tmp_path / "guard.yaml"
    config.write_text(PATIENT)
    move_clock(tmp_path, offset_s)
    running = serve(plane, way, free_ports(1)[0], f"--config={config}", launcher=launcher(tmp_path))
    try:
        await_answers(plane)
        yield running
    finally:
        running.stop()


@pytest.mark.parametrize("offset_s", [YEAR_S, -YEAR_S], ids=["a year ahead", "a year behind"], indirect=True)
@pytest.mark.usefixtures("guard")
def test_guard_whose_time_of_day_is_wrong_is_asked_and_answers(api: RestClient) -> None:
    publish(api, {"name": "a"})
    give(api, a_claim(api, "one"), a_result("a"))
    assert HELD in refusal(api, a_claim(api, "two"), a_result("a"))


def test_what_was_allowed_is_held_and_forgotten_by_a_clock_that_does_not_jump(
    plane: ControlPlane, api: RestClient, guard: Guard, way: Door, tmp_path: Path
) -> None:
    publish(api, {"name": "a"})
    one, two = a_claim(api, "one"), a_claim(api, "two")
    allow_and_lose(plane, way, one)
    for jump_s in (YEAR_S, 0.0, -YEAR_S):
        move_clock(tmp_path, jump_s)
        assert HELD in refusal(api, two, a_result("a"))
    assert guard.is_running
    poll_until(lambda said: not said, lambda: refusal(api, two, a_result("a")), "the device is free")
    assert "1 updates were allowed and never stored" in guard.log.read_text()


def allow_and_lose(plane: ControlPlane, way: Door, claim: Json) -> None:
    """The guard allows the device to the claim, and the API server gives up before it hears of that."""
    way.hold_answers()
    asking = Thread(target=lambda: refusal(plane.client(), claim, a_result("a"), is_dry=False))
    asking.start()
    assert way.was_held.wait(WITHIN_S)
    asking.join()
    way.let_answers_pass()
