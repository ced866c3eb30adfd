"""`dra simulate --scheduler`: scenarios in the worker processes of a real dask cluster, some of which are killed."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from scheduler.simulation.result import result_of
from tests.unit.scheduler.cli.command import Run, saved, without_progress
from tests.unit.scheduler.cli.test_simulate import a_trace, an_arrival, measured_apart
from tests.unit.scheduler.cli.test_simulation_runs import DEADLY
from tests.unit.scheduler.manifests import a_cluster, a_pod, a_slice, text_of

BIN = Path(sys.executable).parent
OPTIONS = ("--policy", "pack", "--policy", "deadly_policy:Deadly", "--seeds", "1-3", "--durations", "exp:30")
WITHIN_S = 120


class Cluster:
    """A scheduler with workers on this machine. modules: a folder that the workers import from."""

    def __init__(self, folder: Path, address: str) -> None:
        self.address = address
        self.modules = folder / "modules"

    def deaths(self, most: int) -> None:
        """So many times more a process dies that runs the policy `deadly_policy:Deadly`."""
        (self.modules / "deaths").write_text("")
        (self.modules / "most").write_text(str(most))

    @property
    def died(self) -> int:
        return len((self.modules / "deaths").read_text())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "modules").mkdir()
    (folder / "modules" / "deadly_policy.py").write_text(DEADLY)
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'modules'}:{os.environ.get('PYTHONPATH', '')}"}
    local = ("--host", "127.0.0.1", "--no-dashboard")
    with started(("scheduler", "--port", "0", *local), folder, environment, r"Scheduler at: *(tcp://\S+)") as address:
        found = Cluster(folder, address)
        found.deaths(0)
        workers = ("worker", address, "--nworkers", "3", "--nthreads", "1", *local)
        with started(workers, folder, environment, r"Registered to: *(\S+)"):
            yield found


@contextmanager
def started(arguments: Sequence[str], folder: Path, environment: dict[str, str], said: str) -> Iterator[str]:
    """A process of dask from the moment on at which it reports this; what the pattern's group found."""
    command = [sys.executable, "-m", "dask", *arguments]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=PIPE, stderr=STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            yield next(found[1] for line in lines if (found := re.search(said, line)))
        finally:
            process.terminate()


def simulate(*options: str | Path, stdin: str = "", **environment: str) -> Run:
    command = [str(BIN / "dra"), "simulate", *map(str, options)]
    found = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
        env={**os.environ, **environment},
    )
    return Run(found.returncode, found.stdout, without_progress(found.stderr))


def a_workload(folder: Path) -> tuple[Path, Path]:
    """Pods for more devices than there are; a fleet in a folder, and a trace."""
    fleet = folder / "fleet"
    fleet.mkdir()
    saved(fleet, *a_cluster("n1", "n2"))
    (fleet / "notes.txt").write_text("not read")
    return fleet, a_trace(folder, *(an_arrival(n * 5, f"p{n}", duration=20) for n in range(30)))


