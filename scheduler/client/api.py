"""What the parts of a program need of a connection: one call of the API server."""

from collections.abc import Mapping
from typing import Protocol

from scheduler.client.connection import JSON, WRITE_TIMEOUT_S, Json


class Api(Protocol):
    """One call; `scheduler.client.connection.Connection`, and API servers in memory in tests."""

    async def request(  # noqa: PLR0913 - the parts of a call
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float = WRITE_TIMEOUT_S,
    ) -> Json:
        """The answer's object. Raises CallFailed."""
        ...
