"""The input of the benchmark of `dra plan --remove`, and what it has to answer.

Nodes with eight devices each, four of which are in use: by two pods of a ReplicaSet, which can move. So half of the
nodes can go, and then the others are full.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.defrag.cases import DEVICES_OF_NODE, node_slice, running
from benchmarks.endtoend.workload import Json, Size, device_class, node_name, nodes

PODS = (1, 3)
"""Devices of each pod of a node."""


@dataclass(frozen=True, slots=True)
class RemovalCase:
    """What is measured."""

    nodes: int

    @property
    def title(self) -> str:
        """What it is called in the table."""
        return f"--remove, {self.size}"

    @property
    def size(self) -> Size:
        """How much there is."""
        return Size(self.nodes, self.nodes * len(PODS))

    def is_right(self, found: Any) -> bool:  # Any: JSON
        """Whether as many nodes go as can, and all of their pods move to nodes that stay."""
        gone = {one["node"] for one in found["removed"]}
        places = [move["to"]["node"] for one in found["removed"] for move in one["moves"]]
        can_go = self.nodes - self.nodes * sum(PODS) // DEVICES_OF_NODE
        is_whole = len(gone) == can_go and len(places) == can_go * len(PODS)
        return bool(found["isMaximal"] and is_whole and not gone & set(places))


CASES: Mapping[str, RemovalCase] = {"500": RemovalCase(500), "5000": RemovalCase(5000)}
"""By a name for flags."""


def write(case: RemovalCase, file: Path) -> None:
    """All objects as a v1 List in JSON."""
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(_objects(case))}))


def _objects(case: RemovalCase) -> Iterator[Json]:
    yield device_class()
    yield from nodes(case.size)
    for number in range(case.nodes):
        yield node_slice(node_name(number))
        for pod in running(number, PODS):
            yield from pod.objects()
