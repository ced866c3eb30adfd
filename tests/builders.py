"""Objects for tests: what a case does not vary is filled in, so that what it varies can be seen.

One driver with one pool of one slice on one node, a class that accepts every device, and a claim with one request for
one device: `allocate(a_snapshot(a_slice("gpu-0")), a_node(), [a_claim()])` succeeds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from allocator.api.allocation import Consumer
from allocator.api.metadata import Metadata, OwnerReference
from allocator.cluster.snapshot import Snapshot
from allocator.fleet.nodes import NodeTable
from allocator.gates import RELEASES, Features
from allocator.model import (
    Allocation,
    Alternative,
    Attribute,
    Claim,
    Constraint,
    Container,
    Device,
    DeviceClass,
    DeviceResult,
    Node,
    NodeSelector,
    OpaqueConfig,
    Reach,
    Request,
    Requirement,
    Slice,
    Term,
)
from allocator.pod_resources import CLAIM_ANNOTATION
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.decision.filters import PodSignatures
from scheduler.plugins.plugin import Cycle
from scheduler.state.claims import FINALIZER
from scheduler.state.labels import PodSelectors
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pods import pod_requests
from scheduler.state.volumes import Volumes

DRIVER = "gpu.example"
POOL = "pool-0"
NODE = "node-0"
CLASS = "gpu"

Scalar = int | bool | str


def version(text: str) -> Attribute:
    """A version attribute; a plain text is a string attribute."""
    return ("version", text)


def strings(*items: str) -> Attribute:
    """An attribute with a list of strings."""
    return ("strings", items)


def an_attribute(value: Scalar | Attribute) -> Attribute:
    """The attribute of a Python value: `1`, `True` and `"a"` are of kind int, bool and string."""
    match value:
        case tuple():
            return value
        case bool():
            return ("bool", value)
        case int():
            return ("int", value)
        case _:
            return ("string", value)


def a_device(
    name: str = "gpu-0",
    attributes: Mapping[str, Scalar | Attribute] | None = None,
    *,
    capacity: Mapping[str, str] | None = None,
    driver: str = DRIVER,
    pool: str = POOL,
    **more: Any,  # any field of Device
) -> Device:
    """A device; `a_slice` and `slices_of` move it to the driver and pool of the slice."""
    return Device(
        name,
        driver,
        pool,
        attributes={key: an_attribute(value) for key, value in (attributes or {}).items()},
        capacity={key: Quantity.parse(text) for key, text in (capacity or {}).items()},
        **more,
    )


def devices(number: int, attributes: Mapping[str, Scalar | Attribute] | None = None) -> tuple[Device, ...]:
    """That many devices alike but for their names: gpu-000, gpu-001 and so on."""
    return tuple(a_device(f"gpu-{index:03}", attributes) for index in range(number))


def on_node(name: str = NODE) -> Reach:
    """Reached from one node."""
    return Reach(node_name=name)


def everywhere() -> Reach:
    """Reached from every node."""
    return Reach(all_nodes=True)


def per_device() -> Reach:
    """Reached as each device says."""
    return Reach(per_device=True)


def where(*terms: Term) -> Reach:
    """Reached from the nodes that a selector of these terms matches."""
    return Reach(node_selector=terms)


def requires(key: str, operator: str, *values: str) -> Requirement:
    """A requirement of a node selector term."""
    return Requirement(key, operator, values)


def labelled(**labels: str) -> Term:
    """The term for nodes with these labels."""
    return Term(tuple(requires(key, "In", value) for key, value in labels.items()))


def named(name: str) -> NodeSelector:
    """The selector for the node of that name."""
    return (Term(fields=(requires("metadata.name", "In", name),)),)


def a_slice(
    *members: Device | str,
    name: str = "slice-0",
    driver: str = DRIVER,
    pool: str = POOL,
    generation: int = 1,
    slice_count: int = 1,
    reach: Reach | None = None,
    **more: Any,  # any field of Slice
) -> Slice:
    """A slice of these devices, on the one node where nothing else is said; a text is a device of that name."""
    homed = (a_device(member) if isinstance(member, str) else member for member in members)
    return Slice(
        name,
        driver,
        pool,
        generation,
        slice_count,
        on_node() if reach is None else reach,
        tuple(replace(device, driver=driver, pool=pool) for device in homed),
        **more,
    )


def a_term(*requirements: Requirement) -> Term:
    """The term in which all these hold of a node's labels."""
    return Term(requirements)


def a_class(name: str = CLASS, *selectors: str | None, config: Iterable[OpaqueConfig] = (), **more: Any) -> DeviceClass:
    """A class; without selectors it accepts every device."""
    return DeviceClass(name, selectors, tuple(config), **more)


def an_alternative(name: str = "gpus", class_name: str = CLASS, **more: Any) -> Alternative:
    """One way to satisfy a request; one device of class `gpu` where nothing else is said."""
    return Alternative(name, class_name, **more)


def a_request(
    name: str = "gpus", count: int = 1, *selectors: str | None, class_name: str = CLASS, **more: Any
) -> Request:
    """A request for that many devices of class `gpu` that match the selectors."""
    return Request(name, (an_alternative(name, class_name, count=count, selectors=selectors, **more),))


def all_devices(name: str = "gpus", *selectors: str | None, class_name: str = CLASS) -> Request:
    """A request for every device of class `gpu` that matches the selectors."""
    return Request(name, (an_alternative(name, class_name, mode="All", selectors=selectors),))


