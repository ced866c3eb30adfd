"""What the gate runs, and which of it runs side by side."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import extent

UNIT, INTEGRATION = "tests/unit", "tests/integration"
"""The latter's tests wait for a control plane more than they compute, and may fail because the machine is busy."""


TOGETHER = (
    f"{INTEGRATION}/guard",  # an API server that gives up early
    ",".join(
        f"{INTEGRATION}/{name}.py"  # one with all gates
        for name in (
            "test_client",
            "test_control_plane",
            "test_validation",
            "test_validation_of_manifests",
            "live/test_taint_rules",
        )
    ),
)
"""What starts a control plane of its own kind, once for each process that runs any of it."""

SECONDS = "seconds.json"
"""What each test file took the last time, in the cache."""


@dataclass(frozen=True)
class Part:
    """One process. is_tests: pytest, which keeps a record. is_patient: it gives way to those that are not."""

    name: str
    command: Sequence[str]
    is_tests: bool = False
    is_patient: bool = False


Lane = Sequence[Part]
"""Parts that run one after the other, beside the other lanes."""


def lanes(root: Path, claims: Path, cache: Path) -> Sequence[Lane]:
    """The whole gate: tests with a control plane, those without in two processes, and checks of style.

    claims: an empty folder, for what the processes with a control plane take. cache: what is known from the last time.
    """
    # One more than there are cores: most of the time two of three wait.
    shared = ["-p", "tests.gate.sharing", f"--claims={claims}", f"--seconds={cache / SECONDS}", INTEGRATION]
    shared += [f"--together={paths}" for paths in TOGETHER]
    others = [f"tests/{name}" for name in _folders(root) if f"tests/{name}" not in (INTEGRATION, UNIT)]
    return [
        *([pytest_part(f"integration {number}", cache, *shared)] for number in range(1, (os.cpu_count() or 1) + 2)),
        [pytest_part("properties and others", cache, *others, is_patient=True)],
        [pytest_part("unit", cache, UNIT, is_patient=True)],
        [
            _check("ruff check", "ruff", "check", "."),
            _check("ruff format", "ruff", "format", "--check", "."),
            _check("lint-imports", "lint-imports"),
            _check("mypy", "mypy"),
        ],
    ]


def _check(name: str, program: str, *arguments: str) -> Part:
    return Part(name, [str(Path(sys.executable).with_name(program)), *arguments], is_patient=True)


def pytest_part(name: str, cache: Path, *arguments: str, is_patient: bool = False) -> Part:
    """A process of pytest. Its own cache is left alone: several at once would each write one."""
    # In this order: pytest warns of a plugin that another one has imported before.
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.gate.unchanged", "-p", "tests.gate.record"]
    options += [f"--passed={cache / 'passed'}", *arguments]
    if extent.is_nightly():
        options += ["--hypothesis-profile=random", f"--hypothesis-seed={extent.day()}"]
    return Part(name, [sys.executable, "-m", "pytest", *options], is_tests=True, is_patient=is_patient)


def files(root: Path) -> frozenset[str]:
    """All test files, as pytest names them."""
    return frozenset(str(path.relative_to(root)) for path in (root / "tests").rglob("test_*.py"))


def _folders(root: Path) -> Sequence[str]:
    return sorted({Path(file).parts[1] for file in files(root)})
