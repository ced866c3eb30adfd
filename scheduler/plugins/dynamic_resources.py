"""DynamicResources: the devices of a pod's claims have to be free and reachable; better alternatives score higher.

The allocator knows the devices and who has them (`allocator.fleet`); this is what the plugin adds. A node's rank is the
sum over requests with `firstAvailable` of 8 - position of the alternative chosen there.
Source: KEP-4381, KEP-4816; kube-scheduler's dynamicresources.go.
"""

from collections.abc import Hashable

from allocator.model import Claim, Node
from scheduler.core_v1.pod import claim_keys
from scheduler.plugins.node_resources_fit import offers_asked_differently, stands_for_asked
from scheduler.plugins.plugin import Cycle, Plugin, Reason, RefusedPod, Score, always, is_in_namespace, normalized
from scheduler.state.claims import awaited_claims
from scheduler.state.cluster_changes import (
    ClaimChanged,
    ClassChanged,
    GivenBack,
    LimitsChanged,
    NamespaceChanged,
    NodeChanged,
    SliceChanged,
    TaintRulesChanged,
)
from scheduler.state.masks import Numbers

NAME = "DynamicResources"


def _scores(_cycle: Cycle, _nodes: Numbers, ranks: Numbers) -> Numbers:
    return normalized(ranks)


def _may_give_devices(who: RefusedPod, event: NodeChanged) -> bool:
    return _reaches_differently(event) or offers_asked_differently(who, event)


def _reaches_differently(event: NodeChanged) -> bool:
    """Devices are reached by a node's name and labels; a claim that was allocated on a node that is gone is freed."""
    old, new = event.old, event.new
    return old is None or new is None or _reach_of(old) != _reach_of(new)


def _reach_of(node: Node) -> Hashable:
    return frozenset(node.labels.items()), node.declared_features


def _is_own(who: RefusedPod, event: ClaimChanged) -> bool:
    return event.key[0] == who.pod.namespace and event.key in awaited_claims(who.pod)  # which may be very many


def _is_own_or_released(who: RefusedPod, event: ClaimChanged) -> bool:
    return (event.is_released and event.old is not None and _awaits(who, event.old)) or _is_own(who, event)


def _awaits(who: RefusedPod, claim: Claim) -> bool:
    """Whether devices that the claim gives back may help the pod: other tenants' are of no use to one at its limit."""
    return who.refusal.awaits is None or who.refusal.awaits(claim)


def _is_limited(who: RefusedPod, _event: LimitsChanged) -> bool:
    return who.refusal.awaits is not None


def _may_change_limits(who: RefusedPod, _event: NamespaceChanged) -> bool:
    """Limits may select namespaces by labels, also those that share one with the pod's."""
    return who.refusal.awaits is not None


def _is_named(who: RefusedPod, event: ClassChanged) -> bool:
    return any(one.name in who.refusal.classes for one in (event.old, event.new) if one)


def _is_named_or_asked(who: RefusedPod, event: ClassChanged) -> bool:
    return _is_named(who, event) or stands_for_asked(who, event)


def _shares_claim(who: RefusedPod, event: GivenBack) -> bool:
    own = set(claim_keys(who.pod))
    return any((claim.namespace, claim.name) in own for claim in event.claims)


def _gives_back_devices(who: RefusedPod, event: GivenBack) -> bool:
    return any(_awaits(who, claim) for claim in event.claims)


DEVICES = Reason(
    NAME,
    {
        NodeChanged: _may_give_devices,
        ClaimChanged: _is_own_or_released,
        SliceChanged: always,
        ClassChanged: _is_named_or_asked,
        TaintRulesChanged: always,
        LimitsChanged: _is_limited,
        NamespaceChanged: _may_change_limits,
        GivenBack: _gives_back_devices,
    },
    ("labels", "declared_features", "allocatable"),
    "devices",
)
"""No node that is feasible otherwise has the devices, or reaches those that are allocated."""

CLAIMS = Reason(NAME, {ClaimChanged: _is_own, GivenBack: _shares_claim}, name="claims")
"""A claim of the pod is not there, being deleted, not its own, or reserved for as many pods as it can be."""

CLASSES = Reason(NAME, {ClassChanged: _is_named}, name="device classes")
"""A class that a claim names does not exist."""

ADMIN_ACCESS = Reason(NAME, {NamespaceChanged: is_in_namespace}, name="admin access")
"""The namespace does not permit it."""

DYNAMIC_RESOURCES = Plugin(
    NAME,
    (DEVICES, CLAIMS, CLASSES, ADMIN_ACCESS),
    pod_fields=("claims", "claim_statuses"),
    score=Score(2, _scores),
)
