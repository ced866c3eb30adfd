"""A selector accepts no device of the input."""

from collections.abc import Iterator

import cel
from allocator.explain.selector_operands import blaming, operands_of
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import CheckedSelector, Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for one in manifests.selectors:
        if one.devices and not manifests.answers(one).accepted:
            told = blaming(operands_of(one.expression, one.devices, manifests.features.environment))
            blamed = "".join(f"; {line}" for line in told)
            message = f"accepts none of {one.whole} ({len(one.devices)}){_meant(manifests, one)}{blamed}"
            yield Observation(one.subject, message, one.field)


def _meant(manifests: Manifests, selector: CheckedSelector) -> str:
    """What may be misspelt: drivers, attributes and capacities that it names and no device has."""
    reads = cel.compile(selector.expression, manifests.features.environment).reads
    return "".join(f"; {text}" for text in manifests.names.unknown_to(reads))


SELECTOR_MATCHES_NONE = Check(
    "selector-matches-none",
    FindingLevel.WARNING,
    "A selector accepts no device.",
    "Compare the names and values in it with what drivers publish: kubectl get resourceslices -o yaml.",
    _check,
)
