"""When two nodes, or two claims, are alike for a decision."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter, is_
from typing import Final

import cel
from allocator.allocate import pools_looked_at
from allocator.cluster.node_affinity import InvalidNodeSelector, reaches
from allocator.cluster.pools import NodeView, Pool, has_counters
from allocator.cluster.snapshot import NOT_FOR_DEVICES, ReadKey, Snapshot
from allocator.constraints import equal_values, own_values
from allocator.features import FEATURES
from allocator.limits import Bindings
from allocator.memo import deciding, exact, is_exactly, values_of
from allocator.model import TRAITS, Claim, Device, DeviceClass, Node, Request, Slice
from allocator.outcome import Allocated, AllocationError, Budget
from allocator.policies.contract import FIRST_FIT, Policy
from cel import Cancelled

# Nodes are alike in three strengths. Each is a number that alike nodes share, and each overlooks more:
#
#   as it is             `Fingerprints`  all that a node reaches, but for names
#   as it is read        `Projection`    of devices only what certain claims, features and the policy read
#   as it is told apart  `Countings`     of what selectors and constraints read only which devices pass, and are equal
#
# Nodes with one fingerprint and the same of their devices in use form a `NodeGroup`. Where claims tell nodes apart,
# they also say which slices count, so that what is in use of the others makes no difference either.


INVALID: Final = -1
"""The fingerprint, and the projection, of a node whose pools cannot be determined."""


@dataclass(slots=True, eq=False)
class NodeAsItIs:
    """A node, and the pools that it reaches; None if they cannot be determined."""

    node: Node
    pools: tuple[Pool, ...] | None = ()
    fingerprint: int = INVALID

    def devices(self) -> Sequence[Device]:
        """The devices of the node in the order of its view."""
        usable = [pool for pool in self.pools or () if pool.is_usable]
        return [device for pool in usable for slice_ in pool.slices for device in slice_.devices]


# As it is: the fingerprint of a slice covers all of it but names, and that of a node the slices that it reaches.
#
# Every field of the model counts, except those listed here with the reason: a feature may read any other. Fingerprints
# of what is gone are kept until they are too many (`is_bloated`); then all are reassigned.


SPARE: Final = 256
"""Fingerprints of what is gone that are always tolerated."""

MOST_PROJECTIONS: Final = 256
"""Projections that are kept, as many as questions: users decide what is read, and each covers the whole fleet."""

_RECENT: Final = 8
"""Slices whose devices a new slice is compared with."""

_NAMES: Final = dict.fromkeys(["name", "pool"], "claims ask for no device by its name")

_OF_DEVICE: Final = deciding(
    Device, {**_NAMES, "driver": "that of the slice", "attributes": "only those that are read, and the unusual ones"}
)
_of_slice = values_of(
    Slice,
    {
        **_NAMES,
        "generation": "the pool decides which slices count; each driver starts where it likes",
        "reach": "a node's fingerprint has the slices that it reaches; `_how_it_is_reached` adds the rest",
        "devices": "have fingerprints of their own",
    },
)
_of_node = values_of(
    Node, {**NOT_FOR_DEVICES, **dict.fromkeys(["name", "labels"], "they decide what is reached, and nothing else")}
)


@dataclass(slots=True, eq=False)
class _KnownSlice:
    """A slice. devices: their fingerprint. whole: its own, None until it is needed.

    by_reach: where devices choose their nodes, by which of them are reached.
    """

    devices: int
    whole: int | None = None
    by_reach: dict[Hashable, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _RecentDevices:
    """The devices of a slice, and their fingerprint. traits: of the slice."""

    fingerprint: int
    devices: Sequence[Device]
    traits: frozenset[str]


class Fingerprints:
    """The fingerprints of slices and nodes, and the projections of them."""

    def __init__(self) -> None:
        self.of_devices = _DeviceFingerprints()
        self._of_slices: dict[Hashable, int] = {}
        self._of_nodes: dict[Hashable, int] = {}
        self._recent: list[_RecentDevices] = []
        self._known: dict[int, _KnownSlice] = {}
        self._device_lists = 0
        self._projections: dict[ReadKey, Projection] = {}

    def is_bloated(self, nodes: int) -> bool:
        """True if most fingerprints are of what is gone."""
        return len(self._of_nodes) > 2 * nodes + SPARE or len(self._of_slices) > 2 * len(self._known) + SPARE

    def of_node(self, node: Node, pools: Iterable[Pool]) -> int:
        """The fingerprint of a node with these pools. Cost: O(devices of slices that were not seen before)."""
        tokens: list[Hashable] = [_of_node(node)]
        for pool in pools:
            tokens.append((bool(pool.missing), bool(pool.contradiction)))
            for slice_ in pool.slices:
                # The use of a slice that other nodes reach too does not belong to the node's own usage.
                shared = None if slice_.reach.node_name else slice_.number
                tokens.append((self.of_slice(slice_, node), shared))
            tokens.append(_counted_elsewhere(pool))
        return _number(self._of_nodes, tuple(tokens))

    def projection(self, reads: ReadKey) -> "Projection":
        """The fingerprints as claims see them that read no more than this; the least recently used are forgotten."""
        projection = self._projections.pop(reads, None) or Projection(self, reads)
        self._projections[reads] = projection
        if len(self._projections) > MOST_PROJECTIONS:
            del self._projections[next(iter(self._projections))]
        return projection

    def of_slice(self, slice_: Slice, node: Node) -> int:
        """The fingerprint of a slice as the node reaches it."""
        prints = self._of_known(slice_)
        if slice_.reach.per_device:
            return self._of_reached(prints, slice_, _reached(slice_, node))
        if prints.whole is None:
            prints.whole = _number(self._of_slices, (prints.devices, _rest_of(slice_)))
        return prints.whole

    def _of_reached(self, known: _KnownSlice, slice_: Slice, reached: Hashable) -> int:
        if known.by_reach is None:
            known.by_reach = {}
        if reached not in known.by_reach:
            known.by_reach[reached] = _number(self._of_slices, (known.devices, _rest_of(slice_), reached))
        return known.by_reach[reached]

    def forget(self, gone: Slice) -> None:
        """Forget a slice that is gone."""
        self._known.pop(gone.number, None)

    def _of_known(self, slice_: Slice) -> _KnownSlice:
        prints = self._known.get(slice_.number)
        if prints is None:
            prints = self._known[slice_.number] = _KnownSlice(self._of_device_list(slice_))
        return prints

    def _of_device_list(self, slice_: Slice) -> int:
        """The fingerprint of the slice's devices; equal ones may have several."""
        for recent in self._recent:
            if slice_.traits == recent.traits and _are_alike(slice_.devices, recent.devices, slice_.traits):
                return recent.fingerprint
        self._device_lists += 1
        self._recent.insert(0, _RecentDevices(self._device_lists, slice_.devices, slice_.traits))
        del self._recent[_RECENT:]
        return self._device_lists


