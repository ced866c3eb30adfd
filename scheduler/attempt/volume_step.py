"""A step that patches a volume or its claim, at the version that the decision is based on.

After a conflict or a lost answer, the object is read again. Either it contains the write, or it still is what the
decision is based on and the patch is sent again, or the attempt ends and the pod is decided again. Only the fields that
placement reads are cached, so the patch names what changes, and the server keeps the rest.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.attempt.attempt import Attempt
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Json
from scheduler.attempt.decision import AttemptEnded, Retry
from scheduler.attempt.step import Step
from scheduler.attempt.tries import TRIES, pause
from scheduler.attempt.write_outcome import outcome_of
from scheduler.client.connection import MERGE
from scheduler.client.errors import CallFailed
from scheduler.state.storage_objects import ObjectKey


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
            found = await self._read()
            if self.is_stored(found):
                return found
            if not self.is_as_decided(found):
                raise AttemptEnded(Retry(f"{self.subject} was changed by another client"))
            version = found["metadata"]["resourceVersion"]
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
