"""Steps on volumes: bind them, or have them provisioned, and wait."""

import asyncio
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from allocator.api.versions import Json
from scheduler.attempt.attempt import TRIES, Attempt, pause
from scheduler.attempt.binder import Binder, Subject, claim_subject, node_subject, pod_subject, volume_subject
from scheduler.attempt.decision import AttemptEnded, Gone, Retry, Step
from scheduler.attempt.write_outcome import outcome_of
from scheduler.client.api_resources import VOLUME_CLAIMS, VOLUMES
from scheduler.client.connection import MERGE
from scheduler.client.errors import CallFailed
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.storage_objects import (
    SELECTED_NODE,
    PersistentVolumeClaim,
    decode_persistent_volume,
    decode_persistent_volume_claim,
)
from scheduler.state.storage import ObjectKey
from scheduler.state.volumes import Match

# A step that patches a volume or its claim, at the version that the decision is based on.
#
# After a conflict or a lost answer, the object is read again. Either it contains the write, or it still is what the
# decision is based on and the patch is sent again, or the attempt ends and the pod is decided again. Only the fields
# that placement reads are cached, so the patch names what changes, and the server keeps the rest.


@dataclass(eq=False)
class VolumeStep(Step):
    """A step that writes to a volume or to its claim. What it has written stays, whatever becomes of the attempt.

    Nobody else's claim is given away by that: the next decision about the pod finds what is stored, and builds on it.
    """

    binder: Binder
    attempt: Attempt

    @property
    @abstractmethod
    def key(self) -> ObjectKey:
        """By which the object is found."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Where the object is."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """The object, for messages."""

    @property
    @abstractmethod
    def version(self) -> str:
        """Of the object, as the decision was made on it."""

    @abstractmethod
    def patch(self) -> Json:
        """What changes."""

    @abstractmethod
    def is_stored(self, raw: Mapping[str, Any]) -> bool:
        """Whether the object, read again, holds what was to be written."""

    @abstractmethod
    def is_as_decided(self, raw: Mapping[str, Any]) -> bool:
        """Whether the object, read again, is still what the decision was made on."""

    async def do(self) -> None:
        """Write it. Raises AttemptEnded."""
        stored = await self._stored()
        self.attempt.volumes[self.key] = int(stored["metadata"]["resourceVersion"])
        self.binder.volumes.written(self.attempt.decision.pod, self.key)

    async def _stored(self) -> Json:
        version = self.version
        for tries in range(1, TRIES + 1):
            try:
                return await self._send(version)
            except CallFailed as error:
                await pause(self.binder, self.attempt, error, self.subject, tries)
            stored = await self._read()
            if self.is_stored(stored):
                return stored
            if not self.is_as_decided(stored):
                raise AttemptEnded(Retry(f"{self.subject} was changed by another client"))
            version = stored["metadata"]["resourceVersion"]
        raise AttemptEnded(Retry(f"{self.subject} changed or did not respond {TRIES} times in a row"))

    async def _send(self, version: str) -> Json:
        patch = self.patch()
        body = {**patch, "metadata": {**patch["metadata"], "resourceVersion": version}}
        return await self.binder.api.request("PATCH", self.path, body=body, content_type=MERGE)

    async def _read(self) -> Json:
        try:
            return await self.binder.api.request("GET", self.path)
        except CallFailed as error:
            raise AttemptEnded(outcome_of(error, self.subject)) from error


# Waits until the claims of the pod's volumes are bound, as the watches show it.
#
# The wait fails if the provisioner asks for another node, a volume is released or cannot be reached, the pod or its
# node is gone, or at the binding timeout. Source: kube-scheduler's volume binder, checkBindings; its texts.


@dataclass(eq=False)
class AwaitVolumes(Step):
    """The wait for the volumes that the attempt has asked for."""

    binder: Binder
    attempt: Attempt

    @property
    def waits_for(self) -> str:
        """Volumes, in words."""
        claims = sorted(str(claim) for claim in self._claims())
        return f"volumes of persistentvolumeclaims {', '.join(claims)}"

    async def do(self) -> None:
        """Return once all claims are bound. Raises AttemptEnded where they will not be."""
        try:
            async with asyncio.timeout(self.binder.binding_timeout_s):
                while not self._are_bound():
                    self.attempt.slot.give_back()  # it may take minutes, in which others may write
                    with self.binder.changes.following(self._subjects()) as changed:
                        await changed.wait()
        except TimeoutError:
            _fail("context deadline exceeded")

    def _subjects(self) -> Iterator[Subject]:
        decision = self.attempt.decision
        yield pod_subject(decision.pod)
        yield node_subject(decision.node)
        for match in decision.volumes.matches:
            yield volume_subject(match.volume.name)
        for claim in self._claims():
            yield claim_subject(claim.key)
            if (watched := self.binder.volumes.claim(claim.key)) and watched.volume:
                yield volume_subject(watched.volume)

    def _claims(self) -> Iterator[PersistentVolumeClaim]:
        volumes = self.attempt.decision.volumes
        yield from (match.claim for match in volumes.matches)
        yield from volumes.provisioned

    def _are_bound(self) -> bool:
        """Raises AttemptEnded where they will not be."""
        self._check_pod_and_node()
        volumes = self.attempt.decision.volumes
        are_bound = [self._is_matched(match) for match in volumes.matches]
        are_bound += [self._is_provisioned(claim) for claim in volumes.provisioned]
        return all(are_bound)

    def _check_pod_and_node(self) -> None:
        decision = self.attempt.decision
        if not self.binder.volumes.is_active(decision.pod):
            raise AttemptEnded(Gone(f"pod {decision.pod} no longer exists"))
        if not self.binder.volumes.has_node(decision.node):
            raise AttemptEnded(Retry(f"node {decision.node} is gone"))

    def _is_matched(self, match: Match) -> bool:
        name = match.volume.name
        watched = self.binder.volumes.volume(name)
        if watched is None:
            _fail(f'persistentvolume "{name}" not found')
        if self._is_older(name, watched.resource_version):
            return False
        if watched.claim is None or not watched.claim.uid:
            _fail(f'ClaimRef got reset for pv "{name}"')
        return self._is_bound(self._found(match.claim))

    def _is_provisioned(self, claim: PersistentVolumeClaim) -> bool:
        node, watched = self.attempt.decision.node, self._found(claim)
        if self._is_older(claim.key, watched.resource_version):
            return False
        if watched.selected_node != node:
            if watched.selected_node is None:
                self.binder.volumes.declined(claim.key, node)
            _fail(f'provisioning failed for PVC "{claim.name}"')
        return self._is_bound(watched)

    def _found(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        watched = self.binder.volumes.claim(claim.key)
        if watched is None or watched.uid != claim.uid:
            _fail(f'persistentvolumeclaim "{claim.name}" not found')
        return watched

    def _is_older(self, key: ObjectKey, version: str) -> bool:
        """Whether the watch does not show yet what was written."""
        return int(version) < self.attempt.volumes[key]

    def _is_bound(self, claim: PersistentVolumeClaim) -> bool:
        if not claim.volume:
            return False
        volume, node = self.binder.volumes.volume(claim.volume), self.attempt.decision.node
        if volume is None:
            return False  # the claim is shown before it
        if not self.binder.volumes.is_reached(node, volume):
            _fail(f'pv "{volume.name}" node affinity doesn\'t match node "{node}"')
        return claim.is_bound


def _fail(reason: str) -> NoReturn:
    raise AttemptEnded(Retry(f"binding volumes: {reason}"))


# Requests a volume for a claim from its provisioner, for the node of the pod.
#
# The annotation outlives the attempt, as kube-scheduler's does: until the provisioner removes it to ask for another
# node, pods that use the claim can only go to this node. Source: kube-scheduler's VolumeBinding plugin, PreBind;
# external-provisioner.


@dataclass(eq=False)
class SelectNode(VolumeStep):
    """The node in the claim's annotation."""

    claim: PersistentVolumeClaim

    @property
    def key(self) -> NamespacedName:
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
        stored, _ = decode_persistent_volume_claim(raw, validate=False)
        return (
            stored is not None and stored.uid == self.claim.uid and stored.selected_node == self.attempt.decision.node
        )

    def is_as_decided(self, raw: Mapping[str, Any]) -> bool:
        """Whether placement would see no difference."""
        stored, _ = decode_persistent_volume_claim(raw, validate=False)
        return stored is not None and replace(stored, resource_version=self.claim.resource_version) == self.claim


# Reserves a volume for the claim that it was matched with; kube-controller-manager completes the binding.
#
# Source: kube-scheduler's VolumeBinding plugin, PreBind, for claims whose class binds them with their first consumer.


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
        stored, _ = decode_persistent_volume(raw, validate=False)
        return stored is not None and stored.claim is not None and stored.claim.uid == self.match.claim.uid

    def is_as_decided(self, raw: Mapping[str, Any]) -> bool:
        """Whether placement would see no difference."""
        stored, _ = decode_persistent_volume(raw, validate=False)
        volume = self.match.volume
        return stored is not None and replace(stored, resource_version=volume.resource_version) == volume
