"""Results as a table: one line for each device, or the reason why there is none."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

import click

from allocator.explain.text import OPERATOR, devices_text, inner_cause, node_text, summary
from allocator.model import Claim, DeviceResult
from allocator.outcome import (
    AllBlocked,
    Allocated,
    AllocationError,
    Cause,
    ConstraintUnmet,
    DeviceRefusal,
    InvalidPoolSeen,
    NotEnough,
    Refused,
)
from scheduler.decision.why_not import NodeAnswer, same_answers
from scheduler.offline.placement import PlacedPod, Result, UnplacedPod
from scheduler.terminal_text import GAP, padded, printable, width_of

# Nodes grouped by what they answer: the same reason once, with the range of its numbers.


def answer_text(answer: NodeAnswer) -> str:
    """What a node says, in one line."""
    if isinstance(answer, AllocationError):
        line, _, _ = str(answer).partition("\n")
        return f"ends the attempt on every node: {line}"
    return "can" if isinstance(answer, Allocated) else node_text(answer, reader=OPERATOR)


def by_reason(answers: Mapping[str, NodeAnswer]) -> list[tuple[str, list[str]]]:
    """(what they say, the nodes) for nodes that say the same but for numbers and holders, the most nodes first."""
    groups: dict[Hashable, tuple[list[NodeAnswer], list[str]]] = {}
    for answer, names in same_answers(answers):
        found, named = groups.setdefault(_key(answer), ([], []))
        found.append(answer)
        named.extend(names)
    places = {name: place for place, name in enumerate(answers)}
    reported = [(_text(found), sorted(names, key=places.__getitem__)) for found, names in groups.values()]
    return sorted(reported, key=lambda group: (-len(group[1]), places[group[1][0]]))


def _key(answer: NodeAnswer) -> Hashable:
    has_invalid = _has_invalid_pool(answer)
    match _cause(answer):
        case NotEnough() as cause:
            return (NotEnough, has_invalid, cause.claim, cause.request, cause.wanted, _reasons(cause.refusals))
        case AllBlocked() as cause:
            return (AllBlocked, has_invalid, cause.claim, cause.request, _reasons(cause.refusals))
        case ConstraintUnmet() as cause:
            return (ConstraintUnmet, has_invalid, cause.claim, cause.constraint, cause.requests, cause.wanted)
        case _:
            return answer_text(answer)


def _cause(answer: NodeAnswer) -> Cause | None:
    return None if isinstance(answer, AllocationError) else inner_cause(answer)


def _has_invalid_pool(answer: NodeAnswer) -> bool:
    return isinstance(answer, Refused) and isinstance(answer.cause, InvalidPoolSeen)


def _reasons(refusals: Sequence[DeviceRefusal]) -> tuple[str, ...]:
    """Selectors last, as they say only what a device is."""
    ordered = sorted(refusals, key=lambda refusal: refusal.category == "selector")
    return tuple(dict.fromkeys(refusal.reason for refusal in ordered))


def _text(answers: Sequence[NodeAnswer]) -> str:
    texts = {answer_text(answer) for answer in answers}
    if len(texts) == 1:
        return texts.pop()
    pools = "; pools are invalid" if _has_invalid_pool(answers[0]) else ""
    return _text_of_many([cause for answer in answers if (cause := _cause(answer))]) + pools


def _text_of_many(causes: Sequence[Cause]) -> str:
    """One text for causes that differ in their numbers only."""
    match causes[0]:
        case NotEnough() as cause:
            left = _range([one.left for one in causes if isinstance(one, NotEnough)])
            wanted = f"request {cause.request} needs {devices_text(cause.wanted)}, {left} are left"
            reasons = ", ".join(_reasons(cause.refusals))
            return f"{wanted} (others {reasons})" if reasons else wanted
        case AllBlocked() as cause:
            total = _range([one.total for one in causes if isinstance(one, AllBlocked)])
            return f"request {cause.request} needs all of {total} devices: some {', '.join(_reasons(cause.refusals))}"
        case ConstraintUnmet() as cause:
            best = _range([one.best for one in causes if isinstance(one, ConstraintUnmet)])
            wanted = f"{devices_text(cause.wanted)} together (requests {', '.join(cause.requests)})"
            return f"{cause.constraint} lets at most {best} of {wanted}"
        case other:
            raise AssertionError(f"{other} says the same on every node")


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


_NARROWEST = 40
"""Columns that a reason has at least, however narrow the terminal is."""


def table(results: Sequence[Result], *, is_wide: bool, width: int | None = None) -> str:
    """The table, columns aligned; reasons are red on a terminal.

    is_wide: with the class of each request, the number of configurations, and the reason of every node. width: of the
    terminal, in columns, for reasons to be wrapped in; None for a line each.
    """
    header = ["POD", "CLAIM", "NODE", "REQUEST", "DEVICE", *(["CLASS", "CONFIG"] if is_wide else [])]
    rows = [[printable(cell) for cell in row] for result in results for row in _rows(result, is_wide=is_wide)]
    widths = _widths(header, rows)
    return "\n".join(line for row in [header, *rows] for line in _lines(row, widths, width))


def _widths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The widths of the columns; of a row with a reason only pod and claim count."""
    return [
        max(width_of(row[column]) for row in [header, *rows] if column < 2 or len(row) == len(header))
        for column in range(len(header))
    ]


