"""Whatever may go wrong on the way goes wrong now and then, with all calls: everything ends placed all the same."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.controlplane.faults import (
    Answer,
    Fault,
    Forward,
    Stream,
    Then,
    cut_before,
    error_event,
    lose_answer,
    refuse,
    send_twice,
)
from tests.controlplane.ours import Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.proxy import Proxy, Request
from tests.integration.live.crowd import GPU, a_pod, await_placed, empty, furnish, send, wrongs
from tests.integration.live.history import History

NODES, DEVICES, PODS = 10, 20, 200
SEED = 1
SHARE = 0.05

READS: list[Fault] = [
    refuse(429, "TooManyRequests", retry_after_s=0),
    refuse(500, "InternalError"),
    refuse(503, "ServiceUnavailable"),
    cut_before,
    lose_answer,
]
WRITES: list[Fault] = [*READS, refuse(409, "Conflict"), send_twice(409, "Conflict"), send_twice(500, "InternalError")]


@dataclass
class Trouble:
    """Goes wrong for a share of all requests, in one way or another; the same ways each time for one seed."""

    chance: random.Random
    faults: list[Fault]
    met: list[str] = field(default_factory=list)

    def strikes(self, request: Request) -> bool:
        is_struck = self.chance.random() < SHARE
        if is_struck:
            self.met.append(str(request))
        return is_struck

    async def __call__(self, forward: Forward) -> Answer:
        return await self.chance.choice(self.faults)(forward)


def broken_watch(chance: random.Random) -> Fault:
    """A watch that ends after some events, by itself, with a reset, or with the word that it cannot go on."""

    async def act(forward: Forward) -> Answer:
        last = chance.choice([b"", error_event(410, "Expired"), error_event(500, "InternalError")])
        return await Stream(chance.randrange(50), chance.choice([Then.END, Then.RESET]), last)(forward)

    return act


def test_pods_are_placed_through_a_connection_on_which_every_twentieth_call_fails(
    plane: ControlPlane, proxy: Proxy, program: Scheduler
) -> None:
    api = plane.client()
    furnish(api, NODES, DEVICES)
    troubles = spoil(proxy, random.Random(SEED))  # noqa: S311 - no secret
    with History(api) as history:
        proxy.cut_watches()
        send(plane, [a_pod(f"pod-{number}", GPU) for number in range(PODS)])
        await_placed(api, PODS)
        assert wrongs(api) == []
    assert history.wrongs() == []
    # A sixth of what is to be expected: even half of it may be missed once in a thousand runs.
    assert len([call for trouble in troubles.values() for call in trouble.met]) > PODS * 3 * SHARE / 6
    assert program.is_running
    proxy.forget_rules()
    empty(plane)


def spoil(proxy: Proxy, chance: random.Random) -> Mapping[str, Trouble]:
    """Let calls of all kinds go wrong; of watches, each one in the end."""
    proxy.on("GET", "", broken_watch(chance), where=lambda request: request.is_watch, times=None)
    faults = {"GET": READS, "PUT": WRITES, "POST": WRITES, "PATCH": WRITES}
    troubles = {method: Trouble(chance, ways) for method, ways in faults.items()}
    for method, trouble in troubles.items():
        proxy.on(method, "", trouble, where=not_a_watch(trouble.strikes), times=None)
    return troubles


def not_a_watch(strikes: Callable[[Request], bool]) -> Callable[[Request], bool]:
    return lambda request: not request.is_watch and strikes(request)
