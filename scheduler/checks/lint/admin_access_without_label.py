"""A request asks for admin access in a namespace whose label does not allow it: the API server refuses the object."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests, alternatives_of
from scheduler.decision.filters import LABEL


def _check(manifests: Manifests) -> Iterator[Observation]:
    namespaces = manifests.inventory.namespaces
    for asked in manifests.asked:
        labels = namespaces.get(asked.subject.namespace)
        if labels is None or labels.get(LABEL) == "true":
            continue
        for path, alternative in alternatives_of(asked):
            if alternative.admin_access:
                text = f'namespace {asked.subject.namespace} lacks the label {LABEL}: "true"'
                yield Observation(asked.subject, text, f"{path}.adminAccess")


ADMIN_ACCESS_WITHOUT_LABEL = Check(
    "admin-access-without-label",
    FindingLevel.ERROR,
    "A request asks for admin access in a namespace that does not allow it: the API server refuses the object.",
    f"Label the namespace: kubectl label namespace NAME {LABEL}=true.",
    _check,
)
