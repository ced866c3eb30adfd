"""What scenarios read, as bytes: to run them on a machine that does not have the files."""

import os
import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from scheduler.cli.input_digests import files_below
from scheduler.cli.scenarios import Case, Plan

_FAST = 1
"""The level of compression: manifests become a tenth of their size with any."""


@dataclass(frozen=True, slots=True)
class InputArchive:
    """Contents of files. stdin: of the plan.

    names: how plan and cases name a path, to its absolute path. folders: absolute paths. files: absolute paths to
    compressed contents.
    """

    stdin: bytes
    names: Mapping[str, str]
    folders: frozenset[str]
    files: Mapping[str, bytes]

    def unpack(self, root: Path) -> None:
        """Write the files below the folder. Raises OSError."""
        for folder in self.folders:
            Path(below(root, folder)).mkdir(parents=True, exist_ok=True)
        for path, compressed in self.files.items():
            place = Path(below(root, path))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(zlib.decompress(compressed))

    def moved(self, root: Path, plan: Plan, case: Case) -> tuple[Plan, Case]:
        """A plan and a case that read what was unpacked below the folder."""

        def place(name: str) -> str:
            return below(root, self.names[name]) if name in self.names else name

        return replace(plan.moved(place), stdin=self.stdin), case.moved(place)

    def named(self, root: Path, text: str) -> str:
        """A text about files that were unpacked, as one about the files that the user knows."""
        for name, path in self.names.items():
            text = text.replace(below(root, path), name)
        return text


def below(root: Path, path: str) -> str:
    """Where an absolute path is unpacked."""
    return f"{root}{path}"


def archived(plan: Plan, cases: Iterable[Case]) -> bytes:
    """All that the scenarios read. What cannot be read is left out, and missed where it is read."""
    given = (*plan.files, *(file for case in cases for file in case.files))
    names = {name: os.path.abspath(name) for name in given}  # noqa: PTH100 - resolve() follows links: names have a meaning
    folders = {path for path in names.values() if Path(path).is_dir()}
    files = {str(file): zlib.compress(file.read_bytes(), _FAST) for file in _files(names.values())}
    return pickle.dumps(InputArchive(plan.stdin, names, frozenset(folders), files))


def _files(paths: Iterable[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            yield from files_below(path)
        elif path.is_file():
            yield path
