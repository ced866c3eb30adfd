"""How attempts wait for changes that the watches show, without asking the API server."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager

from scheduler.attempt.decision import PodKey
from scheduler.state.cluster_changes import (
    ClaimChanged,
    Event,
    NodeChanged,
    PersistentVolumeChanged,
    PersistentVolumeClaimChanged,
    PodChanged,
)
from scheduler.state.storage_objects import ClaimKey

Subject = tuple[str, Hashable]
"""What may change: a kind, and what an object of it is found by."""


class WatchedChanges:
    """Who waits for a change of which object."""

    def __init__(self) -> None:
        self._following: dict[Subject, set[Callable[[], None]]] = {}

    def on_event(self, event: Event) -> None:
        """Something has changed: steps that wait for it check again."""
        for look_again in tuple(self._following.get(_subject(event), ())) if self._following else ():
            look_again()

    @contextmanager
    def following(self, subjects: Iterable[Subject]) -> Iterator[asyncio.Event]:
        """An event that is set as soon as one of these has changed, while the context is open."""
        changed = asyncio.Event()
        with self.calling(changed.set, subjects):
            yield changed

    @contextmanager
    def calling(self, look_again: Callable[[], None], subjects: Iterable[Subject]) -> Iterator[None]:
        """Call this each time that one of these has changed, while the context is open."""
        followed = list(subjects)
        for one in followed:
            self._following.setdefault(one, set()).add(look_again)
        try:
            yield
        finally:
            for one in followed:
                self._leave(one, look_again)

    def _leave(self, subject: Subject, look_again: Callable[[], None]) -> None:
        others = self._following.get(subject, set())
        others.discard(look_again)
        if not others:
            self._following.pop(subject, None)


def pod_subject(pod: PodKey) -> Subject:
    """The pod."""
    return "Pod", pod.uid


def node_subject(node: str) -> Subject:
    """The node."""
    return "Node", node


def claim_subject(key: ClaimKey) -> Subject:
    """The claim."""
    return "PersistentVolumeClaim", key


def volume_subject(name: str) -> Subject:
    """The volume."""
    return "PersistentVolume", name


def resource_claim_subject(uid: str) -> Subject:
    """The ResourceClaim."""
    return "ResourceClaim", uid


def _subject(event: Event) -> Subject:
    match event:
        case PodChanged(old, new) if one := new or old:
            return "Pod", one.uid
        case ClaimChanged(old, new) if resource_claim := new or old:
            return resource_claim_subject(resource_claim.uid)
        case NodeChanged(old, new) if node := new or old:
            return node_subject(node.name)
        case PersistentVolumeClaimChanged(old, new) if claim := new or old:
            return claim_subject(claim.key)
        case PersistentVolumeChanged(old, new) if volume := new or old:
            return volume_subject(volume.name)
        case _:
            return "", ""
