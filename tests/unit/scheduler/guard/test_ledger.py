"""Cases of the ledger that a random world does not come to."""

from dataclasses import replace
from typing import Never
from unittest.mock import MagicMock

import pytest

from allocator.model import Allocation, Claim, CounterSet, Device, DeviceResult
from cel.values.quantity import Quantity
from scheduler.decision.cluster import Cluster
from scheduler.guard import ledger as ledger_module
from scheduler.guard.ledger import BUSY, CAPACITY, COUNTERS, DEVICE, OUTDATED, UNKNOWN, Ledger, Update, counting
from scheduler.kinds import held_by_claim
from tests.builders import DRIVER, a_claim, a_device, a_slice, kubernetes
from tests.properties.guard.guarded_world import MEMORY, a_result, consumes
from tests.properties.state.claim_world import an_object


def a_cluster(*devices: Device | str, counters: int = 0, release: str = "1.37") -> Cluster:
    """A pool of these devices. counters: how many slices of its counter set `parts` there are."""
    cluster = Cluster(counting(kubernetes(release)), is_ours=lambda _: False)
    cluster.set_slice(a_slice(*devices, slice_count=2))
    sets = (CounterSet("parts", {"slices": Quantity.parse(str(counters))}),)
    cluster.set_slice(a_slice(name="counters", slice_count=2, counter_sets=sets))
    return cluster


def with_devices(name: str, *results: DeviceResult) -> Claim:
    return replace(a_claim(name=name), uid=f"uid-{name}", allocation=Allocation(results) if results else None)


def cause(ledger: Ledger, name: str, *results: DeviceResult, version: int = 5) -> str:
    refusal = ledger.refusal(Update(with_devices(name, *results), version))
    return refusal.cause if refusal else ""


SPELLINGS = ("bw", f"{DRIVER}/bw")


def test_further_share_of_a_device_in_use_is_not_charged_although_the_driver_has_taken_counters_away() -> None:
    shared = a_device("shared", allow_multiple_allocations=True, consumes_counters=consumes(2))
    single = a_device("single", consumes_counters=consumes(1))
    cluster = a_cluster(shared, single, counters=1)
    cluster.set_claim(an_object(with_devices("a", a_result("shared", "one"))), 3)
    ledger = Ledger(cluster)
    assert cause(ledger, "b", a_result("shared", "two")) == ""
    assert cause(ledger, "b", a_result("single")) == COUNTERS


def test_claim_that_takes_more_than_there_is_all_by_itself_is_refused() -> None:
    cluster = a_cluster(a_device("a", consumes_counters=consumes(2)), counters=1)
    assert cause(Ledger(cluster), "a", a_result("a")) == COUNTERS


def test_counters_that_the_watch_has_not_shown_yet_are_unknown_and_not_too_few() -> None:
    cluster = a_cluster(a_device("a", consumes_counters=consumes(1)), counters=1)
    cluster.remove_slice("counters")
    refusal = Ledger(cluster).refusal(Update(with_devices("one", a_result("a")), 5))
    assert refusal is not None
    assert refusal.cause == UNKNOWN
    assert "does not publish its counter set " in refusal.message


def test_same_claim_may_have_the_same_or_others_while_one_update_is_open() -> None:
    ledger = Ledger(a_cluster("a", "b"))
    ledger.admit(Update(with_devices("one", a_result("a")), 5), 100.0)
    assert cause(ledger, "one", a_result("a")) == ""
    assert cause(ledger, "one", a_result("b")) == ""
    ledger.admit(Update(with_devices("one", a_result("b")), 5), 100.0)
    assert [cause(ledger, "two", a_result(device)) for device in ("a", "b")] == [DEVICE, DEVICE]


def test_update_that_is_asked_about_again_and_again_counts_once_from_the_last_time() -> None:
    """As when another webhook denies it each time."""
    ledger = Ledger(a_cluster("a"))
    for number in range(20):
        assert ledger.admit(Update(with_devices("one", a_result("a")), 5), 100.0 + number) is None
    assert (ledger.open, ledger.until(), cause(ledger, "two", a_result("a"))) == (1, 119.0, DEVICE)
    assert (ledger.expire(118.0), cause(ledger, "two", a_result("a"))) == (0, DEVICE)
    assert (ledger.expire(119.0), cause(ledger, "two", a_result("a"))) == (1, "")


