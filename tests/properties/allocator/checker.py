"""What is wrong with an allocation, by what the API promises about one: an independent look at the result alone.

It does not know in which order choices are tried or what made them, only what holds of every valid answer.
Source: the field documentation of resource.k8s.io/v1 (ResourceClaim, ResourceSlice), KEP-4381 and the KEPs of features.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import cel
from allocator.gates import (
    BINDING_CONDITIONS,
    COMPATIBILITY_GROUPS,
    CONSUMABLE_CAPACITY,
    DEVICE_TAINTS,
    LIST_TYPE_ATTRIBUTES,
    OPTIONAL_NODE_OPERATIONS,
    PARTITIONABLE_DEVICES,
)
from allocator.model import (
    Allocation,
    Alternative,
    Claim,
    Constraint,
    Device,
    DeviceID,
    DeviceResult,
    Node,
    NodeSelector,
    Reach,
    Requirement,
    Slice,
    Taint,
)
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.naive_devices import by_full_name, exact, full_name, holds

Published = tuple[Slice, Device]
CounterID = tuple[str, str, str, str]


def complaints(instance: Instance, node: Node, allocations: Sequence[Allocation]) -> list[str]:
    """Everything that is wrong with these allocations for the claims on the node; empty if they are valid."""
    return list(Checker(instance, node, allocations).complaints())


class Checker:
    """The devices of a cluster as a node sees them, and who holds which of them."""

    def __init__(self, instance: Instance, node: Node, allocations: Sequence[Allocation]) -> None:
        self.instance = instance
        self.features = instance.features
        self.node = node
        self.allocations = allocations
        self.results = [result for allocation in allocations for result in allocation.results]
        self.classes = {one.name: one for one in instance.classes}
        self.published = self.seen_by_node()
        allocated = [claim.allocation for claim in instance.held if claim.allocation]
        self.held = [result for one in allocated for result in one.results if not result.admin_access]

    def seen_by_node(self) -> Mapping[DeviceID, list[Published]]:
        """The devices of the newest generation of each pool that the node reaches."""
        slices = [slice_ for slice_ in self.instance.slices if self.is_known(slice_)]
        found: dict[DeviceID, list[Published]] = {}
        for slice_ in slices:
            for device in slice_.devices if self.is_newest(slice_) else ():
                if reaches(slice_, device, self.node):
                    found.setdefault(device.id, []).append((slice_, device))
        return found

    def is_known(self, slice_: Slice) -> bool:
        """False for slices that are not looked at as long as their feature is off."""
        groups = [c.compatibility_groups for device in slice_.devices for c in device.consumes_counters]
        if any(groups) and not self.features.has(COMPATIBILITY_GROUPS):
            return False
        return self.features.has(PARTITIONABLE_DEVICES) or not slice_.reach.per_device

    def is_newest(self, slice_: Slice) -> bool:
        return slice_.generation == max(p.generation for p in self.instance.slices if p.pool_id == slice_.pool_id)

    def complaints(self) -> Iterator[str]:
        if len(self.allocations) != len(self.instance.claims):
            yield f"{len(self.allocations)} allocations for {len(self.instance.claims)} claims"
        for claim, allocation in zip(self.instance.claims, self.allocations, strict=False):
            yield from self.of_devices(claim, allocation)
            yield from self.of_requests(claim, allocation)
            yield from self.of_config(claim, allocation)
            yield from self.of_node_selector(allocation)
            for constraint in claim.constraints:
                yield from self.of_constraint(claim, constraint, allocation)
        yield from self.of_occupation()
        yield from self.of_shares()
        yield from self.of_counters()
        yield from self.of_groups()

    # -- each device by itself

    def of_devices(self, claim: Claim, allocation: Allocation) -> Iterator[str]:
        alternatives = {a.name: a for request in claim.requests for a in request.alternatives}
        if len(allocation.results) > 32:
            yield f"{len(allocation.results)} devices, more than a claim may hold"
        for result in allocation.results:
            found = self.published.get(result.id, [])
            if len(found) != 1:
                yield f"{result.id} is published {len(found)} times for the node"
            elif result.request not in alternatives:
                yield f"{result.request} is no request of the claim"
            else:
                yield from self.of_device(alternatives[result.request], result, *found[0])

    def of_device(self, alternative: Alternative, result: DeviceResult, slice_: Slice, device: Device) -> Iterator[str]:
        if not self.is_match(alternative, device):
            yield f"{result.id} does not match {result.request}"
        if device.unknown_fields:
            yield f"{result.id} carries fields that nobody knows"
        for taint in device.taints if self.features.has(DEVICE_TAINTS) else ():
            if not self.is_harmless(taint, alternative):
                yield f"{result.id} is tainted {taint.key}, and the taint is not tolerated"
        if device.consumes_counters and not self.features.has(PARTITIONABLE_DEVICES):
            yield f"{result.id} consumes counters, and nobody counts"
        can_skip = OPTIONAL_NODE_OPERATIONS in self.node.declared_features and self.features.has(
            OPTIONAL_NODE_OPERATIONS
        )
        if slice_.skip_node_operations and not can_skip:
            yield f"{result.id} needs a node that can skip operations"
        if device.binding_conditions and not self.features.has(BINDING_CONDITIONS):
            yield f"{result.id} has conditions, and nobody waits for them"
        copied = (
            (result.admin_access, bool(alternative.admin_access)),
            (result.tolerations, alternative.tolerations),
            (result.binding_conditions, device.binding_conditions),
            (result.binding_failure_conditions, device.binding_failure_conditions),
            (result.skip_node_operations, slice_.skip_node_operations),
        )
        yield from (f"{result.id} has {has} in its result, not {wanted}" for has, wanted in copied if has != wanted)

    def is_match(self, alternative: Alternative, device: Device) -> bool:
        expressions = (*self.classes[alternative.class_name].selectors, *alternative.selectors)
        return all(holds(expression or "", self.features, device) for expression in expressions)

    def is_harmless(self, taint: Taint, alternative: Alternative) -> bool:
        return taint.effect not in ("NoSchedule", "NoExecute") or any(
            (not t.effect or t.effect == taint.effect)
            and (not t.key or t.key == taint.key)
            and (t.operator == "Exists" or t.value == taint.value)
            for t in alternative.tolerations
        )

    # -- what is asked for

    def of_requests(self, claim: Claim, allocation: Allocation) -> Iterator[str]:
        order = [request.name for request in claim.requests]
        places = [order.index(name) for r in allocation.results if (name := r.request.partition("/")[0]) in order]
        if places != sorted(places):
            yield "the results are not in the order of the requests"
        for request in claim.requests:
            given = [result for result in allocation.results if result.request.partition("/")[0] == request.name]
            chosen = [a for a in request.alternatives if any(result.request == a.name for result in given)]
            if len(chosen) != 1:
                yield f"{request.name} is satisfied in {len(chosen)} ways"
            for alternative in chosen:
                if alternative.mode == "ExactCount" and len(given) != alternative.count:
                    yield f"{request.name} has {len(given)} devices, not {alternative.count}"
                if alternative.mode == "All":
                    yield from self.of_all(alternative, given)

    def of_all(self, alternative: Alternative, given: Sequence[DeviceResult]) -> Iterator[str]:
        for device, found in self.published.items():
            if device not in {result.id for result in given} and self.is_meant_by_all(alternative, found[0][1]):
                yield f"{alternative.name} is for all devices, and lacks {device}"

    def is_meant_by_all(self, alternative: Alternative, device: Device) -> bool:
        """What a capacity has to offer is not judged here: a device with any may be left out for that."""
        if device.unknown_fields or (device.binding_conditions and not self.features.has(BINDING_CONDITIONS)):
            return False
        may_be_short = device.capacity or alternative.capacity
        return not may_be_short and self.is_match(alternative, device)

    # -- constraints

    def of_constraint(self, claim: Claim, constraint: Constraint, allocation: Allocation) -> Iterator[str]:
        alternatives = {a.name: a for request in claim.requests for a in request.alternatives}
        name = constraint.match_attribute or constraint.distinct_attribute
        values = [
            self.values_of(alternatives[result.request], self.published[result.id][0][1], name)
            for result in allocation.results
            if is_covered(result.request, constraint) and result.request in alternatives and result.id in self.published
        ]
        if not all(values):
            yield f"a device under a constraint has no {name}"
        elif constraint.match_attribute:
            if values and not frozenset.intersection(*values):
                yield f"{name} has no value that all devices have"
        elif sum(map(len, values)) > len(frozenset[object]().union(*values)):
            yield f"{name} is not different on all devices"

    def values_of(self, alternative: Alternative, device: Device, name: str) -> frozenset[object]:
        """What is compared: the values of a list, where lists are compared; otherwise a list is its own value."""
        derived = dict(alternative.derived_attributes)
        domain, _, short = name.partition("/")
        own_domain = device.attributes.get(short) if domain == device.driver else None
        found = device.attributes.get(name, own_domain)
        if name in derived:
            found = cel.compile_value(derived[name], self.features.environment).evaluate(device)
        if found is None or (found[1] is None and self.features.has(LIST_TYPE_ATTRIBUTES)):
            return frozenset()
        if isinstance(found[1], tuple) and self.features.has(LIST_TYPE_ATTRIBUTES):
            return frozenset((found[0].removesuffix("s"), value) for value in found[1])
        is_list = isinstance(found[1], tuple) or found[1] is None
        if found[0] == "version" and not self.features.release.compares_as_written:
            return frozenset([("version", str(found[1]).partition("+")[0])])
        return frozenset([(device.id, found)] if is_list else [tuple(found)])

    # -- who holds what

    def is_shared(self, device: DeviceID) -> bool:
        is_known = self.features.has(CONSUMABLE_CAPACITY) and device in self.published
        return is_known and self.published[device][0][1].allow_multiple_allocations

    def of_occupation(self) -> Iterator[str]:
        whole = {r.id for r in self.held if not r.share_id or not self.features.has(CONSUMABLE_CAPACITY)}
        given = Counter(result.id for result in self.results if not result.admin_access)
        for allocation in self.allocations:
            in_claim = Counter(result.id for result in allocation.results)
            in_request = Counter((result.request, result.id) for result in allocation.results)
            for device, times in in_claim.items():
                if times > 1 and not self.is_shared(device):
                    yield f"{device} is given {times} times in a claim"
            yield from (f"{key} is given {times} times" for key, times in in_request.items() if times > 1)
        for device, times in given.items():
            if device in whole:
                yield f"{device} is held by another claim"
            if self.is_shared(device):
                continue
            if times > 1:
                yield f"{device} is given {times} times"
            if any(result.id == device for result in self.held):
                yield f"{device} is given wholly, and shares of it are held"

    def of_shares(self) -> Iterator[str]:
        claims = zip(self.instance.claims, self.allocations, strict=False)
        for claim, allocation in claims:
            alternatives = {a.name: a for request in claim.requests for a in request.alternatives}
            for result in allocation.results:
                if bool(result.share_id) != self.is_shared(result.id):
                    yield f"{result.id} has share id {result.share_id!r}"
                if result.share_id and result.id in self.published and result.request in alternatives:
                    yield from self.of_share(alternatives[result.request], result, self.published[result.id][0][1])
        for device in {result.id for result in self.results if result.share_id and result.id in self.published}:
            shares = [r for r in (*self.held, *self.results) if r.id == device and r.share_id]
            for name, value in self.published[device][0][1].capacity.items():
                own = [by_full_name(one.consumed_capacity, one.driver) for one in shares]
                taken = sum(10**9 * one.get(full_name(name, device.driver), 0) for one in own)
                if taken > value.nanos:
                    yield f"{device} has {value} of {name}, and {Fraction(taken, 10**9)} are taken"

    def of_share(self, alternative: Alternative, result: DeviceResult, device: Device) -> Iterator[str]:
        if result.consumed_capacity.keys() != device.capacity.keys():
            yield f"{result.id} has the capacities {sorted(device.capacity)}, not {sorted(result.consumed_capacity)}"
        given = by_full_name(result.consumed_capacity, result.driver)
        for name, wanted in (alternative.capacity or {}).items():
            if given.get(full_name(name, result.driver), -1) < exact(wanted):
                yield f"{result.id} gives less {name} than is wanted"
        for name, taken in result.consumed_capacity.items():
            policy = device.policies.get(name)
            if policy is None or taken == policy.default:
                continue
            bounds = policy.valid_range
            if policy.valid_values and taken not in policy.valid_values:
                yield f"{taken} is no valid value of {name}"
            if bounds and ((bounds.maximum and taken > bounds.maximum) or (bounds.minimum and taken < bounds.minimum)):
                yield f"{taken} is out of the range of {name}"

    # -- counters and groups

    def drawing(self) -> dict[DeviceID, Device]:
        """The devices that are held or given, of any node, each once."""
        known = {d.id: d for slice_ in self.instance.slices if self.is_newest(slice_) for d in slice_.devices}
        return {one.id: known[one.id] for one in (*self.held, *self.results) if one.id in known}

    def newly_given(self) -> list[Device]:
        """Given devices that nobody has a share of yet: only these have to find counters left."""
        before = {result.id for result in self.held}
        return [self.published[r.id][0][1] for r in self.results if r.id not in before and r.id in self.published]

    def of_counters(self) -> Iterator[str]:
        left: Counter[CounterID] = Counter()
        for slice_ in self.instance.slices:
            for counter_set in slice_.counter_sets:
                for name, value in counter_set.counters.items():
                    left[(*slice_.pool_id, counter_set.name, name)] = value.nanos
        for device in self.drawing().values():
            left.subtract(drawn(device))
        touched = {key for device in self.newly_given() for key in drawn(device)}
        yield from (f"{key} is drawn on by {-left[key]} too much" for key in touched if left[key] < 0)

    def of_groups(self) -> Iterator[str]:
        if not self.features.has(COMPATIBILITY_GROUPS):
            return
        for device in self.newly_given():
            for own in device.consumes_counters:
                groups = [
                    set(other.compatibility_groups)
                    for one in self.drawing().values()
                    if (one.driver, one.pool) == (device.driver, device.pool) and one.id in self.given_ids()
                    for other in one.consumes_counters
                    if other.counter_set == own.counter_set
                ]
                if any(groups) and not set.intersection(*groups):
                    yield f"the devices on {own.counter_set} have no group in common"

    def given_ids(self) -> set[DeviceID]:
        return {result.id for result in self.results}

    # -- configuration and node selector

    def of_config(self, claim: Claim, allocation: Allocation) -> Iterator[str]:
        chosen = {result.request for result in allocation.results}
        known = chosen | {name.partition("/")[0] for name in chosen}
        used = [a.class_name for request in claim.requests for a in request.alternatives if a.name in chosen]
        of_classes = [config.opaque for name in dict.fromkeys(used) for config in self.classes[name].config]
        if [config.opaque for config in allocation.config if config.source == "FromClass"] != of_classes:
            yield "the configuration of the classes is not there once, in the order of their first use"
        of_claim = [config.opaque for config in allocation.config if config.source == "FromClaim"]
        for config in claim.config:
            is_needed = not config.requests or not known.isdisjoint(config.requests)
            if is_needed is not (config.opaque in of_claim):
                yield "configuration of the claim is missing, or there for requests that do not use it"
        for written in allocation.config:
            named = {name for config in claim.config for name in config.requests}
            if unknown := set(written.requests) - known - named:
                yield f"configuration for {unknown}, which nobody named"

    def of_node_selector(self, allocation: Allocation) -> Iterator[str]:
        selector = allocation.node_selector
        if not is_selected(selector, self.node):
            yield "the node selector does not select the node"
        for node in self.instance.nodes:
            if is_selected(selector, node):
                yield from (
                    f"the node selector selects {node.name}, which does not reach {result.id}"
                    for result in allocation.results
                    if not any(reaches(slice_, d, node) for slice_, d in self.published.get(result.id, []))
                )
                if node != self.node and is_bound(allocation, self.published):
                    yield f"a device binds to {self.node.name}, and the node selector selects {node.name} too"


def is_bound(allocation: Allocation, published: Mapping[DeviceID, list[Published]]) -> bool:
    return any(device.binds_to_node for result in allocation.results for _, device in published.get(result.id, []))


def drawn(device: Device) -> Counter[CounterID]:
    return Counter(
        {
            (device.driver, device.pool, consumes.counter_set, name): amount.nanos
            for consumes in device.consumes_counters
            for name, amount in consumes.counters.items()
        }
    )


def is_covered(request: str, constraint: Constraint) -> bool:
    return not constraint.requests or request in constraint.requests or request.partition("/")[0] in constraint.requests


def reaches(slice_: Slice, device: Device | None, node: Node) -> bool:
    """The node reaches the device, or any device of the slice."""
    if not slice_.reach.per_device:
        return is_reached(slice_.reach, node)
    return any(is_reached(one.reach, node) for one in slice_.devices if device is None or one is device)


def is_reached(reach: Reach, node: Node) -> bool:
    if reach.node_name or reach.all_nodes:
        return reach.all_nodes or reach.node_name == node.name
    return reach.node_selector is not None and is_selected(reach.node_selector, node)


def is_selected(selector: NodeSelector | None, node: Node) -> bool:
    """One term holds altogether; a requirement that makes no sense holds of no node."""
    if selector is None:
        return True
    return any(
        all(is_held(one, node.labels) for one in term.expressions)
        and all(is_held(one, {"metadata.name": node.name}) for one in term.fields)
        for term in selector
    )


def is_held(requirement: Requirement, values: Mapping[str, str]) -> bool:
    value = values.get(requirement.key)
    if requirement.operator == "Exists":
        return value is not None
    return requirement.operator == "In" and value in requirement.values
