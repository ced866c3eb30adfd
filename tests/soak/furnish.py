"""Where the soak takes place: nodes, devices of every kind, classes, templates, namespaces, rights."""

from base64 import b64encode
from collections.abc import Iterator

from tests.controlplane.contents import restore
from tests.controlplane.identities import OURS, TENANT
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import CLASS, NAMESPACE, NODE, SLICE, TEMPLATE, Json, Kind
from tests.controlplane.rights import grant

TEAMS = ("team-0", "team-1", "team-2", "team-3")
ADMINS = "operations"
GOOD = frozenset((*TEAMS, ADMINS))

HOSTILE = "hostile"
FAILING = "webhook-fails"
HANGING = "webhook-hangs"
HALF = "webhook-lets-allocate-only"
DENIED = "policy-denies"
TENANTS = (HOSTILE, FAILING, HANGING, HALF, DENIED)

GPU, PART, NIC, FABRIC, MEMORY = (f"{name}.example.com" for name in ("gpu", "part", "nic", "fabric", "memory"))
GPUS, FABRIC_DEVICES, MEMORY_DEVICES = 4, 256, 128
"""There is enough for everybody: how much of it one tenant may hold is a quota's matter, and not tried here."""

_SLICE_DEVICES = 128

_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"
_WRITES = [
    {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["resourceclaims/status"],
    },
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]},
]
# The controller manager would meet the same, and is not what is tried here.
_OF_OURS = [{"name": "ours", "expression": f"request.userInfo.username == '{OURS.user}'"}]


def furnish(plane: ControlPlane, nodes: int, webhook: str, authority: bytes) -> None:
    """Put it all there. webhook: its address, which ends with a slash; authority: what vouches for its certificate."""
    api = plane.client()
    grant(api)
    for objects in (
        _namespaces(),
        [*fleet(nodes), *devices_of_all_nodes()],
        classes(),
        _templates(),
        _rights(),
        _policy(),
    ):
        restore(api, objects)
    restore(api, _webhooks(webhook, authority))


def an_object(kind: Kind, name: str, namespace: str = "", **fields: object) -> Json:
    """An object as a user would write it."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}


def _namespaces() -> Iterator[Json]:
    for name in (*TEAMS, *TENANTS):
        yield an_object(NAMESPACE, name)
    labels = {"resource.kubernetes.io/admin-access": "true"}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ADMINS, "labels": labels}}


def fleet(nodes: int) -> Iterator[Json]:
    """So many nodes, and the devices of each."""
    for name in (f"node-{number:03d}" for number in range(nodes)):
        node = an_object(NODE, name)
        yield {**node, "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
        yield _slice(GPU, name, [_gpu(number) for number in range(GPUS)])
        yield _slice(NIC, name, [{"name": "nic", **_shared("bandwidth", "100G")}])
        yield _slice(PART, name, _parts(), of=2)
        yield _slice(PART, name, [], "-counters", of=2, counters="80Gi")


def ports_of_node(node: str, fabric: int) -> Json:
    """So many devices of the fabric's driver that this node alone reaches."""
    return _slice(FABRIC, node, [{"name": f"port-{number}"} for number in range(fabric)])


def devices_of_all_nodes(fabric: int = FABRIC_DEVICES, memory: int = MEMORY_DEVICES) -> Iterator[Json]:
    """So many devices of each driver whose devices all nodes reach."""
    ports = [{"name": f"port-{number}"} for number in range(fabric)]
    parts = [ports[begin : begin + _SLICE_DEVICES] for begin in range(0, len(ports), _SLICE_DEVICES)]
    for number, part in enumerate(parts):
        yield _slice(FABRIC, "", part, f"-{number}", of=len(parts))
    yield _slice(MEMORY, "", [{"name": f"pool-{number}", **_shared("memory", "1Ti")} for number in range(memory)])


def _slice(driver: str, node: str, devices: list[Json], suffix: str = "", *, of: int = 1, counters: str = "") -> Json:
    """One of so many slices of the pool of the node, or without a node of one that all nodes reach."""
    pool = {"name": node or "everywhere", "generation": 1, "resourceSliceCount": of}
    reach = {"nodeName": node} if node else {"allNodes": True}
    shared = [{"name": "chip", "counters": {"memory": {"value": counters}}}] if counters else []
    content = {"sharedCounters": shared} if shared else {"devices": devices}
    return an_object(
        SLICE, f"{pool['name']}-{driver}{suffix}", spec={"driver": driver, "pool": pool, **reach, **content}
    )


