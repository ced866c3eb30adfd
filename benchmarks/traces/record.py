"""The recorded curves of a trace folder, and what a replay is held against."""

import csv
from collections.abc import Mapping
from pathlib import Path

from scheduler.simulation.curves import KINDS

POLICIES: Mapping[str, str] = {
    "best-fit": "BestFit",
    "dot-product": "DotProd",
    "gpu-packing": "GpuPacking",
    "gpu-clustering": "GpuClustering",
    "fgd": "FGD",
}
"""Our policies that the record has, by its names; its Random depends on the order of threads."""

Curve = Mapping[int, float]
Key = tuple[str, str, str, int]
"""Kind, workload, policy by our name, seed."""


class InvalidRecord(ValueError):
    """A file of the record cannot be used."""


def read(folder: Path) -> Mapping[Key, Curve]:
    """All curves of the policies that are compared. Raises InvalidRecord."""
    ours = {recorded: name for name, recorded in POLICIES.items()}
    found: dict[Key, Curve] = {}
    for kind in KINDS:
        file = folder / f"recorded-{kind}.csv"
        try:
            with file.open(newline="") as opened:
                rows = list(csv.DictReader(opened))
        except OSError as error:
            raise InvalidRecord(f"{file}: {error.strerror}") from error
        for line, row in enumerate(rows, 2):
            if row.get("policy") not in ours:
                continue
            try:
                curve = {int(column): float(value) for column, value in row.items() if column.isdigit() and value}
                found[kind, row["workload"], ours[row["policy"]], int(row["seed"])] = curve
            except (ValueError, KeyError) as error:
                raise InvalidRecord(f"{file}, line {line}: {error!r}") from error
    return found
