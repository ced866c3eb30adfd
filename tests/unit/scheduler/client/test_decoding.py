"""Pages and lines of the API server as inputs."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from scheduler.client.errors import ApiError, Unanswered
from scheduler.client.watch_states import (
    Applied,
    Deleted,
    Entry,
    Key,
    ListEnd,
    Page,
    Progressed,
    Undecodable,
    Undecoded,
    Unreadable,
    input_of,
    page_of,
)
from scheduler.kinds import node_of

Raw = dict[str, Any]


def an_object(**metadata: object) -> Raw:
    named = {"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "8", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named}


def whole(raw: Mapping[str, Any]) -> Raw:
    return dict(raw)


def refusing(raw: Mapping[str, Any]) -> Raw:
    raise Undecodable(f"metadata.name: {raw['metadata']['name']!r} is wrong")


def line(kind: str, raw: object) -> bytes:
    return orjson.dumps({"type": kind, "object": raw})


def test_items_of_a_page_get_the_kind_and_version_of_their_list() -> None:
    item = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "3"}}
    listed = {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [item]}
    value = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "uid": "u", "resourceVersion": "3"}}
    assert page_of("GET /x", orjson.dumps(listed), whole) == Page((Entry(Key("", "a"), "u", 3, value),), "", 9)


@pytest.mark.parametrize("answer", [{"kind": "Status", "status": "Success"}, {"kind": "NodeList", "items": {}}])
def test_page_that_is_no_list_is_an_answer_that_did_not_come(answer: dict[str, Any]) -> None:
    with pytest.raises(Unanswered, match="GET /x: the response is not a list of objects"):
        page_of("GET /x", orjson.dumps(answer), whole)


def test_page_says_how_to_go_on_and_may_hold_nothing() -> None:
    listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9", "continue": "t"}}
    assert page_of("GET /x", orjson.dumps({**listed, "items": None}), whole) == Page((), "t", 9)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_created_and_changed_objects_are_applied(kind: str) -> None:
    found = input_of("GET /x", line(kind, an_object()), whole)
    assert found == Applied(Entry(Key("ns", "a"), "u", 8, an_object()))


def test_object_that_cannot_be_decoded_is_reported_with_its_error() -> None:
    found = input_of("GET /x", line("ADDED", an_object()), refusing)
    assert found == Applied(Undecoded(Key("ns", "a"), "u", 8, "metadata.name: 'a' is wrong"))


def test_deleted_object_need_not_be_decodable() -> None:
    assert input_of("GET /x", line("DELETED", an_object()), refusing) == Deleted(Key("ns", "a"), "u", 8)


def test_bookmark_reports_progress_or_the_end_of_the_list() -> None:
    assert input_of("GET /x", line("BOOKMARK", {"metadata": {"resourceVersion": "9"}}), whole) == Progressed(9)
    end = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    assert input_of("GET /x", line("BOOKMARK", {"metadata": end}), whole) == ListEnd(9)


def test_error_line_is_an_error() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(ApiError, match="GET /x: 410 Expired: too old") as error:
        input_of("GET /x", line("ERROR", status), whole)
    assert error.value.is_expired


@pytest.mark.parametrize("raw", [b"[]", b'{"type": "ADDED", "object": null}', b'{"kind": "Status"}'])
def test_line_that_is_no_event_is_an_answer_that_did_not_come(raw: bytes) -> None:
    with pytest.raises(Unanswered, match="GET /x: a line is not a watch event"):
        input_of("GET /x", raw, whole)


def test_line_that_is_no_json_is_an_answer_that_did_not_come() -> None:
    with pytest.raises(Unanswered, match="GET /x: a line is not a watch event"):
        input_of("GET /x", b'{"type":', whole)


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"name": 7}, "metadata.name: must be a string that is not empty (got 7)"),
        ({"uid": ""}, 'metadata.uid: must be a string that is not empty (got "")'),
        ({"namespace": []}, "metadata.namespace: must be a string (got a list of 0 entries)"),
    ],
)
def test_object_that_does_not_say_who_it_is_is_refused(metadata: Raw, error: str) -> None:
    found = input_of("GET /x", line("ADDED", an_object(**metadata)), whole)
    assert isinstance(found, Applied)
    assert isinstance(found.object, Undecoded)
    assert found.object.error == error


@pytest.mark.parametrize("version", [None, 8, "", "x", "-1", "9" * 30])
@pytest.mark.parametrize("kind", ["ADDED", "DELETED", "BOOKMARK"])
def test_event_without_a_version_cannot_be_left_out(kind: str, version: object) -> None:
    with pytest.raises(Unreadable):
        input_of("GET /x", line(kind, an_object(resourceVersion=version)), whole)


def test_what_a_decoder_should_not_have_raised_is_kept_with_the_object() -> None:
    def defective(raw: Mapping[str, Any]) -> Raw:
        raise KeyError(raw["metadata"]["name"])

    found = input_of("GET /x", line("ADDED", an_object()), defective)
    assert isinstance(found, Applied)
    assert isinstance(found.object, Undecoded)
    assert found.object.error == "internal error: KeyError: 'a'"
    assert isinstance(found.object.defect, KeyError)


def test_broken_item_of_a_page_costs_itself_alone() -> None:
    item = b'{"metadata":{"name":"%b","uid":"u","resourceVersion":"3","labels":%b}}'
    items = b",".join((item % (b"a", b"{}"), item % (b"b", b'"\\ud800"'), b'"\\ud800"', item % (b"c", b"{}")))
    head = b'{"apiVersion":"v1","kind":"NodeList","metadata":{"resourceVersion":"9"},"items":[%b]}'
    page = page_of("GET /x", head % items, node_of)
    assert [type(found) for found in page.objects] == [Entry, Undecoded, Undecoded, Entry]
    assert isinstance(refused := page.objects[1], Undecoded)
    assert (refused.key.name, refused.error.partition(" (")[0]) == ("b", "metadata.labels: must be an object")
