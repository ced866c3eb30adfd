"""Pods of several schedulers hold devices of one driver: nothing keeps them from allocating a device twice."""

from collections.abc import Iterator

from scheduler.checks.audit.cluster_state import ClusterState
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation

_DEFAULT = "default-scheduler"


def _check(state: ClusterState) -> Iterator[Observation]:
    schedulers = {pod.uid: pod.scheduler_name or _DEFAULT for pod in state.pods if pod.uid}
    by_driver: dict[str, set[str]] = {}
    for found in state.claims.values():
        names = {schedulers[one.uid] for one in found.reserved_for if one.uid in schedulers}
        for result in found.claim.allocation.results if found.claim.allocation else ():
            by_driver.setdefault(result.driver, set()).update(names)
    for driver, named in sorted(by_driver.items()):
        if len(named) > 1:
            message = f"its devices are allocated by schedulers {', '.join(sorted(named))}"
            yield Observation(ObjectName("driver", driver), message)


SEVERAL_SCHEDULERS = Check(
    "several-schedulers",
    FindingLevel.WARNING,
    "Several schedulers allocate the devices of one driver: the API server does not keep them from giving one twice.",
    "Let one scheduler allocate the devices of a driver, or run `dra guard serve`. Schedulers of one process are safe.",
    _check,
)
