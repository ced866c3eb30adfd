"""Derived attributes: a request computes attributes of its devices, for constraints to compare.

For that request, a derived attribute overrides a published one of its name. It is evaluated on the devices that the
search comes to; if the expression fails, that ends the attempt.
Source: feature gate DRADerivedAttributes, field derivedAttributes.
"""

from collections.abc import Iterable

from allocator.cluster.snapshot import ANY_ATTRIBUTE
from allocator.features.contract import Feature
from allocator.gates import DERIVED_ATTRIBUTES, Features
from allocator.model import Alternative, Claim
from allocator.outcome import InvalidClaim


class DerivedAttributes(Feature):
    """The gate; `allocator.constraints` looks the attributes up."""

    def reads(self, alternative: Alternative) -> Iterable[str]:
        """Whatever the expressions read."""
        return (ANY_ATTRIBUTE,) if alternative.derived_attributes else ()

    def check(self, features: Features, claim: Claim, alternative: Alternative) -> None:
        """Without the gate a constraint would compare something else than the user means."""
        if alternative.derived_attributes and not features.has(DERIVED_ATTRIBUTES):
            where = f"claim {claim}, request {alternative.name}"
            raise InvalidClaim(f"{where}: derivedAttributes are set, but {DERIVED_ATTRIBUTES} is off")
