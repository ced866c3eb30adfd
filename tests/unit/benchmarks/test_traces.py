"""How `make bench-traces` spreads its runs over processes."""

import os
import subprocess
import sys
from pathlib import Path

KILLED = """
import os
import signal
from pathlib import Path

from benchmarks.traces import run


def orphaned(folder, scenario):
    os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()


run._run_alone = orphaned
if __name__ == "__main__":
    list(run.measured(Path(), [run.Scenario("w", "fgd", seed) for seed in range(2)], jobs=2))
"""


def test_processes_end_with_a_benchmark_that_is_ended(tmp_path: Path) -> None:
    """They have its standard output, which is read until nobody has it any more."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, script], capture_output=True, check=False, timeout=100, env=environment)
    assert (found.returncode, found.stdout) == (-15, b"")
