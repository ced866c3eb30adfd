"""A shared device has a capacity without a request policy: a claim that asks for no amount takes all of it."""

from collections import Counter
from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    found: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for device in manifests.devices:
        for name in device.capacity if device.allow_multiple_allocations else ():
            if name not in device.policies:
                found[device.driver, name] += 1
                first.setdefault((device.driver, name), str(device.id))
    for (driver, name), number in sorted(found.items()):
        devices = f"{number} shared device{'' if number == 1 else 's'}"
        message = f"capacity {name} has no requestPolicy on {devices}, first on {first[driver, name]}"
        yield Observation(ObjectName("driver", driver), message)


CAPACITY_WITHOUT_POLICY = Check(
    "capacity-without-policy",
    FindingLevel.WARNING,
    "A device can be shared, but a claim that does not ask for an amount of this capacity takes all of it.",
    "Publish a requestPolicy with a default, or have every request name an amount.",
    _check,
)