def reason_of(result: UnplacedPod) -> str:
    """Why nothing was placed, in one line: an error of a selector shows the place in its source below that."""
    groups = [(one.node, one.answer, one.number) for one in result.unfit]
    line, _, _ = (result.reason or summary(groups, result.asked, result.updating)).partition("\n")
    return printable("; ".join(filter(None, (line, result.kept))))


def _rows(result: Result, *, is_wide: bool) -> Iterable[list[str]]:
    pod = str(result.pod) if result.pod else "-"
    if isinstance(result, PlacedPod):
        for claim in result.claims:
            for device in claim.allocation.results if claim.allocation else ():
                yield [pod, str(claim), result.node, device.request, str(device.id), *_extra(claim, device, is_wide)]
            if claim.allocation is not None and not claim.allocation.results:
                yield [pod, str(claim), result.node, *_dashes(is_wide)]
        if not result.claims:
            yield [pod, "-", result.node, *_dashes(is_wide)]
        return
    claims = ",".join(str(claim) for claim in result.claims) or "-"
    yield [pod, claims, reason_of(result)]
    for name, answer in (result.nodes or {}).items() if is_wide else ():
        yield ["", "", f"{name}: {answer_text(answer)}"]


def _dashes(is_wide: bool) -> list[str]:  # noqa: FBT001 - a column's switch
    return ["-"] * (4 if is_wide else 2)


def _extra(claim: Claim, device: DeviceResult, is_wide: bool) -> list[str]:  # noqa: FBT001 - a column's switch
    if not is_wide:
        return []
    allocation = claim.allocation
    assert allocation is not None
    name = device.request
    classes = [a.class_name for request in claim.requests for a in request.alternatives if a.name == name]
    config = [c for c in allocation.config if not c.requests or {name, name.partition("/")[0]} & set(c.requests)]
    return [classes[0] if classes else "-", str(len(config))]


def _lines(row: Sequence[str], widths: Sequence[int], width: int | None) -> Iterator[str]:
    if len(row) == len(widths):
        yield GAP.join(map(padded, row, widths)).rstrip()
        return
    pod, claim, reason = row
    before = GAP.join([padded(pod, widths[0]), padded(claim, widths[1]), ""])
    room = max(_NARROWEST, (width or 0) - width_of(before))
    lines = wrap(reason, room, break_long_words=False, break_on_hyphens=False) if width else [reason]
    for number, line in enumerate(lines or [""]):
        yield (before if number == 0 else " " * width_of(before)) + click.style(line, fg="red")
