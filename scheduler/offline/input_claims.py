"""Pods to their claims: resolved as the scheduler resolves them, and created from templates if they do not exist yet.

Source: KEP-4381 (resolution by pod.status.resourceClaimStatuses, the owner check), and the resource
claim controller, which makes claims of templates.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from allocator.api import ClaimTemplate, Decoded, decode
from allocator.api.allocation import Consumer
from allocator.api.names import object_name
from allocator.model import Claim
from allocator.pod_resources import CLAIM_ANNOTATION
from allocator.words import did_you_mean
from scheduler.client.api_resources import POD_GROUPS
from scheduler.core_v1.node import BUILT_IN, PriorityClass
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.core_v1.pod_group import PodGroup
from scheduler.input.identity import claim_of_template, generate_name, generated, uid_of
from scheduler.input.inventory import InputClaim, Inventory
from scheduler.state.claims import GROUPS_UNSUPPORTED, Waiting, in_excess, is_controlled_by
from scheduler.state.pod_resources import VERSION, ExtendedClaim, annotations

# Priorities of pods that only name a class: the numbers that the API server would write.
#
# Source: k8s.io/kubernetes, the admission plugin Priority.


class Priorities:
    """What the classes of the input, and those that every cluster has, give to pods."""

    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        every = [*BUILT_IN, *classes]
        self._values = {one.name: one.value for one in every}
        self._default = min((one.value for one in every if one.is_default), default=0)

    def of(self, pod: Pod) -> int:
        """The priority of the pod; 0 where its class is not known."""
        if pod.priority is not None:
            return pod.priority
        return self._values.get(pod.priority_class, 0) if pod.priority_class else self._default

    def knows(self, pod: Pod) -> bool:
        """False for a pod whose priority only a class would say that is not there."""
        return pod.priority is not None or pod.priority_class in ("", *self._values)


ENTRY_ANNOTATION = "resource.kubernetes.io/pod-claim-name"


POD, POD_GROUP = ("v1", "Pod"), (POD_GROUPS.api_version, POD_GROUPS.kind)
"""Version and kind of those for whom claims are made."""


class _Maker(NamedTuple):
    """For whom a claim is made, as a pod."""

    pod: Pod
    kind: tuple[str, str] = POD


class Claims:
    """The claims of an inventory, and those made for pods on the way.

    keeps_raw: those that are made carry the object as it would be written, which most of their memory is then.
    """

    def __init__(self, inventory: Inventory, *, keeps_raw: bool = True) -> None:
        self._keeps_raw = keeps_raw
        self._made: dict[tuple[str, str, str], Decoded] = {}
        self.objects: dict[tuple[str, str], InputClaim] = dict(_identified(inventory.claims))
        self._templates = inventory.templates
        self._groups = {group.key: group for group in inventory.of(PodGroup)}
        self._of_template: dict[tuple[str, str], Claim | None] = {}
        self._faults = inventory.faults
        self._makers = inventory.makers
        self._holders = inventory.holders
        self._has_claims = bool(inventory.claims)
        self._by_entry = {
            (owner.uid, found.metadata.annotations.get(ENTRY_ANNOTATION, "")): key
            for key, found in self.objects.items()
            for owner in found.metadata.owners
            if owner.is_controller and owner.kind == "Pod"
        }
        self._of_extended = {
            owner.uid: found
            for found in self.objects.values()
            if found.metadata.annotations.get(CLAIM_ANNOTATION) == "true"
            for owner in found.metadata.owners
            if owner.is_controller
        }

    @property
    def allocated(self) -> list[Claim]:
        """The claims that have devices, those with errors among them."""
        return [*(one.claim for one in self.objects.values() if one.claim.allocation), *self._holders]

    @property
    def with_errors(self) -> Iterator[InputClaim]:
        """The claims of which nothing but their devices is known, each with a uid of its own."""
        for number, claim in enumerate(self._holders):
            uid = uid_of("ResourceClaim with errors", claim.namespace, f"{claim.name}/{number}")
            yield InputClaim(replace(claim, uid=uid), Decoded(None), error="has errors")

    def of(self, pod: Pod) -> list[tuple[PodClaim, InputClaim]] | Waiting:
        """The claims of a pod in the order of its entries; an entry that needs none is left out."""
        if waiting := in_excess(pod):
            return waiting
        group = self._groups.get((pod.namespace, pod.group))
        resolved_claims: list[tuple[PodClaim, InputClaim]] = []
        for entry in pod.claims:
            is_of_group = group is not None and entry in group.claims
            maker = _as_maker(group, pod) if group is not None and is_of_group else _Maker(pod)
            resolved = self._by_name(pod, entry) if entry.claim_name else self._by_template(maker, entry)
            if isinstance(resolved, Waiting):
                return resolved
            if resolved is None:
                continue
            if not is_of_group and any(
                owner.is_controller and owner.kind == "PodGroup" for owner in resolved.decoded.metadata.owners
            ):
                return Waiting(f"claim {resolved.claim} belongs to a pod group: {GROUPS_UNSUPPORTED}")
            if resolved.decoded.metadata.deletion_timestamp:
                return Waiting(f"claim {resolved.claim} is being deleted")
            resolved_claims.append((entry, resolved))
        return resolved_claims

    def consumer_of(self, pod: Pod, claim: Claim) -> Consumer:
        """Whom the claim is reserved for when the pod uses it: its group, where it is the group's."""
        group = self._groups.get((pod.namespace, pod.group))
        if group is not None:
            own = self.of(pod)
            entries = [entry for entry, one in own if one.claim.uid == claim.uid] if isinstance(own, list) else []
            if any(entry in group.claims for entry in entries):
                return Consumer(POD_GROUPS.group, POD_GROUPS.plural, group.name, _uid_of(group))
        return Consumer("", "pods", pod.name, pod.uid)

    def asked_by(self, pod: Pod) -> Iterator[Claim]:
        """What the pod's claims ask for; none is made, and those that cannot be are left out."""
        for entry in pod.claims:
            name = entry.claim_name or pod.claim_statuses.get(entry.name)
            if name:
                if input_claim := self.objects.get((pod.namespace, name)):
                    yield input_claim.claim
            elif claim := self._asked_of_template((pod.namespace, entry.template_name)):
                yield claim

    def _asked_of_template(self, key: tuple[str, str]) -> Claim | None:
        if key not in self._of_template and key in self._templates:
            decoded = claim_of_template(self._templates[key], "asked").object
            self._of_template[key] = decoded if isinstance(decoded, Claim) else None
        return self._of_template.get(key)

    def of_extended_resources(self, pod: Pod) -> InputClaim | None:
        """The claim of the input that was made for the pod's extended resources, None where there is none."""
        return self._of_extended.get(uid_of_pod(pod))

    def unused_name(self, namespace: str, name_prefix: str, seed: str) -> str:
        """A generated name that no claim of the namespace has, the same on every run."""
        name = generated(name_prefix, seed)
        while (namespace, name) in self.objects:
            seed = f"{seed}/again"
            name = generated(name_prefix, seed)
        return name

    def keep(self, found: InputClaim) -> None:
        """Keep a claim that was made on the way, or as it is now."""
        self.objects[found.claim.namespace, found.claim.name] = found
        if not self._keeps_raw and found.claim.allocation:  # its pod has its node, and says which claim it is
            self._forget_entry(found)

    def forget(self, found: InputClaim) -> None:
        """The claim is gone, with the pod that it was made for."""
        del self.objects[found.claim.namespace, found.claim.name]
        self._forget_entry(found)

    def _forget_entry(self, found: InputClaim) -> None:
        for owner in found.metadata.owners:
            self._by_entry.pop((owner.uid, found.metadata.annotations.get(ENTRY_ANNOTATION, "")), None)

    def _by_name(self, pod: Pod, entry: PodClaim) -> InputClaim | Waiting:
        input_claim = self.objects.get((pod.namespace, entry.claim_name))
        return input_claim or self._missing(pod.namespace, entry.claim_name)

    def _by_template(self, maker: "_Maker", entry: PodClaim) -> InputClaim | Waiting | None:
        pod = maker.pod
        if entry.name in pod.claim_statuses:
            name = pod.claim_statuses[entry.name]
            if name is None:
                return None
            input_claim = self.objects.get((pod.namespace, name))
            return self._owned(pod, input_claim) if input_claim else self._missing(pod.namespace, name)
        if orphan := self._by_entry.get((uid_of_pod(pod), entry.name)):
            return self.objects[orphan]
        return self._make(maker, entry)

    def _missing(self, namespace: str, name: str) -> Waiting:
        if fault := self._faults.get(("ResourceClaim", namespace, name)):
            return Waiting(f"claim {namespace}/{name} {fault}")
        hint = (
            _hint(namespace, name, self.objects)
            if self._has_claims
            else " (the input contains no ResourceClaim at all)"
        )
        return Waiting(f"claim {namespace}/{name} does not exist{hint}")

    def _owned(self, pod: Pod, found: InputClaim) -> InputClaim | Waiting:
        if is_controlled_by(found.decoded.metadata, uid_of_pod(pod)):
            return found
        return Waiting(f"claim {found.claim} was not created for pod {pod} (the pod is not its owner)")

    def _make(self, maker: "_Maker", entry: PodClaim) -> InputClaim | Waiting:
        pod = maker.pod
        template = self._templates.get((pod.namespace, entry.template_name))
        if template is None:
            named = pod.namespace, entry.template_name
            if fault := self._faults.get(("ResourceClaimTemplate", *named)) or self._makers.get(named):
                return Waiting(f"claim template {pod.namespace}/{entry.template_name} {fault}")
            hint = _hint(pod.namespace, entry.template_name, self._templates)
            if not self._templates:
                hint = " (the input contains no ResourceClaimTemplate at all)"
            return Waiting(f"claim template {pod.namespace}/{entry.template_name} does not exist{hint}")
        name = self.unused_name(pod.namespace, generate_name(pod.name, entry.name), f"{pod}/{entry.name}")
        decoded = self._decoded(maker, entry, name, template)
        if not isinstance(decoded.object, Claim):
            # A long name is cut, and what is left may be no name: kube-controller-manager fails there as well.
            return Waiting(
                f"cannot create a claim from template {pod.namespace}/{entry.template_name}: {decoded.errors[0]}"
            )
        made = InputClaim(decoded.object, decoded)
        self.keep(made)
        self._by_entry[uid_of_pod(pod), entry.name] = made.claim.namespace, made.claim.name
        return made

    def _decoded(self, maker: "_Maker", entry: PodClaim, name: str, template: ClaimTemplate) -> Decoded:
        """The claim of that name; by what was made of the template before, where the object as such is not kept."""
        pod = maker.pod
        key = pod.namespace, entry.template_name, entry.name
        like = self._made.get(key)
        if like is not None and maker.kind == POD and not object_name(name, generate_name(pod.name, entry.name)):
            return _like(like, pod, name)
        decoded = decode(_raw_claim(maker, entry, name, template))
        if self._keeps_raw or maker.kind != POD or not isinstance(decoded.object, Claim):
            return decoded
        self._made[key] = decoded
        return replace(decoded, raw={})


