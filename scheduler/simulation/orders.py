"""The order in which pods arrive and in which equal nodes are taken, for each seed, from a file of JSON lines.

A line has `seed`, `pods` (numbers of pods from 0, in the order of their arrival; a pod may come again) and, if the
order of equal nodes matters, `nodes` (numbers of nodes, each once; others come behind, by name).
"""

from dataclasses import dataclass
from pathlib import Path

from scheduler.simulation.json_lines import InvalidLine, ObjectLine, json_lines

_FIELDS = ("seed", "pods", "nodes", "workload")


@dataclass(frozen=True, slots=True)
class DrawnOrder:
    """The draws of one seed: rows of pods in the order of their arrival, rows of nodes in the order of equals."""

    seed: int
    pods: tuple[int, ...]
    nodes: tuple[int, ...] = ()


def orders(file: Path, pods: int, nodes: int) -> dict[int, DrawnOrder]:
    """The draws of the file by seed. pods, nodes: how many rows there are. Raises InvalidLine. Cost: O(size)."""
    found: dict[int, DrawnOrder] = {}
    for line in json_lines(file):
        order = _order(line, pods, nodes)
        if order.seed in found:
            raise line.error("seed", f"{order.seed} is the seed of another line, too")
        found[order.seed] = order
    if not found:
        raise InvalidLine(f"{file}: holds no order")
    return found


def order_of(file: Path, seed: int, pods: int, nodes: int) -> DrawnOrder:
    """The draws of a seed; otherwise as `orders`."""
    found = orders(file, pods, nodes)
    if seed not in found:
        raise InvalidLine(f"{file}: has no line with seed {seed}, only {', '.join(map(str, found))}")
    return found[seed]


def _order(line: ObjectLine, pods: int, nodes: int) -> DrawnOrder:
    line.require_known(_FIELDS, "an order")
    order = DrawnOrder(
        line.whole_number("seed"),
        line.rows("pods", pods),
        line.rows("nodes", nodes) if "nodes" in line.fields else (),
    )
    if not order.pods:
        raise line.error("pods", "is empty")
    _require_once(line, order.nodes)
    return order


def _require_once(line: ObjectLine, nodes: tuple[int, ...]) -> None:
    seen = set[int]()
    for position, row in enumerate(nodes):
        if row in seen:
            raise line.error(f"nodes[{position}]", f"{row} is there twice")
        seen.add(row)
