"""With the guard's token, its objects can get another certificate, path and endpoint; nothing else can be changed."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.controlplane.contents import manifests, restore
from tests.controlplane.guarded import LEASE, MANIFESTS, WEBHOOK, WEBHOOKS
from tests.controlplane.identities import GUARD
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import ApiError, Json, Kind, RestClient
from tests.integration.access import await_rights

SCHEMAS = "/openapi/v3/apis/admissionregistration.k8s.io/v1"
ONLY_THESE = "the account of the guard may change caBundle and path of its webhook, and nothing else"
SECRETS = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["secrets"]}
SLICES = Kind("discovery.k8s.io/v1", "EndpointSlice")
NAMESPACE = "kube-system"
SELECTED = {"matchLabels": {"team": "x"}}

WEBHOOK_FIELDS: Mapping[str, Any] = {
    "name": "other.dra-scheduler.dev",
    "rules": [SECRETS],
    "matchPolicy": "Exact",
    "matchConditions": [],
    "namespaceSelector": SELECTED,
    "objectSelector": SELECTED,
    "failurePolicy": "Ignore",
    "sideEffects": "None",
    "timeoutSeconds": 1,
    "admissionReviewVersions": ["v1", "v1beta1"],
}
"""What a thief of the token would write in place of what is there, by field; all but `clientConfig`."""

SERVICE_FIELDS: Mapping[str, Any] = {"namespace": "default", "name": "other", "port": 8443}
METADATA_FIELDS: Mapping[str, Any] = {
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "finalizers": ["example.com/stays"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}],  # which would delete it
}
SERVERS_OWN = {
    *("name", "namespace", "generateName", "uid", "resourceVersion", "generation", "selfLink", "managedFields"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
}
"""Fields of the metadata that the API server writes, or lets nobody change."""


@pytest.fixture
def stored(plane: ControlPlane, api: RestClient) -> Iterator[Json]:
    """The webhook of the manifests, when the policy is in force."""
    restore(api, manifests(MANIFESTS / "rbac.yaml", MANIFESTS / "policy.yaml", MANIFESTS / "webhook.yaml"))
    group = WEBHOOKS.api_version.partition("/")[0]
    await_rights(plane, GUARD, "default", {(group, "validatingwebhookconfigurations", "patch", WEBHOOK)})
    granted(api)
    poll_until(
        lambda told: ONLY_THESE in told,
        lambda: refusal(plane, with_webhook(api.get(WEBHOOKS, WEBHOOK), timeoutSeconds=1)),
        "the policy is in force",
    )
    yield api.get(WEBHOOKS, WEBHOOK)
    api.delete(WEBHOOKS, WEBHOOK)


def granted(api: RestClient) -> None:
    """Let the account write its object in every way: what is refused then, the policy refuses."""
    names = {"resourceNames": [WEBHOOK], "resources": ["validatingwebhookconfigurations"]}
    rule = {"apiGroups": ["admissionregistration.k8s.io"], "verbs": ["update", "delete"], **names}
    rbac, meta = "rbac.authorization.k8s.io", {"metadata": {"name": "more-for-the-guard"}}
    api.create({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", **meta, "rules": [rule]})
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "more-for-the-guard"}
    account = {"kind": "ServiceAccount", "name": "dra-guard", "namespace": "kube-system"}
    api.create(
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", **meta, "roleRef": role, "subjects": [account]}
    )


def refusal(plane: ControlPlane, changed: Json) -> str:
    """What the API server says to the guard's account that writes this; empty where it takes it."""
    obj = {"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, **changed}
    try:
        plane.client(GUARD).replace(obj, is_dry=True)
    except ApiError as error:
        return error.message
    return ""


def with_webhook(stored: Json, **fields: object) -> Json:
    (webhook,) = stored["webhooks"]
    return {**stored, "webhooks": [{**webhook, **fields}]}


def with_service(stored: Json, **fields: object) -> Json:
    (webhook,) = stored["webhooks"]
    config = webhook["clientConfig"]
    return with_webhook(stored, clientConfig={**config, "service": {**config["service"], **fields}})


def properties(api: RestClient, name: str) -> set[str]:
    """The fields of a type that this API server has."""
    schemas = api.read(SCHEMAS)["components"]["schemas"]
    return {field for full, one in schemas.items() if full.endswith(f".{name}") for field in one["properties"]}


def test_certificate_and_path_can_be_changed(plane: ControlPlane, stored: Json) -> None:
    (webhook,) = stored["webhooks"]
    service = {**webhook["clientConfig"]["service"], "path": "/v1/resourceclaims-status/another"}
    changed = with_webhook(stored, clientConfig={"caBundle": "YQ==", "service": service})
    assert refusal(plane, changed) == ""


def test_no_other_field_of_this_api_server_can_be_changed(plane: ControlPlane, api: RestClient, stored: Json) -> None:
    assert properties(api, "ValidatingWebhook") == {*WEBHOOK_FIELDS, "clientConfig"}
    assert properties(api, "WebhookClientConfig") == {"service", "url", "caBundle"}
    assert properties(api, "ServiceReference") == {*SERVICE_FIELDS, "path"}
    assert properties(api, "ObjectMeta") == {*METADATA_FIELDS, *SERVERS_OWN}
    url = {"clientConfig": {"url": "https://localhost:1/v1/resourceclaims-status"}}
    changed = [
        *(with_webhook(stored, **{field: value}) for field, value in (*WEBHOOK_FIELDS.items(), *url.items())),
        *(with_service(stored, **{field: value}) for field, value in SERVICE_FIELDS.items()),
        {**stored, "webhooks": []},
        {**stored, "webhooks": [*stored["webhooks"], {**stored["webhooks"][0], "name": "more.dra-scheduler.dev"}]},
    ]
    told = [refusal(plane, one) for one in changed]
    assert [text for text in told if not text.endswith(ONLY_THESE)] == []
    for field, value in METADATA_FIELDS.items():
        owned = {**stored, "metadata": {**stored["metadata"], field: value}}
        assert "may not change labels, annotations, ownerReferences and finalizers" in refusal(plane, owned), field


def test_url_keeps_its_host_and_query(plane: ControlPlane, api: RestClient, stored: Json) -> None:
    """Of a webhook that is called by URL, as guards outside the cluster are, the path is the rest of it."""

    def at(url: str) -> Json:
        return with_webhook(api.get(WEBHOOKS, WEBHOOK), clientConfig={"url": url})

    api.replace({"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, **at("https://guard.example:9444/v1/a")})
    assert refusal(plane, at("https://guard.example:9444/v1/b")) == ""
    for other in ("https://guard.example:9445/v1/a", "https://thief.example:9444/v1/a"):
        assert refusal(plane, at(other)).endswith(ONLY_THESE)
    service = with_webhook(api.get(WEBHOOKS, WEBHOOK), clientConfig=stored["webhooks"][0]["clientConfig"])
    assert refusal(plane, service).endswith(ONLY_THESE)


def test_others_write_it_as_before_and_the_guard_cannot_delete_it(
    plane: ControlPlane, api: RestClient, stored: Json
) -> None:
    changed = with_webhook(stored, timeoutSeconds=2)
    api.replace({"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, **changed})
    with pytest.raises(ApiError, match="may only update its own ValidatingWebhookConfiguration"):
        plane.client(GUARD).delete(WEBHOOKS, WEBHOOK)


@pytest.mark.usefixtures("stored")
def test_endpoint_slice_stays_with_its_service(plane: ControlPlane, api: RestClient) -> None:
    """Its labels name the Service: with that of DNS, whoever has the token would answer for every name."""
    (published,) = (one for one in manifests(MANIFESTS / "guard.yaml") if one["kind"] == SLICES.kind)
    api.create(published)
    await_rights(plane, GUARD, NAMESPACE, {("discovery.k8s.io", "endpointslices", "update", WEBHOOK)})
    found = {**published, **api.get(SLICES, WEBHOOK, NAMESPACE)}
    endpoints = [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}]
    plane.client(GUARD).replace({**found, "endpoints": endpoints}, is_dry=True)
    labels = {**found["metadata"]["labels"], "kubernetes.io/service-name": "kube-dns"}
    for changed in (METADATA_FIELDS, {"labels": labels}):
        for field, value in changed.items():
            with pytest.raises(ApiError, match="may not change labels, annotations, ownerReferences and finalizers"):
                plane.client(GUARD).replace({**found, "metadata": {**found["metadata"], field: value}}, is_dry=True)
    api.delete(SLICES, WEBHOOK, NAMESPACE)


@pytest.mark.usefixtures("stored")
def test_no_lease_but_its_own_can_be_created(plane: ControlPlane) -> None:
    await_rights(plane, GUARD, NAMESPACE, {("coordination.k8s.io", "leases", "create", "")})
    own = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": {"name": WEBHOOK, "namespace": NAMESPACE}}
    plane.client(GUARD).create(own)
    for name in ({"name": "another"}, {"generateName": WEBHOOK}):
        with pytest.raises(ApiError, match="and create that Lease"):
            plane.client(GUARD).create({**own, "metadata": {"namespace": NAMESPACE, **name}})
    plane.client(GUARD).replace(plane.client(GUARD).get(LEASE, WEBHOOK, NAMESPACE), is_dry=True)
