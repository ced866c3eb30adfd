"""Whatever may go wrong on the way goes wrong now and then, drawn from a seed: the same ways each time."""

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
from tests.controlplane.proxy import Proxy, Request

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
    share: float
    met: list[str] = field(default_factory=list)

    def strikes(self, request: Request) -> bool:
        """Whether this request meets it."""
        is_struck = self.chance.random() < self.share
        if is_struck:
            self.met.append(str(request))
        return is_struck

    async def __call__(self, forward: Forward) -> Answer:
        """The fault."""
        return await self.chance.choice(self.faults)(forward)


def broken_watch(chance: random.Random) -> Fault:
    """A watch that ends after some events, by itself, with a reset, or with the word that it cannot go on."""

    async def act(forward: Forward) -> Answer:
        last = chance.choice([b"", error_event(410, "Expired"), error_event(500, "InternalError")])
        return await Stream(chance.randrange(50), chance.choice([Then.END, Then.RESET]), last)(forward)

    return act


def spoil(proxy: Proxy, chance: random.Random, share: float) -> Mapping[str, Trouble]:
    """Let this share of the calls of all kinds go wrong; of watches, each one in the end."""
    proxy.on("GET", "", broken_watch(chance), where=lambda request: request.is_watch, times=None)
    faults = {"GET": READS, "PUT": WRITES, "POST": WRITES, "PATCH": WRITES}
    troubles = {method: Trouble(chance, ways, share) for method, ways in faults.items()}
    for method, trouble in troubles.items():
        proxy.on(method, "", trouble, where=not_a_watch(trouble.strikes), times=None)
    return troubles


def not_a_watch(strikes: Callable[[Request], bool]) -> Callable[[Request], bool]:
    """Of the requests that are no watch, those that it strikes."""
    return lambda request: not request.is_watch and strikes(request)
