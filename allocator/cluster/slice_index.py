"""The published slices by node and by pool, kept up to date slice by slice.

Code that changes it notifies those who remember results about a slice (`Fleet` does), and changes a
`copy` where others look at it too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from allocator.cluster.counter_slices import Unreached
from allocator.cluster.node_affinity import NAME_FIELD, term_problem
from allocator.cluster.pools import Pool, gather
from allocator.gates import Features, Release
from allocator.model import Node, PoolID, Slice

Label = tuple[str, str]
"""A label of a node with its value; the node's name counts as one, under the name of its field."""

_NONE: Final[Mapping[PoolID, Pool]] = MappingProxyType({})

_Bag = dict[int, Slice]
"""Slices by number."""


class SliceIndex:
    """Slices by the labels of the nodes that reach them, and by pool.

    by_pool: all slices of a pool, of whichever generation, in the order in which they came.
    """

    def __init__(self, release: Release, slices: Iterable[Slice] = ()) -> None:
        self.by_pool: dict[PoolID, Sequence[Slice]] = {}
        self._release = release
        self._by_label: dict[str, dict[str, _Bag]] = {}
        self._by_selection: _Bag = {}
        self._bare: dict[int, tuple[Slice, Slice]] = {}
        self._unreached = Unreached()
        for published in slices:
            self.add(published)

    def copy(self) -> "SliceIndex":
        """Another one with the same slices. Cost: O(slices)."""
        copied = SliceIndex(self._release)
        copied.by_pool = dict(self.by_pool)
        copied._by_label = {
            key: {value: dict(bag) for value, bag in by_value.items()} for key, by_value in self._by_label.items()
        }
        copied._by_selection = dict(self._by_selection)
        copied._bare = dict(self._bare)
        copied._unreached = self._unreached.copy()
        return copied

    def add(self, published: Slice) -> Slice:
        """Add a slice; the answer is the slice that is used in its place, perhaps with its counters alone.

        Cost: O(slices of its pool).
        """
        slice_ = published
        if published.counter_sets and published.devices and not self._release.combined_slices:
            slice_ = replace(published, devices=())
            self._bare[published.number] = (published, slice_)
        labels = self.labels_of(slice_)
        if labels is None:
            self._by_selection[slice_.number] = slice_
        for key, value in labels or ():
            self._by_label.setdefault(key, {}).setdefault(value, {})[slice_.number] = slice_
        self._note_counters(slice_)
        self.by_pool[slice_.pool_id] = (*self.by_pool.get(slice_.pool_id, ()), slice_)
        return slice_

    def remove(self, published: Slice) -> Slice:
        """Remove a slice; the answer is the slice that was used in its place. Raises KeyError if it is not there.

        Cost: O(slices of its pool).
        """
        _, slice_ = self._bare.pop(published.number, (published, published))
        labels = self.labels_of(slice_)
        if labels is None:
            del self._by_selection[slice_.number]
        for key, value in labels or ():
            self._take_out(slice_, key, value)
        self._note_counters(slice_)
        rest = tuple([one for one in self.by_pool[slice_.pool_id] if one is not slice_])
        if rest:
            self.by_pool[slice_.pool_id] = rest
        else:
            del self.by_pool[slice_.pool_id]
        return slice_

    def pools(self, node: Node | None, features: Features) -> tuple[Pool, ...]:
        """The pools that the node reaches, in canonical order. Raises InvalidPool."""
        return gather(self._of_node(node), self.by_pool, node, features, self.unreached(features))

    def unreached(self, features: Features) -> Mapping[PoolID, Pool]:
        """The pools that matter to nodes that reach nothing of them; the same object while nothing changes."""
        return self._unreached.among(self.by_pool, features) if self._release.counter_slices_reach_all else _NONE

    def _note_counters(self, changed: Slice) -> None:
        """A slice came or went; only where somebody asks, which forgets it."""
        if self._release.counter_slices_reach_all:
            self._unreached.change(changed.pool_id)

    def _of_node(self, node: Node | None) -> Iterable[Slice]:
        """The slices that may reach the node, each once; the others do not."""
        if node is None:
            return self._by_selection.values()
        bags = [self._by_selection] if self._by_selection else []
        for key, by_value in self._by_label.items():
            if key == NAME_FIELD and not node.name:
                bags.extend(by_value.values())
                continue
            value = node.name if key == NAME_FIELD else node.labels.get(key)
            if value is not None and value in by_value:
                bags.append(by_value[value])
        if len(bags) == 1:
            return bags[0].values()
        return {number: slice_ for bag in bags for number, slice_ in bag.items()}.values()

    def labels_of(self, slice_: Slice) -> Sequence[Label] | None:
        """Labels of which every node that reaches the slice has one; None if there are no such labels.

        Empty for slices that all nodes see: what a node sees of the pool depends on its other slices.
        """
        if slice_.counter_sets and self._release.counter_slices_reach_all:
            return ()
        if slice_.reach.node_name:
            return ((NAME_FIELD, slice_.reach.node_name),)
        terms = slice_.reach.node_selector or ()
        if slice_.reach.all_nodes or slice_.reach.per_device or len(terms) != 1 or term_problem(terms[0]):
            return None
        for requirement in (*terms[0].fields, *terms[0].expressions):
            # A label may have the name of the field, but then it is no field.
            is_clear = requirement.key != NAME_FIELD or requirement in terms[0].fields
            if requirement.operator == "In" and is_clear:
                return [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
        return None

    def _take_out(self, slice_: Slice, key: str, value: str) -> None:
        by_value = self._by_label[key]
        del by_value[value][slice_.number]
        if not by_value[value]:
            del by_value[value]
        if not by_value:
            del self._by_label[key]
