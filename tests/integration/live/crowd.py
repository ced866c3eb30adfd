"""A fleet, and a crowd of pods that want its devices: how they come, and what has to be so once they are placed.

Every node has one pool of each driver, named like the node, so that a pool tells the node of a claim.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import pytest

from scheduler.attempt.claim_objects import ANNOTATION, FENCE, allocation_of, consumers_of, results_of
from scheduler.client import api_resources
from scheduler.client.api_resources import PODS
from scheduler.client.connection import connect
from scheduler.state.claims import FINALIZER
from tests.controlplane.contents import ensure_namespace, restore
from tests.controlplane.ours import WITHOUT_LEASE, Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import CLAIM, CLASS, NODE, POD, SLICE, TEMPLATE, ApiError, Json, Kind, RestClient
from tests.integration.live.world import reported

NAMESPACE = "crowd"
SCHEDULER = "dra-scheduler"
GPU = "gpu.example.com"
NET = "net.example.com"
WITHIN_S = 240.0

W1 = ("PUT", r"/resourceclaims/[^/]+$")
W2 = ("PUT", r"/resourceclaims/[^/]+/status$")
BIND = ("POST", r"/pods/[^/]+/binding$")
"""The three writes for a pod with one claim, as a proxy is told of them."""

_AT_ONCE = 16
_BY_TURNS = 8


def furnish(api: RestClient, nodes: int, devices: int, drivers: Sequence[str] = (GPU,)) -> None:
    """Nodes with so many devices of each driver; a class and a template of the driver's name for one of them."""
    ensure_namespace(api, NAMESPACE)
    names = [f"node-{number}" for number in range(nodes)]
    objects = [_object(NODE, name) for name in names]
    for driver in drivers:
        chosen = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
        request = {"name": "r", "exactly": {"deviceClassName": driver}}
        template = {"spec": {"devices": {"requests": [request]}}}
        objects.append(_object(CLASS, driver, spec={"selectors": chosen}))
        objects.append(_object(TEMPLATE, driver, NAMESPACE, spec=template))
        objects += [_slice(name, driver, devices) for name in names]
    restore(api, objects)


def furnished(nodes: int, devices: int, drivers: Sequence[str] = (GPU,)) -> Any:
    """The fixture `fleet` of a module: a client of a cluster with these nodes. Any: of a fixture's type."""

    @pytest.fixture(scope="module")
    def fleet(plane: ControlPlane) -> RestClient:
        api = plane.client()
        furnish(api, nodes, devices, drivers)
        return api

    return fleet


def emptied() -> Any:
    """The fixture `api` of a module: a client of its fleet, whose pods go after each test."""

    @pytest.fixture
    def api(plane: ControlPlane, fleet: RestClient) -> Iterator[RestClient]:
        yield fleet
        empty(plane)

    return api


def _slice(node: str, driver: str, devices: int) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    found = [{"name": f"dev-{number}"} for number in range(devices)]
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": found}
    return _object(SLICE, f"{node}-{driver}", spec=spec)


def _object(kind: Kind, name: str, namespace: str = "", **fields: object) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}


def a_pod(name: str, *drivers: str, scheduler: str = SCHEDULER) -> Json:
    """A pod with a claim for one device of each driver, each from the driver's template."""
    claims = [{"name": f"c{number}", "resourceClaimTemplateName": one} for number, one in enumerate(drivers)]
    spec = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "none"}],
        "resourceClaims": claims,
    }
    return _object(POD, name, NAMESPACE, spec=spec)


def a_claim(name: str, driver: str = GPU) -> Json:
    """A claim of nobody's for one device of the driver."""
    request = {"name": "r", "exactly": {"deviceClassName": driver}}
    return _object(CLAIM, name, NAMESPACE, spec={"devices": {"requests": [request]}})