def test_what_a_cluster_runs_is_byte_for_byte_what_processes_run_though_a_worker_is_killed(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{cluster.modules}:{os.environ.get('PYTHONPATH', '')}")
    fleet, trace = a_workload(tmp_path)
    order = a_trace(tmp_path, *({"seed": seed, "pods": [*range(20, 0, -1)]} for seed in (1, 2, 3)), name="order.jsonl")
    other = saved(tmp_path, a_slice(node="n1", count=7), name="other.yaml")
    varied = ("--set", "drain:n1", "--set", other, "--arrivals", "trace", "--arrivals", f"order:{order}")
    given = (fleet, "--trace", trace, *OPTIONS, *varied, "-o", "csv")
    here = simulate(*given, "--jobs", "2")
    assert here.code == 0, here.err
    cluster.deaths(1)
    there = simulate(*given, "--scheduler", cluster.address)
    assert (there.code, there.err) == (0, "")
    assert cluster.died == 1
    assert there.out == here.out
    assert len(there.out) > 10_000


def test_a_scenario_whose_workers_always_die_is_named_and_processes_go_on_with_the_others(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{cluster.modules}:{os.environ.get('PYTHONPATH', '')}")
    folder = tmp_path / "results"
    given = ("-", *OPTIONS[:4], "--results", folder, "-o", "json")
    stdin = text_of(*a_cluster("n1"), *(a_pod(name, template="one") for name in "abc"))
    cluster.deaths(99)
    run = simulate(*given, "--scheduler", cluster.address, stdin=stdin)
    assert (run.code, run.out) == (2, "")
    finished, error = run.err.splitlines()[-2:]
    assert finished == f"1 finished scenario is in {folder}; --resume goes on"
    assert error.startswith(
        "dra: policy deadly_policy:Deadly, seed 42: whenever it ran, its process died, at least 3 times"
    )
    cluster.deaths(0)
    resumed = simulate(*given, "--resume", stdin=stdin)
    assert resumed.code == 0, resumed.err
    fresh = simulate(*given[:5], "-o", "json", stdin=stdin)
    assert measured_apart(result_of(resumed.out)) == measured_apart(result_of(fresh.out))


def test_a_scenario_whose_policy_fails_is_named_and_the_others_are_kept(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{cluster.modules}:{os.environ.get('PYTHONPATH', '')}")
    path, folder = saved(tmp_path, *a_cluster("n1"), a_pod("a", template="one")), tmp_path / "results"
    policies = ("--policy", "deadly_policy:Failing", "--policy", "pack")
    run = simulate(path, *policies, "--results", folder, "--scheduler", cluster.address)
    assert (run.code, run.out) == (2, "")
    finished, error = run.err.splitlines()[-2:]
    assert finished == f"1 finished scenario is in {folder}; --resume goes on"
    assert error.startswith("dra: policy deadly_policy:Failing, seed 42: pod default/a: policy failing failed: ")
    assert error.endswith("order: ValueError: no weather today")


def test_an_error_of_a_scenario_names_the_files_that_the_user_knows(tmp_path: Path, cluster: Cluster) -> None:
    fleet, trace = a_workload(tmp_path)
    order = a_trace(tmp_path, {"seed": 1, "pods": [0, "x"]}, name="order.jsonl")
    options = ("--arrivals", f"order:{order}", "--scheduler", cluster.address)
    run = simulate(fleet, "--trace", trace, "--seeds", "1", *options)
    assert (run.code, run.out) == (2, "")
    assert run.err == f'dra: {order}, line 1: pods[1]: "x" is not a row, of 30 from 0\n'


def test_workers_with_another_version_are_named(tmp_path: Path, cluster: Cluster) -> None:
    fleet, trace = a_workload(tmp_path)
    script = "import scheduler.cli.dask_cluster as d; d.VERSION = '0.0.9'; from scheduler.cli.main import main; main()"
    options = ("--trace", str(trace), "--scheduler", cluster.address)
    command = [sys.executable, "-c", script, "simulate", str(fleet), *options]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert (found.returncode, found.stdout) == (2, "")
    theirs, ours = r"dra-scheduler \S+ \(sources (\w+)\)", r"dra-scheduler 0\.0\.9 \(sources \1\)"
    assert re.fullmatch(rf"dra: worker tcp://\S+ has {theirs}, but this is {ours}\n", without_progress(found.stderr))


def test_a_policy_that_workers_do_not_have_is_named(tmp_path: Path, cluster: Cluster) -> None:
    fleet, trace = a_workload(tmp_path)
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "own_policy.py").write_text(DEADLY)
    path = f"{modules}:{os.environ.get('PYTHONPATH', '')}"
    options = ("--policy", "own_policy:Deadly", "--scheduler", cluster.address)
    run = simulate(fleet, "--trace", trace, *options, PYTHONPATH=path)
    assert (run.code, run.out) == (2, "")
    assert run.err == (
        "dra: module own_policy was not found: install it, or add the folder that holds it to PYTHONPATH\n"
    )


def test_a_scheduler_that_does_not_answer_is_named(tmp_path: Path) -> None:
    fleet, trace = a_workload(tmp_path)
    given = (fleet, "--trace", trace, "--scheduler")
    run = simulate(*given, "tcp://127.0.0.1:1", DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="1")
    assert (run.code, run.out) == (2, "")
    assert run.err.splitlines()[-1].startswith("dra: --scheduler tcp://127.0.0.1:1: Timed out trying to connect to ")
    run = simulate(*given, "http://127.0.0.1:1")
    assert run.code == 2
    assert run.err.startswith("dra: --scheduler http://127.0.0.1:1: unknown address scheme 'http'")
