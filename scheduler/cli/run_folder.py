"""The folder of `dra simulate --results`: one file for each scenario that has finished, and what run they are of.

A scenario's file is written whole or not at all, and its name has a digest of everything that decides what comes of the
scenario: the options, the contents of the input, and the program. So no scenario is taken for another one.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

from scheduler.cli.ending import print_to_stderr
from scheduler.cli.scenarios import Case, Plan, ScenarioFailed
from scheduler.installation import sources_digest
from scheduler.simulation.result import InvalidResult, Scenario, scenario_json, scenario_of
from scheduler.version import VERSION

_PLAN, _LOCK = "plan.json", "lock"

Identity = Mapping[str, object]
"""What decides what comes of all scenarios of a run, in JSON's types."""


class RunFolder:
    """A folder that this process alone writes to. kept: how many of the run's scenarios are in it."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.kept = 0
        self._plan = plan
        self._identity = identity_of(plan)

    def find(self, case: Case) -> Scenario | None:
        """The scenario, if it has finished. A file that is not whole is reported, and as if it were not there."""
        file = self.folder / self._name(case)
        try:
            found = scenario_of(file.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ScenarioFailed(f"{file}: cannot be read: {error.strerror}") from error
        except InvalidResult as error:
            print_to_stderr([f"warning: {file}: is not a whole result, its scenario runs again: {error}"])
            return None
        self.kept += 1
        return replace(found, parameters=case.variant.parameters)

    def keep(self, case: Case, scenario: Scenario) -> None:
        """Write it. Raises ScenarioFailed, if it cannot be written."""
        _write(self.folder / self._name(case), scenario_json(scenario))
        self.kept += 1

    def require_same(self, *, resumes: bool) -> None:
        """Raises ScenarioFailed unless the folder is empty, or holds this run and resumes is true."""
        file = self.folder / _PLAN
        if not file.exists():
            if resumes:
                raise ScenarioFailed(f"{self.folder}: holds no run to be resumed")
            _write(file, json.dumps(self._identity, indent=1).encode())
        elif not resumes:
            raise ScenarioFailed(f"{self.folder}: holds a run already: --resume goes on with it")
        elif differing := sorted(_differing(_stored(file), self._identity)):
            raise ScenarioFailed(f"{self.folder}: holds another run: {', '.join(differing)} differ")

    def _name(self, case: Case) -> str:
        text = json.dumps([self._identity, _case_identity(self._plan, case)], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{''.join(c if c.isalnum() else '-' for c in case.policy)}-{case.seed}-{digest}.json"


@contextmanager
def opened(folder: Path, plan: Plan, *, resumes: bool) -> Iterator[RunFolder]:
    """The folder, for this process alone. Raises ScenarioFailed."""
    found = RunFolder(folder, plan)
    with _locked(folder):
        found.require_same(resumes=resumes)
        yield found


def identity_of(plan: Plan) -> Identity:
    """Of a run. Its scenarios add what is theirs."""
    fields = {name: value for name, value in asdict(plan).items() if name != "digests"}
    return {
        **fields,
        "program": f"{VERSION} {sources_digest()}",
        "stdin": hashlib.sha256(plan.stdin).hexdigest(),
        "config": str(plan.config or ""),
        "gates": dict(plan.gates),
        "files": plan.digests_of(plan.files),
        **{name: list(value) for name, value in fields.items() if isinstance(value, tuple) and name != "gates"},
    }


def _case_identity(plan: Plan, case: Case) -> Identity:
    """Of a scenario, beside that of its run. Its parameters only say which of its options were varied."""
    variant = {name: value for name, value in asdict(case.variant).items() if name != "parameters"}
    return {**variant, "policy": case.policy, "seed": case.seed, "files": plan.digests_of([*case.files, case.policy])}


def _differing(before: Identity, now: Identity) -> Iterator[str]:
    for name in {*before, *now}:
        old, new = before.get(name), now.get(name)
        if name == "files" and isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from (f"the contents of {file}" for file in old.keys() & new.keys() if old[file] != new[file])
        elif old != new:
            yield name


def _stored(file: Path) -> Identity:
    try:
        found = json.loads(file.read_text())
    except OSError as error:
        raise ScenarioFailed(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ScenarioFailed(f"{file}: is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ScenarioFailed(f"{file}: is not an object")
    return found


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """No other process has the folder meanwhile; the system frees it, however this process ends."""
    import fcntl  # not on every system; only --results needs it

    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("a+")
    except OSError as error:
        raise ScenarioFailed(f"{folder}: cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise ScenarioFailed(f"{folder}: is in use by another run, process {file.read() or 'unknown'}") from error
        _name_process(file, folder)
        yield


def _name_process(file: IO[str], folder: Path) -> None:
    try:
        file.truncate(0)
        file.write(f"{os.getpid()}")
        file.flush()
    except OSError as error:
        raise ScenarioFailed(f"{folder}: cannot be written: {error.strerror}") from error


def _write(file: Path, content: bytes) -> None:
    """All of it, or nothing, also if the machine stops."""
    partial = file.with_suffix(".partial")
    try:
        with partial.open("wb") as opened_file:
            opened_file.write(content)
            opened_file.flush()
            os.fsync(opened_file.fileno())
        partial.replace(file)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise ScenarioFailed(f"{file}: cannot be written: {error.strerror}") from error
