"""Which event may help which refused pod: a table of functions, by the kind of the event and the reason.

A hint must never say no to an event that could make the pod fit, for the pod would wait for minutes; a yes
that comes to nothing costs one more attempt. It may count on old and new being consecutive: a node that a
filter refused stays refused until an event shows it pass.
Source: kube-scheduler's queueing hints (KEP-4247).
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from allocator.model import DeviceClass, Node
from scheduler.core_v1.pod import Pod
from scheduler.plugins.filters import FILTERS, Filter
from scheduler.plugins.filters.node_resources_fit import fits_empty
from scheduler.queue.events import (
    ClaimChanged,
    ClassChanged,
    Event,
    GivenBack,
    NamespaceChanged,
    NodeChanged,
    PodChanged,
    SliceChanged,
    TaintRulesChanged,
)
from scheduler.state.extended_resources import claim_name, may_ask
from scheduler.state.pod_requests import PODS, PodRequests, allocatable_units, pod_requests
from scheduler.state.ports import UsedPorts

ClaimKey = tuple[str, str]
"""Namespace and name."""


class Reason(StrEnum):
    """Why a pod was refused, as far as it matters to what may help. The names of plugins are their own."""

    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_NAME = "NodeName"
    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    NODE_PORTS = "NodePorts"
    NODE_RESOURCES_FIT = "NodeResourcesFit"
    INTER_POD_AFFINITY = "InterPodAffinity"
    NO_NODES = "no nodes"
    """There are none, so that nothing else could refuse."""
    CLAIMS = "claims"
    """A claim of the pod is not there, being deleted, not its own, or reserved for as many pods as it can be."""
    CLASSES = "device classes"
    """A class that a claim names does not exist."""
    DEVICES = "devices"
    """No node that is feasible otherwise has the devices, or reaches those that are allocated."""
    ADMIN_ACCESS = "admin access"
    """The namespace does not permit it."""
    DENIED = "denied by the API server"
    """A policy or a quota refuses a write: nothing that is watched says when it would not."""
    UNSUPPORTED = "unsupported"
    """The pod requires what this scheduler does not do."""

    @property
    def plugin(self) -> str:
        """The plugin of kube-scheduler that refuses for it; this program's own word where none does."""
        return "DynamicResources" if self in _OF_DYNAMIC_RESOURCES else self.value


_OF_DYNAMIC_RESOURCES = frozenset({Reason.CLAIMS, Reason.CLASSES, Reason.DEVICES, Reason.ADMIN_ACCESS, Reason.DENIED})


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an attempt ended with. reasons: of all nodes together. classes: that the pod's claims name.

    requests: what the pod takes of any node, at least. resources: of which it may take more on some, or which only some
    have to give: what devices take of their node, and extended resources.
    """

    reasons: frozenset[Reason]
    requests: PodRequests
    classes: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Who:
    """A refused pod, as it is now, and why it was refused."""

    pod: Pod
    refusal: Refusal


def helps(pod: Pod, refusal: Refusal, event: Event) -> bool:
    """True where the event may make the refused pod fit. pod: as it is now."""
    if isinstance(event, PodChanged) and _is_of(event, pod):
        return event.old is not None and event.new is not None and asks_differently(event.old, event.new)
    if isinstance(event, GivenBack) and event.pod.uid == pod.uid:
        return False
    hints, who = _HINTS[type(event)], _Who(pod, refusal)
    return any(hints[reason](who, event) for reason in refusal.reasons if reason in hints)


def concerned(event: Event) -> tuple[Reason, ...]:
    """The reasons that the event may matter to; pods whose own claim or own self it is aside."""
    if isinstance(event, ClaimChanged) and not _is_released(event):
        return ()
    if isinstance(event, PodChanged) and not _is_less(event):
        return ()
    if isinstance(event, NodeChanged):
        return tuple(reason for reason in _HINTS[NodeChanged] if _may_matter(event, reason))
    return tuple(_HINTS[type(event)])


def claim_keys(pod: Pod) -> Iterator[ClaimKey]:
    """The claims of the pod by name, as far as they have names yet."""
    for entry in pod.claims:
        if name := entry.claim_name or pod.claim_statuses.get(entry.name):
            yield pod.namespace, name


def awaited_claims(pod: Pod) -> Iterator[ClaimKey]:
    """The same, and the one that is in the way of another one for the pod's extended resources, if any is."""
    yield from claim_keys(pod)
    if may_ask(pod):
        yield pod.namespace, claim_name(pod)


def claim_key(event: ClaimChanged) -> ClaimKey:
    """The claim that has changed."""
    claim = event.new or event.old
    assert claim is not None
    return claim.namespace, claim.name


