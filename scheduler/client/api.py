"""The interface that most of the program needs of a connection: one call of the API server.

It is a protocol although the product has one implementation, `Connection`: in tests, in-memory servers and wrappers
that fail or stop at a given write take its place, and none of them has streams, credentials or a pool.
"""

from collections.abc import Mapping
from typing import Protocol

from scheduler.client.connection import JSON, Json


class Api(Protocol):
    """One call of the API server."""

    async def request(  # noqa: PLR0913 - the parts of a call
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
    ) -> Json:
        """The answer's object. Raises CallFailed."""
        ...
