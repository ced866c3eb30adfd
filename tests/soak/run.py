"""`make soak`: a hostile tenant beside well-behaved ones on a real control plane, placed by two of our scheduler.

One of the schedulers is killed every half minute. A checker follows every revision of pods and claims; what it has to
find is nothing. Prints a line every ten seconds, then figures and a verdict, and writes results.json. The exit code is
0 where all rules hold, 1 where one is broken, 2 where the soak itself could not be carried out. Ctrl-C ends it early.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import click

from tests.controlplane import binaries
from tests.controlplane.binaries import Binaries, BuildError, Unavailable
from tests.controlplane.contents import restore
from tests.controlplane.identities import ADMIN, TENANT
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import StartError
from tests.controlplane.rest import SLICE, ApiError
from tests.soak.acts import ACTS, crowd
from tests.soak.checker import Checker
from tests.soak.client import Client
from tests.soak.furnish import GOOD, furnish
from tests.soak.good import Good
from tests.soak.history import History
from tests.soak.hostile import Hostile
from tests.soak.inventory import inventory_of
from tests.soak.plan import Plan
from tests.soak.processes import NAMES, Processes
from tests.soak.report import Report, Run
from tests.soak.webhook import Webhook

# The control plane is not what is tried, and shares its processors with what is: it collects garbage less often.
SPARING = {"GOGC": "400"}
_TOLD_EVERY_S = 10.0
_LOOKED_AT_EVERY_S = 0.2
_USUAL = Plan()


@click.command()
@click.option("--minutes", default=_USUAL.minutes, show_default=True, help="How long objects come.")
@click.option("--nodes", default=_USUAL.nodes, show_default=True)
@click.option("--good-rate", default=_USUAL.good_rate, show_default=True, help="Well-behaved pods a second.")
@click.option(
    "--hostile-rate", default=_USUAL.hostile_rate, show_default=True, help="Hostile objects a second; 0: none."
)
@click.option(
    "--crowd", default=_USUAL.crowd, show_default=True, help="Namespaces with one pod each whose decision takes long."
)
@click.option(
    "--kill-every",
    "kill_every_s",
    default=_USUAL.kill_every_s,
    show_default=True,
    help="In seconds; 0: nobody is killed.",
)
@click.option("--replicas", type=click.IntRange(1, 2), default=_USUAL.replicas, show_default=True, help="Of ours.")
@click.option(
    "--leader-elect/--all-write",
    default=_USUAL.leader_elect,
    show_default=True,
    help="One of ours leads, as it is installed; or all of them write, and meet at every pod.",
)
@click.option(
    "--bound-within",
    "bound_within_s",
    default=_USUAL.bound_within_s,
    show_default=True,
    help="How long 99 of 100 good pods may wait, in seconds; more on a machine that is too small for the rates.",
)
@click.option("--seed", default=_USUAL.seed, show_default=True)
@click.option(
    "--without", type=click.Choice([act.__name__ for act in ACTS]), multiple=True, help="An act that is left out."
)
@click.option("--output", type=click.Path(path_type=Path), default=Path(".cache/soak"), show_default=True)
def main(output: Path, without: Sequence[str], **sizes: Any) -> None:  # Any: as click has read them
    """Let a hostile tenant loose beside well-behaved ones, and see whether these are served all the same."""
    plan = Plan(**sizes)

    def carry_out(programs: Binaries, folder: Path) -> tuple[Report, ControlPlane]:
        with ControlPlane(programs, folder / "plane", environment=SPARING) as plane:
            return asyncio.run(soak(plane, plan, without, click.echo)), plane

    carried_out(carry_out, output, NAMES)


def carried_out(
    carry_out: Callable[[Binaries, Path], tuple[Report, ControlPlane]], output: Path, names: Sequence[str]
) -> NoReturn:
    """Print and write what becomes of it, and end with its verdict. names: of the processes whose logs are kept."""
    try:
        programs = binaries.find(os.environ, click.echo)
        with tempfile.TemporaryDirectory(prefix="dra-soak-") as folder:
            found, plane = carry_out(programs, Path(folder))
            _keep_logs(plane.folder / "logs", output / "logs", names)
    except (Unavailable, BuildError, StartError, ApiError, ConnectionError) as error:
        click.echo(f"soak: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        click.echo("\nstopped")
        sys.exit(130)
    found.write(output / "results.json")
    click.echo(f"{found.text()}\nwritten: {output / 'results.json'}")
    sys.exit(0 if found.holds else 1)


def _keep_logs(logs: Path, folder: Path, names: Sequence[str]) -> None:
    """What our processes told is all that is left of those that have ended."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in names:
        for log in logs.glob(f"{name}-*.log"):
            shutil.copy(log, folder)


