"""What the rules of `dra lint` look at: requests and classes, and the devices that their selectors are run over."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import cel
from allocator.fleet.fleet import Fleet
from allocator.model import Claim, Device, DeviceClass
from allocator.status.matching import ExpressionAnswers, Membership
from allocator.status.pool_status import PoolStatus
from scheduler.checks.contract import ObjectName
from scheduler.input.inventory import Inventory
from scheduler.input.template_claim import claim_of_template
from scheduler.status.selection import KnownNames, known_names


@dataclass(frozen=True, slots=True)
class WaitingClaim:
    """A claim that is not allocated, or what a template makes. path: of its spec in the object."""

    subject: ObjectName
    claim: Claim
    path: str


@dataclass(frozen=True, slots=True)
class CheckedSelector:
    """A selector of a class, or of a request. field: its path. devices: those that it decides about.

    whole: all that it is asked of, in words.
    """

    subject: ObjectName
    field: str
    expression: str
    devices: Sequence[Device]
    whole: str


@dataclass(frozen=True, slots=True)
class SelectorResult:
    """What a selector says of its devices. accepted: of how many it is true. failing: on which it fails."""

    accepted: int
    failing: tuple[Device, ...]


@dataclass(eq=False)
class Manifests:
    """The input. pools: with the devices of the newest generation. fleet: all nodes, with nothing in use."""

    inventory: Inventory
    environment: cel.Environment
    pools: Sequence[PoolStatus]
    fleet: Fleet

    @cached_property
    def devices(self) -> Sequence[Device]:
        """Of all pools."""
        return [one.device for pool in self.pools for one in pool.devices]

    @cached_property
    def classes(self) -> Sequence[DeviceClass]:
        """By name."""
        return sorted(self.inventory.classes, key=lambda one: one.name)

    @cached_property
    def asked(self) -> Sequence[WaitingClaim]:
        """Claims that wait, and templates, by namespace and name."""
        return [*_claims(self.inventory), *_templates(self.inventory)]

    @cached_property
    def selectors(self) -> Sequence[CheckedSelector]:
        """All selectors that compile; those that do not are errors of the input."""
        return [one for one in (*self._of_classes(), *self._of_requests()) if self._compiles(one.expression)]

    def _compiles(self, expression: str) -> bool:
        try:
            cel.compile(expression, self.environment)
        except cel.CompileError:
            return False
        return True

    def _of_classes(self) -> Iterator[CheckedSelector]:
        for one in self.classes:
            subject = ObjectName("DeviceClass", one.name)
            for number, expression in enumerate(one.selectors):
                if expression:
                    field = f"spec.selectors[{number}].cel.expression"
                    yield CheckedSelector(subject, field, expression, self.devices, "the input's devices")

    def _of_requests(self) -> Iterator[CheckedSelector]:
        members = {one.name: [device for device in self.devices if one.has(device)] for one in self.memberships}
        for asked in self.asked:
            for number, request in enumerate(asked.claim.requests):
                for place, alternative in enumerate(request.alternatives):
                    way = f"firstAvailable[{place}]" if request.is_first_available else "exactly"
                    devices = members.get(alternative.class_name)
                    for position, expression in enumerate(alternative.selectors):
                        if expression and devices is not None:
                            at = f"{asked.path}.devices.requests[{number}].{way}.selectors[{position}].cel.expression"
                            whole = f"the devices of class {alternative.class_name}"
                            yield CheckedSelector(asked.subject, at, expression, devices, whole)

    @cached_property
    def memberships(self) -> Sequence[Membership]:
        """Which devices each class selects, by its name."""
        return [Membership(one, self.environment) for one in self.classes]

    def cost(self, selector: CheckedSelector) -> int:
        """The most that the selector can cost, as the API server estimates it."""
        return cel.compile(selector.expression, self.environment).estimated_cost

    def answers(self, selector: CheckedSelector) -> SelectorResult:
        """What the selector says. Cost: O(its devices), once for equal selectors of equal classes."""
        key = selector.expression, selector.whole
        if key not in self._answers:
            matching = ExpressionAnswers(selector.expression, self.environment)
            found = [(device, matching.of(device)) for device in selector.devices]
            failing = tuple(device for device, answer in found if answer is None)
            self._answers[key] = SelectorResult(sum(answer is True for _, answer in found), failing)
        return self._answers[key]

    @cached_property
    def _answers(self) -> dict[tuple[str, str], SelectorResult]:
        return {}

    @cached_property
    def names(self) -> KnownNames:
        """Of all devices."""
        return known_names(self.devices)


def _claims(inventory: Inventory) -> Iterator[WaitingClaim]:
    for (namespace, name), found in sorted(inventory.claims.items()):
        if found.claim.allocation is None:
            yield WaitingClaim(ObjectName("ResourceClaim", name, namespace), found.claim, "spec")


def _templates(inventory: Inventory) -> Iterator[WaitingClaim]:
    for (namespace, name), template in sorted(inventory.templates.items()):
        claim = claim_of_template(template).object
        if isinstance(claim, Claim):
            subject = ObjectName("ResourceClaimTemplate", name, namespace)
            yield WaitingClaim(subject, replace(claim, uid=f"{namespace}/{name}"), "spec.spec")
