"""Tests that are long and depend on few files are left out where they passed with the same files before.

A test says what it depends on beside itself: `@pytest.mark.depends_on(*PRODUCT, "docs/simulate.md")`. A digest is made
of that, of the test files that it imports from, of the helpers of all tests and of the locked requirements. If the test
passed with that digest, on this machine and with this Python, `make check` counts it as `unchanged`; `make nightly` and
pytest alone run it all the same. A fresh machine has no cache, and runs everything.
"""

import platform
import re
import sys
from collections.abc import Generator, Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from tests import extent

WORD = "unchanged since it passed"
ALWAYS = ("requirements/dev.txt", "pyproject.toml")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--passed", type=Path, required=True, help="folder for the digests of tests that passed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    passed = config.getoption("--passed")
    for item in items:
        if not extent.is_nightly() and (key := key_of(item)) and (passed / key).exists():
            item.add_marker(pytest.mark.skip(reason=WORD))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep that it passed, once its end has passed too."""
    report = yield
    if report.failed or report.skipped:
        item.stash[_FAILED] = True
    elif report.when == "teardown" and not item.stash.get(_FAILED, False) and (key := key_of(item)):
        folder = item.config.getoption("--passed")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / key).touch()
    return report


_FAILED = pytest.StashKey[bool]()


def key_of(item: pytest.Item) -> str:
    """Of the test and of everything that it depends on; empty where it does not say."""
    named = {path for mark in item.iter_markers("depends_on") for path in mark.args}
    if not named:
        return ""
    root = item.config.rootpath
    paths = sorted({*named, *ALWAYS, *_test_files(root, str(item.path.relative_to(root)))})
    said = [item.nodeid, sys.version, platform.platform(), *(_digest(root / path) for path in paths), _helpers(root)]
    return sha256("\n".join(said).encode()).hexdigest()


def _test_files(root: Path, file: str) -> Iterator[str]:
    """The file, and the other test files that it imports from."""
    yield file
    for module in re.findall(r"^\s*from (tests\S*\.test_\w+) import", (root / file).read_text(), re.MULTILINE):
        yield from _test_files(root, f"{module.replace('.', '/')}.py")


@cache
def _digest(path: Path) -> str:
    """Of a file, or of all that a folder holds. Raises FileNotFoundError where there is none: it was misspelled."""
    files = [path] if not path.is_dir() else [file for file in path.rglob("*") if file.is_file()]
    return _digest_of(sorted(file for file in files if "__pycache__" not in file.parts))


@cache
def _helpers(root: Path) -> str:
    """Of what tests import from each other, beside their own file."""
    return _digest_of(sorted(file for file in (root / "tests").rglob("*.py") if not file.name.startswith("test_")))


def _digest_of(files: Sequence[Path]) -> str:
    said = sha256()
    for file in files:
        said.update(f"{file}\0{sha256(file.read_bytes()).hexdigest()}\n".encode())
    return said.hexdigest()
