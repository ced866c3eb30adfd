"""Rules of `dra lint` about devices and what selects them: classes, selectors, taints, capacities, pools."""

from collections import Counter
from collections.abc import Iterator, Sequence

import cel
from allocator.allocate import BUDGET_STEPS
from allocator.api import TaintRule
from allocator.api.device_class import DeviceTaintSelector
from allocator.cluster.snapshot import Selectors
from allocator.explain.selector_operands import OperandAnswers, SelectorOperand, guilty
from allocator.model import Device, qualified
from allocator.outcome import Budget
from allocator.words import counted, did_you_mean
from scheduler.checks.audit import pool_subject
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.manifests import CheckedSelector, Manifests


def _capacity_without_policy(manifests: Manifests) -> Iterator[Observation]:
    """By resolved name: one with the driver's domain and one without are the same capacity."""
    without_policy: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], tuple[str, Device]] = {}
    for device in manifests.devices:
        for name in device.capacity if device.allow_multiple_allocations else ():
            if name not in device.policies:
                resolved = device.driver, qualified(name, device.driver)
                without_policy[resolved] += 1
                first.setdefault(resolved, (name, device))
    for (driver, resolved_name), number in sorted(without_policy.items()):
        name, device = first[driver, resolved_name]
        devices = counted(number, "shared device")
        message = f"capacity {name} has no requestPolicy on {devices}, first on {device.id}"
        yield Observation(ObjectName("driver", driver), message)


CAPACITY_WITHOUT_POLICY = Check(
    "capacity-without-policy",
    FindingLevel.WARNING,
    "A device can be shared, but a claim that does not ask for an amount of this capacity takes all of it.",
    "Publish a requestPolicy with a default, or have every request name an amount.",
    _capacity_without_policy,
)


def _class_without_selectors(manifests: Manifests) -> Iterator[Observation]:
    for device_class in manifests.classes:
        if not device_class.selectors:
            yield Observation(
                ObjectName("DeviceClass", device_class.name), "selects every device of every driver", "spec.selectors"
            )


CLASS_WITHOUT_SELECTORS = Check(
    "class-without-selectors",
    FindingLevel.WARNING,
    "A class without selectors stands for every device of every driver.",
    'Add a selector, such as device.driver == "gpu.example.com".',
    _class_without_selectors,
)


NEAR_COST = 0.8
"""Share of the limit from which on a cost is reported."""


def _selector_cost(manifests: Manifests) -> Iterator[Observation]:
    for selector in manifests.with_a_cost:
        cost = manifests.cost(selector)
        if NEAR_COST * cel.COST_LIMIT < cost <= cel.COST_LIMIT:
            message = f"may cost {cost:,} units, {100 * cost // cel.COST_LIMIT} % of the limit of {cel.COST_LIMIT:,}"
            yield Observation(selector.subject, message, selector.field, where=selector.where)


SELECTOR_COST = Check(
    "selector-cost",
    FindingLevel.WARNING,
    "A selector is nearly as expensive as the API server allows.",
    "Put cheap conditions first, and do not nest all(...), exists(...), map(...) and filter(...).",
    _selector_cost,
)


def _selector_fails(manifests: Manifests) -> Iterator[Observation]:
    explaining = Selectors(manifests.features.environment)
    for selector in manifests.selectors:
        if failing := manifests.answers(selector).failing:
            error = explaining.error(selector.expression, failing[0])
            fails = f"fails on {len(failing)} of {selector.whole} ({len(selector.devices)})"
            message = f"{fails}, first on {failing[0].id}: {error}"
            yield Observation(selector.subject, message, selector.field, where=selector.where)


SELECTOR_FAILS = Check(
    "selector-fails",
    FindingLevel.ERROR,
    "A selector fails on a device. kube-scheduler gives up a pod, on all nodes, if it comes to such a device.",
    "Ask for the driver first, and for attributes that a device may lack with has(...) or with .? and orValue(...).",
    _selector_fails,
)


def _selector_matches_all(manifests: Manifests) -> Iterator[Observation]:
    for selector in manifests.selectors:
        # One that comes after others has its meaning beside them: what they leave may well be what it asks for.
        if (
            selector.is_first
            and selector.devices
            and len(manifests.answers(selector).accepted) == len(selector.devices)
        ):
            message = f"accepts all of {selector.whole} ({len(selector.devices)})"
            yield Observation(selector.subject, message, selector.field, where=selector.where)


SELECTOR_MATCHES_ALL = Check(
    "selector-matches-all",
    FindingLevel.NOTE,
    "A selector accepts every device that it is asked of.",
    "This is usual where a cluster has one kind of device. Otherwise, check the selector.",
    _selector_matches_all,
)


