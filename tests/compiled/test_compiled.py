"""The allocator compiled by mypyc: the same sources, so the same tests have to pass."""

import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.controlplane.binaries import cache_folder
from tests.extent import PRODUCT
from tests.gate.unchanged import digest

pytestmark = pytest.mark.depends_on(*PRODUCT, "Makefile", "tests", "docs", "manifests")

ROOT = Path(__file__).resolve().parents[2]
BUILT_FROM = ("cel", "allocator", "setup.py", "pyproject.toml", "Makefile", "requirements/build.txt")
KEPT = 5
"""So many of the builds that were used last: a change of the allocator makes another one, of some 20 MB."""
TESTS = (
    *("tests/unit/allocator", "tests/conformance/test_allocation_vectors.py"),
    "tests/unit/scheduler/cli/test_scheduler.py",  # the whole program can be imported beside it
)


@pytest.fixture(scope="module")
def folder() -> Path:
    """The compiled allocator, built once for the same sources; the scheduler beside it is that of the checkout."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    builds = cache_folder(os.environ) / "compiled"
    builds.mkdir(parents=True, exist_ok=True)
    machine = sha256(f"{sys.version} {platform.platform()}".encode()).hexdigest()
    built = builds / f"{digest(ROOT, *BUILT_FROM)[:16]}-{machine[:16]}"
    if not built.is_dir():
        _build(built)
    os.utime(built)
    for old in sorted(builds.glob("*-*"), key=os.path.getmtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return built


def _build(built: Path) -> None:
    here = f"{sys.prefix}/.run"  # is what runs this test: nothing is to be installed into it
    with TemporaryDirectory(dir=built.parent, prefix="building-") as unfinished:
        command = ["make", "compiled", f"COMPILED={unfinished}/it", f"VENV={sys.prefix}", "-o", here]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        for name in ("scheduler", ".build"):
            shutil.rmtree(Path(unfinished, "it", name))
        with suppress(FileExistsError):  # another checkout's gate was faster
            Path(unfinished, "it").rename(built)


@pytest.fixture(scope="module")
def compiled(folder: Path) -> dict[str, str]:
    """The environment in which the compiled allocator is found first."""
    return {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}


def test_compiled_modules_are_found_before_their_sources(compiled: dict[str, str], folder: Path) -> None:
    program = (
        "import allocator.search.backtracking as first, allocator.features as second; "
        "print(first.__file__, second.__file__)"
    )
    command = [sys.executable, "-P", "-c", program]
    found = subprocess.run(command, cwd=ROOT, env=compiled, check=True, capture_output=True, text=True).stdout.split()
    assert [Path(file).suffix for file in found] == [".so", ".so"]
    assert all(Path(file).is_relative_to(folder) for file in found)


def test_compiled_allocator_passes_the_tests_of_the_pure_one(compiled: dict[str, str], folder: Path) -> None:
    first = f"pythonpath={folder}"  # pytest puts what its configuration names before everything else
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", first, *TESTS]
    found = subprocess.run(command, cwd=ROOT, env=compiled, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-5000:]
