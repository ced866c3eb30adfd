"""Limits once more, slowly: everything that is held is counted anew for each question, device by device.

Of the allocator only the values are used; exact fractions in place of numbers in 10**-9.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from allocator.gates import CONSUMABLE_CAPACITY, Features
from allocator.limits import CountedDevices, TenantLimit
from allocator.model import Allocation, Claim, Device, DeviceClass, DeviceResult, Node, Slice
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.naive import NaiveAllocator
from tests.properties.allocator.naive_devices import CannotJudge, Given, exact, holds, is_shareable, part_of

NANO = 10**9

Labels = Mapping[str, Mapping[str, str]]


class Counter:
    """What there is, to count by. labels: of namespaces."""

    def __init__(
        self, slices: Iterable[Slice], classes: Iterable[DeviceClass], features: Features, labels: Labels
    ) -> None:
        self.features = features
        self.labels = labels
        self._slices = list(slices)
        self._classes = {one.name: one for one in classes}

    def holds_for(self, limit: TenantLimit, namespace: str) -> bool:
        whom = limit.namespaces
        labels = {"kubernetes.io/metadata.name": namespace, **self.labels.get(namespace, {})}
        if whom.names is not None and namespace not in whom.names:
            return False
        assert all(one.operator == "In" for one in whom.labels or ())
        return all(labels.get(one.key) in one.values for one in whom.labels or ())

    def used(self, limit: TenantLimit, namespace: str, held: Iterable[Claim]) -> Fraction:
        """What counts in the limit together with what the namespace has."""
        total = Fraction(0)
        for claim in held:
            is_other = limit.namespaces.each and claim.namespace != namespace
            if not is_other and self.holds_for(limit, claim.namespace):
                for result in claim.allocation.results if claim.allocation else ():
                    total += self.of_result(limit.counted, claim, result)
        return total

    def of_result(self, counted: CountedDevices, claim: Claim, result: DeviceResult) -> Fraction:
        if result.admin_access:
            return Fraction(0)
        device = self.published(result)
        if device is None:
            return self.of_unpublished(counted, claim, result)
        if not self.counts(counted, device):
            return Fraction(0)
        if counted.unit == "capacity" and result.share_id:
            return amount_in(result.consumed_capacity, counted.name, result.driver)
        return self.of_device(counted, device)

    def of_unpublished(self, counted: CountedDevices, claim: Claim, result: DeviceResult) -> Fraction:
        """Only what the claim itself says."""
        classes = [one.class_name for r in claim.requests for one in r.alternatives if one.name == result.request]
        if counted.selectors or (counted.driver and counted.driver != result.driver):
            return Fraction(0)
        if counted.class_name and (counted.class_name not in self._classes or counted.class_name not in classes):
            return Fraction(0)
        if counted.unit == "devices":
            return Fraction(1)
        return (
            amount_in(result.consumed_capacity, counted.name, result.driver)
            if counted.unit == "capacity"
            else Fraction(0)
        )

    def published(self, result: DeviceResult) -> Device | None:
        found = [
            (slice_.generation, number, device)
            for number, slice_ in enumerate(self._slices)
            for device in slice_.devices
            if device.id == result.id
        ]
        return max(found, key=lambda one: one[0])[2] if found else None

    def counts(self, counted: CountedDevices, device: Device) -> bool:
        expressions = list(counted.selectors)
        if counted.class_name:
            if counted.class_name not in self._classes:
                return False
            expressions += [one for one in self._classes[counted.class_name].selectors if one is not None]
        if counted.driver and counted.driver != device.driver:
            return False
        try:
            return all(holds(one, self.features, device) for one in expressions)
        except CannotJudge:
            return False

    @staticmethod
    def of_device(counted: CountedDevices, device: Device) -> Fraction:
        if counted.unit == "devices":
            return Fraction(1)
        if counted.unit == "capacity":
            return amount_in(device.capacity, counted.name, device.driver)
        drawn = [one.counters[counted.name] for one in device.consumes_counters if counted.name in one.counters]
        return sum((max(Fraction(0), exact(one)) for one in drawn), Fraction(0))


def amount_in(amounts: Mapping[str, object], name: str, driver: str) -> Fraction:
    """Of the two spellings the one with the domain counts."""
    for spelled in (name if "/" in name else f"{driver}/{name}", name.removeprefix(f"{driver}/")):
        if spelled in amounts:
            return max(Fraction(0), exact(amounts[spelled]))  # type: ignore[arg-type] # quantities
    return Fraction(0)


class NaiveAllocatorWithLimits(NaiveAllocator):
    """As without, but no pick may take more than is left."""

    def __init__(self, instance: Instance, node: Node, limits: Sequence[TenantLimit], labels: Labels) -> None:
        super().__init__(instance, node, failures_show=False)
        self.counter = Counter(instance.slices, instance.classes, instance.features, labels)
        self.limits = limits

    def is_allocatable(self, pick: Given, picks: Sequence[Given]) -> bool:
        return super().is_allocatable(pick, picks) and all(
            self.is_within(limit, pick, [*picks, pick]) for limit in self.limits
        )

    def is_within(self, limit: TenantLimit, pick: Given, picks: Sequence[Given]) -> bool:
        namespace = self.instance.claims[pick.claim].namespace
        if limit.soft or not self.counter.holds_for(limit, namespace) or not self.of_pick(limit.counted, pick):
            return True
        assert limit.most is not None
        used = self.counter.used(limit, namespace, self.instance.held)
        return used + sum(self.of_pick(limit.counted, one) for one in picks) <= Fraction(limit.most, NANO)

    def of_pick(self, counted: CountedDevices, pick: Given) -> Fraction:
        if pick.alternative.admin_access or not self.counter.counts(counted, pick.device):
            return Fraction(0)
        is_share = is_shareable(pick.device, self.features) and self.features.has(CONSUMABLE_CAPACITY)
        if counted.unit == "capacity" and is_share:
            part = part_of(pick.device, pick.alternative, self.features)
            return amount_in(part or {}, counted.name, pick.device.driver)
        return self.counter.of_device(counted, pick.device)


def answer_within(
    instance: Instance, node: Node, limits: Sequence[TenantLimit], labels: Labels
) -> tuple[Allocation, ...] | None:
    """The first choice in canonical order that no limit refuses; failures of devices that nobody needs do not show."""
    return NaiveAllocatorWithLimits(instance, node, limits, labels).answer()
