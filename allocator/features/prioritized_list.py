"""Prioritized list: a request names alternatives, and gets the first with which everything else works out too.

The alternatives are the search's own, and so is the limit of devices in one claim, which depends on the
alternatives chosen; here is what is left to say, the gate.
Source: KEP-4816, feature gate DRAPrioritizedList, field firstAvailable.
"""

from allocator.features.contract import Feature
from allocator.gates import PRIORITIZED_LIST, Features
from allocator.model import Alternative, Claim
from allocator.outcome import InvalidClaim


class PrioritizedList(Feature):
    """Subrequests need the gate."""

    def check(self, features: Features, claim: Claim, alternative: Alternative) -> None:
        """Refuses subrequests where the gate is off."""
        if "/" in alternative.name and not features.has(PRIORITIZED_LIST):
            name = alternative.name.partition("/")[0]
            raise InvalidClaim(f"claim {claim}, request {name}: firstAvailable is set, but {PRIORITIZED_LIST} is off")
