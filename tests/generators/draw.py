"""What the generators of clusters and claims draw from: chance, and the aspects that a case is to have."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

Json = dict[str, Any]  # Any: the JSON of an API object
T = TypeVar("T")

# What a case may be about beyond counting free devices; those of the second tuple are features of the reference.
BASIC = (
    "AllMode",
    "AllNodes",
    "Config",
    "DistinctAttribute",
    "InUse",
    "IncompletePool",
    "InvalidPool",
    "MatchAttribute",
    "NodeSelector",
    "ObsoletePool",
    "Selectors",
    "SeveralClaims",
    "SeveralRequests",
)
FEATURES = (
    "AdminAccess",
    "CompatibilityGroups",
    "ConsumableCapacity",
    "DerivedAttributes",
    "DeviceBindingAndStatus",
    "DeviceTaints",
    "FractionalCapacityRange",
    "ListTypeAttributes",
    "OptionalNodeOperations",
    "PartitionableDevices",
    "PrioritizedList",
)
ON_BY_DEFAULT = frozenset(FEATURES) - {
    "CompatibilityGroups",
    "DerivedAttributes",
    "ListTypeAttributes",
    "OptionalNodeOperations",
}
GATES_OFF = "GatesOff"  # fields of features that are switched off
ALL = (*BASIC, *FEATURES, GATES_OFF)

DRIVERS = ("a.example", "b.example")


@dataclass(frozen=True)
class Draw:
    """Chance within the aspects of one case."""

    rng: Random
    aspects: frozenset[str]

    def chance(self, share: float) -> bool:
        """True in this share of the draws."""
        return self.rng.random() < share

    def about(self, aspect: str, share: float = 1.0) -> bool:
        """True in this share of the draws of a case that has the aspect."""
        return aspect in self.aspects and self.chance(share)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return self.rng.choice(options)

    def some(self, options: Sequence[T], most: int, least: int = 1) -> list[T]:
        """Some of the options, in their order."""
        count = self.rng.randint(least, min(most, len(options)))
        return [options[i] for i in sorted(self.rng.sample(range(len(options)), count))]
