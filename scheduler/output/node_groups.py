"""Nodes grouped by what they answer: the same reason once, with the range of its numbers."""

from collections.abc import Hashable, Mapping, Sequence

from allocator.explain.text import OPERATOR, devices_text, inner_cause, node_text
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
from scheduler.decision.node_answers import Answer, same_answers


def answer_text(answer: Answer) -> str:
    """What a node says, in one line."""
    if isinstance(answer, AllocationError):
        line, _, _ = str(answer).partition("\n")
        return f"ends the attempt on every node: {line}"
    return "can" if isinstance(answer, Allocated) else node_text(answer, reader=OPERATOR)


def by_reason(answers: Mapping[str, Answer]) -> list[tuple[str, list[str]]]:
    """(what they say, the nodes) for nodes that say the same but for numbers and holders, the most nodes first."""
    groups: dict[Hashable, tuple[list[Answer], list[str]]] = {}
    for answer, names in same_answers(answers):
        found, named = groups.setdefault(_key(answer), ([], []))
        found.append(answer)
        named.extend(names)
    places = {name: place for place, name in enumerate(answers)}
    reported = [(_text(found), sorted(names, key=places.__getitem__)) for found, names in groups.values()]
    return sorted(reported, key=lambda group: (-len(group[1]), places[group[1][0]]))


def _key(answer: Answer) -> Hashable:
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


def _cause(answer: Answer) -> Cause | None:
    return None if isinstance(answer, AllocationError) else inner_cause(answer)


def _has_invalid_pool(answer: Answer) -> bool:
    return isinstance(answer, Refused) and isinstance(answer.cause, InvalidPoolSeen)


def _reasons(refusals: Sequence[DeviceRefusal]) -> tuple[str, ...]:
    """Selectors last, as they say only what a device is."""
    ordered = sorted(refusals, key=lambda refusal: refusal.category == "selector")
    return tuple(dict.fromkeys(refusal.reason for refusal in ordered))


def _text(answers: Sequence[Answer]) -> str:
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
