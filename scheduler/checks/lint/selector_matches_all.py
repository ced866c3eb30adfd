"""A selector of a request accepts every device of its class, so that it decides nothing."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for one in manifests.selectors:
        # One that comes after others has its meaning beside them: what they leave may well be what it asks for.
        if one.is_first and one.devices and len(manifests.answers(one).accepted) == len(one.devices):
            yield Observation(one.subject, f"accepts all of {one.whole} ({len(one.devices)})", one.field)


SELECTOR_MATCHES_ALL = Check(
    "selector-matches-all",
    FindingLevel.NOTE,
    "A selector accepts every device that it is asked of.",
    "This is usual where a cluster has one kind of device. Otherwise, check the selector.",
    _check,
)