class Projection:
    """Nodes as claims read them that read no more of devices than this."""

    def __init__(self, fingerprints: Fingerprints, reads: ReadKey) -> None:
        self._fingerprints = fingerprints
        self._reads = reads
        self._numbers: dict[Hashable, int] = {}
        self._by_node: dict[int, int] = {}
        self._by_slice: dict[int, int] = {}

    def of(self, node: NodeAsItIs, is_cancelled: Callable[[], bool] = lambda: False) -> int:
        """The same for nodes that are read alike; INVALID if their pools cannot be determined. Raises Cancelled.

        Cost: O(devices of slices with fingerprints not seen before).
        """
        if node.pools is None:
            return INVALID
        projected = self._by_node.get(node.fingerprint)
        if projected is None:
            projected = self._by_node[node.fingerprint] = self._project(node.node, node.pools, is_cancelled)
        return projected

    def _project(self, node: Node, pools: Iterable[Pool], is_cancelled: Callable[[], bool]) -> int:
        tokens: list[Hashable] = [_of_node(node)]
        for pool in pools:
            tokens.append((bool(pool.missing), bool(pool.contradiction)))
            tokens.extend([self._of_slice(slice_, node, is_cancelled) for slice_ in pool.slices])
            tokens.append(_counted_elsewhere(pool))
        return _number(self._numbers, tuple(tokens))

    def _of_slice(self, slice_: Slice, node: Node, is_cancelled: Callable[[], bool]) -> int:
        fingerprint = self._fingerprints.of_slice(slice_, node)
        projected = self._by_slice.get(fingerprint)
        if projected is None:
            if is_cancelled():
                raise Cancelled("cancelled before the devices of a slice were read")
            local = _reached(slice_, node) if slice_.reach.per_device else None
            rest = self._fingerprints.of_devices.rest_of(fingerprint, slice_)
            read = tuple([self._reads.of(device) for device in slice_.devices]) if self._reads.of_attributes else ()
            projected = _number(self._numbers, (rest, local, read))
            self._by_slice[fingerprint] = projected
        return projected


