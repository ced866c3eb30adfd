"""What the hostile tenant does: one function for each way, each of a few calls within the rights of the role `edit`.

All of it is drawn from a seed. Whether the API server takes it is up to the server, and counted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple
from urllib.parse import quote

import orjson

from tests.controlplane.rest import NAMESPACE, Json
from tests.soak.client import APPLY, MERGE, Call
from tests.soak.furnish import (
    DENIED,
    FABRIC,
    FAILING,
    GPU,
    HALF,
    HANGING,
    HOSTILE,
    MEMORY,
    an_object,
    request,
    selector,
)
from tests.soak.objects import a_claim, a_pod, by_name, create, delete, from_template, path_of

DEPTHS = (100, 9_000)
_PARAMETERS = 10 * 1024  # bytes: what the API server takes of one opaque configuration
_REQUESTS, _CHOICES, _SELECTORS, _CONFIGS = 32, 8, 32, 32
_EXPRESSION = 10 * 1024
_ANNOTATIONS = 250 * 1024
_TERMS = 3_000
_RECREATED = 5
_HOLE = "<deep>"


@dataclass(slots=True)
class Tenant:
    """chance: where everything is drawn from; number: of the act; claims, pods: paths of those that it has made."""

    chance: Random
    number: int = 0
    claims: list[str] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """A new one."""
        return f"act-{self.number}"


class Act(NamedTuple):
    """calls: one after the other. made: paths of what is there then."""

    calls: Sequence[Call]
    made: Sequence[str] = ()


def _make(*objects: Json, texts: Sequence[tuple[str, str]] = ()) -> Act:
    return Act([create(one, *texts) for one in objects], [path_of(one) for one in objects])


def _used(claim: Json, texts: Sequence[tuple[str, str]] = ()) -> Act:
    """The claim, and a pod that wants it."""
    namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
    return _make(claim, a_pod(namespace, name, [by_name(name)]), texts=texts)


def nested(chance: Random, depth: int) -> str:
    """JSON of that depth."""
    opened, closed = chance.choice([('{"":', "}"), ('{"a":', "}"), ("[", "]"), ('[{"a":', "}]")])
    return opened * depth + "1" + closed * depth


def _opaque(parameters: object, driver: str = GPU) -> Json:
    return {"opaque": {"driver": driver, "parameters": parameters}}


def deep_parameters(tenant: Tenant) -> Act:
    """Parameters for a driver, nested as deep as it goes."""
    depth = tenant.chance.randint(*DEPTHS)
    text = nested(tenant.chance, depth)
    claim = a_claim(HOSTILE, tenant.name, [request(GPU)], config=[_opaque({"a": _HOLE})])
    return _used(claim, [(_HOLE, text)])


def deep_managers(tenant: Tenant) -> Act:
    """managedFields that claim to own fields nested as deep as it goes, on a claim and its pod."""
    depth = tenant.chance.randint(*DEPTHS)
    text = '{"f:a":' * depth + "{}" + "}" * depth
    managers = [_manager(tenant.chance, _HOLE)]
    claim = a_claim(HOSTILE, tenant.name, [request(GPU)], metadata={"managedFields": managers})
    pod = a_pod(HOSTILE, tenant.name, [by_name(tenant.name)])
    return _make(claim, {**pod, "metadata": {**pod["metadata"], "managedFields": managers}}, texts=[(_HOLE, text)])


def foreign_managers(tenant: Tenant) -> Act:
    """managedFields of shapes that no controller writes, our own names among them."""
    shapes = [
        {},
        {"f:status": {}},
        {"f:status": {"f:resourceClaimStatuses": {".": {}, 'k:{"name":"made"}': {"v:1": {}}}}},
    ]
    managers = [_manager(tenant.chance, shape) for shape in shapes for _ in range(tenant.chance.randint(0, 3))]
    pod = a_pod(HOSTILE, tenant.name, [from_template("gpu")])
    return _make({**pod, "metadata": {**pod["metadata"], "managedFields": managers}})


def _manager(chance: Random, fields: object) -> Json:
    name = chance.choice(["dra-scheduler.dev/claim-statuses", "kubectl", "", "\U0001f600" * 20, "x" * 128])
    return {
        "manager": name,
        "operation": chance.choice(["Update", "Apply"]),
        "apiVersion": chance.choice(["v1", "resource.k8s.io/v1", "none/v9"]),
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "subresource": chance.choice(["", "status", "binding"]),
    }


def applied(tenant: Tenant) -> Act:
    """A claim by server-side apply, twice, under odd managers."""
    claim = a_claim(HOSTILE, tenant.name, [request(GPU)], metadata={"annotations": {"a": "b"}})
    query = [
        f"fieldManager={quote(name)}&force=true" for name in ("\U0001f600" * 10, "dra-scheduler.dev/claim-statuses")
    ]
    body = orjson.dumps(claim)
    applies = [Call("PATCH", f"{path_of(claim)}?{one}", body, APPLY) for one in query]
    pod = a_pod(HOSTILE, tenant.name, [by_name(tenant.name)])
    return Act([*applies, create(pod)], [path_of(claim), path_of(pod)])


def huge_parameters(tenant: Tenant) -> Act:
    """As much configuration as a claim may have."""
    configs = [_opaque({"a": "x" * (_PARAMETERS - 50)}, f"{number}.example.com") for number in range(_CONFIGS)]
    return _used(a_claim(HOSTILE, tenant.name, [request(GPU)], config=configs))


def huge_labels(tenant: Tenant) -> Act:
    """Thousands of labels and annotations."""
    times = tenant.chance.choice([500, 2_000, 8_000])
    labels = {f"label-{number}": "x" * 60 for number in range(times)}
    annotations = {f"annotation-{number}": "y" * 60 for number in range(_ANNOTATIONS // 80)}
    metadata = {"labels": labels, "annotations": annotations}
    return _used(a_claim(HOSTILE, tenant.name, [request(GPU)], metadata=metadata))


def many_requests(tenant: Tenant) -> Act:
    """As many requests and choices as a claim may have, each with a selector that nobody else has."""
    size = tenant.chance.choice([0, 0, 400, 4_000])
    requests = [
        {
            "name": f"r{number}",
            "firstAvailable": [
                {"name": f"c{choice}", "deviceClassName": GPU, "selectors": [selector(_distinct(tenant.chance, size))]}
                for choice in range(_CHOICES)
            ],
        }
        for number in range(_REQUESTS)
    ]
    return _used(a_claim(HOSTILE, tenant.name, requests))


def distinct_selectors(tenant: Tenant) -> Act:
    """As many selectors as a request may have, and no two that anybody has seen before."""
    selectors = [selector(_distinct(tenant.chance, 0)) for _ in range(_SELECTORS)]
    return _used(a_claim(HOSTILE, tenant.name, [request(GPU, selectors=selectors)]))


def _distinct(chance: Random, size: int) -> str:
    """An expression that holds for all devices; size: of a text that does nothing in it, in bytes.

    A text, since as a list the API server itself would take seconds to compile it.
    """
    padding = f" && '{'x' * size}' != ''" if size else ""
    return f"device.attributes['{GPU}'].index != {chance.randrange(10, 1 << 40)}{padding}"


def dear_selector(tenant: Tenant) -> Act:
    """A selector that costs about as much as is allowed, and holds for no device in the end."""
    dear = _dear(tenant.number, tenant.chance.choice([50, 150, 250]))
    matching = f"device.attributes['{GPU}'].uuid.matches('{'(a|b|c)*' * tenant.chance.randint(1, 100)}{tenant.number}')"
    return _used(
        a_claim(HOSTILE, tenant.name, [request(GPU, selectors=[selector(tenant.chance.choice([dear, matching]))])])
    )


def _dear(number: int, size: int) -> str:
    """An expression like no other, whose cost grows with the square of the size, and that holds for no device."""
    numbers = f"[{','.join(map(str, range(size)))}]"
    index = f"device.attributes['{GPU}'].index"
    return f"{numbers}.all(x, {numbers}.all(y, x + y + {index} + {number} >= 0)) && {index} < 0"


def crowd(namespaces: int) -> Iterator[Json]:
    """So many namespaces, each with one pod whose decision takes as long as one may, and does not fit anywhere."""
    for number in range(namespaces):
        name = f"crowd-{number}"
        yield an_object(NAMESPACE, name)
        yield a_claim(name, "dear", [request(GPU, selectors=[selector(_dear(number, 150))])])
        yield a_pod(name, "dear", [by_name("dear")])


def all_devices(tenant: Tenant) -> Act:
    """Whatever there is."""
    driver = tenant.chance.choice([GPU, FABRIC, MEMORY])
    wants: Json = tenant.chance.choice([{"allocationMode": "All"}, {"count": 32}, {"count": 4}])
    return _used(a_claim(HOSTILE, tenant.name, [request(driver, **wants)]))


def missing_claim(tenant: Tenant) -> Act:
    """A pod whose claim, or template, is not there; or is another's."""
    others = [path.rpartition("/")[2] for path in tenant.claims] or ["nothing"]
    entry = tenant.chance.choice(
        [by_name("nothing"), from_template("nothing"), by_name("shared-1"), by_name(tenant.chance.choice(others))]
    )
    return _make(a_pod(HOSTILE, tenant.name, [entry]))


