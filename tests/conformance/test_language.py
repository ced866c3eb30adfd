"""The language as CEL's own specification has it, feature by feature, in the words of Kubernetes' environment."""

from itertools import groupby

import pytest

import cel
from tests.conformance.language_cases import DEVICE, Case, cases

FEATURES = {feature: list(own) for feature, own in groupby(cases(), key=lambda case: case.feature)}


def answer(expression: str) -> bool | str:
    """What the selector says, or the phase in which it ends."""
    try:
        program = cel.compile(expression)
    except cel.CompileError:
        return "compile"
    outcome = program.run(cel.device_from_json(DEVICE))
    return outcome.error.phase if outcome.error else outcome.value is True


@pytest.mark.parametrize("feature", FEATURES)
def test_feature_is_that_of_the_specification(feature: str) -> None:
    wrong: list[Case] = [case for case in FEATURES[feature] if answer(case.expression) != (case.phase or True)]
    assert wrong == []


def test_no_feature_is_there_twice() -> None:
    headings = [feature for feature, _ in groupby(cases(), key=lambda case: case.feature)]
    assert len(headings) == len(FEATURES)
