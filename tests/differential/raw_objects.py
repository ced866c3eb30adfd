"""Pods and nodes as the API server would hand them out, from the values that properties make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocator.model import Container, Node, Requirement, Term
from allocator.pods.extended_resources import is_extended
from cel.values.quantity import Quantity
from scheduler.core_v1.affinity_term import AffinityTerm
from scheduler.core_v1.pod import Pod

Json = dict[str, Any]


@dataclass(frozen=True)
class Resize:
    """What the status of a container says while it is resized: what it has, what it was promised, and if it can be."""

    actual: Mapping[str, Quantity] | None = None
    promised: Mapping[str, Quantity] | None = None
    is_infeasible: bool = False


def raw_node(node: Node) -> Json:
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints]
    return {
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {"unschedulable": node.unschedulable, "taints": taints},
        "status": {"allocatable": _amounts(node.allocatable)},
    }


def raw_pod(pod: Pod, node: str = "", resizes: Sequence[Resize] = ()) -> Json:
    """The pod, on that node; containers up to the last that ends before others are init containers."""
    init, others = _containers(pod)
    spec = {
        "nodeName": node,
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [_toleration(one.key, one.operator, one.value, one.effect) for one in pod.tolerations],
        "initContainers": init,
        "containers": others,
        "overhead": _amounts(pod.overhead),
        **({"resources": {"requests": _amounts(pod.budget)}} if pod.budget else {}),
        **_affinity(pod),
    }
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "labels": dict(pod.labels)}
    return {"metadata": metadata, "spec": spec, "status": _status(init, others, resizes, has_budget=bool(pod.budget))}


def _containers(pod: Pod) -> tuple[list[Json], list[Json]]:
    starting = max((place for place, one in enumerate(pod.containers) if one.is_plain_init), default=-1) + 1
    init = [_container(f"init-{place}", one) for place, one in enumerate(pod.containers[:starting])]
    for one, raw in zip(pod.containers, init, strict=False):
        if not one.is_plain_init:
            raw["restartPolicy"] = "Always"
    others = [_container(f"main-{place}", one) for place, one in enumerate(pod.containers[starting:])]
    others = others or [{"name": "main"}]
    others[0]["ports"] = [
        {"containerPort": 1, "hostPort": port.port, "protocol": port.protocol, "hostIP": port.address}
        for port in pod.host_ports
    ]
    return init, others


def _container(name: str, container: Container) -> Json:
    limits = {resource: amount for resource, amount in container.requests.items() if is_extended(resource)}
    return {"name": name, "resources": {"requests": _amounts(container.requests), "limits": _amounts(limits)}}


def _affinity(pod: Pod) -> Json:
    found: Json = {}
    if pod.affinity is not None:
        terms = [_term(term) for term in pod.affinity]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if pod.preferences:
        preferred = [{"weight": one.weight, "preference": _term(one.term)} for one in pod.preferences]
        found["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    apart = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            _affinity_term(one) for one in pod.pod_affinity.required_anti
        ]
    }
    kinds = {
        **({"nodeAffinity": found} if found else {}),
        **({"podAntiAffinity": apart} if pod.pod_affinity.required_anti else {}),
    }
    return {"affinity": kinds} if kinds else {}


def _affinity_term(term: AffinityTerm) -> Json:
    selectors = {"labelSelector": term.selector, "namespaceSelector": term.namespace_selector}
    written = {
        name: {"matchExpressions": list(map(_requirement, selector))}
        for name, selector in selectors.items()
        if selector is not None
    }
    return {"topologyKey": term.topology_key, "namespaces": sorted(term.namespaces), **written}


def _status(init: list[Json], others: list[Json], resizes: Sequence[Resize], *, has_budget: bool) -> Json:
    """The first resize is for the first container, and for the pod as a whole where that has requests."""
    told = dict(zip((one["name"] for one in (*others, *init)), resizes, strict=False))
    status = {
        "containerStatuses": [_resized(one["name"], told[one["name"]]) for one in others if one["name"] in told],
        "initContainerStatuses": [_resized(one["name"], told[one["name"]]) for one in init if one["name"] in told],
    }
    if any(one.is_infeasible for one in resizes):
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    return {**status, **(_resized("", resizes[0]) if resizes and has_budget else {})}


def _resized(name: str, resize: Resize) -> Json:
    return {
        **({"name": name} if name else {}),
        **({"resources": {"requests": _amounts(resize.actual)}} if resize.actual is not None else {}),
        **({"allocatedResources": _amounts(resize.promised)} if resize.promised is not None else {}),
    }


def _toleration(key: str, operator: str, value: str, effect: str) -> Json:
    written = {"key": key, "operator": operator, "value": value, "effect": effect}
    return {name: text for name, text in written.items() if text}


def _term(term: Term) -> Json:
    expressions, fields = map(_requirement, term.expressions), map(_requirement, term.fields)
    written = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    return {name: found for name, found in written.items() if found}


def _requirement(requirement: Requirement) -> Json:
    values = {"values": list(requirement.values)} if requirement.values else {}
    return {"key": requirement.key, "operator": requirement.operator, **values}


def _amounts(amounts: Mapping[str, Quantity]) -> Json:
    return {name: amount.text for name, amount in amounts.items()}
