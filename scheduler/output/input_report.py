"""The report on the input: errors, warnings, and ignored objects, one line each.

The report stays short for any input: of many findings in one document, only the first are printed.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

from allocator.gates import Features
from allocator.model import Node, PoolID, Slice
from allocator.words import and_more, counted, listed_up_to
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import KINDS as POD_SELECTORS
from scheduler.core_v1.pod_selector import SERVICE
from scheduler.input.documents import Finding, Place
from scheduler.input.inventory import Inventory
from scheduler.offline.evictions import evictions
from scheduler.output.check_results import switched_off, unknown_attributes
from scheduler.state.taints import Eviction
from scheduler.state.volumes import CLAIMS, claims_of

MAX_REPORTED = 100
"""Findings of one document, and kinds of objects, that are listed one by one."""


MAX_EVICTED = 5
"""Evicted pods that one line names; of the others it gives the number."""

MAX_POOLS = 5
"""Pools that one line names; of the others it gives the number."""


def report(inventory: Inventory, features: Features) -> Iterator[str]:
    """The problems of the input, and what of it does not count, whichever command reads it. Cost: O(devices)."""
    yield from _in_short("warning", inventory.warnings)
    yield from _in_short("error", inventory.errors)
    if inventory.skipped:
        kinds = [f"{number} {kind}" for kind, number in sorted(inventory.skipped.items())]
        rest = [f"objects of {len(kinds) - MAX_REPORTED} more kinds"] if len(kinds) > MAX_REPORTED else []
        yield f"ignored: {', '.join(kinds[:MAX_REPORTED] + rest)}"
    for workload in inventory.workloads:
        if workload.note:
            yield f"{workload} {workload.note}: no pods are placed for it"
    missing = [kind for kind in ("Node", "ResourceSlice", "DeviceClass") if kind not in inventory.kinds]
    if inventory.nodes and "Node" in missing:
        missing.remove("Node")
        number = counted(len(inventory.nodes), "node is", "nodes are")
        yield f"warning: the input contains no Node: {number} taken from slices, without labels, taints and resources"
    if missing and inventory.kinds:
        yield f"warning: the input contains no {', no '.join(missing)}"
    yield from _incomplete_pools(inventory.slices)
    yield from unknown_attributes(inventory)
    yield from switched_off(inventory, features)
    yield from evicted_pods(evictions(inventory, features))


def evicted_pods(found: Sequence[Eviction]) -> Iterator[str]:
    """One line on the running pods that taints end; none where there are none."""
    if found:
        named = listed_up_to([f"{one.pod} ({one.cause})" for one in found], MAX_EVICTED)
        pods = counted(len(found), "running pod is", "running pods are")
        yield f"warning: {pods} evicted by NoExecute taints: {named}"


def _incomplete_pools(slices: Iterable[Slice]) -> Iterator[str]:
    """One line on the pools of which slices are missing or left over: kube-scheduler gives no device of them."""
    pools: dict[PoolID, list[Slice]] = {}
    for slice_ in slices:
        kept = pools.setdefault(slice_.pool_id, [])
        if kept and slice_.generation > kept[0].generation:
            kept.clear()
        if not kept or slice_.generation == kept[0].generation:
            kept.append(slice_)
    reported = [
        f"{driver}/{pool} ({len(kept)} of {kept[0].slice_count} slices of generation {kept[0].generation} exist)"
        for (driver, pool), kept in sorted(pools.items())
        if all(len(kept) != slice_.slice_count for slice_ in kept)
    ]
    if reported:
        yield f"warning: pools that are being updated provide no devices: {listed_up_to(reported, MAX_POOLS)}"


def _in_short(mark: str, findings: Iterable[Finding]) -> Iterator[str]:
    counts: Counter[Place] = Counter()
    for finding in findings:
        document = Place(finding.place.file, finding.place.document)
        counts[document] += 1
        if counts[document] <= MAX_REPORTED:
            yield f"{mark}: {finding}"
    for document, number in counts.items():
        if more := and_more(number, MAX_REPORTED):
            yield f"{mark}: {document}: {more}"


def unread_groups(pods: Iterable[Pod]) -> Iterator[str]:
    """One line that counts the pods of PodGroups that the input does not hold, which are placed one by one."""
    if number := sum(bool(pod.group) for pod in pods):
        yield f"warning: without a PodGroup in the input, pod groups are ignored ({counted(number, 'pod')})"


def without_claims(number: int) -> Iterator[str]:
    """One line that counts the pending pods that are not placed, though they may take room first; none for none."""
    if number:
        yield f"warning: pending pods without claims are ignored, and take no room on nodes ({counted(number, 'pod')})"


def unchecked_volumes(pods: Iterable[Pod], unseen: Collection[str], made: Iterable[NamespacedName]) -> Iterator[str]:
    """One line on volumes of claims. unseen: kinds that say where these can be, and the input does not hold.

    made: claims that are known from templates although the input contains none.
    """
    asked = [claims_of(pod) for pod in pods]
    number = sum(map(bool, asked))
    if {key for keys in asked for key in keys} <= set(made):
        unseen = set(unseen) - {CLAIMS}
    if number and unseen:
        kinds = ", no ".join(sorted(unseen))
        volumes = f"volumes of {counted(number, 'pod')}"
        yield f"warning: the input contains no {kinds}: {volumes} are not checked against them"


def early_volumes(pods: Iterable[Pod], claims: Container[NamespacedName]) -> Iterator[str]:
    """One line on claims that are made, and bound to a volume, before anybody looks at their pods."""
    if number := sum(any(key in claims for key in claims_of(pod)) for pod in pods):
        yield (
            f"warning: {counted(number, 'pod has', 'pods have')} PersistentVolumeClaims that do not exist yet and do "
            "not wait for their first consumer: where their volumes will be is not known, and not checked"
        )


def unchecked_spread(pods: Sequence[Pod], others: Iterable[Pod], kinds: Container[str]) -> Iterator[str]:
    """One line on pods that Services and controllers would spread, of which the input contains none.

    pods: to be placed. others: all pods of the input. kinds: of the objects of the input.
    """
    shared = Counter(label for pod in others for label in _labels(pod))
    missing: Counter[str] = Counter()
    number = 0
    for pod in pods:
        needed = [kind for kind in _spreading(pod) if kind not in kinds] if not pod.spread else []
        if needed and any(shared[label] > 1 for label in _labels(pod)):
            missing.update(needed)
            number += 1
    if number:
        kinds = ", no ".join(sorted(missing))
        yield f"warning: the input contains no {kinds}: default spreading is ignored ({counted(number, 'pod')})"


def _labels(pod: Pod) -> Iterator[tuple[str, str, str]]:
    return ((pod.namespace, key, value) for key, value in pod.labels.items())


def _spreading(pod: Pod) -> Iterator[str]:
    """The kinds of objects that spread the pod if it does not say how."""
    yield SERVICE
    if pod.owner and pod.owner.kind in POD_SELECTORS:
        yield pod.owner.kind


def unchecked_room(nodes: Sequence[Node], resources: Sequence[str], *, has_bound_pods: bool) -> Iterator[str]:
    """One line on the resources of nodes that the input lacks. resources: what every node of a cluster has.

    has_bound_pods: the input holds pods that have their node.
    """
    silent = sum(any(name not in node.allocatable for name in resources) for node in nodes)
    reported = []
    if silent:
        number = counted(silent, "node has", "nodes have")
        reported.append(f"{number} no {', '.join(resources[:-1])} or {resources[-1]} in status.allocatable")
    if silent < len(nodes) and not has_bound_pods:
        reported.append("no Pod has a node")
    if reported:
        yield f"warning: free resources are assumed where the input lacks them: {'; '.join(reported)}"


def unseen_pods(*, has_bound_pods: bool) -> Iterator[str]:
    """One line on an input that does not say who is on the nodes, where the answer is about that."""
    if not has_bound_pods:
        yield "warning: no Pod of the input has a node: nodes count as empty"


def unoffered_resources(resources: Mapping[str, int], *, is_on: bool) -> Iterator[str]:
    """A line for each extended resource that nothing offers. resources: how many pods ask for each.

    is_on: whether classes may stand for extended resources.
    """
    why = "" if is_on else ", for which DRAExtendedResource has to be on"
    for name, number in sorted(resources.items()):
        asks = counted(number, "pod asks", "pods ask")
        yield f"warning: {asks} for {name}, which neither a node nor a device class of the input offers{why}"


def unknown_priorities(classes: Mapping[str, int]) -> Iterator[str]:
    """A line for each priority class that is not there. classes: how many pods name it."""
    for name, number in sorted(classes.items()):
        pods = counted(number, "pod")
        yield f"warning: the input contains no PriorityClass {name}: the priority of {pods} counts as 0"


def unchecked_namespaces(names: Iterable[str], label: str) -> Iterator[str]:
    """One line on the namespaces whose label would say whether admin access is permitted."""
    if reported := ", ".join(sorted(names)):
        missing = f"warning: the input contains no Namespace {reported}"
        yield f"{missing}: its label {label}, which admin access needs, is not checked"
