"""Limits per tenant alone: the same pods decided in two clusters by turns, without limits and with 200 of them.

The arguments are the numbers of nodes and of pods. Three limits hold for the pods: devices of a class, a share of what
exists, and devices by a selector. Decisions of both must be the same. Writes nanoseconds by case.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction

import orjson

from allocator.limits import ONE_DEVICE, CountedDevices, Namespaces, TenantLimit
from benchmarks.cycle.cases import cluster as case_of
from benchmarks.cycle.ours import NotDecided, cycle, loaded
from benchmarks.endtoend.workload import CLASS, DRIVER, NAMESPACE, PLAIN
from scheduler import garbage

CASES = ("without limits", "200 limits, three hold")
LIMITS = 200


def main() -> None:
    """The program."""
    nodes, pods = int(sys.argv[1]), int(sys.argv[2])
    sys.stdout.buffer.write(orjson.dumps(measured(nodes, pods)))


def measured(nodes: int, pods: int) -> Mapping[str, Sequence[int]]:
    """The nanoseconds of each decision, by case. Raises NotDecided where they differ."""
    garbage.filling()
    case = case_of(PLAIN, nodes, pods)
    (free, waiting), (limited, others) = loaded(case), loaded(case)
    limited.set_limits(limits(nodes + pods))
    garbage.keep()
    nanoseconds: dict[str, list[int]] = {name: [] for name in CASES}
    for number, (pod, other) in enumerate(zip(waiting, others, strict=True)):
        chosen = {}
        both = ((CASES[0], free, pod), (CASES[1], limited, other))
        for name, cluster, asking in both[:: -1 if number % 2 else 1]:
            started = time.perf_counter_ns()
            chosen[name] = cycle(cluster, asking)
            nanoseconds[name].append(time.perf_counter_ns() - started)
        if len(set(chosen.values())) > 1:
            raise NotDecided(f"pod {pod}: {chosen}")
    return nanoseconds


def limits(devices: int) -> list[TenantLimit]:
    """Of so many devices three that leave enough to the pods' namespace; the others are of other tenants."""
    own = Namespaces(frozenset({NAMESPACE}))
    selector = f'device.driver == "{DRIVER}"'
    holding = [
        TenantLimit("devices", own, CountedDevices(class_name=CLASS), devices * ONE_DEVICE),
        TenantLimit("share", own, CountedDevices(driver=DRIVER), share=Fraction(1)),
        TenantLimit("selected", Namespaces(each=True), CountedDevices(selectors=(selector,)), devices * ONE_DEVICE),
    ]
    others = [
        TenantLimit(f"tenant-{number}", Namespaces(frozenset({f"tenant-{number}"})), CountedDevices(), ONE_DEVICE)
        for number in range(LIMITS - len(holding))
    ]
    return [*others, *holding]


if __name__ == "__main__":
    main()
