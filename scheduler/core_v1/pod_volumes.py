"""Volumes of a pod, by their sources."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from scheduler.core_v1.label_selectors import Labels
from scheduler.core_v1.resources import objects

# Where the data of a volume is: a CSI volume, or a volume of a former in-tree plugin.
#
# In-tree volumes are served by CSI drivers today. A node that has migrated a plugin sees its volumes as those of the
# driver: with another name, and in the topology of the driver's labels. Fields are read leniently: a field of a wrong
# type counts as empty. Source: k8s.io/api core/v1 Volume and PersistentVolumeSource; k8s.io/csi-translation-lib.


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"

ZONE_DELIMITER = "__"
"""Between the zones that a label of a volume names."""


class Handle(NamedTuple):
    """A volume by the name that its CSI driver gives it. Of one that is not there yet the name is made up."""

    driver: str
    volume: str
    is_made_up: bool = False


@dataclass(frozen=True, slots=True)
class Migration:
    """A kind of volume that a CSI driver has taken over. plugin: what classes and nodes call it.

    zone_key: the label with the zones of volumes from then on, empty where it stays as it is. handle: the
    driver's name of a volume, given its source and labels; empty for one that the driver cannot have.
    """

    plugin: str
    driver: str
    zone_key: str
    handle: Callable[[Mapping[str, Any], Labels], str]


def _text(name: str) -> Callable[[Mapping[str, Any], Labels], str]:
    return lambda source, _labels: text_of(source, name)


def _of_google(source: Mapping[str, Any], labels: Labels) -> str:
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(ZONE_DELIMITER)
    disk = text_of(source, "pdName")
    if len(zones) == 1:
        return f"projects/UNSPECIFIED/zones/{zones[0] or 'UNSPECIFIED'}/disks/{disk}"
    regions = {zone.rpartition("-")[0] if zone.count("-") == 2 else "" for zone in zones}
    region = regions.pop() if len(regions) == 1 else ""
    return f"projects/UNSPECIFIED/regions/{region}/disks/{disk}" if region else ""


def _of_amazon(source: Mapping[str, Any], _labels: Labels) -> str:
    """A name of the form aws://zone/vol-1 is the last part of it to the driver."""
    name = text_of(source, "volumeID")
    if not name.startswith("aws://"):
        return name
    try:
        last = urlsplit(name).path.strip("/")
    except ValueError:  # no URL
        return ""
    return last if last.startswith("vol-") and "/" not in last else ""


def _of_azure(source: Mapping[str, Any], _labels: Labels) -> str:
    """Only managed disks are the driver's."""
    return text_of(source, "diskURI") if text_of(source, "kind").lower() in ("", "managed") else ""


MIGRATIONS: Mapping[str, Migration] = {
    "awsElasticBlockStore": Migration(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone", _of_amazon
    ),
    "gcePersistentDisk": Migration("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone", _of_google),
    "azureDisk": Migration("kubernetes.io/azure-disk", "disk.csi.azure.com", "", _of_azure),
    "cinder": Migration(
        "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone", _text("volumeID")
    ),
    "portworxVolume": Migration("kubernetes.io/portworx-volume", "pxd.portworx.com", "", _text("volumeID")),
}
"""By the field of the source; those of azureFile and vsphereVolume kube-scheduler never counts, nor translates."""

DRIVERS: Mapping[str, str] = {one.plugin: one.driver for one in MIGRATIONS.values()}
"""By the provisioner of a class: the driver that has taken over."""

