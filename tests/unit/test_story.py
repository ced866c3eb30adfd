"""How much of the product one decision enters: what a newcomer has to follow."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES, FUNCTIONS, DEPTH = 68, 450, 27
"""Of one cold decision of the demo fleet. Of the modules, 25 are one plugin or feature each."""


def told(*arguments: str) -> str:
    """What `make story` prints, in a process that has decided nothing yet."""
    command = [sys.executable, "-m", "tests.story.run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_decision_stays_small_enough_to_be_followed() -> None:
    found = re.search(r"(\d+) modules, (\d+) functions, depth (\d+)", told("--depth", "1"))
    assert found
    modules, functions, depth = map(int, found.groups())
    assert modules <= MODULES
    assert functions <= FUNCTIONS
    assert depth <= DEPTH


def test_the_story_names_the_decision_and_every_write() -> None:
    story = told("--depth", "4")
    for name in ("PodCycle.result", "PodCycle.best", "PodCycle.placed", "Allocate.do", "Verify.do", "PodStep.do"):
        assert f"{name}  scheduler/" in story
