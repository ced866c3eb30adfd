"""A pod names a claim or a claim template that does not exist, so that it waits."""

from collections.abc import Iterator

from allocator.did_you_mean import did_you_mean
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests
from scheduler.core_v1.pod import Pod
from scheduler.input.inventory import Inventory

_Key = tuple[str, str, str]
"""Kind, namespace and name."""


def _check(manifests: Manifests) -> Iterator[Observation]:
    inventory = manifests.inventory
    for one in manifests.pods:
        for field, key in _named(one.pod):
            if _is_missing(inventory, key):
                text = f"{key[0]} {key[1]}/{key[2]} does not exist{_meant(inventory, key)}"
                yield Observation(one.subject, text, f"{one.path}.{field}")


def _named(pod: Pod) -> Iterator[tuple[str, _Key]]:
    """(field, what it names). A template is not needed any more once the pod has its claim."""
    for number, entry in enumerate(pod.claims):
        at = f"resourceClaims[{number}]"
        if entry.claim_name:
            yield f"{at}.resourceClaimName", ("ResourceClaim", pod.namespace, entry.claim_name)
        elif entry.name not in pod.claim_statuses:
            yield f"{at}.resourceClaimTemplateName", ("ResourceClaimTemplate", pod.namespace, entry.template_name)


def _is_missing(inventory: Inventory, key: _Key) -> bool:
    """False where the input has no object of the kind: what it does not contain may exist."""
    if key[0] == "ResourceClaimTemplate" and key[1:] in inventory.makers:
        return False
    return key[0] in inventory.kinds and key not in inventory.versions and key not in inventory.faults


def _meant(inventory: Inventory, key: _Key) -> str:
    """A name of the namespace that is like it, or another namespace that has the name."""
    kind, namespace, name = key
    known = [one for one in inventory.versions if one[0] == kind]
    elsewhere = sorted(own for _, own, other in known if other == name)
    if hint := did_you_mean(name, [other for _, own, other in known if own == namespace]):
        return hint
    return f"; there is one in namespace {elsewhere[0]}" if elsewhere else ""


MISSING_CLAIM = Check(
    "missing-claim",
    FindingLevel.ERROR,
    "A pod names a ResourceClaim or a ResourceClaimTemplate that does not exist.",
    "Correct the name, or add the object to the namespace of the pod.",
    _check,
)
