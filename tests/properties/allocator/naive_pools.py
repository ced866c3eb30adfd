"""The naive search's pools: which slices a node sees of the cluster, and which pools it can trust.

Source: KEP-4381; KEP-4815 for counter sets.
"""

from collections.abc import Sequence
from typing import NamedTuple

from allocator.gates import COMPATIBILITY_GROUPS, PARTITIONABLE_DEVICES, Features
from allocator.model import Device, DeviceID, Node, PoolID, Reach, Requirement, Slice, Term
from allocator.outcome import InvalidPool
from tests.properties.allocator.instance import Instance


class Published(NamedTuple):
    """A device and the slice that publishes it."""

    device: Device
    slice_: Slice

    @property
    def id(self) -> DeviceID:
        return self.device.id


class NaivePool(NamedTuple):
    """A pool as a node sees it. whole: its slices on all nodes. defect: why it cannot be used, empty where it can."""

    id: PoolID
    slices: tuple[Slice, ...]
    whole: tuple[Slice, ...]
    defect: str

    @property
    def devices(self) -> list[Published]:
        return [Published(device, slice_) for slice_ in self.slices for device in offered(slice_)]

    @property
    def everywhere(self) -> list[Device]:
        return [device for slice_ in self.whole for device in offered(slice_)]


def pools_of(instance: Instance, node: Node) -> list[NaivePool]:
    """The pools that the node sees, in canonical order."""
    features = instance.features
    known = [slice_ for slice_ in instance.slices if is_known(slice_, features)]
    seen = [slice_ for slice_ in known if is_relevant(slice_, features, node)]
    ids = sorted({slice_.pool_id for slice_ in seen})
    pools = [pool_of([p for p in seen if p.pool_id == one], instance.slices, features) for one in ids]
    present = [pool for pool in pools if pool is not None]
    usable = [pool for pool in present if not pool.defect]
    waiting = [pool for pool in usable if any(one.device.binding_conditions for one in pool.devices)]
    return [pool for pool in present if pool not in waiting] + waiting


def is_known(slice_: Slice, features: Features) -> bool:
    """False for a slice that needs a gate that is off."""
    if not features.has(PARTITIONABLE_DEVICES) and (slice_.reach.per_device or slice_.counter_sets):
        return False
    return features.has(COMPATIBILITY_GROUPS) or not has_groups(slice_)


def has_groups(slice_: Slice) -> bool:
    return any(consumes.compatibility_groups for device in slice_.devices for consumes in device.consumes_counters)


def is_relevant(slice_: Slice, features: Features, node: Node) -> bool:
    if slice_.counter_sets and features.release.counter_slices_reach_all:
        return True
    if slice_.reach.per_device:
        return any(reached(device.reach, node) for device in offered(slice_))
    return reached(slice_.reach, node)


def pool_of(seen: Sequence[Slice], everywhere: Sequence[Slice], features: Features) -> NaivePool | None:
    """The pool of these slices, None where all that is seen of it is obsolete."""
    pool_id, newest = seen[0].pool_id, max(slice_.generation for slice_ in seen)
    of_pool = [slice_ for slice_ in everywhere if slice_.pool_id == pool_id]
    kept = tuple(sorted((slice_ for slice_ in seen if slice_.generation == newest), key=by_name))
    is_complete = len(kept) == kept[0].slice_count
    is_obsolete = any(slice_.generation > newest for slice_ in of_pool)
    if is_obsolete and not (is_complete and features.is_strict):
        return None
    if is_complete:
        return NaivePool(pool_id, kept, kept, contradiction(kept, kept, features))
    rest = [p for p in of_pool if p.generation == newest and p not in kept]
    if not features.has(COMPATIBILITY_GROUPS):
        rest = [slice_ for slice_ in rest if not has_groups(slice_)]
    whole = (*kept, *sorted(rest, key=by_name))
    if len(whole) != kept[0].slice_count:
        return NaivePool(pool_id, kept, whole, "incomplete")
    return NaivePool(pool_id, kept, whole, contradiction(kept, whole, features))


def by_name(slice_: Slice) -> str:
    return slice_.name


def contradiction(kept: Sequence[Slice], whole: Sequence[Slice], features: Features) -> str:
    if has_duplicates([device.name for slice_ in kept for device in offered(slice_)]):
        return "invalid: a device name is published twice"
    if not features.has(PARTITIONABLE_DEVICES):
        return ""
    sets = [counter_set for slice_ in whole for counter_set in slice_.counter_sets]
    if has_duplicates([counter_set.name for counter_set in sets]):
        return "invalid: a counter set is published twice"
    published = {counter_set.name: counter_set.counters for counter_set in sets}
    for device in (device for slice_ in whole for device in offered(slice_)):
        for consumes in device.consumes_counters:
            if not consumes.counters.keys() <= published.get(consumes.counter_set, {}).keys():
                return "invalid: a counter is not published"
            if consumes.counter_set not in published:
                return "invalid: a counter set is not published"
    return ""


def offered(slice_: Slice) -> tuple[Device, ...]:
    """The devices of a slice; one with counter sets offers none."""
    return () if slice_.counter_sets else slice_.devices


def has_duplicates(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


# -- nodes


def reached(reach: Reach, node: Node) -> bool:
    if reach.node_name:
        return reach.node_name == node.name
    if reach.all_nodes:
        return True
    # All terms are looked at before one may match: what makes no sense is an error wherever it stands.
    matches = [term_matches(term, node) for term in reach.node_selector or ()]
    return any(matches)


def term_matches(term: Term, node: Node) -> bool:
    held = [requirement_holds(requirement, node.labels.get(requirement.key)) for requirement in term.expressions]
    held += [requirement_holds(requirement, node.name) for requirement in term.fields]
    return bool(held) and all(held)


def requirement_holds(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "Exists":
            return value is not None
        case "Gt":
            return is_greater(value, *requirement.values)
        case other:
            raise AssertionError(f"the random clusters do not know {other}")


def is_greater(value: str | None, bound: str) -> bool:
    if not bound.isdigit():
        raise InvalidPool("a bound that is no integer")
    return value is not None and value.isdigit() and int(value) > int(bound)
