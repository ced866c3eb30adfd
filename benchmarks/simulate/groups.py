"""How long large groups wait beside small pods in `dra simulate`, with and without `--group-reservation`.

Nodes have eight devices each. Single pods of one device, which run 20 minutes on average, are 60 % of the load; groups
of two pods with all devices of a node each, which run two hours, are 40 %. Both arrive at random for a day. Each load
and seed is one line, and each load a line with the mean, least and greatest of the seeds. The same on every machine.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scheduler.core_v1.group_terms import GROUP, MINIMUM

Json = dict[str, Any]

DEVICES, GROUP_SIZE = 8, 2
DAY_S, SINGLE_S, GROUP_S, SINGLE_SHARE = 24 * 3600.0, 20 * 60.0, 2 * 3600.0, 0.6


class Waits(NamedTuple):
    """Of the groups of a run, in hours. unplaced: those that have no place at the end. all_mean: of all pods."""

    groups: int
    unplaced: int
    mean: float
    p50: float
    p90: float
    longest: float
    all_mean: float


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=8, help="how many (default: 8)")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.9, 1.0], help="shares of devices (0.9 1.0)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5], help="of arrivals (default: 1 to 5)")
    parser.add_argument("--reservations", nargs="+", default=["0s", "1h"], help="times (default: 0s 1h)")
    arguments = parser.parse_args()
    print(
        "| load | reservation | seed | groups | without a place | mean | P50 | P90 | longest | mean of all pods |\n"
        + "| --- " * 10
        + "|"
    )
    for load in arguments.loads:
        for reservation in arguments.reservations:
            found = []
            for seed in arguments.seeds:
                found.append(waits(arguments.nodes, load, seed, reservation))
                print(_line(load, reservation, str(seed), found[-1:]), flush=True)
            print(_line(load, reservation, "all", found), flush=True)


def waits(nodes: int, load: float, seed: int, reservation: str) -> Waits:
    """One run."""
    with tempfile.TemporaryDirectory() as folder:
        fleet, trace = Path(folder) / "fleet.json", Path(folder) / "trace.jsonl"
        fleet.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(_fleet(nodes))}))
        trace.write_text("".join(f"{json.dumps(line)}\n" for line in arrivals(nodes, load, seed)))
        given = [str(fleet), "--trace", str(trace), "--group-reservation", reservation, "--jobs", "1", "-o", "json"]
        program = [str(Path(sys.executable).with_name("dra")), "simulate", *given]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
    return _waits_of(json.loads(done.stdout))


def arrivals(nodes: int, load: float, seed: int) -> list[Json]:
    """The lines of the trace, in order."""
    drawn = random.Random(seed)  # noqa: S311 - arrivals, no secret
    busy = nodes * DEVICES * load
    single_every = SINGLE_S / (busy * SINGLE_SHARE)
    group_every = GROUP_S * DEVICES * GROUP_SIZE / (busy * (1 - SINGLE_SHARE))
    lines = []
    for number, time_s in enumerate(_times(drawn, single_every)):
        lines.append(_arrival(time_s, f"single-{number}", 1, drawn.expovariate(1 / SINGLE_S)))
    for number, time_s in enumerate(_times(drawn, group_every)):
        labels, least = {GROUP: f"group-{number}"}, {MINIMUM: str(GROUP_SIZE)}
        marks = {"labels": labels, "annotations": least}
        members = (f"group-{number}-{place}" for place in range(GROUP_SIZE))
        lines.extend(_arrival(time_s, name, DEVICES, GROUP_S, **marks) for name in members)
    return sorted(lines, key=lambda line: float(line["time"]))


def _times(drawn: random.Random, every_s: float) -> Iterator[float]:
    time_s = drawn.expovariate(1 / every_s)
    while time_s < DAY_S:
        yield round(time_s, 3)
        time_s += drawn.expovariate(1 / every_s)


def _arrival(time_s: float, name: str, devices: int, duration_s: float, **marks: Mapping[str, str]) -> Json:
    claims = [{"name": "gpus", "resourceClaimTemplateName": f"gpus-{devices}"}]
    container = {"name": "main", "image": "train", "resources": {"claims": [{"name": "gpus"}]}}
    pod = {"metadata": {"name": name, **marks}, "spec": {"containers": [container], "resourceClaims": claims}}
    return {"time": time_s, "pod": pod, "duration": round(duration_s, 3)}


def _fleet(nodes: int) -> Iterator[Json]:
    yield {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    for devices in (1, DEVICES):
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices}
        spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": f"gpus-{devices}", "namespace": "default"},
            "spec": spec,
        }
    for number in range(nodes):
        name = f"node-{number:02d}"
        room = {"cpu": "128", "memory": "1Ti", "pods": "110"}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        own = {"driver": "gpu.example.com", "nodeName": name, "pool": pool}
        devices_of_node = [{"name": f"gpu-{place}"} for place in range(DEVICES)]
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {**own, "devices": devices_of_node},
        }


def _waits_of(document: Json) -> Waits:
    summary = document["scenarios"][0]["summary"]
    (of_groups,) = summary["groups"]
    times, all_times = of_groups["waitingS"], summary["waitingS"]
    mean, p50, p90, longest = (times[name] / 3600 for name in ("mean", "p50", "p90", "max"))
    return Waits(of_groups["arrivals"], of_groups["waiting"], mean, p50, p90, longest, all_times["mean"] / 3600)


def _line(load: float, reservation: str, seed: str, found: Sequence[Waits]) -> str:
    columns = [load, reservation, seed, *map(_text, zip(*found, strict=True))]
    return f"| {' | '.join(map(str, columns))} |"


def _text(own: Sequence[float]) -> str:
    """One value, or the mean with the least and the greatest."""
    mean = f"{statistics.fmean(own):.3g}"
    return mean if len(own) == 1 else f"{mean} ({min(own):.3g} to {max(own):.3g})"


if __name__ == "__main__":
    main()
