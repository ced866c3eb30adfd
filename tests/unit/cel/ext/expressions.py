"""Expressions asked of one small device: what they give, what they cost, how they fail."""

from typing import Final

import pytest

import cel
from cel.cache import compile_value

DEVICE: Final = cel.device_from_json(
    {
        "driver": "d.io",
        "attributes": {
            "name": {"string": "card-7"},
            "index": {"int": 3},
            "version": {"version": "1.2.3-rc.1"},
            "ports": {"ints": [10, 20, 30]},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }
)


def holds(expression: str, environment: cel.Environment = cel.V1_37) -> bool:
    """Whether an expression is true."""
    return cel.compile(expression, environment).evaluate(DEVICE)


def failure_of(expression: str, environment: cel.Environment = cel.V1_37) -> str:
    """The message with which an expression fails on the device."""
    with pytest.raises(cel.EvalError) as caught:
        compile_value(expression, environment).evaluate(DEVICE)
    return caught.value.message


def refusal_of(expression: str, environment: cel.Environment = cel.V1_37) -> str:
    """The message with which an expression does not compile."""
    with pytest.raises(cel.CompileError) as caught:
        compile_value(expression, environment)
    return caught.value.message


def costs_of(expression: str, environment: cel.Environment = cel.V1_37) -> tuple[int, int]:
    """What an expression costs on the device, and what it may cost at most."""
    program = cel.compile(expression, environment)
    return program.run(DEVICE).cost, program.estimated_cost