def _gpu(number: int) -> Json:
    attributes = {
        "index": {"int": number},
        "model": {"string": "H200"},
        "uuid": {"string": f"gpu-{number}"},
        "driverVersion": {"version": "1.2.3"},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def _shared(capacity: str, value: str) -> Json:
    return {"allowMultipleAllocations": True, "capacity": {capacity: {"value": value}}}


def _parts() -> list[Json]:
    """What a chip can be parted into: the whole, halves, quarters; not all of it at once."""
    sizes = {"whole": ("80Gi", 1), "half": ("40Gi", 2), "quarter": ("20Gi", 4)}
    return [
        {
            "name": f"{name}-{number}",
            "attributes": {"profile": {"string": name}},
            "consumesCounters": [{"counterSet": "chip", "counters": {"memory": {"value": value}}}],
        }
        for name, (value, times) in sizes.items()
        for number in range(times)
    ]


def classes() -> Iterator[Json]:
    """One of each driver's devices."""
    for driver in (GPU, PART, NIC, FABRIC, MEMORY):
        yield an_object(CLASS, driver, spec={"selectors": [selector(f"device.driver == '{driver}'")]})


def selector(expression: str) -> Json:
    """A selector of devices."""
    return {"cel": {"expression": expression}}


def request(driver: str, name: str = "r", **exactly: object) -> Json:
    """A request for devices of the driver's class, by default for one."""
    return {"name": name, "exactly": {"deviceClassName": driver, **exactly}}


def requests_of(what: str) -> list[Json]:
    """What a claim of the template of this name asks for."""
    profile = f"device.attributes['{PART}'].profile"
    found = {
        "gpu": [request(GPU)],
        "fabric": [request(FABRIC)],
        "memory": [request(MEMORY, capacity={"requests": {"memory": "10Gi"}})],
        "quarter": [request(PART, selectors=[selector(f"{profile} == 'quarter'")])],
        "half": [request(PART, selectors=[selector(f"{profile} == 'half'")])],
        "nic": [request(NIC, capacity={"requests": {"bandwidth": "10G"}})],
        "admin": [request(GPU, adminAccess=True)],
        "all": [request(GPU, allocationMode="All")],
    }
    return found[what]


def _templates() -> Iterator[Json]:
    kinds = ("gpu", "fabric", "memory", "quarter", "half", "nic")
    wanted = [(namespace, kind) for namespace in TEAMS for kind in kinds]
    wanted += [(namespace, kind) for namespace in TENANTS for kind in ("gpu", "fabric", "memory", "all")]
    for namespace, kind in (*wanted, (ADMINS, "admin")):
        yield an_object(TEMPLATE, kind, namespace, spec={"spec": {"devices": {"requests": requests_of(kind)}}})


def _rights() -> Iterator[Json]:
    """The tenant may do what the role `edit` allows, in its own namespaces: the parts of that role, by their names."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TENANT.user}
    for namespace in TENANTS:
        for role in ("system:aggregate-to-edit", "system:aggregate-to-view"):
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
            binding = Kind(_RBAC, "RoleBinding")
            yield an_object(binding, role, namespace, roleRef=reference, subjects=[subject])


def _policy() -> Iterator[Json]:
    """Whatever ours writes in the namespace is denied."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": _WRITES},
        "matchConditions": _OF_OURS,
        "validations": [{"expression": "false", "message": "nothing is placed here"}],
    }
    yield an_object(Kind(_ADMISSION, "ValidatingAdmissionPolicy"), DENIED, spec=spec)
    where = {"namespaceSelector": _named(DENIED)}
    bound = {"policyName": DENIED, "validationActions": ["Deny"], "matchResources": where}
    yield an_object(Kind(_ADMISSION, "ValidatingAdmissionPolicyBinding"), DENIED, spec=bound)


def _webhooks(address: str, authority: bytes) -> Iterator[Json]:
    webhooks = [
        {
            "name": f"{namespace}.example.com",
            "clientConfig": {"url": address + namespace, "caBundle": b64encode(authority).decode()},
            "rules": _WRITES,
            "matchConditions": _OF_OURS,
            "namespaceSelector": _named(namespace),
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 10,
        }
        for namespace in (FAILING, HANGING, HALF)
    ]
    yield an_object(Kind(_ADMISSION, "ValidatingWebhookConfiguration"), "soak", webhooks=webhooks)


def _named(namespace: str) -> Json:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
