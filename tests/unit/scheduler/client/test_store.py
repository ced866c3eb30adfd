"""What a store holds, and what its readers hear."""

import asyncio
from dataclasses import replace

import pytest

from scheduler.client.errors import Unanswered
from scheduler.client.watch_states import Applied, Entry, Found, Interrupted, Key, Progressed, Restarted
from scheduler.client.watcher import Store
from tests.unit.scheduler.client.watched import a_refused, an_entry, applied, deleted

Change = tuple[Found[str] | None, Found[str] | None]


class StoreReader:
    """A store and all changes that it told."""

    def __init__(self, *objects: Entry[str]) -> None:
        self.store: Store[str] = Store()
        self.changes: list[Change] = []
        self.store.take(Restarted(objects, max((found.resource_version for found in objects), default=1)))
        self.store.on_change(lambda old, new: self.changes.append((old, new)))


def test_first_list_fills_the_store_and_reports_everything() -> None:
    store: Store[str] = Store()
    changes: list[Change] = []
    store.on_change(lambda old, new: changes.append((old, new)))
    assert not store.synced.is_set()
    store.take(Restarted((an_entry("a", 1, "x"), an_entry("b", 2)), 5))
    assert store.synced.is_set()
    assert changes == [(None, an_entry("a", 1, "x")), (None, an_entry("b", 2))]
    assert (len(store), store.get("a", "ns"), store.get("c", "ns")) == (2, "x", None)
    assert (store.resource_version, store.restarts) == (5, 0)


def test_change_reports_old_and_new_after_the_store_holds_it() -> None:
    reader = StoreReader(an_entry("a", 1, "old"))
    held: list[str | None] = []
    reader.store.on_change(lambda _old, _new: held.append(reader.store.get("a", "ns")))
    reader.store.take(applied("a", 2, "new"))
    assert reader.changes == [(an_entry("a", 1, "old"), an_entry("a", 2, "new"))]
    assert held == ["new"]


def test_older_or_same_version_changes_nothing() -> None:
    reader = StoreReader(an_entry("a", 5, "new"))
    reader.store.take(applied("a", 4, "old"))
    reader.store.take(applied("a", 5, "same"))
    assert reader.changes == []
    assert list(reader.store.values()) == ["new"]


def test_object_made_again_under_a_name_is_an_end_and_a_beginning() -> None:
    reader = StoreReader(an_entry("a", 1, uid="first"))
    reader.store.take(applied("a", 3, uid="second"))
    assert reader.changes == [(an_entry("a", 1, uid="first"), None), (None, an_entry("a", 3, uid="second"))]
    reader.store.take(deleted("a", 4, uid="first"))
    assert len(reader.store) == 1


def test_deletion_is_reported_with_what_was_there() -> None:
    reader = StoreReader(an_entry("a"))
    reader.store.take(deleted("a", 2))
    reader.store.take(deleted("a", 3))
    assert reader.changes == [(an_entry("a"), None)]
    assert len(reader.store) == 0


def test_new_list_reports_what_vanished_what_changed_and_what_appeared_and_nothing_else() -> None:
    kept, old, gone = an_entry("kept", 1), an_entry("changed", 2), an_entry("gone", 3)
    new, appeared = an_entry("changed", 7), an_entry("appeared", 8)
    reader = StoreReader(kept, old, gone)
    reader.store.take(Restarted((an_entry("kept", 1), new, appeared), 9))
    assert reader.changes == [(gone, None), (old, new), (None, appeared)]
    assert reader.store.entries[kept.key] is kept
    assert reader.store.restarts == 1


def test_object_made_again_between_two_lists_is_an_end_and_a_beginning() -> None:
    first, second = an_entry("a", 1, uid="first"), an_entry("a", 3, uid="second")
    reader = StoreReader(first)
    reader.store.take(Restarted((second,), 4))
    assert reader.changes == [(first, None), (None, second)]


def test_object_that_became_undecodable_is_gone_until_it_is_mended() -> None:
    reader = StoreReader(an_entry("a", 1))
    reader.store.take(Applied(a_refused("a", 2)))
    assert reader.changes == [(an_entry("a", 1), a_refused("a", 2))]
    assert reader.store.undecoded == {Key("ns", "a"): a_refused("a", 2)}
    assert (reader.store.get("a", "ns"), len(reader.store)) == (None, 0)
    reader.store.take(applied("a", 3))
    assert reader.changes[1:] == [(a_refused("a", 2), an_entry("a", 3))]
    assert reader.store.undecoded == {}


def test_undecodable_object_can_be_deleted_and_stays_refused_over_a_new_list() -> None:
    reader = StoreReader()
    reader.store.take(Restarted((a_refused("a", 2), a_refused("b", 2)), 3))
    reader.store.take(Restarted((a_refused("a", 2), a_refused("b", 2)), 4))
    reader.store.take(deleted("b", 5))
    assert list(reader.store.undecoded) == [Key("ns", "a")]
    assert reader.changes == [(None, a_refused("a", 2)), (None, a_refused("b", 2)), (a_refused("b", 2), None)]


def test_watch_that_is_behind_a_list_reports_nothing_new() -> None:
    reader = StoreReader(an_entry("a", 1), an_entry("b", 2))
    reader.store.take(Restarted((an_entry("b", 9), an_entry("c", 8)), 9))
    del reader.changes[:]
    for late in (applied("a", 3), deleted("a", 7), applied("c", 8), deleted("b", 8), applied("b", 9), Progressed(8)):
        reader.store.take(late)
    assert (reader.changes, reader.store.resource_version) == ([], 9)
    reader.store.take(deleted("c", 10))
    assert reader.changes == [(an_entry("c", 8), None)]


