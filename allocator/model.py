"""What the allocator holds: compact, frozen values, one class per word of the API.

`allocator.api` decodes objects of any API version into these; they are never changed afterwards. Fields keep the
order and the meaning of resource.k8s.io/v1, so that the API documentation applies. Opaque values that no decision
depends on (driver configuration) stay raw JSON objects.
Source: k8s.io/api resource/v1, KEP-4381 and the KEPs of the single features.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import Final, NamedTuple

from allocator.memo import deciding, exact
from cel.values.quantity import Quantity
from cel.values.semver import is_version

Attribute = tuple[str, object]
"""(type, value): type is `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings` or `versions`; lists are
tuples. An attribute that carries no value is `("", None)`."""

SCALAR_TYPES: Final = frozenset({"int", "bool", "string", "version"})
"""The types of attributes that have one value."""

INT64: Final = range(-(2**63), 2**63)


class PoolID(NamedTuple):
    """A pool's identity; the pool's name alone is not unique."""

    driver: str
    pool: str


CounterSetID = tuple[PoolID, str]
"""A counter set of a pool, by its name."""


class DeviceID(NamedTuple):
    """A device's identity in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node selector term; `operator` is one of the API's six."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """A node selector term: all expressions and all fields must hold; an empty term matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


NodeSelector = tuple[Term, ...]
"""Terms of which one must match."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The nodes that reach a slice or a device: one of the first three fields is set, none means no node.

    A selector next to `all_nodes`, which only unchecked objects have, decides nothing but is copied into the result.
    per_device: each device of the slice has a reach of its own.
    """

    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device: bool = False

    @property
    def is_up_to_devices(self) -> bool:
        """True if only the devices say which nodes reach the slice."""
        return self.per_device and not self.node_name and not self.all_nodes and self.node_selector is None


NOWHERE: Final = Reach()


@dataclass(frozen=True, slots=True)
class Node:
    """What placement reads of a Node. allocatable: by resource. images: that it has."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple["Taint", ...] = ()
    unschedulable: bool = False
    declared_features: frozenset[str] = frozenset()
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    images: tuple["Image", ...] = ()


@dataclass(frozen=True, slots=True)
class Image:
    """A container image on a node, under each of its names. size: in bytes."""

    names: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod; init containers stand before the others.

    requests: by resource. is_plain_init: it ends before the next container starts. claims: the entries of the pod's
    spec.resourceClaims that it uses.
    """

    name: str
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    is_plain_init: bool = False
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a device or a node. effect: NoSchedule, NoExecute, PreferNoSchedule (nodes) or None (devices)."""

    key: str
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        return f"{self.key}{'=' if self.value else ''}{self.value}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a request or a pod; `raw` is the object as written, for the allocation result."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    raw: Mapping[str, object] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ValidRange:
    """The range of a request policy, in the capacity's own unit."""

    minimum: Quantity | None = None
    maximum: Quantity | None = None
    step: Quantity | None = None


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How a share's request of one capacity is rounded and bounded (KEP-5075)."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: ValidRange | None = None


@dataclass(frozen=True, slots=True)
class CounterConsumption:
    """What a device consumes of one counter set of its pool (KEP-4815)."""

    counter_set: str
    counters: Mapping[str, Quantity]
    compatibility_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CounterSet:
    """A named set of counters that the devices of one pool consume."""

    name: str
    counters: Mapping[str, Quantity]


def qualified(name: str, driver: str) -> str:
    """The name of an attribute or capacity with its domain; one without is the driver's. Source: KEP-4381."""
    return name if "/" in name else f"{driver}/{name}"


def own_name(names: Collection[str], name: str, driver: str) -> str | None:
    """Which of the driver's names is that one, however it is written; None if none is.

    The spelling with the driver's domain comes first. Source: KEP-4381.
    """
    domain, slash, identifier = name.partition("/")
    if slash and domain != driver:
        return name if name in names else None
    short = identifier if slash else name
    long = name if slash else f"{driver}/{name}"
    return long if long in names else short if short in names else None


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a slice, which selectors see as a `cel.DeviceLike`.

    They see driver, attributes, capacity (name to value) and allow_multiple_allocations. A capacity that is published
    in both spellings is one: the entry with the driver's domain counts, with its policy.
    unknown_fields: names of fields that this version does not know; such a device is never used.
    unusual: attributes with a list of values, and those that cannot be read, such as an invalid version; compared
    exactly (`exact`).
    """

    name: str
    driver: str
    pool: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    policies: Mapping[str, RequestPolicy] = field(default_factory=dict)
    allow_multiple_allocations: bool = False
    consumes_counters: tuple[CounterConsumption, ...] = ()
    reach: Reach = NOWHERE
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    node_allocatable: Mapping[str, object] = field(default_factory=dict)
    unknown_fields: tuple[str, ...] = ()
    unusual: tuple[tuple[str, Hashable], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = [(name, exact(attribute)) for name, attribute in self.attributes.items() if not _is_usual(*attribute)]
        object.__setattr__(self, "unusual", tuple(found))
        if any(["/" in name for name in self.capacity]):  # noqa: C419 - faster
            hidden = [name for name in self.capacity if own_name(self.capacity, name, self.driver) != name]
            for table in ("capacity", "policies") if hidden else ():
                own = {name: value for name, value in getattr(self, table).items() if name not in hidden}
                object.__setattr__(self, table, own)

    @property
    def id(self) -> DeviceID:
        """The device's identity in the cluster."""
        return DeviceID(self.driver, self.pool, self.name)


