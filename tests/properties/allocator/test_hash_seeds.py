"""What is said does not depend on the order in which Python walks through sets, which differs from run to run."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SEEDS = ("0", "1", "2")


def reported(seed: str) -> list[str]:
    program = [sys.executable, "-m", "tests.properties.allocator.fleets"]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    found = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return found.stdout.splitlines()


def test_refusals_and_the_nearest_node_are_the_same_in_every_run() -> None:
    first, *others = map(reported, SEEDS)
    assert sum(line.startswith("0/5 nodes") and "node-" in line for line in first) > 50
    assert all(other == first for other in others)
