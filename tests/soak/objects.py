"""Pods and claims as both kinds of tenants write them, and the calls that create and delete them."""

from collections.abc import Mapping, Sequence

import orjson

from tests.controlplane.rest import CLAIM, POD, Json
from tests.soak.client import Call, collection
from tests.soak.furnish import an_object

SCHEDULER = "dra-scheduler"

CLAIMS, PODS, TEMPLATES = "resourceclaims", "pods", "resourceclaimtemplates"
_AT_ONCE = orjson.dumps({"gracePeriodSeconds": 0})


def from_template(template: str, entry: str = "made") -> Json:
    """A pod's entry for a claim of its own."""
    return {"name": entry, "resourceClaimTemplateName": template}


def by_name(claim: str, entry: str = "named") -> Json:
    """A pod's entry for a claim that is there."""
    return {"name": entry, "resourceClaimName": claim}


def a_pod(namespace: str, name: str, entries: Sequence[Json], **spec: object) -> Json:
    """A pod for our scheduler. spec: further fields."""
    fields = {
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "none"}],
        "resourceClaims": list(entries),
        **spec,
    }
    return an_object(POD, name, namespace, spec=fields)


def a_claim(
    namespace: str,
    name: str,
    requests: Sequence[Json],
    *,
    metadata: Mapping[str, object] | None = None,
    **devices: object,
) -> Json:
    """A claim. metadata: further fields of it; devices: of spec.devices."""
    claim = an_object(CLAIM, name, namespace, spec={"devices": {"requests": list(requests), **devices}})
    return {**claim, "metadata": {**claim["metadata"], **(metadata or {})}}


def path_of(obj: Json) -> str:
    """Where the pod or claim is."""
    resource = PODS if obj["kind"] == POD.kind else CLAIMS
    return f"{collection(resource, obj['metadata']['namespace'])}/{obj['metadata']['name']}"


def create(obj: Json, *texts: tuple[str, str]) -> Call:
    """The call that creates it. texts: JSON in the place of strings, which may be nested as no library writes it."""
    body = orjson.dumps(obj)
    for string, text in texts:
        body = body.replace(orjson.dumps(string), text.encode())
    return Call("POST", path_of(obj).rpartition("/")[0], body)


def delete(path: str) -> Call:
    """The call that deletes it at once."""
    return Call("DELETE", path, _AT_ONCE)
