"""The reference at hand: builds the Go program `benchmarks/peer` and asks it.

One process per subcommand lives as long as the tests that use it. Requests go in
and answers come out one JSON line each, in the same order. Without Go there is no
reference, and the tests that need it say so and are skipped.
"""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

import orjson
import pytest

from benchmarks.reference import program_for
from tests.controlplane.binaries import BuildError, Unavailable, own_program

GO_IS_MISSING = "the reference is not at hand: install Go 1.26 or later (https://go.dev/dl) to compare with it"
LIMIT = "300s"  # after this the reference is taken to hang; on a busy machine it may need a minute

Json = dict[str, Any]  # Any: what a request or an answer holds depends on the subcommand


class PeerError(Exception):
    """The peer could not be built or asked; its own words are in the message."""


def built_or_skipped(kubernetes: str = "1.37") -> Path:
    """The path of the peer's program; skips the test that asks where there is no Go."""
    if not has_go():
        pytest.skip(GO_IS_MISSING)
    return build(kubernetes)


def has_go() -> bool:
    """Whether a program in Go can be built."""
    return shutil.which("go") is not None


def build(kubernetes: str = "1.37") -> Path:
    """The path of the peer's program, built where its sources changed."""
    try:
        return program_for(kubernetes)
    except BuildError as error:
        raise PeerError(str(error)) from None


def built_plugins_or_skipped(kubernetes: str = "") -> Path:
    """The program that asks kube-scheduler's own plugins, by default of the usual release; skips without Go."""
    try:
        return own_program("plugins", os.environ, lambda _: None, kubernetes)
    except Unavailable:
        pytest.skip(GO_IS_MISSING)


class Peer:
    """A running subcommand of the peer, or another program that answers lines and has none."""

    def __init__(self, program: Path, subcommand: str = "") -> None:
        arguments = [*subcommand.split(), "-limit", LIMIT] if subcommand else []
        self._process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; requests still unanswered are lost."""
        self._requests.close()
        self._answers.close()
        self._process.wait()

    def ask(self, request: Mapping[str, object]) -> Json:
        """The answer to one request; a fault is one of the answers."""
        return next(self.ask_all([request]))

    def ask_all(self, requests: Sequence[Mapping[str, object]]) -> Iterator[Json]:
        """The answers in the order of the requests; all of them have to be taken.

        The requests are written by a thread, so that neither side waits for the other with full pipes.
        """
        writer = threading.Thread(target=self._write, args=(requests,))
        writer.start()
        for _ in requests:
            yield self._read()
        writer.join()

    def _write(self, requests: Sequence[Mapping[str, object]]) -> None:
        for request in requests:
            self._requests.write(orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE))
        self._requests.flush()

    def _read(self) -> Json:
        line = self._answers.readline()
        if not line:
            raise PeerError(f"the peer ended with code {self._process.wait()} before it had answered")
        answer = orjson.loads(line)
        if not isinstance(answer, dict):
            raise PeerError(f"the peer answered {line!r}, not an object")
        return answer
