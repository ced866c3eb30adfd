"""What the guard adds to an allocation: claims are allocated in pairs, of which the API server asks it about one.

The webhook selects one of two namespaces, so that both of a pair meet the same API server within ten milliseconds. The
guard watches all of them. Nobody else is at work: the controller manager is ended, and there is no scheduler.
"""

import asyncio
import gc
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeVar

import uvloop

from benchmarks.endtoend.contender import metrics_of
from benchmarks.endtoend.contenders.guarded import start_guard
from benchmarks.endtoend.loading import create, for_each, load_fleet
from benchmarks.endtoend.measurement import CONTROLLER_MANAGER, FLAGS
from benchmarks.endtoend.usage import usage_of
from benchmarks.endtoend.workload import CLASS, DEVICES_OF_NODE, DRIVER, REQUEST, Json, Size, Taken, place
from scheduler.client.api_resources import claims
from scheduler.client.connection import Connection, connect
from scheduler.state.claims import FINALIZER
from tests.controlplane.binaries import Binaries
from tests.controlplane.contents import ensure_namespace
from tests.controlplane.guarded import WEBHOOK, WEBHOOKS
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import RestClient
from tests.controlplane.rights import grant

RATE = 50.0
"""Allocations a second that the guard is asked about, and as many of which it is not."""

GUARDED, FREE = "guarded", "free"
"""The namespaces of claims that the guard is asked about, and of those that it is not."""

FIRST_S = 0.5
"""Before the first call of a round."""

_CLAIMS = claims("v1")
_ALLOWED = re.compile(r'^dra_guard_answers_total\{answer="allowed"\} (\S+)$', re.MULTILINE)
_CALLS = 64

Tell = Callable[[str], None]
T = TypeVar("T")


class NotAsked(Exception):
    """The guard was not asked about just the claims that it had to be asked about."""


@dataclass(frozen=True, slots=True)
class PairedRound:
    """How long each allocation took, in seconds, pair by pair. cpu_s: of the guard for a pair."""

    guarded_s: Sequence[float]
    free_s: Sequence[float]
    cpu_s: float


@dataclass(slots=True)
class StoredClaim:
    """A claim as it is stored by now."""

    object: Json

    async def write(self, connection: Connection, status: Json) -> None:
        """Replace its status. Raises CallFailed, also where the guard refuses."""
        metadata = self.object["metadata"]
        path = f"{_CLAIMS.path(metadata['namespace'], metadata['name'])}/status"
        self.object = await connection.request("PUT", path, body={**self.object, "status": status})


def measure(binaries: Binaries, nodes: int, pairs: int, rounds: int, tell: Tell) -> Iterator[PairedRound]:
    """The rounds. Raises StartError, CallFailed or NotAsked.

    pairs: in a round, for which the nodes need to have twice as many devices.
    """
    with (
        tempfile.TemporaryDirectory(prefix="dra-bench-") as folder,
        ControlPlane(binaries, Path(folder), flags=FLAGS) as plane,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ExitStack() as stack,
    ):
        plane.stop(CONTROLLER_MANAGER)
        grant(plane.client())
        stored = runner.run(_fill(plane, nodes, pairs))
        guard, port = start_guard(plane)
        stack.callback(guard.stop)
        _ask_about_one_namespace(plane.client())
        tell("the control plane is filled, and the guard leads")
        for number in range(rounds):
            before, cpu_before = _allowed(port), usage_of(guard.pid).cpu_s
            guarded_s, free_s = runner.run(_allocated(plane, stored, nodes, number))
            cpu_s = (usage_of(guard.pid).cpu_s - cpu_before) / pairs
            if (asked := _allowed(port) - before) != pairs:
                raise NotAsked(f"the guard has allowed {asked:g} allocations, not {pairs}")
            tell(f"round {number + 1} of {rounds}")
            yield PairedRound(guarded_s, free_s, cpu_s)


def _allowed(port: int) -> float:
    found = _ALLOWED.search(metrics_of(port))
    assert found, "the guard exposes its answers from the start"
    return float(found[1])


def _ask_about_one_namespace(api: RestClient) -> None:
    found = api.get(WEBHOOKS, WEBHOOK)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": GUARDED}}
    webhooks = [{**one, "namespaceSelector": selector} for one in found["webhooks"]]
    api.replace({**found, "apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, "webhooks": webhooks})


async def _fill(plane: ControlPlane, nodes: int, pairs: int) -> Sequence[tuple[StoredClaim, StoredClaim]]:
    """Create everything; the claims pair by pair."""
    for namespace in (GUARDED, FREE):
        await asyncio.to_thread(ensure_namespace, plane.client(), namespace)
    async with connect(kubeconfig=plane.kubeconfig()) as connection:
        await load_fleet(connection, Size(nodes, 2 * pairs))
        await for_each(
            (claim(namespace, number) for number in range(pairs) for namespace in (GUARDED, FREE)),
            lambda one: create(connection, _CLAIMS.path(one["metadata"]["namespace"]), one),
        )
        guarded, free = [await connection.request("GET", _CLAIMS.path(one)) for one in (GUARDED, FREE)]
    kind = {"apiVersion": _CLAIMS.api_version, "kind": _CLAIMS.kind}
    return [
        (StoredClaim({**kind, **one}), StoredClaim({**kind, **other}))
        for one, other in zip(guarded["items"], free["items"], strict=True)
    ]


async def _allocated(
    plane: ControlPlane, pairs: Sequence[tuple[StoredClaim, StoredClaim]], nodes: int, number: int
) -> tuple[Sequence[float], Sequence[float]]:
    """Allocate all claims at a steady rate, however long each takes, and release them; how long the former took."""
    gc.freeze()
    async with connect(kubeconfig=plane.kubeconfig(), calls=_CALLS) as connection:

        async def allocate(one: StoredClaim, turn: int) -> float:
            planned = began + turn / (2 * RATE)
            await asyncio.sleep(planned - monotonic())
            await one.write(connection, status(device(number, turn, nodes, 2 * len(pairs))))
            return monotonic() - planned

        began = monotonic() + FIRST_S
        every = [one for pair in pairs for one in turned(pair, number)]
        times_s = await asyncio.gather(*(allocate(one, turn) for turn, one in enumerate(every)))
        await for_each(every, lambda one: one.write(connection, {}))
    by_turns = times_s[0::2], times_s[1::2]
    guarded_s, free_s = turned(by_turns, number)
    return guarded_s, free_s


def turned(pair: tuple[T, T], number: int) -> tuple[T, T]:
    """The pair, in every other round the other way round: neither always comes second."""
    return pair if number % 2 == 0 else (pair[1], pair[0])


def device(number: int, turn: int, nodes: int, turns: int) -> Taken:
    """The device for a turn of a round: in each round others, as far as there are."""
    return place((number * turns + turn) % (nodes * DEVICES_OF_NODE), nodes)


def claim(namespace: str, number: int) -> Json:
    """A claim for one device, as it is before it is allocated."""
    metadata = {"namespace": namespace, "name": f"claim-{number:05d}", "finalizers": [FINALIZER]}
    spec = {"devices": {"requests": [{"name": REQUEST, "exactly": {"deviceClassName": CLASS}}]}}
    return {"apiVersion": _CLAIMS.api_version, "kind": _CLAIMS.kind, "metadata": metadata, "spec": spec}


def status(taken: Taken) -> Json:
    """Allocated, and in use by something of which no controller knows whether it still is."""
    result = {"request": REQUEST, "driver": DRIVER, "pool": taken.node, "device": taken.device}
    user = {"apiGroup": "example.com", "resource": "users", "name": "user", "uid": "user"}
    return {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
