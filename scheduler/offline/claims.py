"""Pods to their claims: resolved as the scheduler resolves them, made from templates where there are none yet.

Source: KEP-4381 (resolution by pod.status.resourceClaimStatuses, the owner check), and the resource
claim controller, which makes claims of templates.
"""

from collections.abc import Iterable

from allocator.api import ClaimTemplate, decode
from allocator.features.extended_resource import CLAIM_ANNOTATION
from allocator.meant import did_you_mean
from allocator.model import Claim
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.core_v1.unread import GROUP
from scheduler.cycle.pod_claims import Waiting, is_controlled_by
from scheduler.cycle.unsupported import GROUPS_UNSUPPORTED
from scheduler.input.identity import generate_name, generated, uid_of
from scheduler.input.inventory import ClaimObject, Inventory

ENTRY_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
VERSION = "resource.k8s.io/v1"
"""Of the claims that are made here."""


class Claims:
    """The claims of an inventory, and those made for pods on the way."""

    def __init__(self, inventory: Inventory) -> None:
        self.objects: dict[tuple[str, str], ClaimObject] = dict(inventory.claims)
        self._templates = inventory.templates
        self._faults = inventory.faults
        self._holders = inventory.holders
        self._has_claims = bool(inventory.claims)
        self._by_entry = {
            (owner.uid, found.decoded.metadata.annotations.get(ENTRY_ANNOTATION, "")): found
            for found in inventory.claims.values()
            for owner in found.decoded.metadata.owners
            if owner.is_controller and owner.kind == "Pod"
        }
        self._of_extended = {
            owner.uid: found
            for found in inventory.claims.values()
            if found.decoded.metadata.annotations.get(CLAIM_ANNOTATION) == "true"
            for owner in found.decoded.metadata.owners
            if owner.is_controller
        }

    @property
    def allocated(self) -> list[Claim]:
        """The claims that have devices, those with errors among them."""
        return [*(one.claim for one in self.objects.values() if one.claim.allocation), *self._holders]

    def of(self, pod: Pod) -> list[tuple[PodClaim, ClaimObject]] | Waiting:
        """The claims of a pod in the order of its entries; an entry that needs none is left out."""
        if pod.claims and GROUP in pod.unread:
            return Waiting(f"is of a pod group: {GROUPS_UNSUPPORTED}")
        found: list[tuple[PodClaim, ClaimObject]] = []
        for entry in pod.claims:
            resolved = self._by_name(pod, entry) if entry.claim_name else self._by_template(pod, entry)
            if isinstance(resolved, Waiting):
                return resolved
            if resolved is None:
                continue
            if any(owner.is_controller and owner.kind == "PodGroup" for owner in resolved.decoded.metadata.owners):
                return Waiting(f"claim {resolved.claim} is of a pod group: {GROUPS_UNSUPPORTED}")
            if resolved.decoded.metadata.deletion_timestamp:
                return Waiting(f"claim {resolved.claim} is being deleted")
            found.append((entry, resolved))
        return found

    def of_extended_resources(self, pod: Pod) -> ClaimObject | None:
        """The claim of the input that was made for the pod's extended resources, None where there is none."""
        return self._of_extended.get(uid_of_pod(pod))

    def unused_name(self, namespace: str, base: str, seed: str) -> str:
        """A generated name that no claim of the namespace has, the same on every run."""
        name = generated(base, seed)
        while (namespace, name) in self.objects:
            seed = f"{seed}/again"
            name = generated(base, seed)
        return name

    def add(self, found: ClaimObject) -> None:
        """Keep a claim that was made on the way."""
        self.objects[found.claim.namespace, found.claim.name] = found

    def update(self, claim: Claim) -> None:
        """Keep the claim as it is now."""
        key = (claim.namespace, claim.name)
        self.objects[key] = ClaimObject(claim, self.objects[key].decoded)

    def _by_name(self, pod: Pod, entry: PodClaim) -> ClaimObject | Waiting:
        found = self.objects.get((pod.namespace, entry.claim_name))
        return found or self._missing(pod.namespace, entry.claim_name)

    def _by_template(self, pod: Pod, entry: PodClaim) -> ClaimObject | Waiting | None:
        if entry.name in pod.claim_statuses:
            name = pod.claim_statuses[entry.name]
            if name is None:
                return None
            found = self.objects.get((pod.namespace, name))
            return self._owned(pod, found) if found else self._missing(pod.namespace, name)
        if orphan := self._by_entry.get((uid_of_pod(pod), entry.name)):
            return self.objects[orphan.claim.namespace, orphan.claim.name]
        return self._make(pod, entry)

    def _missing(self, namespace: str, name: str) -> Waiting:
        if fault := self._faults.get(("ResourceClaim", namespace, name)):
            return Waiting(f"claim {namespace}/{name} {fault}")
        hint = (
            _hint(namespace, name, self.objects) if self._has_claims else " (the input holds no ResourceClaim at all)"
        )
        return Waiting(f"claim {namespace}/{name} does not exist{hint}")

    def _owned(self, pod: Pod, found: ClaimObject) -> ClaimObject | Waiting:
        if is_controlled_by(found.decoded.metadata, uid_of_pod(pod)):
            return found
        return Waiting(f"claim {found.claim} was not created for pod {pod} (the pod is not its owner)")

    def _make(self, pod: Pod, entry: PodClaim) -> ClaimObject | Waiting:
        template = self._templates.get((pod.namespace, entry.template_name))
        if template is None:
            if fault := self._faults.get(("ResourceClaimTemplate", pod.namespace, entry.template_name)):
                return Waiting(f"claim template {pod.namespace}/{entry.template_name} {fault}")
            hint = _hint(pod.namespace, entry.template_name, self._templates)
            if not self._templates:
                hint = " (the input holds no ResourceClaimTemplate at all)"
            return Waiting(f"claim template {pod.namespace}/{entry.template_name} does not exist{hint}")
        name = self.unused_name(pod.namespace, generate_name(pod.name, entry.name), f"{pod}/{entry.name}")
        decoded = decode(_raw_claim(pod, entry, name, template))
        if not isinstance(decoded.object, Claim):
            # A long name is cut, and what is left may be no name: kube-controller-manager fails there as well.
            return Waiting(
                f"no claim can be made of template {pod.namespace}/{entry.template_name}: {decoded.errors[0]}"
            )
        found = ClaimObject(decoded.object, decoded)
        self.add(found)
        self._by_entry[uid_of_pod(pod), entry.name] = found
        return found


