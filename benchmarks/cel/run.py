"""`make bench-cel`: selectors over a fleet beside cel-go, in turn, several times.

Every selector is new whenever it is measured: nothing is left of an answer to the same one. `evaluated` is the
evaluator, device by device; `in a fleet` is what the allocator does: it asks about all slices, and evaluates once for
all devices of a slice that agree in what the selector reads. Ratios above one say that ours is faster.
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
from typing import Any

import cel
from allocator.api import decode
from allocator.cluster.pools import NodeView
from allocator.cluster.snapshot import Selectors, Snapshot
from allocator.gates import Features
from allocator.model import Node, Slice
from benchmarks.cel import fleet
from benchmarks.reference import Reference

FEATURES = Features.of("1.37")
MANY_SELECTORS = 200
SAMPLE = 5000


@dataclass(frozen=True, slots=True)
class CelRow:
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

    def rows(self) -> list[CelRow]:
        """The lines."""
        return [_row(what, unit, pairs) for (what, unit), pairs in self._pairs.items()]


def _row(what: str, unit: str, pairs: Sequence[tuple[float, float | None]]) -> CelRow:
    ours = statistics.median(our for our, _ in pairs)
    both = [(our, peer) for our, peer in pairs if peer is not None]
    if not both:
        return CelRow(what, unit, ours)
    ratios = [peer / our for our, peer in both]
    peer = statistics.median(peer for _, peer in both)
    return CelRow(what, unit, ours, peer, statistics.median(ratios), min(ratios), max(ratios))


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


def measure(devices: int, rounds: int) -> list[CelRow]:
    """All lines, each measured in each round."""
    found = Rounds()
    with tempfile.TemporaryDirectory() as folder, Reference() as reference:
        cel.compile("true")  # imports the compiler, which is part of the start
        published = [fleet.device_json(number) for number in range(devices)]
        file = Path(folder) / "devices.json"
        file.write_text(json.dumps(published))
        views = _views(published)
        del published
        gc.collect()
        gc.freeze()  # as the scheduler does once its caches are filled
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            _round(found, reference, file, views, number * 1000)
    return found.rows()


def _views(published: Sequence[dict[str, Any]]) -> list[NodeView]:  # Any: JSON
    """The devices of each node, a slice of them."""
    size = fleet.DEVICES_IN_SLICE
    slices = [_slice(first, published[first : first + size]) for first in range(0, len(published), size)]
    snapshot = Snapshot.of(slices, [], [], FEATURES)
    return [snapshot.view(Node(slice_.reach.node_name)) for slice_ in slices]


def _slice(number: int, published: Iterable[dict[str, Any]]) -> Slice:  # Any: JSON
    devices = [
        {"name": f"gpu-{position}", "attributes": one["attributes"], "capacity": one["capacity"]}
        for position, one in enumerate(published)
    ]
    pool = {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": fleet.DRIVER, "nodeName": f"node-{number}", "pool": pool, "devices": devices}
    metadata = {"name": f"slice-{number}"}
    decoded = decode({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec})
    assert isinstance(decoded.object, Slice), decoded.errors
    return decoded.object


def _round(found: Rounds, reference: Reference, file: Path, views: Sequence[NodeView], first: int) -> None:
    devices = [device for view in views for device in view.devices]
    for name in fleet.SELECTORS:
        texts = list(fleet.variants(name, 2, first))
        (peer,) = reference.cel_times(texts[:1], file, 3)
        asked = _seconds(partial(_ask_all, texts[:1], views))
        evaluated = _seconds(partial(_evaluate_all, cel.compile(texts[1]), devices[:SAMPLE]))
        new_texts = fleet.variants(name, 20, first + len(texts))
        compiled = statistics.median(_seconds(partial(cel.compile, text)) for text in new_texts)
        found.add(f"{name}: in a fleet", "us a device", 1e6 * asked / len(devices), 1e6 * peer.device)
        found.add(f"{name}: evaluated", "us a device", 1e6 * evaluated / SAMPLE, 1e6 * peer.device)
        found.add(f"{name}: compile", "ms", 1e3 * compiled, 1e3 * peer.compile)
    texts = fleet.mixed(MANY_SELECTORS, first + 500)
    peers = reference.cel_times(texts[: len(fleet.MIXED)], file, 1)
    peer_seconds = statistics.mean(one.compile + one.device * len(devices) for one in peers) * MANY_SELECTORS
    ours = _seconds(partial(_ask_all, texts, views))
    found.add(f"{MANY_SELECTORS} selectors in a fleet, with compiling", "s", ours, peer_seconds)


def _ask_all(texts: Iterable[str], views: Iterable[NodeView]) -> None:
    """What the allocator does with selectors of which it knows nothing."""
    selectors = Selectors(FEATURES.environment)
    for text in texts:
        for view in views:
            selectors.select(text, view)


def _evaluate_all(program: cel.Program, devices: Iterable[cel.DeviceLike]) -> None:
    for device in devices:
        program.run(device)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def table(rows: Sequence[CelRow]) -> str:
    """The rows as a table of Markdown."""
    lines = ["| what | unit | cel-go | ours | times faster (least to greatest) |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        peer = "" if row.peer is None else f"{row.peer:.3g}"
        ratio = "" if row.ratio is None else f"{row.ratio:.3g} ({row.least:.3g} to {row.greatest:.3g})"
        lines.append(f"| {row.what} | {row.unit} | {peer} | {row.ours:.3g} | {ratio} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
