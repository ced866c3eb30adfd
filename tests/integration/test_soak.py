"""A minute with a hostile tenant: every rule holds. How long pods wait is what `make soak` measures."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.binaries import Binaries
from tests.integration.conftest import ROOT

TIMEOUT_S = 600
LOADS = ("--good-rate", "4", "--hostile-rate", "8", "--crowd", "10")
SIZES = ("--minutes", "1", "--kill-every", "15", *LOADS, "--bound-within", "60")
"""What two replicas and the API server can carry on two cores that others use as well, however busy they are."""


def test_others_are_served_beside_a_hostile_tenant(binaries: Binaries, tmp_path: Path) -> None:
    assert binaries.etcd.is_file()
    command = [sys.executable, "-m", "tests.soak.run", *SIZES, "--output", str(tmp_path / "soak")]
    elsewhere = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(
        command, cwd=ROOT, env=elsewhere, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    results = json.loads((tmp_path / "soak" / "results.json").read_text())
    assert results["figures"]["kills"] >= 3
    assert results["figures"]["revisions checked"] > results["figures"]["hostile acts"] > 0
    # A program that is killed leaves the files of its client's certificates; the soak itself leaves nothing.
    left = {path.name for path in tmp_path.iterdir()} - {"soak"}
    assert all(name.startswith("tmp") for name in left), left
