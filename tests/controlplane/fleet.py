"""Devices for a control plane: published by the sample driver, with the driver's own rights and no more."""

import subprocess
import sys
from pathlib import Path

from tests.controlplane.contents import manifests, restore
from tests.controlplane.identities import DRIVER
from tests.controlplane.plane import ControlPlane

EXAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "examples"
_DRIVER = EXAMPLES / "driver"


def publish(plane: ControlPlane, hardware: Path = _DRIVER / "hardware.json") -> str:
    """What the driver says of the pools that it has published on the nodes that are there.

    Raises CalledProcessError where it fails; it says why itself.
    """
    restore(plane.client(), manifests(_DRIVER / "rbac.yaml"))
    reach: list[str | Path] = ["--server", plane.server, "--ca-file", plane.ca_file]
    command = [sys.executable, _DRIVER / "publish.py", *reach, "--token-file", plane.token_file(DRIVER), hardware]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
