"""The document of a simulation: written and read again, each field once."""

import json
from dataclasses import fields, replace

import pytest

from scheduler.simulation.result import (
    ExplainedAttempt,
    InvalidResult,
    Scenario,
    Series,
    result_json,
    result_of,
    scenario_json,
    scenario_of,
)
from tests.unit.scheduler.simulated import SUMMARY, a_result, a_scenario

SCENARIO = replace(
    a_scenario(parameters={"load": "0.8"}, explained=[ExplainedAttempt("ml/train", 1.0, 1, reason="0/2 nodes")]),
    by_arrivals=Series(time_s=(0.0, 1.0), arrivals=(0.0, 1.0), causes={"devices": (0.0, 12.5)}),
)
RESULT = a_result(SCENARIO)


def test_a_document_that_was_written_is_read_again() -> None:
    assert result_of(result_json(RESULT)) == RESULT
    assert scenario_of(scenario_json(SCENARIO)) == SCENARIO


def test_the_document_says_what_it_is_in_kubernetes_spelling() -> None:
    found = json.loads(result_json(RESULT))
    assert (found["apiVersion"], found["kind"]) == ("dra-scheduler.dev/v1alpha1", "Simulation")
    (scenario,) = found["scenarios"]
    assert len(scenario) == len(fields(Scenario))
    assert scenario["summary"]["waitingS"]["p90"] == SUMMARY.waiting_s.p90
    assert scenario["byArrivals"]["causes"] == {"devices": [0.0, 12.5]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (scenario_json(replace(SCENARIO, seed=7)).replace(b'"seed":7', b'"seed":"x"'), "seed: 'x': "),
        (scenario_json(SCENARIO).replace(b'"seed"', b'"sead"'), "seed: "),
        (b"{", "is not JSON: "),
    ],
)
def test_text_that_is_no_document_is_refused_with_field_and_value(text: bytes, message: str) -> None:
    with pytest.raises(InvalidResult, match=message):
        scenario_of(text)
