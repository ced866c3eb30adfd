"""Logs what webhooks, policies and quotas deny: for each namespace at once, and then at most once a minute."""

import logging
from dataclasses import dataclass

EVERY_S = 60.0
"""How often a namespace is named in the log."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Logged:
    """When a namespace was named, and how many denials have come since then that the log does not have."""

    at: float
    more: int = 0


class Denials:
    """The namespaces that the log has named in the last minute."""

    def __init__(self) -> None:
        self._logged: dict[str, _Logged] = {}

    def __len__(self) -> int:
        return len(self._logged)

    def denied(self, namespace: str, message: str, now: float) -> None:
        """A write for a pod of the namespace was denied. message: in the API server's words, which name who did it."""
        known = self._logged.get(namespace)
        if known and now - known.at < EVERY_S:
            known.more += 1
            return
        more = f" ({known.more} more since the last message)" if known and known.more else ""
        _LOG.warning("%s%s", message, more)
        self._logged = {name: one for name, one in self._logged.items() if now - one.at < EVERY_S}
        self._logged[namespace] = _Logged(now)
