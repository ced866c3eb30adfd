"""Resources of the API by group and version, and the paths that lead to their objects.

This is the only place where names come into paths: each is one segment, whatever is in it.

Source: k8s.io/apiserver's paths, /api/v1 for the core group and /apis/<group>/<version> for all others.
"""

from dataclasses import dataclass
from urllib.parse import quote

from allocator.api.versions import GROUP
from scheduler.core_v1 import pod_group


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource in one version."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    """The kind of its objects."""
    is_namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object or of its subresource, or of all objects (of a namespace) where no name is given."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{segment(namespace)}" if self.is_namespaced and namespace else ""
        return "/".join([part for part in (f"{root}{within}", self.plural, segment(name), subresource) if part])

    @property
    def api_version(self) -> str:
        """As an object's apiVersion spells it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.plural} ({self.api_version})"


def segment(name: str) -> str:
    """The name as one segment of a path, also where it is `.` or `..`, which proxies take for the path's own."""
    return name.replace(".", "%2E") if name in {".", ".."} else quote(name, safe=_SAFE, errors="surrogatepass")


_SAFE = ":@!$&'()*+,;=~"
"""RFC 3986, 3.3."""

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", is_namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    is_namespaced=False,
)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", is_namespaced=False)
VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", is_namespaced=False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", is_namespaced=False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", is_namespaced=False)
CSI_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", is_namespaced=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", is_namespaced=False)
POD_GROUPS = Resource(pod_group.GROUP, "v1beta1", "podgroups", "PodGroup")
COMPOSITE_POD_GROUPS = Resource(pod_group.GROUP, "v1beta1", "compositepodgroups", "CompositePodGroup")
SERVICES = Resource("", "v1", "services", "Service")
DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")


def claims(version: str) -> Resource:
    """ResourceClaims in that version."""
    return Resource(GROUP, version, "resourceclaims", "ResourceClaim")


def templates(version: str) -> Resource:
    """ResourceClaimTemplates in that version."""
    return Resource(GROUP, version, "resourceclaimtemplates", "ResourceClaimTemplate")


def slices(version: str) -> Resource:
    """ResourceSlices in that version."""
    return Resource(GROUP, version, "resourceslices", "ResourceSlice", is_namespaced=False)


def classes(version: str) -> Resource:
    """DeviceClasses in that version."""
    return Resource(GROUP, version, "deviceclasses", "DeviceClass", is_namespaced=False)


def taint_rules(version: str) -> Resource:
    """DeviceTaintRules in that version."""
    return Resource(GROUP, version, "devicetaintrules", "DeviceTaintRule", is_namespaced=False)
