"""Reasons for which no node can take a pod, whatever is free: its claims, their classes, or a plugin."""

from collections.abc import Iterable, Sequence

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.did_you_mean import did_you_mean
from allocator.gates import ADMIN_ACCESS
from allocator.model import Claim
from scheduler.decision import admin_access
from scheduler.decision.cluster import Cluster
from scheduler.decision.feasibility import refused_by_all
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import ADMIN_ACCESS as NO_ADMIN_ACCESS
from scheduler.plugins.dynamic_resources import CLAIMS, CLASSES
from scheduler.plugins.plugin import UNSUPPORTED, Reason


def for_every_node(
    cluster: Cluster, cycle: Cycle, pending: Sequence[Claim], full: Iterable[Claim]
) -> tuple[Reason, str] | None:
    """What keeps the pod from every node, whatever is free. pending, full: as for `refused_everywhere`."""
    if problem := cluster.unsupported(cycle.pod):
        return UNSUPPORTED, problem
    if refused := refused_by_all(cycle, cluster.templates_of(cycle.pod).plugins):
        plugin, problem = refused
        return plugin.reason, problem
    return refused_everywhere(cluster, pending, full)


def refused_everywhere(cluster: Cluster, pending: Sequence[Claim], full: Iterable[Claim]) -> tuple[Reason, str] | None:
    """The problems of the claims that hold on every node, whatever is free. full: those that no further pod can use."""
    for claim in full:
        problem = f"resourceclaim {claim} is reserved for {RESERVED_FOR_MAX} pods already, which is the limit"
        return CLAIMS, problem
    if missing := _missing_class(cluster, pending):
        return CLASSES, missing
    if cluster.fleet.features.has(ADMIN_ACCESS):
        for claim in filter(admin_access.is_asked_for, pending):
            if problem := admin_access.refusal(claim, cluster.labels_of(claim.namespace)):
                return NO_ADMIN_ACCESS, problem
    return None


def _missing_class(cluster: Cluster, pending: Iterable[Claim]) -> str:
    known = cluster.fleet.classes
    for claim in pending:
        for request in claim.requests:
            for one in request.alternatives:
                if one.class_name and one.class_name not in known:
                    meant = did_you_mean(one.class_name, known)
                    return f"request {one.name}: device class {one.class_name} does not exist{meant}"
    return ""


def classes_of(claims: Iterable[Claim]) -> frozenset[str]:
    """The names of the device classes that the claims name."""
    return frozenset(one.class_name for claim in claims for request in claim.requests for one in request.alternatives)
