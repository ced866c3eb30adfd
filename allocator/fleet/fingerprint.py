"""What nodes hold, numbered: nodes with equal numbers give equal answers while the same is in use of them.

A slice has a *kind*, which tells all of it but names; a node has a *base*, made of the kinds that it
reaches. Most shapes of claims read less of a device than there is, so that to them many bases are one
*content*: a `Lens` tells which. Nothing here keeps a slice that is gone; the numbers of what is gone are
kept until they are too many (`is_bloated`), and then all are given anew.

Every field of the model decides but those that are excepted here: what a feature reads need not be listed.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from allocator.cluster.node_affinity import InvalidNodeSelector, reaches
from allocator.cluster.pools import Pool, has_counters
from allocator.cluster.reads import ReadKey
from allocator.exact import deciding, exact, is_exactly, values_of
from allocator.model import TRAITS, Device, Node, Slice

SPARE = 256
"""Numbers of what is gone that are always tolerated."""

MOST_LENSES = 256
"""Lenses that are kept, as many as shapes: what selectors read is up to users, and a lens numbers the whole fleet."""

_RECENT = 8
"""Slices that a new one is compared with as a whole."""

_NAMES = dict.fromkeys(["name", "pool"], "claims ask for no device by its name")

_OF_DEVICE = deciding(
    Device,
    {**_NAMES, "driver": "that of the slice", "attributes": "as far as they are read, and those that are unusual"},
)
_of_slice = values_of(
    Slice,
    {
        **_NAMES,
        "generation": "the pool tells which slices count; drivers count from where they like",
        "reach": "which nodes reach it is told by what they reach; `_how_it_is_reached` tells the rest",
        "devices": "numbered by themselves",
    },
)
_of_node = values_of(
    Node,
    {
        **dict.fromkeys(["name", "labels"], "they decide what is reached, and nothing else"),
        **dict.fromkeys(["taints", "unschedulable", "allocatable"], "not for devices to look at"),
    },
)


@dataclass(slots=True, eq=False)
class _Known:
    """A slice. serial: a number that no other slice ever has. body: of its devices.

    kind: None until it is asked for. kinds: where devices choose their nodes, by what is reached.
    """

    piece: Slice
    serial: int
    body: int
    kinds: dict[Hashable, int] | None = None
    kind: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Body:
    """The devices of a slice, names aside. traits: of the slice."""

    number: int
    devices: Sequence[Device]
    traits: frozenset[str]


class Contents:
    """The numbers of kinds and bases, and the lenses on them."""

    def __init__(self) -> None:
        self._parts = _Parts()
        self._kinds: dict[Hashable, int] = {}
        self._bases: dict[Hashable, int] = {}
        self._recent: list[_Body] = []
        self._of_slice: dict[int, _Known] = {}
        self._serials = 0
        self._bodies = 0
        self._lenses: dict[ReadKey, Lens] = {}

    def is_bloated(self, nodes: int) -> bool:
        """True where most numbers are of what is gone."""
        return len(self._bases) > 2 * nodes + SPARE or len(self._kinds) > 2 * len(self._of_slice) + SPARE

    def base(self, node: Node, pools: Iterable[Pool]) -> int:
        """The number of all that a node holds. Cost: O(devices of slices that were not seen before)."""
        tokens: list[Hashable] = [_of_node(node)]
        for pool in pools:
            tokens.append((bool(pool.missing), bool(pool.contradiction)))
            for piece in pool.slices:
                # What is in use of a slice that other nodes reach too is no part of the node's own usage.
                serial = None if piece.reach.node_name else self.serial(piece)
                tokens.append((self.kind(piece, node), serial))
            tokens.append(self.counted_elsewhere(pool))
        return _number(self._bases, tuple(tokens))

    def lens(self, reads: ReadKey) -> "Lens":
        """How shapes that read this much see it; of more than `MOST_LENSES` some are made anew when asked for."""
        lens = self._lenses.pop(reads, None) or Lens(self._parts, reads)
        self._lenses[reads] = lens  # at the end: the first one is the one that was not asked for the longest
        if len(self._lenses) > MOST_LENSES:
            del self._lenses[next(iter(self._lenses))]
        return lens

    def kind(self, piece: Slice, node: Node) -> int:
        """The number of a slice, names aside, as the node reaches it."""
        known = self._known(piece)
        if piece.reach.per_device:
            return self._kind_of_part(known, _reached(piece, node))
        if known.kind is None:
            known.kind = _number(self._kinds, (known.body, _rest_of(piece)))
        return known.kind

    def _kind_of_part(self, known: _Known, reached: Hashable) -> int:
        if known.kinds is None:
            known.kinds = {}
        if reached not in known.kinds:
            known.kinds[reached] = _number(self._kinds, (known.body, _rest_of(known.piece), reached))
        return known.kinds[reached]

    def serial(self, piece: Slice) -> int:
        """A number that no other slice has, equal ones included."""
        return self._known(piece).serial

    def counted_elsewhere(self, pool: Pool) -> tuple[int, ...]:
        """The serials of the pool's slices on other nodes, where its devices draw on counters; else they do not matter.

        Cost: O(slices of the pool).
        """
        if not pool.elsewhere or not has_counters(pool.elsewhere):
            return ()
        return tuple([self.serial(piece) for piece in pool.elsewhere])

    def forget(self, piece: Slice) -> None:
        """Drop a slice that is gone."""
        self._of_slice.pop(id(piece), None)

    def _known(self, piece: Slice) -> _Known:
        known = self._of_slice.get(id(piece))
        if known is None:
            self._serials += 1
            known = self._of_slice[id(piece)] = _Known(piece, self._serials, self._body(piece))
        return known

    def _body(self, piece: Slice) -> int:
        """The number of the slice's devices, names aside; equal ones may have several numbers."""
        for body in self._recent:
            if piece.traits == body.traits and _are_alike(piece.devices, body.devices, piece.traits):
                return body.number
        self._bodies += 1
        self._recent.insert(0, _Body(self._bodies, piece.devices, piece.traits))
        del self._recent[_RECENT:]
        return self._bodies


