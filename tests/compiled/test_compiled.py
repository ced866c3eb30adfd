"""The allocator compiled by mypyc: the same sources, so the same tests have to pass."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extent import PRODUCT

pytestmark = pytest.mark.depends_on(*PRODUCT, "Makefile", "tests", "docs", "manifests")

ROOT = Path(__file__).resolve().parents[2]
COMPILED = ROOT / ".cache" / "compiled"
TESTS = (
    *("tests/unit/allocator", "tests/conformance/test_allocation_vectors.py"),
    "tests/unit/scheduler/cli/test_scheduler.py",  # the whole program can be imported beside it
)


@pytest.fixture(scope="module")
def compiled() -> dict[str, str]:
    """The environment in which the compiled allocator is found first."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    here = f"{sys.prefix}/.run"  # is what runs this test: nothing is to be installed into it
    subprocess.run(["make", "compiled", f"VENV={sys.prefix}", "-o", here], cwd=ROOT, check=True, capture_output=True)  # noqa: S607
    return {**os.environ, "PYTHONPATH": f"{COMPILED}:{ROOT}"}


def test_compiled_modules_are_found_before_their_sources(compiled: dict[str, str]) -> None:
    program = (
        "import allocator.search.backtracking as first, allocator.features as second; "
        "print(first.__file__, second.__file__)"
    )
    command = [sys.executable, "-P", "-c", program]
    found = subprocess.run(command, cwd=ROOT, env=compiled, check=True, capture_output=True, text=True).stdout.split()
    assert [Path(file).suffix for file in found] == [".so", ".so"]
    assert all(Path(file).is_relative_to(COMPILED) for file in found)


def test_compiled_allocator_passes_the_tests_of_the_pure_one(compiled: dict[str, str]) -> None:
    first = f"pythonpath={COMPILED}"  # pytest puts what its configuration names before everything else
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", first, *TESTS]
    found = subprocess.run(command, cwd=ROOT, env=compiled, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-5000:]
