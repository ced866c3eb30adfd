"""Whatever a webhook answers about writes in its namespace, pods of others are bound, and its own pods are told.

The sweep: every status code that a webhook can choose, all at the same time; on claims, then on bindings, then on the
pods' status.
"""

import re
from collections.abc import Iterator
from functools import partial

import pytest

from tests.controlplane.rest import CLAIM, POD, Json
from tests.controlplane.webhook import MUTATING, WEBHOOK, Webhook, denial, patch
from tests.integration.live.world import SCHEDULER, World, a_request, an_object, is_free, reported

CODES = range(400, 505)
TOO_MANY_REQUESTS = 429
DENIED, PUT_OFF = "denied", "put-off"
CLAIMS, BINDINGS, STATUS = "resourceclaims", "pods/binding", "pods/status"
GOOD = 10


class Denying:
    """Denies writes of one resource in our scheduler's attempts; the code is the number at the end of the name."""

    def __init__(self) -> None:
        self.resources = {CLAIMS}

    def __call__(self, request: Json) -> Json:
        resource = request["resource"]["resource"]
        if not self.resources & {resource, f"{resource}/{request.get('subResource', '')}"}:
            return {}
        code = int(request["name"].rpartition("-")[2])
        return denial(code, f"no, says {code}")


@pytest.fixture
def denying(world: World) -> Iterator[Denying]:
    """A cluster with a pod for each code in namespaces with such a webhook: 429 has its own, which is slowed down."""
    world.a_cluster(nodes=2, devices=100)
    denying = Denying()
    with Webhook(world.plane, [DENIED, PUT_OFF], denying):
        for code in CODES:
            a_pod(world, PUT_OFF if code == TOO_MANY_REQUESTS else DENIED, f"pod-{code}")
        yield denying


def a_pod(world: World, namespace: str, name: str) -> None:
    """A pod and its claim of the same name."""
    world.api.create(an_object(CLAIM, name, {"devices": {"requests": [a_request()]}}, namespace))
    claims = [{"name": "claim", "resourceClaimName": name}]
    container = {"name": "c", "image": "none"}
    spec = {"schedulerName": SCHEDULER, "containers": [container], "resourceClaims": claims}
    world.api.create(an_object(POD, name, spec, namespace))


def are_told(world: World, resource: str) -> bool:
    """Whether each pod says which webhook denies which write, in the webhook's words."""
    denied = f'/{resource}.* admission webhook "{WEBHOOK}" denied the request: no, says '
    for pod in (pod for namespace in (DENIED, PUT_OFF) for pod in world.api.list(POD, namespace)):
        message = (reported(pod) or {}).get("message", "")
        if not re.search(denied + pod["metadata"]["name"][-3:], message):
            return False
    return True


def is_logged(world: World, pattern: str) -> bool:
    return re.search(pattern, world.program.log.read_text()) is not None


def are_bound(world: World, prefix: str) -> None:
    """Return once pods of another namespace that come now are bound."""
    names = [f"{prefix}-{number}" for number in range(GOOD)]
    for name in names:
        world.a_claim(name)
        world.a_pod(name, name)
    for name in names:
        world.bound(name)


def test_any_code_of_a_webhook_concerns_the_pods_of_its_namespace_alone(world: World, denying: Denying) -> None:
    are_bound(world, "beside-claims")
    world.program.await_ready(lambda: are_told(world, "resourceclaims"))
    denying.resources = {BINDINGS}
    are_bound(world, "beside-bindings")
    world.program.await_ready(lambda: are_told(world, "pods/[^ ]*/binding"))
    denying.resources = {CLAIMS, STATUS}  # what pods would be told is another thing again
    are_bound(world, "beside-statuses")
    words = rf'admission webhook \\"{WEBHOOK}\\" denied the request: no, says'
    for said in (
        rf"pod {DENIED}/pod-4\d\d is not bound: .*{words}",
        rf"cannot write its condition: .*/status: .*{words}",
    ):
        world.program.await_ready(partial(is_logged, world, said))
    assert world.program.reported("/readyz") == "ok"


