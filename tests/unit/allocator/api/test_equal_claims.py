"""Claims that differ in nothing but their metadata share what was decoded, and nothing else does."""

import pytest

from allocator.api import decode
from allocator.model import Claim
from tests.unit.allocator.api.raw_objects import Raw, a_claim, a_request


def named(claim: Raw, **metadata: object) -> Raw:
    return {**claim, "metadata": {"name": "other", "namespace": "ml", **metadata}}


def claim_of(raw: Raw) -> Claim:
    found = decode(raw).object
    assert isinstance(found, Claim)
    return found


def test_equal_claims_share_their_requests_and_their_spec_and_have_their_own_names() -> None:
    first, second = decode(a_claim(a_request())), decode(named(a_claim(a_request()), labels={"a": "b"}))
    assert isinstance(first.object, Claim)
    assert isinstance(second.object, Claim)
    assert first.object.requests is second.object.requests
    assert first.raw["spec"] is second.raw["spec"]
    assert (second.object.namespace, second.object.name, second.object.uid) == ("ml", "other", "")
    assert second.metadata.labels == second.raw["metadata"]["labels"] == {"a": "b"}


def test_the_fields_of_an_equal_claim_keep_their_order() -> None:
    claim = a_claim(a_request())
    turned = {name: claim[name] for name in ("spec", "metadata", "kind", "apiVersion")}
    assert list(decode(named(turned)).raw) == ["spec", "metadata", "kind", "apiVersion"]


@pytest.mark.parametrize(("value", "is_right"), [(1, True), (1.0, False), (True, False), ("1", False)])
def test_what_is_equal_to_python_only_is_distinguished(value: object, *, is_right: bool) -> None:
    assert claim_of(a_claim(a_request(count=1))).requests
    assert (decode(named(a_claim(a_request(count=value)))).errors == ()) is is_right


@pytest.mark.parametrize(
    ("metadata", "path"),
    [({"name": "Other"}, "metadata.name"), ({"labels": {"a": 1}}, "metadata.labels[a]"), ({"uid": 1}, "metadata.uid")],
)
def test_metadata_is_checked_whatever_is_known_of_the_rest(metadata: Raw, path: str) -> None:
    assert claim_of(a_claim(a_request()))
    assert [error.path for error in decode(named(a_claim(a_request()), **metadata)).errors] == [path]


def test_an_unknown_field_of_the_metadata_is_reported_and_the_claim_counts() -> None:
    decoded = decode(named(a_claim(a_request()), extra=1))
    assert [warning.path for warning in decoded.warnings] == ["metadata.extra"]
    assert isinstance(decoded.object, Claim)


def deeply_nested() -> list[object]:
    value: list[object] = []
    for _ in range(2000):
        value = [value]
    return value


@pytest.mark.parametrize("value", [pytest.param(deeply_nested(), id="deep"), pytest.param(10**5000, id="long")])
def test_what_python_cannot_write_is_decoded_by_itself(value: object) -> None:
    config = [{"opaque": {"driver": "gpu.example", "parameters": {"a": value}}}]
    decoded = decode(a_claim(a_request(), config=config))
    assert isinstance(decoded.object, Claim) or decoded.errors