def lose_one_of_two(plane: ControlPlane, api: RestClient, pods: Sequence[Json]) -> None:
    """Two schedulers place the pods, and one is killed under way; return when the other one has placed all of them."""
    with scheduler(plane, WITHOUT_LEASE, name="survivor"):
        victim = Scheduler(plane, WITHOUT_LEASE, name="victim")
        try:
            victim.await_readyz()
            send(plane, pods)
            await_placed(api, len(pods) // 4)
        finally:
            victim.kill()
        await_all_placed(api, len(pods))


def send(plane: ControlPlane, pods: Iterable[Json]) -> None:
    """Create the pods, many at a time."""
    asyncio.run(_call_all(plane, "POST", [(PODS.path(NAMESPACE), pod) for pod in pods]))


def named(pod: Json) -> tuple[Json, list[Json]]:
    """The pod with claims that it names instead of templates, so that no controller has to make them; and those."""
    name, entries = pod["metadata"]["name"], pod["spec"]["resourceClaims"]
    claims = [a_claim(f"{name}-{entry['name']}", entry["resourceClaimTemplateName"]) for entry in entries]
    by_name = [
        {"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]}
        for entry, claim in zip(entries, claims, strict=True)
    ]
    return {**pod, "spec": {**pod["spec"], "resourceClaims": by_name}}, claims


def send_claims(plane: ControlPlane, claims: Iterable[Json]) -> None:
    """Create the claims, many at a time."""
    path = api_resources.claims("v1").path(NAMESPACE)
    asyncio.run(_call_all(plane, "POST", [(path, claim) for claim in claims]))


def send_claims_away(plane: ControlPlane, claims: Iterable[Json]) -> None:
    """Delete the claims, many at a time; those that pods use go when the pods do."""
    paths = [api_resources.claims("v1").path(NAMESPACE, claim["metadata"]["name"]) for claim in claims]
    asyncio.run(_call_all(plane, "DELETE", [(path, {}) for path in paths]))


def send_away(plane: ControlPlane, pods: Iterable[Json]) -> None:
    """Delete the pods, many at a time."""
    names = [pod["metadata"]["name"] for pod in pods]
    asyncio.run(_call_all(plane, "DELETE", [(PODS.path(NAMESPACE, name), {"gracePeriodSeconds": 0}) for name in names]))


async def _call_all(plane: ControlPlane, method: str, calls: Sequence[tuple[str, Json]]) -> None:
    async with connect(kubeconfig=plane.kubeconfig()) as connection:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def call(path: str, body: Json) -> None:
            async with limit:
                await connection.request(method, path, body=body, timeout_s=WITHIN_S)

        await asyncio.gather(*(call(path, body) for path, body in calls))


def await_placed(api: RestClient, number: int) -> Sequence[Json]:
    """All pods as soon as so many of them have a node."""
    return api.await_all(POD, lambda pods: len(placed(pods)) >= number, NAMESPACE, WITHIN_S)


def await_all_placed(api: RestClient, number: int) -> None:
    """Return when there are exactly so many pods, all of them with a node."""
    api.await_all(POD, lambda pods: len(pods) == len(placed(pods)) == number, NAMESPACE, WITHIN_S)


def listed(pod: Json) -> dict[str, str]:
    """The claims that the pod's status names, by entry."""
    statuses = pod["status"].get("resourceClaimStatuses", ())
    return {one["name"]: one["resourceClaimName"] for one in statuses if "resourceClaimName" in one}


def lose_names(api: RestClient, entry: str) -> dict[str, str]:
    """The claims of the only pod, which named them all; then the entry goes, and the controller takes them by turns."""
    every = {one["name"] for one in api.list(POD, NAMESPACE)[0]["spec"]["resourceClaims"]}
    while True:
        (pod,) = api.await_all(POD, lambda pods: listed(pods[0]).keys() == every, NAMESPACE)
        kept = [one for one in pod["status"]["resourceClaimStatuses"] if one["name"] != entry]
        changes = api.changes(POD, NAMESPACE)
        try:
            api.replace_status({**pod, "status": {**pod["status"], "resourceClaimStatuses": kept}})
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        else:
            break
    seen = {frozenset(listed(event["object"])) for event, _ in zip(changes, range(_BY_TURNS), strict=False)}
    assert frozenset(every) not in seen
    assert len(seen) > 1, "the controller does not take names away any more: there is nothing to mend"
    return listed(pod)


def placed(pods: Iterable[Json]) -> list[Json]:
    """The pods that have a node."""
    return [pod for pod in pods if "nodeName" in pod["spec"]]


def await_claims(api: RestClient, number: int) -> None:
    """Return when there are no more claims than these: a pod may have the devices of another whose claim still goes."""
    api.await_all(CLAIM, lambda claims: len(claims) == number, NAMESPACE, WITHIN_S)


def refused(pods: Iterable[Json]) -> list[Json]:
    """The pods that have no node, and say why. One that has a node may still say what an attempt before came to."""
    return [pod for pod in pods if "nodeName" not in pod["spec"] and reported(pod)]


def empty(plane: ControlPlane) -> None:
    """All pods go, and their claims with them, by the controllers' hands."""
    api = plane.client()
    send_away(plane, api.list(POD, NAMESPACE))
    for kind in (POD, CLAIM):
        api.await_all(kind, lambda objects: not objects, NAMESPACE, WITHIN_S)


def wrongs(api: RestClient) -> list[str]:
    """What is not as it should be while nobody has anything under way."""
    pods = {pod["metadata"]["uid"]: pod for pod in api.list(POD, NAMESPACE)}
    claims = api.list(CLAIM, NAMESPACE)
    found = [wrong for pod in placed(pods.values()) for wrong in wrongs_of_pod(pod, claims)]
    found += [wrong for claim in claims for wrong in _wrongs_of_claim(claim, pods)]
    return found + [
        f"device {device} is taken {number} times" for device, number in _taken(claims).items() if number > 1
    ]


def wrongs_of_pod(pod: Json, claims: Iterable[Json]) -> Iterator[str]:
    """What is wrong with a pod that has a node."""
    name, uid, node = pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"]["nodeName"]
    claims = list(claims)
    by_name = {claim["metadata"]["name"]: claim for claim in claims}
    # Not by the pod's status, which may have lost an entry for a moment.
    made = {_entry_of(claim): claim for claim in claims if _maker_of(claim) == uid}
    for entry in pod["spec"].get("resourceClaims", ()):
        claim = by_name.get(entry["resourceClaimName"]) if "resourceClaimName" in entry else made.get(entry["name"])
        if claim is None or uid not in consumers_of(claim):
            yield f"pod {name} is on {node}, and its claim {entry['name']} is not reserved for it"
        elif {result["pool"] for result in results_of(allocation_of(claim) or {})} != {node}:
            yield f"pod {name} is on {node}, and its claim {entry['name']} has devices of another node, or none"


def _maker_of(claim: Json) -> str:
    """The uid of the pod that the claim was made for."""
    return next((str(owner["uid"]) for owner in claim["metadata"].get("ownerReferences", ())), "")


def _entry_of(claim: Json) -> str:
    """The entry of that pod."""
    return str(claim["metadata"].get("annotations", {}).get("resource.kubernetes.io/pod-claim-name", ""))


def _wrongs_of_claim(claim: Json, pods: Mapping[str, Json]) -> Iterator[str]:
    metadata, consumers = claim["metadata"], consumers_of(claim)
    name, annotations = metadata["name"], metadata.get("annotations", {})
    if FENCE in annotations:
        yield f"claim {name} has a fence"
    if allocation_of(claim):
        if FINALIZER not in metadata.get("finalizers", ()):
            yield f"claim {name} is allocated without the finalizer"
        if not consumers or not all(pods.get(uid, {"spec": {}})["spec"].get("nodeName") for uid in consumers):
            yield f"claim {name} is allocated, and no pod that has a node uses it"
    elif metadata.get("finalizers") or ANNOTATION in annotations or consumers:
        yield f"claim {name} is not allocated, and something of an attempt is left on it"


def devices_of(claim: Mapping[str, Any]) -> list[str]:
    """The devices of the claim, each with driver and pool."""
    return [f"{one['driver']}/{one['pool']}/{one['device']}" for one in results_of(allocation_of(claim) or {})]


def _taken(claims: Iterable[Json]) -> Counter[str]:
    return Counter(device for claim in claims for device in devices_of(claim))
