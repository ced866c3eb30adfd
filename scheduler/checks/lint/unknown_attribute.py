"""A constraint names an attribute that no device has, so that the claim never fits."""

from collections.abc import Iterator

from allocator.did_you_mean import did_you_mean
from allocator.model import Constraint
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    if not manifests.devices:
        return
    known = manifests.names.qualified["attributes"]
    for asked in manifests.asked:
        for number, constraint in enumerate(asked.claim.constraints):
            field, name = _named(constraint)
            if name and name not in known:
                message = f"no device has the attribute {name}{did_you_mean(name, known)}"
                yield Observation(asked.subject, message, f"{asked.path}.devices.constraints[{number}].{field}")


def _named(constraint: Constraint) -> tuple[str, str]:
    """(field, attribute)."""
    if constraint.match_attribute:
        return "matchAttribute", constraint.match_attribute
    return "distinctAttribute", constraint.distinct_attribute


UNKNOWN_ATTRIBUTE = Check(
    "unknown-attribute",
    FindingLevel.ERROR,
    "A constraint names an attribute that no device has, so that the claim fits nowhere.",
    "Name an attribute that the devices have, with its domain: gpu.example.com/numaNode.",
    _check,
)
