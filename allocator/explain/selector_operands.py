"""The operands of a selector's `&&`: how many devices pass each, which removes the last, and what devices have instead.

The operands are asked in order, and none of a device on which one before it is false. One that fails is no answer yet:
a later one may be false, and then the selector is. Beside that, each is asked alone of all devices that come to the
selector.

Refusals by such a selector name the part that removes the last device, in place of a text that is cut before it. All
of this only where a refusal is explained: a decision knows nothing of parts.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import cel
from allocator.allocate import BUDGET_STEPS
from allocator.bits import Mask, bits
from allocator.candidates import selector_reason, shortened
from allocator.cluster.pools import NodeView
from allocator.cluster.snapshot import ReadKey, Snapshot, selectors_of
from allocator.model import Alternative, Claim, Device, Node
from allocator.outcome import (
    AllocationError,
    Budget,
    DeviceRefusal,
    InvalidPoolSeen,
    NotEnough,
    Outcome,
    OutOfSteps,
    Refused,
)
from allocator.words import agreeing, and_more, counted

Some = TypeVar("Some")

MOST_VALUES = 3
"""Values of a device's attribute that are named; of others only the number is given."""

_ABSENT = "absent"

_WORK_OF_A_DEVICE: Final = 4
"""To look up whether the answer is known of one that agrees with it."""


@dataclass(frozen=True, slots=True)
class SelectorOperand:
    """An operand and what it says."""

    position: int
    """From 1, of so many (whole)."""
    whole: int
    expression: str
    devices: int
    """Devices that come to the selector."""
    alone: int
    """On how many of them it is true."""
    passing: int
    """On how many it and all before it are."""
    asked: int
    """On how many none before it is false."""
    refused: int
    failing: int
    """refused, failing: on how many of those it is false, or fails."""
    error: str = ""
    """Of the first device on which it fails."""
    removed: int = 0
    """Devices that pass all before it, if it is true on none of them."""
    values: tuple[str, ...] = ()
    """What those that it removes have of what it reads, in words; where none come to it, what those have on which it is
    not true.
    """

    @property
    def text(self) -> str:
        """In a line."""
        passes = f"{self.alone} of {self.devices} {agreeing(self.alone, 'passes', 'pass')} it alone"
        phrases = [
            f"part {self.position} of {self.whole}, {on_a_line(self.expression)}: {passes}, {self.passing} so far"
        ]
        phrases += [f"it removes the last {counted(self.removed, 'device')}"] if self.removed else []
        phrases += [f"it fails on {self.failing} ({self.error})"] if self.failing else []
        return "; ".join([*phrases, *self.values])


def blaming(operands: Sequence[SelectorOperand]) -> list[str]:
    """A line for each operand; the last line counts those that there was no budget for."""
    lines = [one.text for one in operands]
    if operands and (rest := operands[-1].whole - operands[-1].position):
        lines.append(f"{counted(rest, 'more part')} {agreeing(rest, 'is', 'are')} not known within the budget")
    return lines


def guilty(operands: Sequence[SelectorOperand]) -> SelectorOperand | None:
    """The operand that removes the last device; None where devices pass all of them, or it is not known."""
    return next((one for one in operands if one.removed), None)


def on_a_line(expression: str) -> str:
    """The expression without line breaks."""
    return " ".join(expression.split())


@dataclass(frozen=True, slots=True)
class _OperandMasks:
    """The places of the devices on which an operand is true, and on which it fails, and the first error."""

    true: Mask
    failing: Mask
    errors: Mapping[int, str]


