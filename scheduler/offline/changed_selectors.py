"""The selectors that choose other devices once their texts and those of the devices are redacted.

A text that is put together, taken apart or matched against a pattern has no replacement that behaves as it did. Instead
of guessing which expressions do so, each is asked about all devices before and after.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import cel
from allocator.api import decode, is_decoded
from allocator.cluster.node_view import NodeView, Segment
from allocator.cluster.selectors import Selectors
from allocator.model import Slice
from scheduler.input.expressions import SELECTOR, expressions
from scheduler.input.inventory import subject_of

Json = Any
"""A value of JSON."""

_Pair = tuple[Mapping[str, Json], Mapping[str, Json]]


def changed_selectors(before: Iterable[Mapping[str, Json]], after: Iterable[Mapping[str, Json]]) -> Iterator[str]:
    """`KIND NAME: PATH` of each selector that no longer selects the same devices, or fails on others.

    after: the redacted objects, in the same order. Cost: O(different selectors x devices).
    """
    pairs = list(zip(before, after, strict=True))
    views = _views(pairs)
    asked = Selectors(cel.V1_37), Selectors(cel.V1_37)
    known: dict[tuple[str, str], bool] = {}
    for raw, redacted in pairs:
        if not is_decoded(str(raw.get("apiVersion")), str(raw.get("kind"))):
            continue
        found = zip(expressions(raw.get("spec"), "spec"), expressions(redacted.get("spec"), "spec"), strict=False)
        for (path, field, text), (_, _, other) in found:
            if field == SELECTOR and (text, other) not in known:
                known[text, other] = asked[0].select(text, views[0]) == asked[1].select(other, views[1])
            if field == SELECTOR and not known[text, other]:
                yield f"{subject_of(str(raw['kind']), raw)}: {path}"


def _views(pairs: Iterable[_Pair]) -> tuple[NodeView, NodeView]:
    """All devices, before and after."""
    slices = [
        (first, second)
        for raw, redacted in pairs
        if raw.get("kind") == "ResourceSlice"
        and isinstance(first := decode(raw, allows_combined=True).object, Slice)
        and isinstance(second := decode(redacted, allows_combined=True).object, Slice)
    ]
    return _view([one for one, _ in slices]), _view([one for _, one in slices])


def _view(slices: Iterable[Slice]) -> NodeView:
    segments, offset = list[Segment](), 0
    for one in slices:
        segments.append(Segment(one, offset))
        offset += len(one.devices)
    devices = tuple(chain.from_iterable(one.slice.devices for one in segments))
    return NodeView(None, (), tuple(segments), devices, 0, 0, 0, 0, frozenset())
