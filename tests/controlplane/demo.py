"""`make demo-live`: control plane, fleet, our scheduler, fifty pods, who got what, and all of it stopped again.

The scheduler runs as in a cluster: as its own service account, with the rights of manifests/base and no others.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from tests.controlplane import binaries
from tests.controlplane.binaries import BuildError, Unavailable
from tests.controlplane.contents import manifests, restore
from tests.controlplane.fleet import EXAMPLES, publish
from tests.controlplane.ours import scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import PollTimeoutError
from tests.controlplane.process import StartError
from tests.controlplane.rest import CLAIM, POD, Json
from tests.controlplane.rights import grant

PODS = 50
_WORLD = EXAMPLES / "scheduler"


@click.command()
@click.option("--policy", default="first-fit", show_default=True, help="As `dra scheduler run --policy` takes it.")
def main(policy: str) -> None:
    """Place fifty pods on a control plane of their own, and stop all of it again."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        programs = binaries.find(os.environ, click.echo)
        with tempfile.TemporaryDirectory(prefix="dra-demo-") as folder:
            with ControlPlane(programs, Path(folder) / "plane") as plane:
                _run(plane, policy)
            click.echo("All stopped.")
    except (Unavailable, BuildError, StartError, PollTimeoutError, subprocess.CalledProcessError) as error:
        click.echo(f"demo: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("\nstopped")


def _run(plane: ControlPlane, policy: str) -> None:
    api = plane.client()
    click.echo(f"Kubernetes {binaries.release()} is up.")
    grant(api)
    restore(api, manifests(_WORLD / "nodes.yaml", _WORLD / "classes.yaml"))
    click.echo(publish(plane, EXAMPLES / "driver" / "ten-nodes.json"), nl=False)
    with scheduler(plane, ["--policy", policy]):
        click.echo(f"dra-scheduler is ready. {PODS} pods come ...")
        started = time.monotonic()
        restore(api, manifests(_WORLD / "workloads.yaml"))
        pods = api.await_all(POD, _are_placed)
        click.echo(
            f"{len(pods)} pods are placed {time.monotonic() - started:.1f} s after their workloads were created.\n"
        )
        click.echo(who_got_what(pods, api.list(CLAIM)))


def _are_placed(pods: Sequence[Json]) -> bool:
    return sum("nodeName" in pod["spec"] for pod in pods) == PODS


def who_got_what(pods: Sequence[Json], claims: Sequence[Json]) -> str:
    """A line for each pod: its node, and the devices of its claims."""
    of_claim = {(claim["metadata"]["namespace"], claim["metadata"]["name"]): claim for claim in claims}
    rows = [("POD", "NODE", "DEVICES")]
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        devices = [device for claim in _claims_of(pod) for device in _devices(of_claim[namespace, claim])]
        rows.append((f"{namespace}/{name}", pod["spec"].get("nodeName", ""), " ".join(devices)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _claims_of(pod: Json) -> list[str]:
    """The names of the pod's claims."""
    made = {
        status["name"]: status.get("resourceClaimName") for status in pod["status"].get("resourceClaimStatuses", ())
    }
    named = [entry.get("resourceClaimName") or made.get(entry["name"]) for entry in pod["spec"]["resourceClaims"]]
    return [name for name in named if name]


def _devices(claim: Json) -> list[str]:
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    return [f"{result['driver']}/{result['pool']}/{result['device']}" for result in results]


if __name__ == "__main__":
    main()
