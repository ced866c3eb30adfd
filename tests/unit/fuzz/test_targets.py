"""Some inputs of each target of `make fuzz`, and those that once failed: all are taken, or refused in order."""

from random import Random

import pytest

from tests.fuzz.run import TARGETS, tried
from tests.fuzz.target import FuzzTarget

INPUTS = {"cel": 200, "manifests": 12, "extender": 60, "guard": 30, "calls": 200}


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_are_taken_or_refused_in_order(name: str) -> None:
    taken = sum(tried(name, seed) for seed in range(INPUTS[name]))
    assert 0 < taken < INPUTS[name], "all are alike: nothing was tried"


def test_what_a_target_raises_is_shown_with_its_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(text: str) -> bool:
        raise ValueError(text)

    def draw(rng: Random) -> str:
        return f"input {rng.randrange(1)}"

    monkeypatch.setitem(TARGETS, "cel", FuzzTarget(draw, fail, longest_s=1))
    with pytest.raises(ValueError, match="input 0"):
        tried("cel", 5)
    assert capsys.readouterr().err == "cel, seed 5: 'input 0'\n"
