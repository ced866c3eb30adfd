"""The pods of a dump as a trace: each arrives when it was created, and runs for as long as it did.

A pod that has finished ran from the moment it had its node until its last container ended; all others stay. Pods that
belong to their node, such as those of a DaemonSet, are there from the start.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import POD_SCHEDULED
from scheduler.input.inventory import Inventory
from scheduler.simulation.changes import belongs_to_node, claims_without
from scheduler.simulation.jobs import InvalidWorkload, Job, unscheduled


@dataclass(frozen=True, slots=True)
class DumpTrace:
    """inventory: the cluster before any of the jobs. stays: its pods then. undated: pods without a known time."""

    inventory: Inventory
    stays: Sequence[Pod]
    jobs: Sequence[Job]
    undated: int


def trace_of_dump(inventory: Inventory, pods: Sequence[Pod]) -> DumpTrace:
    """The trace that a dump holds. pods: of the inventory, each with its uid. Raises InvalidWorkload.

    Time counts from the first creation.
    """
    own = [pod for pod in pods if not belongs_to_node(pod)]
    dated = [(time_s, pod) for pod in own if (time_s := _seconds(pod.created)) is not None]
    if not dated:
        raise InvalidWorkload("no pod of the input has a metadata.creationTimestamp: it holds no trace")
    first = min(time_s for time_s, _ in dated)
    dated.sort(key=lambda one: (one[0], one[1].namespace, one[1].name))
    jobs = [Job(unscheduled(pod), time_s - first, _duration(pod)) for time_s, pod in dated]
    stays = [pod for pod in pods if belongs_to_node(pod)]
    return DumpTrace(
        replace(inventory, pods=stays, claims=claims_without(inventory, own)),
        stays,
        jobs,
        len(own) - len(dated),
    )


def _duration(pod: Pod) -> float | None:
    """From the binding to the end of the last container, or to the last change of a condition; None while it runs."""
    if not pod.is_finished:
        return None
    status = pod.raw.get("status")
    if not isinstance(status, Mapping):
        return None
    ended = max(_moments(_ends(status)), default=None) or max(_moments(_changes(status)), default=None)
    started = next(_moments((*_changes(status, POD_SCHEDULED), status.get("startTime"), pod.created)))
    return None if ended is None else max(0.0, ended - started)


def _changes(status: Mapping[str, Any], kind: str = "") -> Iterator[object]:  # Any: a status as it came
    """When its conditions, or those of a kind, became what they are."""
    for one in _objects(status.get("conditions")):
        if kind in ("", one.get("type")):
            yield one.get("lastTransitionTime")


def _ends(status: Mapping[str, Any]) -> Iterator[object]:
    for one in _objects(status.get("containerStatuses")):
        state = one.get("state")
        terminated = state.get("terminated") if isinstance(state, Mapping) else None
        yield terminated.get("finishedAt") if isinstance(terminated, Mapping) else None


def _moments(texts: Iterable[object]) -> Iterator[float]:
    return (moment for text in texts if (moment := _seconds(text)) is not None)


def _objects(value: object) -> Iterable[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else ()


def _seconds(text: object) -> float | None:
    """The moment of RFC 3339, in seconds; None for what is none."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment.timestamp() if moment and moment.tzinfo else None
