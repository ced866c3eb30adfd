"""The reference's side of the benchmark: `peer bench`, a process for each way of asking."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self, TypeAlias

from tests.controlplane.binaries import BuildError, Unavailable, program_of

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "benchmarks" / "peer"
LIMIT = "10s"
RELEASES: Final = {
    "1.36": ["-modfile=go-1.36.mod", "-tags=kubernetes_1_36"],
    "1.37": [],
    "1.38": ["-modfile=go-1.38.mod", "-tags=kubernetes_1_38"],
}
"""How the program is built around a release of Kubernetes; the last one is the newest."""
NEWEST: Final = list(RELEASES)[-1]

Json: TypeAlias = dict[str, Any]


class CelTimes(NamedTuple):
    """One expression: the median time to compile it, and that of a device, in seconds; how many devices it selects."""

    compile: float
    device: float
    matches: int


class Reference:
    """Kubernetes' own allocator and CEL of a release, built from benchmarks/peer."""

    def __init__(self, kubernetes: str = NEWEST) -> None:
        try:
            self._program = program_for(kubernetes)
        except (BuildError, Unavailable) as error:
            sys.exit(str(error))
        self._running: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def pods_a_second(self, case: Json, pods: int, *, all_nodes: bool) -> float | None:
        """Places pods one after the other; all_nodes: looks for as many feasible nodes as kube-scheduler."""
        how = ("-feasible", "-1", "-parallel", "16") if all_nodes else ("-feasible", "1")
        answer = self._ask(("bench", "cluster", "-pods", str(pods), *how), case)
        found = answer.get("podsPerSecond")
        return float(found) if found else None

    def attempt_seconds(self, case: Json, repeat: int, *, is_cold: bool) -> float | None:
        """The median time of an attempt on the first node; None where there is no answer in time."""
        how = ("-fresh",) if is_cold else ()
        answer = self._ask(("bench", "allocate", "-limit", LIMIT, "-repeat", str(repeat), *how), case)
        times = answer.get("allocate") or {}
        first = next(iter(times.values()), None)
        if answer.get("fault") or "timeout" in (answer.get("errorKinds") or {}).values() or first is None:
            return None
        return float(first["median"]) / 1e9

    def cel_times(self, expressions: Sequence[str], devices_file: Path, repeat: int) -> list[CelTimes]:
        """Evaluates each expression on all devices of a JSON file; raises ValueError with the reference's complaint."""
        request = {"expressions": expressions, "devicesFile": str(devices_file), "repeat": repeat}
        answer = self._ask(("bench", "cel"), request)
        if answer.get("fault"):
            raise ValueError(answer["fault"])
        columns = zip(answer["compile"], answer["perDevice"], answer["matches"], strict=True)
        return [CelTimes(times["median"] / 1e9, passes["median"] / 1e9, found) for times, passes, found in columns]

    def _ask(self, command: tuple[str, ...], case: Json) -> Json:
        process = self._running.get(command)
        if process is None:
            arguments = [str(self._program), *command]
            process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._running[command] = process
        requests, answers = _pipes(process)
        requests.write(json.dumps(case).encode() + b"\n")
        requests.flush()
        answer: Json = json.loads(answers.readline())
        if answer.get("fault"):
            # What hangs keeps its processor until the program ends.
            process.kill()
            process.wait()
            del self._running[command]
        return answer


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def program_for(kubernetes: str) -> Path:
    """The peer around a release, built where its sources changed. Raises BuildError or Unavailable."""
    return program_of(SOURCE, f"peer-{kubernetes}", [*RELEASES[kubernetes], "."], os.environ, lambda _: None)
