"""Logs what others can have denied as often as they like: by its kind at once, and then at most once a minute.

The kind is the namespace, of what webhooks, policies and quotas deny, or the reason why a client is rejected.
"""

import logging
from dataclasses import dataclass

EVERY_S = 60.0
"""How often a kind is in the log."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Logged:
    """When a kind was logged, and how many denials have come since then that the log does not have."""

    at: float
    more: int = 0


class Denials:
    """The kinds that the log has named in the last minute."""

    def __init__(self) -> None:
        self._logged: dict[str, _Logged] = {}

    def __len__(self) -> int:
        return len(self._logged)

    def denied(self, kind: str, message: str, now: float) -> None:
        """Something of this kind was denied. message: in the words of who did it, the API server's for example."""
        known = self._logged.get(kind)
        if known and now - known.at < EVERY_S:
            known.more += 1
            return
        more = f" ({known.more} more since the last message)" if known and known.more else ""
        _LOG.warning("%s%s", message, more)
        self._logged = {name: one for name, one in self._logged.items() if now - one.at < EVERY_S}
        self._logged[kind] = _Logged(now)
