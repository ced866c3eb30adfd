"""Verifies the installation: the three import packages are also names of other distributions.

An installer silently overwrites one with the other, and the program would then run foreign code. So each package must
have exactly one owner. Also reports whether the allocator is compiled.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from scheduler import VERSION

DISTRIBUTION = "dra-scheduler"
PACKAGES = ("allocator", "cel", "scheduler")


class InstallationError(Exception):
    """The environment holds another distribution that installs one of our packages, or not ours."""


def verify(owners: Mapping[str, Sequence[str]] | None = None) -> None:
    """Raises InstallationError unless each of our packages belongs to our distribution alone.

    owners: import package to distributions; None asks the environment.
    """
    known = _owners() if owners is None else owners
    for package in PACKAGES:
        intruders = sorted({name for name in known.get(package, ()) if _normal(name) != DISTRIBUTION})
        if intruders:
            raise InstallationError(
                f"the package {package!r} is also installed by {', '.join(intruders)}: "
                f"install {DISTRIBUTION} into an environment of its own, or uninstall {', '.join(intruders)}"
            )
        if not known.get(package):
            raise InstallationError(
                f"the package {package!r} belongs to no distribution: {DISTRIBUTION} is not installed"
            )


def is_compiled() -> bool:
    """Whether the allocator was compiled (docs/adr/0003); imports nothing for the answer."""
    package = find_spec("allocator")
    if package is None or package.origin is None:
        return False
    return any(Path(package.origin).with_name(f"allocate{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


def description() -> str:
    """The version, and whether the allocator was compiled."""
    return f"{VERSION} ({'compiled' if is_compiled() else 'not compiled'})"


def sources_digest() -> str:
    """Of the code of our packages: programs with the same one decide the same, whether compiled or not."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        folder = Path(spec.origin).parent if spec and spec.origin else Path()
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{package}/{file.relative_to(folder)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _owners() -> Mapping[str, Sequence[str]]:
    """Our packages to the names of the distributions that install them.

    importlib.metadata's packages_distributions() reads every file name and all metadata of every distribution, which
    takes half of the time of `dra --help`; here only the metadata of owners is read.
    """
    owners: dict[str, list[str]] = {package: [] for package in PACKAGES}
    for distribution in distributions():
        for package in _installed_by(distribution):
            owners[package].append(distribution.metadata["Name"])
    return owners


def _installed_by(distribution: Distribution) -> set[str]:
    """Those of our packages that it installs: as it declares, or as its record of files says."""
    if declared := distribution.read_text("top_level.txt"):
        return set(PACKAGES).intersection(declared.split())
    return set(_MODULE.findall(distribution.read_text("RECORD") or ""))


_MODULE = re.compile(rf'^"?({"|".join(PACKAGES)})(?:/.*)?\.py"?,', re.MULTILINE)
"""A line of RECORD with a module of one of our packages."""


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
