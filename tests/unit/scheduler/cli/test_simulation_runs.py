"""How `dra simulate` runs its scenarios: over processes, some of which die, and kept in a folder for another time."""

import gc
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from allocator.policies import NAMES
from scheduler.cli import run_scenarios, scenarios
from scheduler.cli.printing import Progress
from scheduler.cli.run_scenarios import MOST_RUNS, opened
from scheduler.cli.scenarios import Case, Plan
from scheduler.simulation.figures import RunFigures
from scheduler.simulation.result import Scenario, Summary
from tests.extent import PRODUCT
from tests.unit.scheduler.cli.command import dra, saved
from tests.unit.scheduler.cli.test_simulate import a_trace, an_arrival, measured_apart, only, result, simulate
from tests.unit.scheduler.manifests import Json, a_claim, a_cluster, a_pod, a_request, a_slice, an_object, text_of

pytestmark = pytest.mark.depends_on(*PRODUCT)

PROGRAM = Path(sys.executable).with_name("dra")

DEADLY = """
import os
import signal
from multiprocessing import parent_process
from pathlib import Path

from allocator.policies.pack import Spread


class Deadly(Spread):
    name = "deadly"

    def order(self, attempt, requests):
        deaths = Path(__file__).with_name("deaths")
        number = len(deaths.read_text())
        if parent_process() is not None and number < int(Path(__file__).with_name("most").read_text()):
            deaths.write_text("x" * (number + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().order(attempt, requests)


class Orphaned(Spread):
    name = "orphaned"

    def order(self, attempt, requests):
        if parent_process() is not None:
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        return super().order(attempt, requests)


class Failing(Spread):
    name = "failing"

    def order(self, attempt, requests):
        raise ValueError("no weather today")


class Interrupting(Spread):
    name = "interrupting"

    def order(self, attempt, requests):
        os.kill(os.getppid() if parent_process() else os.getpid(), signal.SIGINT)
        return super().order(attempt, requests)
"""


