"""What of a raw object is kept in a dump that others may read: all that decisions depend on, and no secret.

Source: k8s.io/api core/v1 (what pods and nodes carry beside what placement reads).
"""

from collections.abc import Mapping
from typing import Any

from allocator.api import is_decoded
from allocator.pods.extended_resources import CLAIM_ANNOTATION
from scheduler.core_v1.embedded import asks_for_claims, decode_embedded
from scheduler.core_v1.persistent_volume import CLASS_ANNOTATION
from scheduler.core_v1.persistent_volume_claim import BIND_COMPLETED, SELECTED_NODE
from scheduler.input.inventory import KINDS_THAT_COUNT
from scheduler.offline.input_claims import ENTRY_ANNOTATION

Json = Any
"""A value of JSON."""

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


def shareable(raw: Mapping[str, Json]) -> dict[str, Json] | None:
    """The object without what no decision reads; None for one of a kind that does not count, such as a Secret."""
    kind, version = str(raw.get("kind")), str(raw.get("apiVersion"))
    if not (kind in KINDS_THAT_COUNT or is_decoded(version, kind) or _has_pods(kind, raw)):
        return None
    kept: dict[str, Json] = _kept(raw)
    if kind == "ResourceClaim" and isinstance(kept.get("status"), dict):
        kept["status"].pop("devices", None)
    return kept


def _has_pods(kind: str, raw: Mapping[str, Json]) -> bool:
    return bool(decode_embedded(kind, raw)[0]) or asks_for_claims(kind, raw)


def _kept(value: Json, field: str = "") -> Json:
    if isinstance(value, list):
        return [_kept(one, field) for one in value if not _is_volume_without_devices(one, field)]
    if not isinstance(value, dict):
        return value
    if field == "annotations":
        return {key: one for key, one in value.items() if key in ANNOTATIONS}
    if field == "parameters":  # of a driver, which may hold anything
        return {}
    return {key: _kept(one, key) for key, one in value.items() if key not in DROPPED}


def _is_volume_without_devices(value: Json, field: str) -> bool:
    return field == "volumes" and isinstance(value, dict) and not _SOURCES_WITHOUT_DEVICES.isdisjoint(value)
