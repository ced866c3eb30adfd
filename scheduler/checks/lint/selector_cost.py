"""A selector is nearly as expensive as the API server allows."""

from collections.abc import Iterator

import cel
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests

NEAR = 0.8
"""Share of the limit from which on a cost is reported."""


def _check(manifests: Manifests) -> Iterator[Observation]:
    for one in manifests.selectors:
        cost = manifests.cost(one)
        if NEAR * cel.COST_LIMIT < cost <= cel.COST_LIMIT:
            message = f"may cost {cost:,} units, {100 * cost // cel.COST_LIMIT} % of the limit of {cel.COST_LIMIT:,}"
            yield Observation(one.subject, message, one.field)


SELECTOR_COST = Check(
    "selector-cost",
    FindingLevel.WARNING,
    "A selector is nearly as expensive as the API server allows.",
    "Put cheap conditions first, and do not nest all(...), exists(...), map(...) and filter(...).",
    _check,
)
