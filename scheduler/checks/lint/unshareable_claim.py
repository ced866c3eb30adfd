"""Several pods of a workload name one claim that they cannot share: some of them wait for ever.

A claim has the devices of one place and at most 256 consumers; if its devices stand for resources of the node, one.
Source: KEP-4381, status.reservedFor; KEP-5517.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.gates import NODE_ALLOCATABLE_RESOURCES
from allocator.model import Device
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import CheckedPod, Manifests
from scheduler.core_v1.pod import Pod

HOSTNAME = "kubernetes.io/hostname"
_Key = tuple[str, str]


def _check(manifests: Manifests) -> Iterator[Observation]:
    users = _users(manifests)
    for one in manifests.pods:
        for number, entry in enumerate(one.pod.claims):
            key = one.pod.namespace, entry.claim_name
            if entry.claim_name and (text := _why_not(one, users.get(key, ()), _candidates(manifests, key), manifests)):
                yield Observation(one.subject, text, f"{one.path}.resourceClaims[{number}].resourceClaimName")


def _users(manifests: Manifests) -> Mapping[_Key, Sequence[Pod]]:
    """The pods that name each claim, with those that workloads ask for."""
    found = defaultdict[_Key, list[Pod]](list)
    for pod in (*manifests.inventory.pods, *manifests.expanded):
        for entry in pod.claims:
            if entry.claim_name and not pod.is_over:
                found[pod.namespace, entry.claim_name].append(pod)
    return found


def _candidates(manifests: Manifests, key: _Key) -> Sequence[Device]:
    """The devices that the classes of the claim select."""
    claim = manifests.inventory.claims.get(key)
    classes = {one.name: one for one in manifests.classes}
    named = {way.class_name for request in claim.claim.requests for way in request.alternatives} if claim else set()
    chains = [tuple(one or "" for one in classes[name].selectors) for name in sorted(named & classes.keys())]
    return [device for chain in chains for device in manifests.passing(chain)]


def _why_not(one: CheckedPod, users: Sequence[Pod], devices: Sequence[Device], manifests: Manifests) -> str:
    """Why the pods cannot share the claim; empty where they can."""
    number = len(users)
    if number < 2:
        return ""
    if number > RESERVED_FOR_MAX:
        return f"{number} pods use the claim, which can have at most {RESERVED_FOR_MAX} consumers"
    counts = manifests.fleet.features.has(NODE_ALLOCATABLE_RESOURCES)
    if counts and any(map(_stands_for_resources, devices)):
        return f"{number} pods use the claim, whose devices stand for resources of the node: one pod can use it"
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
    _check,
)
