"""Binding conditions: a device that has to be prepared after it was chosen, before the pod is bound.

Such devices need the gate, and their conditions are copied into the result. Their pools come last, and `bindsToNode`
ties the allocation to the node, even if the gate is off.
Source: KEP-5007, feature gates DRADeviceBindingConditions and DRAResourceClaimDeviceStatus.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from allocator.cluster.pools import NodeView
from allocator.features.contract import Feature, NodeAttempt
from allocator.gates import BINDING_CONDITIONS
from allocator.model import Alternative, Claim, DeviceResult
from allocator.search.rules import Pick, Stage

_TRAITS: Final = ("binding_conditions", "binding_failure_conditions")


class DeviceBindingConditions(Feature):
    """Leaves out devices with conditions if the gate is off."""

    def concerns(self, view: NodeView) -> bool:
        """Only views with a device that has binding or binding failure conditions."""
        return not view.traits.isdisjoint(_TRAITS)

    def switched_off(self, attempt: NodeAttempt) -> Iterable[Stage]:
        """Devices whose conditions would be ignored."""
        if not attempt.features.has(BINDING_CONDITIONS):
            mask = sum(1 << position for position, d in enumerate(attempt.view.devices) if d.binding_conditions)
            yield Stage(f"have binding conditions, and {BINDING_CONDITIONS} is off", mask)

    def unseen(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """The same."""
        return self.switched_off(attempt)

    def finish(self, attempt: NodeAttempt, claim: Claim, pick: Pick, result: DeviceResult) -> DeviceResult:
        """Copy the conditions; failure conditions also without binding conditions."""
        device = attempt.view.devices[pick.device]
        if not attempt.features.has(BINDING_CONDITIONS):
            return result
        return replace(
            result,
            binding_conditions=device.binding_conditions,
            binding_failure_conditions=device.binding_failure_conditions,
        )
