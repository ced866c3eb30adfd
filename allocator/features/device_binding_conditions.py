"""Binding conditions: a device that is ready only after something has been done to it, once it is chosen.

Here, such devices need the gate, and their conditions are copied into the result. That their pools
come last, and that `bindsToNode` ties the allocation to the node, holds with the gate off too.
Source: KEP-5007, feature gates DRADeviceBindingConditions and DRAResourceClaimDeviceStatus.
"""

from collections.abc import Iterable
from dataclasses import replace

from allocator.cluster.node_view import NodeView
from allocator.features.contract import Feature, NodeAttempt
from allocator.gates import BINDING_CONDITIONS
from allocator.model import Alternative, Claim, DeviceResult
from allocator.search.rules import Pick, Stage

_TRAITS = ("binding_conditions", "binding_failure_conditions")


class DeviceBindingConditions(Feature):
    """Leaves out devices with conditions where the gate is off."""

    def concerns(self, view: NodeView) -> bool:
        """Only views with a device that waits for conditions, or that some tell to have failed."""
        return not view.traits.isdisjoint(_TRAITS)

    def unseen(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """Devices that nobody would wait for."""
        if not attempt.features.has(BINDING_CONDITIONS):
            mask = sum(1 << position for position, d in enumerate(attempt.view.devices) if d.binding_conditions)
            yield Stage(f"have binding conditions, and {BINDING_CONDITIONS} is off", mask)

    def finish(self, attempt: NodeAttempt, claim: Claim, pick: Pick, result: DeviceResult) -> DeviceResult:
        """The conditions to wait for; those of failure are copied also where they stand alone."""
        device = attempt.view.devices[pick.device]
        if not attempt.features.has(BINDING_CONDITIONS):
            return result
        return replace(
            result,
            binding_conditions=device.binding_conditions,
            binding_failure_conditions=device.binding_failure_conditions,
        )
