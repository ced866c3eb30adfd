"""Every path between a watcher's states."""

from collections.abc import Iterable

import pytest

from scheduler.client.errors import ApiError, ApiStatus, Unanswered
from scheduler.client.watch_states import (
    Broken,
    Cut,
    Empty,
    Ended,
    HistoryLost,
    InitList,
    InitPage,
    Input,
    ListEnd,
    Opened,
    Outdated,
    Page,
    Progressed,
    Restarted,
    State,
    Unreadable,
    WatchEvent,
    Watching,
    is_open,
    lists,
    query_of,
    step,
)
from tests.unit.scheduler.client.watched import an_entry, applied, deleted

A, B, C = an_entry("a", 1), an_entry("b", 2), an_entry("c", 3)
CUT = Broken(Unanswered("GET /x", "cut", is_ambiguous=True))
END = Ended()
BY_PAGES = Empty(lists_by_watch=False)
BY_PAGES_FROM_7 = Empty(7, lists_by_watch=False)


def refused(status: int) -> Broken:
    return Broken(ApiError("GET /x", status, ApiStatus("", "")))


def walked(state: State[str], inputs: Iterable[Input[str]]) -> tuple[State[str], list[WatchEvent[str]]]:
    """The last state and everything that was told."""
    reported: list[WatchEvent[str]] = []
    for given in inputs:
        state, event = step(state, given)
        if event is not None:
            reported.append(event)
    return state, reported


def test_pages_are_reported_as_one_list_and_followed_by_a_watch() -> None:
    state, reported = walked(BY_PAGES, [Page((A,), "t1", 7), Page((B,), "t2", 7), Page((C,), "", 7)])
    assert reported == [Restarted((A, B, C), 7)]
    assert query_of(state) == {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "7"}
    assert walked(state, [Opened()]) == (Watching(7, lists_by_watch=False, whole=7), [Progressed(7)])


def test_first_page_asks_for_the_newest_and_the_next_for_what_follows() -> None:
    assert query_of(BY_PAGES) == {"limit": "500"}
    state, _ = step(BY_PAGES, Page((A,), "token", 7))
    assert query_of(state) == {"limit": "500", "continue": "token"}


@pytest.mark.parametrize("status", [400, 422])
def test_list_whose_token_is_refused_begins_anew(status: int) -> None:
    state, reported = walked(BY_PAGES_FROM_7, [Page((A,), "token", 7), refused(status)])
    assert (state, reported) == (BY_PAGES_FROM_7, [])


def test_list_by_watch_is_reported_at_its_end_with_what_changed_meanwhile() -> None:
    assert query_of(Empty()) == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    state, reported = walked(Empty(), [Opened(), applied("b", 2), applied("a", 1), Progressed(3)])
    assert is_open(state)
    assert reported == []
    newer = applied("a", 8)
    state, reported = walked(state, [newer, applied("c", 9), deleted("b", 10), ListEnd(10)])
    assert reported == [Restarted((newer.object, an_entry("c", 9)), 10)]
    assert state == Watching(10, lists_by_watch=True, whole=10)


def test_changes_and_bookmarks_are_reported_and_remembered() -> None:
    inputs: list[Input[str]] = [applied("a", 8), deleted("a", 9), Progressed(20)]
    assert walked(Watching(7, lists_by_watch=True, whole=7), inputs) == (
        Watching(20, lists_by_watch=True, whole=20),
        inputs,
    )


@pytest.mark.parametrize("end", [CUT, END, refused(500)])
def test_cut_watch_goes_on_where_it_was_once_the_server_knows_as_much(end: Input[str]) -> None:
    state, reported = walked(Watching(7, lists_by_watch=True, whole=7), [applied("a", 8), end])
    assert state == Cut(8, lists_by_watch=True, whole=7)
    assert lists(state)
    assert query_of(state) == {"limit": "1"}
    state, reported = walked(state, [Page((A,), "token", 9)])
    assert reported == []
    assert query_of(state)["resourceVersion"] == "7"
    assert walked(state, [Opened(), applied("a", 8)]) == (
        Watching(8, lists_by_watch=True, whole=7),
        [Progressed(7), applied("a", 8)],
    )