def many_claims(tenant: Tenant) -> Act:
    """A pod with many claims, some of them twice."""
    entries = [from_template(tenant.chance.choice(["gpu", "fabric"]), f"made-{one}") for one in range(8)]
    entries += [by_name("nothing", f"named-{one}") for one in range(tenant.chance.choice([0, 0, 2]))]
    return _make(a_pod(HOSTILE, tenant.name, entries))


def many_terms(tenant: Tenant) -> Act:
    """A pod with thousands of terms about all pods of everybody, by keys that no node has or by that of all."""
    keys = [f"example.com/{number}" for number in range(_TERMS)]
    everybody: Json = {"labelSelector": {}, "namespaceSelector": {}}
    liked = [
        {"weight": 1, "podAffinityTerm": {"topologyKey": key, **everybody}}
        for key in tenant.chance.choice([keys, ["kubernetes.io/hostname"] * _TERMS])
    ]
    alone = [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"term": str(number)}}}
        for number in range(_TERMS)
    ]
    spread: Json = tenant.chance.choice(
        [{"whenUnsatisfiable": "ScheduleAnyway"}, {"whenUnsatisfiable": "DoNotSchedule"}]
    )
    preferred, required = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("preferred", "required"))
    fields: Json = tenant.chance.choice(
        [
            {"affinity": {"podAffinity": {preferred: liked}}},
            {"affinity": {"podAntiAffinity": {preferred: liked}}},
            {"affinity": {"podAntiAffinity": {required: alone}}},
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": key, "labelSelector": {}, **spread} for key in keys
                ]
            },
        ]
    )
    return _make(a_pod(HOSTILE, tenant.name, [from_template("gpu")], **fields))


