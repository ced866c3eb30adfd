"""Five rounds in which things go wrong, on a control plane of their own: every rule holds."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.binaries import Binaries
from tests.integration.conftest import ROOT

TIMEOUT_S = 600
ROUNDS, SEED = 5, 1
MORE = 40
"""Pods of a round, about, each of which changes a few times."""


def test_rules_hold_in_rounds_of_random_faults(binaries: Binaries, tmp_path: Path) -> None:
    assert binaries.etcd.is_file()
    output = tmp_path / "chaos"
    size = ["--rounds", str(ROUNDS), "--seed", str(SEED), "--output", str(output)]
    command = [sys.executable, "-m", "tests.chaos.run", *size]
    elsewhere = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(
        command, cwd=ROOT, env=elsewhere, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    rounds = [json.loads(line) for line in (output / "rounds.jsonl").read_text().splitlines()]
    assert [one["seed"] for one in rounds] == list(range(SEED, SEED + ROUNDS))
    assert all(one["faults"] and one["revisions"] > MORE for one in rounds)
