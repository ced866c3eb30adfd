"""The configurations of the programs in the chart's values.schema.json, as the programs describe them.

`python -m tests.integration.chart.schema` writes them into the file; the rest of it is written by hand.
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


def updated(text: str) -> str:
    """The file with the definitions as they are now."""
    schema = json.loads(text)
    return json.dumps({**schema, "$defs": {**schema["$defs"], **configurations()}}, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(updated(SCHEMA.read_text()))