class _DeviceFingerprints:
    """Fingerprints of devices without their names and usual attributes, the same for every projection."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Hashable, tuple[object, int]] = {}
        self._rests: dict[Hashable, int] = {}
        self._rest_of: dict[int, int] = {}

    def rest_of(self, fingerprint: int, slice_: Slice) -> int:
        """A number for all of the slice but names and usual attributes. fingerprint: of the slice."""
        rest = self._rest_of.get(fingerprint)
        if rest is None:
            rest = _number(self._rests, (_rest_of(slice_), self.of(slice_)))
            self._rest_of[fingerprint] = rest
        return rest

    def of(self, slice_: Slice) -> tuple[int, ...]:
        """The fingerprints of the slice's devices."""
        traits, values_of_device = slice_.traits, _reader(slice_.traits)
        return tuple([self._number(traits, values_of_device(device)) for device in slice_.devices])

    def _number(self, traits: frozenset[str], values: tuple[object, ...]) -> int:
        # Equal values of a fleet are mostly one object; they are kept here, so that no other gets their identity.
        key = (traits, *map(id, values))
        numbered = self._known.get(key)
        if numbered is None:
            if len(self._known) > SPARE:
                self._known.clear()
            numbered = self._known[key] = (values, _number(self._numbers, (traits, exact(values))))
        return numbered[1]


@lru_cache(maxsize=256)
def _reader(traits: frozenset[str]) -> Callable[[Device], tuple[object, ...]]:
    """What decides about the devices of a slice with these traits, without what none of them has."""
    named = [name for name in _OF_DEVICE if name not in TRAITS or name in traits]
    return attrgetter(*named, *["unusual"] * ("unusual" in traits))


def _are_alike(left: Sequence[Device], right: Sequence[Device], traits: frozenset[str]) -> bool:
    """True for devices that agree, one by one, in all but their names and pools. traits: those of both slices."""
    if len(left) != len(right):
        return False
    values_of_device = _reader(traits)
    for device, other in zip(left, right, strict=True):
        if device.attributes != other.attributes or not is_exactly(values_of_device(device), values_of_device(other)):
            return False
    return True


def _number(numbers: dict[Hashable, int], token: Hashable) -> int:
    return numbers.setdefault(token, len(numbers))


def shared_slices(pools: Iterable[Pool]) -> Iterable[Slice]:
    """The slices that count for a node with these pools, and for other nodes as well."""
    for pool in pools:
        yield from [slice_ for slice_ in pool.slices if not slice_.reach.node_name]
        if _counted_elsewhere(pool):
            yield from pool.elsewhere


def _counted_elsewhere(pool: Pool) -> tuple[int, ...]:
    """The numbers of the pool's slices on other nodes if its devices draw on counters; otherwise they do not count.

    Cost: O(slices of the pool).
    """
    if not pool.elsewhere or not has_counters(pool.elsewhere):
        return ()
    return tuple([slice_.number for slice_ in pool.elsewhere])


def _rest_of(slice_: Slice) -> Hashable:
    """What decides about a slice besides its devices."""
    rest = tuple([exact(value) if value else value.__class__ for value in _of_slice(slice_)])
    return rest, _how_it_is_reached(slice_)


def _how_it_is_reached(slice_: Slice) -> Hashable:
    reach = slice_.reach
    is_of_one_node = bool(reach.node_name)  # what is in use of it is the node's own; else it is that of several nodes
    is_untold = len(reach.node_selector or ()) > 1  # no allocation can say which nodes reach it
    return is_of_one_node, reach.all_nodes, is_untold


def _reached(slice_: Slice, node: Node) -> Hashable:
    """The devices of the slice that the node reaches, and those with an invalid node selector."""
    reachable = unreadable = 0
    for position, device in enumerate(slice_.devices):
        try:
            reachable |= reaches(device.reach, node) << position
        except InvalidNodeSelector:
            unreadable |= 1 << position
    return reachable, unreadable


# What claims ask of a fleet: claims that differ in their own names only are one question.


MOST_ALTERNATIVES: Final = 8
"""Subrequests of a request; kube-scheduler's score counts down from here."""


