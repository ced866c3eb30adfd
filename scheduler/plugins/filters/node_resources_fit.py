"""NodeResourcesFit: what a pod requests has to be left on its node, and a place for one more pod.

A resource that no node offers is left nowhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.state.masks import Flags, Numbers
from scheduler.state.nodes import NodeInfos
from scheduler.state.pod_requests import MOST, PODS, PodRequests

PLUGIN = "NodeResourcesFit"

UNREAD_POD = "node(s) had a pod that cannot be read"
"""Why a node is left alone; the pod is named in the log."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource of which nodes have too little left. lacking: the nodes; never: those that never have as much.

    resource: `UNREAD_POD` for what a pod takes of which nothing is known.
    """

    resource: str
    lacking: Flags
    never: Flags

    @property
    def reason(self) -> str:
        """In kube-scheduler's words."""
        return _REASONS.get(self.resource, f"Insufficient {self.resource}")


_REASONS = {PODS: "Too many pods", UNREAD_POD: UNREAD_POD}


def node_resources_fit(requests: PodRequests, infos: NodeInfos) -> Flags:
    """The nodes that have enough left of everything. Cost: a few array operations for each resource."""
    fits = infos.columns[PODS].free >= 1
    for resource, amount in requests.amounts.items():
        column = infos.columns.get(resource)
        if column is None:
            return np.zeros(infos.size, np.bool_)
        fits &= column.free >= amount
    return fits


def shortages(requests: PodRequests, infos: NodeInfos) -> Iterator[Shortage]:
    """All that nodes lack, resource by resource; a node may lack several."""
    # Differs from kube-scheduler: it never says that a node whose pods fill it could not take one more without them,
    # also where the node takes no pod at all.
    column = infos.columns[PODS]
    nowhere, is_left_alone = np.zeros(infos.size, np.bool_), column.free < -MOST // 2
    yield Shortage(UNREAD_POD, is_left_alone, nowhere)
    yield Shortage(PODS, (column.free < 1) & ~is_left_alone, nowhere)
    for resource, amount in requests.amounts.items():
        free, allocatable = _column(resource, infos)
        yield Shortage(resource, free < amount, allocatable < amount)


def fits_empty(requests: PodRequests, allocatable: dict[str, int]) -> bool:
    """True where a node that offers this would fit the pod if it had no other. allocatable: counted as requests are."""
    wanted = {PODS: 1, **requests.amounts}
    return all(allocatable.get(resource, 0) >= amount for resource, amount in wanted.items())


def _column(resource: str, infos: NodeInfos) -> tuple[Numbers, Numbers]:
    column = infos.columns.get(resource)
    if column is None:
        nothing = np.zeros(infos.size, np.int64)
        return nothing, nothing
    return column.free, column.allocatable
