"""The rules of `dra lint` about limits per tenant, which a configuration says: what is not as its author meant it."""

from collections.abc import Iterator

from allocator.cluster.snapshot import Snapshot
from allocator.limits.count import LimitsInForce, exceeded_text, limit_statuses
from allocator.limits.limit import TenantLimit
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.manifests import Manifests


def _subject(limit: TenantLimit) -> ObjectName:
    return ObjectName("limit", limit.name)


def _selects_nothing(manifests: Manifests) -> Iterator[Observation]:
    """Without slices, or namespaces, in the input nothing is known of them."""
    snapshot, labels = manifests.cluster.fleet.current, manifests.namespaces
    for limit in manifests.limits:
        if problem := _without_devices(limit, snapshot) if snapshot.by_pool else "":
            yield Observation(_subject(limit), problem, "count")
        whom = limit.namespaces
        if labels and not any(whom.has(name, own) for name, own in labels.items()):
            yield Observation(_subject(limit), "no namespace of the input is one of its namespaces", "namespaces")


def _without_devices(limit: TenantLimit, snapshot: Snapshot) -> str:
    expressions = limit.counted.expressions(snapshot.classes)
    if expressions is None:
        return f"device class {limit.counted.class_name} does not exist"
    if snapshot.limited.published.of(limit.counted, expressions, snapshot).largest:
        return ""
    if not limit.counted.name:
        return "it counts no device of the input"
    return f"no device of the input has its {limit.counted.unit} {limit.counted.name}"


LIMIT_SELECTS_NOTHING = Check(
    "limit-selects-nothing",
    FindingLevel.WARNING,
    "A limit per tenant counts no device of the input, or holds for no namespace of it.",
    "Check the names of class, driver, capacity, counter and namespaces, and the selectors.",
    _selects_nothing,
)


def _never_met(manifests: Manifests) -> Iterator[Observation]:
    snapshot = manifests.cluster.fleet.current
    for number, limit in enumerate(manifests.limits):
        expressions = limit.counted.expressions(snapshot.classes)
        if limit.soft or expressions is None:
            continue
        least = snapshot.limited.published.of(limit.counted, expressions, snapshot).smallest
        most = snapshot.limited.terms_of((number, ""), snapshot).most
        if most < least:
            text = f"it allows {limit.text_of(most)}, and no device counts for less than {limit.text_of(least)}"
            yield Observation(_subject(limit), text, "most" if limit.most is not None else "share")


LIMIT_NEVER_MET = Check(
    "limit-never-met",
    FindingLevel.WARNING,
    "A limit per tenant allows less than one device counts for: its tenants can get no such device.",
    "Raise `most` or `share`, unless they are to have none.",
    _never_met,
)


def _exceeded(manifests: Manifests) -> Iterator[Observation]:
    claims = [one.claim for one in manifests.inventory.claims.values() if one.claim.allocation is not None]
    now = manifests.cluster.fleet.current
    snapshot = now.with_limits(LimitsInForce(manifests.limits, manifests.namespaces), claims)
    for status in limit_statuses(snapshot):
        if status.is_exceeded:
            yield Observation(_subject(status.limit), exceeded_text(status), "most")


LIMIT_EXCEEDED = Check(
    "limit-exceeded",
    FindingLevel.WARNING,
    "More is in use already than a limit per tenant allows. Claims keep what they have.",
    "Raise the limit, or delete claims: until then its tenants get nothing more that counts.",
    _exceeded,
)
