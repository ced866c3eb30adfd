"""`make bench-allocator`: the allocator beside the reference, on the same cases, in turn, several times.

Prints a table of medians and ratios, and writes results.json and scaling.svg into a folder. A ratio above
one says that ours is better. Times depend on the machine and on what else it does; ratios of one run do
so much less.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.allocator import cases, ours
from benchmarks.allocator.plot import plot
from benchmarks.reference import NEWEST, RELEASES, Reference
from scheduler.installation import description

PODS_A_SECOND, MILLISECONDS, MICROSECONDS = "pods/s", "ms", "us"


@dataclass(frozen=True, slots=True)
class TimedComparison:
    """One line: how ours and the reference's are measured. is_rate: more is better."""

    name: str
    unit: str
    ours: Callable[[], float]
    peer: Callable[[], float | None]

    @property
    def is_rate(self) -> bool:
        """True where more is better."""
        return self.unit == PODS_A_SECOND


@dataclass(frozen=True, slots=True)
class AllocatorRow:
    """One line of the result: medians; the ratios of the rounds as median, least, greatest. None: no answer in time."""

    case: str
    unit: str
    ours: float
    peer: float | None
    ratio: float | None
    least: float | None
    greatest: float | None


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubernetes", choices=RELEASES, default=NEWEST, help=f"the reference's (default: {NEWEST})")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured (default: 3)")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-allocator"), help="folder for the results")
    parser.add_argument("--large", type=int, default=100_000, metavar="NODES", help="nodes of the large fleet; 0: none")
    parser.add_argument("--large-only", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.large_only:
        print(json.dumps(asdict(ours.large(arguments.large, 1000))))
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows = compare(arguments.rounds, arguments.kubernetes)
    print(f"ours: {description()}; the reference of Kubernetes {arguments.kubernetes}\n")
    print(table(rows))
    (arguments.output / "results.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if arguments.large:
        print(large_text(arguments.large))
    plot(arguments.output / "scaling.svg")
    print(f"written: {arguments.output / 'results.json'}, {arguments.output / 'scaling.svg'}")


def compare(rounds: int, kubernetes: str) -> list[AllocatorRow]:
    """Every comparison in every round, the reference first, ours right after it."""
    with Reference(kubernetes) as reference:
        comparisons = comparisons_with(reference)
        measured: dict[str, list[tuple[float, float | None]]] = {one.name: [] for one in comparisons}
        for number in range(rounds):
            for one in comparisons:
                print(f"round {number + 1} of {rounds}: {one.name}", file=sys.stderr)
                peer = one.peer()
                measured[one.name].append((one.ours(), peer))
    return [_row(one, measured[one.name]) for one in comparisons]


def comparisons_with(reference: Reference) -> list[TimedComparison]:
    """What is compared."""
    rows: list[TimedComparison] = []
    for nodes, pods in ((500, 2500), (5000, 2500)):
        case = cases.cluster(nodes, pods)
        rows.append(_cluster(reference, f"{nodes} nodes x 10, look at every node", case, pods, all_nodes=True))
        rows.append(_cluster(reference, f"{nodes} nodes x 10, first fit", case, pods, all_nodes=False))
    rows.append(
        _cluster(reference, "MIG-like, 100 nodes x 112, every node", cases.mig(100, 1000), 1000, all_nodes=True)
    )
    shares = (cases.shared(100), cases.shares_elsewhere(0), cases.shares_elsewhere(50_000))
    rows.extend(_attempt(reference, case, MILLISECONDS, repeat=20) for case in shares)
    rows.extend(_attempt(reference, case, MILLISECONDS, repeat=1) for case in cases.hard())
    single = cases.single()
    rows.append(_attempt(reference, {**single, "name": f"{single['name']}, warm"}, MICROSECONDS, repeat=2000))
    rows.append(_cold(reference, {**single, "name": f"{single['name']}, cold"}))
    return rows


def _cluster(reference: Reference, name: str, case: cases.Json, pods: int, *, all_nodes: bool) -> TimedComparison:
    decoded = ours.decoded(case)
    return TimedComparison(
        name,
        PODS_A_SECOND,
        lambda: ours.place_pods(decoded, pods),
        lambda: reference.pods_a_second(case, min(pods, 500), all_nodes=all_nodes),
    )


def _attempt(reference: Reference, case: cases.Json, unit: str, repeat: int) -> TimedComparison:
    decoded = ours.decoded(case)
    factor = {MILLISECONDS: 1e3, MICROSECONDS: 1e6}[unit]
    return TimedComparison(
        case["name"],
        unit,
        lambda: factor * ours.attempt_seconds(decoded, max(repeat, 5)),
        lambda: _scaled(reference.attempt_seconds(case, repeat, is_cold=False), factor),
    )


def _cold(reference: Reference, case: cases.Json) -> TimedComparison:
    decoded = ours.decoded(case)
    return TimedComparison(
        case["name"],
        MICROSECONDS,
        lambda: 1e6 * ours.cold_attempt_seconds(decoded, 500),
        lambda: _scaled(reference.attempt_seconds(case, 500, is_cold=True), 1e6),
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _row(one: TimedComparison, pairs: Sequence[tuple[float, float | None]]) -> AllocatorRow:
    ratios = [(our / peer if one.is_rate else peer / our) for our, peer in pairs if peer is not None]
    answered = [peer for _, peer in pairs if peer is not None]
    return AllocatorRow(
        one.name,
        one.unit,
        statistics.median(our for our, _ in pairs),
        statistics.median(answered) if answered else None,
        statistics.median(ratios) if ratios else None,
        min(ratios, default=None),
        max(ratios, default=None),
    )


def table(rows: Sequence[AllocatorRow]) -> str:
    """The rows as a table of Markdown."""
    lines = ["| case | unit | reference | ours | times better (least to greatest) |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        peer = "no answer in 10 s" if row.peer is None else _number(row.peer)
        ratio = "-" if row.ratio is None else f"{row.ratio:.1f} ({row.least:.1f} to {row.greatest:.1f})"
        lines.append(f"| {row.case} | {row.unit} | {peer} | {_number(row.ours)} | {ratio} |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def large_text(nodes: int) -> str:
    """The large fleet, measured in a process of its own for the sake of its memory."""
    command = [sys.executable, "-m", "benchmarks.allocator.run", "--large-only", "--large", str(nodes)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return (
        f"{nodes:,} nodes x 8 devices with 12 attributes: loaded in {found['load_s']:.1f} s, "
        f"peak memory {found['peak_gib']:.2f} GiB, decision p99 over 1,000 pods {found['p99_s'] * 1e3:.2f} ms"
    )


if __name__ == "__main__":
    main()