def test_share_that_is_asked_for_again_with_another_id_takes_its_amount_once() -> None:
    """Allocators write another id each time; any of them may be the one that is stored."""
    shared = a_device("shared", allow_multiple_allocations=True, capacity={MEMORY: "10"})
    ledger = Ledger(a_cluster(shared))
    for number in range(20):
        update = Update(with_devices("one", a_result("shared", f"id-{number}", 6)), 5)
        assert ledger.admit(update, 100.0 + number) is None
    for until in (99.0, 118.0):
        ledger.expire(until)
        assert cause(ledger, "two", a_result("shared", "other", 4)) == ""
        assert cause(ledger, "two", a_result("shared", "other", 5)) == CAPACITY
        assert cause(ledger, "two", a_result("shared", "id-19", 4)) == DEVICE
    ledger.expire(119.0)
    assert (ledger.open, cause(ledger, "two", a_result("shared", "other", 5))) == (0, "")


def test_updates_of_a_claim_that_differ_in_what_they_take_count_for_the_sum() -> None:
    """Which of them is stored is not known, nor whether one that builds on a newer version has come before it."""
    shared = a_device("shared", allow_multiple_allocations=True, capacity={MEMORY: "10"})
    ledger = Ledger(a_cluster("a", "b", shared))
    for version, *results in (
        (5, a_result("a")),
        (5, a_result("b")),
        (5, a_result("shared", "id-1", 1)),
        (5, a_result("shared", "id-2", 2)),
        (6, a_result("shared", "id-3", 2)),
    ):
        assert ledger.admit(Update(with_devices("one", *results), version), 100.0) is None
    assert ledger.open == 5
    assert [cause(ledger, "two", a_result(device)) for device in ("a", "b")] == [DEVICE, DEVICE]


def test_update_is_counted_once_from_its_question_until_the_watch_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster("a")
    ledger = Ledger(cluster)
    cluster.set_claim(an_object(with_devices("one")), 5)
    ledger.shown("uid-one")
    with monkeypatch.context() as counting_once:
        counted = MagicMock(wraps=cluster.fleet.add_allocated)
        counting_once.setattr(cluster.fleet, "add_allocated", counted)
        assert ledger.admit(Update(with_devices("one", a_result("a")), 5), 100.0) is None
        cluster.set_claim(an_object(with_devices("one", a_result("a"))), 6)
        ledger.shown("uid-one")
    assert (ledger.open, counted.call_count) == (0, 1)
    assert cause(ledger, "two", a_result("a")) == DEVICE


def test_claim_that_is_gone_holds_nothing_and_what_it_was_allowed_neither() -> None:
    cluster = a_cluster("a")
    ledger = Ledger(cluster)
    cluster.set_claim(an_object(with_devices("one")), 5)
    ledger.admit(Update(with_devices("one", a_result("a")), 5), 100.0)
    cluster.remove_claim("uid-one")
    ledger.shown("uid-one")
    assert (ledger.open, cause(ledger, "two", a_result("a"))) == (0, "")


def test_update_of_a_claim_that_is_gone_is_refused_since_nothing_would_tell_that_it_was_not_stored() -> None:
    """As when a pod is deleted while its claim is being allocated; its devices would be blocked for a minute."""
    cluster = a_cluster("a")
    ledger = Ledger(cluster)
    cluster.set_claim(an_object(with_devices("one")), 5)
    ledger.shown("uid-one")
    assert cause(ledger, "one", a_result("a")) == ""
    cluster.remove_claim("uid-one")
    ledger.shown("uid-one")
    assert cause(ledger, "one", a_result("a")) == OUTDATED
    assert cause(ledger, "two", a_result("a")) == ""
    cluster.set_claim(an_object(with_devices("one")), 5)  # as after a restore of etcd
    ledger.shown("uid-one")
    assert cause(ledger, "one", a_result("a")) == ""


def test_as_many_claims_that_are_gone_are_remembered_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.guard.ledger.GONE_MAX", 2)
    ledger = Ledger(a_cluster("a"))
    for name in ("one", "two", "one", "three"):
        ledger.shown(f"uid-{name}")
    assert [cause(ledger, name, a_result("a")) for name in ("one", "two", "three")] == [OUTDATED, "", OUTDATED]