class Lens:
    """Bases as shapes see them that read no more of devices than this: contents, by number."""

    def __init__(self, parts: "_Parts", reads: ReadKey) -> None:
        self._parts = parts
        self._reads = reads
        self._numbers: dict[Hashable, int] = {}
        self._of_base: dict[int, int] = {}
        self._of_kind: dict[int, int] = {}

    def content(self, contents: Contents, base: int, node: Node, pools: Iterable[Pool]) -> int:
        """The number of the node's content. contents: of this lens. base: that of this node.

        Cost: O(devices of kinds not seen before).
        """
        known = self._of_base.get(base)
        if known is None:
            known = self._of_base[base] = self._content(contents, node, pools)
        return known

    def _content(self, contents: Contents, node: Node, pools: Iterable[Pool]) -> int:
        tokens: list[Hashable] = [_of_node(node)]
        for pool in pools:
            tokens.append((bool(pool.missing), bool(pool.contradiction)))
            tokens.extend([self._slice(contents, piece, node) for piece in pool.slices])
            tokens.append(contents.counted_elsewhere(pool))
        return _number(self._numbers, tuple(tokens))

    def _slice(self, contents: Contents, piece: Slice, node: Node) -> int:
        kind = contents.kind(piece, node)
        known = self._of_kind.get(kind)
        if known is None:
            local = _reached(piece, node) if piece.reach.per_device else None
            parts = self._parts.of(piece)
            read = tuple([self._reads.of(device) for device in piece.devices]) if self._reads.of_attributes else ()
            known = self._of_kind[kind] = _number(self._numbers, (_rest_of(piece), local, parts, read))
        return known


class _Parts:
    """Numbers for devices without their names and without the attributes that are usual, the same for every lens."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Hashable, tuple[object, int]] = {}

    def of(self, piece: Slice) -> tuple[int, ...]:
        """The numbers of the slice's devices."""
        traits, values_of_device = piece.traits, _reader(piece.traits)
        return tuple([self._number(traits, values_of_device(device)) for device in piece.devices])

    def _number(self, traits: frozenset[str], values: tuple[object, ...]) -> int:
        # Equal parts of a fleet are mostly one object; they stay here, so that no other gets their identity.
        key = (traits, *map(id, values))
        known = self._known.get(key)
        if known is None:
            if len(self._known) > SPARE:
                self._known.clear()
            known = self._known[key] = (values, _number(self._numbers, (traits, exact(values))))
        return known[1]


@lru_cache(maxsize=256)
def _reader(traits: frozenset[str]) -> Callable[[Device], tuple[object, ...]]:
    """What decides about the devices of a slice with these traits; what no device of it has is left out."""
    named = [name for name in _OF_DEVICE if name not in TRAITS or name in traits]
    return attrgetter(*named, *["unusual"] * ("unusual" in traits))


def _are_alike(left: Sequence[Device], right: Sequence[Device], traits: frozenset[str]) -> bool:
    """True for devices that agree, one by one, in all but their names and pools. traits: those of both slices."""
    if len(left) != len(right):
        return False
    values_of_device = _reader(traits)
    for one, other in zip(left, right, strict=True):
        if one.attributes != other.attributes or not is_exactly(values_of_device(one), values_of_device(other)):
            return False
    return True


def _number(numbers: dict[Hashable, int], token: Hashable) -> int:
    return numbers.setdefault(token, len(numbers))


def _rest_of(piece: Slice) -> Hashable:
    """All of a slice that decides beside its devices."""
    return tuple([exact(value) if value else value.__class__ for value in _of_slice(piece)]), _how_it_is_reached(piece)


def _how_it_is_reached(piece: Slice) -> Hashable:
    reach = piece.reach
    return reach.all_nodes, len(reach.node_selector or ()) > 1  # then no allocation can say which nodes reach it


def _reached(piece: Slice, node: Node) -> Hashable:
    """Which devices of the slice the node reaches, and of which that cannot be said."""
    reachable = unreadable = 0
    for position, device in enumerate(piece.devices):
        try:
            reachable |= reaches(device.reach, node) << position
        except InvalidNodeSelector:
            unreadable |= 1 << position
    return reachable, unreadable