class OperandAnswers:
    """Operands of selectors over devices; those that agree in what an operand reads are asked once.

    charge: is told the work, and ends it by raising OutOfSteps.
    """

    def __init__(self, environment: cel.Environment, charge: Callable[[int], None] = lambda _work: None) -> None:
        self._environment = environment
        self._charge = charge
        self._known: dict[str, dict[Hashable, bool | cel.EvalError]] = {}

    def of(self, expression: str, devices: Sequence[Device]) -> tuple[SelectorOperand, ...]:
        """The operands of a selector, over the devices that come to it; none if it is no conjunction, or no CEL.

        Those that there is no budget for are left out. Cost: O(devices) each.
        """
        try:
            cel.compile(expression, self._environment)
        except cel.CompileError:
            return ()
        operands = cel.conjuncts(expression) if devices else ()
        return tuple(self._asked(operands, devices)) if len(operands) > 1 else ()

    def _asked(self, operands: Sequence[str], devices: Sequence[Device]) -> Iterator[SelectorOperand]:
        undecided = passing = every = (1 << len(devices)) - 1
        for position, operand in enumerate(operands, start=1):
            try:
                program = cel.compile(operand, self._environment)
                answers = self._answers(operand, program, devices)
            except cel.CompileError:  # too long a chain of types, say: only the whole is known to compile
                continue
            except OutOfSteps:
                return
            missed = (passing or every) & ~answers.true
            refused, failing = undecided & ~answers.true & ~answers.failing, undecided & answers.failing
            yield SelectorOperand(
                position,
                len(operands),
                operand,
                devices=len(devices),
                alone=answers.true.bit_count(),
                passing=(passing & answers.true).bit_count(),
                asked=undecided.bit_count(),
                refused=refused.bit_count(),
                failing=failing.bit_count(),
                error=next((answers.errors[place] for place in bits(failing)), ""),
                removed=0 if passing & answers.true else passing.bit_count(),
                values=tuple(_values(program.reads, [devices[place] for place in bits(missed)])),
            )
            undecided &= ~refused
            passing &= answers.true

    def _answers(self, operand: str, program: cel.Program, devices: Sequence[Device]) -> _OperandMasks:
        if operand not in self._known:
            self._charge(program.compiling)
        known, read = self._known.setdefault(operand, {}), ReadKey.of_programs([program.reads])
        self._charge(_WORK_OF_A_DEVICE * len(devices))
        true = failing = 0
        errors: dict[int, str] = {}
        for place, device in enumerate(devices):
            key = device.driver, read.of(device)
            if key not in known:
                verdict, work = program.judge(device)
                known[key] = verdict if isinstance(verdict, cel.EvalError) else verdict is True
                self._charge(work)
            answer = known[key]
            if isinstance(answer, cel.EvalError):
                failing |= 1 << place
                errors[place] = answer.message
            elif answer:
                true |= 1 << place
        return _OperandMasks(true, failing, errors)


def _values(reads: cel.Reads, devices: Sequence[Device]) -> Iterator[str]:
    """What the devices have of each attribute, capacity or driver that is read."""
    for path in sorted(reads.paths):
        counts = Counter(value for device in devices if (value := _value(device, path)))
        if values := [f"{value} on {number}" for value, number in counts.most_common(MOST_VALUES)]:
            more = and_more(len(counts), MOST_VALUES, "value")
            yield f"{'/'.join(path[1:]) or path[0]}: {', '.join(values)}{f' {more}' if more else ''}"


def _value(device: Device, path: tuple[str, ...]) -> str:
    """What the device has at the path, in words; empty for a path of another kind."""
    match path:
        case ("driver",):
            return device.driver
        case ("attributes", domain, name):
            attribute = _named(device.attributes, device.driver, domain, name)
            return _ABSENT if attribute is None else _shown(*attribute)
        case ("capacity", domain, name):
            amount = _named(device.capacity, device.driver, domain, name)
            return _ABSENT if amount is None else amount.text
        case _:
            return ""


def _named(table: Mapping[str, Some], driver: str, domain: str, name: str) -> Some | None:
    """An entry by its name with domain; one without a domain is of the driver's."""
    return table.get(f"{domain}/{name}") or (table.get(name) if domain == driver else None)


def _shown(type_: str, value: object) -> str:
    return str(value).lower() if type_ == "bool" else str(value)


# Refusals by selectors of several parts.


Operands = Mapping[str, tuple[SelectorOperand, ...]]
"""By the reason of a selector's refusals, the operands of its `&&`."""