UNCOUNTED = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""Provisioners that a driver has taken over, and whose volumes are not counted all the same."""


def migration_of(holder: Mapping[str, Any]) -> tuple[Migration, Mapping[str, Any]] | None:
    """Who has taken over the volume, and its source. holder: a volume of a pod, or the spec of a PersistentVolume."""
    for name, migration in MIGRATIONS.items():
        if isinstance(source := holder.get(name), dict):
            return migration, source
    return None


def migrated_handle(holder: Mapping[str, Any], labels: Labels) -> Handle | None:
    """What the volume is called by the driver that has taken it over, None where none has. labels: of the volume."""
    migrated = migration_of(holder)
    if migrated is None:
        return None
    migration, source = migrated
    name = migration.handle(source, labels)
    return Handle(migration.driver, name) if name else None


def text_of(source: Mapping[str, Any], name: str) -> str:
    """A field of the source, empty where it is no text."""
    value = source.get(name)
    return value if isinstance(value, str) else ""


# Volumes of a pod, as far as they limit its nodes: those of claims, and disks that it names itself.
#
# Fields are read leniently: a volume of a wrong type counts as none, and the API server has rejected it. Source:
# k8s.io/api core/v1 Volume.


_DEFAULT_POOL = "rbd"


class ClaimVolume(NamedTuple):
    """A volume of a PersistentVolumeClaim: of the one of that name, or an ephemeral one.

    For an ephemeral volume a claim is made, which goes with the pod; name is the volume's own then.
    """

    name: str
    is_ephemeral: bool = False

    def claim_of(self, pod: str) -> str:
        """The name of the claim. pod: the name of the pod."""
        return f"{pod}-{self.name}" if self.is_ephemeral else self.name


class Disk(NamedTuple):
    """A disk that a pod names itself, by everything that identifies it. is_shared: pods that only read can share it."""

    source: str
    name: tuple[str, ...]
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """claims: in the order of the volumes. handles: of disks that a CSI driver has taken over, as it names them."""

    claims: tuple[ClaimVolume, ...] = ()
    disks: tuple[Disk, ...] = ()
    handles: tuple[Handle, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.claims or self.disks or self.handles)

    @property
    def named_claims(self) -> Iterator[str]:
        """Those that the pod names, and that other pods can name too."""
        return (one.name for one in self.claims if not one.is_ephemeral)


NO_VOLUMES = PodVolumes()


def pod_volumes(spec: Mapping[str, Any]) -> PodVolumes:
    """The volumes of a pod. spec: raw."""
    volumes = objects(spec, "volumes")
    if not volumes:
        return NO_VOLUMES
    return PodVolumes(
        tuple(one for volume in volumes for one in _claims(volume)),
        tuple(one for volume in volumes for one in _disks(volume)),
        tuple(handle for volume in volumes if (handle := migrated_handle(volume, {}))),
    )


def _claims(volume: Mapping[str, Any]) -> Iterator[ClaimVolume]:
    if isinstance(source := volume.get("persistentVolumeClaim"), dict):
        yield ClaimVolume(text_of(source, "claimName"))
    elif isinstance(volume.get("ephemeral"), dict):
        yield ClaimVolume(text_of(volume, "name"), is_ephemeral=True)


def _disks(volume: Mapping[str, Any]) -> Iterator[Disk]:
    if isinstance(source := volume.get("gcePersistentDisk"), dict):
        yield Disk("gcePersistentDisk", (text_of(source, "pdName"),), _only_reads(source))
    if isinstance(source := volume.get("awsElasticBlockStore"), dict):
        yield Disk("awsElasticBlockStore", (text_of(source, "volumeID"),))
    if isinstance(source := volume.get("iscsi"), dict):
        yield Disk("iscsi", (text_of(source, "iqn"),), _only_reads(source))
    if isinstance(source := volume.get("rbd"), dict):
        yield from _images(source)


def _images(source: Mapping[str, Any]) -> Iterator[Disk]:
    """An image, as each of its monitors has it: one in common is enough to be the same."""
    monitors = source.get("monitors")
    names = (text_of(source, "pool") or _DEFAULT_POOL, text_of(source, "image"))
    for monitor in monitors if isinstance(monitors, list) else ():
        yield Disk("rbd", (str(monitor), *names), _only_reads(source))


def _only_reads(source: Mapping[str, Any]) -> bool:
    return source.get("readOnly") is True
