"""The chart is of this version, and its schema knows the configurations of the programs and describes every value."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from scheduler import VERSION
from tests.integration.chart.schema import CHART, SCHEMA, updated

DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


def test_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_schema_knows_the_configurations_of_the_programs() -> None:
    stored = SCHEMA.read_text()
    assert stored == updated(stored), "python -m tests.integration.chart.schema"


def test_schema_describes_each_value() -> None:
    schema = json.loads(SCHEMA.read_text())
    assert list(undescribed(schema, schema["properties"], DEFAULTS)) == []


def undescribed(schema: Any, properties: Any, values: Mapping[str, Any]) -> Iterator[str]:
    """The fields of the values that the schema has no word for."""
    for key, value in values.items():
        found = properties.get(key, {})
        target = schema["$defs"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found
        if not (found.get("description") or target.get("description")):
            yield key
        if isinstance(value, dict) and "properties" in target and key != "config":
            yield from undescribed(schema, target["properties"], value)


def test_monitoring_is_of_the_files_that_are_tested() -> None:
    for name in ("dashboard.json", "prometheus-rule.yaml"):
        assert (CHART / "files" / name).resolve() == CHART.parent / "monitoring" / name