@pytest.mark.parametrize(
    ("inputs", "whole"),
    [
        ([deleted("a", 8), deleted("b", 8)], 7),  # of one transaction, of which more may come
        ([deleted("a", 8), deleted("b", 8), applied("c", 9)], 8),
        ([deleted("a", 8), Progressed(8)], 8),
    ],
)
def test_cut_watch_goes_on_from_the_last_version_of_which_all_has_come(inputs: list[Input[str]], whole: int) -> None:
    state, _ = walked(Watching(7, lists_by_watch=True, whole=7), [*inputs, CUT, Page((), "", 9)])
    assert query_of(state)["resourceVersion"] == str(whole)


def test_watch_that_cannot_be_opened_is_tried_again_from_the_same_version() -> None:
    state, _ = walked(InitList(8, lists_by_watch=True, whole=8), [CUT, CUT, Page((), "", 8), CUT, Page((), "", 8)])
    assert state == InitList(8, lists_by_watch=True, whole=8)


@pytest.mark.parametrize(
    "state", [Watching(7, lists_by_watch=True, whole=7), InitList(7, lists_by_watch=True, whole=7)]
)
def test_expired_version_leads_to_a_new_list_before_which_all_is_outdated(state: State[str]) -> None:
    assert step(state, refused(410)) == (Empty(7, lists_by_watch=True), Outdated(7))


def test_expired_token_leads_to_a_new_list() -> None:
    assert step(InitPage(7, True, [A], "token"), refused(410)) == (Empty(7, lists_by_watch=True), None)


def test_new_list_after_an_expired_token_holds_no_page_of_the_old_one() -> None:
    inputs: list[Input[str]] = [Page((A, B), "token", 7), refused(410), Page((C,), "", 9)]
    assert walked(BY_PAGES, inputs)[1] == [Restarted((C,), 9)]


def test_page_that_was_cut_is_asked_for_again() -> None:
    _, reported = walked(BY_PAGES, [Page((A,), "token", 7), CUT, Page((B,), "", 7)])
    assert reported == [Restarted((A, B), 7)]


@pytest.mark.parametrize("status", [400, 422])
def test_server_that_does_not_list_by_watch_is_asked_for_pages(status: int) -> None:
    state, _ = step(Empty(5), refused(status))
    assert state == Empty(5, lists_by_watch=False)


@pytest.mark.parametrize("failure", [CUT, refused(500), refused(429), refused(403)])
def test_failed_first_call_is_made_again(failure: Broken) -> None:
    assert step(Empty(5), failure) == (Empty(5), None)


@pytest.mark.parametrize("end", [CUT, END, refused(410)])
def test_list_by_watch_that_is_not_complete_is_forgotten_and_pages_are_asked_for(end: Input[str]) -> None:
    state, reported = walked(Empty(5), [Opened(), applied("a", 1), end])
    assert (state, reported) == (Empty(5, lists_by_watch=False), [])


def test_list_that_is_older_than_what_was_seen_is_fatal() -> None:
    with pytest.raises(HistoryLost, match=r"a list has resourceVersion 4, but 5 was seen before: .*backup"):
        step(Empty(5, lists_by_watch=False), Page((A,), "", 4))
    with pytest.raises(HistoryLost):
        walked(Empty(5), [Opened(), ListEnd(4)])
    with pytest.raises(HistoryLost):
        step(Cut(5, lists_by_watch=True, whole=5), Page((), "", 4))


def test_watch_that_goes_back_is_left_for_a_new_list() -> None:
    assert step(Watching(7, lists_by_watch=True, whole=7), applied("a", 6)) == (Empty(7), Outdated(7))


def test_what_a_watch_cannot_get_past_leads_to_a_list_by_pages() -> None:
    unreadable = Broken(Unreadable("GET /x", "a line is no event"))
    assert step(Watching(7, lists_by_watch=True, whole=7), unreadable) == (BY_PAGES_FROM_7, Outdated(7))
    assert step(Cut(7, lists_by_watch=True, whole=7), unreadable) == (Cut(7, lists_by_watch=True, whole=7), None)


def test_end_of_a_list_that_is_over_is_progress() -> None:
    assert step(Watching(7, lists_by_watch=True, whole=7), ListEnd(9)) == (
        Watching(9, lists_by_watch=True, whole=9),
        Progressed(9),
    )
