"""Which pods arrive, when, and for how long they run; random values are drawn from a seed.

Draws take nothing but `random.Random(seed).random()`, which is the same on every machine, and times are rounded to
microseconds, as logarithms differ in their last bit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from random import Random
from typing import Any

from scheduler.core_v1.pod import Pod
from scheduler.input.identity import uid_of

_DIGITS = 6

LATEST_S = 1e10
"""The end of time in seconds: a double has microseconds until then, and no cluster lives for 300 years."""

MOST_JOBS = 10_000_000
"""Pods that arrive in one run."""


class InvalidWorkload(ValueError):
    """The requested workload cannot be made from the pods."""


@dataclass(frozen=True, slots=True)
class Job:
    """A pod that arrives, and its duration after binding; None: it never ends. Times are in seconds.

    spec: the pod, or one with the same spec; then name is the name of the pod.
    """

    spec: Pod
    time_s: float = 0.0
    duration_s: float | None = None
    name: str = ""

    @property
    def pod(self) -> Pod:
        """The pod. One like another is made when it is asked for: of a million that arrive, few are there at once."""
        return copy_of(self.spec, self.name) if self.name else self.spec


@dataclass(frozen=True, slots=True)
class Poisson:
    """Random arrivals, at a rate that keeps this share of the capacity in use if no pod waits. load: 1.0 for all."""

    load: float


@dataclass(frozen=True, slots=True)
class Rows:
    """Arrivals one after the other, a second apart: numbers of jobs from 0, of which one may come again."""

    rows: tuple[int, ...]


Arrivals = Poisson | Rows | None
"""None: at the times of the jobs."""

AmountOf = Callable[[Job], float]
"""What a job asks for, in units."""


def one_after_the_other(pods: Iterable[Pod]) -> list[Job]:
    """Pods without times: they arrive one second apart, and never end."""
    return [Job(pod, float(number)) for number, pod in enumerate(pods)]


@dataclass(frozen=True, slots=True)
class Exponential:
    """Exponentially distributed durations with this mean in seconds."""

    mean_s: float


@dataclass(frozen=True, slots=True)
class Endless:
    """Pods never end."""


Durations = Exponential | Endless | None
"""None: the durations of the jobs."""


def with_durations(jobs: Sequence[Job], how: Durations, seed: int) -> Sequence[Job]:
    """The jobs with other durations."""
    match how:
        case Exponential(mean_s):
            return list(_drawn(jobs, mean_s, seed))
        case Endless():
            return [replace(job, duration_s=None) for job in jobs]
        case None:
            return jobs


def _drawn(jobs: Iterable[Job], mean_s: float, seed: int) -> Iterator[Job]:
    draws = Random(f"durations/{seed}")  # noqa: S311 - not for secrets; equal on every machine
    return (replace(job, duration_s=_exponential(draws, mean_s)) for job in jobs)


def inflated(jobs: Sequence[Job], target: float, amount: AmountOf, seed: int) -> list[Job]:
    """The jobs and, at random, as many again as it takes for all to ask for the target, in units.

    Jobs beyond the target are left out at random. The order is drawn, and the times are those of the jobs in theirs;
    what is added goes on at the same pace. Raises InvalidWorkload.
    """
    order = shuffled(range(len(jobs)), seed)
    draws = Random(f"inflate/{seed}")  # noqa: S311 - as above
    amounts = [amount(job) for job in jobs]
    if not sum(amounts):
        raise InvalidWorkload("no pod of the workload asks for a device of the fleet: it cannot be inflated")
    if target * len(jobs) / sum(amounts) > MOST_JOBS:
        raise InvalidWorkload(
            f"--inflate: this takes {target * len(jobs) / sum(amounts):.2g} pods, more than {MOST_JOBS:,}"
        )
    rows: list[int] = []
    total = 0.0
    while total < target:
        row = order[len(rows)] if len(rows) < len(order) else int(draws.random() * len(jobs))
        rows.append(row)
        total += amounts[row]
    return [replace(job, time_s=time_s) for job, time_s in zip(_copies(jobs, rows), _paced(jobs), strict=False)]


def arrivals(jobs: Sequence[Job], how: Arrivals, capacity: float, amount: AmountOf, seed: int) -> list[Job]:
    """The jobs at their times. capacity: of the fleet, in units. Raises InvalidWorkload."""
    match how:
        case Poisson(load):
            return list(_poisson(jobs, load * capacity, amount, seed))
        case Rows(rows):
            return [replace(job, time_s=float(number)) for number, job in enumerate(_copies(jobs, rows))]
        case None:
            return list(jobs)


def shuffled(rows: Iterable[int], seed: int) -> list[int]:
    """The numbers in an order that is drawn (Fisher and Yates)."""
    order, draws = list(rows), Random(f"order/{seed}")  # noqa: S311 - as above
    for last in range(len(order) - 1, 0, -1):
        other = int(draws.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def scaled(jobs: Iterable[Job], factor: float) -> list[Job]:
    """The jobs with scaled arrival times and unchanged durations."""
    return [_at(job, _rounded(job.time_s * factor)) for job in jobs]


def _at(job: Job, time_s: float) -> Job:
    return job if job.time_s == time_s else replace(job, time_s=time_s)


def _poisson(jobs: Sequence[Job], in_use: float, amount: AmountOf, seed: int) -> Iterator[Job]:
    """All jobs once, in an order that is drawn. in_use: what they shall keep in use, in units, by Little's law."""
    for job in jobs:
        if job.duration_s is None:
            raise InvalidWorkload(
                f"pod {job.pod} has no duration, which Poisson arrivals need (--durations exp:SECONDS)"
            )
    work = sum(amount(job) * (job.duration_s or 0.0) for job in jobs)
    if not work or not in_use:
        raise InvalidWorkload("no pod of the workload asks for a device of the fleet: there is no load")
    draws = Random(f"poisson/{seed}")  # noqa: S311 - as above
    now, mean_s = 0.0, work / len(jobs) / in_use
    for row in shuffled(range(len(jobs)), seed):
        now += _exponential(draws, mean_s)
        yield replace(jobs[row], time_s=_rounded(now))


