"""Our decoder accepts and refuses what a real API server does, and names the same fields.

All gates are on, so that the server looks at every field it knows.
"""

import random

import pytest

from allocator.api import decode
from tests.controlplane.contents import ensure_namespace
from tests.controlplane.profiles import ALL
from tests.controlplane.rest import RestClient
from tests.integration.conftest import Planes
from tests.integration.mutations import mutated, with_unknown_fields
from tests.integration.validation import disagreement, of_decoder, of_server, unknown_to_decoder, unknown_to_server
from tests.integration.validation_cases import CASES, RICH
from tests.unit.allocator.api.raw_objects import a_class
from tests.unit.allocator.api.test_limits import LIMITS

NULLS = "the server reads null as the zero value, and tells what is wrong with that; we refuse the null itself"
UNIONS = "with an unknown member the choice may be one of a newer release: we warn, and do not use what carries it"
LABELS = "the server names the labels, we name the one"
NEWER = "a field of 1.37, of which the server of 1.36 knows nothing"
EXPRESSIONS = "expressions are compiled where they are used, and not by the decoder"
WHOLE = "the server tells all that is missing in a spec that is missing"

KNOWN = {
    "device that is null": NULLS,
    "entry of a list that is null": NULLS,
    "toleration that is null": NULLS,
    "selector that is null": NULLS,
    "attribute of a member to come": UNIONS,
    "label that is none": LABELS,
    "template with a bad label": LABELS,
    "compatibility group": NEWER,
    "derived attribute": NEWER,
    "selector that does not compile": EXPRESSIONS,
    "slice without a spec": WHOLE,
}
"""Where decoder and server differ and are to: name of the case, reason."""

NEWER_LIMITS = {"compatibility groups", "derived attributes"}
UNCOMPILED_LIMITS = {"bytes of an expression"}
COMPARED_LIMITS = [name for name in LIMITS if name not in NEWER_LIMITS | UNCOMPILED_LIMITS]

MUTATIONS = 300


@pytest.fixture(scope="module")
def server(planes: Planes) -> RestClient:
    """A server that is only asked what it would say: nothing is stored."""
    client = planes.of(ALL).client()
    ensure_namespace(client, "ml")
    return client


@pytest.mark.parametrize("name", RICH)
def test_rich_object_is_accepted_by_both(server: RestClient, name: str) -> None:
    assert of_server(server, RICH[name]).is_accepted
    assert of_decoder(decode(RICH[name])).is_accepted
    assert unknown_to_server(server, RICH[name]) == unknown_to_decoder(decode(RICH[name])) == set()


@pytest.mark.parametrize("name", [name for name in CASES if name not in KNOWN])
def test_rule_is_the_servers(server: RestClient, name: str) -> None:
    assert disagreement(server, CASES[name]) == ""


@pytest.mark.parametrize("name", KNOWN)
def test_known_difference_is_still_one(server: RestClient, name: str) -> None:
    assert disagreement(server, CASES[name]) != ""


@pytest.mark.parametrize("name", COMPARED_LIMITS)
def test_limit_is_the_servers(server: RestClient, name: str) -> None:
    limit, _, build = LIMITS[name]
    assert of_server(server, build(limit)).is_accepted
    assert disagreement(server, build(limit)) == ""
    assert not of_server(server, build(limit + 1)).is_accepted
    assert disagreement(server, build(limit + 1)) == ""


def test_limit_of_an_expression_that_compiles_is_the_servers(server: RestClient) -> None:
    limit, _, _ = LIMITS["bytes of an expression"]
    for size in (limit, limit + 1):
        expression = "true".ljust(size)
        raw = a_class(selectors=[{"cel": {"expression": expression}}])
        assert of_server(server, raw).is_accepted == (size == limit)
        assert disagreement(server, raw) == ""


@pytest.mark.parametrize("name", RICH)
def test_unknown_fields_are_the_servers(server: RestClient, name: str) -> None:
    raw = with_unknown_fields(RICH[name])
    unknown = unknown_to_server(server, raw)
    assert unknown
    assert unknown_to_decoder(decode(raw)) == unknown


def test_mutated_objects_are_judged_as_the_server_does(server: RestClient) -> None:
    draw = random.Random(1)  # noqa: S311 - drawn the same on every run
    refused = 0
    for _ in range(MUTATIONS):
        raw = mutated(RICH[draw.choice(list(RICH))], draw)
        assert disagreement(server, raw) == "", raw
        refused += not of_decoder(decode(raw)).is_accepted
    assert MUTATIONS / 4 < refused < MUTATIONS
