"""An object is close to a limit of the API: the next entry may not be accepted."""

from collections.abc import Iterator

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.api.driver_config import SELECTORS_MAX
from allocator.api.requests import ALTERNATIVES_MAX, REQUESTS_MAX
from allocator.api.resource_claim import CONSTRAINTS_MAX
from allocator.requests.candidates import MAX_RESULTS
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.lint.manifests import Manifests

NEAR = 0.9
"""Share of a limit from which on it is reported."""

Use = tuple[ObjectName, str, str, int, int]
"""Object, field, what it has, how many there are, and at most."""


def _check(manifests: Manifests) -> Iterator[Observation]:
    for subject, field, what, number, limit in (*_of_requests(manifests), *_of_claims(manifests)):
        if number >= NEAR * limit:
            yield Observation(subject, f"has {number} of at most {limit} {what}", field)


def _of_requests(manifests: Manifests) -> Iterator[Use]:
    for asked in manifests.asked:
        requests = asked.claim.requests
        at = f"{asked.path}.devices"
        yield asked.subject, f"{at}.requests", "requests", len(requests), REQUESTS_MAX
        yield asked.subject, f"{at}.constraints", "constraints", len(asked.claim.constraints), CONSTRAINTS_MAX
        for number, request in enumerate(requests):
            one = f"{at}.requests[{number}]"
            if request.is_first_available:
                found = len(request.alternatives)
                yield asked.subject, f"{one}.firstAvailable", f"subrequests of {request.name}", found, ALTERNATIVES_MAX
            found = max((len(way.selectors) for way in request.alternatives), default=0)
            yield asked.subject, f"{one}.selectors", f"selectors of {request.name}", found, SELECTORS_MAX
        counts = [max((one.count for one in request.alternatives), default=0) for request in requests]
        yield asked.subject, f"{at}.requests[*].count", "devices", sum(counts), MAX_RESULTS


def _of_claims(manifests: Manifests) -> Iterator[Use]:
    for (namespace, name), found in sorted(manifests.inventory.claims.items()):
        subject = ObjectName("ResourceClaim", name, namespace)
        yield subject, "status.reservedFor", "consumers", len(found.reserved_for), RESERVED_FOR_MAX


NEAR_LIMIT = Check(
    "near-limit",
    FindingLevel.WARNING,
    "An object is close to a limit of the API.",
    "Split it: several claims for a pod, or several claims for many pods.",
    _check,
)
