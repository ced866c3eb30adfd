"""What filters and scores say of one pod and one node, written to be read: straight from the definitions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, log

from allocator.model import Node, Requirement, Taint, Term, Toleration
from scheduler.core_v1.label_selectors import AffinityTerm, LabelSelector, SpreadConstraint
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.resources import ANY_ADDRESS

MI = 2**20
NAMESPACES = {"default": {"zone": "a"}}
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
HOSTNAME = "kubernetes.io/hostname"
CPU_OR_MEMORY = ("cpu", "memory")


@dataclass
class NaiveNode:
    """A node and the pods on it."""

    node: Node
    pods: list[Pod] = field(default_factory=list)


def reasons(pod: Pod, on: NaiveNode, among: Collection[NaiveNode]) -> list[str]:
    """Why the pod does not fit the node; the first filter that refuses is heard, none where it names others.

    among: all nodes.
    """
    for found in (
        [NOT_NAMED] if is_not_named(pod, on.node) else [],
        ["node(s) were unschedulable"] if is_cordoned(pod, on.node) else [],
        ["node(s) had untolerated taint(s)"] if is_tainted(pod, on.node) else [],
        [] if is_selected(pod, on.node) else ["node(s) didn't match Pod's node affinity/selector"],
        ["node(s) didn't have free ports for the requested pod ports"] if has_clash(pod, on) else [],
        list(lacking(pod, on)),
        uneven(pod, on.node, among),
        [] if has_company(pod, on.node, among) else ["node(s) didn't match pod affinity rules"],
        ["node(s) didn't match pod anti-affinity rules"] if meets_unwanted(pod, on.node, among) else [],
        ["node(s) didn't satisfy existing pods anti-affinity rules"] if is_kept_away(pod, on.node, among) else [],
    ):
        if found:
            return found
    return []


def in_domain(key: str, node: Node, among: Collection[NaiveNode]) -> list[Pod]:
    """The pods on nodes that share the value of the key with this one."""
    if key not in node.labels:
        return []
    return [pod for other in among if other.node.labels.get(key) == node.labels[key] for pod in other.pods]


def has_company(pod: Pod, node: Node, among: Collection[NaiveNode]) -> bool:
    """Whether each required term finds a pod in its domain that matches all terms; the first of its kind needs none."""
    terms = pod.pod_affinity.required

    def is_company(other: Pod) -> bool:
        return all(is_meant(term, other) for term in terms)

    if not all(term.topology_key in node.labels for term in terms):
        return False
    found = [any(map(is_company, in_domain(term.topology_key, node, among))) for term in terms]
    anywhere = [any(map(is_company, in_domain(term.topology_key, o.node, among))) for o in among for term in terms]
    return all(found) or (not any(anywhere) and is_company(pod))


def meets_unwanted(pod: Pod, node: Node, among: Collection[NaiveNode]) -> bool:
    """Whether a required term of anti-affinity finds a pod in its domain."""
    return any(
        is_meant(term, other)
        for term in pod.pod_affinity.required_anti
        for other in in_domain(term.topology_key, node, among)
    )


def uneven(pod: Pod, node: Node, among: Collection[NaiveNode]) -> list[str]:
    """What the first hard spread constraint that refuses the node says."""
    hard = [one for one in pod.spread if one.is_hard]
    for one in hard:
        if one.topology_key not in node.labels:
            return ["node(s) didn't match pod topology spread constraints (missing required label)"]
        counts = domain_counts(pod, one, [other for other in among if takes_part(pod, other.node, one, hard)])
        least = min(counts.values()) if len(counts) >= max(one.min_domains, 1) else 0
        own = int(is_selected_by(one.selector, pod.labels))
        if counts.get(node.labels[one.topology_key], 0) + own - least > one.max_skew:
            return ["node(s) didn't match pod topology spread constraints"]
    return []


def takes_part(pod: Pod, node: Node, one: SpreadConstraint, all_of_them: Collection[SpreadConstraint]) -> bool:
    """Whether the node counts: it has the keys of all constraints, and this one's policies leave it in."""
    return (
        all(other.topology_key in node.labels for other in all_of_them)
        and (not one.honors_affinity or is_selected(pod, node))
        and (not one.honors_taints or not is_tainted(pod, node))
    )


def domain_counts(pod: Pod, one: SpreadConstraint, among: Collection[NaiveNode]) -> dict[str, int]:
    """How many pods the constraint selects, by the value of its key; an empty selector selects none here."""
    counts: dict[str, int] = {}
    for other in among:
        value = other.node.labels[one.topology_key]
        found = [held for held in other.pods if held.namespace == pod.namespace and not held.is_deleting]
        selected = [held for held in found if one.selector and is_selected_by(one.selector, held.labels)]
        counts[value] = counts.get(value, 0) + len(selected)
    return counts


