"""Small random clusters and claims, in which the interesting coincidences are frequent.

Few devices and few values, so that the naive search ends and claims compete. An instance is about a few aspects of the
API at a time. Most pools are in order and most claims can be decided; each way in which they cannot be is rare, but
there (test_instances.py counts them).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from allocator.gates import (
    ADMIN_ACCESS,
    BINDING_CONDITIONS,
    COMPATIBILITY_GROUPS,
    CONSUMABLE_CAPACITY,
    DERIVED_ATTRIBUTES,
    DEVICE_TAINT_RULES,
    DEVICE_TAINTS,
    LIST_TYPE_ATTRIBUTES,
    OPTIONAL_NODE_OPERATIONS,
    PARTITIONABLE_DEVICES,
    PRIORITIZED_LIST,
    Features,
)
from allocator.model import (
    Alternative,
    Attribute,
    Claim,
    Constraint,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceClass,
    DeviceResult,
    OpaqueConfig,
    Reach,
    Request,
    RequestPolicy,
    Slice,
    Taint,
    Toleration,
    ValidRange,
)
from cel.values.quantity import Quantity
from tests import builders
from tests.builders import (
    a_claim,
    a_config,
    a_device,
    a_node,
    a_request,
    a_result,
    a_slice,
    a_term,
    all_devices,
    an_allocated_claim,
    an_alternative,
    distinct,
    everywhere,
    first_available,
    labelled,
    match,
    on_node,
    per_device,
    requires,
    strings,
    version,
    where,
)
from tests.properties.allocator.choices import Choices, Values
from tests.properties.allocator.instance import Instance

MAX_DEVICES = 8
MAX_WANTED = 5

NODES = (
    a_node("node-0", {"region": "1", "rank": "5"}, declared_features=frozenset([OPTIONAL_NODE_OPERATIONS])),
    a_node("node-1", {"region": "2"}),
)
POOLS = (("a.example", "pool-0"), ("b.example", "pool-0"), ("a.example", "pool-1"))
NAMES = tuple(f"dev-{number}" for number in range(4))
NUMA, ROOT = "a.example/numa", "std.example/root"

ASPECTS = (
    "admin",
    "alternatives",
    "capacity",
    "conditions",
    "counters",
    "derived",
    "groups",
    "lists",
    "odd pools",
    "odd requests",
    "operations",
    "shares",
    "spellings",
    "taints",
)
ABOUT = ("basics", *ASPECTS)
"""What instances are asked to be about, so that each is there; beside it they are about a few others."""

Aspects = frozenset[str]


def amount(text: str) -> Quantity:
    return Quantity.parse(text)


# -- attributes

_NUMA: Sequence[Attribute | None] = (("int", 0), ("int", 0), ("int", 1), ("int", 1), None)
_QUALIFIED: Sequence[Attribute | None] = (None, None, None, None, ("int", 0), ("int", 1))
_ROOT: Sequence[Attribute | None] = (
    *(("string", "left"),) * 3,
    *(("string", "right"),) * 3,
    ("int", 0),
    *(version("1.0.0+a"),) * 2,
    *(version("1.0.0+b"),) * 2,
    None,
)
_LISTS: Sequence[Attribute | None] = (
    strings("left"),
    strings("left", "right"),
    strings("right", "top"),
    ("ints", (0,)),
    ("string", "left"),
    ("", None),
    None,
)


def _attributes(roots: Sequence[Attribute | None]) -> Iterator[Mapping[str, Attribute]]:
    """`numa` under its short or its full name, or both, and an attribute of another domain; each may be missing."""
    for qualified, numa, root in product(_QUALIFIED, _NUMA, roots):
        named = {"numa": numa, NUMA: qualified, ROOT: root}
        yield {name: value for name, value in named.items() if value is not None}


PLAIN_ATTRIBUTES = tuple(_attributes(_ROOT))
LIST_ATTRIBUTES = tuple(_attributes(_LISTS))

# -- devices

REACHES_OF_DEVICES = (*(everywhere(), on_node("node-0"), where(labelled(region="1"))) * 3, on_node("node-1"))
ODD_REACHES_OF_DEVICES = (
    *REACHES_OF_DEVICES,
    where(labelled(region="1"), labelled(region="2")),
    where(a_term(requires("region", "Exists"), requires("rank", "Gt", "high"))),
)
REACHES = (
    *(everywhere(),) * 8,
    *(on_node("node-0"),) * 4,
    *(per_device(),) * 3,
    on_node("node-1"),
    where(labelled(region="1")),
    where(labelled(region="2", zone="x")),
)
ODD_REACHES = (
    where(labelled(region="1"), labelled(region="2")),
    where(a_term(requires("rank", "Gt", "high"))),
    Reach(),
)
ODDITIES: Sequence[Mapping[str, Any]] = (*({},) * 12, {"unknown_fields": ("quantum",)})

TAINTS = (
    *((),) * 2,
    (Taint("key", effect="NoSchedule"),),
    (Taint("key", "value", "NoExecute"),),
    (Taint("key", effect="None"), Taint("other", effect="Unheard")),
    (Taint("key", effect="NoSchedule"), Taint("other", effect="NoExecute")),
)
TOLERATIONS = (
    (),
    *((Toleration("key", "Exists"),),) * 2,
    (Toleration(operator="Exists"),),
    (Toleration("key", "Equal", "value", "NoExecute"), Toleration("other", value="", effect="NoExecute")),
    (Toleration(operator="Exists", effect="NoSchedule"),),
)

RANGE = RequestPolicy(amount("1"), valid_range=ValidRange(amount("1"), amount("4"), amount("2")))
FRACTIONS = RequestPolicy(amount("500m"), valid_range=ValidRange(amount("500m"), amount("3"), amount("250m")))
VALUES = RequestPolicy(amount("1"), valid_values=(amount("1"), amount("2"), amount("4")))
POLICIES: Sequence[Mapping[str, RequestPolicy]] = (
    {},
    {"memory": RequestPolicy(amount("1"))},
    {"memory": VALUES},
    {"memory": RANGE},
    {"memory": FRACTIONS},
    {"memory": RequestPolicy(amount("2"), valid_range=ValidRange(amount("2")))},
)
CAPACITIES: Sequence[Mapping[str, str]] = (
    *({"memory": "4"}, {"memory": "4", "slots": "2"}) * 3,
    {"memory": "4500m"},
    {"memory": "0"},
    {},
)
REQUESTED = ("1", "1", "2", "500m", "700m", "3", "5")
ODD_REQUESTED = (*REQUESTED, "0", "20E", "9223372036854775807", "-1", "1100u")

FULL_NAMES = (
    *(("a.example/memory",),) * 4,
    ("b.example/memory",),
    ("a.example/memory", "slots"),
    ("a.example/memory", "memory"),
)

COUNTERS = (
    CounterSet("set-0", {"m": amount("4")}),
    CounterSet("set-1", {"m": amount("2"), "n": amount("1500m")}),
)
CONSUMPTIONS: Sequence[Sequence[Mapping[str, Mapping[str, str]]]] = (
    (),
    ({"set-0": {"m": "1"}},),
    ({"set-0": {"m": "2"}},),
    ({"set-0": {"m": "3"}}, {"set-1": {"m": "1"}}),
    ({"set-1": {"n": "750m"}},),
    ({"set-1": {"m": "1", "n": "1"}},),
)
GROUPS = ((), ("a",), ("b",), ("a", "b"))


def a_random_device(draw: Choices, aspects: Aspects, name: str, reach: Reach) -> Device:
    """A device; one of a slice whose devices choose their nodes has a choice of its own."""
    more: dict[str, Any] = {}
    if reach.per_device:
        more["reach"] = draw.pick(ODD_REACHES_OF_DEVICES if "odd pools" in aspects else REACHES_OF_DEVICES)
    if "taints" in aspects:
        more["taints"] = draw.pick(TAINTS)
    if "capacity" in aspects or "shares" in aspects:
        more["allow_multiple_allocations"] = "shares" in aspects and not draw.rarely(4)
        more["capacity"] = draw.pick(CAPACITIES)
        more["policies"] = draw.pick(POLICIES if more["capacity"].get("memory", "0") != "0" else ({},))
    if "counters" in aspects or "groups" in aspects:
        more["consumes_counters"] = consumptions(draw, aspects)
    if "conditions" in aspects and draw.pick((False, True)):
        more["binding_conditions"], more["binding_failure_conditions"] = ("ready",), ("failed",)
        more["binds_to_node"] = draw.pick((False, True))
    if "odd pools" in aspects:
        more |= draw.pick(ODDITIES)
    attributes = LIST_ATTRIBUTES if "lists" in aspects else PLAIN_ATTRIBUTES
    return a_device(name, draw.pick(attributes), **more)


def consumptions(draw: Choices, aspects: Aspects) -> tuple[CounterConsumption, ...]:
    """What a device takes of the counters of its pool, rarely of one that there is not."""
    if "odd pools" in aspects and draw.rarely(12):
        return (CounterConsumption("no-such-set", {}),)
    return tuple(
        CounterConsumption(
            counter_set,
            {name: amount(text) for name, text in counters.items()},
            draw.pick(GROUPS) if "groups" in aspects else (),
        )
        for entry in draw.pick(CONSUMPTIONS)
        for counter_set, counters in entry.items()
    )


# -- pools


def a_random_slice(draw: Choices, aspects: Aspects, name: str, pool_id: tuple[str, str], most: int) -> Slice:
    """A slice of at most so many devices."""
    reach = draw.pick(REACHES + (ODD_REACHES if "odd pools" in aspects else ()))
    names = NAMES[: min(most, draw.pick((3, 4, 4, 4, 2, 1, 0)))]
    members = [a_random_device(draw, aspects, member, reach) for member in names]
    skipped = ("*",) if "operations" in aspects and draw.pick((False, True)) else ()
    driver, pool = pool_id
    found = a_slice(
        *members, name=name, driver=driver, pool=pool, generation=2, reach=reach, skip_node_operations=skipped
    )
    return (
        replace(found, devices=tuple(spelled(draw, one) for one in found.devices)) if "spellings" in aspects else found
    )


def spelled(draw: Choices, device: Device) -> Device:
    """The device with some capacities under their full names, or under both: then the one with the domain counts."""
    names = {name: f"{device.driver}/{name}" for name in device.capacity}
    written = {name: draw.pick(((name,), (full,), (full,), (name, full))) for name, full in names.items()}
    capacity = {one: device.capacity[name] for name, own in written.items() for one in own}
    twice = {name: amount("9") for name, own in written.items() if len(own) > 1}
    policies = {written[name][-1]: policy for name, policy in device.policies.items()}
    return replace(device, capacity={**capacity, **twice}, policies=policies)


@dataclass(frozen=True)
class Shape:
    """How a pool is published. off: by how much its number of slices is wrong. leftover: the reach of an old slice."""

    slices: int = 1
    sets: int = 0
    off: int = 0
    repeats_names: bool = False
    leftover: Reach | None = None


SHAPES = (Shape(), Shape(slices=2))
ODD_SHAPES = (
    *SHAPES * 2,
    Shape(sets=1),
    Shape(slices=2, sets=1),
    Shape(sets=2),
    Shape(off=-1),
    Shape(slices=2, off=1),
    *(Shape(slices=2, repeats_names=True),) * 2,
    Shape(leftover=on_node("node-0")),
    Shape(slices=2, leftover=on_node("node-1")),
    Shape(leftover=everywhere()),
)


def pool(draw: Choices, aspects: Aspects, pool_id: tuple[str, str], most: int) -> list[Slice]:
    """The slices of a pool with at most so many devices."""
    shape = draw.pick(ODD_SHAPES if "odd pools" in aspects else SHAPES)
    if aspects & {"counters", "groups"}:
        shape = replace(shape, sets=max(shape.sets, 1))
    name = pool_id[1]
    slices: list[Slice] = []
    for number in range(shape.slices):
        left = most - sum(len(slice_.devices) for slice_ in slices)
        slices.append(a_random_slice(draw, aspects, f"{name}-{number}", pool_id, left))
    if not shape.repeats_names:
        slices = [_renamed(slice_, number) for number, slice_ in enumerate(slices)]
    if shape.sets:
        sets = COUNTERS if shape.sets == 1 else (*COUNTERS, COUNTERS[0])
        reach = draw.pick((everywhere(), on_node("node-0"), on_node("node-1")))
        slices.append(replace(slices[0], name=f"{name}-sets", devices=(), counter_sets=sets, reach=reach))
    slices = [replace(slice_, slice_count=len(slices) + shape.off) for slice_ in slices]
    if shape.leftover:
        slices.append(_leftover(slices[0], shape.leftover))
    return slices


def _renamed(slice_: Slice, number: int) -> Slice:
    return replace(slice_, devices=tuple(replace(device, name=f"{device.name}-{number}") for device in slice_.devices))


def _leftover(slice_: Slice, reach: Reach) -> Slice:
    """What an older generation of the pool has left behind."""
    old = tuple(
        replace(device, name=f"old-{device.name}", consumes_counters=(), reach=Reach()) for device in slice_.devices
    )
    return replace(slice_, name=f"{slice_.name}-old", generation=1, reach=reach, slice_count=1, devices=old)


def slices(draw: Choices, aspects: Aspects) -> tuple[Slice, ...]:
    """Up to three pools; drivers share the names of pools."""
    found: list[Slice] = []
    for pool_id in POOLS:
        left = MAX_DEVICES - sum(len(slice_.devices) for slice_ in found)
        if left > 0:
            found += pool(draw, aspects, pool_id, left)
    return tuple(reversed(found) if draw.pick((False, True)) else found)


# -- claims

TRUE_OF_A = 'device.driver == "a.example"'
FAILS_WITHOUT_NUMA = 'device.attributes["a.example"].numa == 0'
HAS_NUMA = '"numa" in device.attributes["a.example"]'
BROKEN = "device.noSuchField"

CLASSES = tuple(
    (DeviceClass("any", (), config), DeviceClass("odd", (odd,), config[:1]))
    for odd in ((TRUE_OF_A,) * 18 + (FAILS_WITHOUT_NUMA, BROKEN))
    for config in ((), (a_config(level=0), a_config(level=1)))
)
SELECTORS = (*((),) * 12, *((TRUE_OF_A,), (HAS_NUMA,), (HAS_NUMA, FAILS_WITHOUT_NUMA)) * 3, (FAILS_WITHOUT_NUMA,))
ODD_SELECTORS = (*SELECTORS, *((BROKEN,),) * 3, *((FAILS_WITHOUT_NUMA,),) * 3)
DERIVED = (
    (),
    ((NUMA, "1"),),
    ((NUMA, 'device.driver == "a.example" ? 0 : 1'),),
    ((ROOT, "device.attributes[device.driver].?numa.orValue(7)"), (NUMA, "0")),
    ((ROOT, '["left", "right"]'), (NUMA, "0")),
)
FAILING_DERIVED = (((NUMA, "device.noSuchField"),), ((ROOT, 'device.attributes["a.example"].numa'),))


def an_asked(draw: Choices, aspects: Aspects, name: str, most: int) -> Alternative:
    """One way to ask for up to so many devices, or for all of them."""
    is_odd = "odd requests" in aspects
    class_name = draw.pick((*("missing",) * is_odd, *("any",) * 6, *("odd",) * 2))
    selectors = draw.pick(ODD_SELECTORS if is_odd else SELECTORS)
    more: dict[str, Any] = {}
    if "taints" in aspects:
        more["tolerations"] = draw.pick(TOLERATIONS)
    if not aspects.isdisjoint({"shares", "capacity"}) and draw.pick((False, True)):
        names = draw.pick((*(("memory",),) * 5, ("memory", "slots"), ("slots",), ("none",), ()))
        if "spellings" in aspects:
            names = draw.pick((names, *FULL_NAMES))
        amounts = ODD_REQUESTED if is_odd else REQUESTED
        more["capacity"] = {capacity: amount(draw.pick(amounts)) for capacity in names}
    if "derived" in aspects:
        more["derived_attributes"] = draw.pick((*DERIVED, *FAILING_DERIVED) if is_odd else DERIVED)
    count = draw.pick((1, 1, 1, 1, 2, 2, 3, 0))
    if count == 0:
        return replace(all_devices(name, *selectors, class_name=class_name).alternatives[0], **more)
    return an_alternative(name, class_name, selectors=selectors, count=min(count, most), **more)


def a_random_request(draw: Choices, aspects: Aspects, name: str, most: int) -> Request:
    """A request for up to so many devices, perhaps with alternatives."""
    if "alternatives" in aspects and draw.pick((False, True)):
        number = draw.pick(range(1, 4))
        return first_available(name, *(an_asked(draw, aspects, f"sub-{n}", most) for n in range(number)))
    asked = an_asked(draw, aspects, name, most)
    if "admin" in aspects:
        asked = replace(asked, admin_access=draw.pick((True, True, None, False)))
    return Request(name, (asked,))


def a_random_claim(draw: Choices, aspects: Aspects, name: str, most: int) -> Claim:
    """A claim for up to so many devices, those of requests for all not counted."""
    requests: list[Request] = []
    for number in range(draw.pick((1, 1, 1, 2, 2, 3))):
        left = most - sum(_most_of(request) for request in requests)
        if left > 0:
            requests.append(a_random_request(draw, aspects, f"req-{number}", left))
    if "odd requests" in aspects and draw.rarely(12):
        requests[-1] = a_request(requests[-1].name, 33, class_name="any")
    names = [name for request in requests for name in (request.name, *(a.name for a in request.alternatives[1:]))]
    number = draw.pick((1, 1, 2) if "derived" in aspects else (0, 0, 0, 1, 1, 2))
    constraints = [a_random_constraint(draw, aspects, names) for _ in range(number)]
    return a_claim(*requests, name=name, constraints=constraints, config=configs(draw, names))


def _most_of(request: Request) -> int:
    return max(alternative.count for alternative in request.alternatives)


def a_random_constraint(draw: Choices, aspects: Aspects, names: Sequence[str]) -> Constraint:
    """A constraint over some of the requests; rarely one of a kind that nobody knows."""
    requests = draw.pick(((), (), *((name,) for name in names), tuple(names[:2])))
    if "odd requests" in aspects and draw.rarely(12):
        return Constraint(requests)
    kind = draw.pick((match, match, distinct))
    return kind(draw.pick((ROOT, NUMA) if "lists" in aspects else (NUMA, ROOT)), *requests)


def configs(draw: Choices, names: Sequence[str]) -> list[OpaqueConfig]:
    """Configuration for all requests, or for some."""
    whose = draw.pick(((), ((),), (tuple(names),), (tuple(names[-1:]), ()), (("nobody",),)))
    return [a_config("a.example", *requests, number=index) for index, requests in enumerate(whose)]


# -- what is in use


def held(draw: Choices, aspects: Aspects, published: Sequence[Slice]) -> tuple[Claim, ...]:
    """Claims that hold some of the devices, some by admin access, some in shares, and one that is gone."""
    every = [device for slice_ in published for device in slice_.devices]
    number = draw.pick(range(4)) if every else 0
    found = [a_holding(draw, aspects, draw.pick(every), f"held-{index}") for index in range(number) if every]
    gone = a_result("gone", driver="a.example", pool="pool-0")
    return (an_allocated_claim(*found, name="holder"), an_allocated_claim(gone, name="other"))


def a_holding(draw: Choices, aspects: Aspects, device: Device, share_id: str) -> DeviceResult:
    """A device that is held: mostly as it can be, now and then as it could be before it changed."""
    more: dict[str, Any] = {"admin_access": draw.rarely(4)}
    is_share = device.allow_multiple_allocations is not draw.rarely(6)
    if "shares" in aspects and is_share:
        taken = draw.pick((("memory",), ("memory",), ("memory", "slots"), ()))
        if "spellings" in aspects:
            full = f"{device.driver}/memory"
            taken = draw.pick((taken, (full,), (full, "slots"), (full, "memory"), ("memory", full)))
        more["share_id"] = share_id
        more["consumed_capacity"] = {name: amount(draw.pick(("1", "2", "500m"))) for name in taken}
    return a_result(device.name, driver=device.driver, pool=device.pool, **more)


# -- all of it

_ALL_GATES = {LIST_TYPE_ATTRIBUTES: True, DERIVED_ATTRIBUTES: True, COMPATIBILITY_GROUPS: True}
RELEASES = ("1.37", "1.38")
EVERYTHING = Features.of("1.37", _ALL_GATES | {OPTIONAL_NODE_OPERATIONS: True})
NEEDED = {"derived": DERIVED_ATTRIBUTES, "groups": COMPATIBILITY_GROUPS, "operations": OPTIONAL_NODE_OPERATIONS}
GATES: Sequence[Mapping[str, bool]] = (
    {},
    {LIST_TYPE_ATTRIBUTES: True},
    {DEVICE_TAINTS: False, DEVICE_TAINT_RULES: False},
    {PARTITIONABLE_DEVICES: False},
    {CONSUMABLE_CAPACITY: False},
    {BINDING_CONDITIONS: False},
    {ADMIN_ACCESS: False},
    {PRIORITIZED_LIST: False},
)


def kubernetes(draw: Choices, aspects: Aspects) -> Features:
    """The features in force: mostly all that the instance is about."""
    if draw.rarely(3):
        return Features.of(draw.pick(("1.37", "1.36", "1.38")))
    needed = {gate: not draw.rarely(8) for aspect, gate in NEEDED.items() if aspect in aspects}
    return builders.kubernetes(draw.pick(RELEASES), **{**needed, **draw.pick(GATES)})


def an_instance(draw: Choices, about: str) -> Instance:
    """A cluster of two nodes, and one or two claims, about the aspect and up to two others."""
    number = draw.pick((0, 0, 1, 2))
    others = (draw.pick(ASPECTS) for _ in range(number))
    aspects = frozenset((about, *others))
    aspects |= {"shares"} if "spellings" in aspects else set()
    published = slices(draw, aspects)
    claims: list[Claim] = []
    for index in range(draw.pick((1, 1, 2))):
        left = MAX_WANTED - sum(_most_of(request) for claim in claims for request in claim.requests)
        if left > 0:
            claims.append(a_random_claim(draw, aspects, f"claim-{index}", left))
    return Instance(
        published,
        draw.pick(CLASSES),
        tuple(claims),
        held(draw, aspects, published),
        NODES,
        kubernetes(draw, aspects),
    )


def about(aspect: str) -> Values[Instance]:
    """Instances about an aspect."""
    return Values(partial(an_instance, about=aspect))
