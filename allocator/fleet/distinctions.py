"""What claims tell apart on a node: less than the values that they read.

A selector sees of an attribute only whether the device passes, and a constraint only which devices have equal values.
Where each device has a value of its own, such as a serial number, nodes are alike all the same.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence

from allocator.cluster.node_view import NodeView
from allocator.cluster.snapshot import Snapshot
from allocator.features.list_type_attributes import Token, is_list, tokens
from allocator.fleet.questions import expressions_of
from allocator.gates import LIST_TYPE_ATTRIBUTES
from allocator.model import Claim
from allocator.requests.constraints import lookup


def distinctions(
    snapshot: Snapshot, view: NodeView, claims: Sequence[Claim], is_cancelled: Callable[[], bool]
) -> Hashable:
    """Equal for views with devices that agree, one by one, in all but attributes, and get the same answers by these.

    What features and policies read of attributes is left out. Raises Cancelled. Cost: O(devices).
    """
    selectors, has_lists = snapshot.selectors, snapshot.features.has(LIST_TYPE_ATTRIBUTES)
    selections = [selectors.select(one, view, is_cancelled) for one in expressions_of(snapshot, claims)]
    equal = [_equal_values(view, name, has_lists=has_lists) for name in dict.fromkeys(_constrained(claims))]
    return tuple(selections), tuple(equal)


def _constrained(claims: Iterable[Claim]) -> Iterable[str]:
    return [one.match_attribute or one.distinct_attribute for claim in claims for one in claim.constraints]


def _equal_values(view: NodeView, name: str, *, has_lists: bool) -> Hashable:
    """By device, its values of the attribute, each as a number that devices with an equal one share."""
    numbers: dict[Token, int] = {}
    found: list[Hashable] = []
    for position, device in enumerate(view.devices):
        attribute = lookup(device, name)
        if attribute is None:
            found.append(None)
        else:
            own = tokens(attribute, position, has_lists=has_lists)
            found.append((is_list(attribute), tuple([numbers.setdefault(token, len(numbers)) for token in own])))
    return tuple(found)
