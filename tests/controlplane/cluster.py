"""`make cluster`: a control plane in the foreground, with a small fleet, to try things on.

Starts it, restores the nodes and classes of the example fleet, lets the sample driver publish their devices, says what
to try, and stops everything on Ctrl-C, or as soon as a program ends that should not.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tests.controlplane import binaries
from tests.controlplane.binaries import Binaries, BuildError, Unavailable
from tests.controlplane.contents import manifests, restore
from tests.controlplane.fleet import EXAMPLES, publish
from tests.controlplane.identities import OURS
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import StartError
from tests.controlplane.profiles import PROFILES
from tests.controlplane.rest import CLASS, NODE, SLICE
from tests.controlplane.rights import grant

FLEET = EXAMPLES / "fleet"
_LOOKED_AT_EVERY_S = 0.5
_DUMPED = "nodes,pods,resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates"


@click.command()
@click.option("--profile", type=click.Choice(list(PROFILES)), default="default", show_default=True, help="Gates.")
@click.option("--kube-scheduler", is_flag=True, help="Start kube-scheduler too: pods get nodes and devices.")
@click.option("--folder", type=click.Path(path_type=Path), help="For data and logs, kept; default: a temporary one.")
def main(profile: str, folder: Path | None, *, kube_scheduler: bool) -> None:
    """Run a Kubernetes control plane with a sample fleet until Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs without it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        programs = binaries.find(os.environ, click.echo)
        with _folder(folder) as used:
            _run(programs, used, profile, with_scheduler=kube_scheduler)
    except (Unavailable, BuildError, StartError, FileExistsError, subprocess.CalledProcessError) as error:
        click.echo(f"cluster: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("\nstopped")


def _run(programs: Binaries, folder: Path, profile: str, *, with_scheduler: bool) -> None:
    started = time.monotonic()
    with ControlPlane(programs, folder, PROFILES[profile]) as plane:
        if with_scheduler:
            plane.start_scheduler({})
        took = time.monotonic() - started
        click.echo(f"Kubernetes {binaries.release()} is up after {took:.1f} s; its logs are in {folder / 'logs'},")
        click.echo(f"its programs in {programs.scheduler.parent}")
        _furnish(plane)
        click.echo(_advice(plane, programs.kubectl, with_scheduler=with_scheduler))
        while not plane.failed():
            time.sleep(_LOOKED_AT_EVERY_S)
        raise StartError(plane.failed())


def _furnish(plane: ControlPlane) -> None:
    """The fleet, slices by a driver that has only its own rights, pods that wait, and our scheduler's rights."""
    api = plane.client()
    grant(api)
    restore(api, [obj for obj in manifests(FLEET) if obj["kind"] != SLICE.kind])
    click.echo(publish(plane), nl=False)
    nodes, slices, classes = (len(api.list(kind)) for kind in (NODE, SLICE, CLASS))
    click.echo(f"The example fleet is there: {nodes} nodes, {slices} slices, {classes} classes, and workloads.")


def _advice(plane: ControlPlane, kubectl: Path | None, *, with_scheduler: bool) -> str:
    command = "kubectl" if shutil.which("kubectl") or kubectl is None else str(kubectl)
    dra = Path(sys.executable).with_name("dra")
    who, how = ("kube-scheduler places them", "--dry-run") if with_scheduler else ("nobody places them yet", "")
    return f"""
To use it, in another terminal:

  export KUBECONFIG={plane.kubeconfig()}
  {command} get pods,resourceclaims -A          # {who}
  {command} get {_DUMPED} -A -o yaml | {dra} allocate -
                                                # who would get what

  {dra} scheduler run --kubeconfig {plane.kubeconfig(OURS)} --scheduler-name default-scheduler {how}
                                                # our scheduler in kube-scheduler's place, with its own rights

Ctrl-C stops it all."""


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    """The chosen folder, which has to be empty; or a temporary one, removed afterwards."""
    if chosen is None:
        with tempfile.TemporaryDirectory(prefix="dra-cluster-") as temporary:
            yield Path(temporary)
    elif chosen.exists() and any(chosen.iterdir()):
        raise FileExistsError(f"{chosen} is not empty: choose another folder, or remove it")
    else:
        yield chosen.absolute()


if __name__ == "__main__":
    main()
