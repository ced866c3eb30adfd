"""The demonstration goes the whole way and leaves nothing behind."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.controlplane.binaries import Binaries
from tests.integration.conftest import ROOT

TIMEOUT_S = 600


def test_fifty_pods_are_placed_and_no_device_is_given_twice(binaries: Binaries, tmp_path: Path) -> None:
    assert binaries.etcd.is_file()
    command = [sys.executable, "-m", "tests.controlplane.demo", "--policy", "pack"]
    elsewhere = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(
        command, cwd=ROOT, env=elsewhere, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    rows = [line.split() for line in run.stdout.splitlines() if re.match(r"demo/\S+ +node-", line)]
    assert len(rows) == 50
    held = Counter(device for pod, _, *devices in rows for device in devices if "notebook" not in pod)
    assert len(held) >= 26 + 2 * 12 + 6
    assert set(held.values()) == {1}
    assert {row[2] for row in rows if "notebook" in row[0]}.isdisjoint(held)
    assert run.stdout.endswith("All stopped.\n")
    assert list(tmp_path.iterdir()) == []
