"""One contender, once: a fresh control plane is filled, the contender started, and its bindings are watched.

The controller manager is ended when all claims are made, and the watch shows bound pods alone: while a contender runs,
nobody else asks the API server for anything.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import uvloop

from benchmarks.endtoend.contender import Contender, Running
from benchmarks.endtoend.correctness import check, check_places
from benchmarks.endtoend.figures import Run, decisions_in
from benchmarks.endtoend.loading import load as fill
from benchmarks.endtoend.usage import usage_of
from benchmarks.endtoend.watch import Stalled, first_seen, newest_version
from benchmarks.endtoend.workload import NAMESPACE, PLAIN, Asks, Json, Load
from scheduler.client.api_resources import EVENTS, PODS, claims
from scheduler.client.connection import Connection, connect
from tests.controlplane.binaries import Binaries
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import StartError
from tests.controlplane.rights import grant

CONTROLLER_MANAGER = "kube-controller-manager"
FLAGS: Mapping[str, Sequence[str]] = {
    # Fairness would hold back whoever is fastest.
    "kube-apiserver": ["--enable-priority-and-fairness=false"],
    CONTROLLER_MANAGER: ["--kube-api-qps=5000", "--kube-api-burst=5000"],
    "kube-scheduler": ["--authorization-always-allow-paths=/healthz,/metrics"],
}

_BOUND = {"fieldSelector": "spec.nodeName!="}
_LOOKED_AT_EVERY_S = 0.5
_LIST_S = 60.0
_ASKED_EVERY_S = 0.05
_QUIET_S = 2.0

Tell = Callable[[str], None]


def measure(binaries: Binaries, contender: Contender, load: Load, tell: Tell) -> Run:
    """A run. tell: is given a word on how far it is. Raises StartError, CallFailed, Stalled or Wrong."""
    with (
        tempfile.TemporaryDirectory(prefix="dra-bench-") as folder,
        ControlPlane(binaries, Path(folder), controllers=["resourceclaim-controller"], flags=FLAGS) as plane,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        grant(plane.client())
        return runner.run(_measured(plane, contender, load, tell))


async def _measured(plane: ControlPlane, contender: Contender, load: Load, tell: Tell) -> Run:
    async with connect(kubeconfig=plane.kubeconfig()) as connection:
        loading = monotonic()
        await fill(connection, load.size, contender.schedulers, load.asks)
        plane.stop(CONTROLLER_MANAGER)
        tell(f"loaded in {monotonic() - loading:.0f} s")
        with ExitStack() as stack:
            version = await newest_version(connection)
            begun: dict[str, float] = {}
            bindings = asyncio.create_task(
                first_seen(connection, version, _BOUND, load.size.pods, lambda pod: _noted(pod, begun))
            )
            stack.callback(bindings.cancel)
            started = monotonic()
            # In a thread, since starting may wait, and the first bindings may come meanwhile.
            running = await asyncio.to_thread(contender.start, plane)
            for process in running.processes:
                stack.callback(process.stop)
            times = await _while_running(bindings, running)
            run = await _run(connection, contender, load, running, [at - started for at in times])
            await check_placed(connection, load.asks)
            return run._replace(begun_s=max(begun.values()) - started) if len(begun) > 1 else run


def _noted(pod: Json, begun: dict[str, float]) -> bool:
    """True: any pod that is bound is waited for. begun: gets when each scheduler was first seen to have bound one."""
    begun.setdefault(pod["spec"]["schedulerName"], monotonic())
    return True


async def _while_running(bindings: "asyncio.Task[Sequence[float]]", running: Running) -> Sequence[float]:
    """The times of all bindings; an end of the program before the last is an error."""
    while not bindings.done():
        for process in running.processes:
            if not process.is_running:
                raise StartError(f"{process.name} ended before all pods were bound; {process.tail()}")
        await asyncio.wait([bindings], timeout=_LOOKED_AT_EVERY_S)
    try:
        return await bindings
    except Stalled as error:
        tails = "\n".join(process.tail() for process in running.processes)
        raise Stalled(f"{error}; {tails}") from error


async def _run(
    connection: Connection, contender: Contender, load: Load, running: Running, bound_s: Sequence[float]
) -> Run:
    reported, late_s = await _events_stored(connection, load.size.pods)
    usages = [usage_of(process.pid) for process in running.processes]
    peak_mib, cpu_s = sum(usage.peak_mib for usage in usages), sum(usage.cpu_s for usage in usages)
    decisions = decisions_in(running.metrics())
    stored = reported, bound_s[-1] + late_s
    return Run(contender.column, load.size, load.asks.name, bound_s, *stored, peak_mib, cpu_s, decisions)


async def _events_stored(connection: Connection, pods: int) -> tuple[int, float]:
    """How many events there are when all pods have one, or no more come; and after how long there were so many."""
    called = since = monotonic()
    number = 0
    while number < pods and monotonic() - since < _QUIET_S:
        page = await connection.request("GET", EVENTS.path(NAMESPACE), query={"limit": "1"})
        if _number_of(page) > number:
            number, since = _number_of(page), monotonic()
        await asyncio.sleep(_ASKED_EVERY_S)
    return number, since - called


def _number_of(first_page: Json) -> int:
    """How many objects there are, told by the first page of them."""
    return len(first_page["items"]) + int(first_page["metadata"].get("remainingItemCount") or 0)


async def check_placed(connection: Connection, asks: Asks = PLAIN) -> None:
    """Raises WrongState unless every pod is bound with a device of its own, and where it asked to be."""
    pods, held = [
        await connection.request("GET", resource.path(NAMESPACE), timeout_s=_LIST_S)
        for resource in (PODS, claims("v1"))
    ]
    check(pods["items"], held["items"])
    check_places(asks, pods["items"])
