"""Everything that a decision reads, at one moment: slices, classes, and devices in use.

A snapshot is a value. Snapshots made from one another share slices and views; `Fleet`, which changes slices and usage,
takes some of its own first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from allocator.cluster.pools import NodeView, Pool, SliceIndex, view_of
from allocator.cluster.selectors import Selectors
from allocator.cluster.usage import Usage
from allocator.gates import CONSUMABLE_CAPACITY, Features
from allocator.limits.count import LimitsInForce, LimitUse
from allocator.limits.limit import Bindings
from allocator.memo import values_of
from allocator.model import Claim, DeviceClass, Node, PoolID, Slice

MOST_VIEWS: Final = 1 << 17
"""Views that are kept; beyond, the oldest is forgotten."""

MOST_REMEMBERED: Final = 32
"""New values that a view remembers before it forgets those not used since, if there are few views."""

REMEMBERED_BY_ALL = 1 << 16
"""New values that all views together remember; some 50 MiB with those that are used again and again."""

LEAST_REMEMBERED: Final = 8
"""New values that a view remembers however many views there are."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The cluster's devices at one moment; made by `of`, continued by `with_allocated`."""

    features: Features
    slices: SliceIndex
    classes: Mapping[str, DeviceClass]
    """By name."""
    usage: Usage
    selectors: Selectors
    limited: LimitUse = field(default_factory=LimitUse)
    """How much is in use of the limits of tenants."""
    _views: dict[str | None, tuple[Node | None, NodeView]] = field(default_factory=dict)

    @staticmethod
    def of(
        slices: Iterable[Slice], classes: Iterable[DeviceClass], claims: Iterable[Claim], features: Features
    ) -> "Snapshot":
        """A snapshot of these objects; the allocated ones among the claims say what is in use."""
        return Snapshot(
            features,
            SliceIndex(features.release, slices),
            {device_class.name: device_class for device_class in classes},
            _no_usage(features).plus(claims),
            Selectors(features.environment),
        )

    @property
    def by_pool(self) -> Mapping[PoolID, Sequence[Slice]]:
        """All slices of each pool, of whichever generation."""
        return self.slices.by_pool

    def with_usage(self, usage: Usage) -> "Snapshot":
        """The snapshot in which this is in use."""
        return Snapshot(self.features, self.slices, self.classes, usage, self.selectors, self.limited, self._views)

    def with_limited(self, limited: LimitUse) -> "Snapshot":
        """The snapshot in which these limits hold, and so much of them is in use."""
        return Snapshot(self.features, self.slices, self.classes, self.usage, self.selectors, limited, self._views)

    def with_limits(self, limits: LimitsInForce, claims: Iterable[Claim]) -> "Snapshot":
        """The snapshot in which these limits hold. claims: those that are allocated."""
        return self.with_limited(LimitUse(limits).plus(claims, self))

    def with_allocated(self, claims: Iterable[Claim]) -> "Snapshot":
        """The snapshot in which these allocated claims hold their devices too."""
        claims = tuple(claims)
        return self.with_usage(self.usage.plus(claims)).with_limited(self.limited.plus(claims, self))

    def with_usage_of(self, claims: Iterable[Claim], released: Iterable[Claim] = ()) -> "Snapshot":
        """The snapshot in which these allocated claims, and no others, hold their devices.

        released: those of which limits count no more; of all others they do.
        """
        usage = _no_usage(self.features).plus(claims)
        return self.with_usage(usage).with_limited(self.limited.plus(released, self, -1))

    def bindings(self, claims: Sequence[Claim]) -> Bindings:
        """The limits that these claims of one namespace, which have no devices yet, could exceed."""
        return self.limited.bindings(claims, self)

    def with_classes(self, classes: Mapping[str, DeviceClass]) -> "Snapshot":
        """The snapshot with these classes, by name."""
        return replace(self, classes=classes)

    def pools(self, node: Node | None) -> tuple[Pool, ...]:
        """The pools that the node reaches, in canonical order. Raises InvalidPool."""
        return self.slices.pools(node, self.features)

    def view(self, node: Node | None) -> NodeView:
        """The devices that the node reaches. Raises InvalidPool.

        Kept for as long as the node stays the same in all that counts, and its slices do.
        """
        name = node.name if node else None
        known = self._views.get(name)
        if known is not None and (known[0] is node or is_same(known[0], node)):
            share = REMEMBERED_BY_ALL // len(self._views)
            known[1].memo.age(max(LEAST_REMEMBERED, min(MOST_REMEMBERED, share)))
            return known[1]
        view = view_of(node, self.pools(node))
        self._views[name] = (node, view)
        if len(self._views) > MOST_VIEWS:
            del self._views[next(iter(self._views))]
        return view

    def forget_view(self, name: str | None) -> None:
        """Forget the view of that node: its slices have changed, or it is gone."""
        self._views.pop(name, None)

    def apart(self) -> "Snapshot":
        """The same snapshot, with slices and views of its own: those of this one stay as they are. Cost: O(slices)."""
        return replace(self, slices=self.slices.copy(), limited=self.limited.apart(), _views=dict(self._views))


def _no_usage(features: Features) -> Usage:
    return Usage(features.has(CONSUMABLE_CAPACITY))


def is_same(old: Node | None, new: Node | None) -> bool:
    """True if both reach the same devices and can use them in the same way."""
    if old is None or new is None:
        return old is new
    return _of_node(old) == _of_node(new)


NOT_FOR_DEVICES: Final = dict.fromkeys(
    ["taints", "unschedulable", "allocatable", "images"], "they decide about pods, not about devices"
)
"""Fields of a node without influence on its devices."""

_of_node = values_of(Node, NOT_FOR_DEVICES)