@pytest.fixture
def deadly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], object]]:
    """Processes in which the policy `deadly_policy:Deadly` decides die so many times; any run is over processes."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "deadly_policy.py").write_text(DEADLY)
    (folder / "deaths").touch()
    (folder / "most").write_text("0")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(run_scenarios, "FEW", 0)
    yield lambda most: (folder / "most").write_text(str(most))
    sys.modules.pop("deadly_policy", None)


def three_pods() -> list[Json]:
    return [*a_cluster("n1"), *(a_pod(name, template="one") for name in "abc")]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """The scenarios that are run, in this process."""
    found: list[Case] = []
    real = scenarios.run_case

    def counted(plan: Plan, case: Case, *rest: Any) -> Scenario:
        found.append(case)
        return real(plan, case, *rest)

    monkeypatch.setattr(run_scenarios, "run_case", counted)
    return found


# Processes


def test_processes_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--policy", "pack", "--policy", "spread", "--arrivals", "poisson:0.9", "--durations", "exp:10")
    alone = result(simulate(tmp_path, three_pods(), *options))
    monkeypatch.setattr(run_scenarios, "FEW", 0)
    together = result(simulate(tmp_path, three_pods(), *options, "--jobs", "2"))
    assert measured_apart(together) == measured_apart(alone)


def test_a_scenario_whose_process_is_killed_runs_again(tmp_path: Path, deadly: Callable[[int], object]) -> None:
    options = ("--policy", "deadly_policy:Deadly", "--seeds", "1-3")
    alone = result(simulate(tmp_path, three_pods(), *options, "--jobs", "1"))
    deadly(MOST_RUNS - 1)
    together = result(simulate(tmp_path, three_pods(), *options, "--jobs", "2"))
    assert (tmp_path / "modules" / "deaths").read_text() == "x" * (MOST_RUNS - 1)
    assert measured_apart(together) == measured_apart(alone)


def test_a_scenario_whose_process_always_dies_is_named_and_the_others_are_kept(
    tmp_path: Path, deadly: Callable[[int], object]
) -> None:
    deadly(99)
    folder = tmp_path / "results"
    policies = ("--policy", "deadly_policy:Deadly", "--policy", "pack", "--policy", "spread")
    run = simulate(tmp_path, three_pods(), *policies, "--jobs", "2", "--results", folder)
    why = "dra: policy deadly_policy:Deadly, seed 42: whenever it ran, its process died, at least 3 times: "
    assert (run.code, run.out) == (2, "")
    assert run.err.splitlines() == [
        f"2 finished scenarios are in {folder}; --resume goes on",
        f"{why}it may lack memory",
    ]
    deadly(0)
    found = result(simulate(tmp_path, three_pods(), *policies, "--results", folder, "--resume"))
    assert [one.policy for one in found.scenarios] == ["deadly_policy:Deadly", "pack", "spread"]


@pytest.mark.usefixtures("deadly", "hears_control_c")
def test_control_c_leaves_finished_scenarios_on_disk(tmp_path: Path) -> None:
    path, folder = saved(tmp_path, *three_pods()), tmp_path / "results"
    policies = ("--policy", "pack", "--policy", "deadly_policy:Interrupting")
    for options, what in (
        (("--results", folder), f"1 finished scenario is in {folder}; --resume goes on"),
        ((), "1 finished scenario is lost; --results DIR keeps them"),
    ):
        command = [PROGRAM, "simulate", path, *policies, "--jobs", "1", *options]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (found.returncode, found.stdout) == (130, "")
        assert found.stderr.splitlines()[-1] == f"interrupted: {what}"
    again = result(dra("simulate", path, "--policy", "pack", "--results", folder, "--resume", "-o", "json"))
    assert [one.policy for one in again.scenarios] == ["pack"]


@pytest.mark.usefixtures("deadly")
def test_workers_end_with_a_program_that_is_killed(tmp_path: Path) -> None:
    """They have its standard output, which is read until nobody has it any more."""
    trace = a_trace(tmp_path, *(an_arrival(number, f"p{number}") for number in range(60)))
    path, policy = saved(tmp_path, *a_cluster("n1")), "deadly_policy:Orphaned"
    command = [
        str(PROGRAM),
        "simulate",
        str(path),
        "--trace",
        str(trace),
        "--jobs",
        "2",
        "--policy",
        policy,
        "--seeds",
        "1-100",
    ]
    found = subprocess.run(command, capture_output=True, check=False, timeout=100)
    assert found.returncode == -9


# On disk


def test_scenarios_that_have_finished_are_not_run_again(tmp_path: Path, ran: list[Case]) -> None:
    folder = tmp_path / "results"
    options = ("--results", folder, "--policy", "pack")
    first = result(simulate(tmp_path, three_pods(), *options, "--seeds", "1"))
    run = simulate(tmp_path, three_pods(), *options, "--seeds", "1-2")
    assert (run.code, run.err) == (2, f"dra: {folder}: holds a run already: --resume goes on with it\n")
    again = result(simulate(tmp_path, three_pods(), *options, "--seeds", "1-2", "--resume"))
    assert [case.seed for case in ran] == [1, 2]
    assert again.scenarios[0] == first.scenarios[0]


@pytest.mark.parametrize(
    "options",
    [
        ("--arrivals", "poisson:0.5"),
        ("--inflate", "300"),
        ("--time-scale", "3"),
        ("--nodes-scale", "2"),
        ("--set", "drain:n1"),
        ("--seeds", "7"),
        ("--policy", "spread"),
    ],
)
def test_a_scenario_is_not_taken_for_one_of_other_options(tmp_path: Path, options: Sequence[str]) -> None:
    trace = a_trace(tmp_path, *(an_arrival(n, f"p{n}", duration=9) for n in range(6)))
    given, kept = ("--trace", trace, "--durations", "exp:5"), ("--results", tmp_path / "results")
    simulate(tmp_path, three_pods(), *given, *kept)
    fresh = result(simulate(tmp_path, three_pods(), *given, *options))
    resumed = result(simulate(tmp_path, three_pods(), *given, *kept, *options, "--resume"))
    assert measured_apart(resumed) == measured_apart(fresh)


def test_a_parameter_that_gets_more_values_is_named_in_what_was_kept(tmp_path: Path, ran: list[Case]) -> None:
    kept = ("--results", tmp_path / "results", "--inflate", "100")
    simulate(tmp_path, three_pods(), *kept)
    found = result(simulate(tmp_path, three_pods(), *kept, "--inflate", "200", "--resume"))
    assert [one.parameters for one in found.scenarios] == [{"inflate": "100"}, {"inflate": "200"}]
    assert [case.variant.inflate for case in ran] == [100, 200]


def test_a_folder_of_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, trace = tmp_path / "results", a_trace(tmp_path, an_arrival(0, "x"))
    path, other = saved(tmp_path, *three_pods()), saved(tmp_path, *three_pods()[:-1], name="other.yaml")

    def differing(*arguments: str | Path, stdin: str) -> str:
        run = dra("simulate", *arguments, "--results", folder, "--resume", stdin=stdin)
        assert (run.code, run.out) == (2, "")
        return run.err.removeprefix(f"dra: {folder}: holds another run: ").removesuffix(" differ\n")

    options = (path, "-", "--trace", trace)
    assert dra("simulate", *options, "--results", folder, stdin=text_of(a_slice(node="n9"))).code == 0
    stdin = text_of(a_slice(node="n9"))
    assert differing(path, other, "-", "--trace", trace, stdin=stdin) == "paths"
    assert differing(*options, stdin=text_of(a_slice(node="n8"))) == "stdin"
    assert differing(*options, "--no-retries", stdin=stdin) == "retries"
    assert differing(*options, "--durations", "none", "--explain", "a", stdin=stdin) == "durations, explained"
    a_trace(tmp_path, an_arrival(1, "x"))
    assert differing(*options, stdin=stdin) == f"the contents of {trace}"
    a_trace(tmp_path, an_arrival(0, "x"))
    path.write_text(text_of(*three_pods(), a_pod("d")))
    assert differing(*options, stdin=stdin) == f"the contents of {path}"
    saved(tmp_path, *three_pods())
    monkeypatch.setattr(run_scenarios, "VERSION", "0.0.9")
    assert differing(*options, stdin=stdin) == "program"


@pytest.mark.usefixtures("deadly")
def test_a_what_if_an_order_and_a_policy_are_known_by_their_contents(tmp_path: Path, ran: list[Case]) -> None:
    other = saved(tmp_path, a_slice(node="n1", count=1), name="other.yaml")
    order = a_trace(tmp_path, {"seed": 42, "pods": [0, 1]}, name="order.jsonl")
    options = ("--set", other, "--arrivals", f"order:{order}", "--policy", "deadly_policy:Deadly", "--jobs", "1")
    given = (*options, "--results", tmp_path / "results")

    def placed() -> list[int]:
        found = result(simulate(tmp_path, three_pods(), *given, "--resume"))
        return [one.summary.placed for one in found.scenarios]

    assert [one.summary.placed for one in result(simulate(tmp_path, three_pods(), *given)).scenarios] == [2, 1]
    saved(tmp_path, a_slice(node="n1", count=0), name="other.yaml")
    assert placed() == [2, 0]
    assert len(ran) == 3
    a_trace(tmp_path, {"seed": 42, "pods": [0]}, name="order.jsonl")
    assert placed() == [1, 0]
    assert len(ran) == 5
    (tmp_path / "modules" / "deadly_policy.py").write_text(f"{DEADLY}\n# another one\n")
    assert placed() == [1, 0]
    assert len(ran) == 7


def test_input_that_changes_during_a_run_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios of different input are no comparison."""
    trace = a_trace(tmp_path, an_arrival(0, "x"))
    real = scenarios.run_case

    def editing(plan: Plan, case: Case, *rest: Any) -> Scenario:
        found = real(plan, case, *rest)
        a_trace(tmp_path, an_arrival(1, "x"))
        return found

    monkeypatch.setattr(run_scenarios, "run_case", editing)
    run = simulate(tmp_path, a_cluster("n1"), "--trace", trace, "--seeds", "1-2")
    assert (run.code, run.out) == (2, "")
    assert run.err.splitlines()[-1] == f"dra: {trace}: has changed since the run began"