def refusals_by_operands(  # noqa: PLR0913 - the last has a default
    snapshot: Snapshot,
    view: NodeView,
    alternative: Alternative,
    refusals: Sequence[DeviceRefusal],
    answers: OperandAnswers,
    *,
    is_only_of_cut: bool = False,
) -> tuple[tuple[DeviceRefusal, ...], Operands]:
    """The refusals, of which those with a cut text name the guilty part; and the operands of their selectors.

    refusals: of the devices of the view, in the order of the checks, with their positions. is_only_of_cut: operands of
    selectors whose text is not cut are not asked.
    Cost: O(devices) for each operand of a selector that refuses some.
    """
    wanted = {one.reason for one in refusals if _may_be_cut(one) or not is_only_of_cut}
    reasons, operands = {one.reason: one.reason for one in refusals}, dict[str, tuple[SelectorOperand, ...]]()
    for reason, expression, asked in _asked_of(snapshot, view, alternative, refusals):
        if reason in wanted:
            parts = answers.of(expression, [view.devices[place] for place in bits(asked)])
            reasons[reason] = _reason(reason, expression, parts)
            if parts:
                operands[reasons[reason]] = parts
    return tuple([replace(one, reason=reasons[one.reason]) for one in refusals]), operands


def _asked_of(
    snapshot: Snapshot, view: NodeView, alternative: Alternative, refusals: Sequence[DeviceRefusal]
) -> Iterator[tuple[str, str, Mask]]:
    """(reason of its refusals, expression, devices that come to it) of each selector in order."""
    left = view.all
    for refusal in refusals:
        if refusal.category == "selector":
            break
        left &= ~refusal.positions
    for source, position, expression in selectors_of(snapshot.classes[alternative.class_name], alternative):
        yield selector_reason(position, source, expression), expression, left
        left &= snapshot.selectors.select(expression, view).matches  # known, since it has refused devices


def _reason(reason: str, expression: str, operands: Sequence[SelectorOperand]) -> str:
    """The reason with the part that removes the last device, or else the most, in place of a text that is cut."""
    if not operands or shortened(expression) == on_a_line(expression):
        return reason
    part = guilty(operands)
    some = ""
    if part is None:
        part = max(operands, key=lambda one: one.refused)
        some = f"{part.refused} of them " if part.refused < sum(one.refused for one in operands) else ""
    selector, _, _ = reason.partition(" (")
    return f"{selector} ({some}part {part.position} of {part.whole}: {shortened(part.expression)})"


class GuiltyOperands:
    """Names the guilty parts in what nodes say, on one snapshot. Equal selectors are evaluated once on equal devices.

    Once the budget is spent, texts stay as they are.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._answers = OperandAnswers(snapshot.features.environment, Budget(BUDGET_STEPS).charge)

    def named(self, node: Node | None, claims: Sequence[Claim], answer: Outcome) -> Outcome:
        """The answer of the node for the claims. Cost: as `refusals_by_operands`, and none where no text is cut."""
        if not isinstance(answer, Refused):
            return answer
        cause = answer.cause
        inner = cause.cause if isinstance(cause, InvalidPoolSeen) else cause
        if not isinstance(inner, NotEnough) or not any(map(_may_be_cut, inner.refusals)):
            return answer
        named = self._named(node, claims, inner)
        return replace(answer, cause=replace(cause, cause=named) if isinstance(cause, InvalidPoolSeen) else named)

    def _named(self, node: Node | None, claims: Sequence[Claim], cause: NotEnough) -> NotEnough:
        every = [(str(claim), one) for claim in claims for request in claim.requests for one in request.alternatives]
        alternative = next((one for name, one in every if (name, one.name) == (cause.claim, cause.request)), None)
        if alternative is None:  # of a claim for extended resources, whose requests are named after these
            return cause
        try:
            view = self._snapshot.view(node)
        except AllocationError:
            return cause
        refusals, _ = refusals_by_operands(
            self._snapshot, view, alternative, cause.refusals, self._answers, is_only_of_cut=True
        )
        return replace(cause, refusals=refusals)


def _may_be_cut(refusal: DeviceRefusal) -> bool:
    return refusal.category == "selector" and refusal.reason.endswith("...)")