def _is_usual(type_: str, value: object) -> bool:
    """True for a single value that selectors can read: equal values are then interchangeable."""
    class_ = type(value)
    if class_ is int:
        return type_ == "int" and value in INT64
    if isinstance(value, str):
        return type_ == "string" or (type_ == "version" and is_version(value))
    return class_ is bool and type_ == "bool"


NEGATIVE_CAPACITY: Final = "negative capacity"
"""The trait of a slice in which a device has a capacity below zero."""

_NO_TRAITS: Final = dict.fromkeys(
    ["name", "driver", "pool", "attributes", "capacity", "reach"], "every device has it, or its slice in its place"
)
_SLICE_NUMBERS: Final = count()
_ALIKE: Final[dict[frozenset[str], frozenset[str]]] = {}

TRAITS: Final = {name: attrgetter(name) for name in (*deciding(Device, _NO_TRAITS), "unusual")}
"""The fields that most devices leave empty."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A ResourceSlice. unknown_fields as in `Device`: no device of such a slice is used.

    traits: the fields of `Device`, of those that most devices leave empty, which a device of the slice has filled; and
    NEGATIVE_CAPACITY, where one has that. number: of this object; no other has it, not even an equal one.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    reach: Reach
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    traits: frozenset[str] = field(init=False, repr=False, compare=False)
    pool_id: PoolID = field(init=False, repr=False, compare=False)
    number: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", next(_SLICE_NUMBERS))
        object.__setattr__(self, "pool_id", PoolID(self.driver, self.pool))
        found = frozenset(name for name, value_of in TRAITS.items() if any(map(value_of, self.devices)))
        amounts = {id(device.capacity): device.capacity for device in self.devices}  # most devices share one map
        if any(amount.mantissa < 0 for capacity in amounts.values() for amount in capacity.values()):
            found |= {NEGATIVE_CAPACITY}
        object.__setattr__(self, "traits", _ALIKE.setdefault(found, found))


@dataclass(frozen=True, slots=True)
class OpaqueConfig:
    """An entry of driver configuration. opaque: the raw object, as it is copied into the result."""

    opaque: Mapping[str, object]
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass. selectors: CEL expressions, all of which must hold."""

    name: str
    selectors: tuple[str | None, ...] = ()
    config: tuple[OpaqueConfig, ...] = ()
    extended_resource_name: str = ""
    creation_timestamp: str = ""
    unknown_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to satisfy a request: its `exactly`, or one entry of its `firstAvailable`.

    name: `request` or `request/subrequest`, as results and errors write it.
    mode: `ExactCount` or `All`; another text is kept as it came, and refused when it is used.
    selectors: a selector without a `cel` part is None. admin_access: None if the field is absent.
    fingerprint: all that decides about devices, which the name does not; equal ones are the same request to a node.
    """

    name: str
    class_name: str
    selectors: tuple[str | None, ...] = ()
    mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: Mapping[str, Quantity] | None = None
    derived_attributes: tuple[tuple[str, str], ...] = ()
    unknown_fields: tuple[str, ...] = ()
    fingerprint: Hashable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", exact([getattr(self, name) for name in _DECIDING]))


_DECIDING: Final = deciding(Alternative, {"name": "equal requests may have different names"})


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a claim.

    alternatives: one entry for `exactly`; one for each entry of `firstAvailable`, in order of preference; none where
    the object carries neither.
    """

    name: str
    alternatives: tuple[Alternative, ...]
    is_first_available: bool = False
    unknown_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint over the devices of the named requests, or of all where `requests` is empty.

    One of the two attribute names is set; where both are, `match_attribute` counts, and where none is, the constraint
    is of a type that this version does not know.
    """

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""
    unknown_fields: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        """The one that is compared."""
        return self.match_attribute or self.distinct_attribute


@dataclass(frozen=True, slots=True)
class JointConstraint:
    """A constraint over the devices of all claims of an attempt that have an equal one.

    values: what devices have that count beside those of the attempt, each a type and a value. Picks have one of them in
    common if the constraint matches an attribute, and have none of them if they are distinct.
    """

    constraint: Constraint
    values: tuple[tuple[str, object], ...] = ()


_NOTHING: Final[Mapping[str, Quantity]] = {}


def _nothing() -> Mapping[str, Quantity]:
    """The same object for all devices of which nothing in particular is consumed: a fleet has millions."""
    return _NOTHING


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """One allocated device, as `status.allocation.devices.results` holds it."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str = ""
    consumed_capacity: Mapping[str, Quantity] = field(default_factory=_nothing)
    skip_node_operations: tuple[str, ...] = ()

    @property
    def id(self) -> DeviceID:
        """The device's identity in the cluster."""
        return DeviceID(self.driver, self.pool, self.device)


@dataclass(frozen=True, slots=True)
class ResultConfig:
    """One entry of `status.allocation.devices.config`; source is `FromClass` or `FromClaim`."""

    source: str
    requests: tuple[str, ...]
    opaque: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Allocation:
    """`status.allocation` of a claim. node_selector: the nodes that reach all devices, None for every node."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[ResultConfig, ...] = ()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim. unknown_fields: of the spec outside its requests and constraints.

    joint: what its devices have to keep to beside those of other claims, which no field of the object says.
    """

    namespace: str
    name: str
    uid: str
    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[OpaqueConfig, ...] = ()
    allocation: Allocation | None = None
    unknown_fields: tuple[str, ...] = ()
    joint: tuple[JointConstraint, ...] = ()

    @property
    def compared(self) -> list[str]:
        """The attributes that its constraints compare."""
        every = (*self.constraints, *(one.constraint for one in self.joint))
        return [one.attribute for one in every]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
