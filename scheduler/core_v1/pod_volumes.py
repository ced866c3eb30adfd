"""Volumes of a pod, as far as they limit its nodes: those of claims, and disks that it names itself.

Fields are read leniently: a volume of a wrong type counts as none, and the API server has rejected it.
Source: k8s.io/api core/v1 Volume.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from scheduler.core_v1.host_ports import objects
from scheduler.core_v1.volume_sources import Handle, migrated_handle, text_of

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
        tuple(one for volume in volumes if (one := migrated_handle(volume, {}))),
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
