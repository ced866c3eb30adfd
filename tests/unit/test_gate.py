"""What `make check` makes of its processes: each test runs once, and whatever goes wrong fails the gate."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import extent
from tests.gate.parts import SECONDS, TOGETHER, Part, files, lanes, pytest_part
from tests.gate.run import gate

pytestmark = pytest.mark.depends_on("tests/gate", "tests/extent.py")

ROOT = Path(__file__).resolve().parents[2]

PASSES = """
def test_passes(): pass
"""
FAILS = """
def test_fails():
    print("the output of a test that fails")
    assert 1 + 1 == 3
"""
FAILS_FIRST = """
def test_fails_first(tmp_path_factory):
    from pathlib import Path
    marker = Path(__file__).with_suffix(".ran")
    ran = marker.exists()
    marker.touch()
    print("the second run's output" if ran else "the first run's output")
    assert ran, "not the first time"
"""
CONFTEST = """
from hypothesis import settings
settings.register_profile("random")
def pytest_configure(config): config.addinivalue_line("markers", "depends_on(*paths): as in the project")
"""
WAITS = """
import pytest, signal
@pytest.fixture
def cluster():
    yield
    open("down", "w").close()
def test_waits(cluster):
    open("ready", "w").close()
    signal.pause()
"""


class Suite:
    """A project with tests of its own, and what the gate makes of it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capsys = capsys
        self._runs = 0
        (root / "pytest.ini").write_text("[pytest]\naddopts = -ra --import-mode=importlib\nfilterwarnings = error\n")

    def add(self, path: str, *texts: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(texts))

    def run(self, *parts: Part, processes: int = 1, together: Sequence[str] = ()) -> tuple[int, str]:
        """The exit code and the output. parts: beside those that run the tests."""
        self._runs += 1
        folder = self.root.parent / f"run-{self._runs}"
        (folder / "claims").mkdir(parents=True)
        cache = folder.parent / "cache"
        options = ["-p", "tests.gate.sharing", f"--claims={folder / 'claims'}", f"--seconds={cache / SECONDS}", "tests"]
        options += [f"--together={paths}" for paths in together]
        tests = [[pytest_part(f"tests {number}", cache, *options)] for number in range(processes)]
        code = gate([*([part] for part in parts), *tests], files(self.root), folder, cache)
        return code, self._capsys.readouterr().out


