"""A request names a class that does not exist, so that every pod with the claim waits."""

from collections.abc import Iterator

from allocator.did_you_mean import did_you_mean
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests, alternatives_of


def _check(manifests: Manifests) -> Iterator[Observation]:
    if "DeviceClass" not in manifests.inventory.kinds:
        return  # the cluster may have it
    known = {
        name for kind, _, name in (*manifests.inventory.versions, *manifests.inventory.faults) if kind == "DeviceClass"
    }
    for asked in manifests.asked:
        for path, alternative in alternatives_of(asked):
            name = alternative.class_name
            if name and name not in known:
                text = f"DeviceClass {name} does not exist{did_you_mean(name, known)}"
                yield Observation(asked.subject, text, f"{path}.deviceClassName")


MISSING_CLASS = Check(
    "missing-class",
    FindingLevel.ERROR,
    "A request names a DeviceClass that does not exist. Pods with the claim wait for it.",
    "Correct the name, or add the class.",
    _check,
)
