"""The webhook of `manifests/guard/webhook`, for a guard that runs on this machine."""

from pathlib import Path

from tests.controlplane.contents import manifests, restore
from tests.controlplane.rest import Json, Kind, RestClient

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests" / "guard" / "webhook"
WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
WEBHOOK = "dra-guard"
LEASE = Kind("coordination.k8s.io/v1", "Lease")


def install(api: RestClient, port: int) -> None:
    """The rights of the guard and their limits, a lease that it need not wait for, and its webhook, at a port here."""
    rights = manifests(MANIFESTS / "rbac.yaml", MANIFESTS / "policy.yaml")
    restore(api, [*rights, _released_lease(), _webhook_at(port)])


def _webhook_at(port: int) -> Json:
    (found,) = manifests(MANIFESTS / "webhook.yaml")
    (webhook,) = found["webhooks"]
    return {**found, "webhooks": [{**webhook, "clientConfig": {"url": f"https://localhost:{port}"}}]}


def _released_lease() -> Json:
    """As a guard leaves it that ended well: the next one need not wait."""
    metadata = {"name": "dra-guard", "namespace": "kube-system"}
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