def _like(like: Decoded, pod: Pod, name: str) -> Decoded:
    """A claim that was made like another one of its template and entry, for this pod."""
    assert isinstance(like.object, Claim)
    uid = uid_of("ResourceClaim", pod.namespace, name)
    (owner,) = like.metadata.owners
    metadata = replace(like.metadata, name=name, uid=uid, owners=(replace(owner, name=pod.name, uid=uid_of_pod(pod)),))
    return Decoded(replace(like.object, name=name, uid=uid), metadata=metadata)


def _as_maker(group: PodGroup, pod: Pod) -> "_Maker":
    """The group in place of its pod: its claims are made once for all, and carry its name."""
    return _Maker(pod.changed(name=group.name, uid=_uid_of(group), claim_statuses=group.claim_statuses), POD_GROUP)


def _uid_of(group: PodGroup) -> str:
    return group.uid or uid_of("PodGroup", group.namespace, group.name)


def _hint(namespace: str, name: str, known: Iterable[tuple[str, str]]) -> str:
    """A suggestion from the claims of the namespace."""
    return did_you_mean(name, (other for own, other in known if own == namespace))


def uid_of_pod(pod: Pod) -> str:
    """The pod's uid, or the one that it gets here."""
    return pod.uid or uid_of("Pod", pod.namespace, pod.name)


