import pytest

from allocator.cluster.pools import Named, NodeView
from allocator.memo import Topic, TypedMemo
from allocator.model import PoolID, Slice, Term
from tests.builders import (
    DRIVER,
    POOL,
    a_claim,
    a_device,
    a_node,
    a_request,
    a_result,
    a_slice,
    a_snapshot,
    an_allocated_claim,
    everywhere,
    labelled,
    on_node,
    per_device,
    requires,
    where,
)
from tests.unit.allocator.answers import decide

NODE = a_node(labels={"region": "1"})
SOME: Topic[Named] = Topic("some")


def view(*slices: Slice) -> NodeView:
    return a_snapshot(*slices).view(NODE)


def test_bits_follow_the_order_of_pools_slices_and_devices() -> None:
    slices = [
        a_slice("d", pool="b"),
        a_slice("c", name="z", pool="a", slice_count=2),
        a_slice("b", "a", name="y", pool="a", slice_count=2),
    ]
    assert [device.name for device in view(*slices).devices] == ["b", "a", "c", "d"]


def test_all_has_a_bit_for_every_device() -> None:
    assert view(a_slice("a", "b", "c")).all == 0b111
    assert view().all == 0


def test_unusable_pools_are_kept_but_give_no_devices() -> None:
    seen = view(a_slice("x", "x", pool="invalid"), a_slice("y", pool="missing", slice_count=2), a_slice("z"))
    assert [device.name for device in seen.devices] == ["z"]
    assert [pool.id.pool for pool in seen.pools] == ["invalid", "missing", POOL]
    assert [dict(seen.positions(pool)) for pool in seen.pools] == [{}, {}, {"z": 0}]


def test_devices_that_choose_other_nodes_are_in_the_view_but_not_reachable() -> None:
    near = [on_node("node-0"), everywhere(), where(labelled(region="1"))]
    far = [on_node("node-1"), where(labelled(region="2"))]
    members = [a_device(f"dev-{n}", reach=reach) for n, reach in enumerate([*near, *far])]
    seen = view(a_slice(*members, reach=per_device()))
    assert len(seen.devices) == 5
    assert seen.reachable == 0b00111


def test_own_node_selection_of_a_device_means_nothing_where_the_slice_selects() -> None:
    assert view(a_slice(a_device("x", reach=on_node("node-1")))).reachable == 0b1


def test_device_with_a_node_selector_that_makes_no_sense_is_unreadable() -> None:
    nonsense = where(Term((requires("region", "Near", "1"),)))
    members = [a_device("near", reach=on_node()), a_device("odd", reach=nonsense)]
    seen = view(a_slice(*members, reach=per_device()))
    assert (seen.reachable, seen.unreadable) == (0b01, 0b10)


def test_devices_that_carry_unknown_fields_are_unknown() -> None:
    members = a_slice("x", a_device("odd", unknown_fields=("quantum",)))
    whole = a_slice("y", "z", pool="pool-1", unknown_fields=("spec.quantum",))
    assert view(members, whole).unknown == 0b1110


def test_devices_are_found_by_pool_and_name() -> None:
    seen = view(a_slice("a", "b", "c"), a_slice("a", pool="other"))
    named = {PoolID(DRIVER, POOL): ["a", "c", "gone"], PoolID("b.example", POOL): ["b"]}
    mask = seen.mask_of(named, SOME)
    assert [seen.devices[n].id for n in range(4) if mask >> n & 1] == [(DRIVER, POOL, "a"), (DRIVER, POOL, "c")]


def test_devices_that_are_named_another_time_are_found_anew() -> None:
    seen = view(a_slice("a", "b"))
    masks = [seen.mask_of({PoolID(DRIVER, POOL): names}, SOME) for names in (["a"], ["b"], ["a", "b"], [])]
    assert masks == [0b01, 0b10, 0b11, 0]


def test_devices_that_can_be_shared_are_known() -> None:
    assert view(a_slice("a", a_device("b", allow_multiple_allocations=True))).shareable == 0b10


