"""Digests of what scenarios read: all of them run on the same input, also if a file is edited meanwhile."""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from allocator.policies.own_class import names_a_class
from scheduler.input.documents import Finding, manifests_below


class NotReadTwice(ValueError):
    """A path of which nothing is left once it was read; the text names it."""


def digests_of(paths: Iterable[str]) -> Mapping[str, str]:
    """The digest of each file or folder. Raises NotReadTwice, for a pipe or the like."""
    return {path: digest_of(Path(path)) for path in paths}


def digest_of(path: Path) -> str:
    """Of a file's bytes, or of the manifests below a folder and their names; empty where there is nothing to read."""
    if path.is_dir():
        return _digest(f"{file.relative_to(path)}\0{_file_digest(file)}\n".encode() for file in files_below(path))
    if path.exists() and not path.is_file():
        raise NotReadTwice(
            f"{path}: is not a regular file, and every scenario reads its input: use a file, or - for stdin"
        )
    return _file_digest(path)


def files_below(folder: Path) -> Iterator[Path]:
    """Those that are read of a folder."""
    return (Path(file) for file in manifests_below(str(folder)) if not isinstance(file, Finding))


def policy_digest(policy: str) -> str:
    """Of the module of a user's policy; empty for a built-in one. What the module imports is not looked at."""
    file = module_file(policy)
    return digest_of(file) if file else ""


def module_file(policy: str) -> Path | None:
    """The file of the module of a user's policy."""
    if not names_a_class(policy):
        return None
    name = policy.partition(":")[0]
    spec = sys.modules[name].__spec__ if name in sys.modules else find_spec(name)
    return Path(spec.origin) if spec and spec.origin else None


def _file_digest(file: Path) -> str:
    """Empty where it cannot be read: whoever reads it says so."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


def _digest(chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()
