"""A selector accepts no device of the input."""

from collections.abc import Iterator

import cel
from allocator.did_you_mean import did_you_mean
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import CheckedSelector, Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for one in manifests.selectors:
        if one.devices and not manifests.answers(one).accepted:
            message = f"accepts none of {one.whole} ({len(one.devices)}){_meant(manifests, one)}"
            yield Observation(one.subject, message, one.field)


def _meant(manifests: Manifests, selector: CheckedSelector) -> str:
    """What may be misspelt: attributes that it reads and no device has."""
    paths = cel.compile(selector.expression, manifests.environment).reads.paths
    read = {f"{path[1]}/{path[2]}" for path in paths if len(path) == 3 and path[0] == "attributes"}
    unknown = sorted(read - manifests.attributes)
    texts = [f"; no device has {name}{did_you_mean(name, manifests.attributes)}" for name in unknown]
    return "".join(texts)


SELECTOR_MATCHES_NONE = Check(
    "selector-matches-none",
    FindingLevel.WARNING,
    "A selector accepts no device.",
    "Compare the attributes and values in it with what drivers publish: kubectl get resourceslices -o yaml.",
    _check,
)
