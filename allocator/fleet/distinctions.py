"""What claims distinguish on a node: less than the values that they read.

A selector sees of an attribute only whether the device passes, and a constraint only which devices have equal values.
Where each device has a value of its own, such as a serial number, nodes are alike all the same.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence

from allocator.cluster.node_view import NodeView
from allocator.cluster.snapshot import Snapshot
from allocator.fleet.questions import expressions_of
from allocator.model import Claim
from allocator.requests.constraints import equal_values
from allocator.search.budget import Budget


def distinctions(
    snapshot: Snapshot, view: NodeView, claims: Sequence[Claim], is_cancelled: Callable[[], bool], budget: Budget
) -> Hashable:
    """Equal for views with devices that agree, one by one, in all but attributes, and get the same answers by these.

    What features and policies read of attributes is left out. Raises Cancelled, OutOfSteps. Cost: O(devices).
    """
    selections = [
        snapshot.selectors.select(one, view, is_cancelled, budget) for one in expressions_of(snapshot, claims)
    ]
    equal = [equal_values(view, name, snapshot.features) for name in dict.fromkeys(_constrained(claims))]
    return tuple(selections), tuple(equal)


def _constrained(claims: Iterable[Claim]) -> Iterable[str]:
    return [one.match_attribute or one.distinct_attribute for claim in claims for one in claim.constraints]