def _hint(namespace: str, name: str, known: Iterable[tuple[str, str]]) -> str:
    """What may have been meant, of what the namespace has."""
    return did_you_mean(name, (other for own, other in known if own == namespace))


def uid_of_pod(pod: Pod) -> str:
    """The pod's uid, or the one that it gets here."""
    return pod.uid or uid_of("Pod", pod.namespace, pod.name)


def uid_of_claim(found: ClaimObject) -> str:
    """The claim's uid, or the one that it gets here."""
    return found.claim.uid or uid_of("ResourceClaim", found.claim.namespace, found.claim.name)


def owned_metadata(pod: Pod, name: str, base: str) -> dict[str, object]:
    """The metadata of a claim that is the pod's. base: its generateName."""
    return {
        "name": name,
        "generateName": base,
        "namespace": pod.namespace,
        "uid": uid_of("ResourceClaim", pod.namespace, name),
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": uid_of_pod(pod), "controller": True}
        ],
    }


def _raw_claim(pod: Pod, entry: PodClaim, name: str, template: ClaimTemplate) -> dict[str, object]:
    metadata = owned_metadata(pod, name, generate_name(pod.name, entry.name))
    metadata["annotations"] = {**template.annotations, ENTRY_ANNOTATION: entry.name}
    if template.labels:
        metadata["labels"] = dict(template.labels)
    return {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": metadata, "spec": template.spec, "status": {}}
