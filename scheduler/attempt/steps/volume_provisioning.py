"""Requests a volume for a claim from its provisioner, for the node of the pod.

The annotation outlives the attempt, as kube-scheduler's does: until the provisioner removes it to ask for another node,
pods that use the claim can only go to this node.
Source: kube-scheduler's VolumeBinding plugin, PreBind; external-provisioner.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduler.attempt.claim_objects import Json
from scheduler.attempt.volume_step import VolumeStep
from scheduler.client.api_resources import VOLUME_CLAIMS
from scheduler.core_v1.persistent_volume_claim import (
    SELECTED_NODE,
    PersistentVolumeClaim,
    decode_persistent_volume_claim,
)
from scheduler.state.storage_objects import ClaimKey


@dataclass(eq=False)
class SelectNode(VolumeStep):
    """The node in the claim's annotation."""

    claim: PersistentVolumeClaim

    @property
    def key(self) -> ClaimKey:
        """Namespace and name of the claim."""
        return self.claim.key

    @property
    def path(self) -> str:
        """Of the claim."""
        return VOLUME_CLAIMS.path(self.claim.namespace, self.claim.name)

    @property
    def subject(self) -> str:
        """The claim."""
        return f"persistentvolumeclaim {self.claim}"

    @property
    def version(self) -> str:
        """Of the claim."""
        return self.claim.resource_version

    def patch(self) -> Json:
        """The annotation."""
        return {"metadata": {"uid": self.claim.uid, "annotations": {SELECTED_NODE: self.attempt.decision.node}}}

    def is_stored(self, raw: Mapping[str, Any]) -> bool:
        """Whether the claim names the node."""
        found, _ = decode_persistent_volume_claim(raw, validate=False)
        return found is not None and found.uid == self.claim.uid and found.selected_node == self.attempt.decision.node

    def is_as_decided(self, raw: Mapping[str, Any]) -> bool:
        """Whether placement would see no difference."""
        found, _ = decode_persistent_volume_claim(raw, validate=False)
        return found is not None and replace(found, resource_version=self.claim.resource_version) == self.claim
