"""Programs end with their owner, however the owner ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.process import LEASH, Process, StartError

ROOT = Path(__file__).resolve().parents[2]

# Each says that it runs by opening a pipe, and that it has ended by closing it.
RUNS = "import sys, time; pipe = open(sys.argv[1], 'w'); pipe.write('up'); pipe.flush(); time.sleep(600)"
IGNORES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {RUNS}"
OWNER = """
import sys, time
from pathlib import Path
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.process import Process
Process("program", [sys.executable, "-c", sys.argv[1], sys.argv[2]], Path(sys.argv[3]))
time.sleep(600)
"""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_program_ends_when_its_owner_is_killed(pipe: Path, tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, RUNS, pipe, tmp_path / "log"], cwd=ROOT)
    with pipe.open() as ends:
        assert ends.read(2) == "up"
        owner.send_signal(signal.SIGKILL)
        owner.wait(TIMEOUT_S)
        assert ends.read() == ""


def test_stopped_program_is_gone(pipe: Path, tmp_path: Path) -> None:
    process = Process("program", [sys.executable, "-c", RUNS, pipe], tmp_path / "log")
    with pipe.open() as ends:
        assert ends.read(2) == "up"
        process.stop()
        assert ends.read() == ""
    assert not process.ended_by_itself
    process.stop()


def test_program_that_ignores_the_signal_is_killed_after_the_grace(pipe: Path) -> None:
    command: list[str | Path] = [sys.executable, LEASH, "0.1", sys.executable, "-c", IGNORES, pipe]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as leash, pipe.open() as ends:
        assert leash.stdin is not None
        assert ends.read(2) == "up"
        leash.stdin.close()
        assert ends.read() == ""
        assert leash.wait(TIMEOUT_S) == -signal.SIGKILL % 256


def test_killed_program_is_gone_without_a_word(pipe: Path, tmp_path: Path) -> None:
    process = Process("program", [sys.executable, "-c", IGNORES, pipe], tmp_path / "log")
    with pipe.open() as ends:
        assert ends.read(2) == "up"
        process.kill()
        assert ends.read() == ""
    assert process.exit_code == -signal.SIGKILL % 256
    assert not process.ended_by_itself


def test_program_that_ends_before_it_is_ready_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = Process("etcd", [sys.executable, "-c", "print('no room left'); exit(3)"], tmp_path / "etcd.log")
    with pytest.raises(StartError, match=r"(?s)etcd ended with code 3.*etcd\.log:\nno room left"):
        process.await_ready(lambda: False)
    assert process.ended_by_itself
    process.stop()


def test_program_that_is_never_ready_is_reported(tmp_path: Path) -> None:
    process = Process("etcd", [sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "etcd.log")
    with pytest.raises(StartError, match="etcd was not ready after 0 s; it wrote nothing"):
        process.await_ready(lambda: False, 0)
    process.stop()
