"""How large a volume of a class can be on which nodes, from CSIStorageCapacities.

Drivers publish one object for each node. Answers are remembered until a capacity of the class, or a label of a node,
changes.
"""

from dataclasses import dataclass, field

from allocator.search.rules import Mask
from scheduler.core_v1.csi_storage_capacity import CSIStorageCapacity
from scheduler.state.node_labels import NodeLabels
from scheduler.state.storage_objects import ClaimKey

MOST_SIZES = 64
"""Sizes for which the nodes are remembered; beyond, all are worked out again."""


@dataclass(slots=True)
class _OfClass:
    """Sizes and nodes by object, and what was asked for. version: of the labels that the nodes were found by."""

    objects: dict[ClaimKey, CSIStorageCapacity] = field(default_factory=dict)
    found: dict[ClaimKey, tuple[int, Mask]] = field(default_factory=dict)
    answers: dict[int, Mask] = field(default_factory=dict)
    version: int = -1


class StorageCapacities:
    """By storage class. labels: of the nodes."""

    def __init__(self, labels: NodeLabels) -> None:
        self._labels = labels
        self._classes: dict[str, _OfClass] = {}
        self._class_of: dict[ClaimKey, str] = {}

    def set(self, capacity: CSIStorageCapacity) -> None:
        """The capacity is there, or has changed."""
        self.remove(capacity.key)
        if capacity.largest is not None:
            self._class_of[capacity.key] = capacity.storage_class
            known = self._classes.setdefault(capacity.storage_class, _OfClass())
            known.objects[capacity.key] = capacity
            known.answers.clear()

    def remove(self, key: ClaimKey) -> None:
        """The capacity is gone, if it was there."""
        name = self._class_of.pop(key, None)
        if name is not None:
            known = self._classes[name]
            del known.objects[key]
            known.found.pop(key, None)
            known.answers.clear()

    def roomy(self, storage_class: str, size: int) -> Mask:
        """The nodes for which a volume of that many bytes can be made. Cost: O(capacities), where one has changed."""
        known = self._classes.get(storage_class)
        if known is None:
            return 0
        if known.version != self._labels.version or len(known.answers) >= MOST_SIZES:
            known.found.clear()
            known.answers.clear()
            known.version = self._labels.version
        if size not in known.answers:
            known.answers[size] = self._asked(known, size)
        return known.answers[size]

    def _asked(self, known: _OfClass, size: int) -> Mask:
        for key in known.objects.keys() - known.found.keys():
            capacity = known.objects[key]
            assert capacity.largest is not None, "others are not kept"
            known.found[key] = capacity.largest.ceil_int(), self._labels.matching(capacity.topology)
        nodes = 0
        for largest, reached in known.found.values():
            if largest >= size:
                nodes |= reached
        return nodes