def test_question_about_an_old_version_is_refused_since_it_cannot_be_stored() -> None:
    cluster = a_cluster("a")
    cluster.set_claim(an_object(with_devices("one")), 6)
    assert cause(Ledger(cluster), "one", a_result("a")) == OUTDATED


def test_what_is_not_published_is_refused_but_what_somebody_holds_comes_first() -> None:
    cluster = a_cluster("a")
    cluster.set_claim(an_object(with_devices("one", a_result("gone"))), 3)
    ledger = Ledger(cluster)
    assert cause(ledger, "two", a_result("gone")) == DEVICE
    assert cause(ledger, "two", a_result("new")) == UNKNOWN


def test_devices_of_a_pool_of_which_an_unreadable_claim_has_some_are_unknown() -> None:
    cluster = a_cluster("a")
    result = {"request": "r", "driver": "gpu.example", "pool": "pool-0"}
    raw = {"metadata": {"name": "odd", "namespace": "ns", "uid": "odd"}}
    held = held_by_claim({**raw, "status": {"allocation": {"devices": {"results": [result]}}}})
    cluster.leave_alone("odd", held.unknown_pools)
    assert cause(Ledger(cluster), "two", a_result("a")) == UNKNOWN


def test_what_was_allowed_counts_on_when_a_later_question_of_its_claim_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster("a", "b")
    ledger = Ledger(cluster)
    ledger.admit(Update(with_devices("one", a_result("a")), 5), 100.0)

    def fail(*_: object, **__: object) -> Never:
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(cluster.rival_claims, "overlaps", fail)
        with pytest.raises(RuntimeError):
            ledger.refusal(Update(with_devices("one", a_result("b")), 5))
    assert [cause(ledger, "two", a_result(device)) for device in ("a", "b")] == [DEVICE, ""]


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ({}, "does not name bandwidth, a capacity of the device"),
        ({"bandwidth": "1"}, "does not name memory, a capacity of the device"),
        (
            {"bandwidth": "1", "memory": "1", "cores": "1"},
            "names cores, a capacity that the device does not have",
        ),
        (
            {"bandwidth": "8", f"{DRIVER}/bandwidth": "1", "memory": "1"},
            "names bandwidth twice, and the larger amount would not count",
        ),
        ({"bandwidth": "1", "memory": "0"}, ""),
    ],
)
def test_share_names_all_capacities_of_its_device_and_no_other(named: dict[str, str], problem: str) -> None:
    """Else it would count for nothing: the device is full, and any number of such shares would pass."""
    room = {"memory": "10", "bandwidth": "10"}
    cluster = a_cluster(a_device("shared", allow_multiple_allocations=True, capacity=room))
    full = {name: Quantity.parse("9") for name in room}
    cluster.set_claim(an_object(with_devices("a", replace(a_result("shared", "one"), consumed_capacity=full))), 3)
    share = replace(a_result("shared", "two"), consumed_capacity={n: Quantity.parse(v) for n, v in named.items()})
    denial = Ledger(cluster).refusal(Update(with_devices("b", share), 1))
    where = f"device {share.id} of claim default/b: consumedCapacity"
    assert (denial.message if denial else "") == (f"{where} {problem}" if problem else "")


def test_capacity_that_a_device_has_in_both_spellings_is_named_once_or_in_both() -> None:
    """As allocators of 1.38 do; those of earlier releases name both."""
    room = {"memory": "10", f"{DRIVER}/memory": "10"}
    cluster = a_cluster(a_device("shared", allow_multiple_allocations=True, capacity=room))
    share = replace(a_result("shared", "one"), consumed_capacity={f"{DRIVER}/memory": Quantity.parse("1")})
    assert cause(Ledger(cluster), "a", share) == ""
    both = replace(share, consumed_capacity=dict.fromkeys(room, Quantity.parse("1")))
    assert cause(Ledger(cluster), "a", both) == ""