def first_available(name: str, *alternatives: Alternative) -> Request:
    """A request for the first of these that can be had; the alternatives carry their own short names."""
    renamed = tuple(replace(alternative, name=f"{name}/{alternative.name}") for alternative in alternatives)
    return Request(name, renamed, is_first_available=True)


def match(attribute: str, *requests: str) -> Constraint:
    """A constraint: one value of the attribute for all devices of the requests."""
    return Constraint(requests, match_attribute=attribute)


def distinct(attribute: str, *requests: str) -> Constraint:
    """A constraint: values of the attribute that differ for all devices of the requests."""
    return Constraint(requests, distinct_attribute=attribute)


def a_claim(
    *requests: Request,
    name: str = "claim",
    namespace: str = "default",
    constraints: Iterable[Constraint] = (),
    config: Iterable[OpaqueConfig] = (),
    **more: Any,  # any field of Claim
) -> Claim:
    """A claim that has no devices yet, for one device where no request is given."""
    wanted = requests or (a_request(),)
    return Claim(namespace, name, f"uid-{name}", wanted, tuple(constraints), tuple(config), **more)


def a_result(device: str = "gpu-0", *, driver: str = DRIVER, pool: str = POOL, **more: Any) -> DeviceResult:
    """One device in the allocation of a claim."""
    return DeviceResult("gpus", driver, pool, device, **more)


def an_allocated_claim(*results: DeviceResult | str, name: str = "holder", **more: Any) -> Claim:
    """A claim that holds these devices; a text is a device of the usual pool."""
    held = tuple(a_result(result) if isinstance(result, str) else result for result in results)
    return a_claim(name=name, allocation=Allocation(held), **more)


def a_config(driver: str = DRIVER, *requests: str, **parameters: object) -> OpaqueConfig:
    """Configuration for a driver, for the named requests or for all."""
    return OpaqueConfig({"driver": driver, "parameters": parameters}, requests)


def a_node(name: str = NODE, labels: Mapping[str, str] | None = None, **more: Any) -> Node:
    """A node with these labels."""
    return Node(name, dict(labels or {}), **more)


def kubernetes(release: str = "1.37", *, is_strict: bool = False, **gates: bool) -> Features:
    """The features of a release with single gates on top, also with locked ones: what is there for a gate's sake."""
    off = {gate for gate, is_on in gates.items() if not is_on}
    defaults = Features.of(release, {gate: True for gate in gates if gate not in off})
    return Features.with_gates(RELEASES[release], defaults.gates - off, is_strict=is_strict)


def a_snapshot(
    *slices: Slice,
    classes: Iterable[DeviceClass] | None = None,
    held: Iterable[Claim] = (),
    features: Features = Features.of("1.37"),  # noqa: B008 - a value
) -> Snapshot:
    """A snapshot of these slices; the one class is `gpu`, which accepts every device, where nothing else is said."""
    return Snapshot.of(slices, (a_class(),) if classes is None else classes, held, features)


def amounts(**written: str) -> dict[str, Quantity]:
    """Resources to amounts; in a name `_` stands for `-`, and `__` for the slash after a domain `example.com`."""
    return {_resource(name): Quantity.parse(text) for name, text in written.items()}


def _resource(name: str) -> str:
    domain, slash, rest = name.partition("__")
    return f"{domain}.example.com/{rest}" if slash else name.replace("_", "-")


def a_container(name: str = "main", /, **requests: str) -> Container:
    """A container that requests this; resources as in `amounts`."""
    return Container(name, amounts(**requests))


def an_init_container(name: str = "init", /, **requests: str) -> Container:
    """A container that ends before the next one starts."""
    return replace(a_container(name, **requests), is_plain_init=True)


def a_pod(
    *containers: Container,
    name: str = "pod",
    **more: Any,  # any field of Pod
) -> Pod:
    """A pod that waits for a node; without containers it requests nothing."""
    return Pod("default", name, **{"uid": f"uid-{name}", "containers": containers, **more})


def a_user(name: str = "pod", *claims: str, **more: Any) -> Pod:
    """A pod that uses the claims of these names."""
    return a_pod(name=name, claims=tuple(PodClaim(claim, claim) for claim in claims), **more)


@dataclass(frozen=True)
class Watched:
    """A claim as a watch shows it."""

    claim: Claim
    metadata: Metadata
    reserved_for: tuple[Consumer, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def watched(
    claim: Claim,
    *,
    owner: str = "",
    kind: str = "Pod",
    deleting: bool = False,
    users: Iterable[Pod] = (),
    safe: bool = True,
    extended: bool = False,
) -> Watched:
    """The claim with what else there is of it. owner: a uid. users: for whom it is reserved. safe: from deletion.

    extended: it was made for extended resources.
    """
    owners = (OwnerReference(kind, "owner", owner, is_controller=True),) if owner else ()
    annotations = {CLAIM_ANNOTATION: "true"} if extended else {}
    when = "now" * deleting
    metadata = Metadata(
        claim.name, claim.namespace, claim.uid, annotations=annotations, owners=owners, deletion_timestamp=when
    )
    raw = {"metadata": {"finalizers": [FINALIZER] if safe else []}}
    return Watched(claim, metadata, tuple(Consumer("", "pods", pod.name, pod.uid) for pod in users), raw)


def a_cycle(
    pod: Pod,
    infos: NodeInfos,
    templates: PodSignatures,
    selectors: PodSelectors | None = None,
    volumes: Volumes | None = None,
) -> Cycle:
    features, known = kubernetes(), selectors or PodSelectors()
    return Cycle(
        pod, pod_requests(pod), infos, templates.of(pod), known, volumes or Volumes(NodeTable(), features), features
    )