def asks_differently(old: Pod, new: Pod) -> bool:
    """True where anything has changed that decides where the pod can be."""
    return _asked_by(old) != _asked_by(new)


def _asked_by(pod: Pod) -> tuple[object, ...]:
    of_resources = (pod.containers, pod.budget, pod.overhead, pod.host_ports, pod.unread)
    of_nodes = (pod.node_name, pod.node_selector, pod.affinity, pod.tolerations)
    return *of_resources, *of_nodes, pod.labels, pod.gates, pod.claims, pod.claim_statuses


def _is_of(event: PodChanged, pod: Pod) -> bool:
    return any(one.uid == pod.uid for one in (event.old, event.new) if one)


def _yes(_who: _Who, _event: Event) -> bool:
    return True


def _now_passes(one: Filter) -> Callable[[_Who, NodeChanged], bool]:
    """A node comes, or comes to be let pass by the filter."""

    def hint(who: _Who, event: NodeChanged) -> bool:
        if event.new is None or one.refusal(who.pod, event.new):
            return False
        return event.old is None or bool(one.refusal(who.pod, event.old))

    return hint


def _may_matter(event: NodeChanged, reason: Reason) -> bool:
    """False where nothing of the node has changed that the reason looks at: kubelets report often, mostly the same."""
    old, new = event.old, event.new
    if old is None or new is None:
        return True
    return any(getattr(old, name) != getattr(new, name) for name in _PARTS[reason])


def _is_added(_who: _Who, event: NodeChanged) -> bool:
    return event.old is None


def _offers_more(who: _Who, event: NodeChanged) -> bool:
    """A node that would fit the pod if it were empty comes, or comes to offer more of what the pod requests."""
    if event.new is None:
        return False
    after = dict(allocatable_units(event.new.allocatable))
    if not fits_empty(who.refusal.requests, after):
        return False
    if _offers_asked_differently(who, event):
        return True
    before = dict(allocatable_units(event.old.allocatable)) if event.old else {}
    wanted = (PODS, *who.refusal.requests.amounts)
    return any(after.get(resource, 0) > before.get(resource, 0) for resource in wanted)


def _offers_asked_differently(who: _Who, event: NodeChanged) -> bool:
    """Of resources that some nodes give by claim: a class stands for one where a node offers none of it."""
    if not who.refusal.resources:
        return False
    before, after = (dict(allocatable_units(one.allocatable)) if one else {} for one in (event.old, event.new))
    return any(after.get(resource, 0) != before.get(resource, 0) for resource in who.refusal.resources)


def _may_give_devices(who: _Who, event: NodeChanged) -> bool:
    return _reaches_differently(who, event) or _offers_asked_differently(who, event)


def _reaches_differently(_who: _Who, event: NodeChanged) -> bool:
    """Devices are reached by a node's name and labels; a claim that was allocated on a node that is gone is freed."""
    old, new = event.old, event.new
    return old is None or new is None or _reach_of(old) != _reach_of(new)


def _reach_of(node: Node) -> Hashable:
    return frozenset(node.labels.items()), node.declared_features


def _is_less(event: PodChanged) -> bool:
    """False for a pod on a node that stays there with what it has: most that is told of pods is that they run."""
    old, new = event.old, event.new
    if old is None or not old.node_name:
        return False
    return new is None or new.is_finished or _resources_of(old) != _resources_of(new)


def _resources_of(pod: Pod) -> tuple[object, ...]:
    return pod.containers, pod.budget, pod.overhead, pod.by_claims


def _gives_back(who: _Who, event: PodChanged) -> bool:
    """A pod leaves its node, or requests less of what this one requests."""
    old, new = event.old, event.new
    if old is None or not _is_less(event):
        return False
    if new is None or new.is_finished:
        return True
    before, after = pod_requests(old).amounts, pod_requests(new).amounts
    wanted = (*who.refusal.requests.amounts, *who.refusal.resources)
    return any(after.get(resource, 0) < before.get(resource, 0) for resource in wanted)


def _frees_ports(who: _Who, event: PodChanged) -> bool:
    old, new = event.old, event.new
    if old is None or not old.node_name or (new is not None and not new.is_finished):
        return False
    return _clash(old, who.pod)


def _kept_away(who: _Who, event: PodChanged) -> bool:
    """A pod goes that may have kept this one away."""
    return _is_less(event) and event.old is not None and _keeps_away(event.old, who.pod)


def _kept_away_in_vain(who: _Who, event: GivenBack) -> bool:
    return _keeps_away(event.pod, who.pod)


def _keeps_away(holder: Pod, pod: Pod) -> bool:
    """False where it certainly does not; the labels of a namespace are not known here."""
    return bool(holder.anti_affinity) and holder.uid != pod.uid


