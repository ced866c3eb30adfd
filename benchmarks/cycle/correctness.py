"""A time counts only if the decisions are right: no node has more pods than devices, and pods lie as they asked."""

from collections import Counter
from collections.abc import Sequence

from benchmarks.endtoend.filters import misplaced
from benchmarks.endtoend.workload import DEVICES_OF_NODE, Asks, node_name


class WrongChoice(Exception):
    """A pod is where it cannot be; the message names what is wrong."""


def check(asks: Asks, nodes: int, chosen: Sequence[str]) -> None:
    """Raises WrongChoice. chosen: the nodes of the pods that waited, in their order, beside those that had theirs."""
    numbers = {node_name(number): number for number in range(nodes)}
    if unknown := [node for node in chosen if node not in numbers]:
        raise WrongChoice(f"{asks.name}: there is no node {unknown[0]}")
    places = [*enumerate(range(nodes)), *enumerate((numbers[node] for node in chosen), start=nodes)]
    fullest, pods = Counter(node for _, node in places).most_common(1)[0]
    if asks.device and pods > DEVICES_OF_NODE:
        raise WrongChoice(f"{asks.name}: {pods} pods on {node_name(fullest)}, which has {DEVICES_OF_NODE} devices")
    if problem := misplaced(asks, places):
        raise WrongChoice(f"{asks.name}: {problem}")
