"""Two of our scheduler, one of them killed now and then and started again at once, as a kubelet would.

They are killed in turn. In a run that goes on for longer than `plan.WARM_S` the first one is spared from half of that on,
so that there is a process whose memory can be compared with its own of long ago; the second one goes on to be killed, and
its memory is compared at equal ages.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic

from tests.controlplane.ours import Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import StartError
from tests.soak.plan import WARM_S, Plan

NAMES = ("first", "second")
_LOOKED_AT_EVERY_S = 0.2
_AGAIN_S = 1.0
_SAMPLED_EVERY_S = 5.0


@dataclass(slots=True)
class Gap:
    """From a kill until the new process was ready. until_s: of the monotonic clock; None while it lasts."""

    name: str
    from_s: float
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """at_s: since the beginning; age_s: of the process."""

    name: str
    at_s: float
    age_s: float
    resident_mib: float


@dataclass(frozen=True, slots=True)
class End:
    """A process that ended though nobody had ended it. text: how, and the end of its log."""

    name: str
    at_s: float
    text: str


class Processes:
    """The schedulers while they are kept. gaps: of kills alone."""

    def __init__(self, plane: ControlPlane, plan: Plan) -> None:
        self.gaps: list[Gap] = []
        self.samples: list[Sample] = []
        self.ends: list[End] = []
        self.starts = 0
        self._plane, self._plan = plane, plan
        self._running: dict[str, tuple[Scheduler, float]] = {}
        self._killed: dict[str, Gap] = {}
        self._began = monotonic()

    async def start(self) -> None:
        """Start both. Raises StartError."""
        await asyncio.gather(*(self._start(name) for name in NAMES))
        self._began = monotonic()

    async def keep(self) -> None:
        """Start again whatever ends, until cancelled."""
        await asyncio.gather(*(self._keep(name) for name in NAMES), self._sample())

    async def kill_in_turn(self) -> None:
        """Kill one of them every so often, until cancelled."""
        for name in victims(self._plan):
            await asyncio.sleep(self._plan.kill_every_s)
            if name in self._running and name not in self._killed:
                self._note_memory(name)
                gap = Gap(name, monotonic())
                self._killed[name] = gap
                self.gaps.append(gap)
                await asyncio.to_thread(self._running[name][0].kill)

    async def stop(self) -> None:
        """End both, and wait for them."""
        for name in self._running:
            self._note_memory(name)
        await asyncio.gather(*(asyncio.to_thread(program.stop) for program, _ in self._running.values()))

    def resident_mib(self) -> dict[str, float]:
        """How much memory each has now."""
        return {name: resident for name in self._running if (resident := self._resident_mib(name))}

    async def _start(self, name: str) -> None:
        self.starts += 1
        program = Scheduler(self._plane, name=name)
        self._running[name] = (program, monotonic())
        await asyncio.to_thread(program.await_readyz)

    async def _keep(self, name: str) -> None:
        while True:
            await asyncio.sleep(_LOOKED_AT_EVERY_S)
            program, _ = self._running[name]
            if program.is_running:
                continue
            gap = self._killed.get(name)
            if gap is None:
                self._note_end(name, program)
                await asyncio.sleep(_AGAIN_S)
            try:
                await self._start(name)
            except StartError:
                self._note_end(name, self._running[name][0])
                await asyncio.sleep(_AGAIN_S)
            if gap is not None:
                gap.until_s = monotonic()
                del self._killed[name]

    def _note_end(self, name: str, program: Scheduler) -> None:
        text = f"exit code {program.exit_code}; {program.tail()}"
        self.ends.append(End(name, monotonic() - self._began, text))

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(_SAMPLED_EVERY_S)
            for name in NAMES:
                self._note_memory(name)

    def _note_memory(self, name: str) -> None:
        if resident := self._resident_mib(name):
            now, (_, started) = monotonic(), self._running[name]
            self.samples.append(Sample(name, now - self._began, now - started, resident))

    def _resident_mib(self, name: str) -> float:
        """0 where it has just ended. Source: proc_pid_status(5), VmRSS."""
        try:
            status = (Path("/proc") / str(self._running[name][0].pid) / "status").read_text()
        except (OSError, ValueError):
            return 0.0
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0


def victims(plan: Plan) -> Iterator[str]:
    """Who is killed, one kill after the other."""
    spared_from_s = WARM_S / 2 if plan.load_s > WARM_S else plan.load_s
    for number in count(1) if plan.kill_every_s else ():
        is_in_turn = number * plan.kill_every_s < spared_from_s
        yield NAMES[number % 2] if is_in_turn else NAMES[1]