def recreated_pod(tenant: Tenant) -> Act:
    """A pod of a name that another had a moment ago."""
    name = f"again-{tenant.chance.randrange(_RECREATED)}"
    pod = a_pod(HOSTILE, name, [from_template(tenant.chance.choice(["gpu", "fabric", "memory", "all"]))])
    return Act([delete(path_of(pod)), create(pod)], [path_of(pod)])


def recreated_claim(tenant: Tenant) -> Act:
    """A claim of a name that another had a moment ago, while pods wait for it or use it."""
    name = f"again-claim-{tenant.chance.randrange(_RECREATED)}"
    claim = a_claim(HOSTILE, name, [request(tenant.chance.choice([GPU, FABRIC]))])
    pod = a_pod(HOSTILE, tenant.name, [by_name(name)])
    return Act([delete(path_of(claim)), create(claim), create(pod)], [path_of(claim), path_of(pod)])


def claim_deleted(tenant: Tenant) -> Act:
    """A claim goes, whoever uses it."""
    return Act([delete(path) for path in _some(tenant, tenant.claims)])


def pod_deleted(tenant: Tenant) -> Act:
    """A pod goes, wherever it is by now."""
    return Act([delete(path) for path in _some(tenant, tenant.pods)])


def touched(tenant: Tenant) -> Act:
    """Claims and pods change again and again while somebody works on them."""
    body = orjson.dumps({"metadata": {"annotations": {"touched": tenant.name}}})
    paths = [*_some(tenant, tenant.claims[-5:]), *_some(tenant, tenant.pods[-5:])]
    return Act([Call("PATCH", path, body, MERGE) for path in paths for _ in range(3)])


