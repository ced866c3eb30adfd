"""One case: a control plane is filled, the extender started, and then called round after round while claims change.

Nobody else is at work: the controller manager is ended, and there is no kube-scheduler.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from time import monotonic

import orjson

from benchmarks.endtoend.contenders.extender import certificates_in, start_extender
from benchmarks.endtoend.loading import create, for_each, load_fleet
from benchmarks.endtoend.measurement import CONTROLLER_MANAGER, FLAGS
from benchmarks.endtoend.usage import usage_of
from benchmarks.endtoend.workload import NAMESPACE, Json
from benchmarks.extender.alone import CHANGES_A_CALL, Alone
from benchmarks.extender.cases import CASES, SHAPES, Case, asked_claims, change, changed_claims, held_claims
from benchmarks.extender.client import CallOrder
from benchmarks.extender.figures import Called, Round
from scheduler.client.api_resources import claims
from scheduler.client.connection import Connection, connect
from tests.controlplane.binaries import Binaries
from tests.controlplane.ours import Extender
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.rights import grant

RATE = 50.0
"""Calls a second."""

_WRITERS = 8
_CLAIMS = claims("v1")

Tell = Callable[[str], None]


class ClientFailed(Exception):
    """The client has ended without an answer; the message is its own."""


def measure(binaries: Binaries, name: str, rounds: int, calls: int, tell: Tell) -> Iterator[Round]:
    """The rounds of a case. tell: is given a word on how far it is. Raises StartError, CallFailed or ClientFailed."""
    case, alone, changes = CASES[name], Alone(CASES[name]), count()
    with (
        tempfile.TemporaryDirectory(prefix="dra-bench-") as folder,
        ControlPlane(binaries, Path(folder), controllers=["resourceclaim-controller"], flags=FLAGS) as plane,
        ExitStack() as stack,
    ):
        plane.stop(CONTROLLER_MANAGER)
        grant(plane.client())
        asyncio.run(_fill(plane, case))
        tell(f"{case.name}: the control plane is filled")
        extender, order = _started(plane, name, calls)
        stack.callback(extender.stop)
        first_s = asyncio.run(_found(replace(order, rate=0.0, calls=len(SHAPES))))
        for number in range(rounds):
            fleet_s, decision_s = alone.fleet_s(calls), alone.filter_s(calls)
            called = asyncio.run(_called(plane, extender, order, changes))
            tell(f"{case.name}: round {number + 1} of {rounds}")
            yield Round(case.name, first_s, called, decision_s, fleet_s)


def _started(plane: ControlPlane, name: str, calls: int) -> tuple[Extender, CallOrder]:
    """An extender that is ready, and what its client is to do."""
    certificates = certificates_in(plane.folder / "certificates")
    (port,) = free_ports(1)
    extender = start_extender(plane, certificates, port)
    client, authority = certificates.client, str(certificates.server_ca)
    url = f"https://127.0.0.1:{port}/v1/filter"
    return extender, CallOrder(name, url, authority, str(client.certificate), str(client.key), RATE, calls)


async def _fill(plane: ControlPlane, case: Case) -> None:
    """Create everything that the extender watches."""
    async with connect(kubeconfig=plane.kubeconfig()) as connection:

        async def store(claim: Json) -> None:
            await create(connection, _CLAIMS.path(NAMESPACE), claim)
            if "status" in claim:
                await _write_status(connection, claim)

        await load_fleet(connection, case.size)
        for some in (held_claims(case), asked_claims(), changed_claims()):
            await for_each(some, store)


async def _write_status(connection: Connection, claim: Json) -> None:
    """Whatever its version is by now."""
    path = f"{_CLAIMS.path(NAMESPACE, claim['metadata']['name'])}/status"
    await connection.request("PUT", path, body=claim)


async def _called(plane: ControlPlane, extender: Extender, order: CallOrder, changes: Iterator[int]) -> Called:
    """What comes of the order, while claims change. changes: their numbers, the next one first."""
    async with connect(kubeconfig=plane.kubeconfig()) as connection:
        began, before, stop = monotonic(), usage_of(extender.pid), asyncio.Event()
        changing = asyncio.create_task(_change(connection, CASES[order.case], changes, stop))
        try:
            calls_s = await _found(order)
        finally:
            stop.set()
            changed = await changing
    used = usage_of(extender.pid)
    changes_rate = changed / (monotonic() - began)
    return Called(calls_s, (used.cpu_s - before.cpu_s) / order.calls, used.peak_mib, changes_rate)


async def _change(connection: Connection, case: Case, numbers: Iterator[int], stop: asyncio.Event) -> int:
    """Change claims at a steady rate until told to stop; how many."""
    began, turns = monotonic(), enumerate(numbers)

    async def work() -> int:
        done = 0
        for turn, number in turns:  # all workers take from the same iterator
            await asyncio.sleep(began + turn / (CHANGES_A_CALL * RATE) - monotonic())
            await _write_status(connection, change(case, number))
            done += 1
            if stop.is_set():  # what was taken is written: a claim's changes come one after the other
                break
        return done

    return sum(await asyncio.gather(*(work() for _ in range(_WRITERS))))


async def _found(order: CallOrder) -> Sequence[float]:
    """How long the calls took, in seconds, by a client in a process of its own. Raises ClientFailed."""
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "benchmarks.extender.client"]
    client = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    answer, complaint = await client.communicate(orjson.dumps(asdict(order)))
    if client.returncode:
        raise ClientFailed(complaint.decode())
    times_s: Sequence[float] = orjson.loads(answer)
    return times_s
