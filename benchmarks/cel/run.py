"""`make bench-cel`: selectors over a fleet beside cel-go, in turn, several times.

Every selector is new whenever it is measured: nothing is left of an answer to the same one. The fleet's columns are
encoded once, which is a line of its own and is part of the line of 200 selectors. Ratios above one say that ours is
faster.
"""

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import cel
from benchmarks.cel import fleet
from benchmarks.reference import Reference

MANY_SELECTORS = 200
EXACT_SAMPLE = 5000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result: medians; the ratios of the rounds as median, least, greatest."""

    what: str
    unit: str
    ours: float
    peer: float | None = None
    ratio: float | None = None
    least: float | None = None
    greatest: float | None = None


class Rounds:
    """Measurements under their names, in the order in which they first came."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], list[tuple[float, float | None]]] = {}

    def add(self, what: str, unit: str, ours: float, peer: float | None = None) -> None:
        """One measurement, in the unit."""
        self._pairs.setdefault((what, unit), []).append((ours, peer))

    def rows(self) -> list[Row]:
        """The lines."""
        return [_row(what, unit, pairs) for (what, unit), pairs in self._pairs.items()]


def _row(what: str, unit: str, pairs: Sequence[tuple[float, float | None]]) -> Row:
    ours = statistics.median(our for our, _ in pairs)
    both = [(our, peer) for our, peer in pairs if peer is not None]
    if not both:
        return Row(what, unit, ours)
    ratios = [peer / our for our, peer in both]
    peer = statistics.median(peer for _, peer in both)
    return Row(what, unit, ours, peer, statistics.median(ratios), min(ratios), max(ratios))


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured (default: 3)")
    parser.add_argument("--devices", type=int, default=100_000, help="size of the fleet (default: 100000)")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-cel"), help="folder for the results")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows = measure(arguments.devices, arguments.rounds)
    print(f"{arguments.devices:,} devices; {MANY_SELECTORS} selectors at once")
    print(table(rows))
    results = arguments.output / "results.json"
    results.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(f"written: {results}")


def measure(devices: int, rounds: int) -> list[Row]:
    """All lines, each measured in each round."""
    found = Rounds()
    with tempfile.TemporaryDirectory() as folder, Reference() as reference:
        published = [fleet.device_json(number) for number in range(devices)]
        file = Path(folder) / "devices.json"
        file.write_text(json.dumps(published))
        ours = [cel.device_from_json(device) for device in published]
        del published
        gc.collect()
        gc.freeze()  # as the scheduler does once its caches are filled
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            _round(found, reference, file, ours, number * 1000)
    return found.rows()


def _round(found: Rounds, reference: Reference, file: Path, devices: Sequence[cel.Device], first: int) -> None:
    columns = _columns(devices)
    found.add("encode what the selectors read", "ms", 1e3 * _seconds(partial(_encode, columns)))
    for name in fleet.SELECTORS:
        texts = list(fleet.variants(name, 5, first))
        (peer,) = reference.cel_times(texts[:1], file, 3)
        masked = statistics.median(_seconds(partial(cel.compile(text).matches, columns)) for text in texts)
        exact = _seconds(partial(_evaluate_all, cel.compile(texts[0]), devices[:EXACT_SAMPLE]))
        new_texts = fleet.variants(name, 20, first + len(texts))
        compiled = statistics.median(_seconds(partial(cel.compile, text)) for text in new_texts)
        found.add(f"{name}: columns", "us a device", 1e6 * masked / len(devices), 1e6 * peer.device)
        found.add(f"{name}: exact evaluator", "us a device", 1e6 * exact / EXACT_SAMPLE, 1e6 * peer.device)
        found.add(f"{name}: compile", "ms", 1e3 * compiled, 1e3 * peer.compile)
    texts = fleet.mixed(MANY_SELECTORS, first + 500)
    peers = reference.cel_times(texts[: len(fleet.MIXED)], file, 1)
    peer_seconds = statistics.mean(one.compile + one.device * len(devices) for one in peers) * MANY_SELECTORS
    found.add(f"{MANY_SELECTORS} selectors, with compiling and encoding", "s", _many(texts, devices), peer_seconds)


def _columns(devices: Sequence[cel.Device]) -> cel.Columns:
    columns = cel.Columns()
    for start in range(0, len(devices), fleet.DEVICES_IN_SLICE):
        columns.put(start, devices[start : start + fleet.DEVICES_IN_SLICE])
    return columns


def _encode(columns: cel.Columns) -> None:
    for text in fleet.mixed(len(fleet.MIXED)):
        for path in cel.compile(text).reads.paths:
            columns.codes(path)


def _evaluate_all(program: cel.Program, devices: Iterable[cel.Device]) -> None:
    for device in devices:
        program.run(device)


def _many(texts: Sequence[str], devices: Sequence[cel.Device]) -> float:
    """Seconds for selectors of which nothing is there, from the devices to the masks."""

    def match_all() -> None:
        columns = _columns(devices)
        for text in texts:
            cel.compile(text).matches(columns)

    return _seconds(match_all)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def table(rows: Sequence[Row]) -> str:
    """The rows as a table of Markdown."""
    lines = ["| what | unit | cel-go | ours | times faster (least to greatest) |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        peer = "" if row.peer is None else f"{row.peer:.3g}"
        ratio = "" if row.ratio is None else f"{row.ratio:.3g} ({row.least:.3g} to {row.greatest:.3g})"
        lines.append(f"| {row.what} | {row.unit} | {peer} | {row.ours:.3g} | {ratio} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
