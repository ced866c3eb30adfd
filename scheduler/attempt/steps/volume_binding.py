"""Reserves a volume for the claim that it was matched with; kube-controller-manager completes the binding.

Source: kube-scheduler's VolumeBinding plugin, PreBind, for claims whose class binds them with their first consumer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduler.attempt.claim_objects import Json
from scheduler.attempt.volume_step import VolumeStep
from scheduler.client.api_resources import VOLUMES
from scheduler.core_v1.persistent_volume import decode_persistent_volume
from scheduler.state.volumes import Match

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Says that the volume was not meant for the claim by its maker, so that it is free again once the claim is gone."""


@dataclass(eq=False)
class BindVolume(VolumeStep):
    """The claim's reference in the volume."""

    match: Match

    @property
    def key(self) -> str:
        """The name of the volume."""
        return self.match.volume.name

    @property
    def path(self) -> str:
        """Of the volume."""
        return VOLUMES.path(name=self.match.volume.name)

    @property
    def subject(self) -> str:
        """The volume."""
        return f"persistentvolume {self.match.volume.name}"

    @property
    def version(self) -> str:
        """Of the volume."""
        return self.match.volume.resource_version

    def patch(self) -> Json:
        """The reference, and whether it is we who chose."""
        claim = self.match.claim
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        }
        chosen = {"annotations": {BOUND_BY_CONTROLLER: "yes"}} if self.match.volume.claim is None else {}
        return {"metadata": chosen, "spec": {"claimRef": reference}}

    def is_stored(self, raw: Mapping[str, Any]) -> bool:
        """Whether the volume has the claim."""
        found, _ = decode_persistent_volume(raw, validate=False)
        return found is not None and found.claim is not None and found.claim.uid == self.match.claim.uid

    def is_as_decided(self, raw: Mapping[str, Any]) -> bool:
        """Whether placement would see no difference."""
        found, _ = decode_persistent_volume(raw, validate=False)
        volume = self.match.volume
        return found is not None and replace(found, resource_version=volume.resource_version) == volume
