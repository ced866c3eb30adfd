"""The control plane in the foreground: it says what to do, and Ctrl-C ends all of it."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.controlplane.binaries import Binaries
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.process import says_ok
from tests.controlplane.rest import NODE, SLICE, RestClient
from tests.integration.conftest import ROOT

Start = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def cluster(binaries: Binaries) -> Iterator[Start]:
    """Starts the program with a folder."""
    assert binaries.etcd.is_file()
    with ExitStack() as stack:

        def start(folder: Path) -> "subprocess.Popen[str]":
            command = [sys.executable, "-m", "tests.controlplane.cluster", "--folder", str(folder)]
            output = subprocess.PIPE
            program = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, text=True)
            stack.enter_context(program)
            stack.callback(program.kill)
            return program

        yield start


def lines_until(program: "subprocess.Popen[str]", last: str) -> str:
    assert program.stdout is not None
    lines: list[str] = []
    for line in program.stdout:
        lines.append(line)
        if last in line:
            break
    return "".join(lines)


def test_cluster_holds_the_fleet_until_ctrl_c(cluster: Start, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    program = cluster(folder)
    said = lines_until(program, "Ctrl-C")
    assert f"export KUBECONFIG={folder}/admin.kubeconfig" in said
    assert "gpu.example.com/gpu-a: generation 1, 4 devices" in said
    (programs,) = re.findall(r"^its programs in (.+)$", said, re.MULTILINE)
    assert (Path(programs) / "kube-scheduler").is_file()
    server, api = client(folder)
    assert len(api.list(NODE)) == 4
    assert len(api.list(SLICE)) == 7
    program.send_signal(signal.SIGINT)
    assert program.wait(TIMEOUT_S) == 0
    port = urlsplit(server).port
    assert port is not None
    assert not says_ok(port, "/readyz", folder / "apiserver" / "apiserver.crt")


def client(folder: Path) -> tuple[str, RestClient]:
    """The server's address and a client, as the kubeconfig has them."""
    config = json.loads((folder / "admin.kubeconfig").read_text())
    server, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
    return server, RestClient(server, folder / "apiserver" / "apiserver.crt", token)


def test_folder_in_use_is_refused(cluster: Start, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    program = cluster(tmp_path)
    assert "is not empty" in lines_until(program, "is not empty")
    assert program.wait(TIMEOUT_S) == 1
