"""`make chaos`: rounds of random faults on a real control plane, with all of our programs side by side.

Each round has a seed of its own, SEED and on: `make chaos ROUNDS=1 SEED=N` repeats round N. Prints a line for each
round, and stops at the first one in which something was wrong: with its seed, its faults, and the revisions that led
there, which are written to report.json as well. The exit code is 0 where all rules hold, 1 where one is broken, 2 where
the rounds themselves could not be carried out.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import click

from tests.chaos.cast import REQUEST_TIMEOUT_S, Cast
from tests.chaos.etcd import ENDPOINTS, EtcdHistory
from tests.chaos.growth import Use
from tests.chaos.judge import Judge
from tests.chaos.objects import furnish
from tests.chaos.plan import OURS, RoundPlan, planned
from tests.chaos.round import RoundRun
from tests.chaos.wrong import Troublemaker
from tests.controlplane import binaries
from tests.controlplane.binaries import Binaries, BuildError, Unavailable
from tests.controlplane.contents import manifests, restore
from tests.controlplane.door import Door, door
from tests.controlplane.guarded import MANIFESTS, install
from tests.controlplane.plane import DEVICE_CONTROLLERS, VOLUME_CONTROLLERS, ControlPlane
from tests.controlplane.polling import PollTimeoutError
from tests.controlplane.process import StartError
from tests.controlplane.profiles import EVERY_VERSION
from tests.controlplane.rest import SLICE, ApiError, Json
from tests.controlplane.rights import BASE, grant
from tests.soak.checker import Wrong
from tests.soak.inventory import inventory_of
from tests.soak.revisions import Revision

CONTROLLERS = (
    *DEVICE_CONTROLLERS,
    *VOLUME_CONTROLLERS,
    *("persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller"),
)
FLAGS = {
    "etcd": ["--unsafe-no-fsync=false"],  # what a killed etcd has answered has to be there afterwards
    "kube-apiserver": [f"--request-timeout={REQUEST_TIMEOUT_S}s", "--storage-media-type=application/json"],
}
_EXTENDER_RIGHTS = BASE.parent / "extender" / "base" / "extender-rbac.yaml"
_ADDRESS = "dra-guard"


class RoundResult(NamedTuple):
    """What became of a round. uses: what each program used after it."""

    plan: RoundPlan
    lasted_s: float
    revisions: int
    wrongs: Sequence[Wrong]
    uses: Mapping[str, Use]

    def __str__(self) -> str:
        faults = "; ".join(map(str, self.plan.faults))
        verdict = "; ".join(f"{one.rule}: {one.text}" for one in self.wrongs) or "ok"
        return f"seed {self.plan.seed}: {self.lasted_s:.1f} s, {self.revisions} revisions; {faults}: {verdict}"


@click.command()
@click.option("--rounds", default=20, show_default=True)
@click.option("--seed", default=1, show_default=True, help="Of the first round; each further one has the next.")
@click.option("--output", type=click.Path(path_type=Path), default=Path(".cache/chaos"), show_default=True)
def main(rounds: int, seed: int, output: Path) -> None:
    """Let things go wrong in rounds, and see whether all rules hold."""
    output.mkdir(parents=True, exist_ok=True)
    try:
        programs = binaries.find(os.environ, click.echo)
        with tempfile.TemporaryDirectory(prefix="dra-chaos-") as folder:
            plane = a_plane(programs, Path(folder) / "plane")
            is_good = _run(plane, range(seed, seed + rounds), output)
    except (Unavailable, BuildError, StartError, ApiError, PollTimeoutError, ConnectionError) as error:
        click.echo(f"chaos: {error}", err=True)
        sys.exit(2)
    sys.exit(0 if is_good else 1)


def a_plane(programs: Binaries, folder: Path) -> ControlPlane:
    """A control plane whose etcd keeps what it has answered, and can be read from outside."""
    return ControlPlane(programs, folder, EVERY_VERSION, CONTROLLERS, FLAGS)


def _run(plane: ControlPlane, seeds: Sequence[int], output: Path) -> bool:
    """Whether all rounds were good; each is written down as it ends."""
    with plane, stage(plane) as played, (output / "rounds.jsonl").open("a") as written:
        for number, seed in enumerate(seeds, 1):
            result, stories = played(planned(seed))
            click.echo(f"round {number} of {len(seeds)}, {result}")
            written.write(json.dumps(_document(result)) + "\n")
            written.flush()
            if result.wrongs:
                _report(result, stories, plane, output)
                return False
    return True


Play = Callable[[RoundPlan], tuple[RoundResult, dict[str, list[str]]]]
"""Carries a round out. Returns its result, and what led to what was wrong."""


@contextmanager
def stage(plane: ControlPlane) -> Iterator[Play]:
    """All programs on the control plane, which is running; one round after the other can be played."""
    api = plane.client()
    with door() as way:
        grant(api)
        restore(api, manifests(_EXTENDER_RIGHTS))
        furnish(api)
        restore(
            api, [one for one in manifests(MANIFESTS / "guard.yaml") if one["kind"] in ("Service", "EndpointSlice")]
        )
        install(api, way.port)
        judged = Judge(inventory_of(api.list(SLICE)))

        def see(resource: str, revision: Revision) -> None:
            _lead(way, resource, revision.object)
            judged.see(resource, revision)

        with EtcdHistory(plane.etcd_port, see) as history, Cast(plane) as cast:
            cast.await_ready()
            rounds = RoundRun(plane, cast, Troublemaker(plane, cast, way, history), history, judged)

            def play(plan: RoundPlan) -> tuple[RoundResult, dict[str, list[str]]]:
                began_s, revisions = monotonic(), history.revisions
                wrongs = rounds.play(plan)
                result = RoundResult(plan, monotonic() - began_s, history.revisions - revisions, wrongs, rounds.uses())
                stories = {one.text: judged.story(one) for one in wrongs}
                return result, {**stories, "all revisions": judged.remembered()} if wrongs else {}

            yield play


def _lead(way: Door, resource: str, found: Json) -> None:
    """The door leads to where the guard that answers says that it is, as a Service does."""
    if resource == ENDPOINTS and found["metadata"]["name"] == _ADDRESS and found.get("endpoints"):
        (port,) = found["ports"]
        if way.target != port["port"]:
            way.lead_to(port["port"])


def _document(result: RoundResult) -> Json:
    return {
        "seed": result.plan.seed,
        "faults": [fault._asdict() for fault in result.plan.faults],
        "seconds": round(result.lasted_s, 1),
        "revisions": result.revisions,
        "wrongs": [wrong._asdict() for wrong in result.wrongs],
        "uses": {name: use._asdict() for name, use in result.uses.items()},
    }


def _report(result: RoundResult, stories: dict[str, list[str]], plane: ControlPlane, output: Path) -> None:
    """Everything about a round that failed, and the logs of all programs."""
    (output / "report.json").write_text(json.dumps({**_document(result), "stories": stories}, indent=1) + "\n")
    logs = output / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    for name in (*OURS, "kube-scheduler"):
        for log in (plane.folder / "logs").glob(f"{name}*.log"):
            shutil.copy(log, logs)
    click.echo(f"to repeat it: make chaos ROUNDS=1 SEED={result.plan.seed}; written: {output / 'report.json'}, {logs}")


if __name__ == "__main__":
    main()