def test_input_that_can_be_read_once_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    run = dra("simulate", pipe)
    assert run.code == 2
    assert run.err == (
        f"dra: {pipe}: is not a regular file, and every scenario reads its input: use a file, or - for stdin\n"
    )


def test_a_result_that_is_not_whole_is_run_again(tmp_path: Path, ran: list[Case]) -> None:
    folder = tmp_path / "results"
    first = result(simulate(tmp_path, three_pods(), "--results", folder))
    (file,) = folder.glob("first-fit-*.json")
    file.write_bytes(file.read_bytes()[:100])
    run = simulate(tmp_path, three_pods(), "--results", folder, "--resume")
    why = "is not JSON: EOF while parsing a string at line 1 column 100"
    assert run.err.startswith(f"warning: {file}: is not a whole result, its scenario runs again: {why}\n")
    assert measured_apart(result(run)) == measured_apart(first)
    assert len(ran) == 2
    assert only(simulate(tmp_path, three_pods(), "--results", folder, "--resume")) == only(run)
    assert len(ran) == 2


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    with opened(folder, Plan(()), resumes=False):
        run = simulate(tmp_path, three_pods(), "--results", folder, "--resume")
    assert (run.code, run.out) == (2, "")
    assert run.err == f"dra: {folder}: is in use by another run, process {os.getpid()}\n"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "results"
    run = simulate(tmp_path, three_pods(), "--results", folder)
    assert (run.code, run.out) == (2, "")
    assert run.err == f"dra: {folder}: cannot be written: Not a directory\n"


