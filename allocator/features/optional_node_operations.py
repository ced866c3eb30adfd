"""Optional node operations: slices whose devices need no preparation on the node, if the node supports that.

Source: feature gate DRAOptionalNodeOperations, field skipNodeOperations.
"""

from collections.abc import Iterable
from dataclasses import replace

from allocator.bits import Mask
from allocator.cluster.pools import NodeView
from allocator.features.contract import Feature, NodeAttempt
from allocator.gates import OPTIONAL_NODE_OPERATIONS
from allocator.model import Alternative, Claim, DeviceResult
from allocator.search.rules import Pick, Stage


class OptionalNodeOperations(Feature):
    """Refuses such devices where the gate is off, or where the node does not declare the feature."""

    def concerns(self, view: NodeView) -> bool:
        """Only views with a slice that skips operations."""
        return any(segment.slice.skip_node_operations for segment in view.segments)

    def switched_off(self, attempt: NodeAttempt) -> Iterable[Stage]:
        """The devices of slices with skipNodeOperations."""
        if attempt.features.is_strict and not attempt.features.knows_node_operations:
            # Differs from kube-scheduler: the node would try to prepare the devices.
            return
        mask = _skipping(attempt)
        if mask and not attempt.features.has(OPTIONAL_NODE_OPERATIONS):
            yield Stage(f"skip node operations, and {OPTIONAL_NODE_OPERATIONS} is off", mask)

    def unusable(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """The same, and with the gate on those whose node does not declare the feature."""
        yield from self.switched_off(attempt)
        if not attempt.features.has(OPTIONAL_NODE_OPERATIONS):
            return
        mask, node = _skipping(attempt), attempt.node
        if mask and (node is None or OPTIONAL_NODE_OPERATIONS not in node.declared_features):
            yield Stage(f"skip node operations, and the node does not declare {OPTIONAL_NODE_OPERATIONS}", mask)

    def finish(self, attempt: NodeAttempt, claim: Claim, pick: Pick, result: DeviceResult) -> DeviceResult:
        """The operations that the slice skips."""
        if not attempt.features.has(OPTIONAL_NODE_OPERATIONS):
            return result
        skipped = attempt.view.segment(pick.device).slice.skip_node_operations
        return replace(result, skip_node_operations=skipped) if skipped else result


def _skipping(attempt: NodeAttempt) -> Mask:
    return sum(segment.mask for segment in attempt.view.segments if segment.slice.skip_node_operations)