def _is_in_other_domain(_who: _Who, event: NodeChanged) -> bool:
    """A node comes, goes or changes its labels, and so do the domains that it is in and those of the pods on it."""
    return event.old is None or event.new is None or event.old.labels != event.new.labels


def _gives_back_ports(who: _Who, event: GivenBack) -> bool:
    return _clash(event.pod, who.pod)


def _clash(one: Pod, other: Pod) -> bool:
    held = UsedPorts()
    held.add(0, one.host_ports)
    return bool(held.clashes(other.host_ports))


def _shares_claim(who: _Who, event: GivenBack) -> bool:
    own = set(claim_keys(who.pod))
    return any((claim.namespace, claim.name) in own for claim in event.claims)


def _gives_back_devices(_who: _Who, event: GivenBack) -> bool:
    return bool(event.claims)


def _is_own(who: _Who, event: ClaimChanged) -> bool:
    return claim_key(event) in awaited_claims(who.pod)


def _is_own_or_released(who: _Who, event: ClaimChanged) -> bool:
    return _is_released(event) or _is_own(who, event)


def _is_released(event: ClaimChanged) -> bool:
    """Devices that were allocated may be free now."""
    old = event.old.allocation if event.old else None
    new = event.new.allocation if event.new else None
    return old is not None and old != new


def _is_named(who: _Who, event: ClassChanged) -> bool:
    return any(one.name in who.refusal.classes for one in (event.old, event.new) if one)


def _stands_for_asked(who: _Who, event: ClassChanged) -> bool:
    """The class comes to stand for extended resources that the pod may ask for, or for none."""
    return may_ask(who.pod) and _resource_of(event.old) != _resource_of(event.new)


def _is_named_or_asked(who: _Who, event: ClassChanged) -> bool:
    return _is_named(who, event) or _stands_for_asked(who, event)


def _resource_of(device_class: DeviceClass | None) -> str | None:
    return device_class.extended_resource_name if device_class else None


def _is_in_namespace(who: _Who, event: NamespaceChanged) -> bool:
    return any(one.name == who.pod.namespace for one in (event.old, event.new) if one)


_PARTS: Mapping[Reason, tuple[str, ...]] = {
    Reason.NODE_UNSCHEDULABLE: ("unschedulable",),
    Reason.NODE_NAME: (),
    Reason.TAINT_TOLERATION: ("taints",),
    Reason.NODE_AFFINITY: ("labels",),
    Reason.NO_NODES: (),
    Reason.NODE_PORTS: (),
    Reason.NODE_RESOURCES_FIT: ("allocatable",),
    Reason.INTER_POD_AFFINITY: ("labels",),
    Reason.DEVICES: ("labels", "declared_features", "allocatable"),
}
"""The fields of a node whose change may help pods refused for the reason; a node that comes or goes aside."""

_Hints = Mapping[Reason, Callable[[_Who, Any], bool]]

_HINTS: Mapping[type[Event], _Hints] = {
    NodeChanged: {
        **{Reason(one.plugin): _now_passes(one) for one in FILTERS},
        Reason.NO_NODES: _is_added,
        Reason.NODE_PORTS: _is_added,
        Reason.NODE_RESOURCES_FIT: _offers_more,
        Reason.INTER_POD_AFFINITY: _is_in_other_domain,
        Reason.DEVICES: _may_give_devices,
    },
    PodChanged: {
        Reason.NODE_PORTS: _frees_ports,
        Reason.NODE_RESOURCES_FIT: _gives_back,
        Reason.INTER_POD_AFFINITY: _kept_away,
    },
    ClaimChanged: {Reason.CLAIMS: _is_own, Reason.DEVICES: _is_own_or_released},
    SliceChanged: {Reason.DEVICES: _yes},
    ClassChanged: {
        Reason.CLASSES: _is_named,
        Reason.DEVICES: _is_named_or_asked,
        Reason.NODE_RESOURCES_FIT: _stands_for_asked,
    },
    NamespaceChanged: {Reason.ADMIN_ACCESS: _is_in_namespace, Reason.INTER_POD_AFFINITY: _is_in_namespace},
    TaintRulesChanged: {Reason.DEVICES: _yes},
    GivenBack: {
        Reason.NODE_RESOURCES_FIT: _yes,
        Reason.NODE_PORTS: _gives_back_ports,
        Reason.INTER_POD_AFFINITY: _kept_away_in_vain,
        Reason.DEVICES: _gives_back_devices,
        Reason.CLAIMS: _shares_claim,
    },
}
"""A reason that is missing for a kind of event is not helped by it. API errors and what is denied are helped by time
alone."""