@pytest.fixture
def suite(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv(extent.EXTENT, raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return Suite(tmp_path / "project", capsys)


def program(name: str, text: str) -> Part:
    return Part(name, [sys.executable, "-c", text])


def counted(output: str) -> str:
    """The closing line, without the time."""
    return output.splitlines()[-1].rpartition(" in ")[0]


def wrong(output: str) -> Sequence[str]:
    """What the summary names."""
    return output.partition("\n== summary\n")[2].splitlines()[:-1]


# -- what passes


def test_everything_passes(suite: Suite) -> None:
    suite.add("tests/integration/test_a.py", PASSES)
    suite.add("tests/unit/test_b.py", PASSES)
    code, output = suite.run(program("style", "print('all is well')"))
    assert (code, counted(output), wrong(output)) == (0, "2 passed", [])
    assert "== style: passed, 0 s" in output
    assert "all is well" in output


def test_processes_share_the_files_and_each_test_runs_once_the_slowest_file_first(suite: Suite) -> None:
    runs = """
import os, pytest
from pathlib import Path
@pytest.fixture(scope="module")
def once(): return os.getpid()
@pytest.mark.parametrize("case", range(3))
def test_runs(case, once):
    with (Path(__file__).parents[1] / "ran").open("a") as file: file.write(f"{Path(__file__).name}[{case}] {once}\\n")
"""
    for name in "abcdef":
        suite.add(f"tests/test_{name}.py", runs)
    code, output = suite.run(processes=3)
    assert (code, counted(output)) == (0, "18 passed")
    ran = [line.split() for line in (suite.root / "ran").read_text().splitlines()]
    assert sorted(test for test, _ in ran) == [f"test_{name}.py[{case}]" for name in "abcdef" for case in range(3)]
    assert len({(test.partition("[")[0], process) for test, process in ran}) == 6, "a file in two processes"

    (suite.root.parent / "cache" / SECONDS).write_text('{"tests/test_a.py": 1, "tests/test_b.py": 2}')
    (suite.root / "ran").unlink()
    assert suite.run()[0] == 0
    order = [line[5] for line in (suite.root / "ran").read_text().splitlines()]
    assert order == [name for name in "cdefba" for _ in range(3)]

    (suite.root / "ran").unlink()
    assert suite.run(processes=2, together=["tests/test_a.py,tests/test_c.py", "tests/test_f.py"])[0] == 0
    processes = {line.split()[1] for line in (suite.root / "ran").read_text().splitlines() if line[5] in "ac"}
    assert len(processes) == 1


@pytest.mark.depends_on("tests")
def test_every_test_file_of_the_project_is_in_one_lane(tmp_path: Path) -> None:
    parts = [part for lane in lanes(ROOT, tmp_path, tmp_path) for part in lane if part.is_tests]
    folders = {word for part in parts for word in part.command if word.startswith("tests/")}
    assert [path for paths in TOGETHER for path in paths.split(",") if not (ROOT / path).exists()] == []
    for file in files(ROOT):
        assert [folder for folder in folders if file.startswith(f"{folder}/")] == ["/".join(Path(file).parts[:2])], file


def test_test_that_says_what_it_depends_on_is_left_out_until_that_changes(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("requirements/dev.txt", "pyproject.toml", "page.md", "code/a.py"):
        suite.add(name, "# 1")
    suite.add("conftest.py", CONFTEST)
    depends = "import pytest\nfrom pathlib import Path\npytestmark = pytest.mark.depends_on('page.md', 'code')\n"
    suite.add(
        "tests/unit/test_a.py", depends, PASSES, "\ndef test_reads(): assert '# 2' not in Path('page.md').read_text()"
    )
    assert counted(suite.run()[1]) == "2 passed"
    code, output = suite.run()
    assert (code, counted(output), wrong(output)) == (0, "2 unchanged", [])
    suite.add("other.md", "anything")
    assert counted(suite.run()[1]) == "2 unchanged"
    suite.root = suite.root.rename(suite.root.with_name("another checkout"))
    monkeypatch.chdir(suite.root)
    assert counted(suite.run()[1]) == "2 unchanged"
    for name in ("code/a.py", "code/new.py", "tests/helper.py", "requirements/dev.txt", "tests/unit/test_a.py"):
        suite.add(name, depends, PASSES, "\ndef test_reads(): assert '# 2' not in Path('page.md').read_text()", "# 3")
        assert counted(suite.run()[1]) == "2 passed", name
    assert counted(suite.run()[1]) == "2 unchanged"
    suite.add("page.md", "# 2")
    for _ in range(2):  # what fails is never kept
        code, output = suite.run()
        assert code == 1
        assert wrong(output) == ["FAILED tests/unit/test_a.py::test_reads"]
    suite.add("page.md", "# 3")
    assert counted(suite.run()[1]) == "2 passed"
    monkeypatch.setenv(extent.EXTENT, extent.NIGHTLY)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "")
    assert counted(suite.run()[1]) == "2 passed"


def test_programs_that_tests_start_find_bytecode_also_where_python_is_told_to_write_none(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    suite.add("scheduler/live/program.py", "A = 1")
    suite.add("scheduler/broken.py", "A = = 1")
    suite.add(
        "tests/unit/test_a.py",
        "from importlib.util import cache_from_source\nfrom pathlib import Path\n",
        "def test_is_there(): assert Path(cache_from_source('scheduler/live/program.py')).exists()\n",
    )
    code, output = suite.run()
    assert (code, counted(output)) == (0, "1 passed")


def test_each_day_has_another_part_and_the_night_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(extent.EXTENT, raising=False)
    seen: list[int] = []
    for day in range(1, 6):
        monkeypatch.setenv(extent.DAY, f"2026-11-{day:02}")
        seen += extent.part(range(10), 2)
    assert sorted(seen) == list(range(10))
    monkeypatch.setenv(extent.EXTENT, extent.NIGHTLY)
    assert list(extent.part(range(10), 2)) == list(range(10))


# -- what fails


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit(2)", "exit code 2"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    ],
)
def test_check_that_fails_or_is_killed_fails_the_gate_and_the_tests_run_on(suite: Suite, text: str, said: str) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST)
    suite.add("tests/unit/test_b.py", PASSES)
    code, output = suite.run(program("style", f"print('what it has found', flush=True); {text}"))
    assert (code, counted(output)) == (1, "1 failed, 1 passed")
    assert wrong(output) == [f"FAILED style: {said}", "FAILED tests/integration/test_a.py::test_fails_first"]
    assert "what it has found" in output
    assert "again" not in output


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("os._exit(0)", "left before its end, with exit code 0"),
    ],
)
def test_process_that_is_gone_fails_the_gate(suite: Suite, ending: str, said: str) -> None:
    suite.add("tests/integration/test_a.py", PASSES, "\nimport os\ndef test_ends(): ", ending)
    suite.add("tests/integration/test_b.py", PASSES)
    code, output = suite.run()
    assert (code, counted(output)) == (1, "1 passed")
    assert wrong(output) == [f"FAILED tests 0: {said}", "ERROR tests/integration/test_b.py: none of its tests ran"]


def test_no_test_at_all_fails_the_gate(suite: Suite) -> None:
    suite.add("tests/unit/test_a.py")
    code, output = suite.run()
    assert code == 1
    assert wrong(output) == ["FAILED tests 0: collected no test", "ERROR tests/unit/test_a.py: none of its tests ran"]


def test_file_of_which_no_test_runs_fails_the_gate_but_not_one_that_is_skipped(suite: Suite) -> None:
    suite.add("tests/unit/test_a.py", PASSES)
    suite.add("tests/unit/test_b.py", PASSES.replace("test_", "check_"))
    suite.add("tests/unit/test_c.py", "import pytest\npytest.skip('not here', allow_module_level=True)")
    code, output = suite.run()
    assert (code, counted(output)) == (1, "1 skipped, 1 passed")
    assert wrong(output) == ["ERROR tests/unit/test_b.py: none of its tests ran"]


