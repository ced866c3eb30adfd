"""Prioritized list: a request names alternatives, and gets the first with which all other requests succeed too.

The search handles alternatives, and the limit of devices in one claim, which depends on them; only the gate is left.
Source: KEP-4816, feature gate DRAPrioritizedList, field firstAvailable.
"""

from allocator.features.contract import Feature
from allocator.gates import PRIORITIZED_LIST, Features
from allocator.model import Alternative, Claim
from allocator.outcome import InvalidClaim


class PrioritizedList(Feature):
    """Subrequests need the gate."""

    def check(self, features: Features, claim: Claim, alternative: Alternative) -> None:
        """Refuses subrequests if the gate is off."""
        if "/" in alternative.name and not features.has(PRIORITIZED_LIST):
            name = alternative.name.partition("/")[0]
            raise InvalidClaim(f"claim {claim}, request {name}: firstAvailable is set, but {PRIORITIZED_LIST} is off")