def _selector_matches_none(manifests: Manifests) -> Iterator[Observation]:
    operands = OperandAnswers(manifests.features.environment, Budget(BUDGET_STEPS).charge)
    blamed: dict[tuple[str, ...], str] = {}
    for selector in manifests.selectors:
        if selector.devices and not manifests.answers(selector).accepted:
            chain = (*selector.before, selector.expression)
            if chain not in blamed:
                blamed[chain] = _blamed(operands.of(selector.expression, selector.devices))
            meant = _meant_name(manifests, selector)
            message = f"accepts none of {selector.whole} ({len(selector.devices)}){meant}{blamed[chain]}"
            yield Observation(selector.subject, message, selector.field, where=selector.where)


def _blamed(operands: Sequence[SelectorOperand]) -> str:
    """All parts of the selector, first the one that removes the last device."""
    ordered = sorted(operands, key=lambda one: one is not guilty(operands))
    return "".join(f"; {one.text}" for one in ordered)


def _meant_name(manifests: Manifests, selector: CheckedSelector) -> str:
    """What may be misspelt: drivers, attributes and capacities that it names and no device has."""
    reads = cel.compile(selector.expression, manifests.features.environment).reads
    return "".join(f"; {text}" for text in manifests.names.unknown_to(reads))


SELECTOR_MATCHES_NONE = Check(
    "selector-matches-none",
    FindingLevel.WARNING,
    "A selector accepts no device.",
    "Compare the names and values in it with what drivers publish: kubectl get resourceslices -o yaml.",
    _selector_matches_none,
)


def _selector_too_expensive(manifests: Manifests) -> Iterator[Observation]:
    for selector in manifests.with_a_cost:
        if (cost := manifests.cost(selector)) > cel.COST_LIMIT:
            message = f"may cost {cost:,} units, more than the limit of {cel.COST_LIMIT:,}"
            yield Observation(selector.subject, message, selector.field, where=selector.where)


SELECTOR_TOO_EXPENSIVE = Check(
    "selector-too-expensive",
    FindingLevel.ERROR,
    "A selector is more expensive than the API server allows: it refuses the object.",
    "Do not nest all(...), exists(...), map(...) and filter(...).",
    _selector_too_expensive,
)


def _taints_everything(manifests: Manifests) -> Iterator[Observation]:
    for rule in sorted(manifests.inventory.taint_rules, key=lambda one: one.name):
        if rule.selector == DeviceTaintSelector():
            text = f"taints every device of every driver with {rule.taint.key}:{rule.taint.effect}"
            yield Observation(ObjectName("DeviceTaintRule", rule.name), text, "spec.deviceSelector")


TAINTS_EVERYTHING = Check(
    "taints-everything",
    FindingLevel.WARNING,
    "A DeviceTaintRule with an empty deviceSelector taints every device of every driver.",
    "Select a driver, a pool or a device. Without deviceSelector, a rule taints nothing.",
    _taints_everything,
)


def _taints_nothing(manifests: Manifests) -> Iterator[Observation]:
    for rule in sorted(manifests.inventory.taint_rules, key=lambda one: one.name):
        if text := _why_it_taints_nothing(rule, manifests):
            yield Observation(ObjectName("DeviceTaintRule", rule.name), text, "spec.deviceSelector")


def _why_it_taints_nothing(rule: TaintRule, manifests: Manifests) -> str:
    """Why the rule taints no device of the input; empty where it taints one, or the input has none."""
    selector = rule.selector
    if selector is None:
        return "is absent: the rule taints nothing"
    left = manifests.devices
    for field in ("driver", "pool", "device"):
        value, names = getattr(selector, field), {_name_in(field, one) for one in left}
        if value is not None and left and value not in names:
            return f"selects none of the input's devices: none has the {field} {value}{did_you_mean(value, names)}"
        left = [one for one in left if value in (None, _name_in(field, one))]
    return ""


def _name_in(field: str, device: Device) -> str:
    return {"driver": device.driver, "pool": device.pool, "device": device.name}[field]


TAINTS_NOTHING = Check(
    "taints-nothing",
    FindingLevel.WARNING,
    "A DeviceTaintRule selects no device.",
    "Compare its selector with what drivers publish: kubectl get resourceslices -o yaml.",
    _taints_nothing,
)


def _unusable_pool(manifests: Manifests) -> Iterator[Observation]:
    for pool in manifests.pools:
        if pool.problem:
            yield Observation(pool_subject(pool), pool.problem)


UNUSABLE_POOL = Check(
    "unusable-pool",
    FindingLevel.WARNING,
    "No device of a pool can be allocated, and no selector is run over its devices.",
    "Add the slices that are missing: all of one moment, `kubectl get resourceslices -o yaml`.",
    _unusable_pool,
)
