"""Scenarios on many machines, by the workers of a dask scheduler: the extra `dask`.

The input goes to the workers by its contents, as a task of its own, so that it can be had again if the worker dies that
has it. The scheduler runs the tasks of a worker that died on another one.
"""

import logging
import os
import pickle
import sys
import threading
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scheduler import VERSION
from scheduler.cli.ending import print_to_stderr
from scheduler.cli.printing import after_delay
from scheduler.cli.run_scenarios import Progress, Runner, died
from scheduler.cli.scenarios import BrokenPolicy, Case, Plan, ScenarioFailed, files_below, require_none, run_case
from scheduler.installation import sources_digest
from scheduler.simulation.result import Scenario, scenario_json, scenario_of

if TYPE_CHECKING:
    from distributed import Client, Future


# What scenarios read, as bytes: to run them on a machine that does not have the files.


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


_ALONE = threading.Lock()
"""Reading input redirects the process' standard streams: a worker runs one scenario at a time."""

_OTHER_CODE = "deserialization"
"""In dask's words for code that the scheduler or a worker does not have."""


_HOW_TO_INSTALL = f"make install EXTRA=dask, or {sys.executable} -m pip install distributed"


@contextmanager
def on_cluster(address: str) -> Iterator[Runner]:
    """Connected to the scheduler at that address, such as tcp://host:8786. Raises ScenarioFailed."""
    with _connected(address) as client:
        print_to_stderr(f"warning: {text}" for text in _doubts(address, client.scheduler_info(n_workers=-1)))
        yield partial(_in_cluster, client)


@contextmanager
def _connected(address: str) -> "Iterator[Client]":
    try:
        from distributed import Client
        from distributed.comm import get_address_host
    except ImportError as error:
        raise ScenarioFailed(f"--scheduler needs dask: {_HOW_TO_INSTALL}") from error
    for name in ("distributed", "distributed.client"):  # what they log is raised as well
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        get_address_host(address)  # a client that has failed on it waits for a minute
        with after_delay(f"connecting to {address} ..."):
            client = Client(address, set_as_default=False, name="dra-simulate")
    except (OSError, ValueError) as error:
        raise ScenarioFailed(f"--scheduler {address}: {error}") from error
    with client:
        yield client


def _doubts(address: str, scheduler: Mapping[str, Any]) -> Iterator[str]:
    workers = scheduler["workers"].values()
    if not workers:
        yield f"{address} has no workers yet: the scenarios wait for them"
    if wide := sum(worker["nthreads"] > 1 for worker in workers):
        yield (
            f"{wide} of {len(workers)} workers of {address} have several threads, and run one scenario at a time: "
            "start workers with --nworkers auto --nthreads 1"
        )


def _in_cluster(
    client: "Client", plan: Plan, cases: Sequence[Case], progress: Progress
) -> Iterator[tuple[Case, Scenario]]:
    """Each scenario when it has finished.

    Raises ScenarioFailed: at once for a scenario that cannot be run; after all others for one whose workers died, or
    whose policy fails.
    """
    from distributed import KilledWorker

    rounds, problems, ended = [cases], list[str](), 0
    while rounds:
        together = rounds.pop()
        for case, future in _ended(client, plan, together):
            try:
                yield case, scenario_of(_result(future))
            except KilledWorker:
                if len(together) > 1:
                    rounds.append([case])  # dask also blames those that waited in the same worker: once more, alone
                    continue
                problems.append(died(case))
            except BrokenPolicy as error:
                problems.append(str(error))
            ended += 1
            progress(ended, len(cases))
    require_none(problems)


def _ended(client: "Client", plan: Plan, cases: Sequence[Case]) -> "Iterator[tuple[Case, Future]]":
    from distributed import as_completed

    futures = _submitted(client, plan, cases)
    for future in as_completed(list(futures), loop=client.loop, raise_errors=False):
        yield futures.pop(future), future


def _submitted(client: "Client", plan: Plan, cases: Sequence[Case]) -> "dict[Future, Case]":
    """The input is a task too: what is put on workers directly is lost with them."""
    program, archive = _program(), archived(plan, cases)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")
        files = client.submit(_given, archive, pure=False)
    tasks = [_Task(program, replace(plan, stdin=b""), case) for case in cases]
    return {client.submit(_run_in_worker, task, files, pure=False): task.case for task in tasks}


def _result(future: "Future") -> bytes:
    """Raises ScenarioFailed, KilledWorker, and whatever else a worker has raised."""
    if future.cancelled() or future.status == "lost":
        raise ScenarioFailed(f"the scheduler {future.client.scheduler.addr} has gone")
    error = future.exception()
    if isinstance(error, ImportError) or _OTHER_CODE in str(error):
        cause = error.__cause__ or error
        raise ScenarioFailed(f"the scheduler and its workers need dra-scheduler {VERSION}: {cause}") from error
    result = future.result()
    assert isinstance(result, bytes)
    return result


def _program() -> str:
    return f"dra-scheduler {VERSION} (sources {sources_digest()})"


# -- in a worker


@dataclass(frozen=True, slots=True)
class _Task:
    """program: the client's."""

    program: str
    plan: Plan
    case: Case


def _given(archive: bytes) -> bytes:
    return archive


def _run_in_worker(task: _Task, archive: bytes) -> bytes:
    """The scenario in JSON. Raises ScenarioFailed, BrokenPolicy."""
    from distributed import get_worker

    if task.program != _program():
        raise ScenarioFailed(f"worker {get_worker().address} has {_program()}, but this is {task.program}")
    with _ALONE:
        folder, files = _unpacked(archive)
        root = Path(folder.name)
        try:
            return scenario_json(run_case(*files.moved(root, task.plan, task.case)))
        except ScenarioFailed as error:
            raise ScenarioFailed(files.named(root, str(error))) from error


@lru_cache(maxsize=1)
def _unpacked(archive: bytes) -> tuple[TemporaryDirectory[str], InputArchive]:
    """The files of the input, in a folder that is removed when the worker gets other input, or ends."""
    from distributed import get_worker

    folder = TemporaryDirectory(dir=get_worker().local_directory)
    files = pickle.loads(archive)  # noqa: S301 - as the task, which comes with it
    assert isinstance(files, InputArchive)
    files.unpack(Path(folder.name))
    return folder, files
