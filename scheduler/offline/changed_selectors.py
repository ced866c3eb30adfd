"""The selectors that choose other devices once their texts and those of the devices are redacted.

A text that is put together, taken apart or matched against a pattern has no replacement that behaves as it did. Instead
of guessing which expressions do so, each is asked about all devices before and after.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import cel
from allocator.api import decode, is_decoded
from allocator.cluster.node_view import NodeView, Segment
from allocator.cluster.selectors import Selectors
from allocator.model import Device, Slice
from scheduler.input.expressions import SELECTOR, expressions
from scheduler.input.inventory import subject_of

Json = Any
"""A value of JSON."""

_Pair = tuple[Mapping[str, Json], Mapping[str, Json]]


def changed_selectors(before: Iterable[Mapping[str, Json]], after: Iterable[Mapping[str, Json]]) -> Iterator[str]:
    """`KIND NAME: PATH` of each selector that no longer selects the same devices, or fails on others.

    So it is for each derived attribute that no longer has equal values for the same devices. after: the redacted
    objects, in the same order. Cost: O(different selectors x devices).
    """
    pairs = list(zip(before, after, strict=True))
    views = _views(pairs)
    asked = Selectors(cel.V1_37), Selectors(cel.V1_37)
    known: dict[tuple[str, str, str], bool] = {}
    for raw, redacted in pairs:
        if not is_decoded(str(raw.get("apiVersion")), str(raw.get("kind"))):
            continue
        found = zip(expressions(raw.get("spec"), "spec"), expressions(redacted.get("spec"), "spec"), strict=False)
        for (path, field, text), (_, _, other) in found:
            key = field, text, other
            if key not in known:
                first, second = (_answer(field, *one) for one in zip(asked, (text, other), views, strict=True))
                known[key] = first == second
            if not known[key]:
                yield f"{subject_of(str(raw['kind']), raw)}: {path}"


def _answer(field: str, selectors: Selectors, text: str, view: NodeView) -> object:
    """Which devices a selector selects; or which devices a derived attribute has equal values for."""
    if field == SELECTOR:
        return selectors.select(text, view)
    firsts: dict[Hashable, int] = {}
    return [firsts.setdefault(_derived(text, device), position) for position, device in enumerate(view.devices)]


def _derived(text: str, device: Device) -> Hashable:
    """The value, None where it fails; constraints ask only whether values are equal."""
    try:
        return cel.compile_value(text).evaluate(device)
    except (cel.CompileError, cel.EvalError):
        return None


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
