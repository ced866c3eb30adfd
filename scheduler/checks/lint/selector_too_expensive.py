"""A selector is more expensive than the API server allows."""

from collections.abc import Iterator

import cel
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for one in manifests.selectors:
        if (cost := manifests.cost(one)) > cel.COST_LIMIT:
            message = f"may cost {cost:,} units, more than the limit of {cel.COST_LIMIT:,}"
            yield Observation(one.subject, message, one.field)


SELECTOR_TOO_EXPENSIVE = Check(
    "selector-too-expensive",
    FindingLevel.ERROR,
    "A selector is more expensive than the API server allows: it refuses the object.",
    "Do not nest all(...), exists(...), map(...) and filter(...).",
    _check,
)
