"""Tests that are long and depend on few files are left out where they passed with the same files before.

A test says what it depends on beside itself: `@pytest.mark.depends_on(*PRODUCT, "docs/simulate.md")`. A digest is made
of that, of the test files that it imports from, of the helpers of all tests and of the locked requirements. If the test
passed with that digest, on this machine and with this Python, `make check` counts it as `unchanged`; `make nightly` and
pytest alone run it all the same. A fresh machine has no cache, and runs everything.
"""

import platform
import re
import sys
from collections.abc import Generator, Iterator
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
    helpers = [f"{path.relative_to(root)}" for path in (root / "tests").rglob("*.py") if path.name[:5] != "test_"]
    paths = {*named, *ALWAYS, *_test_files(root, str(item.path.relative_to(root))), *helpers}
    said = [item.nodeid, sys.version, platform.platform(), digest(root, *paths)]
    return sha256("\n".join(said).encode()).hexdigest()


def _test_files(root: Path, file: str) -> Iterator[str]:
    """The file, and the other test files that it imports from."""
    yield file
    for module in re.findall(r"^\s*from (tests\S*\.test_\w+) import", (root / file).read_text(), re.MULTILINE):
        yield from _test_files(root, f"{module.replace('.', '/')}.py")


def digest(root: Path, *paths: str) -> str:
    """Of files, and of all that folders hold, wherever the checkout is. Raises FileNotFoundError: a misspelled path."""
    return sha256("".join(_digest(root, path) for path in sorted(paths)).encode()).hexdigest()


@cache
def _digest(root: Path, name: str) -> str:
    path = root / name
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    said = sha256()
    for file in files:
        if "__pycache__" not in file.parts:
            said.update(f"{file.relative_to(root)}\0{sha256(file.read_bytes()).hexdigest()}\n".encode())
    return said.hexdigest()
