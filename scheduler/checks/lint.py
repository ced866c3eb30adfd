"""The rules of `dra lint`: what is wrong with manifests before anybody runs a pod. Here: any object, and limits.

Limits are what the API server of a release refuses beyond what all of them refuse: names, amounts and numbers of
devices. It refuses what is created, and what is changed. What was stored before passes as it is, so that they are
looked at here only, and no decision depends on them.
Source: pkg/apis/resource/validation and the declared limits of resource.k8s.io/v1 in Kubernetes 1.38.0-beta.0.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import cel
from allocator import gates
from allocator.api import names
from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.api.capacity import PolicyRules, policy_problems
from allocator.api.driver_config import SELECTORS_MAX
from allocator.api.findings import step_text
from allocator.api.requests import ALTERNATIVES_MAX, REQUESTS_MAX
from allocator.api.resource_claim import CONSTRAINTS_MAX
from allocator.api.versions import versions_of
from allocator.candidates import MAX_RESULTS
from allocator.cluster.snapshot import Snapshot
from allocator.limit_use import LimitsInForce, exceeded_text, limit_statuses
from allocator.limits import TenantLimit
from allocator.model import Claim, Device, Slice
from cel.values.quantity import Quantity
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.lint_claims import (
    ADMIN_ACCESS_WITHOUT_LABEL,
    MISSING_CLAIM,
    MISSING_CLASS,
    OVERSIZED_POD,
    UNDECIDED_REQUEST,
    UNKNOWN_ATTRIBUTE,
    UNKNOWN_REQUEST,
    UNSATISFIABLE_REQUEST,
    UNSHAREABLE_CLAIM,
    UNUSED_CLAIM,
)
from scheduler.checks.lint_devices import (
    CAPACITY_WITHOUT_POLICY,
    CLASS_WITHOUT_SELECTORS,
    SELECTOR_COST,
    SELECTOR_FAILS,
    SELECTOR_MATCHES_ALL,
    SELECTOR_MATCHES_NONE,
    SELECTOR_TOO_EXPENSIVE,
    TAINTS_EVERYTHING,
    TAINTS_NOTHING,
    UNUSABLE_POOL,
)
from scheduler.checks.manifests import Manifests, WaitingClaim, alternatives_of
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod_group import SERVED, AnyPodGroup, CompositePodGroup, PodGroup
from scheduler.input.documents import FindingReason
from scheduler.pod_groups.group import tree_of
from scheduler.state.pod_groups import PodGroupIndex, index_of

AMOUNTS_MAX: Final = 32
"""Capacities that a request names, and that one result consumes."""

DIGITS_MAX: Final = 18
"""Of a number in a version: it fits into 64 bits whatever it is."""

Problem = tuple[str, str]
"""The field, and what is wrong with it."""


def beyond_limits(manifests: Manifests) -> Iterator[Observation]:
    """What the release refuses that others store."""
    for subject, field, message in (*_of_policies(manifests), *_of_node_resources(manifests)):
        yield Observation(subject, f"{field}: {message} in Kubernetes {manifests.features.release.name}", field)
    for subject, field, message in _of_groups(manifests):
        yield Observation(subject, f"{field}: {message}", field)
    if not manifests.features.release.bounds_amounts_and_names:
        return
    release = manifests.features.release.name
    for subject, field, message in (*_of_devices(manifests), *_of_claims(manifests)):
        yield Observation(subject, f"{field}: {message}, since Kubernetes {release}", field)


def _of_policies(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    rules = PolicyRules.of(manifests.features)
    for slice_ in manifests.inventory.slices:
        for number, device in enumerate(slice_.devices):
            for name, policy in device.policies.items():
                at = f"spec.devices[{number}].capacity[{step_text(name)}].requestPolicy"
                for field, amount, message in policy_problems(policy, device.capacity[name], rules):
                    yield ObjectName("ResourceSlice", slice_.name), f"{at}.{field}", f'{message} (got "{amount.text}")'


def _of_node_resources(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    for slice_ in manifests.inventory.slices if manifests.features.release.knows_node_resources else ():
        for number, device in enumerate(slice_.devices):
            for resource in device.node_allocatable:
                if resource not in ("cpu", "memory") and not resource.startswith("hugepages-"):
                    at = f"spec.devices[{number}].nodeAllocatableResources[{step_text(resource)}]"
                    yield ObjectName("ResourceSlice", slice_.name), at, "must be cpu, memory or hugepages-..."


def _of_groups(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    groups: list[AnyPodGroup] = [*manifests.inventory.of(CompositePodGroup), *manifests.inventory.of(PodGroup)]
    for group in groups:
        subject = ObjectName(type(group).__name__, group.name, group.namespace)
        if not group.workload and isinstance(group, CompositePodGroup):
            yield subject, "spec.workloadRef", "is required"
        elif not group.workload and group.parent:
            yield subject, "spec.workloadRef", "is required beside parentCompositePodGroupName"
        if group.goes_whole and group.minimum is None and manifests.features.release.knows_whole_gangs_alone:
            message = "must not be all without the policy gang, since Kubernetes 1.38"
            yield subject, "spec.disruptionMode", message


def _of_devices(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    for slice_ in manifests.inventory.slices:
        subject = ObjectName("ResourceSlice", slice_.name)
        for number, device in enumerate(slice_.devices):
            for limit in _DEVICE_LIMITS:
                for field, message in limit.problems(device):
                    yield subject, f"spec.devices[{number}].{limit.field}{field}", message


def _of_claims(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    for (namespace, name), claim_object in sorted(manifests.inventory.claims.items()):
        stored = WaitingClaim(ObjectName("ResourceClaim", name, namespace), claim_object.claim, "spec")
        for field, message in (*_requests(stored), *_results(claim_object.claim)):
            yield stored.subject, field, message
    for asked in manifests.asked:
        if asked.subject.kind == "ResourceClaimTemplate":
            for field, message in _requests(asked):
                yield asked.subject, field, message


def _requests(asked: WaitingClaim) -> Iterator[Problem]:
    for at, way in alternatives_of(asked):
        yield from _amounts(way.capacity or {}, f"{at}.capacity.requests")
        for index, (name, _) in enumerate(way.derived_attributes):
            yield from _full_name(name, f"{at}.derivedAttributes[{index}].name")
    for number, constraint in enumerate(asked.claim.constraints):
        at = f"{asked.path}.devices.constraints[{number}]"
        for field, name in (
            ("matchAttribute", constraint.match_attribute),
            ("distinctAttribute", constraint.distinct_attribute),
        ):
            yield from _full_name(name, f"{at}.{field}") if name else ()


def _results(claim: Claim) -> Iterator[Problem]:
    for number, result in enumerate(claim.allocation.results if claim.allocation else ()):
        yield from _amounts(result.consumed_capacity, f"status.allocation.devices.results[{number}].consumedCapacity")


def _amounts(amounts: Mapping[str, Quantity], path: str) -> Iterator[Problem]:
    if len(amounts) > AMOUNTS_MAX:
        yield path, f"must not have more than {AMOUNTS_MAX} entries, has {len(amounts)}"
    for name, amount in amounts.items():
        yield from _name(name, f"{path}[{step_text(name)}]")
        if amount.sign < 0:
            yield f"{path}[{step_text(name)}]", f"must not be negative, is {amount}"


def _name(name: str, path: str) -> Iterator[Problem]:
    """A name of a capacity or an attribute: what `names.qualified_name` lets pass has one slash too many."""
    if problem := "must not have more than one slash" if name.count("/") > 1 else names.qualified_name(name):
        yield path, problem


def _full_name(name: str, path: str) -> Iterator[Problem]:
    """The same of an attribute that is named with its domain."""
    yield from _name(name, path)
    domain = name.partition("/")[0]
    if domain != domain.lower():
        yield path, f"its domain must be written in lower case, as {domain.lower()}"


def _keys(of: Mapping[str, object]) -> Iterator[Problem]:
    for name in of:
        yield from _name(name, f"[{step_text(name)}]")


def _versions(device: Device) -> Iterator[Problem]:
    for name, (type_, value) in device.attributes.items():
        versions: tuple[object, ...] = value if isinstance(value, tuple) else (value,)
        if type_ in ("version", "versions") and any(_has_long_number(str(one)) for one in versions):
            yield f"[{step_text(name)}].{type_}", f"numbers must not have more than {DIGITS_MAX} digits"


def _has_long_number(version: str) -> bool:
    """True for a number with too many digits before the build metadata, which has no numbers."""
    numbers, _, before_release = version.partition("+")[0].partition("-")
    return any(part.isdecimal() and len(part) > DIGITS_MAX for part in f"{numbers}.{before_release}".split("."))


def _terms(device: Device) -> Iterator[Problem]:
    terms = device.reach.node_selector
    if terms is not None and len(terms) != 1:
        yield "", f"must have exactly one term, has {len(terms)}"


def _capacity_keys(device: Device) -> Iterator[Problem]:
    entry: Any  # its types were checked when it was read
    for resource, entry in device.node_allocatable.items():
        key = (entry.get("mapping") or {}).get("capacityKey")
        yield from _name(key, f"[{step_text(resource)}].mapping.capacityKey") if isinstance(key, str) else ()


class _DeviceLimit(NamedTuple):
    """A field of a device, and what is wrong in it."""

    field: str
    problems: Callable[[Device], Iterator[Problem]]


_DEVICE_LIMITS: Final = (
    _DeviceLimit("attributes", lambda device: _keys(device.attributes)),
    _DeviceLimit("attributes", _versions),
    _DeviceLimit("capacity", lambda device: _keys(device.capacity)),
    _DeviceLimit("nodeSelector.nodeSelectorTerms", _terms),
    _DeviceLimit("nodeAllocatableResources", _capacity_keys),
)


def _duplicate_object(manifests: Manifests) -> Iterator[Observation]:
    return manifests.reported(FindingReason.DUPLICATE)


DUPLICATE_OBJECT = Check(
    "duplicate-object",
    FindingLevel.ERROR,
    "An object is there twice, and the copies differ: `kubectl apply` keeps the one that it comes to last.",
    "Remove one of the copies, or check them one at a time.",
    _duplicate_object,
)


def _gate_off(manifests: Manifests) -> Iterator[Observation]:
    for line in manifests.switched_off:
        yield Observation(ObjectName("feature gate", line.partition(" ")[0]), line)


GATE_OFF = Check(
    "gate-off",
    FindingLevel.WARNING,
    "The input uses a feature whose gate is off: the API server drops its fields, or kube-scheduler ignores them.",
    "Turn the gate on in the cluster, or say here that it is on: --feature-gates, --kubernetes.",
    _gate_off,
)


def _invalid_object(manifests: Manifests) -> Iterator[Observation]:
    yield from manifests.reported(FindingReason.REFUSED)
    for subject, version, served in manifests.versions():
        if version not in served:
            of_kind = f"it serves {', '.join(served)}" if served else "it serves no version of the kind"
            message = (
                f"Kubernetes {manifests.features.release.name} does not serve {subject.kind} in {version}: {of_kind}"
            )
            yield Observation(subject, message, "apiVersion")
    yield from beyond_limits(manifests)
    yield from _invalid_without_gates(manifests)
    yield from _selectors_beyond_gates(manifests)


def _invalid_without_gates(manifests: Manifests) -> Iterator[Observation]:
    """What the API server refuses once it has dropped fields whose gates are off."""
    release = manifests.features.release
    gates_off = {gate for gate in release.gates if not manifests.features.has(gate)}
    for slice_ in manifests.inventory.slices:
        subject = ObjectName("ResourceSlice", slice_.name)
        if gates.PARTITIONABLE_DEVICES in gates_off and slice_.reach.is_up_to_devices:
            yield _dropped(subject, "spec.perDeviceNodeSelection", gates.PARTITIONABLE_DEVICES)
        for number, device in enumerate(slice_.devices if gates.LIST_TYPE_ATTRIBUTES in gates_off else ()):
            for name, (type_, value) in device.attributes.items():
                if isinstance(value, tuple):
                    field = f"spec.devices[{number}].attributes[{step_text(name)}].{type_}"
                    yield _dropped(subject, field, gates.LIST_TYPE_ATTRIBUTES)
    for asked in manifests.asked:
        for number, constraint in enumerate(asked.claim.constraints if gates.CONSUMABLE_CAPACITY in gates_off else ()):
            if constraint.distinct_attribute and not constraint.match_attribute:
                field = f"{asked.path}.devices.constraints[{number}].distinctAttribute"
                yield _dropped(asked.subject, field, gates.CONSUMABLE_CAPACITY)
        for number, request in enumerate(asked.claim.requests if gates.PRIORITIZED_LIST in gates_off else ()):
            if request.is_first_available:
                field = f"{asked.path}.devices.requests[{number}].firstAvailable"
                yield _dropped(asked.subject, field, gates.PRIORITIZED_LIST)


def _selectors_beyond_gates(manifests: Manifests) -> Iterator[Observation]:
    """Selectors that kube-scheduler reads whatever is on, and the API server refuses in new objects."""
    features = manifests.features
    off = gates.CONSUMABLE_CAPACITY if not features.has(gates.CONSUMABLE_CAPACITY) else ""
    for selector in manifests.with_a_cost:
        program = cel.compile(selector.expression, features.environment)
        if off and ("allowMultipleAllocations",) in program.reads.paths:
            problem = f"device.allowMultipleAllocations: the API server knows no such field while {off} is off"
            yield Observation(selector.subject, f"{selector.field}: {problem}", selector.field)
        if not features.has(gates.LIST_TYPE_ATTRIBUTES):
            try:
                cel.compile(selector.expression, features.release.new_environment)
            except cel.CompileError as error:
                problem = f"{error.message}: the API server refuses it while {gates.LIST_TYPE_ATTRIBUTES} is off"
                yield Observation(selector.subject, f"{selector.field}: {problem}", selector.field)


def _dropped(subject: ObjectName, field: str, gate: str) -> Observation:
    turned_on = f"--feature-gates {gate}=true turns it on"
    message = f"{field}: is dropped, because {gate} is off ({turned_on}), and without it the object is invalid"
    return Observation(subject, message, field)


INVALID_OBJECT = Check(
    "invalid-object",
    FindingLevel.ERROR,
    "The API server would refuse an object.",
    "Correct the field that the message names.",
    _invalid_object,
)


NEAR = 0.9
"""Share of a limit from which on it is reported."""

LimitUse = tuple[ObjectName, str, str, int, int]
"""Object, field, what it has, how many there are, and at most."""


def _near_limit(manifests: Manifests) -> Iterator[Observation]:
    for subject, field, what, number, limit in (*_entries_of_requests(manifests), *_consumers_of_claims(manifests)):
        if number >= NEAR * limit:
            yield Observation(subject, f"has {number} of at most {limit} {what}", field)


def _entries_of_requests(manifests: Manifests) -> Iterator[LimitUse]:
    for asked in manifests.asked:
        requests = asked.claim.requests
        at = f"{asked.path}.devices"
        yield asked.subject, f"{at}.requests", "requests", len(requests), REQUESTS_MAX
        yield asked.subject, f"{at}.constraints", "constraints", len(asked.claim.constraints), CONSTRAINTS_MAX
        for number, request in enumerate(requests):
            path = f"{at}.requests[{number}]"
            if request.is_first_available:
                number_of_entries = len(request.alternatives)
                yield (
                    asked.subject,
                    f"{path}.firstAvailable",
                    f"subrequests of {request.name}",
                    number_of_entries,
                    ALTERNATIVES_MAX,
                )
            number_of_entries = max((len(way.selectors) for way in request.alternatives), default=0)
            yield asked.subject, f"{path}.selectors", f"selectors of {request.name}", number_of_entries, SELECTORS_MAX
        counts = [max((one.count for one in request.alternatives), default=0) for request in requests]
        yield asked.subject, f"{at}.requests[*].count", "devices", sum(counts), MAX_RESULTS


def _consumers_of_claims(manifests: Manifests) -> Iterator[LimitUse]:
    for (namespace, name), claim_object in sorted(manifests.inventory.claims.items()):
        subject = ObjectName("ResourceClaim", name, namespace)
        yield subject, "status.reservedFor", "consumers", len(claim_object.reserved_for), RESERVED_FOR_MAX


NEAR_LIMIT = Check(
    "near-limit",
    FindingLevel.WARNING,
    "An object is close to a limit of the API.",
    "Split it: several claims for a pod, or several claims for many pods.",
    _near_limit,
)


def _old_version(manifests: Manifests) -> Iterator[Observation]:
    for subject, version, served in manifests.versions():
        if version in served[1:]:
            yield Observation(subject, f"is of version {version}, not {served[0]}", "apiVersion")


OLD_VERSION = Check(
    "old-version",
    FindingLevel.WARNING,
    "An object is of a version that the API server will stop serving.",
    "Use the newest version that the release serves: `kubectl get -o yaml` prints it.",
    _old_version,
)


class _FieldOfGate(NamedTuple):
    """A field of slices that came with a gate: a release without the gate does not have the field."""

    gate: str
    field: str
    is_in: Callable[[Slice], object]


def has_list(device: Device) -> bool:
    """Whether an attribute of the device is a list."""
    return any(isinstance(value, tuple) for _, value in device.attributes.values())


def has_groups(slice_: Slice) -> bool:
    """Whether a device of the slice names compatibility groups."""
    return any(consumed.compatibility_groups for device in slice_.devices for consumed in device.consumes_counters)


_OF_SLICES = (
    _FieldOfGate(
        gates.LIST_TYPE_ATTRIBUTES,
        "spec.devices[*].attributes[*] with bools, ints, strings or versions",
        lambda one: any(map(has_list, one.devices)),
    ),
    _FieldOfGate(
        gates.NODE_ALLOCATABLE_RESOURCES,
        "spec.devices[*].nodeAllocatableResources",
        lambda one: any(device.node_allocatable for device in one.devices),
    ),
    _FieldOfGate(gates.COMPATIBILITY_GROUPS, "spec.devices[*].consumesCounters[*].compatibilityGroups", has_groups),
    _FieldOfGate(gates.OPTIONAL_NODE_OPERATIONS, "spec.skipNodeOperations", lambda one: one.skip_node_operations),
)


def _unknown_field(manifests: Manifests) -> Iterator[Observation]:
    yield from manifests.reported(FindingReason.UNKNOWN_FIELD)
    release = manifests.features.release
    for subject, field, gate in (*_of_slices(manifests), *_of_requests(manifests)):
        message = f"unknown field in Kubernetes {release.name}: it came with {gate} in {release.later_with(gate)}"
        yield Observation(subject, f"{field}: {message}", field)
    if not versions_of(PodGroup.__name__, release.name, SERVED):
        for checked in manifests.pods:
            if checked.pod.group and "/" not in checked.pod.group:  # a workloadRef of 1.35 names two
                field = f"{checked.path}.schedulingGroup"
                message = f"unknown field in Kubernetes {release.name}: it came with GenericWorkload in 1.36"
                yield Observation(checked.subject, f"{field}: {message}", field)


def _of_slices(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    """Slices with fields that the release does not have, the field, and its gate."""
    newer = [one for one in _OF_SLICES if one.gate not in manifests.features.release.gates]
    for slice_ in manifests.inventory.slices if newer else ():
        yield from (
            (ObjectName("ResourceSlice", slice_.name), one.field, one.gate) for one in newer if one.is_in(slice_)
        )


def _of_requests(manifests: Manifests) -> Iterator[tuple[ObjectName, str, str]]:
    """The same of what claims and templates ask for."""
    if gates.DERIVED_ATTRIBUTES in manifests.features.release.gates:
        return
    for asked in manifests.asked:
        for at, alternative in alternatives_of(asked):
            if alternative.derived_attributes:
                yield asked.subject, f"{at}.derivedAttributes", gates.DERIVED_ATTRIBUTES


UNKNOWN_FIELD = Check(
    "unknown-field",
    FindingLevel.ERROR,
    "An object has an unknown field: `kubectl apply` refuses it; without validation, the API server drops the field.",
    "Correct the field that the message names, or move it to where it belongs.",
    _unknown_field,
)


def _unreadable_input(manifests: Manifests) -> Iterator[Observation]:
    return manifests.reported(FindingReason.UNREADABLE)


UNREADABLE_INPUT = Check(
    "unreadable-input",
    FindingLevel.ERROR,
    "A file or a document cannot be read, and nothing in it is checked.",
    "Correct it, or leave it out.",
    _unreadable_input,
)


def _unused_input(manifests: Manifests) -> Iterator[Observation]:
    return manifests.reported(FindingReason.UNUSED)


UNUSED_INPUT = Check(
    "unused-input",
    FindingLevel.WARNING,
    "A part of the input has no effect, or cannot be checked.",
    "Check that nothing depends on it.",
    _unused_input,
)


# Limits per tenant, which a configuration says: what is not as its author meant it.


def _limit_subject(limit: TenantLimit) -> ObjectName:
    return ObjectName("limit", limit.name)


def _selects_nothing(manifests: Manifests) -> Iterator[Observation]:
    """Without slices, or namespaces, in the input nothing is known of them."""
    snapshot, labels = manifests.cluster.fleet.current, manifests.namespaces
    for limit in manifests.limits:
        if problem := _without_devices(limit, snapshot) if snapshot.by_pool else "":
            yield Observation(_limit_subject(limit), problem, "count")
        whom = limit.namespaces
        if labels and not any(whom.has(name, own) for name, own in labels.items()):
            yield Observation(_limit_subject(limit), "no namespace of the input is one of its namespaces", "namespaces")


def _without_devices(limit: TenantLimit, snapshot: Snapshot) -> str:
    expressions = limit.counted.expressions(snapshot.classes)
    if expressions is None:
        return f"device class {limit.counted.class_name} does not exist"
    if snapshot.limited.published.of(limit.counted, expressions, snapshot).largest:
        return ""
    if not limit.counted.name:
        return "it counts no device of the input"
    return f"no device of the input has its {limit.counted.unit} {limit.counted.name}"


LIMIT_SELECTS_NOTHING = Check(
    "limit-selects-nothing",
    FindingLevel.WARNING,
    "A limit per tenant counts no device of the input, or holds for no namespace of it.",
    "Check the names of class, driver, capacity, counter and namespaces, and the selectors.",
    _selects_nothing,
)


def _never_met(manifests: Manifests) -> Iterator[Observation]:
    snapshot = manifests.cluster.fleet.current
    for number, limit in enumerate(manifests.limits):
        expressions = limit.counted.expressions(snapshot.classes)
        if limit.soft or expressions is None:
            continue
        least = snapshot.limited.published.of(limit.counted, expressions, snapshot).smallest
        most = snapshot.limited.terms_of((number, ""), snapshot).most
        if most < least:
            text = f"it allows {limit.text_of(most)}, and no device counts for less than {limit.text_of(least)}"
            yield Observation(_limit_subject(limit), text, "most" if limit.most is not None else "share")


LIMIT_NEVER_MET = Check(
    "limit-never-met",
    FindingLevel.WARNING,
    "A limit per tenant allows less than one device counts for: its tenants can get no such device.",
    "Raise `most` or `share`, unless they are to have none.",
    _never_met,
)


def _exceeded(manifests: Manifests) -> Iterator[Observation]:
    claims = [one.claim for one in manifests.inventory.claims.values() if one.claim.allocation is not None]
    now = manifests.cluster.fleet.current
    snapshot = now.with_limits(LimitsInForce(manifests.limits, manifests.namespaces), claims)
    for status in limit_statuses(snapshot):
        if status.is_exceeded:
            yield Observation(_limit_subject(status.limit), exceeded_text(status), "most")


LIMIT_EXCEEDED = Check(
    "limit-exceeded",
    FindingLevel.WARNING,
    "More is in use already than a limit per tenant allows. Claims keep what they have.",
    "Raise the limit, or delete claims: until then its tenants get nothing more that counts.",
    _exceeded,
)


def _refused_tree(manifests: Manifests) -> Iterator[Observation]:
    composites = manifests.inventory.of(CompositePodGroup)
    index = index_of(manifests.inventory.of(PodGroup), composites)
    for root in _roots(composites, index):
        if problem := tree_of(root, index)[1]:
            yield Observation(ObjectName(CompositePodGroup.__name__, root.name, root.namespace), problem)


def _roots(composites: Sequence[CompositePodGroup], index: PodGroupIndex) -> Iterator[CompositePodGroup]:
    """Those that are in no other, and of each circle, however long, the first by name. Cost: O(composites)."""
    seen: set[NamespacedName] = set()
    for first in composites:
        path: dict[NamespacedName, CompositePodGroup] = {}
        at: CompositePodGroup | None = first
        while at is not None and at.key not in seen:
            seen.add(at.key)
            path[at.key] = at
            if not at.parent:
                yield at
            at = index.composite(at.namespace, at.parent)
        if at is not None and at.key in path:
            around = list(path.values())
            yield min(around[around.index(at) :], key=lambda one: one.name)


REFUSED_TREE = Check(
    "refused-tree",
    FindingLevel.ERROR,
    "A CompositePodGroup and the groups in it do not go together: none of their pods is ever scheduled.",
    "Change the group that the message names: docs/groups.md says what a tree of groups may be.",
    _refused_tree,
)


RULES: Sequence[Check[Manifests]] = (
    UNREADABLE_INPUT,
    INVALID_OBJECT,
    UNKNOWN_FIELD,
    DUPLICATE_OBJECT,
    SELECTOR_TOO_EXPENSIVE,
    ADMIN_ACCESS_WITHOUT_LABEL,
    SELECTOR_FAILS,
    UNKNOWN_ATTRIBUTE,
    MISSING_CLASS,
    MISSING_CLAIM,
    UNKNOWN_REQUEST,
    UNSATISFIABLE_REQUEST,
    UNDECIDED_REQUEST,
    SELECTOR_MATCHES_NONE,
    SELECTOR_COST,
    CLASS_WITHOUT_SELECTORS,
    TAINTS_EVERYTHING,
    TAINTS_NOTHING,
    CAPACITY_WITHOUT_POLICY,
    UNUSED_CLAIM,
    UNSHAREABLE_CLAIM,
    OVERSIZED_POD,
    UNUSABLE_POOL,
    REFUSED_TREE,
    LIMIT_SELECTS_NOTHING,
    LIMIT_NEVER_MET,
    LIMIT_EXCEEDED,
    NEAR_LIMIT,
    OLD_VERSION,
    GATE_OFF,
    UNUSED_INPUT,
    SELECTOR_MATCHES_ALL,
)