def test_all_that_one_transaction_of_etcd_changes_has_one_version() -> None:
    reader = StoreReader(an_entry("a", 1), an_entry("b", 2), an_entry("c", 3))
    for event in (deleted("a", 5), applied("c", 5), deleted("b", 5), applied("d", 5)):
        reader.store.take(event)
    gone = [(an_entry("a", 1), None), (an_entry("b", 2), None)]
    assert reader.changes == [gone[0], (an_entry("c", 3), an_entry("c", 5)), gone[1], (None, an_entry("d", 5))]


def test_list_that_the_watch_has_overtaken_is_passed_over() -> None:
    reader = StoreReader(an_entry("a", 1))
    reader.store.take(applied("b", 5))
    del reader.changes[:]
    reader.store.take(Restarted((an_entry("a", 1),), 4))
    assert (reader.changes, len(reader.store), reader.store.restarts) == ([], 2, 0)


def test_interruption_changes_nothing() -> None:
    reader = StoreReader(an_entry("a", 5))
    reader.store.take(Interrupted(Unanswered("GET /x", "cut", is_ambiguous=True), 1.0))
    assert (reader.changes, reader.store.resource_version) == ([], 5)


def test_version_is_reached_by_any_event_of_the_resource() -> None:
    async def waits() -> list[bool]:
        store = StoreReader(an_entry("a", 5)).store
        waiting = [asyncio.ensure_future(store.reached(version, 60)) for version in (7, 6, 7, 8, 5)]
        await asyncio.sleep(0)
        seen = [[done.done() for done in waiting]]
        for event in (applied("b", 6), deleted("b", 7), Progressed(9)):
            store.take(event)
            await asyncio.sleep(0)
            seen.append([done.done() for done in waiting])
        assert seen[0] == [False, False, False, False, True]
        return [all(done) for done in seen] + await asyncio.gather(*waiting)

    assert asyncio.run(waits()) == [False, False, False, True, *[True] * 5]


def test_version_that_does_not_come_in_time_is_not_reached() -> None:
    async def waits() -> tuple[bool, bool]:
        store = StoreReader(an_entry("a", 5)).store
        late = await store.reached(6, 0.0)
        store.take(applied("a", 6))
        return late, await store.reached(6, 0.0)

    assert asyncio.run(waits()) == (False, True)


def test_handler_that_fails_at_a_change_costs_that_change_alone(caplog: pytest.LogCaptureFixture) -> None:
    reader = StoreReader(an_entry("a", 1))

    def fail(_old: Found[str] | None, new: Found[str] | None) -> None:
        raise KeyError(new and new.key)

    reader.store.on_change(fail)
    after: list[Change] = []
    reader.store.on_change(lambda old, new: after.append((old, new)))
    reader.store.take(applied("b", 2))
    assert after == reader.changes == [(None, an_entry("b", 2))]
    assert (reader.store.failures, reader.store.resource_version) == (1, 2)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "cannot apply a change from nothing to ns/b at 2"
    ]


def test_objects_that_cannot_be_decoded_are_reported_as_all_others() -> None:
    reader = StoreReader(an_entry("a", 1))
    reader.store.take(Applied(a_refused("a", 2)))
    reader.store.take(Applied(a_refused("a", 3, "spec: is worse")))
    reader.store.take(applied("a", 4))
    reader.store.take(Restarted((a_refused("a", 5), a_refused("b", 5)), 6))
    reader.store.take(deleted("a", 7))
    assert reader.changes == [
        (an_entry("a", 1), a_refused("a", 2)),
        (a_refused("a", 2), a_refused("a", 3, "spec: is worse")),
        (a_refused("a", 3, "spec: is worse"), an_entry("a", 4)),
        (an_entry("a", 4), a_refused("a", 5)),
        (None, a_refused("b", 5)),
        (a_refused("a", 5), None),
    ]


def test_object_whose_uid_cannot_be_read_is_the_one_that_had_the_name() -> None:
    reader = StoreReader(an_entry("a", 1))
    reader.store.take(Applied(replace(a_refused("a", 2), uid="")))
    assert reader.store.undecoded[Key("ns", "a")] == a_refused("a", 2)


def test_store_that_was_never_filled_is_at_no_version() -> None:
    assert Store[object]().resource_version == 0


def test_store_that_needs_all_is_synced_once_nothing_is_left_undecoded() -> None:
    store: Store[str] = Store(needs_all=True)
    store.take(Restarted((an_entry("a", 1), a_refused("b", 2)), 2))
    assert not store.synced.is_set()
    store.take(applied("a", 3))
    assert not store.synced.is_set()
    store.take(applied("b", 4))
    assert store.synced.is_set()
    store.take(Applied(a_refused("b", 5)))
    assert store.synced.is_set()


@pytest.mark.parametrize("objects", [(), (an_entry("a", 1),)])
def test_store_that_needs_all_is_synced_by_a_list_without_trouble(objects: tuple[Entry[str], ...]) -> None:
    store: Store[str] = Store(needs_all=True)
    store.take(Restarted(objects, 2))
    assert store.synced.is_set()


def test_store_that_needs_all_is_synced_when_what_was_undecoded_is_gone() -> None:
    store: Store[str] = Store(needs_all=True)
    store.take(Restarted((a_refused("b", 2),), 2))
    store.take(deleted("b", 3))
    assert store.synced.is_set()
