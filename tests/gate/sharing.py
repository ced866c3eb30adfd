"""Several processes share the files of one folder: `python -m pytest -p tests.gate.sharing --claims=FOLDER tests/...`.

Each collects all, and takes the next file that no other has taken when it has run its last one: nobody waits for a
share that was drawn before. A file is taken as a whole, since its tests share what it starts. Those that took longest
the last time come first, beside those that nobody knows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--claims", type=Path, required=True, help="folder for what the processes have taken")
    parser.addoption("--together", action="append", default=[], help="files or folders that are taken at once: a,b,c")
    parser.addoption("--seconds", type=Path, help="JSON file: what each file took the last time")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """pytest's own loop, over what is taken."""
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} errors during collection")
    config = session.config
    together = [group.split(",") for group in config.getoption("--together")]
    items = taken(session.items, config.getoption("--claims"), together, _seconds(config.getoption("--seconds")))
    item = next(items, None)
    while item is not None:
        following = next(items, None)  # by which pytest knows what is still needed after the test
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


def taken(
    items: Sequence[pytest.Item], claims: Path, together: Sequence[Sequence[str]], seconds: Mapping[str, float]
) -> Iterator[pytest.Item]:
    """The tests of the files that this process takes; each is taken when its first test is asked for.

    together: files and folders that are taken as one, since they share what takes long to start.
    """
    groups: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:  # those of one file need not stand side by side
        file = item.nodeid.partition("::")[0]
        group = next((",".join(paths) for paths in together if any(_is_in(file, path) for path in paths)), file)
        groups.setdefault(group, {}).setdefault(file, []).append(item)

    def took(group: str) -> float:
        return sum(seconds.get(file, float("inf")) for file in groups[group])

    for group in sorted(groups, key=took, reverse=True):
        if _take(claims, group):
            yield from chain.from_iterable(groups[group].values())


def _is_in(file: str, path: str) -> bool:
    return file == path or file.startswith(f"{path}/")


def _take(claims: Path, group: str) -> bool:
    try:
        (claims / sha256(group.encode()).hexdigest()).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _seconds(file: Path | None) -> Mapping[str, float]:
    """Nothing where there is no file, or where it is half written: only the order depends on it."""
    try:
        found: Mapping[str, float] = json.loads(file.read_text()) if file else {}
    except (OSError, ValueError):
        return {}
    return found
