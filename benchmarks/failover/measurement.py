"""One failover: two replicas with default durations, of which the leader ends while many pods wait.

While pods are created, the benchmark holds the Lease, so that both replicas stand by with filled caches. Then one
leads, and ends once as few pods wait as the case says. All pods have to be bound in the end.
"""

import asyncio
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import uvloop

from benchmarks.endtoend.loading import load
from benchmarks.endtoend.measurement import CONTROLLER_MANAGER, FLAGS, check_placed
from benchmarks.endtoend.watch import Stalled, first_seen, newest_version
from benchmarks.endtoend.workload import SCHEDULER, Json, Size
from scheduler.client.api_resources import LEASES
from scheduler.client.connection import Connection, connect
from tests.controlplane.binaries import Binaries
from tests.controlplane.ours import Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rights import grant

LEASE = "dra-scheduler"
LEASE_NAMESPACE = "kube-system"
BENCHMARK = "benchmark"

_BOUND = {"fieldSelector": "spec.nodeName!="}
_LEADS = re.compile(r"^leader_election_master_status\{.*\} 1(\.0)?$", re.MULTILINE)
_POLL_S = 0.02
_LOOKS = 3000
_PATH = LEASES.path(LEASE_NAMESPACE, LEASE)

Tell = Callable[[str], None]


class Ending(StrEnum):
    """How the leader ends."""

    KILL = "SIGKILL"
    TERM = "SIGTERM"


@dataclass(slots=True)
class Failover:
    """The case. waiting: pods without a node when the leader ends, at least one less than there are."""

    size: Size
    waiting: int
    ending: Ending


class Times(NamedTuple):
    """What came of it, in seconds. leads_s: from the leader's end. first_s, all_s: from then to the next bindings.

    bound_before: pods that the first leader has bound, by its end.
    """

    ending: str
    leads_s: float
    first_s: float
    all_s: float
    bound_before: int


def measure(binaries: Binaries, failover: Failover, tell: Tell) -> Times:
    """One failover on a control plane of its own. Raises StartError, CallFailed, Stalled or WrongState."""
    with (
        tempfile.TemporaryDirectory(prefix="dra-bench-") as folder,
        ControlPlane(binaries, Path(folder), controllers=["resourceclaim-controller"], flags=FLAGS) as plane,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        grant(plane.client())
        return runner.run(_measured(plane, failover, tell))


async def _measured(plane: ControlPlane, failover: Failover, tell: Tell) -> Times:
    async with connect(kubeconfig=plane.kubeconfig()) as connection:
        await load(connection, failover.size, [SCHEDULER])
        plane.stop(CONTROLLER_MANAGER)
        await _hold(connection)
        with ExitStack() as stack:
            replicas = [Scheduler(plane, [f"--scheduler-name={SCHEDULER}"], name=f"replica-{n}") for n in (1, 2)]
            for one in replicas:
                stack.callback(one.stop)
            for one in replicas:
                await asyncio.to_thread(one.await_readyz)
            tell("both stand by")
            times = await _fail_over(connection, failover, replicas, stack)
            await check_placed(connection)
            return times


async def _fail_over(
    connection: Connection, failover: Failover, replicas: Sequence[Scheduler], stack: ExitStack
) -> Times:
    version, size = await newest_version(connection), failover.size
    enough, every = (
        asyncio.create_task(first_seen(connection, version, _BOUND, number, lambda _: True))
        for number in (size.pods - failover.waiting, size.pods)
    )
    stack.callback(every.cancel)
    stack.callback(enough.cancel)
    lease = await _lease(connection)
    await connection.request("PUT", _PATH, body={**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
    await enough
    leader = next(one for one in replicas if _LEADS.search(one.reported("/metrics")))
    first = await _holder(connection)
    ended = monotonic()
    # In a thread: on SIGTERM it completes what it has begun.
    ending = asyncio.to_thread(leader.kill if failover.ending is Ending.KILL else leader.stop)
    ends = asyncio.create_task(ending)
    leads = await _next_leads(connection, first)
    await ends
    bound = await every
    after = [at for at in bound if at > leads]
    return Times(failover.ending, leads - ended, after[0] - leads, after[-1] - leads, sum(at < leads for at in bound))


async def _hold(connection: Connection) -> None:
    """Hold the Lease for an hour."""
    now = "2000-01-01T00:00:00.000000Z"
    spec = {"holderIdentity": BENCHMARK, "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    lease: Json = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": {"name": LEASE}, "spec": spec}
    await connection.request("POST", LEASES.path(LEASE_NAMESPACE), body=lease)


async def _next_leads(connection: Connection, before: str) -> float:
    """When another than the one before holds the Lease, of the monotonic clock."""
    for _ in range(_LOOKS):
        if await _holder(connection) not in ("", before):
            return monotonic()
        await asyncio.sleep(_POLL_S)
    raise Stalled(f"nobody leads after {before}")


async def _holder(connection: Connection) -> str:
    return str((await _lease(connection))["spec"].get("holderIdentity") or "")


async def _lease(connection: Connection) -> Json:
    return await connection.request("GET", _PATH)