async def soak(plane: ControlPlane, plan: Plan, without: Sequence[str], tell: Callable[[str], None]) -> Report:
    """Carry it out. tell: is given the lines."""
    async with AsyncExitStack() as stack:
        webhook = await stack.enter_async_context(Webhook(plane.folder))
        await asyncio.to_thread(furnish, plane, plan.nodes, webhook.address, webhook.authority)
        await asyncio.to_thread(restore, plane.client(), list(crowd(plan.crowd)))
        inventory = inventory_of(await asyncio.to_thread(plane.client().list, SLICE))
        admin = await stack.enter_async_context(Client(plane, ADMIN))
        tenant = await stack.enter_async_context(Client(plane, TENANT))
        checker = Checker(inventory, GOOD.__contains__)
        good, hostile, processes = Good(admin, plan), Hostile(tenant, plan, without), Processes(plane, plan)
        for ends in (processes, good, hostile):
            stack.push_async_callback(ends.stop)
        await processes.start()
        history = History(admin, checker.feed, good.see)
        await history.begin()
        following = asyncio.create_task(history.follow())
        tell(f"{plan.nodes} nodes, {len(inventory.devices)} devices, {plan.replicas} schedulers; seed {plan.seed}")
        others = {**plane.pids(), "soak": os.getpid()}
        run = Run(plan, checker, good, hostile, processes, others, monotonic())
        telling = every(_TOLD_EVERY_S, lambda: tell(run.progress(monotonic())))
        background = [telling, processes.keep(), processes.kill_in_turn()]
        await loaded(plan, [good.come, hostile.act], lambda: good.pending, following, background)
        end = monotonic()
        await history.end()
        await following
        return run.report(end, await processes.decision_ms())


async def loaded(
    plan: Plan,
    loads: Sequence[Callable[[float], Coroutine[None, None, None]]],
    pending: Callable[[], int],
    following: "asyncio.Task[None]",
    background: Sequence[Coroutine[None, None, None]],
) -> None:
    """Return when the load is over and no pods are pending, or for as long as it takes; or on Ctrl-C."""
    until = monotonic() + plan.load_s
    loading = [asyncio.create_task(one) for one in (load(until) for load in loads)]
    tasks = [asyncio.create_task(one) for one in background]
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        while not (all(task.done() for task in loading) or stopped.is_set()):
            _raise_from(following, *loading, *tasks)
            await asyncio.sleep(_LOOKED_AT_EVERY_S)
        drained = monotonic() + plan.drain_s
        while pending() and monotonic() < drained and not stopped.is_set():
            _raise_from(following, *tasks)
            await asyncio.sleep(_LOOKED_AT_EVERY_S)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        for task in (*loading, *tasks):
            task.cancel()
        await asyncio.gather(*loading, *tasks, return_exceptions=True)


def _raise_from(*tasks: "asyncio.Task[None]") -> None:
    """What made a task fail."""
    for task in tasks:
        if task.done():
            task.result()


async def every(seconds: float, act: Callable[[], None]) -> None:
    """Do it every so often, until cancelled."""
    while True:
        await asyncio.sleep(seconds)
        act()


if __name__ == "__main__":
    main()
