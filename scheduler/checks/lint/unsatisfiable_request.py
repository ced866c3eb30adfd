"""A claim fits no node, even if nothing is in use."""

from collections.abc import Hashable, Iterator

from allocator.explain.text import summary
from allocator.fleet.fleet import Fleet
from allocator.model import Claim
from allocator.outcome import AllocationError
from allocator.search.rules import bits
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests, alternatives_of
from scheduler.input.documents import FindingReason


def _check(manifests: Manifests) -> Iterator[Observation]:
    if not manifests.fleet.all:
        return
    reported = {str(one.subject) for one in manifests.reported(FindingReason.REFUSED, FindingReason.UNKNOWN_FIELD)}
    classes = {one.name for one in manifests.classes}
    reasons: dict[Hashable, str] = {}
    for asked in manifests.asked:
        named = {alternative.class_name for _, alternative in alternatives_of(asked)}
        if str(asked.subject) in reported or not named <= classes:  # which other rules tell
            continue
        question = _question(asked.claim)
        if question not in reasons:
            reasons[question] = _reason(manifests.fleet, asked.claim)
        if reason := reasons[question]:
            yield Observation(asked.subject, f"fits no node, even if nothing is in use: {reason}", asked.path)


def _question(claim: Claim) -> Hashable:
    """Equal for claims that ask for the same: most are made of a few templates."""
    requests = tuple((one.name, tuple(way.fingerprint for way in one.alternatives)) for one in claim.requests)
    return requests, claim.constraints, claim.unknown_fields


def _reason(fleet: Fleet, claim: Claim) -> str:
    """Why no node can ever satisfy the claim; empty if one can."""
    try:
        if fleet.able([claim]):
            return ""
        fleet.scores([claim], fleet.all)  # which raises what ends the attempt on every node, such as a missing class
        refusals = list(fleet.unable([claim], fleet.all))
    except AllocationError as error:
        return str(error).partition("\n")[0]
    groups = [(fleet.node(next(bits(nodes))).name, outcome, nodes.bit_count()) for outcome, nodes in refusals]
    return summary(groups, fleet.all.bit_count()).partition("\n")[0]


UNSATISFIABLE_REQUEST = Check(
    "unsatisfiable-request",
    FindingLevel.ERROR,
    "A claim fits no node, even if nothing is in use.",
    "Run `dra explain claim/NAMESPACE/NAME PATH...`: it shows what each check removes, and what would help.",
    _check,
)
