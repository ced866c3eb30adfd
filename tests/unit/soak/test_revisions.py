"""Two watches become one history, whatever is in their objects."""

import orjson
import pytest

from tests.controlplane.rest import Json
from tests.soak.revisions import DEPTH, RevisionOrder, event_of


def an_event(version: int, kind: str = "MODIFIED") -> Json:
    return {"type": kind, "object": {"metadata": {"resourceVersion": str(version)}}}


def versions(order: RevisionOrder) -> list[int]:
    return [revision.version for revision in order.come()]


def test_revisions_come_in_the_order_of_their_versions() -> None:
    order = RevisionOrder("pods", "claims")
    for source, version in (("pods", 2), ("pods", 5), ("claims", 3)):
        order.put(source, an_event(version), 0.0)
    assert versions(order) == [2, 3]
    order.put("claims", an_event(4), 0.0)
    order.put("claims", an_event(7), 0.0)
    assert versions(order) == [4, 5]


def test_bookmark_lets_the_other_watch_go_on() -> None:
    order = RevisionOrder("pods", "claims")
    order.put("pods", an_event(5), 0.0)
    assert versions(order) == []
    order.put("claims", an_event(9, "BOOKMARK"), 0.0)
    assert versions(order) == [5]


def test_last_revision_of_an_object_says_so() -> None:
    order = RevisionOrder("pods")
    order.put("pods", an_event(1), 0.0)
    order.put("pods", an_event(2, "DELETED"), 0.0)
    assert [revision.is_gone for revision in order.come()] == [False, True]


@pytest.mark.parametrize(("opened", "closed"), [('{"a":', "}"), ("[", "]"), ('[{"":', "}]")])
@pytest.mark.parametrize("depth", [10, 500, 9_000])
def test_event_is_read_however_deep_it_nests(opened: str, closed: str, depth: int) -> None:
    nested = opened * depth + '"[{\\"]"' + closed * depth
    line = f'{{"type":"ADDED","object":{{"before":["}}{{"],"deep":{nested},"after":{{"x":[1]}}}}}}'
    read = event_of(line.encode())["object"]
    assert (read["before"], read["after"]) == (["}{"], {"x": [1]})
    if depth == 10:
        assert read == orjson.loads(line)["object"]


def test_what_is_nested_less_deep_is_kept_where_something_else_is_cut() -> None:
    kept = "[" * (DEPTH - 2) + "7" + "]" * (DEPTH - 2)
    cut = "[" * 2_000 + "]" * 2_000
    read = event_of(f'{{"type":"ADDED","object":{{"kept":{kept},"cut":{cut}}}}}'.encode())
    assert read["object"]["kept"] == orjson.loads(kept)


def test_line_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="unexpected end"):
        event_of(b'{"type":"ADDED","object":{"metadata"')