def identified(pods: Sequence[Pod], priority_of: Callable[[Pod], int | None] = attrgetter("priority")) -> list[Pod]:
    """The pods, each with its priority, and a uid of its own: one without any, or with another's, gets one here.

    A manifest that was copied from a running pod has that pod's uid: the pod that has its node keeps it.
    """
    first: dict[str, Pod] = {}
    for pod in sorted(pods, key=lambda pod: not pod.node_name):
        first.setdefault(pod.uid, pod)
    return [_identified_pod(pod, priority_of(pod), keeps_uid=first[pod.uid] is pod) for pod in pods]


def _identified_pod(pod: Pod, priority: int | None, *, keeps_uid: bool) -> Pod:
    uid = pod.uid if pod.uid and keeps_uid else uid_of("Pod", pod.namespace, pod.name)
    return pod if (uid, priority) == (pod.uid, pod.priority) else replace(pod, uid=uid, priority=priority)


def statuses_of(pod: Pod, found: Sequence[tuple[PodClaim, InputClaim]]) -> Mapping[str, str | None]:
    """The pod's status.resourceClaimStatuses with these claims: entry to the name of the claim made for it."""
    made = {entry.name: one.claim.name for entry, one in found if entry.template_name}
    return {**{entry: None for entry, name in pod.claim_statuses.items() if name is None}, **made}


