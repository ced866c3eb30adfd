"""`dra compare`: the input by kube-scheduler's own allocator and by ours: what differs, and how long each takes."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Self

import click
import orjson

from allocator.api.versions import Json
from allocator.api.versions import Json as JsonObject
from allocator.gates import Features
from allocator.model import Slice
from scheduler.cli.cluster_source import ShownObjects
from scheduler.cli.ending import BAD_INPUT, FilePath, print_to_stderr, stop
from scheduler.cli.inputs import Input, InputSource, input_options, inventory_of
from scheduler.cli.printing import Progress, print_report, report_option
from scheduler.cli.verify_allocation import GATES, case_of, replayed_case
from scheduler.input.documents import RawObject, read
from scheduler.input.inventory import Inventory
from scheduler.offline.placement import unused_claims
from scheduler.output.report import Report
from scheduler.output.table import ColumnTable
from scheduler.simulation.changes import is_change
from scheduler.terminal_text import printable

# Kubernetes' own allocator as a program, which reads and answers JSON lines (benchmarks/peer/README.md).


SOURCE = Path(__file__).resolve().parents[2] / "benchmarks" / "peer"
LIMIT = "60s"
"""After this it is taken to hang."""

RELEASES: Mapping[str, tuple[str, ...]] = {"1.37": (), "1.36": ("-modfile=go-1.36.mod", "-tags=kubernetes_1_36")}
"""Releases whose allocator can be built, and the options of `go build`."""


class NoReferenceAllocator(Exception):
    """It cannot be built or asked."""


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer, and how long it took from the question on."""

    answer: Json
    seconds: float