@dataclass(frozen=True, slots=True)
class DeviceQuestion:
    """Claims that request devices of one node.

    key: equal for claims that get the same answers as long as `classes` are there, the classes that they name.
    bindings: the limits that they could exceed; of those that they cannot, the answers are the same.
    """

    claims: Sequence[Claim]
    classes: tuple[DeviceClass | None, ...]
    bindings: Bindings
    key: Hashable

    @staticmethod
    def of(claims: Sequence[Claim], classes: Mapping[str, DeviceClass], bindings: Bindings = ()) -> "DeviceQuestion":
        """The question of these claims. classes: all, by name."""
        named = tuple(map(classes.get, _class_names(claims)))
        key = (fingerprint_of(claims), *map(id, named), *[one.key for one in bindings])
        return DeviceQuestion(claims, named, bindings, key)

    @property
    def weight(self) -> int:
        """How many characters take about as much memory as what is kept for it beside its expressions."""
        return PER_ALTERNATIVE * len(self.classes)

    @property
    def limiting(self) -> Sequence[str]:
        """The expressions that say which devices count for a limit."""
        return [expression for one in self.bindings for expression in one.expressions]

    def has(self, classes: Mapping[str, DeviceClass]) -> bool:
        """Whether the classes that the claims name are these still. Cost: O(requests)."""
        return all(map(is_, map(classes.get, _class_names(self.claims)), self.classes))


PER_ALTERNATIVE = 1 << 10
"""Characters that take about as much memory as what is kept of an alternative of a request."""


def _class_names(claims: Iterable[Claim]) -> list[str]:
    return [a.class_name for claim in claims for request in claim.requests for a in request.alternatives]


def fingerprint_of(claims: Iterable[Claim]) -> Hashable:
    """Everything that decides about devices: equal for claims that differ in their own names only."""
    return tuple([(_of_claim(claim), tuple(map(_of_whole_request, claim.requests))) for claim in claims])


def _of_whole_request(request: Request) -> Hashable:
    return _of_request(request), tuple([(one.name, one.fingerprint) for one in request.alternatives])


_of_claim = values_of(
    Claim,
    {
        **dict.fromkeys(["namespace", "name", "uid"], "its own names"),
        "requests": "see `_of_whole_request`",
        "config": "only copied into the result",
        "allocation": "only claims without one are asked for",
    },
)
_of_request = values_of(Request, {"alternatives": "each has a fingerprint of its own"})


def rank_of(claims: Sequence[Claim], allocated: Allocated) -> int:
    """kube-scheduler's score of the chosen subrequests.

    Source: KEP-4816, plugin DynamicResources.
    """
    rank = 0
    for claim, allocation in zip(claims, allocated.allocations, strict=True):
        chosen = {result.request for result in allocation.results}
        for request in claim.requests:
            if request.is_first_available:
                places = (place for place, one in enumerate(request.alternatives) if one.name in chosen)
                rank += MOST_ALTERNATIVES - next(places, MOST_ALTERNATIVES)
    return rank


def reads_of(
    snapshot: Snapshot,
    claims: Sequence[Claim],
    by_policy: Sequence[str],
    limiting: Sequence[str],
    is_cancelled: Callable[[], bool],
) -> ReadKey:
    """What selectors, constraints, features, the policy and limits (by their expressions) read of a device.

    Raises Cancelled.
    """
    programs = []
    for expression in (*expressions_of(snapshot, claims), *limiting):
        if is_cancelled():
            raise Cancelled("cancelled before a selector was compiled")
        try:
            programs.append(cel.compile(expression, snapshot.features.environment).reads)
        except cel.CompileError:
            continue
    attributes = [name for claim in claims for name in claim.compared]
    return ReadKey.of_programs(programs, (*attributes, *by_policy, *_read_by_features(claims)))


def _values_read_of(claims: Sequence[Claim], by_policy: Sequence[str]) -> ReadKey:
    """What features and the policy read: see `_distinctions` for the others."""
    return ReadKey.of_programs((), (*by_policy, *_read_by_features(claims)))


def _read_by_features(claims: Sequence[Claim]) -> list[str]:
    alternatives = [a for claim in claims for request in claim.requests for a in request.alternatives]
    return [name for feature in FEATURES for alternative in alternatives for name in feature.reads(alternative)]


def expressions_of(snapshot: Snapshot, claims: Sequence[Claim]) -> Iterable[str]:
    """The selectors of the claims and of their classes."""
    for claim in claims:
        for request in claim.requests:
            for alternative in request.alternatives:
                device_class = snapshot.classes.get(alternative.class_name)
                yield from filter(None, (*(device_class.selectors if device_class else ()), *alternative.selectors))


# As it is told apart: what claims distinguish on a node, which is less than the values that they read.
#
# A selector sees of an attribute only whether the device passes, and a constraint only which devices have equal values.
# Where each device has a value of its own, such as a serial number, nodes are alike all the same.


