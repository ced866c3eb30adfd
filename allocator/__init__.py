"""Device allocation for Kubernetes DRA: which devices claims get on a node, or why none.

    snapshot = allocator.Snapshot.of(slices, classes, claims, allocator.Features.of("1.36"))
    outcome = allocator.allocate(snapshot, node, [claim])

`decode` reads objects of resource.k8s.io, `allocation_to_v1` writes a result, `Fleet` answers for all nodes at once.
docs/library.md has examples. All other modules may change with any version.
"""

from allocator.allocate import allocate
from allocator.api import Decoded, FieldError, allocation_to_v1, decode
from allocator.cluster.snapshot import Snapshot
from allocator.explain.text import node_text
from allocator.fleet.fleet import Chosen, Fleet
from allocator.gates import Features
from allocator.model import Allocation, Claim, Device, DeviceClass, DeviceID, Node, Slice, Taint
from allocator.outcome import Allocated, AllocationError, Exhausted, InvalidClaim, InvalidPool, Outcome, Refused
from allocator.policies import policy_of
from allocator.policies.contract import Policy

__all__ = [
    "Allocated",
    "Allocation",
    "AllocationError",
    "Chosen",
    "Claim",
    "Decoded",
    "Device",
    "DeviceClass",
    "DeviceID",
    "Exhausted",
    "Features",
    "FieldError",
    "Fleet",
    "InvalidClaim",
    "InvalidPool",
    "Node",
    "Outcome",
    "Policy",
    "Refused",
    "Slice",
    "Snapshot",
    "Taint",
    "allocate",
    "allocation_to_v1",
    "decode",
    "node_text",
    "policy_of",
]
