"""Columns against the exact evaluator: the same answers and errors on every device, and seldom by asking it."""

from random import Random

import numpy as np

import cel
from cel.columns import Columns
from cel.device import device_from_json
from tests.generators.devices import devices
from tests.generators.expressions import selector, some

EXPRESSIONS = 1000
DEVICES = 100
MOST_ASKED = 0.25  # share of the answers that columns may leave to the exact evaluator: expressions here are odd ones


def test_columns_answer_as_the_exact_evaluator_does() -> None:
    rng = Random(1)  # noqa: S311
    many = [device_from_json(device) for device in devices(rng, DEVICES)]
    columns = Columns(many)
    compiled = asked = 0
    for text in map(str, some(selector, rng, EXPRESSIONS)):
        try:
            program = cel.compile(text)
        except cel.CompileError:
            continue
        compiled += 1
        outcomes = [program.run(device) for device in many]
        found = program.matches(columns)
        assert np.array_equal(found.mask, [outcome.value is True for outcome in outcomes]), text
        assert np.array_equal(found.errors, [outcome.error is not None for outcome in outcomes]), text
        asked += found.evaluated_exactly
    assert compiled > EXPRESSIONS / 2
    assert asked < compiled * DEVICES * MOST_ASKED
