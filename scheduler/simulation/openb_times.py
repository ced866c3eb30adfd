"""Arrival times and durations of pods in the openb trace: columns that only some of its workloads have."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from scheduler.simulation.jobs import Job, one_after_the_other
from scheduler.simulation.openb import InvalidTrace, Openb
from scheduler.simulation.orders import DrawnOrder

_CREATED, _SCHEDULED, _DELETED = "creation_time", "scheduled_time", "deletion_time"


def openb_jobs(trace: Openb, file: Path) -> list[Job]:
    """The pods of a workload at their times; of one without times, one after the other. Raises InvalidTrace.

    A pod runs from the moment it was scheduled, or else created, to its deletion; without that it stays.
    """
    pods = [pod for pod, _ in trace.arrivals(DrawnOrder(0, tuple(range(len(trace.shapes))), ()))]
    try:
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
    except OSError as error:
        raise InvalidTrace(f"{file}: {error.strerror}") from error
    if not rows or _CREATED not in rows[0]:
        return one_after_the_other(pods)
    found = []
    for number, (pod, row) in enumerate(zip(pods, rows, strict=True), 2):
        times = dict(_times(row, f"{file}, line {number}"))
        if _CREATED not in times:
            raise InvalidTrace(f"{file}, line {number}: {_CREATED}: '' is not a whole number")
        start, end = times.get(_SCHEDULED, times[_CREATED]), times.get(_DELETED)
        found.append(Job(pod, times[_CREATED], None if end is None else max(0.0, end - start)))
    return found


def _times(row: Mapping[str, str | None], place: str) -> Iterator[tuple[str, float]]:
    for column in (_CREATED, _SCHEDULED, _DELETED):
        text = row.get(column) or ""
        if text and not (text.isascii() and text.removesuffix(".0").isdigit()):
            raise InvalidTrace(f"{place}: {column}: {text!r} is not a whole number")
        if text:
            yield column, float(text)