def _identified(claims: Mapping[tuple[str, str], InputClaim]) -> Iterator[tuple[tuple[str, str], InputClaim]]:
    """The claims, each with a uid of its own: one that has none, or that of another one, gets one here."""
    seen: set[str] = set()
    for key, input_claim in claims.items():
        uid = input_claim.claim.uid
        if not uid or uid in seen:
            uid = uid_of("ResourceClaim", *key)
            input_claim = replace(input_claim, claim=replace(input_claim.claim, uid=uid))  # noqa: PLW2901 - the same one
        seen.add(uid)
        yield key, input_claim


def owned_metadata(pod: Pod, name: str, name_prefix: str = "", kind: tuple[str, str] = POD) -> dict[str, object]:
    """The metadata of a claim that is the pod's. name_prefix: its generateName if it has one. kind: of the owner."""
    api_version, owner = kind
    return {
        "name": name,
        **({"generateName": name_prefix} if name_prefix else {}),
        "namespace": pod.namespace,
        "uid": uid_of("ResourceClaim", pod.namespace, name),
        "ownerReferences": [
            {"apiVersion": api_version, "kind": owner, "name": pod.name, "uid": uid_of_pod(pod), "controller": True}
        ],
    }


def extended_claim_object(pod: Pod, extended: ExtendedClaim) -> InputClaim:
    """The claim for the pod's extended resources, as the scheduler makes it."""
    metadata = {**owned_metadata(pod, extended.claim.name), "annotations": annotations()}
    raw = {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": metadata, "spec": extended.spec, "status": {}}
    decoded = decode(raw)
    assert isinstance(decoded.object, Claim), decoded.errors
    return InputClaim(decoded.object, decoded)


def _raw_claim(maker: _Maker, entry: PodClaim, name: str, template: ClaimTemplate) -> dict[str, object]:
    metadata = owned_metadata(maker.pod, name, generate_name(maker.pod.name, entry.name), maker.kind)
    metadata["annotations"] = {**template.annotations, ENTRY_ANNOTATION: entry.name}
    if template.labels:
        metadata["labels"] = dict(template.labels)
    return {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": metadata, "spec": template.spec, "status": {}}
