"""Admin access: a request for devices that others may hold, for maintenance.

It takes devices in use, and the devices that it gets stay free. Within a claim it takes a device once. In an attempt,
kube-scheduler lets an admin pick block a later ordinary pick of another claim, but not an earlier one; ours blocks
neither.
Source: KEP-5018, feature gate DRAAdminAccess.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from allocator.bits import Mask
from allocator.features.contract import Feature, NodeAttempt
from allocator.gates import ADMIN_ACCESS, Features
from allocator.model import Alternative, Claim, DeviceResult
from allocator.outcome import InvalidClaim
from allocator.search.rules import UNBOUNDED, Candidates, Classes, DeviceSlot, Effort, Pick, Rule, Stage, Trail


class AdminAccess(Feature):
    """Occupation of whole devices, which admin access is excepted from."""

    def check(self, features: Features, claim: Claim, alternative: Alternative) -> None:
        """The mere presence of the field, even as false, needs the gate."""
        if alternative.admin_access is not None and not features.has(ADMIN_ACCESS):
            raise InvalidClaim(
                f"claim {claim}, request {alternative.name}: adminAccess is set, but {ADMIN_ACCESS} is off"
            )

    def taken(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """Devices held by allocated claims."""
        if alternative.admin_access or not attempt.in_use:
            return ()
        return (Stage("are in use", attempt.in_use, "in use"),)

    def rule(self, attempt: NodeAttempt) -> "Occupation":
        """A device is picked once."""
        return Occupation(attempt.shareable, admin_blocks=attempt.features.is_strict)

    def finish(self, attempt: NodeAttempt, claim: Claim, pick: Pick, result: DeviceResult) -> DeviceResult:
        """Mark admin access, which does not occupy the device."""
        return replace(result, admin_access=True) if pick.candidates.alternative.admin_access else result


@dataclass(slots=True, eq=False)
class Occupation(Rule):
    """A device that cannot be shared is picked once in an attempt; by admin access, once in each claim."""

    shareable: Mask
    """Devices that several requests may pick."""
    admin_blocks: bool
    """An admin pick takes the device from other claims."""
    _claim: int | None = None
    _own: Mask = 0
    _taken: Mask = 0

    @property
    def hides(self) -> bool:
        """What is picked is not there for any other rule."""
        return True

    def narrow(self, slot: DeviceSlot, domain: Mask) -> Mask:
        """The devices that are not picked."""
        own = self._own if slot.candidates.claim == self._claim else 0
        return domain & ~(own if slot.candidates.alternative.admin_access else own | self._taken)

    def take(self, slot: DeviceSlot, device: int, trail: Trail) -> bool:
        """Mark the device, unless it can be shared."""
        bit = 1 << device
        if bit & self.shareable:
            return True
        trail.push(self._restore, (self._claim, self._own, self._taken))
        claim = slot.candidates.claim
        self._own = bit | (self._own if claim == self._claim else 0)
        self._claim = claim
        # Differs from kube-scheduler: an admin pick, which occupies nothing, leaves the device to other claims.
        if self.admin_blocks or not slot.candidates.alternative.admin_access:
            self._taken |= bit
        return True

    def joint_room(self, alternatives: Sequence[Candidates], requests: int, domain: Mask, enough: int) -> int:
        """Every device once, unless it can be shared or is for admin access."""
        if any(candidates.alternative.admin_access for candidates in alternatives):
            return UNBOUNDED
        return (domain & ~self.shareable).bit_count() + (domain & self.shareable).bit_count() * requests

    def alike(self, device: int) -> Hashable:
        """All devices are the same, but for those that can be shared."""
        return self.shareable >> device & 1

    def fingerprint(self, classes: Classes) -> Hashable:
        """Which devices, and how many of each class, are picked by the present claim, by any, and by both."""
        own, taken, alone = self._own, self._taken, classes.alone
        either = own | taken
        counts = [
            (number, (own & c).bit_count(), (taken & c).bit_count(), (own & taken & c).bit_count())
            for number, c in enumerate(classes.several)
            if either & c
        ]
        return self._claim, own & alone, taken & alone, tuple(counts)

    def effort(self, picks: int) -> Effort:
        """Masks are read as a whole."""
        return Effort(1)

    def _restore(self, old: tuple[int | None, Mask, Mask]) -> None:
        self._claim, self._own, self._taken = old
