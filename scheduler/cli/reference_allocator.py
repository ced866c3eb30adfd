"""Kubernetes' own allocator as a program, which reads and answers JSON lines (benchmarks/peer/README.md)."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

SOURCE = Path(__file__).resolve().parents[2] / "benchmarks" / "peer"
LIMIT = "60s"
"""After this it is taken to hang."""

RELEASES: Mapping[str, tuple[str, ...]] = {"1.37": (), "1.36": ("-modfile=go-1.36.mod", "-tags=kubernetes_1_36")}
"""Releases whose allocator can be built, and the options of `go build`."""

Json = dict[str, Any]


class NoReferenceAllocator(Exception):
    """It cannot be built or asked."""


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer, and how long it took from the question on."""

    answer: Json
    seconds: float


def built(release: str) -> Path:
    """The program, built with Go from the sources. Raises NoReferenceAllocator."""
    if release not in RELEASES:
        raise NoReferenceAllocator(f"it can be built of Kubernetes {' and '.join(RELEASES)}, not of {release}")
    if not SOURCE.is_dir():
        raise NoReferenceAllocator("its sources, benchmarks/peer, are not here: use a checkout, or --peer")
    if shutil.which("go") is None:
        raise NoReferenceAllocator("there is no Go: install Go 1.26 or later (https://go.dev/dl), or use --peer")
    program = SOURCE.parents[1] / ".cache" / "peer" / ("peer" if release == "1.37" else f"peer-{release}")
    command = ["go", "build", *RELEASES[release], "-o", str(program), "."]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        raise NoReferenceAllocator(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return program


class ReferenceAllocator:
    """The running program. Raises NoReferenceAllocator where it cannot be run, or does not answer."""

    def __init__(self, program: Path) -> None:
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the one that was built, or that the user names
                [os.fspath(program), "allocate", "-limit", LIMIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            raise NoReferenceAllocator(f"{program}: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended before, with something unread
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def ask(self, question: Mapping[str, object]) -> TimedAnswer:
        """Its answer to a case in the format of `dra verify allocation`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = orjson.dumps(question, option=orjson.OPT_APPEND_NEWLINE)
        begin = time.perf_counter()
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            found = self._process.stdout.readline()
        except BrokenPipeError:
            found = b""
        seconds = time.perf_counter() - begin
        answer = orjson.loads(found) if found else {"fault": f"it ended with code {self._process.wait()}"}
        if not isinstance(answer, dict):
            raise NoReferenceAllocator(f"{answer!r} is not an answer")
        if "fault" in answer:
            raise NoReferenceAllocator(f"{question.get('name')}: {answer['fault']}")
        return TimedAnswer(answer, seconds)