@pytest.mark.parametrize("broken", ["raise OSError", "import there_is_no_such_module"])
def test_file_that_cannot_be_collected_fails_the_gate_at_once(suite: Suite, broken: str) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST)
    suite.add("tests/unit/test_b.py", broken)
    code, output = suite.run()
    assert (code, counted(output)) == (1, "1 error")
    assert "FAILED tests 0: pytest's exit code 2" in wrong(output)
    assert "ERROR tests/unit/test_b.py" in wrong(output)
    assert "again" not in output


def test_error_inside_pytest_fails_the_gate_at_once(suite: Suite) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST, PASSES)
    suite.add("conftest.py", "def pytest_runtest_logfinish(nodeid): assert 'test_passes' not in nodeid")
    code, output = suite.run()
    assert code == 1
    assert "FAILED tests 0: pytest's exit code 3" in wrong(output)
    assert "again" not in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_everything(suite: Suite, number: int) -> None:
    os.mkfifo("ready")
    suite.add("tests/test_a.py", WAITS)
    sender = f"import os, signal; open('ready').close(); os.kill(os.getppid(), {int(number)}); signal.pause()"
    code, output = suite.run(program("sender", sender))
    assert code == 130
    assert output.endswith("interrupted\n")
    assert (suite.root / "down").exists(), "what the test started is stopped"


# -- second runs


def test_integration_test_that_passes_alone_is_unstable_and_the_gate_passes(suite: Suite) -> None:
    suite.add("tests/integration/live/test_a.py", FAILS_FIRST, PASSES)
    suite.add("tests/unit/test_b.py", PASSES)
    code, output = suite.run(processes=2)
    assert (code, counted(output)) == (0, "2 passed, 1 unstable")
    name = "tests/integration/live/test_a.py::test_fails_first"
    assert wrong(output) == [f"UNSTABLE {name}: failed, then passed alone"]
    assert "AssertionError: not the first time" in output
    assert output.rindex("the first run's output") < output.rindex("the second run's output")
    assert output.count("Running again, alone: ") == 1


def test_integration_test_that_fails_twice_fails_the_gate(suite: Suite) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST, FAILS)
    code, output = suite.run()
    assert (code, counted(output)) == (1, "1 failed, 1 unstable")
    assert output.count("== second run: exit code 1") == 1
    assert output.count("the output of a test that fails") == 4  # in the source and captured, of both runs
    assert wrong(output) == [
        "FAILED tests/integration/test_a.py::test_fails",
        "UNSTABLE tests/integration/test_a.py::test_fails_first: failed, then passed alone",
    ]


def test_three_failures_have_second_runs_and_four_have_none(suite: Suite) -> None:
    for name in "abc":
        suite.add(f"tests/integration/test_{name}.py", FAILS_FIRST)
    suite.add("tests/integration/test_d.py", PASSES)
    assert suite.run()[0] == 0
    for name in "abcd":
        suite.add(f"tests/integration/test_new_{name}.py", FAILS_FIRST)
    code, output = suite.run()
    assert (code, counted(output)) == (1, "4 failed, 4 passed")
    assert "again" not in output


@pytest.mark.parametrize("folder", ["unit", "integration_of_old"])
def test_failure_of_another_test_fails_the_gate_at_once(suite: Suite, folder: str) -> None:
    suite.add("tests/integration/test_a.py", FAILS_FIRST)
    suite.add(f"tests/{folder}/test_b.py", FAILS_FIRST)
    code, output = suite.run()
    assert (code, counted(output)) == (1, "2 failed")
    assert "again" not in output


@pytest.mark.parametrize("when", ["before", "after"])
def test_error_in_a_fixture_of_an_integration_test_is_its_failure(suite: Suite, when: str) -> None:
    fixture = f"""
import pytest
@pytest.fixture(autouse=True)
def cluster():
    {"yield" if when == "after" else ""}
    {FAILS_FIRST.partition(":")[2].lstrip()}
    {"yield" if when == "before" else ""}
"""
    suite.add("tests/integration/test_a.py", fixture, PASSES)
    code, output = suite.run()
    assert (code, counted(output)) == (0, "1 unstable")
    assert "the second run's output" in output


def test_integration_test_that_is_skipped_the_second_time_has_not_passed(suite: Suite) -> None:
    skips = FAILS_FIRST.replace("assert ran", "if ran: import pytest; pytest.skip('no control plane')\n    assert ran")
    suite.add("tests/integration/test_a.py", skips)
    code, output = suite.run()
    assert (code, counted(output)) == (1, "1 failed")


def test_second_run_is_of_one_case_in_a_process_of_its_own(suite: Suite) -> None:
    suite.add(
        "tests/integration/test_a.py",
        """
import pytest
seen = []
@pytest.mark.parametrize("case", ["first", "a::b/c[d]"])
def test_is_alone(case):
    seen.append(case)
    assert len(seen) == 1
""",
    )
    code, output = suite.run()
    assert (code, counted(output)) == (0, "1 passed, 1 unstable")
