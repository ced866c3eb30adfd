"""What a page of docs/ says of settings and metrics, and what there is to be said."""

import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from scheduler.runtime.metrics import CommonMetrics
from scheduler.runtime.section import Fields

DOCS = Path(__file__).resolve().parents[3] / "docs"

Row = tuple[str, ...]
"""The cells of a row of a table."""


def rows(page: str, heading: str) -> list[Row]:
    """The rows below the heading whose first cell is one piece of code, without the marks of that."""
    section = (DOCS / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line[2:-2] for line in section.splitlines() if re.match(r"\| `[^`]+` \| .* \|$", line)]
    return [(first.strip("`"), *rest) for first, *rest in (line.split(" | ") for line in lines)]


def settings(section: Fields, prefix: str = "") -> Iterator[tuple[str, object, str]]:
    """Field, default and description of each setting."""
    for name, field in type(section).model_fields.items():
        default, spelled = getattr(section, name), f"{prefix}{field.alias}"
        if isinstance(default, Fields):
            yield from settings(default, f"{spelled}.")
        else:
            yield spelled, default, " ".join(str(field.description).split())


def said(default: object) -> str:
    """A default as the pages write it."""
    if isinstance(default, bool | int | float):
        return f"`{str(default).lower().removesuffix('.0')}`"
    if isinstance(default, list):
        return f"`[{', '.join(default)}]`" if default else "none"
    return f"`{default}`" if default else {"": "empty"}.get(str(default), "none")


def exposed(metrics: CommonMetrics) -> set[str]:
    """The names of all metrics but those of the process, each of which has to have been told once."""
    families = text_string_to_metric_families(metrics.exposition("")[0].decode())
    names = {f"{family.name}{'_total' * (family.type == 'counter')}" for family in families}
    return {name for name in names if not name.startswith("process_")}
