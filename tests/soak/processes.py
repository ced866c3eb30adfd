"""Two of our scheduler, one of them killed now and then and started again at once, as a kubelet would.

They are killed in turn. In a run that is longer than `plan.WARM_S` the first one is spared from half of that on: so
there is a process whose memory can be compared with its own of long ago. The second one goes on to be killed, and its
memory is compared at equal ages.
"""

import asyncio
import http.client
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from time import monotonic
from types import MappingProxyType

from tests.controlplane.ours import Program, Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import Json
from tests.soak.plan import WARM_S, Plan
from tests.soak.usage import usage_of

NAMES = ("first", "second")
_LOOKED_AT_EVERY_S = 0.2
_AGAIN_S = 1.0
_SAMPLED_EVERY_S = 5.0
_ELECTION = {"leaseDurationSeconds": 8, "renewDeadlineSeconds": 7, "retryPeriodSeconds": 1}
"""Shorter than by default, so that most of a run with a kill every half minute has a leader. A renewal may still wait
for as long as processors that others use may make it."""

_LEADS = re.compile(r"^leader_election_master_status\{.*\} 1", re.MULTILINE)
_DECISION = "scheduler_scheduling_algorithm_duration_seconds"


@dataclass(slots=True)
class Gap:
    """From a kill until the new process was ready and one led, or it had ended; of the monotonic clock.

    until_s: None until then.
    """

    name: str
    from_s: float
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """at_s: since the beginning; age_s: of the process; cpu_s: what it has used of processors since it was started."""

    name: str
    at_s: float
    age_s: float
    resident_mib: float
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class End:
    """A process that ended though nobody had ended it. text: how, and the end of its log."""

    name: str
    at_s: float
    text: str


@dataclass(slots=True)
class _Life:
    """A process and when it was started."""

    program: Scheduler
    started_s: float
    is_killed: bool = False


class Processes:
    """The schedulers while they are kept. gaps: of kills alone. settings: further ones, of each by its name."""

    def __init__(self, plane: ControlPlane, plan: Plan, settings: Mapping[str, Json] = MappingProxyType({})) -> None:
        self.gaps: list[Gap] = []
        self.samples: list[Sample] = []
        self.ends: list[End] = []
        self.starts = 0
        self.names = NAMES[: plan.replicas]
        self._plane, self._plan = plane, plan
        self._options = {name: self._configured(name, settings.get(name, {})) for name in self.names}
        self._lives: dict[str, _Life] = {}
        self._began = monotonic()

    def _configured(self, name: str, settings: Json) -> list[str]:
        path = self._plane.folder / f"{name}.json"
        kind = {"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "DraSchedulerConfiguration"}
        election = _ELECTION if self._plan.leader_elect else {"leaderElect": False}
        path.write_text(json.dumps({**kind, "leaderElection": election, **settings}))
        return [f"--config={path}"]

    async def start(self) -> None:
        """Start both. Raises StartError."""
        for name in self.names:
            self._start(name)
        await asyncio.gather(*(asyncio.to_thread(one.program.await_readyz) for one in self._lives.values()))
        self._began = monotonic()

    async def keep(self) -> None:
        """Start again whatever ends, until cancelled."""
        await asyncio.gather(*(self._keep(name) for name in self.names), self._sample())

    async def kill_in_turn(self) -> None:
        """Kill one of them every so often, until cancelled; one that has just ended by itself is let off."""
        for name in victims(self._plan):
            await asyncio.sleep(self._plan.kill_every_s)
            life = self._lives[name]
            if life.program.is_running:
                self._note_usage(name)
                life.is_killed = True
                self.gaps.append(Gap(name, monotonic()))
                await asyncio.to_thread(life.program.kill)

    async def stop(self) -> None:
        """End both, and wait for them."""
        await asyncio.gather(*(asyncio.to_thread(life.program.stop) for life in self._lives.values()))

    def resident_mib(self) -> dict[str, float]:
        """How much memory each had when it was looked at last."""
        return {sample.name: sample.resident_mib for sample in self.samples}

    def cpu_s(self) -> dict[str, float]:
        """How much each has used of processors, over all its lives."""
        found = dict.fromkeys(self.names, 0.0)
        for name in self.names:
            own = [sample for sample in self.samples if sample.name == name]
            found[name] = sum(one.cpu_s for one in (*last_of_lives(own), *own[-1:]))
        return found

    async def decision_ms(self) -> dict[str, float]:
        """How long decisions of each took in the mean, since it was started; of those that decided and answer."""
        reported = {name: await asyncio.to_thread(_metrics_of, life.program) for name, life in self._lives.items()}
        means = {name: _mean_s(text) for name, text in reported.items()}
        return {name: mean_s * 1e3 for name, mean_s in means.items() if mean_s}

    def _start(self, name: str) -> None:
        self.starts += 1
        self._lives[name] = _Life(Scheduler(self._plane, self._options[name], name=name), monotonic())

    async def _keep(self, name: str) -> None:
        while True:
            await asyncio.sleep(_LOOKED_AT_EVERY_S)
            life, gap = self._lives[name], self._open_gap(name)
            if life.program.is_running:
                if gap and not life.is_killed and await asyncio.to_thread(self._goes_on, life.program):
                    gap.until_s = monotonic()
            elif life.is_killed:
                self._start(name)
            else:
                self._note_end(name, life.program)
                if gap:  # what comes now is no consequence of the kill
                    gap.until_s = monotonic()
                await asyncio.sleep(_AGAIN_S)
                self._start(name)

    def _goes_on(self, program: Program) -> bool:
        """Whether the program is ready, and one leads where one has to."""
        return program.is_ready() and (
            not self._plan.leader_elect or any(_LEADS.search(_metrics_of(one.program)) for one in self._lives.values())
        )

    def _open_gap(self, name: str) -> Gap | None:
        return next((gap for gap in self.gaps if gap.name == name and gap.until_s is None), None)

    def _note_end(self, name: str, program: Scheduler) -> None:
        text = f"exit code {program.exit_code}; {program.tail()}"
        self.ends.append(End(name, monotonic() - self._began, text))

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(_SAMPLED_EVERY_S)
            for name in self.names:
                self._note_usage(name)

    def _note_usage(self, name: str) -> None:
        life, now = self._lives[name], monotonic()
        try:
            usage = usage_of(life.program.pid)
        except ProcessLookupError:
            return
        if usage:
            self.samples.append(Sample(name, now - self._began, now - life.started_s, *usage))


def _metrics_of(program: Program) -> str:
    """What it tells to Prometheus; empty where it does not answer."""
    try:
        return program.reported("/metrics")
    except (OSError, http.client.HTTPException):
        return ""


def _mean_s(metrics: str) -> float:
    """The mean duration of a decision; 0 where there was none."""
    found = dict(re.findall(rf"^{_DECISION}_(sum|count) (\S+)$", metrics, re.MULTILINE))
    count = float(found.get("count", 0))
    return float(found["sum"]) / count if count else 0.0


def last_of_lives(samples: Sequence[Sample]) -> list[Sample]:
    """The last sample of each process that was followed by another, of those of one name."""
    return [one for one, following in pairwise(samples) if following.age_s < one.age_s]


def victims(plan: Plan) -> Iterator[str]:
    """Who is killed, one kill after the other."""
    is_long = plan.load_s > WARM_S
    for number in count(1) if plan.kill_every_s else ():
        is_in_turn = not is_long or number * plan.kill_every_s < WARM_S / 2
        yield NAMES[number % plan.replicas] if is_in_turn else NAMES[plan.replicas - 1]
