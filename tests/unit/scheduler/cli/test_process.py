"""The installed program in a process of its own: what only a real one shows. Each takes a third of a second."""

import os
import pty
import resource
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from scheduler.terminal_text import width_of
from tests.unit.scheduler.cli.command import saved, without_progress
from tests.unit.scheduler.manifests import a_cluster, a_pod

FLEET = Path(__file__).resolve().parents[4] / "manifests" / "examples" / "fleet"
PROGRAM = Path(sys.executable).with_name("dra")
PODS = [
    a_pod(f"p{number:03}", template="one", metadata={"uid": str(number), "annotations": {"long": "x" * 2000}})
    for number in range(100)
]
"""Together more than a pipe holds when nobody reads it."""


def program(*arguments: str | Path) -> list[str]:
    return [str(PROGRAM), *map(str, arguments)]


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, **changes}


def test_the_program_runs_from_any_folder_and_its_output_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    path = saved(tmp_path, *a_cluster("n1", "n2"), *PODS[:3])
    outputs = {
        subprocess.run(
            program("allocate", path.name, "-o", "yaml"),
            cwd=tmp_path,
            env=environment(PYTHONHASHSEED=seed),
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().startswith(b"apiVersion: v1\nkind: List\nitems:\n")


def test_input_that_does_not_fit_into_memory_is_reported_in_one_line(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(4 << 30)  # a hole, which takes no room

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    run = subprocess.run(
        program("status", str(large)),
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "memory" in without_progress(run.stderr)
    assert "Traceback" not in run.stderr


def test_a_reader_that_stops_early_is_no_error_to_report(tmp_path: Path) -> None:
    path = saved(tmp_path, *a_cluster(count=64), *PODS)
    # Unbuffered, Python takes what a closed pipe swallowed for all that there was.
    buffered = environment(PYTHONUNBUFFERED="")
    with subprocess.Popen(program("allocate", path, "-o", "yaml"), env=buffered, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"apiVersion: v1\n"
        process.stdout.close()
        assert without_progress(process.stderr.read().decode()) == ""
    assert process.returncode == 141


def test_errors_and_exit_code_reach_the_shell(tmp_path: Path) -> None:
    found = subprocess.run(program("allocate", tmp_path / "none"), capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stdout == ""
    assert without_progress(found.stderr).startswith(
        f"error: {tmp_path / 'none'}: cannot be read: No such file or directory\n"
    )


def test_text_of_other_languages_is_written_in_any_locale(tmp_path: Path) -> None:
    pod = a_pod("p", template="one", metadata={"uid": "p", "annotations": {"note": "grün"}})
    path = saved(tmp_path, *a_cluster(), pod)
    found = subprocess.run(
        program("allocate", path, "-o", "yaml"), env=environment(LC_ALL="C"), capture_output=True, check=True
    )
    assert "grün" in found.stdout.decode()


@pytest.mark.parametrize(("setting", "has_codes"), [("", True), ("1", False)])
def test_a_terminal_gets_colour_unless_it_is_not_wanted(setting: str, *, has_codes: bool, tmp_path: Path) -> None:
    path = saved(tmp_path, *a_cluster(), a_pod("p", claim="none"))
    reader, terminal = pty.openpty()
    run = subprocess.run(
        program("allocate", path), env=environment(NO_COLOR=setting), stdout=terminal, stderr=PIPE, check=False
    )
    os.close(terminal)
    reported = os.read(reader, 10_000)
    os.close(reader)
    assert run.returncode == 1
    assert b"claim default/none does not exist" in reported
    assert (b"\x1b" in reported) == has_codes


def on_a_terminal(columns: int, *arguments: str, **changes: str) -> str:
    """What a terminal of that width gets, from both outputs."""
    reader, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (40, columns))
    changes = {"TERM": "xterm", "COLUMNS": "", **changes}
    with subprocess.Popen(
        program(*arguments), env=environment(**changes), cwd=FLEET.parent, stdout=terminal, stderr=terminal
    ):
        os.close(terminal)
        found = b""
        with suppress(OSError), open(reader, "rb", buffering=0) as output:  # noqa: PTH123 - an open descriptor
            while piece := output.read(65536):
                found += piece
    return found.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    "arguments",
    [
        "allocate fleet -o wide",
        "explain --all fleet",
        "whatif fleet --overlay drain:gpu-a",
        "simulate fleet --policy first-fit --policy pack --jobs 1",
    ],
)
def test_everything_wraps_at_the_terminal_which_has_80_columns_at_least(arguments: str) -> None:
    shown = on_a_terminal(40, *arguments.split(), NO_COLOR="1")
    assert "Traceback" not in shown
    assert "\x1b[3" not in shown
    assert [line for line in shown.split("\n") if width_of(line.rpartition("\r")[2]) > 80] == []
    assert len(shown.split("\n")) > 5


def test_a_closed_standard_input_is_reported() -> None:
    found = subprocess.run(
        ["/bin/sh", "-c", '"$0" allocate - <&-', str(PROGRAM)], stdout=DEVNULL, stderr=PIPE, text=True, check=False
    )
    assert found.returncode == 2
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("arguments", ["allocate input.yaml", "extender config --help", "--help"])
def test_a_closed_standard_output_is_reported(arguments: str, tmp_path: Path) -> None:
    saved(tmp_path, *a_cluster(), *PODS[:1])
    found = subprocess.run(
        ["/bin/sh", "-c", f'"$0" {arguments} >&-', str(PROGRAM)], cwd=tmp_path, stderr=PIPE, text=True, check=False
    )
    assert (found.returncode, without_progress(found.stderr)) == (2, "dra: standard output is closed\n")


def test_a_closed_standard_error_changes_neither_the_output_nor_the_exit_code(tmp_path: Path) -> None:
    """What is said there, such as a warning about the input, is for nobody."""

    def run(arguments: str, closed: str = "") -> tuple[int, str]:
        call = ["/bin/sh", "-c", f'"$0" {arguments} {closed}', str(PROGRAM)]
        found = subprocess.run(call, cwd=tmp_path, stdout=PIPE, stderr=DEVNULL, text=True, check=False)
        return found.returncode, found.stdout

    saved(tmp_path, *a_cluster(), name="cluster.yaml")
    (tmp_path / "broken.yaml").write_text("{")
    whole = run("status cluster.yaml")
    assert whole[0] == 0
    assert run("status cluster.yaml", "2>&-") == whole
    assert run("status broken.yaml", "2>&-") == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [("allocate", "input.yaml"), ("allocate", "--help"), ("--help",)], ids=" ".join)
def test_a_full_disk_is_reported_in_one_line(arguments: tuple[str, ...], tmp_path: Path) -> None:
    saved(tmp_path, *a_cluster(), *PODS[:1])
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(program(*arguments), cwd=tmp_path, stdout=full, stderr=PIPE, text=True, check=False)
    assert (found.returncode, without_progress(found.stderr)) == (2, "dra: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_where_nothing_can_be_printed_the_exit_code_reports(tmp_path: Path) -> None:
    path = saved(tmp_path, *a_cluster(), *PODS[:1])
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(program("allocate", path), stdout=full, stderr=full, check=False).returncode == 2


@pytest.mark.usefixtures("hears_control_c")
def test_control_c_ends_without_a_word(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # The pipe is open once the program waits for what comes.
    with subprocess.Popen(program("allocate", pipe), stdout=PIPE, stderr=PIPE) as process, pipe.open("w"):
        process.send_signal(signal.SIGINT)
        out, reported = process.communicate()
    assert (out, without_progress(reported.decode())) == (b"", "")
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("module", "needless"),
    [("main", {"allocator", "numpy", "pydantic", "pydantic_core", "yaml"}), ("allocate", {"pydantic", "aiohttp"})],
)
def test_a_command_starts_without_what_it_does_not_need(module: str, needless: set[str]) -> None:
    listed = f"import sys, scheduler.cli.{module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    assert needless.isdisjoint(run.stdout.split())


GENERATED = ("kubernetes_asyncio.client.api.", "kubernetes_asyncio.client.models.")


@pytest.mark.parametrize("module", ["live.program", "extender.program", "guard.program"])
def test_a_program_starts_without_generated_models(module: str) -> None:
    listed = f"import sys, scheduler.{module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    imported = run.stdout.split()
    assert "kubernetes_asyncio.config.kube_config" in imported
    assert not [one for one in imported if one.startswith(GENERATED)]


def _said_by(*lines: str) -> list[str]:
    """What a new interpreter prints."""
    run = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def test_whoever_asks_for_a_generated_model_gets_it() -> None:
    asked = (
        "import kubernetes_asyncio as k",
        "print(k.client.V1Pod is k.client.models.V1Pod, k.client.V1Pod(kind='Pod').kind, k.client.CoreV1Api.__name__)",
        "print(k.watch.Watch.__name__, k.__version__ == k.client.__version__, hasattr(k.client, 'V1Nothing'))",
        "from kubernetes_asyncio.client.configuration import Configuration",
        "print(k.client.Configuration is Configuration, k.client.ApiClient.__name__)",
        "import kubernetes_asyncio.client as c; print(len([one for one in dir(c) if one.startswith('V1')]))",
    )
    assert _said_by("import scheduler.client", *asked) == _said_by(*asked)


def test_a_library_that_is_imported_already_stays_as_it_is() -> None:
    before = "import kubernetes_asyncio.client as before"
    after = "import kubernetes_asyncio.client as after; print(before is after, after.__file__ == before.__file__)"
    asked = "print('__getattr__' in vars(after), after.V1Pod.__name__)"
    assert _said_by(before, "import scheduler.client", after, asked) == ["True True", "False V1Pod"]