@pytest.mark.parametrize("published", SPELLINGS)
@pytest.mark.parametrize("held", SPELLINGS)
def test_what_is_held_under_one_spelling_is_not_left_under_the_other(published: str, held: str) -> None:
    cluster = a_cluster(a_device("shared", allow_multiple_allocations=True, capacity={published: "10"}))
    share = replace(a_result("shared", "first"), consumed_capacity={held: Quantity.parse("8")})
    cluster.set_claim(an_object(with_devices("a", share)), 3)
    for asked in SPELLINGS:
        more = replace(share, share_id="second", consumed_capacity={asked: Quantity.parse("4")})
        assert cause(Ledger(cluster), "b", more) == CAPACITY
        fits = replace(share, share_id="second", consumed_capacity={asked: Quantity.parse("2")})
        assert cause(Ledger(cluster), "b", fits) == ""


def test_share_that_is_asked_for_again_in_another_spelling_takes_its_amount_once() -> None:
    cluster = a_cluster(a_device("shared", allow_multiple_allocations=True, capacity={"bw": "10"}))
    ledger = Ledger(cluster)
    for share_id, name in (("one", SPELLINGS[0]), ("two", SPELLINGS[1])):
        share = replace(a_result("shared", share_id), consumed_capacity={name: Quantity.parse("6")})
        assert ledger.admit(Update(with_devices("a", share), 1), 10.0) is None


@pytest.mark.parametrize("release", ["1.34", "1.37"])
def test_shares_and_counters_count_where_their_gates_are_not_known_to_be_on(release: str) -> None:
    """As in 1.34, where they are off unless the API server and this program are told otherwise."""
    room = {"memory": "10"}
    shared = a_device("shared", allow_multiple_allocations=True, capacity=room)
    parts = [a_device(name, consumes_counters=consumes(1)) for name in ("one", "two")]
    cluster = a_cluster(shared, *parts, counters=1, release=release)
    used = replace(a_result("shared", "first"), consumed_capacity={"memory": Quantity.parse("6")})
    cluster.set_claim(an_object(with_devices("a", used, a_result("one"))), 3)
    ledger = Ledger(cluster)
    assert cause(ledger, "b", replace(used, share_id="second")) == CAPACITY
    assert cause(ledger, "b", a_result("two")) == COUNTERS


def test_open_updates_of_a_claim_have_a_bound() -> None:
    """Each is put together with all that are open: whoever builds on versions that are never stored asks in vain."""
    ledger = Ledger(a_cluster(*(f"d{number}" for number in range(40))))
    updates = [Update(with_devices("a", a_result(f"d{number}")), number + 1) for number in range(40)]
    denials = [ledger.admit(update, 75.0) for update in updates]
    assert [one.cause if one else "" for one in denials] == [""] * 32 + [BUSY] * 8
    assert cause(ledger, "b", a_result("d39")) == ""


def test_devices_of_open_updates_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares of a device without capacity count for nothing, so that any number passes; each is kept for a while."""
    monkeypatch.setattr(ledger_module, "OPEN_MAX", 4)
    cluster = a_cluster(a_device("shared", allow_multiple_allocations=True), "alone")
    ledger = Ledger(cluster)
    causes = []
    for number in range(4):
        claim = with_devices(f"claim-{number}", *(a_result("shared", f"{number}-{one}") for one in range(2)))
        denial = ledger.admit(Update(claim, 1), 75.0)
        causes.append(denial.cause if denial else "")
    assert causes == ["", "", BUSY, BUSY]
    assert ledger.open == 2
    assert denial is not None
    assert denial.message == "claim default/claim-3: the allowed updates of which the end is not known have 4 devices"
    cluster.set_claim(an_object(with_devices("claim-0")), 2)
    ledger.shown("uid-claim-0")
    assert ledger.admit(Update(claim, 1), 75.0) is None
    assert ledger.expire(80.0) == 2
    assert ledger.admit(Update(with_devices("other", a_result("alone")), 1), 155.0) is None


@pytest.mark.parametrize(
    ("shown", "holder"), [(True, "claim default/held"), (False, "another claim")], ids=["known", "may be invented"]
)
def test_only_a_claim_that_the_watch_has_shown_is_told_who_holds_a_device(*, shown: bool, holder: str) -> None:
    cluster = a_cluster("a")
    cluster.set_claim(an_object(with_devices("held", a_result("a"))), 3)
    if shown:
        cluster.set_claim(an_object(with_devices("new")), 4)
    refusal = Ledger(cluster).refusal(Update(with_devices("new", a_result("a")), 5))
    assert refusal is not None
    assert refusal.message == f"device {a_result('a').id} is held by {holder}"
    assert refusal.names == ("default/held",)
