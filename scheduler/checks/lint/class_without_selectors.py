"""A class has no selectors, so that it stands for every device of every driver."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for one in manifests.classes:
        if not one.selectors:
            yield Observation(
                ObjectName("DeviceClass", one.name), "selects every device of every driver", "spec.selectors"
            )


CLASS_WITHOUT_SELECTORS = Check(
    "class-without-selectors",
    FindingLevel.WARNING,
    "A class without selectors stands for every device of every driver.",
    'Add a selector, such as device.driver == "gpu.example.com".',
    _check,
)