def test_every_device_knows_its_slice_past_slices_without_devices() -> None:
    count = 5
    slices = [
        a_slice(*names, name=name, slice_count=count)
        for name, names in {"a": [], "b": ["x", "y"], "c": [], "d": ["z"], "e": []}.items()
    ]
    seen = view(*slices)
    assert [seen.segment(device).slice.name for device in range(3)] == ["b", "b", "d"]
    assert [segment.mask for segment in seen.segments] == [0, 0b011, 0, 0b100, 0]


def test_view_of_a_node_is_made_once() -> None:
    snapshot = a_snapshot(a_slice("x"))
    assert snapshot.view(a_node()) is snapshot.view(a_node())


def test_views_remember_less_of_requests_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocator.cluster.snapshot.REMEMBERED_BY_ALL", 400)
    nodes = [a_node(f"node-{number:02}") for number in range(40)]
    snapshot = a_snapshot(a_slice("x", reach=everywhere()))
    most = 0
    for number in range(100):
        for node in nodes:
            decide(snapshot, a_claim(a_request(f"r{number}")), node=node)
        most = max(most, sum(len(view.memo) + len(view.memo._before) for _, view in snapshot._views.values()))
    assert 40 * 10 < most <= 40 * 26


def test_view_stays_the_same_however_much_of_it_is_in_use() -> None:
    pools = [a_slice("x", "y", name=f"s{number}", pool=f"p{number}") for number in range(80)]
    held = [an_allocated_claim(a_result("x", pool=f"p{number}"), name=f"c{number}") for number in range(80)]
    snapshot = a_snapshot(*pools, held=held)
    seen = snapshot.view(a_node())
    decide(snapshot, a_claim())
    positions = [seen.positions(pool) for pool in seen.pools]
    for number in range(200):
        decide(snapshot, a_claim(a_request(f"r{number}")))
        assert snapshot.view(a_node()) is seen
        assert all(seen.positions(pool) is known for pool, known in zip(seen.pools, positions, strict=True))
    assert len(seen.memo) < 80 * 2 + 100


def test_what_was_not_asked_for_since_so_many_new_things_is_forgotten() -> None:
    memo, again, other = TypedMemo(), Topic[str]("again"), Topic[int]("other")
    for number in range(10):
        assert memo.remember((other, number), lambda n=number: n) == number  # type: ignore[misc]
        assert memo.remember(again, lambda n=number: f"kept from {n}") == "kept from 0"  # type: ignore[misc]
        memo.age(3)
    assert memo.remember((other, 9), lambda: -1) == 9
    assert memo.remember((other, 0), lambda: -1) == -1


def test_what_is_forgotten_is_made_anew() -> None:
    memo, topic = TypedMemo(), Topic[int]("number")
    assert [memo.remember(topic, lambda n=n: n) for n in (1, 2)] == [1, 1]  # type: ignore[misc]
    memo.age(0)
    memo.forget(topic)
    assert memo.remember(topic, lambda: 3) == 3


def test_what_could_not_be_made_is_made_again() -> None:
    memo, topic = TypedMemo(), Topic[int]("number")
    with pytest.raises(ZeroDivisionError):
        memo.remember(topic, lambda: 1 // 0)
    assert memo.remember(topic, lambda: 3) == 3


def test_view_is_made_anew_for_a_node_whose_labels_changed() -> None:
    snapshot = a_snapshot(a_slice("x", reach=where(labelled(region="1"))))
    sizes = [len(snapshot.view(a_node(labels={"region": region})).devices) for region in "121"]
    assert sizes == [1, 0, 1]


def test_views_of_two_nodes_and_of_none_are_apart() -> None:
    snapshot = a_snapshot(a_slice("x"), a_slice("y", pool="other", reach=everywhere()))
    sizes = [len(snapshot.view(node).devices) for node in (a_node(), a_node("node-1"), None)]
    assert sizes == [2, 1, 1]


def test_snapshot_that_follows_keeps_the_views() -> None:
    before = a_snapshot(a_slice("x"))
    seen = before.view(a_node())
    assert before.with_allocated([]).view(a_node()) is seen
