"""`make mutants`: breaks the sources in one place at a time, and prints what no test notices.

The mutants are drawn at random, the same for the same seed and sources. For each, the test files run that call the
function around it. Results are kept in .cache/mutants, so that a run that was interrupted goes on where it was; a
mutant that survived is tried again when a test has changed. Exits with 0 where none survives, 1 where one does, 2 for
bad arguments or tests that fail anyway.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TypeVar

from tests.mutants.operators import Mutation, mutations
from tests.mutants.tests_by_function import Traces, digest, files_of_tests, files_that_run
from tests.mutants.tree import BrokenTestsError, Trace, Tree

T = TypeVar("T")

KEPT = Path(".cache") / "mutants"
MEMORY = 4 << 30  # bytes of address space: a loop without end may collect something
KILLED, TIMED_OUT, SURVIVED = "killed", "timed out", "survived"


@dataclass(frozen=True)
class Mutant:
    """A file with one mutation."""

    path: str
    source: str
    mutation: Mutation

    @property
    def text(self) -> str:
        """The broken file."""
        return self.mutation.applied_to(self.source)

    @property
    def id(self) -> str:
        """Equal for mutants that are the same file."""
        return sha256(f"{self.path}\n{self.text}".encode()).hexdigest()

    def __str__(self) -> str:
        diff = unified_diff(self.source.splitlines(), self.text.splitlines(), n=0, lineterm="")
        changed = [line for line in diff if not line.startswith(("---", "+++", "@@"))]
        return "\n".join([f"{self.path}:{self.mutation.line}: {self.mutation.operator}", *changed])


class Results:
    """What became of mutants, as kept in a file."""

    def __init__(self, file: Path, tests: str) -> None:
        self._file = file
        self._tests = tests
        kept = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
        self._results: dict[str, str] = {
            entry["mutant"]: entry["result"] for entry in kept if entry["result"] != SURVIVED or entry["tests"] == tests
        }

    def __contains__(self, mutant: Mutant) -> bool:
        return mutant.id in self._results

    def __getitem__(self, mutant: Mutant) -> str:
        return self._results[mutant.id]

    def add(self, mutant: Mutant, result: str) -> None:
        """Keep a result."""
        self._results[mutant.id] = result
        with self._file.open("a") as file:
            file.write(json.dumps({"mutant": mutant.id, "result": result, "tests": self._tests}) + "\n")


def main() -> int:
    """The program; the present folder is the project."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=["allocator", "scheduler"], help="files or folders to break")
    parser.add_argument("--count", type=int, default=200, help="how many mutants (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tests at once (default: one on each core)")
    parser.add_argument(
        "--grace", type=int, default=20, help="seconds for tests beyond three times what they take (default: 20)"
    )
    arguments = parser.parse_args()
    for option in ("count", "jobs", "grace"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option}: {getattr(arguments, option)} is less than 1")
    for path in arguments.paths:
        if not _is_within(path) or not sources(Path(), [path]):
            parser.error(f"{path}: no Python files of the project there")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    KEPT.mkdir(parents=True, exist_ok=True)
    code = 0
    try:
        code = asyncio.run(_run(arguments))
    except* BrokenTestsError as errors:
        print(f"\n{errors.exceptions[0]}", file=sys.stderr)
        code = 2
    except* KeyboardInterrupt:
        print("\ninterrupted: the next run goes on from here", file=sys.stderr)
        code = 130
    return code


async def _run(arguments: argparse.Namespace) -> int:
    with TemporaryDirectory(prefix="dra-mutants-") as folder:
        trees = [Tree(Path(), Path(folder) / str(job)) for job in range(arguments.jobs)]
        root = trees[0].root
        mutants = drawn(root, arguments.paths, arguments.count, arguments.seed)
        traces = await _traced(trees, root)
        results = Results(KEPT / "results.jsonl", digest(root, files_of_tests(root)))

        async def decide(tree: Tree, mutant: Mutant) -> None:
            results.add(mutant, await result_of(mutant, tree, traces, arguments.grace))
            _progress(_counted(results, mutants))

        await _shared(trees, [mutant for mutant in mutants if mutant not in results], decide)
    survivors = [mutant for mutant in mutants if results[mutant] == SURVIVED]
    for mutant in survivors:
        print(f"\n{mutant}")
    print(f"\n{_counted(results, mutants)}")
    return 1 if survivors else 0


def _is_within(path: str) -> bool:
    return not Path(path).is_absolute() and ".." not in Path(path).parts


def sources(root: Path, paths: Iterable[str]) -> Sequence[str]:
    """The Python files at these paths of the project."""
    found = ((root / path).rglob("*.py") if (root / path).is_dir() else root.glob(path) for path in paths)
    return sorted({str(file.relative_to(root)) for files in found for file in files if file.suffix == ".py"})


def drawn(root: Path, paths: Iterable[str], count: int, seed: int) -> Sequence[Mutant]:
    """So many mutants, or all where there are fewer, in the order of their places."""
    every: list[Mutant] = []
    for path in sources(root, paths):
        source = (root / path).read_text()
        every.extend(Mutant(path, source, mutation) for mutation in mutations(source))
    places = Random(seed).sample(range(len(every)), min(count, len(every)))  # noqa: S311
    return [every[place] for place in sorted(places)]


async def _traced(trees: Sequence[Tree], root: Path) -> Mapping[str, Trace]:
    traces = Traces(KEPT / "traces", root)
    missing = traces.missing()

    async def trace(tree: Tree, test: str) -> None:
        await traces.add(tree, test)
        done = len(missing) - len(traces.missing())
        _progress(f"finding which tests call what: {done}/{len(missing)} test files")

    await _shared(trees, missing, trace)
    return traces.by_test()


async def _shared(trees: Sequence[Tree], work: Iterable[T], do: Callable[[Tree, T], Awaitable[None]]) -> None:
    """Do the work, each tree taking the next piece when it is free."""
    left = iter(work)

    async def take(tree: Tree) -> None:
        for piece in left:
            await do(tree, piece)

    async with asyncio.TaskGroup() as group:
        for tree in trees:
            group.create_task(take(tree))


async def result_of(mutant: Mutant, tree: Tree, traces: Mapping[str, Trace], grace_s: float) -> str:
    """Whether the tests that call the function around the mutation notice it."""
    for tests in batches(files_that_run(mutant.path, mutant.mutation.function, traces)):
        limit_s = grace_s + 3 * sum(traces[test].seconds for test in tests)
        passes = await tree.passes(mutant.path, mutant.text, tests, limit_s)
        if not passes:
            return TIMED_OUT if passes is None else KILLED
    return SURVIVED


def batches(tests: Sequence[str]) -> Iterator[Sequence[str]]:
    """Two test files, then twice as many each time: the first ones kill most mutants, and each start takes a second."""
    start, size = 0, 2
    while start < len(tests):
        yield tests[start : start + size]
        start, size = start + size, size * 2


def _counted(results: Results, mutants: Sequence[Mutant]) -> str:
    counts = Counter(results[mutant] for mutant in mutants if mutant in results)
    each = ", ".join(f"{counts[result]} {result}" for result in (KILLED, TIMED_OUT, SURVIVED))
    return f"{counts.total()}/{len(mutants)} mutants: {each}"


def _progress(line: str) -> None:
    print(f"\r\x1b[K{line}" if sys.stderr.isatty() else line, end="" if sys.stderr.isatty() else "\n", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
