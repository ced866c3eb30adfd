"""Device taints: a tainted device is only for requests that tolerate each of its taints.

NoSchedule and NoExecute keep a device from being allocated; None and effects that are not known do
not. The taints of DeviceTaintRules are on the devices already when they come here.
Source: KEP-5055, feature gate DRADeviceTaints.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from allocator.bits import Mask
from allocator.cluster.pools import NodeView
from allocator.features.contract import Feature, NodeAttempt
from allocator.gates import DEVICE_TAINTS
from allocator.memo import Topic
from allocator.model import Alternative, Taint, Toleration
from allocator.search.rules import Stage

BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})

_PAIRS_OF_WORK: Final = 5
"""Taints and tolerations that are compared in the time of one unit of work."""

_DEVICES_AT_ONCE: Final = 32
"""Between two looks at the time."""

TaintsByDevice = Sequence[tuple[int, Sequence[Taint]]]
"""(position, taints that keep it from being allocated) of the devices that have any."""

_TAINTED: Final[Topic[TaintsByDevice]] = Topic("tainted devices")


class DeviceTaints(Feature):
    """Refuses devices with a taint that is not tolerated."""

    def concerns(self, view: NodeView) -> bool:
        """Only views with a tainted device."""
        return "taints" in view.traits

    def work(self, attempt: NodeAttempt, alternative: Alternative) -> int:
        """Each taint is held against each toleration."""
        if not attempt.features.has(DEVICE_TAINTS):
            return 0
        taints = sum([len(taints) for _, taints in blocking_taints(attempt.view)])
        return taints * (1 + len(alternative.tolerations)) // _PAIRS_OF_WORK

    def unusable(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """A stage for each taint that keeps devices away."""
        if not attempt.features.has(DEVICE_TAINTS):
            return
        by_taint: dict[str, Mask] = {}
        for number, (position, taints) in enumerate(blocking_taints(attempt.view)):
            if number % _DEVICES_AT_ONCE == 0:
                attempt.look_at_time()
            taint = next((taint for taint in taints if not tolerates(alternative.tolerations, taint)), None)
            if taint is not None:
                by_taint[str(taint)] = by_taint.get(str(taint), 0) | 1 << position
        for text, mask in by_taint.items():
            yield Stage(f"are tainted {text}", mask, "taint")


def blocking_taints(view: NodeView) -> TaintsByDevice:
    """The devices of the view that have taints which keep them from being allocated, with those."""
    return view.memo.remember(_TAINTED, lambda: _tainted_of(view))


def _tainted_of(view: NodeView) -> TaintsByDevice:
    blocking = [[taint for taint in device.taints if taint.effect in BLOCKING] for device in view.devices]
    return [(position, taints) for position, taints in enumerate(blocking) if taints]


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """True if one of the tolerations matches the taint; the time that it tolerates for does not matter."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
