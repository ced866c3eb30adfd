"""A pod has a claim that none of its containers uses: its devices are taken, and nobody sees them."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for one in manifests.pods:
        used = {name for container in one.pod.containers for name in container.claims}
        for number, entry in enumerate(one.pod.claims if one.pod.containers else ()):
            if entry.name not in used:
                text = f"no container uses the claim {entry.name}"
                yield Observation(one.subject, text, f"{one.path}.resourceClaims[{number}]")


UNUSED_CLAIM = Check(
    "unused-claim",
    FindingLevel.WARNING,
    "A pod has a claim that none of its containers uses: its devices are allocated, and no container gets them.",
    "Name the claim in resources.claims of a container, or remove it from the pod.",
    _check,
)
