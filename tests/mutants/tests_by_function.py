"""Which test files run a function: found by running each alone, kept until it or a module that it imports changes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from tests.mutants.tree import Trace, Tree

FOLDERS = ("tests/unit", "tests/properties", "tests/conformance")
"""Integration tests are left out: they take too long, and depend on more than the sources."""


def files_of_tests(root: Path) -> Sequence[str]:
    """The files whose tests have to notice, by their paths in the project."""
    found = (file for folder in FOLDERS for file in (root / folder).rglob("test_*.py"))
    return sorted(str(file.relative_to(root)) for file in found)


def digest(root: Path, paths: Iterable[str]) -> str:
    """Of the files' names and contents."""
    reported = sha256()
    for path in sorted(paths):
        content = (root / path).read_bytes() if (root / path).exists() else b""
        reported.update(f"{path}\0{sha256(content).hexdigest()}\n".encode())
    return reported.hexdigest()


class Traces:
    """What each test file ran, as kept in a folder."""

    def __init__(self, folder: Path, root: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._root = root
        self._files = {test: folder / f"{test.replace('/', '.')}.json" for test in files_of_tests(root)}
        self._traces = {test: trace for test, file in self._files.items() if (trace := self._kept(file))}

    def missing(self) -> Sequence[str]:
        """The test files that have to run."""
        return [test for test in self._files if test not in self._traces]

    def by_test(self) -> Mapping[str, Trace]:
        """By test file."""
        return self._traces

    async def add(self, tree: Tree, test: str) -> None:
        """Run a test file, and keep what it ran."""
        trace = self._traces[test] = await tree.trace(test)
        kept = [digest(self._root, trace.modules), trace.seconds, sorted(trace.functions)]
        self._files[test].write_text(json.dumps(kept))

    def _kept(self, file: Path) -> Trace | None:
        """None where there is none, or a module has changed since."""
        if not file.exists():
            return None
        reported, seconds, functions = json.loads(file.read_text())
        trace = Trace(seconds, frozenset(functions))
        return trace if digest(self._root, trace.modules) == reported else None


def files_that_run(path: str, function: str, traces: Mapping[str, Trace]) -> Sequence[str]:
    """The test files that run the function, those first that cost least for each function of its file that they run."""

    def cost(test: str) -> float:
        trace = traces[test]
        return trace.seconds / sum(name.startswith(f"{path}:") for name in trace.functions)

    return sorted((test for test, trace in traces.items() if f"{path}:{function}" in trace.functions), key=cost)