def test_a_disk_that_is_full_ends_the_run_and_keeps_what_has_finished(tmp_path: Path) -> None:
    """The second scenario is larger than the first one, and than the system lets a file be."""
    path, folder, sizes = saved(tmp_path, *three_pods()), tmp_path / "results", tmp_path / "sizes"
    options = ("--inflate", "100", "--inflate", "3000")
    simulate(tmp_path, three_pods(), *options, "--results", sizes)
    lock, plan, small, large = sorted(file.stat().st_size for file in sizes.iterdir())
    assert lock < plan < small < large

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (small + 50, small + 50))

    found = subprocess.run(
        [PROGRAM, "simulate", path, *options, "--results", folder],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited,
    )
    assert (found.returncode, found.stdout) == (2, "")
    finished, error = found.stderr.splitlines()[-2:]
    assert finished == f"1 finished scenario is in {folder}; --resume goes on"
    assert error.startswith(f"dra: {folder}/first-fit-42-")
    assert error.endswith(".json: cannot be written: File too large")
    assert len(list(folder.glob("first-fit-*"))) == 1


def test_results_are_not_put_below_the_input(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    saved(folder, *three_pods())
    run = dra("simulate", folder, "--results", folder / "results")
    assert (run.code, run.err) == (
        2,
        f"dra: --results {folder / 'results'} is below {folder}, and would be read as input\n",
    )


# A cluster


def test_a_cluster_needs_the_extra_and_has_no_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    run = simulate(tmp_path, three_pods(), "--scheduler", "tcp://127.0.0.1:8786")
    how = f"make install EXTRA=dask, or {sys.executable} -m pip install distributed"
    assert (run.code, run.err) == (2, f"dra: --scheduler needs dask: {how}\n")
    run = simulate(tmp_path, three_pods(), "--scheduler", "tcp://127.0.0.1:8786", "--jobs", "2")
    assert (run.code, run.err.splitlines()[-1]) == (
        2,
        "Error: --jobs is for this machine, and excludes --scheduler.",
    )


# Progress


def test_a_bar_says_how_long_the_rest_takes_and_is_for_terminals_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0

    def bars(*, is_terminal: bool) -> list[str]:
        nonlocal now
        monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
        with Progress(lambda: now, doing="simulating", has_bar=True) as progress:
            for done in (0.0, 0.5, 2.0):
                now += 10.0
                progress.show(done, 4)
        return capsys.readouterr().err.split("\r\x1b[K")

    assert bars(is_terminal=True) == [
        "",
        f"simulating [{'-' * 30}] 0 %",
        f"simulating [###{'-' * 27}] 12 %, about 70 s left",
        f"simulating [{'#' * 15}{'-' * 15}] 50 %, about 20 s left",
        "",
    ]
    assert bars(is_terminal=False) == [""]


@pytest.mark.parametrize("policy", NAMES)
def test_no_decision_by_a_built_in_policy_leaves_garbage_in_cycles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    found: list[int] = []

    def searched(self: RunFigures) -> Summary:
        found.append(gc.collect())
        return summary(self)

    summary = RunFigures.summary
    monkeypatch.setattr(RunFigures, "summary", searched)
    arrivals = [an_arrival(number, f"p{number}", duration=5) for number in range(20)]
    trace = a_trace(tmp_path, *arrivals)
    for _ in range(2):  # what is made once, such as classes of modules, is left to the first run
        assert simulate(tmp_path, a_cluster("n1", "n2"), "--trace", trace, "--policy", policy).code == 0
    assert found[-1] == 0


def a_graph() -> Json:
    """An object of which nobody knows what pods it stands for."""
    return {**an_object("x.example.com/v1", "Graph", "g"), "spec": {"resourceClaimTemplateName": "one"}}


UNKNOWN = "Graph g: requests claims, but its pods cannot be determined and are not placed"


def test_pods_that_are_not_known_make_the_exit_code_1(tmp_path: Path) -> None:
    objects = [*a_cluster("n1"), a_pod(template="one")]
    run = simulate(tmp_path, [*objects, a_graph()])
    assert (run.code, run.err.count(UNKNOWN)) == (1, 1)
    beside = tmp_path / "beside.json"
    beside.write_text(text_of(a_graph()))
    run = simulate(tmp_path, objects, "--set", str(beside), "--set", "cordon:n1")
    assert (run.code, run.err.count(UNKNOWN)) == (1, 1)
    both = simulate(tmp_path, [*objects, a_graph()], "--set", str(beside))
    assert (both.code, both.err.count(UNKNOWN)) == (1, 2)  # in either file


def test_errors_of_the_input_make_the_exit_code_2_though_all_runs(tmp_path: Path) -> None:
    objects = [*a_cluster("n1"), a_pod(template="one"), a_claim("c"), a_claim("c", a_request(count=2))]
    assert simulate(tmp_path, objects).code == 2
    run = simulate(tmp_path, objects, "--keep-going")
    assert (run.code, '"scenarios"' in run.out) == (2, True)
