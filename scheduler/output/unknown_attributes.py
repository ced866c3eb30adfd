"""Attributes that constraints name and that no device in the input has: usually misspelt ones."""

from collections.abc import Iterable, Iterator

from allocator.did_you_mean import did_you_mean
from allocator.model import Slice
from scheduler.input.inventory import Inventory

_FIELDS = ("matchAttribute", "distinctAttribute")


def unknown_attributes(inventory: Inventory) -> Iterator[str]:
    """A line for each constraint of a claim that waits, or of a template. Cost: O(devices)."""
    known = _attributes_of(inventory.slices)
    if not known:
        return
    for subject, path, spec in _specs(inventory):
        for place, field, name in _named(spec):
            if name not in known:
                at = f"{subject}: {path}.devices.constraints[{place}].{field}"
                yield f"warning: {at}: no device of the input has {name}{did_you_mean(name, known)}"


def _attributes_of(slices: Iterable[Slice]) -> set[str]:
    """The full names of all attributes; one without a domain is of the driver's."""
    return {
        name if "/" in name else f"{slice_.driver}/{name}"
        for slice_ in slices
        for device in slice_.devices
        for name in device.attributes
    }


def _specs(inventory: Inventory) -> Iterator[tuple[str, str, object]]:
    """(object, path of the claim's spec in it, that spec)."""
    for found in inventory.claims.values():
        if found.claim.allocation is None:
            yield f"ResourceClaim {found.claim}", "spec", found.decoded.raw.get("spec")
    for template in inventory.templates.values():
        yield f"ResourceClaimTemplate {template.namespace}/{template.name}", "spec.spec", template.spec


def _named(spec: object) -> Iterator[tuple[int, str, str]]:
    """(position, field, attribute) of each constraint; the spec is one that was decoded."""
    devices = spec.get("devices") if isinstance(spec, dict) else None
    constraints = (devices.get("constraints") if isinstance(devices, dict) else None) or ()
    for place, constraint in enumerate(constraints):
        for field in _FIELDS:
            if name := constraint.get(field):
                yield place, field, name
