"""What a feature of the API can say about an attempt; each has a file in `allocator/features`.

A feature refuses a claim (its gate is off), refuses devices once for each request (stages of the funnel), or watches
the search (a rule). Most do one of these. Hooks that do not depend on the devices in use are called once for each view
and each different request.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from allocator.bits import Mask
from allocator.cluster.pools import Named, NodeView, Pool
from allocator.cluster.snapshot import Snapshot
from allocator.cluster.usage import Usage
from allocator.gates import CONSUMABLE_CAPACITY, Features
from allocator.limits import Binding, Bindings
from allocator.memo import Topic, TypedMemo
from allocator.model import Alternative, Claim, Device, DeviceResult, Node
from allocator.outcome import Budget
from allocator.search.rules import Pick, Rule, Stage
from cel import Cancelled

_HELD: Final[Topic[Named]] = Topic("held")
_SHARED: Final[Topic[Named]] = Topic("shared")


def attempt_of(  # noqa: PLR0913, PLR0917 - the last four have defaults
    snapshot: Snapshot,
    view: NodeView,
    share_id: Callable[[str], str],
    is_cancelled: Callable[[], bool] = lambda: False,
    known: TypedMemo | None = None,
    budget: Budget | None = None,
    bindings: Bindings = (),
) -> "NodeAttempt":
    """The attempt on a view as things are in the snapshot.

    known: as in `NodeAttempt`; None for that of the view. budget: None for any number of steps. bindings: limits that
    the claims of the attempt could exceed. Raises OutOfSteps, Cancelled, only where there are any.
    """
    features, usage = snapshot.features, snapshot.usage
    shareable = shared = 0
    if features.has(CONSUMABLE_CAPACITY):
        shareable, shared = view.shareable, view.mask_of(usage.shares, _SHARED)
    in_use = view.mask_of(usage.holders, _HELD)
    known = view.memo if known is None else known
    budget = Budget() if budget is None else budget
    limited = tuple([_limited(one, snapshot, view, is_cancelled, budget) for one in bindings])
    return NodeAttempt(features, view, usage, in_use, shareable, shared, known, share_id, is_cancelled, budget, limited)


@dataclass(frozen=True, slots=True, eq=False)
class Limited:
    """A limit that the attempt may exceed, and the devices of the view that count for it."""

    binding: Binding
    devices: Mask


def _limited(
    binding: Binding, snapshot: Snapshot, view: NodeView, is_cancelled: Callable[[], bool], budget: Budget
) -> Limited:
    driver = binding.limit.counted.driver
    devices = sum([one.mask for one in view.segments if not driver or one.slice.driver == driver])
    for expression in binding.expressions if devices else ():
        devices &= snapshot.selectors.select(expression, view, is_cancelled, budget).matches
    return Limited(binding, devices)


@dataclass(slots=True, eq=False)
class NodeAttempt:
    """What features read: a view, the devices in use, and the enabled gates."""

    features: Features
    view: NodeView
    usage: Usage
    in_use: Mask
    """Devices held exclusively."""
    shareable: Mask
    """Devices that several requests may pick."""
    shared: Mask
    """Devices of which a share is held."""
    known: TypedMemo
    """What was worked out of the claims whatever is in use; nodes between which they do not distinguish may have it in
    common.
    """
    share_id: Callable[[str], str]
    """Makes the id of a new share from a text that names it."""
    is_cancelled: Callable[[], bool] = lambda: False
    """Called before anything that may take long."""
    budget: Budget = field(default_factory=Budget)
    """For what is worked out before the search."""
    limited: tuple[Limited, ...] = ()
    """The limits that the claims could exceed."""
    memo: TypedMemo = field(default_factory=TypedMemo)
    """What features have worked out."""

    @property
    def node(self) -> Node | None:
        """The node of the attempt."""
        return self.view.node

    def look_at_time(self) -> None:
        """Raises Cancelled once the time for the attempt is over."""
        if self.is_cancelled():
            raise Cancelled("cancelled before the search")

    def allocated_devices(self, pool: Pool) -> list[Device]:
        """The devices of a pool, on all nodes, that are allocated, wholly or in shares."""
        held = self.usage.allocated_in(pool.id)
        if not held:
            return []
        slices = (*pool.slices, *pool.elsewhere)
        return [device for slice_ in slices for device in slice_.devices if device.name in held]


class Feature:
    """A feature; each overrides only the hooks that it needs."""

    def reads(self, alternative: Alternative) -> Iterable[str]:
        """The qualified names of the attributes that it reads for the request, `ANY_ATTRIBUTE` if it may be any.

        It may read all other fields of devices and slices without saying so.
        """
        return ()

    def concerns(self, view: NodeView) -> bool:
        """False if the feature concerns no device of the view, whatever is requested and in use."""
        return True

    def check(self, features: Features, claim: Claim, alternative: Alternative) -> None:
        """Raises InvalidClaim if the alternative uses a field whose gate is off."""

    def work(self, attempt: NodeAttempt, alternative: Alternative) -> int:
        """What it takes to say which devices the feature refuses, whether that is known already or not."""
        return 0

    def switched_off(self, attempt: NodeAttempt) -> Iterable[Stage]:
        """Devices that no request can have because a gate is off, whatever is in use."""
        return ()

    def unseen(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """Devices that are left out before selectors are evaluated, whatever is in use."""
        return ()

    def unselectable(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """Devices that the request does not ask for, whatever is in use, so that `All` does without them."""
        return ()

    def unusable(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """Devices that the request cannot have, whatever is in use; `All` fails if it asks for one."""
        return ()

    def taken(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """Devices that the request cannot have because of what is in use; `All` fails if it asks for one."""
        return ()

    def failures(self, attempt: NodeAttempt, alternative: Alternative) -> Mapping[int, str]:
        """Devices that cannot be decided, whatever is in use, with the reason; reaching one ends the attempt."""
        return {}

    def rule(self, attempt: NodeAttempt) -> Rule | None:
        """The rule that watches the picks of all requests of the attempt."""
        return None

    def finish(self, attempt: NodeAttempt, claim: Claim, pick: Pick, result: DeviceResult) -> DeviceResult:
        """The result of a pick with the fields of the feature."""
        return result
