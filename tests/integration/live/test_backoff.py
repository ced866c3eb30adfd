"""How long a refused pod is left alone, on a clock that the test moves: the program runs in the test's own process."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from scheduler.live.program import Scheduler
from scheduler.runtime import running
from scheduler.runtime.configuration import Configuration, load
from tests.controlplane.identities import OURS
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import Json
from tests.integration.live.world import World, a_request, settings_file, some_devices

NAME = "on-a-clock"
WAITS_S = [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@contextmanager
def scheduling(configuration: Configuration, clock: Clock) -> Iterator[Callable[[], Json]]:
    """A scheduler while the context is open; gives what it says of its only pod."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    made: list[Scheduler] = []

    async def work() -> None:
        async with running.connected(configuration) as site:
            made.append(Scheduler(configuration, site, clock))
            await made[0].run(stop)

    def of_pod() -> Json:
        return dict(next(iter(made[0].probes().queue()), {})) if made else {}

    thread = Thread(target=loop.run_until_complete, args=(work(),), name="scheduler on a clock")
    thread.start()
    try:
        yield of_pod
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_refused_pod_is_tried_again_after_one_two_four_eight_ten_and_ten_seconds(world: World, tmp_path: Path) -> None:
    """Whatever comes that may help it: each time devices, of nodes that are not there."""
    world.a_cluster()
    world.a_claim("claim", a_request(count=2))
    world.a_pod("pod", "claim", schedulerName=NAME)
    backoff = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 10}
    file = settings_file(tmp_path, schedulerName=NAME, **backoff)
    reached = {"clientConnection": {"kubeconfig": str(world.plane.kubeconfig(OURS))}}
    clock, waits_s = Clock(), []
    with scheduling(load(Configuration, file, reached), clock) as of_pod:
        for attempts in range(1, len(WAITS_S) + 1):
            await_pod(of_pod, queue="unschedulable", attempts=attempts)
            world.a_slice(f"elsewhere-{attempts}", *some_devices(2))
            waiting = await_pod(of_pod, queue="backoff", attempts=attempts)
            assert waiting["since"] == clock.now_s
            waits_s.append(waiting["ready"] - waiting["since"])
            clock.now_s = waiting["ready"]
            world.a_pod(f"other-{attempts}", schedulerName="another")  # helps nobody, but the loop looks at the clock
        await_pod(of_pod, queue="unschedulable", attempts=len(WAITS_S) + 1)
    assert waits_s == WAITS_S


def await_pod(of_pod: Callable[[], Json], **fields: object) -> Json:
    def holds(pod: Json) -> bool:
        return fields.items() <= pod.items()

    return poll_until(holds, of_pod, f"the pod with {fields}")
