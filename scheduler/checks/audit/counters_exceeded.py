"""The devices in use of a pool consume more of a counter than there is (KEP-4815)."""

from collections.abc import Iterator

from scheduler.checks.audit.cluster_state import ClusterState, pool_subject
from scheduler.checks.contract import Check, FindingLevel, Observation


def _check(state: ClusterState) -> Iterator[Observation]:
    for pool in state.pools:
        for (counter_set, name), amount in pool.counters.items():
            if amount.left.sign < 0:
                counter = f"counter {name} of counter set {counter_set}"
                message = f"{counter} is {amount.total}, but the devices in use consume {-amount.left} more"
                yield Observation(pool_subject(pool), message)


COUNTERS_EXCEEDED = Check(
    "counters-exceeded",
    FindingLevel.ERROR,
    "The devices in use of a pool consume more of a counter than there is.",
    "Delete pods until the devices fit. Let one scheduler allocate the devices of a driver, or run `dra guard serve`.",
    _check,
)