def _some(tenant: Tenant, paths: Sequence[str]) -> list[str]:
    return [tenant.chance.choice(paths)] if paths else []


def forged_intent(tenant: Tenant) -> Act:
    """A claim that says that a scheduler is at work on it, and keeps its finalizer."""
    intents = [
        '{"scheduler":"dra-scheduler","epoch":9223372036854775808,"process":"x","podUID":"x","node":"node-000","attempt":1}',
        '{"scheduler":"dra-scheduler","epoch":1,"process":"","podUID":"x","node":"node-000","attempt":-1}',
        "[" * 20_000,
        "null",
    ]
    annotations = {"dra-scheduler.dev/intent": tenant.chance.choice(intents), "dra-scheduler.dev/fence": "x"}
    metadata = {"annotations": annotations, "finalizers": ["resource.kubernetes.io/delete-protection"]}
    return _used(a_claim(HOSTILE, tenant.name, [request(GPU)], metadata=metadata))


def status_written(tenant: Tenant) -> Act:
    """The status of a claim, which is not the tenant's to write."""
    body = orjson.dumps({"status": {"reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}]}})
    return Act([Call("PATCH", f"{path}/status", body, MERGE) for path in _some(tenant, tenant.claims)])


def prescheduled(tenant: Tenant) -> Act:
    """A pod that has its node from the start, and devices from nobody."""
    return _make(a_pod(HOSTILE, tenant.name, [from_template("gpu")], nodeName="node-000"))


def refused_by_webhook(tenant: Tenant) -> Act:
    """A pod in a namespace where what the scheduler writes fails, hangs, or cannot be taken back."""
    namespace = tenant.chance.choice([FAILING, HANGING, HALF])
    return _make(a_pod(namespace, tenant.name, [from_template(tenant.chance.choice(["gpu", "fabric", "memory"]))]))


def refused_by_policy(tenant: Tenant) -> Act:
    """A pod in a namespace where a policy denies what the scheduler writes."""
    return _make(a_pod(DENIED, tenant.name, [from_template(tenant.chance.choice(["gpu", "fabric"]))]))


ACTS: dict[Callable[[Tenant], Act], int] = {
    deep_parameters: 32,
    deep_managers: 16,
    foreign_managers: 20,
    applied: 16,
    huge_parameters: 1,
    huge_labels: 1,
    many_requests: 2,
    distinct_selectors: 20,
    dear_selector: 8,
    all_devices: 32,
    missing_claim: 24,
    many_claims: 12,
    many_terms: 2,
    recreated_pod: 40,
    recreated_claim: 24,
    claim_deleted: 32,
    pod_deleted: 32,
    touched: 32,
    forged_intent: 12,
    status_written: 8,
    prescheduled: 8,
    refused_by_webhook: 24,
    refused_by_policy: 12,
}
"""How often each is drawn, of 410. Those of a megabyte, or nearly, are rare: of more, the API server would be late."""
