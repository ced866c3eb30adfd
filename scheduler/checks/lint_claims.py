"""Rules of `dra lint` about claims, their templates, and the pods that use them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.cluster.snapshot import selectors_of
from allocator.gates import NODE_ALLOCATABLE_RESOURCES
from allocator.model import Claim, Device
from allocator.words import did_you_mean
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.manifests import CheckedPod, Manifests, alternatives_of, constraints_on_unknown
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.resources import objects
from scheduler.decision.filters import LABEL
from scheduler.input.inventory import Inventory
from scheduler.state.claims import in_excess


def _admin_access_without_label(manifests: Manifests) -> Iterator[Observation]:
    namespaces = manifests.inventory.namespaces
    for asked in manifests.asked:
        labels = namespaces.get(asked.subject.namespace)
        if labels is None or labels.get(LABEL) == "true":
            continue
        for path, alternative in alternatives_of(asked):
            if alternative.admin_access:
                text = f'namespace {asked.subject.namespace} lacks the label {LABEL}: "true"'
                yield Observation(asked.subject, text, f"{path}.adminAccess", where=f"request {alternative.name}")


ADMIN_ACCESS_WITHOUT_LABEL = Check(
    "admin-access-without-label",
    FindingLevel.ERROR,
    "A request asks for admin access in a namespace that does not allow it: the API server refuses the object.",
    f"Label the namespace: kubectl label namespace NAME {LABEL}=true.",
    _admin_access_without_label,
)


_KindAndName = tuple[str, str, str]
"""Kind, namespace and name."""


def _missing_claim(manifests: Manifests) -> Iterator[Observation]:
    inventory = manifests.inventory
    for checked in manifests.pods:
        for field, key in _named_objects(checked.pod):
            if _is_missing_object(inventory, key):
                text = f"{key[0]} {key[1]}/{key[2]} does not exist{_meant_object(inventory, key)}"
                yield Observation(checked.subject, text, f"{checked.path}.{field}")


def _named_objects(pod: Pod) -> Iterator[tuple[str, _KindAndName]]:
    """(field, what it names). A template is not needed any more once the pod has its claim."""
    for number, entry in enumerate(pod.claims):
        at = f"resourceClaims[{number}]"
        if entry.claim_name:
            yield f"{at}.resourceClaimName", ("ResourceClaim", pod.namespace, entry.claim_name)
        elif entry.name not in pod.claim_statuses:
            yield f"{at}.resourceClaimTemplateName", ("ResourceClaimTemplate", pod.namespace, entry.template_name)


def _is_missing_object(inventory: Inventory, key: _KindAndName) -> bool:
    """False where the input has no object of the kind: what it does not contain may exist."""
    if key[0] == "ResourceClaimTemplate" and key[1:] in inventory.makers:
        return False
    return key[0] in inventory.kinds and key not in inventory.versions and key not in inventory.faults


def _meant_object(inventory: Inventory, key: _KindAndName) -> str:
    """A name of the namespace that is like it, or another namespace that has the name."""
    kind, namespace, name = key
    of_kind = [one for one in inventory.versions if one[0] == kind]
    elsewhere = sorted(own for _, own, other in of_kind if other == name)
    if hint := did_you_mean(name, [other for _, own, other in of_kind if own == namespace]):
        return hint
    return f"; there is one in namespace {elsewhere[0]}" if elsewhere else ""


MISSING_CLAIM = Check(
    "missing-claim",
    FindingLevel.ERROR,
    "A pod names a ResourceClaim or a ResourceClaimTemplate that does not exist.",
    "Correct the name, or add the object to the namespace of the pod.",
    _missing_claim,
)


def _missing_class(manifests: Manifests) -> Iterator[Observation]:
    if "DeviceClass" not in manifests.inventory.kinds:
        return  # the cluster may have it
    classes = {
        name for kind, _, name in (*manifests.inventory.versions, *manifests.inventory.faults) if kind == "DeviceClass"
    }
    for asked in manifests.asked:
        for path, alternative in alternatives_of(asked):
            name = alternative.class_name
            if name and name not in classes:
                text = f"DeviceClass {name} does not exist{did_you_mean(name, classes)}"
                yield Observation(asked.subject, text, f"{path}.deviceClassName", where=f"request {alternative.name}")


MISSING_CLASS = Check(
    "missing-class",
    FindingLevel.ERROR,
    "A request names a DeviceClass that does not exist. Pods with the claim wait for it.",
    "Correct the name, or add the class.",
    _missing_class,
)


def _unknown_attribute(manifests: Manifests) -> Iterator[Observation]:
    if not manifests.devices:
        return
    attributes = manifests.names.qualified["attributes"]
    for asked, number, field, name in constraints_on_unknown(manifests.asked, attributes):
        message = f"no device has the attribute {name}{did_you_mean(name, attributes)}"
        at = f"{asked.path}.devices.constraints[{number}].{field}"
        yield Observation(asked.subject, message, at, where=f"constraint #{number}")


UNKNOWN_ATTRIBUTE = Check(
    "unknown-attribute",
    FindingLevel.ERROR,
    "A constraint names an attribute that no device has, so that the claim fits nowhere.",
    "Name an attribute that the devices have, with its domain: gpu.example.com/numaNode.",
    _unknown_attribute,
)


def _unknown_request(manifests: Manifests) -> Iterator[Observation]:
    for checked in manifests.pods:
        entries = {entry.name: entry for entry in checked.pod.claims}
        for field, name, request in _used_requests(checked.pod):
            claim = manifests.named(checked.pod, entries[name]) if name in entries else None
            requests = [own.name for own in claim.requests] if claim else [request]
            if request not in requests:
                text = f"claim {name} has no request {request}{did_you_mean(request, requests)}"
                yield Observation(checked.subject, text, f"{checked.path}.{field}")


def _used_requests(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """(field, entry of the pod, request) of each use of a part of a claim."""
    spec: Any = pod.raw.get("spec")
    for field in ("initContainers", "containers"):
        for number, container in enumerate(objects(spec, field) if isinstance(spec, dict) else ()):
            resources = container.get("resources")
            for position, use in enumerate(objects(resources, "claims") if isinstance(resources, dict) else ()):
                name, request = use.get("name"), use.get("request")
                if isinstance(name, str) and isinstance(request, str) and request:
                    yield f"{field}[{number}].resources.claims[{position}].request", name, request


UNKNOWN_REQUEST = Check(
    "unknown-request",
    FindingLevel.ERROR,
    "A container uses a request that the claim does not have.",
    "Name a request of the claim or template, or leave the request out: the container then uses all of the claim.",
    _unknown_request,
)


def _unsatisfied(manifests: Manifests, text: str, *, is_known: bool) -> Iterator[Observation]:
    for claim in manifests.unsatisfied:
        if claim.is_known == is_known:
            yield Observation(
                claim.asked.subject, f"{text}, even if nothing is in use: {claim.reason}", claim.asked.path
            )


UNSATISFIABLE_REQUEST = Check(
    "unsatisfiable-request",
    FindingLevel.ERROR,
    "A claim fits no node, even if nothing is in use.",
    "Run `dra explain claim/NAMESPACE/NAME PATH...`: it shows what each check removes, and what would help.",
    partial(_unsatisfied, text="fits no node", is_known=True),
)


UNDECIDED_REQUEST = Check(
    "undecided-request",
    FindingLevel.WARNING,
    "A claim is so hard to satisfy that the search ends before it knows, even if nothing is in use.",
    "Ask for less at once: fewer devices, constraints or alternatives in one claim, or a narrower DeviceClass.",
    partial(_unsatisfied, text="whether it fits a node is not known", is_known=False),
)


HOSTNAME = "kubernetes.io/hostname"


def _unshareable_claim(manifests: Manifests) -> Iterator[Observation]:
    """Several pods of a workload name one claim that they cannot share: some of them wait for ever.

    A claim has the devices of one place and at most 256 consumers; if its devices take resources of the node, one.
    Source: KEP-4381, status.reservedFor; KEP-5517.
    """
    users = _users_of_claims(manifests)
    for checked in manifests.pods:
        for number, entry in enumerate(checked.pod.claims):
            key = checked.pod.namespace, entry.claim_name
            if entry.claim_name and (
                text := _why_unshareable(checked, users.get(key, ()), _devices_of_classes(manifests, key), manifests)
            ):
                yield Observation(checked.subject, text, f"{checked.path}.resourceClaims[{number}].resourceClaimName")


def _users_of_claims(manifests: Manifests) -> Mapping[NamespacedName, Sequence[Pod]]:
    """The pods that name each claim, with those that workloads ask for."""
    users = defaultdict[NamespacedName, list[Pod]](list)
    for pod in (*manifests.inventory.pods, *manifests.expanded):
        for entry in pod.claims:
            if entry.claim_name and not pod.is_over:
                users[pod.namespace, entry.claim_name].append(pod)
    return users


def _devices_of_classes(manifests: Manifests, key: NamespacedName) -> Sequence[Device]:
    """The devices that the classes of the claim select."""
    claim = manifests.inventory.claims.get(key)
    classes = {one.name: one for one in manifests.classes}
    named = {way.class_name for request in claim.claim.requests for way in request.alternatives} if claim else set()
    chains = [tuple(one or "" for one in classes[name].selectors) for name in sorted(named & classes.keys())]
    return [device for chain in chains for device in manifests.passing(chain)]


def _why_unshareable(one: CheckedPod, users: Sequence[Pod], devices: Sequence[Device], manifests: Manifests) -> str:
    """Why the pods cannot share the claim; empty where they can."""
    number = len(users)
    if number < 2:
        return ""
    if number > RESERVED_FOR_MAX:
        return f"{number} pods use the claim, which can have at most {RESERVED_FOR_MAX} consumers"
    counts = manifests.cluster.fleet.features.has(NODE_ALLOCATABLE_RESOURCES)
    if counts and any(map(_stands_for_resources, devices)):
        return f"{number} pods use the claim, whose devices take resources of the node: only one pod can use it"
    if not devices or not manifests.are_of_one_node(devices):
        return ""
    why = "are on different nodes" if one.subject.kind == "DaemonSet" else _why_apart(one.pod, users)
    return f"{number} pods use the claim, whose devices are on one node, and the pods {why}" if why else ""


def _stands_for_resources(device: Device) -> bool:
    return any(isinstance(entry, Mapping) and "mapping" in entry for entry in device.node_allocatable.values())


def _why_apart(pod: Pod, users: Sequence[Pod]) -> str:
    """Why no two of the pods can be on one node; empty where they can."""
    if pod.host_ports:
        return "need the same host ports"
    apart = [term for term in pod.pod_affinity.required_anti if term.topology_key == HOSTNAME]
    is_kept_apart = any(term.matches(one.namespace, one.labels, {}) for term in apart for one in users)
    return "keep each other off a node by anti-affinity" if is_kept_apart else ""


UNSHAREABLE_CLAIM = Check(
    "unshareable-claim",
    FindingLevel.WARNING,
    "Several pods name one ResourceClaim that they cannot share: some of them wait.",
    "Name a ResourceClaimTemplate (resourceClaimTemplateName): each pod then gets a claim of its own.",
    _unshareable_claim,
)


def _unused_claim(manifests: Manifests) -> Iterator[Observation]:
    for checked in manifests.pods:
        used = {name for container in checked.pod.containers for name in container.claims}
        is_said = checked.pod.containers and not checked.pod.has_unread_containers
        for number, entry in enumerate(checked.pod.claims if is_said else ()):
            if entry.name not in used and not _counts_for_pod(manifests, manifests.named(checked.pod, entry)):
                text = f"no container uses the claim {entry.name}"
                yield Observation(checked.subject, text, f"{checked.path}.resourceClaims[{number}]")


def _counts_for_pod(manifests: Manifests, claim: Claim | None) -> bool:
    """Whether the claim may be for what its devices take from the node, which counts for the pod as of 1.37."""
    features = manifests.features
    if claim is None or not features.has(NODE_ALLOCATABLE_RESOURCES) or features.release.unused_mappings_refuse:
        return False
    classes = {one.name: one for one in manifests.classes}
    asked = [
        tuple(expression for _, _, expression in selectors_of(classes[way.class_name], way))
        for request in claim.requests
        for way in request.alternatives
        if way.class_name in classes
    ]
    return any(device.node_allocatable for expressions in asked for device in manifests.passing(expressions))


UNUSED_CLAIM = Check(
    "unused-claim",
    FindingLevel.WARNING,
    "A pod has a claim that none of its containers uses: its devices are allocated, and no container gets them.",
    "Name the claim in resources.claims of a container, or remove it from the pod.",
    _unused_claim,
)


def _oversized_pod(manifests: Manifests) -> Iterator[Observation]:
    for checked in manifests.pods:
        if in_excess(checked.pod):
            yield Observation(checked.subject, checked.pod.excess, checked.path)


OVERSIZED_POD = Check(
    "oversized-pod",
    FindingLevel.WARNING,
    "A pod says more than dra-scheduler looks at, which refuses it; kube-scheduler does not.",
    "Name fewer claims and volumes, or shorten its terms, tolerations, containers and ports.",
    _oversized_pod,
)
