"""The document of a simulation: written and read again, each field once."""

import json
from dataclasses import fields, replace

import pytest

from scheduler.simulation.result import (
    Distribution,
    ExplainedAttempt,
    FleetSize,
    InvalidResult,
    Measured,
    Scenario,
    Series,
    ShapeSummary,
    SimulationResult,
    Summary,
    result_json,
    result_of,
    scenario_json,
    scenario_of,
)

SUMMARY = Summary(
    arrivals=10,
    placed=8,
    ended=3,
    running=5,
    waiting=2,
    refused=0,
    failed=0,
    withdrawn=0,
    acceptance_percent=80.0,
    allocated_percent=62.5,
    mean_allocated_percent=40.0,
    peak_allocated_percent=75.0,
    fragmentation_percent=12.5,
    fragmentation_ratio=33.33,
    mean_fragmentation_percent=10.0,
    causes={"devices": 12.5},
    largest_block=2.0,
    whole_units=3,
    whole_nodes=1,
    evictions=0,
    decisions=12,
    refusals={"devices": 4},
    waiting_s=Distribution(8, 1.5, 0.0, 6.0, 6.0, 6.0),
    shapes=(ShapeSummary("2 gpu", 10, 8, 80.0, Distribution()),),
    end_s=100.0,
)
SCENARIO = Scenario(
    policy="best-fit",
    seed=42,
    parameters={"load": "0.8"},
    fleet=FleetSize(2, 8, 0),
    summary=SUMMARY,
    by_arrivals=Series(time_s=(0.0, 1.0), arrivals=(0.0, 1.0), causes={"devices": (0.0, 12.5)}),
    by_time=Series(),
    measured=Measured(0.25, Distribution(12, 0.5, 0.5, 0.5, 0.5, 0.5)),
    explained=(ExplainedAttempt("ml/train", 1.0, 1, reason="0/2 nodes"),),
)
RESULT = SimulationResult("dra-scheduler 0", (SCENARIO,))


def test_a_document_that_was_written_is_read_again() -> None:
    assert result_of(result_json(RESULT)) == RESULT
    assert scenario_of(scenario_json(SCENARIO)) == SCENARIO


def test_the_document_says_what_it_is_in_kubernetes_spelling() -> None:
    found = json.loads(result_json(RESULT))
    assert (found["apiVersion"], found["kind"]) == ("dra-scheduler.dev/v1alpha1", "Simulation")
    (scenario,) = found["scenarios"]
    assert len(scenario) == len(fields(Scenario))
    assert scenario["summary"]["waitingS"]["p90"] == 6.0
    assert scenario["byArrivals"]["causes"] == {"devices": [0.0, 12.5]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (scenario_json(replace(SCENARIO, seed=7)).replace(b'"seed":7', b'"seed":"x"'), "seed: 'x': "),
        (scenario_json(SCENARIO).replace(b'"seed"', b'"sead"'), "seed: "),
        (b"{", "Invalid JSON"),
    ],
)
def test_text_that_is_no_document_is_refused_with_field_and_value(text: bytes, message: str) -> None:
    with pytest.raises(InvalidResult, match=message):
        scenario_of(text)
