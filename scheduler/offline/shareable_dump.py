"""What of raw objects is kept in a dump that others may read: all that decisions depend on, and no secret.

Fields that no decision reads are dropped. A redacted dump keeps texts field by field: words of the API, and what
drivers say of devices. Every other text is replaced, however it looks. What the API lets somebody choose is kept only
where decisions read it and it names nobody: the lists here are complete, and hold no pattern and no prefix.
Source: k8s.io/api core/v1, resource/v1 and others; kubernetes.io/docs/reference/labels-annotations-taints.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from itertools import chain
from typing import Any

import cel
from allocator.api import decode, is_decoded
from allocator.api.metadata import STANDARD_FINALIZERS
from allocator.api.names import version as version_problem
from allocator.api.resource_slice import NODE_OPERATIONS
from allocator.cluster.pools import NodeView, Segment
from allocator.cluster.snapshot import Selectors
from allocator.model import Device, Slice
from allocator.pod_resources import CLAIM_ANNOTATION
from cel.values.quantity import Quantity
from scheduler.core_v1.custom_pods import KINDS as CUSTOM_KINDS
from scheduler.core_v1.node import BUILT_IN, RESTART_ALL_CONTAINERS, USER_NAMESPACES_ON_HOST_NETWORK
from scheduler.core_v1.pod_selector import KINDS as POD_SELECTORS
from scheduler.core_v1.pod_volumes import DRIVERS, MIGRATIONS, UNCOUNTED
from scheduler.core_v1.resources import ANY_ADDRESS
from scheduler.core_v1.storage_objects import BIND_COMPLETED, CLASS_ANNOTATION, NO_PROVISIONER, SELECTED_NODE
from scheduler.core_v1.workload import BLUEPRINTS, asks_for_claims, decode_embedded
from scheduler.decision import filters
from scheduler.input.inventory import (
    KINDS_THAT_COUNT,
    SELECTOR,
    TAINT_EFFECTS,
    VERSIONS,
    expressions,
    is_group_of_kubernetes,
    subject_of,
)
from scheduler.kinds import BY_NAME, IN_FILES
from scheduler.offline.input_claims import ENTRY_ANNOTATION
from scheduler.state.claims import FINALIZER
from scheduler.state.pods import OF_NODES

JsonValue = Any
"""A value of JSON."""

CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""What stands before the name of a class in the name of its resource."""

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal")
_COMPARES_NUMBERS = frozenset({"Gt", "Lt"})
_CONDITIONS = (
    *("Ready", "ContainersReady", "Initialized", "PodScheduled", "PodReadyToStartContainers", "DisruptionTarget"),
    *("PodResizePending", "PodResizeInProgress", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
    *("Complete", "Completed", "SuccessCriteriaMet", "Succeeded", "Finished", "Failed", "FailureTarget", "Suspended"),
    *("Available", "Progressing", "ReplicaFailure"),
)
_CLASSES_OF_SYSTEM = tuple(built_in.name for built_in in BUILT_IN)

WORDS: Mapping[str, frozenset[str]] = {
    name: frozenset(words)
    for names, words in (
        (("operator",), _OPERATORS),
        (("effect",), (*TAINT_EFFECTS, "None")),
        (("phase",), ("Pending", "Running", "Succeeded", "Failed", "Unknown", "Active", "Terminating")),
        (("status",), ("True", "False", "Unknown")),
        (("type",), (*_CONDITIONS, "RollingUpdate", "Recreate", "OnDelete", "ClusterIP", "NodePort", "LoadBalancer")),
        (("reason",), ("Infeasible", "Deferred", "Unschedulable", "SchedulingGated", "SchedulerError")),
        (("allocationMode",), ("ExactCount", "All")),
        (("whenUnsatisfiable",), ("DoNotSchedule", "ScheduleAnyway")),
        (("nodeAffinityPolicy", "nodeTaintsPolicy"), ("Honor", "Ignore")),
        (("restartPolicy",), ("Always", "OnFailure", "Never")),
        (("action",), ("RestartAllContainers", "Restart")),
        (("protocol",), ("TCP", "UDP", "SCTP")),
        (("volumeBindingMode",), ("Immediate", "WaitForFirstConsumer")),
        (("volumeMode",), ("Filesystem", "Block")),
        (("accessModes",), ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")),
        (("preemptionPolicy",), ("PreemptLowerPriority", "Never")),
        (("reclaimPolicy", "persistentVolumeReclaimPolicy"), ("Retain", "Delete", "Recycle")),
        (("source",), ("FromClass", "FromClaim")),
        (("skipNodeOperations",), NODE_OPERATIONS),
        (("declaredFeatures",), (RESTART_ALL_CONTAINERS, USER_NAMESPACES_ON_HOST_NETWORK)),
        (("schedulerName",), ("default-scheduler",)),
        (("priorityClassName",), _CLASSES_OF_SYSTEM),
        (("resource",), ("pods", "podgroups")),
        (("apiGroup",), ("scheduling.k8s.io", "resource.k8s.io", "apps", "batch", "storage.k8s.io")),
        (("hostIP",), (ANY_ADDRESS,)),
        (
            ("finalizers",),
            (FINALIZER, "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection", *STANDARD_FINALIZERS),
        ),
        (("imagePullPolicy",), ("Always", "IfNotPresent", "Never")),
        (("podManagementPolicy",), ("OrderedReady", "Parallel")),
        (("completionMode",), ("NonIndexed", "Indexed")),
        (("concurrencyPolicy",), ("Allow", "Forbid", "Replace")),
    )
    for name in names
}
"""Field -> the words that the API has for it; any other text in it is a name that somebody chose."""

_PHASES_OF_VOLUMES = frozenset({"Available", "Bound", "Released", "Lost"})
KINDS = frozenset(
    {
        *(*KINDS_THAT_COUNT, *BLUEPRINTS, *POD_SELECTORS, *(kind for _, kind in CUSTOM_KINDS), "PodGroup", "Workload"),
        *("Managed", "Dedicated", "Shared"),  # of Azure's disks
    }
)
"""Kinds that the code knows: those of the input may be somebody's own."""

GROUPS = frozenset(
    {
        *(version.rpartition("/")[0] for version in VERSIONS.values()),
        *("apiextensions.k8s.io", *(group for group, _ in CUSTOM_KINDS)),
    }
)
"""Groups of these kinds."""


TIMES = frozenset(
    {
        *("creationTimestamp", "deletionTimestamp", "timeAdded", "allocationTimestamp", "lastTransitionTime"),
        *("lastProbeTime", "lastHeartbeatTime", "lastUpdateTime", "startTime", "startedAt", "completionTime"),
    }
)
AMOUNTS = frozenset({"capacity", "maximumVolumeSize", "guest"})
"""Fields that hold one quantity; where they hold an object, that has amounts by name."""

LABEL_KEYS = frozenset(
    {
        *("kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname", "kubernetes.io/metadata.name"),
        *("beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
        *("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"),
        *("node.kubernetes.io/exclude-from-external-load-balancers", "node.kubernetes.io/windows-build"),
        *("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable"),
        *("node.kubernetes.io/memory-pressure", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/pid-pressure"),
        *("node.kubernetes.io/network-unavailable", "node.kubernetes.io/out-of-service"),
        *("node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown"),
        *("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version"),
        *("app.kubernetes.io/component", "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by"),
        *("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "pod-template-hash"),
        *("batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"),
        *("batch.kubernetes.io/controller-uid", "controller-revision-hash", filters.LABEL),
        *(migration.zone_key for migration in MIGRATIONS.values() if migration.zone_key),
    }
)
"""Keys of labels and taints that Kubernetes itself gives."""

LABEL_VALUES: Mapping[str, frozenset[str]] = {
    filters.LABEL: frozenset({"true", "false"}),
    **dict.fromkeys(
        ("kubernetes.io/arch", "beta.kubernetes.io/arch"), frozenset({"amd64", "arm64", "ppc64le", "s390x"})
    ),
    **dict.fromkeys(("kubernetes.io/os", "beta.kubernetes.io/os"), frozenset({"linux", "windows"})),
}
"""Key -> the values that Kubernetes itself gives."""

PLUGINS = frozenset({*DRIVERS, *UNCOUNTED, NO_PROVISIONER, *(one.driver for one in MIGRATIONS.values())})
"""Drivers and provisioners that Kubernetes itself knows."""

RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods", *OF_NODES})
"""Resources that Kubernetes itself has names for, beside those of huge pages by their size."""

DESCRIBING = frozenset(
    {
        *("type", "model", "brand", "vendor", "architecture", "family", "productName", "profile", "encapsulation"),
        *("pciVendor", "pciDevice"),
    }
)
"""Attributes, without their domain, whose texts say what a device is, and not which one."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_UUID = re.compile(r"[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}")


@dataclass
class KeptTexts:
    """What certain objects say that stays."""

    drivers: set[str] = field(default_factory=lambda: set(PLUGINS))
    """Drivers that publish devices and volumes."""
    attributes: set[str] = field(default_factory=set)
    """Names of attributes that devices have, each with and without its domain."""
    capacities: set[str] = field(default_factory=set)
    """Names of capacities likewise."""
    descriptions: set[str] = field(default_factory=set)
    """Texts of attributes that say what a device is."""
    values: set[str] = field(default_factory=set)
    """Values of all attributes."""
    compared: set[str] = field(default_factory=set)
    """Keys of labels of which a selector compares the numbers."""

    @staticmethod
    def of(objects: Iterable[Mapping[str, JsonValue]]) -> "KeptTexts":
        """Those of the objects. Cost: O(size)."""
        kept, names = KeptTexts(), set[str]()
        for raw in objects:
            kept.compared.update(_compared(raw))
            names.update(_names_of_devices(raw))
            if not is_of_kubernetes(raw):  # whose fields have another meaning
                continue
            if kind := BY_NAME.get(str(raw.get("kind"))):
                kept.drivers.update(_texts_at(raw, kind.drivers_at))
            if raw.get("kind") == "ResourceSlice":
                kept._take_devices(fields_of(raw.get("spec")))
        kept.descriptions -= names
        return kept

    def _take_devices(self, spec: Mapping[str, JsonValue]) -> None:
        driver = str(spec.get("driver"))
        for device in map(fields_of, listed(spec.get("devices"))):
            device = {**fields_of(device.get("basic")), **device}  # noqa: PLW2901 - as older versions have it
            self.attributes.update(spellings(fields_of(device.get("attributes")), driver))
            self.capacities.update(spellings(fields_of(device.get("capacity")), driver))
            for name, value in fields_of(device.get("attributes")).items():
                given = [text for one in fields_of(value).values() for text in (one, *listed(one))]
                texts = {text for text in given if isinstance(text, str)}
                self.values |= texts
                if name.rpartition("/")[2] in DESCRIBING:
                    self.descriptions.update(text for text in texts if not _identifies(text))

    @cached_property
    def shown(self) -> frozenset[str]:
        """What the dump says of devices in any case: whoever writes one of these texts elsewhere adds nothing to it."""
        names = self.attributes | self.capacities
        domains = {name.partition("/")[0] for name in names if "/" in name}
        return frozenset(names | domains | self.drivers | self.descriptions)

    def stays(self, text: str, field_name: str) -> bool:
        """Whether the text of the field is one of the API's words, a time or an amount."""
        if field_name in WORDS:
            return text in WORDS[field_name] or (field_name == "phase" and text in _PHASES_OF_VOLUMES)
        if field_name in TIMES:
            return _TIME.fullmatch(text) is not None
        if field_name in AMOUNTS:
            return is_amount(text)
        if field_name == "resourceVersion":
            return text.isascii() and text.isdecimal()
        return field_name == "kind" and text in KINDS


def is_of_kubernetes(raw: Mapping[str, JsonValue]) -> bool:
    """Whether the object is of a kind that counts, and not of another project's kind of that name."""
    kind, version = str(raw.get("kind")), str(raw.get("apiVersion"))
    group = version.rpartition("/")[0]
    is_known = is_decoded(version, kind) or (group, kind) in IN_FILES
    return is_known or (kind in VERSIONS and is_group_of_kubernetes(group))


def fields_of(value: JsonValue) -> Mapping[str, JsonValue]:
    """The fields of an object; none of what is no object, as in a manifest with errors."""
    return value if isinstance(value, dict) else {}


def listed(value: JsonValue) -> Sequence[JsonValue]:
    """The entries of a list; none of what is no list."""
    return value if isinstance(value, list) else ()


def is_amount(text: str) -> bool:
    """Whether the text is a quantity."""
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def is_version(text: str) -> bool:
    """Whether the text is a semantic version."""
    return not version_problem(text)


def is_number(text: str) -> bool:
    """Whether the text is a whole number, as Gt and Lt compare them."""
    return text.isascii() and text.removeprefix("-").isdecimal()


def is_resource_of_kubernetes(name: str) -> bool:
    """Whether Kubernetes has the name for a resource."""
    pages = name.removeprefix("hugepages-")
    return name in RESOURCES or (pages != name and is_amount(pages))


def spellings(names: Iterable[str], driver: str) -> Iterator[str]:
    """Each name of an attribute or a capacity, with and without its domain."""
    for name in names:
        domain, slash, without_domain = name.rpartition("/")
        yield name
        if not slash:
            yield f"{driver}/{name}"
        elif domain == driver:
            yield without_domain


def _texts_at(value: JsonValue, path: Sequence[str]) -> Iterator[str]:
    """The texts at the end of the path, in all entries of lists; none of an empty path."""
    for name in path[:1]:
        for holder in listed(value) or [value]:
            inner = fields_of(holder).get(name)
            yield from _texts_at(inner, path[1:]) if path[1:] else [inner] if isinstance(inner, str) else ()


def _compared(value: JsonValue) -> Iterator[str]:
    """The keys of which numbers are compared."""
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            if isinstance(key := value.get("key"), str) and str(value.get("operator")) in _COMPARES_NUMBERS:
                yield key
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)


def _names_of_devices(raw: Mapping[str, JsonValue]) -> Iterator[str]:
    """The names of nodes, pools and devices, which attributes may repeat."""
    if raw.get("kind") == "Node":
        yield str(fields_of(raw.get("metadata")).get("name"))
    elif raw.get("kind") == "ResourceSlice":
        spec = fields_of(raw.get("spec"))
        yield from (str(fields_of(spec.get("pool")).get("name")), str(spec.get("nodeName")))
        yield from (str(fields_of(device).get("name")) for device in listed(spec.get("devices")))


def _identifies(text: str) -> bool:
    """Whether the text is an address, or contains a UUID."""
    try:
        ip_address(text.partition("/")[0])
    except ValueError:
        return _UUID.search(text) is not None
    return True


# The selectors that choose other devices once their texts and those of the devices are redacted.
#
# A text that is put together, taken apart or matched against a pattern has no replacement that behaves as it did.
# Instead of guessing which expressions do so, each is asked about all devices before and after.


_Pair = tuple[Mapping[str, JsonValue], Mapping[str, JsonValue]]


def changed_selectors(
    before: Iterable[Mapping[str, JsonValue]], after: Iterable[Mapping[str, JsonValue]]
) -> Iterator[str]:
    """`KIND NAME: PATH` of each selector that no longer selects the same devices, or fails on others.

    So it is for each derived attribute that no longer has equal values for the same devices. after: the redacted
    objects, in the same order. Cost: O(different selectors x devices).
    """
    pairs = list(zip(before, after, strict=True))
    views = _views(pairs)
    asked = Selectors(cel.V1_37), Selectors(cel.V1_37)
    is_same: dict[tuple[str, str, str], bool] = {}
    for raw, redacted in pairs:
        if not is_decoded(str(raw.get("apiVersion")), str(raw.get("kind"))):
            continue
        paired = zip(expressions(raw.get("spec"), "spec"), expressions(redacted.get("spec"), "spec"), strict=False)
        for (path, kind, text), (_, _, other) in paired:
            key = kind, text, other
            if key not in is_same:
                first, second = (_answer(kind, *one) for one in zip(asked, (text, other), views, strict=True))
                is_same[key] = first == second
            if not is_same[key]:
                yield f"{subject_of(str(raw['kind']), raw)}: {path}"


def _answer(field: str, selectors: Selectors, text: str, view: NodeView) -> object:
    """Which devices a selector selects; or which devices a derived attribute has equal values for."""
    if field == SELECTOR:
        return selectors.select(text, view)
    firsts: dict[Hashable, int] = {}
    return [firsts.setdefault(_derived(text, device), position) for position, device in enumerate(view.devices)]


def _derived(text: str, device: Device) -> Hashable:
    """The value, None where it fails; constraints ask only whether values are equal."""
    try:
        return cel.compile_value(text).evaluate(device)
    except (cel.CompileError, cel.EvalError):
        return None


def _views(pairs: Iterable[_Pair]) -> tuple[NodeView, NodeView]:
    """All devices, before and after."""
    slices = [
        (first, second)
        for raw, redacted in pairs
        if raw.get("kind") == "ResourceSlice"
        and isinstance(first := decode(raw, allows_combined=True).object, Slice)
        and isinstance(second := decode(redacted, allows_combined=True).object, Slice)
    ]
    return _view([one for one, _ in slices]), _view([one for _, one in slices])


def _view(slices: Iterable[Slice]) -> NodeView:
    segments, offset = list[Segment](), 0
    for slice_ in slices:
        segments.append(Segment(slice_, offset))
        offset += len(slice_.devices)
    devices = tuple(chain.from_iterable(one.slice.devices for one in segments))
    return NodeView(None, (), tuple(segments), devices, 0, 0, 0, 0, frozenset())


DROPPED = frozenset(
    {
        *("managedFields", "selfLink", "message", "data", "stringData", "binaryData"),
        *("env", "envFrom", "command", "args", "lifecycle", "workingDir", "securityContext"),
        *("livenessProbe", "readinessProbe", "startupProbe", "volumeMounts", "volumeDevices"),
        *("imagePullSecrets", "hostAliases", "dnsConfig", "dnsPolicy", "hostname", "subdomain"),
        *("terminationMessagePath", "terminationMessagePolicy", "serviceAccount", "serviceAccountName"),
        *("addresses", "podCIDR", "podCIDRs", "providerID", "daemonEndpoints", "volumesAttached"),
        *("podIP", "podIPs", "hostIPs", "externalIPs", "clusterIP", "clusterIPs", "loadBalancer", "externalName"),
        *("volumeAttributes", "options", "nodeInfo", "containerID", "imageID", "lastState", "state"),
        *("ephemeralContainers", "configSource"),
        *("accessCredentials", "userData", "userDataBase64", "networkDataBase64"),
    }
)
"""Fields that no decision reads, wherever they stand."""

ANNOTATIONS = frozenset(
    {
        *(CLAIM_ANNOTATION, ENTRY_ANNOTATION, SELECTED_NODE, BIND_COMPLETED, CLASS_ANNOTATION),
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
        "storage.alpha.kubernetes.io/migrated-plugins",
    }
)
"""Annotations that decide something."""

_SOURCES_WITHOUT_DEVICES = frozenset(
    {"secret", "configMap", "projected", "downwardAPI", "emptyDir", "hostPath", "nfs", "gitRepo", "flexVolume"}
    | {"cloudInitNoCloud", "cloudInitConfigDrive", "sysprep"}
)
"""Volumes of a pod that nothing depends on, and which name secrets, hosts and paths."""


def shareable(raw: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """The object without what no decision reads; None for one of a kind that does not count, such as a Secret."""
    kind = str(raw.get("kind"))
    if not (is_of_kubernetes(raw) or _has_pods(kind, raw)):
        return None
    kept: dict[str, JsonValue] = _kept(raw)
    if kind == "ResourceClaim" and isinstance(kept.get("status"), dict):
        kept["status"].pop("devices", None)
    return kept


def _has_pods(kind: str, raw: Mapping[str, JsonValue]) -> bool:
    return bool(decode_embedded(kind, raw)[0]) or asks_for_claims(kind, raw)


def _kept(value: JsonValue, field: str = "") -> JsonValue:
    if isinstance(value, list):
        return [_kept(one, field) for one in value if not _is_volume_without_devices(one, field)]
    if not isinstance(value, dict):
        return value
    if field == "annotations":
        return {key: one for key, one in value.items() if key in ANNOTATIONS}
    if field == "parameters":  # of a driver, which may hold anything
        return {}
    return {key: _kept(one, key) for key, one in value.items() if key not in DROPPED}


def _is_volume_without_devices(value: JsonValue, field: str) -> bool:
    return field == "volumes" and isinstance(value, dict) and not _SOURCES_WITHOUT_DEVICES.isdisjoint(value)
