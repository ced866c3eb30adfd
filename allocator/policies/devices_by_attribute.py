"""Devices by the value of an attribute: those of one NUMA node, of one PCIe root, of one board.

Values compare as constraints compare them, so a device with a list of values is in several groups.
Source: KEP-4381 (matchAttribute), KEP-5491 (lists), the standard attributes of resource.k8s.io.
"""

from collections.abc import Mapping
from typing import Final

from allocator.features.contract import NodeAttempt
from allocator.features.list_type_attributes import Token, tokens
from allocator.gates import LIST_TYPE_ATTRIBUTES
from allocator.memo import Topic
from allocator.requests.constraints import lookup
from allocator.search.rules import Mask

NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"

_GROUPS: Final[Topic[Mapping[Token, Mask]]] = Topic("devices by value")


def groups_of(attempt: NodeAttempt, name: str) -> Mapping[Token, Mask]:
    """The devices of each value of the attribute of that qualified name.

    Cost: O(devices of the view), the first time.
    """
    return attempt.view.memo.remember((_GROUPS, name), lambda: _groups_of(attempt, name))


def _groups_of(attempt: NodeAttempt, name: str) -> Mapping[Token, Mask]:
    has_lists = attempt.features.has(LIST_TYPE_ATTRIBUTES)
    groups: dict[Token, Mask] = {}
    for position, device in enumerate(attempt.view.devices):
        attribute = lookup(device, name)
        for token in tokens(attribute, position, has_lists=has_lists) if attribute is not None else ():
            groups[token] = groups.get(token, 0) | 1 << position
    return groups