def _distinctions(
    snapshot: Snapshot, view: NodeView, question: DeviceQuestion, is_cancelled: Callable[[], bool], budget: Budget
) -> Hashable:
    """Equal for views with devices that agree, one by one, in all but attributes, and get the same answers by these.

    What features and policies read of attributes is left out. Raises Cancelled, OutOfSteps. Cost: O(devices).
    """
    claims = question.claims
    expressions = (*expressions_of(snapshot, claims), *question.limiting)
    selections = [snapshot.selectors.select(one, view, is_cancelled, budget) for one in expressions]
    equal = [equal_values(view, name, snapshot.features) for name in dict.fromkeys(_constrained(claims))]
    # What devices elsewhere have is compared as well, for which it is not enough to know which of these are equal.
    joint = dict.fromkeys(one.constraint.attribute for claim in claims for one in claim.joint)
    same = [own_values(view, name, snapshot.features) for name in joint]
    return tuple(selections), tuple(equal), tuple(same)


def _constrained(claims: Iterable[Claim]) -> Iterable[str]:
    return [one.attribute for claim in claims for one in claim.constraints]


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """Which slices of a node count: those of pools with a device that the claims could have.

    number: the same for nodes between which the claims do not distinguish. own: a flag for each slice that the node
    alone reaches; shared: for each of the others.
    """

    number: int
    own: tuple[bool, ...]
    shared: tuple[bool, ...]

    @property
    def is_all(self) -> bool:
        """Whether all slices count, and no other node reaches one."""
        return not self.shared and all(self.own)


class Countings:
    """Which slices count for one question, on each kind of node that it tells apart."""

    def __init__(  # noqa: PLR0913, PLR0917 - as many as a decision is made with
        self,
        fingerprints: Fingerprints,
        snapshot: Snapshot,
        question: DeviceQuestion,
        policy: Policy,
        budget_steps: int,
        is_cancelled: Callable[[], bool],
    ) -> None:
        read = reads_of(snapshot, question.claims, policy.reads, question.limiting, is_cancelled)
        self._as_read = fingerprints.projection(read)
        self._of_values = fingerprints.projection(_values_read_of(question.claims, policy.reads))
        self._policy = policy
        self._budget_steps = budget_steps
        self._numbered = 0
        self._by_projection: dict[int, Counting] = {}
        self._by_distinctions: dict[Hashable, Counting] = {}

    def __len__(self) -> int:
        """The number of projections that are known."""
        return len(self._by_projection)

    def clear(self) -> None:
        """Forget what is known by projection."""
        self._by_projection.clear()
        self._by_distinctions.clear()

    def known(self, node: NodeAsItIs, is_cancelled: Callable[[], bool]) -> Counting | None:
        """The counting of the node; None if it is forgotten, or its pools cannot be determined. Raises Cancelled."""
        return self._by_projection.get(self._as_read.of(node, is_cancelled))

    def of(
        self, node: NodeAsItIs, snapshot: Snapshot, question: DeviceQuestion, is_cancelled: Callable[[], bool]
    ) -> Counting | None:
        """The counting of the node; None if its pools cannot be determined. Raises Cancelled.

        Cost: O(devices) for a node that is not read like any before.
        """
        if node.pools is None:
            return None
        projected = self._as_read.of(node, is_cancelled)
        counting = self._by_projection.get(projected)
        if counting is None:
            counting = self._by_projection[projected] = self._distinguished(node, snapshot, question, is_cancelled)
        return counting

    def _distinguished(
        self, node: NodeAsItIs, snapshot: Snapshot, question: DeviceQuestion, is_cancelled: Callable[[], bool]
    ) -> Counting:
        try:
            view, budget = snapshot.view(node.node), Budget(self._budget_steps)
            distinguished = _distinctions(snapshot, view, question, is_cancelled, budget)
        except AllocationError:
            return self._new(node, snapshot, question, is_cancelled)
        key = self._of_values.of(node, is_cancelled), distinguished
        counting = self._by_distinctions.get(key)
        if counting is None:
            counting = self._by_distinctions[key] = self._new(node, snapshot, question, is_cancelled)
        return counting

    def _new(
        self, node: NodeAsItIs, snapshot: Snapshot, question: DeviceQuestion, is_cancelled: Callable[[], bool]
    ) -> Counting:
        """With a policy all slices count, else those of the pools that the claims look at."""
        looked_at = None
        if self._policy is FIRST_FIT:
            looked_at = pools_looked_at(snapshot, node.node, question.claims, is_cancelled, self._budget_steps)
        of_node_alone: list[bool] = []
        shared: list[bool] = []
        for pool in node.pools or ():
            counts = looked_at is None or pool.id in looked_at
            of_node_alone += [counts for slice_ in pool.slices if slice_.reach.node_name]
            shared += [counts for _ in shared_slices((pool,))]
        self._numbered += 1
        return Counting(self._numbered, tuple(of_node_alone), tuple(shared))
