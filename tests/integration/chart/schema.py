"""What of the chart's values.schema.json follows from something else: configurations of programs, budgets of drains.

`python -m tests.integration.chart.schema` writes these definitions into the file; the rest of it is written by hand.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduler.extender.configuration import ExtenderConfiguration
from scheduler.guard.configuration import GuardConfiguration
from scheduler.runtime.configuration import Common, Configuration

CHART = Path(__file__).resolve().parents[3] / "manifests" / "chart"
SCHEMA = CHART / "values.schema.json"
PROGRAMS: Mapping[str, type[Common]] = {
    "schedulerConfiguration": Configuration,
    "guardConfiguration": GuardConfiguration,
    "extenderConfiguration": ExtenderConfiguration,
}


def configurations() -> Mapping[str, Any]:
    """A definition for each program, its sections in it."""
    return {name: _described(name, type_) for name, type_ in PROGRAMS.items()}


def _described(name: str, type_: type[Common]) -> Any:
    schema = type_.model_json_schema(ref_template=f"#/$defs/{name}/$defs/{{model}}")
    return _untitled({**schema, "required": ["apiVersion", "kind"]})


def _untitled(schema: Any) -> Any:
    """Without titles, which say again what the name says, and without line breaks in what is described."""
    if isinstance(schema, list):
        return [_untitled(one) for one in schema]
    if not isinstance(schema, dict):
        return " ".join(schema.split()) if isinstance(schema, str) else schema
    return {key: _untitled(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))}


MOST_REPLICAS = 10
"""For which the largest budget is written down; more replicas may have the budget of so many."""


def budget() -> Any:
    """Of a program: with several replicas, one may be drained at a time. A single one has no budget."""
    return {
        "description": "A budget that the replicas can meet while one of them is drained.",
        "allOf": [_budget_of(number) for number in range(2, MOST_REPLICAS + 1)],
    }


def _budget_of(replicas: int) -> Any:
    number = {"minimum": replicas} if replicas == MOST_REPLICAS else {"const": replicas}
    enabled = {"properties": {"enabled": {"const": True}}, "required": ["enabled"]}
    least = {"maximum": replicas - 1, "pattern": _percent(100 * (replicas - 1) // replicas)}
    return {
        "if": {"properties": {"replicas": number, "podDisruptionBudget": enabled}, "required": ["podDisruptionBudget"]},
        "then": {"properties": {"podDisruptionBudget": {"properties": {"minAvailable": least}}}},
    }


def _percent(most: int) -> str:
    """The pattern of no more percent than that, of two digits."""
    tens, ones = divmod(most, 10)
    return f"^0*([0-9]|[1-{tens - 1}][0-9]|{tens}[0-{ones}])%$"


def updated(text: str) -> str:
    """The file with the definitions as they are now."""
    schema = json.loads(text)
    definitions = {**schema["$defs"], "budget": budget(), **configurations()}
    return json.dumps({**schema, "$defs": definitions}, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(updated(SCHEMA.read_text()))