def is_selected_by(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(is_met(one, labels) for one in selector)


def is_kept_away(pod: Pod, node: Node, among: Collection[NaiveNode]) -> bool:
    """Whether a pod in one of the node's domains has a term that selects this one."""
    return any(
        is_meant(term, pod) and holder in in_domain(term.topology_key, node, among)
        for other in among
        for holder in other.pods
        for term in holder.pod_affinity.required_anti
    )


def is_meant(term: AffinityTerm, pod: Pod) -> bool:
    is_in_namespace = pod.namespace in term.namespaces or (
        term.namespace_selector is not None
        and all(is_met(one, NAMESPACES[pod.namespace]) for one in term.namespace_selector)
    )
    return is_in_namespace and term.selector is not None and all(is_met(one, pod.labels) for one in term.selector)


def is_cordoned(pod: Pod, node: Node) -> bool:
    cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    return node.unschedulable and not any(matches(one, cordon) for one in pod.tolerations)


def is_tainted(pod: Pod, node: Node) -> bool:
    hard = [taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute")]
    return not all(any(matches(one, taint) for one in pod.tolerations) for taint in hard)


def matches(toleration: Toleration, taint: Taint) -> bool:
    of_effect = toleration.effect in ("", taint.effect)
    of_key = toleration.key in ("", taint.key)
    of_value = toleration.operator == "Exists" or toleration.value == taint.value
    return of_effect and of_key and of_value


def is_not_named(pod: Pod, node: Node) -> bool:
    names = [named(term) for term in pod.affinity or ()]
    return bool(names) and all(one is not None and node.name not in one for one in names)


def is_selected(pod: Pod, node: Node) -> bool:
    is_required = pod.affinity is None or any(holds(term, node) for term in pod.affinity)
    return pod.node_selector.items() <= node.labels.items() and is_required


def named(term: Term) -> set[str] | None:
    asked = [set(one.values) for one in term.fields if one.operator == "In"]
    return set.intersection(*asked) if asked else None


def holds(term: Term, node: Node) -> bool:
    fields = {"metadata.name": node.name}
    of_labels = all(is_met(one, node.labels) for one in term.expressions)
    return bool(term.expressions or term.fields) and of_labels and all(is_met(one, fields) for one in term.fields)


def is_met(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    answers = {
        "In": value in requirement.values,
        "NotIn": value not in requirement.values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return answers[requirement.operator]


def has_clash(pod: Pod, on: NaiveNode) -> bool:
    for wanted in pod.host_ports:
        for held in (port for other in on.pods for port in other.host_ports):
            same_address = wanted.address == held.address or ANY_ADDRESS in (wanted.address, held.address)
            if same_address and (wanted.port, wanted.protocol) == (held.port, held.protocol):
                return True
    return False


def lacking(pod: Pod, on: NaiveNode) -> Iterator[str]:
    if len(on.pods) + 1 > allocatable(on.node, "pods"):
        yield "Too many pods"
    for resource, amount in requests(pod).items():
        taken = sum(requests(other).get(resource, 0) for other in on.pods)
        if amount > allocatable(on.node, resource) - taken:
            yield f"Insufficient {resource}"


def allocatable(node: Node, resource: str) -> int:
    amount = node.allocatable.get(resource)
    return counted(resource, Fraction(amount.nanos, 10**9)) if amount else 0


def counted(resource: str, amount: Fraction) -> int:
    return ceil(amount * 1000) if resource == "cpu" else ceil(amount)


def requests(pod: Pod) -> dict[str, int]:
    """What the pod takes, by resource, where it is anything."""
    need = {name: counted(name, need_of(pod, name, None)) for name in resources_of(pod)}
    return {name: amount for name, amount in need.items() if amount}


def resources_of(pod: Pod) -> set[str]:
    return {name for one in pod.containers for name in one.requests} | pod.budget.keys() | pod.overhead.keys()


def need_of(pod: Pod, resource: str, default: Fraction | None) -> Fraction:
    """The sum over what lasts, or the largest moment of starting, or the budget; and the overhead.

    default: what a container that is silent counts for.
    """
    overhead = pod.overhead.get(resource)
    on_top = Fraction(overhead.nanos, 10**9) if overhead else Fraction(0)
    if resource in pod.budget and resource != "ephemeral-storage":
        return Fraction(pod.budget[resource].nanos, 10**9) + on_top

    def own(position: int) -> Fraction:
        amount = pod.containers[position].requests.get(resource)
        return Fraction(amount.nanos, 10**9) if amount is not None else default or Fraction(0)

    lasting = [position for position, one in enumerate(pod.containers) if not one.is_plain_init]
    moments = [sum((own(position) for position in lasting), Fraction(0))]
    for position, one in enumerate(pod.containers):
        if one.is_plain_init:
            before = (own(other) for other in lasting if other < position)
            moments.append(own(position) + sum(before, Fraction(0)))
    return max(moments) + on_top


def scored(pod: Pod, resource: str) -> int:
    """What the pod counts for in a score."""
    little = Fraction(1, 10) if resource == "cpu" else Fraction(200 * MI)
    is_said = any(resource in one.requests for one in pod.containers) or resource in pod.overhead
    has_budget = bool(pod.budget.keys() & set(CPU_OR_MEMORY))
    return counted(resource, need_of(pod, resource, None if has_budget and is_said else little))


def total(
    pod: Pod,
    on: NaiveNode,
    among: Sequence[NaiveNode],
    ranks: Mapping[str, int],
    everywhere: Collection[NaiveNode],
) -> int:
    """The weighted sum of the scores of one of the feasible nodes."""
    soft = {one.node.name: soft_taints(pod, one.node) for one in among}
    preferred = {one.node.name: preferred_weight(pod, one.node) for one in among}
    name = on.node.name
    return (
        least_allocated(pod, on)
        + balanced_allocation(pod, on)
        + 3 * (100 - scaled(soft, name))
        + 2 * scaled(preferred, name)
        + 2 * scaled({one.node.name: ranks[one.node.name] for one in among}, name)
        + 2 * stretched({one.node.name: attraction(pod, one.node, everywhere) for one in among}, name)
        + 2 * evenness(pod, on, among, everywhere)
    )


def attraction(pod: Pod, node: Node, everywhere: Collection[NaiveNode]) -> int:
    """What preferred terms add up to, both ways, and required affinity of others with a weight of 1."""
    own = [(one.weight, one.term) for one in pod.pod_affinity.preferred]
    own += [(-one.weight, one.term) for one in pod.pod_affinity.preferred_anti]
    total = 0
    for weight, term in own:
        total += weight * sum(is_meant(term, other) for other in in_domain(term.topology_key, node, everywhere))
    for holder in (held for one in everywhere for held in one.pods):
        theirs = [(1, term) for term in holder.pod_affinity.required]
        theirs += [(one.weight, one.term) for one in holder.pod_affinity.preferred]
        theirs += [(-one.weight, one.term) for one in holder.pod_affinity.preferred_anti]
        for weight, term in theirs:
            if is_meant(term, pod) and holder in in_domain(term.topology_key, node, everywhere):
                total += weight
    return total


def stretched(raw: Mapping[str, int], name: str) -> int:
    """From 0 for the least to 100 for the most."""
    least, most = min(raw.values()), max(raw.values())
    return int(100 * ((raw[name] - least) / (most - least))) if most > least else 0


def evenness(pod: Pod, on: NaiveNode, among: Sequence[NaiveNode], everywhere: Collection[NaiveNode]) -> int:
    """The better the fewer pods are near; nodes without a key are the worst."""
    soft = [one for one in pod.spread if not one.is_hard]
    scored = [one for one in among if all(other.topology_key in one.node.labels for other in soft)]
    if not soft or on not in scored:
        return 0
    raw = {one.node.name: round(badness(pod, one, scored, everywhere)) for one in scored}
    least, most = min(raw.values()), max(raw.values())
    return 100 * (most + least - raw[on.node.name]) // most if most else 100


def badness(pod: Pod, on: NaiveNode, scored: Collection[NaiveNode], everywhere: Collection[NaiveNode]) -> float:
    """The pods in the node's domains, which count the more the more domains there are."""
    soft, total = [one for one in pod.spread if not one.is_hard], 0.0
    for one in soft:
        value = on.node.labels[one.topology_key]
        if one.topology_key == HOSTNAME:
            size, count = len(scored), domain_counts(pod, one, [on])[value]
        else:
            size = len({other.node.labels[one.topology_key] for other in scored})
            counts = domain_counts(pod, one, [other for other in everywhere if takes_part(pod, other.node, one, soft)])
            count = counts.get(value, 0)
        total += count * log(size + 2) + one.max_skew - 1
    return total


def scaled(raw: Mapping[str, int], name: str) -> int:
    largest = max(raw.values())
    return raw[name] * 100 // largest if largest else 0


def soft_taints(pod: Pod, node: Node) -> int:
    soft = [taint for taint in node.taints if taint.effect == "PreferNoSchedule"]
    return sum(1 for taint in soft if not any(matches(one, taint) for one in pod.tolerations))


def preferred_weight(pod: Pod, node: Node) -> int:
    return sum(one.weight for one in pod.preferences if holds(one.term, node))


def least_allocated(pod: Pod, on: NaiveNode) -> int:
    scores = []
    for resource in CPU_OR_MEMORY:
        offered = allocatable(on.node, resource)
        taken = scored(pod, resource) + sum(scored(other, resource) for other in on.pods)
        if offered:
            scores.append((offered - taken) * 100 // offered if taken <= offered else 0)
    return sum(scores) // len(scores) if scores else 0


def balanced_allocation(pod: Pod, on: NaiveNode) -> int:
    if not any(name in requests(pod) for name in CPU_OR_MEMORY):
        return 0
    return 50 + (50 + balance([pod, *on.pods], on.node) - balance(on.pods, on.node)) // 2


def balance(pods: Sequence[Pod], node: Node) -> int:
    """From 50 to 100, in doubles as the reference counts."""
    offered = {name: allocatable(node, name) for name in CPU_OR_MEMORY}
    if not all(offered.values()):
        return 100
    cpu, memory = (min(sum(requests(pod).get(name, 0) for pod in pods) / offered[name], 1) for name in CPU_OR_MEMORY)
    return int((1 - abs((cpu - memory) / 2)) * 100)