def denies_bindings_and_undos(request: Json) -> Json:
    is_binding = request.get("subResource") == "binding"
    return denial(403, "no") if is_binding or takes_back(request) else {}


def takes_back(request: Json) -> bool:
    is_status = (request["resource"]["resource"], request.get("subResource")) == (CLAIMS, "status")
    return is_status and "allocation" not in request["object"].get("status", {})


def test_claim_whose_undo_is_denied_is_free_once_its_pod_has_gone(world: World) -> None:
    """Until then it is the pod's, whose next attempt uses it."""
    world.a_cluster()
    with Webhook(world.plane, [DENIED], denies_bindings_and_undos) as webhook:
        a_pod(world, DENIED, "pod")
        world.program.await_ready(lambda: any(map(takes_back, webhook.asked)))
        assert not is_free(world.api.get(CLAIM, "pod", DENIED))
        world.api.delete(POD, "pod", DENIED)
        world.api.await_all(CLAIM, lambda claims: all(map(is_free, claims)), DENIED)
    world.a_claim()
    world.a_pod("pod", "claim")
    world.bound()


CHANGED = "changed"
ANOTHER = "gpu-99"
PARTS = {
    "mark": ("", "/metadata/annotations"),
    "finalizer": ("", "/metadata/finalizers"),
    "reservation": ("status", "/status/reservedFor"),
    "allocation": ("status", "/status"),
}
"""What a webhook takes from a write, by the name of the claim; of which subresource."""


def changed(request: Json) -> Json:
    """What the webhook makes of the writes of the pods' attempts, which the claims' names say."""
    name, subresource, before = request["name"], request.get("subResource", ""), request.get("oldObject") or {}
    status, stood = request["object"].get("status") or {}, before.get("status") or {}
    if subresource == "binding":
        return denial(403, "no") if name == "kept" else {}
    if request["resource"]["resource"] != "resourceclaims":
        return {}
    if name == "device" and status.get("allocation") and not stood.get("allocation"):
        path = "/status/allocation/devices/results/0/device"
        return patch({"op": "replace", "path": path, "value": ANOTHER})
    if name == "name" and status.get("reservedFor") and subresource == "status":
        return patch({"op": "replace", "path": "/status/reservedFor/0/name", "value": ANOTHER})
    if name == "kept" and stood.get("allocation") and not status.get("allocation"):
        return patch({"op": "add", "path": "/status", "value": stood})
    of, path = PARTS.get(name, (None, ""))
    holder, field = path.split("/")[1:] if path.count("/") > 1 else ("", path[1:])
    is_sent = field in (request["object"].get(holder) or {} if holder else request["object"])
    return patch({"op": "remove", "path": path}) if of == subresource and is_sent else {}


def are_told_of_changes(world: World) -> bool:
    """Whether each pod says that its claim was stored otherwise; no devices are kept for it."""
    pods = [pod for pod in world.api.list(POD, CHANGED) if pod["metadata"]["name"] != "kept"]
    are_free = all(
        not claim.get("status", {}).get("allocation") and not claim["metadata"].get("finalizers")
        for claim in world.api.list(CLAIM, CHANGED)
        if claim["metadata"]["name"] != "kept"
    )
    said = "was stored without .*: a mutating webhook or policy changes what is written"
    return are_free and all(re.search(said, (reported(pod) or {}).get("message", "")) for pod in pods)


def test_what_a_webhook_changes_is_not_relied_on_and_costs_the_pods_of_its_namespace_alone(world: World) -> None:
    world.a_cluster(nodes=2, devices=100)
    with Webhook(world.plane, [CHANGED], changed, configuration=MUTATING) as webhook:
        for name in (*PARTS, "device", "name", "kept"):
            a_pod(world, CHANGED, name)
        are_bound(world, "beside-changes")
        world.program.await_ready(lambda: are_told_of_changes(world))
        world.program.await_ready(partial(is_logged, world, f"cannot update claim {CHANGED}/kept: it was changed back"))
        assert all(not pod["spec"].get("nodeName") for pod in world.api.list(POD, CHANGED))
        webhook.forget()
        world.api.await_all(POD, lambda pods: all("nodeName" in pod["spec"] for pod in pods), CHANGED)
