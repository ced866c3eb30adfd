"""One program of the control plane: started on a leash, logged to a file, awaited, stopped.

Programs run in sessions of their own, so that Ctrl-C in a terminal reaches only us, and we stop them in our order.
"""

import http.client
import os
import ssl
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

from tests.controlplane.leash import AT_ONCE
from tests.controlplane.polling import TIMEOUT_S

LEASH = Path(__file__).with_name("leash.py")
GRACE_S = 60.0
POLL_S = 0.05
TAIL_LINES = 25


class StartError(Exception):
    """A program did not come up; the message ends with the last lines of its log."""


class Process:
    """A running program; it ends with `stop` or with this process. environment: beside this process's own."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.name = name
        self.log = log
        self._is_stopped = False
        log.parent.mkdir(parents=True, exist_ok=True)
        # -I and -S: the leash needs no more than the standard library, and is up in a third of the time.
        leashed = [sys.executable, "-I", "-S", LEASH, str(GRACE_S), *command]
        with log.open("ab") as output:
            self._leash = subprocess.Popen(
                leashed,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **environment},
            )

    @property
    def is_running(self) -> bool:
        """Whether the program has not ended."""
        return self._leash.poll() is None

    @property
    def ended_by_itself(self) -> bool:
        """Whether the program has ended though nobody stopped it."""
        return not self._is_stopped and not self.is_running

    def stop(self) -> None:
        """End the program and wait until it is gone; again is no error."""
        self._is_stopped = True
        assert self._leash.stdin is not None
        self._leash.stdin.close()
        self._leash.wait()

    def kill(self) -> None:
        """End the program at once, with no chance to do anything, and wait until it is gone."""
        assert self._leash.stdin is not None
        if self.is_running:
            self._leash.stdin.write(AT_ONCE)
        self.stop()

    @property
    def exit_code(self) -> int | None:
        """What the program ended with, 256 less the signal that ended it; None while it runs."""
        return self._leash.poll()

    @property
    def pid(self) -> int:
        """The program's own process id, which is not the leash's; ProcessLookupError where it has ended. Linux only."""
        leash = self._leash.pid
        try:
            children = Path(f"/proc/{leash}/task/{leash}/children").read_text()
        except FileNotFoundError:
            children = ""
        if not children:
            raise ProcessLookupError(f"{self.name} has ended")
        return int(children)

    def await_ready(self, is_ready: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
        """Wait until `is_ready` says so; StartError where the program ends first or the time is up."""
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if not self.is_running:
                raise StartError(f"{self.name} ended with code {self._leash.returncode}; {self.tail()}")
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} was not ready after {timeout_s:.0f} s; {self.tail()}")
            time.sleep(POLL_S)

    def tail(self) -> str:
        """Where the log is, and its last lines."""
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            last = "".join(deque(lines, TAIL_LINES)).rstrip()
        return f"the end of {self.log}:\n{last}" if last else f"it wrote nothing to {self.log}"


def says_ok(port: int, path: str, ca_file: Path | None = None) -> bool:
    """Whether the loopback server answers 200; False also while its certificate is not written yet.

    ca_file: the server speaks TLS with a certificate that this file vouches for; None: plain HTTP.
    """
    try:
        with closing(_connection(port, ca_file)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
    except (OSError, http.client.HTTPException):
        return False
    return answer.status == http.client.OK


def _connection(port: int, ca_file: Path | None) -> http.client.HTTPConnection:
    if ca_file is None:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    context = ssl.create_default_context(cafile=ca_file)  # OSError while the file is not there
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
