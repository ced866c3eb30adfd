"""Whatever the reader of `dra allocate` warns of is a finding of `dra lint`."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.gates import Features
from scheduler.checks.contract import CheckFinding, FindingLevel, run
from scheduler.checks.lint import RULES
from scheduler.checks.manifests import Manifests
from scheduler.cli.lint import manifests_of
from scheduler.input.documents import FindingReason
from tests.odd_objects import KINDS, VALUES, fields, replaced
from tests.unit.scheduler.scenario import taken

FEATURES = Features.of("1.37")
ODD_FIELDS = ["odd", "deviceClassName", "resourceClaims", "cel", "config", "requests", "selectors"]
Json = dict[str, Any]


def findings_of(raw: Json) -> tuple[list[str], list[CheckFinding[Manifests]]]:
    """(what the reader says, what lint says) of the object."""
    inventory = taken(raw)
    said = [finding.message for finding in (*inventory.errors, *inventory.warnings)]
    return said, list(run(RULES, manifests_of(inventory, FEATURES)))


def check(raw: Json) -> None:
    said, found = findings_of(raw)
    messages = [one.observation.message for one in found]
    for message in said:
        assert any(one.endswith(message) for one in messages), message


@st.composite
def odd_objects(draw: st.DrawFn) -> Json:
    """An object of a kind that is read, with a value of another shape, or a field more, somewhere."""
    kind = draw(st.sampled_from(KINDS))
    raw: Json = json.loads(json.dumps({"apiVersion": kind.api_version, "kind": kind.kind, **kind.object}))
    path = draw(st.sampled_from(list(fields(raw))))
    if draw(st.booleans()):
        raw = json.loads(replaced(raw, path, VALUES[draw(st.sampled_from(sorted(VALUES)))]))
    holder: Any = raw
    for step in path[: draw(st.integers(0, len(path)))]:
        try:
            holder = holder[step]
        except (KeyError, IndexError, TypeError):
            break
    if isinstance(holder, dict):
        holder[draw(st.sampled_from(ODD_FIELDS))] = draw(st.sampled_from([{}, [], "x", 1]))
    return raw


@given(odd_objects())
def test_what_the_reader_says_is_a_finding(raw: Json) -> None:
    check(raw)


@pytest.mark.parametrize("reason", FindingReason)
def test_every_reason_has_one_rule(reason: FindingReason) -> None:
    rules = {rule.name for rule in RULES if rule.level is not FindingLevel.NOTE}
    names = {
        FindingReason.UNREADABLE: "unreadable-input",
        FindingReason.REFUSED: "invalid-object",
        FindingReason.UNKNOWN_FIELD: "unknown-field",
        FindingReason.DUPLICATE: "duplicate-object",
        FindingReason.UNUSED: "unused-input",
    }
    assert names[reason] in rules
