"""`dra status --watch` follows a cluster by watches: on a terminal, without one, and while the connection is lost."""

import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.controlplane.contents import manifests, restore
from tests.controlplane.faults import Hold, cut_before, refuse
from tests.controlplane.identities import ADMIN, TENANT
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import TIMEOUT_S, poll_until
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import RestClient
from tests.integration.conftest import FLEET
from tests.integration.test_live_input import DRA
from tests.unit.scheduler.manifests import a_claim, a_request, a_slice

pytestmark = pytest.mark.usefixtures("hears_control_c")

BEFORE, AFTER = "\x1b[?1049h\x1b[?25l", "\x1b[?1049l\x1b[?25h"


@pytest.fixture(autouse=True)
def fleet(api: RestClient) -> None:
    files = ("nodes.yaml", "slices.yaml", "classes.yaml", "in-use.yaml")
    waiting = a_claim("waiting", a_request(device_class="gpu.example.com"), namespace="research")
    restore(api, [*(one for name in files for one in manifests(FLEET / name)), waiting])


def publish(api: RestClient) -> None:
    restore(api, [a_slice("new", node="gpu-b", driver="new.example")])


class Terminal:
    """The command on a terminal. sent: all that it was sent so far."""

    def __init__(self, kubeconfig: Path, *options: str, **environ: str) -> None:
        self.sent = ""
        self._end, self._own = os.openpty()
        self.resize(40, 100)
        self.before = termios.tcgetattr(self._own)
        self.process = subprocess.Popen(
            [DRA, "status", "--watch", "--interval", "0.1", "--kubeconfig", str(kubeconfig), *options],
            stdin=self._own,
            stdout=self._own,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm", **environ},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._end)
        os.close(self._own)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._own, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def rows(self) -> Sequence[str]:
        """What can be seen now, row by row."""
        while select.select([self._end], [], [], 0.02)[0]:
            self.sent += os.read(self._end, 1 << 16).decode()
        shown: dict[int, str] = {}
        for row, what, text in re.findall(r"\x1b\[(?:(\d+);1H|(2J))((?:[^\x1b]|\x1b\[[01]m)*)", self.sent):
            if what:
                shown.clear()
            else:
                shown[int(row)] = re.sub(r"\x1b\[[01]m", "", text)
        return [shown.get(number, "") for number in range(1, max(shown, default=0) + 1)]

    def until(self, *texts: str) -> Sequence[str]:
        """The rows once each of the texts is in one of them."""
        return poll_until(lambda rows: all(any(text in row for row in rows) for text in texts), self.rows, str(texts))

    def end(self, by: signal.Signals) -> int:
        self.process.send_signal(by)
        code = self.process.wait(TIMEOUT_S)
        self.rows()
        return code


def cells(rows: Sequence[str]) -> Sequence[Sequence[str]]:
    return [row.split() for row in rows]


NEW = ["new.example", "2", "2", "0", "0"]


def test_a_terminal_shows_what_changes_and_is_given_back(plane: ControlPlane, api: RestClient) -> None:
    with Terminal(plane.kubeconfig(), "--by", "driver") as terminal:
        rows = terminal.until("gpu.example.com", "Ctrl-C ends")
        assert ["gpu.example.com", "12", "11", "1", "1"] in cells(rows)
        drawn = len(terminal.sent)
        publish(api)
        assert NEW in cells(terminal.until("new.example"))
        assert "\x1b[1mnew.example" in terminal.sent
        assert "gpu.example.com" not in terminal.sent[drawn:]  # it has not changed
        assert terminal.end(signal.SIGINT) == 130
        assert terminal.sent.startswith(BEFORE)
        assert terminal.sent.count(AFTER) == 1
        left = terminal.sent.partition(AFTER)[2].splitlines()
        assert NEW in cells(left)
        assert termios.tcgetattr(terminal._own) == terminal.before


def test_a_terminal_is_given_back_when_the_command_is_told_to_end(plane: ControlPlane) -> None:
    with Terminal(plane.kubeconfig(), NO_COLOR="1") as terminal:
        terminal.until("gpu.example.com")
        assert terminal.end(signal.SIGTERM) == 143
        assert terminal.sent.count(AFTER) == 1
        assert "\x1b[1m" not in terminal.sent


def test_a_terminal_of_another_size_is_drawn_anew(plane: ControlPlane) -> None:
    with Terminal(plane.kubeconfig(), "--by", "device", COLUMNS="100", LINES="40") as terminal:
        assert len(terminal.until("gpu-c/gpu-3", "Ctrl-C ends")) == 23
        terminal.resize(10, 30)
        terminal.process.send_signal(signal.SIGWINCH)
        rows = terminal.until("more lines", "Ctrl-C ends")
        assert len(rows) == 10
        assert max(map(len, rows)) == 30
        terminal.resize(40, 100)
        terminal.process.send_signal(signal.SIGWINCH)
        assert len(terminal.until("gpu-c/gpu-3", "Ctrl-C ends")) == 23


def test_a_terminal_that_cannot_be_drawn_on_gets_lines(plane: ControlPlane) -> None:
    with Terminal(plane.kubeconfig(), "--by", "driver", TERM="dumb") as terminal:
        poll_until(lambda _: "gpu.example.com" in terminal.sent, terminal.rows, "lines")
        assert terminal.end(signal.SIGINT) == 130
        assert "\x1b" not in terminal.sent


def test_a_lost_connection_is_reported_until_it_is_back(proxy: Proxy, api: RestClient) -> None:
    with Terminal(proxy.kubeconfig(ADMIN), "--by", "driver") as terminal:
        terminal.until("gpu.example.com")
        proxy.on("GET", "", cut_before, times=None)
        proxy.cut_watches()
        rows = terminal.until("connection lost at ", "trying again; what is shown may be old: GET /")
        assert ["gpu.example.com", "12", "11", "1", "1"] in cells(rows)
        publish(api)
        proxy.forget_rules()
        rows = terminal.until(", back at ", "new.example")
        assert NEW in cells(rows)
        assert not any("trying again" in row for row in rows)


def test_the_cluster_is_watched_and_not_listed_again(proxy: Proxy, api: RestClient) -> None:
    with Terminal(proxy.kubeconfig(ADMIN), "--by", "driver") as terminal:
        terminal.until("gpu.example.com")
        asked = len(proxy.requests)
        publish(api)
        terminal.until("new.example")
        assert len(proxy.requests) == asked
        assert {one.method for one in proxy.requests} == {"GET"}
        assert len(proxy.watches("resourceslices")) == 1


@contextmanager
def piped(kubeconfig: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    arguments = ("status", "--watch", "--interval", "0.1", "--kubeconfig", str(kubeconfig), *options)
    with subprocess.Popen([DRA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            yield run
        finally:
            run.kill()


def lines(run: "subprocess.Popen[str]", number: int, stream: str = "stdout") -> Sequence[Sequence[str]]:
    return [getattr(run, stream).readline().split() for _ in range(number)]


def test_without_a_terminal_the_table_is_printed_again_when_it_has_changed(
    plane: ControlPlane, api: RestClient
) -> None:
    with piped(plane.kubeconfig(), "--by", "driver") as run:
        before = lines(run, 4)
        publish(api)
        after = lines(run, 6)
        run.send_signal(signal.SIGINT)
        assert run.wait(TIMEOUT_S) == 130
    assert ["gpu.example.com", "12", "11", "1", "1"] in before
    assert after[0] == []
    assert NEW in after


def test_table_without_lines_is_a_sentence(plane: ControlPlane, tmp_path: Path) -> None:
    limits = tmp_path / "limits.yaml"
    limit = {
        "name": "few",
        "namespaces": {"names": ["research"]},
        "count": {"deviceClassName": "gpu.example.com"},
        "most": 7,
    }
    kind = {"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "DraSchedulerConfiguration"}
    limits.write_text(json.dumps({**kind, "limits": [limit]}))
    for by, why in ((["limit", "--config", str(limits)], "no limit holds"), (["device"], "no claim")):
        with piped(plane.kubeconfig(), "--by", *by, "-n", "nobody") as run:
            assert " ".join(lines(run, 1)[0]).startswith(f"{why} ")
            run.send_signal(signal.SIGINT)
            assert run.wait(TIMEOUT_S) == 130


@pytest.mark.parametrize("path", ["/apis", "/resourceslices$", "/pods$"])
def test_it_ends_by_an_interrupt_while_a_call_is_not_answered(proxy: Proxy, path: str) -> None:
    hold = Hold()
    rule = proxy.on("GET", path, hold, times=None)
    with piped(proxy.kubeconfig(ADMIN)) as run:
        rule.met.wait()
        run.send_signal(signal.SIGINT)
        assert run.wait(TIMEOUT_S) == 130
    hold.release()


def test_it_ends_by_an_interrupt_while_the_connection_is_lost(proxy: Proxy) -> None:
    with piped(proxy.kubeconfig(ADMIN), "--by", "driver") as run:
        lines(run, 4)
        proxy.on("GET", "", cut_before, times=None)
        proxy.cut_watches()
        assert run.stderr is not None
        while not run.stderr.readline().startswith("connection lost at "):
            pass
        run.send_signal(signal.SIGINT)
        assert run.wait(TIMEOUT_S) == 130


def test_it_goes_on_after_an_interrupt_that_whoever_started_it_ignores(plane: ControlPlane, api: RestClient) -> None:
    """As for each program that a script starts in the background: Ctrl-C is meant for what is in the foreground."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with piped(plane.kubeconfig(), "--by", "driver") as run:
        lines(run, 4)
        run.send_signal(signal.SIGINT)
        publish(api)
        assert NEW in lines(run, 6)
        run.send_signal(signal.SIGTERM)
        assert run.wait(TIMEOUT_S) == 143


def test_without_a_terminal_a_lost_connection_is_a_line(proxy: Proxy) -> None:
    with piped(proxy.kubeconfig(ADMIN), "--by", "driver") as run:
        lines(run, 4)
        assert run.stderr is not None
        assert run.stderr.readline().startswith("reading context ")
        proxy.on("GET", "", cut_before, times=None)
        proxy.cut_watches()
        while not (said := run.stderr.readline()).startswith("connection lost at "):
            assert said.startswith("warning: ")
        proxy.forget_rules()
        while ", back at " not in (said := run.stderr.readline()):
            assert said.startswith(("warning: ", "connection lost at "))


def test_it_ends_when_nobody_reads_any_more(plane: ControlPlane, api: RestClient) -> None:
    with piped(plane.kubeconfig(), "--by", "driver") as run:
        lines(run, 4)
        assert run.stdout is not None
        run.stdout.close()
        publish(api)
        assert run.wait(60) == 141
        assert run.stderr is not None
        assert len(run.stderr.read().splitlines()) == 1


def test_claims_of_a_namespace_are_followed(plane: ControlPlane, api: RestClient) -> None:
    with Terminal(plane.kubeconfig(), "--by", "claim", "-n", "research") as terminal:
        rows = terminal.until("notebook-gpu", "waiting")
        states = {row[1]: row[2] for row in cells(rows) if row[:1] == ["research"]}
        assert states["waiting"] == "pending"
        restore(api, [a_claim("another", a_request(device_class="gpu.example.com"), namespace="research")])
        terminal.until("another")


def ended(kubeconfig: Path, *options: str) -> tuple[int, str, str]:
    with piped(kubeconfig, *options) as run:
        out, err = run.communicate(timeout=60)
    return run.returncode, out, err


def test_without_the_rights_the_call_that_is_refused_is_named(plane: ControlPlane) -> None:
    code, out, err = ended(plane.kubeconfig(TENANT))
    assert (code, out) == (2, "")
    assert "403 Forbidden" in err
    assert "/apis/resource.k8s.io/" in err


FORBIDDEN: Mapping[str, str] = {"/nodes$": "nodes", "/pods$": "pods"}


@pytest.mark.parametrize("path", FORBIDDEN)
def test_what_beside_devices_may_not_be_read_does_not_count(proxy: Proxy, path: str) -> None:
    proxy.on("GET", path, refuse(403, "Forbidden"), times=None)
    with Terminal(proxy.kubeconfig(ADMIN), "--by", "driver") as terminal:
        warning = f"warning: {FORBIDDEN[path]} cannot be watched, and do not count: "
        rows = terminal.until("gpu.example.com", warning)
        assert ["gpu.example.com", "12", "11", "1", "1"] in cells(rows)
        proxy.forget_rules()
        poll_until(lambda rows: not any("warning" in row for row in rows), terminal.rows, "no warning")