def _copies(jobs: Sequence[Job], rows: Iterable[int]) -> Iterator[Job]:
    """The jobs of the rows; one that comes again is another pod, with a name of its own."""
    seen: dict[int, int] = {}
    names = {(job.spec.namespace, job.name or job.spec.name) for job in jobs}
    for row in rows:
        again = seen[row] = seen.get(row, -1) + 1
        job = jobs[row]
        yield replace(job, spec=copy_of(job.spec, _unused(job.pod, again, names)), name="") if again else job


def _unused(pod: Pod, number: int, names: set[tuple[str, str]]) -> str:
    name = f"{pod.name}-copy-{number}"
    while (pod.namespace, name) in names:
        name += "-again"
    return name


def copy_of(pod: Pod, name: str) -> Pod:
    """A new pod with the same spec, which no scheduler has seen."""
    uid = uid_of("Pod", pod.namespace, name)
    return pod.changed(name=name, uid=uid, created="", raw={}, **_UNSCHEDULED)


_UNSCHEDULED: Mapping[str, Any] = {
    "node_name": "",
    "nominated_node": "",
    "claim_statuses": {},
    "by_claims": (),
    "device_fields": (),
    "phase": "",
    "conditions": (),
    "is_deleting": False,
}
"""The fields of a pod that no scheduler has seen."""


def unscheduled(pod: Pod) -> Pod:
    """The pod as its controller would recreate it."""
    return pod.changed(raw=_without_node(pod.raw), **_UNSCHEDULED)


def _without_node(raw: Mapping[str, object]) -> Mapping[str, object]:
    spec = raw.get("spec")
    kept = {key: value for key, value in raw.items() if key != "status"}
    if isinstance(spec, Mapping):
        kept["spec"] = {key: value for key, value in spec.items() if key != "nodeName"}
    return kept


def _paced(jobs: Sequence[Job]) -> Iterator[float]:
    """The times of the jobs in order, and on at their mean distance."""
    times = sorted(job.time_s for job in jobs)
    yield from times
    distance = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 1.0
    now = times[-1]
    while True:
        now += distance or 1.0
        yield _rounded(now)


def _exponential(draws: Random, mean: float) -> float:
    return _rounded(-mean * log(1 - draws.random()))


def _rounded(time_s: float) -> float:
    return round(time_s, _DIGITS)