def built(release: str) -> Path:
    """The program, built with Go from the sources. Raises NoReferenceAllocator."""
    if release not in RELEASES:
        raise NoReferenceAllocator(f"it can be built of Kubernetes {' and '.join(RELEASES)}, not of {release}")
    if not SOURCE.is_dir():
        raise NoReferenceAllocator("its sources, benchmarks/peer, are not here: use a checkout, or --peer")
    if shutil.which("go") is None:
        raise NoReferenceAllocator("there is no Go: install Go 1.26 or later (https://go.dev/dl), or use --peer")
    program = SOURCE.parents[1] / ".cache" / "peer" / ("peer" if release == "1.37" else f"peer-{release}")
    command = ["go", "build", *RELEASES[release], "-o", str(program), "."]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        raise NoReferenceAllocator(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return program


class ReferenceAllocator:
    """The running program. Raises NoReferenceAllocator where it cannot be run, or does not answer."""

    def __init__(self, program: Path) -> None:
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the one that was built, or that the user names
                [os.fspath(program), "allocate", "-limit", LIMIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            raise NoReferenceAllocator(f"{program}: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended before, with something unread
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def ask(self, question: Mapping[str, object]) -> TimedAnswer:
        """Its answer to a case in the format of `dra verify allocation`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = orjson.dumps(question, option=orjson.OPT_APPEND_NEWLINE)
        begin = time.perf_counter()
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            answered = self._process.stdout.readline()
        except BrokenPipeError:
            answered = b""
        seconds = time.perf_counter() - begin
        answer = orjson.loads(answered) if answered else {"fault": f"it ended with code {self._process.wait()}"}
        if not isinstance(answer, dict):
            raise NoReferenceAllocator(f"{answer!r} is not an answer")
        if "fault" in answer:
            raise NoReferenceAllocator(f"{question.get('name')}: {answer['fault']}")
        return TimedAnswer(answer, seconds)


VERSION = "resource.k8s.io/v1"


_EPILOG = """
\b
Exit codes: 0 if nothing differs, 1 if something does, 2 for invalid input or without the other allocator.

\b
Examples:
  dra compare cluster.yaml pending.yaml --strict
  dra compare cluster.yaml -n ml --nodes 100 -o json
  dra compare cluster.yaml pending.yaml --overlay drain:gpu-07
"""


@dataclass(frozen=True, slots=True)
class Compared:
    """A pod, or a claim that no pod uses. difference: empty if there is none. Times are of all nodes."""

    name: str
    difference: str
    ours_s: float
    theirs_s: float


@click.command(name="compare", epilog=_EPILOG)
@input_options
@click.option(
    "--nodes",
    "most",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Compare on the first N nodes by name.",
)
@click.option("--peer", type=FilePath(path_type=Path), metavar="FILE", help="The other allocator, built already.")
@report_option
def command(*, given: InputSource, most: int, peer: Path | None, output: str) -> None:
    """Compare our answers with kube-scheduler's own allocator.

    What differs is printed, and how long each takes. PATH is as in `dra allocate`, with objects of resource.k8s.io/v1.
    The claims of each pending pod, and each pending claim that no pod uses, are allocated on each node alone, on what
    is free in the input. Both begin with the objects. --strict makes ours behave like the other where it does better
    (docs/differences.md). The other allocator is built from the sources in benchmarks/peer, which needs Go.
    """
    source = given.source
    objects = list(source.objects())
    inventory = inventory_of(objects, given.overlays, source.features, keep_going=given.keep_going)
    files = [one for one in given.overlays if not is_change(one)]
    raws = (dict(one.raw) for one in (*objects, *read(files)) if isinstance(one, RawObject))
    asked = list(_asked(Input.of(inventory, source.features), source.shown))
    if not asked:
        stop(f"no pending pod or claim {source.shown}")
    case = _case(inventory, _by_name(raws), source.features, most)
    try:
        program = peer or built(source.features.release.name)
        with ReferenceAllocator(program) as reference, Progress(doing="comparing") as progress:
            comparisons = []
            for number, (name, claims) in enumerate(asked, start=1):
                comparisons.append(_compared(reference, {**case, "name": name, "claims": claims}, source.features))
                progress.show(number, len(asked))
    except NoReferenceAllocator as error:
        print_to_stderr([f"dra: kube-scheduler's allocator cannot be asked: {error}"])
        sys.exit(BAD_INPUT)
    print_report(ComparisonReport(comparisons, len(case["nodes"])), output)
    sys.exit(BAD_INPUT if inventory.errors else int(any(one.difference for one in comparisons)))


def _asked(given: Input, shown: ShownObjects) -> Iterator[tuple[str, list[Json]]]:
    """The pending claims of each pending pod, and those that no pod uses, as raw objects."""
    for pod in given.pending:
        claims = given.claims.of(pod)
        if isinstance(claims, list) and shown.has(pod.namespace, pod.labels):
            pending = [dict(one.raw) for _, one in claims if one.claim.allocation is None]
            if pending:
                yield f"pod {pod}", pending
    for claim in unused_claims(given.claims, given.pods):
        input_claim = given.claims.objects[claim.namespace, claim.name]
        if shown.has(claim.namespace, input_claim.metadata.labels):
            yield f"claim {claim}", [dict(input_claim.raw)]


def _by_name(raws: Iterable[Json]) -> Mapping[str, Mapping[str, Json]]:
    """The slices and classes as they are written, by kind and name; the last of a name holds, as in overlays.

    Ends the command for objects of other versions.
    """
    by_kind: dict[str, dict[str, Json]] = {"ResourceSlice": {}, "DeviceClass": {}}
    for raw in raws:
        kind, version = str(raw.get("kind")), str(raw.get("apiVersion"))
        if kind in (*by_kind, "ResourceClaim") and version != VERSION:
            stop(f"{kind} of {version}: only objects of {VERSION} can be compared")
        if kind in by_kind:
            by_kind[kind][str(raw["metadata"].get("name"))] = raw
    return by_kind


def _case(inventory: Inventory, raws: Mapping[str, Mapping[str, Json]], features: Features, most: int) -> Json:
    """All but the claims. raws: slices and classes, by kind and name."""
    nodes = sorted(inventory.nodes, key=lambda one: one.name)[:most]
    if not nodes:
        stop("the input contains no Node, and no slice names one")
    return {
        "nodes": [{"metadata": {"name": one.name, "labels": dict(one.labels)}} for one in nodes],
        "slices": [_slice(one, raws["ResourceSlice"]) for one in inventory.slices],
        "deviceClasses": list(raws["DeviceClass"].values()),
        "allocatedClaims": [one.raw for one in inventory.claims.values() if one.claim.allocation is not None],
        "features": {theirs: features.has(ours) for theirs, ours in GATES.items() if ours in features.release.gates},
        "implementation": "auto",
        "applyDefaults": True,
    }


def _slice(found: Slice, raws: Mapping[str, Json]) -> Json:
    """The slice as it is written; the copy that `add:NODE:COUNT` makes of one, from what that is."""
    if found.name in raws:
        return raws[found.name]
    node = found.reach.node_name
    origin = raws[found.name.removesuffix(f"-{node}")]
    pool = {**origin["spec"]["pool"], "name": found.pool}
    spec = {**origin["spec"], "nodeName": node, "pool": pool}
    return {**origin, "metadata": {**origin["metadata"], "name": found.name}, "spec": spec}


def _compared(reference: ReferenceAllocator, case: Json, features: Features) -> Compared:
    theirs = reference.ask(case)
    expected = {key: theirs.answer[key] for key in ("results", "errors", "errorKinds")}
    begin = time.perf_counter()
    replayed = replayed_case(case_of({**case, "expected": expected}), features)
    return Compared(case["name"], replayed.difference, time.perf_counter() - begin, theirs.seconds)


@dataclass(frozen=True, slots=True)
class ComparisonReport(Report):
    """What differs, and how long each takes. nodes: how many were compared."""

    kind = "Comparison"

    found: Sequence[Compared]
    nodes: int

    def blocks(self) -> Iterator[str | ColumnTable]:
        """How many differ, the times, and a line for each that differs."""
        differing = [printable(f"{one.name}: {one.difference}") for one in self.found if one.difference]
        yield f"{len(differing)} of {len(self.found)} differ"
        ours, theirs = [one.ours_s for one in self.found], [one.theirs_s for one in self.found]
        rows = [
            [name, _milliseconds(sum(times)), _milliseconds(median(times)), _milliseconds(max(times))]
            for name, times in (("kube-scheduler", theirs), ("dra", ours))
        ]
        header = ["ALLOCATOR", "ALL", "MEDIAN", "LONGEST"]
        yield ColumnTable(header, rows, frozenset(header[1:]))
        if differing:
            yield "\n".join(differing)

    def fields(self) -> JsonObject:
        """All of it."""
        return {
            "nodes": self.nodes,
            "differences": sum(bool(one.difference) for one in self.found),
            "items": [
                {
                    "name": one.name,
                    "difference": one.difference or None,
                    "seconds": one.ours_s,
                    "referenceSeconds": one.theirs_s,
                }
                for one in self.found
            ],
        }


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"
