"""Waits until the claims of the pod's volumes are bound, as the watches show it.

The wait fails if the provisioner asks for another node, a volume is released or cannot be reached, the pod or its node
is gone, or at the binding timeout.
Source: kube-scheduler's volume binder, checkBindings; its texts.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from scheduler.attempt.attempt import Attempt
from scheduler.attempt.binder import Binder
from scheduler.attempt.decision import AttemptEnded, Gone, Retry
from scheduler.attempt.step import Step
from scheduler.attempt.watched_changes import Subject, claim_subject, node_subject, pod_subject, volume_subject
from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim
from scheduler.state.storage_objects import ObjectKey
from scheduler.state.volumes import Match, VolumePlan


@dataclass(eq=False)
class AwaitVolumes(Step):
    """The wait for the volumes that the attempt has asked for."""

    binder: Binder
    attempt: Attempt

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
            if (found := self.binder.volumes.claim(claim.key)) and found.volume:
                yield volume_subject(found.volume)

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
        found = self.binder.volumes.volume(name)
        if found is None:
            _fail(f'persistentvolume "{name}" not found')
        if self._is_older(name, found.resource_version):
            return False
        if found.claim is None or not found.claim.uid:
            _fail(f'ClaimRef got reset for pv "{name}"')
        return self._is_bound(self._found(match.claim))

    def _is_provisioned(self, claim: PersistentVolumeClaim) -> bool:
        node, found = self.attempt.decision.node, self._found(claim)
        if self._is_older(claim.key, found.resource_version):
            return False
        if found.selected_node != node:
            if found.selected_node is None:
                self.binder.volumes.declined(claim.key, node)
            _fail(f'provisioning failed for PVC "{claim.name}"')
        return self._is_bound(found)

    def _found(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        found = self.binder.volumes.claim(claim.key)
        if found is None or found.uid != claim.uid:
            _fail(f'persistentvolumeclaim "{claim.name}" not found')
        return found

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


def awaited_volumes(plan: VolumePlan) -> str:
    """What a pod waits for that has the plan."""
    claims = sorted(str(claim) for claim in (*(match.claim for match in plan.matches), *plan.provisioned))
    return f"volumes of persistentvolumeclaims {', '.join(claims)}"


def _fail(reason: str) -> NoReturn:
    raise AttemptEnded(Retry(f"binding volumes: {reason}"))
