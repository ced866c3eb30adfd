import pytest

from allocator.cluster.usage import Shares, Usage
from allocator.model import Claim, DeviceID, DeviceResult, PoolID
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    POOL,
    a_claim,
    a_result,
    a_slice,
    a_snapshot,
    all_devices,
    an_allocated_claim,
    devices,
)
from tests.unit.allocator.answers import blocked, decide, funnel, names, shortage

GPU = DeviceID(DRIVER, POOL, "gpu-0")


def test_device_of_an_allocated_claim_has_that_claim_as_its_holder() -> None:
    usage = Usage().plus([an_allocated_claim("gpu-0", name="train", namespace="ml")])
    assert usage.holder(GPU) == "ml/train"


def test_device_that_nobody_holds_has_no_holder() -> None:
    usage = Usage().plus([an_allocated_claim("gpu-0")])
    assert usage.holder(DeviceID(DRIVER, POOL, "gpu-1")) is None
    assert usage.holder(DeviceID(DRIVER, "other", "gpu-0")) is None
    assert usage.holder(DeviceID("other.example", POOL, "gpu-0")) is None


def test_claim_without_an_allocation_holds_nothing() -> None:
    assert Usage().plus([a_claim()]) == Usage()


def test_admin_access_occupies_nothing() -> None:
    assert Usage().plus([an_allocated_claim(a_result("gpu-0", admin_access=True))]).holder(GPU) is None


def test_device_that_is_also_held_by_admin_access_is_in_use() -> None:
    by_admin = an_allocated_claim(a_result("gpu-0", admin_access=True), name="admin")
    for claims in ([by_admin, an_allocated_claim("gpu-0")], [an_allocated_claim("gpu-0"), by_admin]):
        assert Usage().plus(claims).holder(GPU) == "default/holder"


def a_share(device: str = "gpu-0", share_id: str = "share-0", **consumed: str) -> DeviceResult:
    amounts = {name: Quantity.parse(text) for name, text in consumed.items()}
    return a_result(device, share_id=share_id, consumed_capacity=amounts)


def shares(usage: Usage, device: str = "gpu-0") -> Shares:
    return usage.shares_in(PoolID(DRIVER, POOL))[device]


def without(usage: Usage, claim: Claim) -> Usage:
    fewer = usage.copy()
    fewer.remove([claim])
    return fewer


def test_share_does_not_hold_the_whole_device() -> None:
    usage = Usage().plus([an_allocated_claim(a_share())])
    assert usage.holder(GPU) is None
    assert usage.allocated_in(PoolID(DRIVER, POOL)) == {"gpu-0"}


def test_shares_add_up_by_capacity() -> None:
    first = an_allocated_claim(a_share(share_id="a", memory="1Gi", slots="1"), name="first")
    second = an_allocated_claim(a_share(share_id="b", memory="1500m"), name="second")
    found = shares(Usage().plus([first]).plus([second]))
    assert found.holders == {"a": ("default/first",), "b": ("default/second",)}
    assert found.consumed == {
        "gpu.example/memory": 2**30 * 10**9 + 1_500_000_000,
        "gpu.example/slots": 10**9,
    }


def test_next_usage_leaves_the_shares_of_the_one_before_as_they_were() -> None:
    before = Usage().plus([an_allocated_claim(a_share(share_id="a", memory="1"))])
    before.plus([an_allocated_claim(a_share(share_id="b", memory="1"))])
    assert shares(before).consumed == {"gpu.example/memory": 10**9}
    assert list(shares(before).holders) == ["a"]


@pytest.mark.parametrize(
    ("written", "counted"),
    [
        ({"memory": "1", f"{DRIVER}/memory": "3"}, {f"{DRIVER}/memory": 3 * 10**9}),
        ({"memory": "1", "other.example/memory": "3"}, {f"{DRIVER}/memory": 10**9, "other.example/memory": 3 * 10**9}),
        ({"memory": "-5"}, {}),
    ],
)
def test_a_status_counts_each_capacity_once_and_nothing_below_zero(
    written: dict[str, str], counted: dict[str, int]
) -> None:
    consumed = {name: Quantity.parse(text) for name, text in written.items()}
    share = a_result("gpu-0", share_id="a", consumed_capacity=consumed)
    assert shares(Usage().plus([an_allocated_claim(share)])).consumed == counted
    assert without(Usage().plus([an_allocated_claim(share)]), an_allocated_claim(share)) == Usage()


def test_share_that_reports_no_capacity_occupies_its_device_too() -> None:
    empty, full = an_allocated_claim(a_share("empty")), an_allocated_claim(a_share("full", memory="0"))
    usage = Usage().plus([empty, full])
    assert usage.allocated_in(PoolID(DRIVER, POOL)) == {"empty", "full"}
    assert {name: own.measured for name, own in usage.shares_in(PoolID(DRIVER, POOL)).items()} == {
        "empty": 0,
        "full": 1,
    }
    assert without(usage, full) == Usage().plus([empty])


def test_share_holds_the_whole_device_where_shares_are_not_known() -> None:
    usage = Usage(has_shares=False).plus([an_allocated_claim(a_share(memory="1"))])
    assert usage.holder(GPU) == "default/holder"
    assert usage.shares_in(PoolID(DRIVER, POOL)) == {}


def test_share_by_admin_access_occupies_nothing() -> None:
    by_admin = a_result("gpu-0", share_id="a", admin_access=True)
    assert Usage().plus([an_allocated_claim(by_admin)]).allocated_in(PoolID(DRIVER, POOL)) == set()


def test_next_usage_adds_to_the_one_before() -> None:
    before = Usage().plus([an_allocated_claim("gpu-0", name="first")])
    after = before.plus([an_allocated_claim("gpu-1", name="second")])
    assert after.holder(GPU) == "default/first"
    assert after.holder(DeviceID(DRIVER, POOL, "gpu-1")) == "default/second"


def test_next_usage_leaves_the_one_before_as_it_was() -> None:
    before = Usage().plus([an_allocated_claim("gpu-0")])
    before.plus([an_allocated_claim("gpu-1")])
    assert before == Usage().plus([an_allocated_claim("gpu-0")])


def test_next_usage_shares_the_pools_that_did_not_change() -> None:
    other = a_result("x", pool="other")
    before = Usage().plus([an_allocated_claim("gpu-0", other)])
    after = before.plus([an_allocated_claim("gpu-1")])
    assert after.holders[PoolID(DRIVER, "other")] is before.holders[PoolID(DRIVER, "other")]


def test_usage_is_the_same_at_once_or_one_after_the_other() -> None:
    claims = [an_allocated_claim(f"gpu-{n}", name=f"claim-{n}") for n in range(3)]
    assert Usage().plus(claims[:1]).plus(claims[1:]) == Usage().plus(claims)


def test_giving_back_takes_a_usage_to_what_it_was_before() -> None:
    first = an_allocated_claim("gpu-0", a_share("gpu-1", "a", memory="1Gi"), name="first")
    second = an_allocated_claim("gpu-2", a_share("gpu-1", "b", memory="2Gi", slots="1"), name="second")
    before = Usage().plus([first])
    assert without(before.plus([second]), second) == before
    assert without(before.plus([second]), first) == Usage().plus([second])
    assert without(before, first) == Usage()


def test_claims_that_hold_the_same_are_given_back_one_by_one() -> None:
    both = [an_allocated_claim("gpu-0", a_share("gpu-1", "a", memory="1"), name=name) for name in ("b", "a")]
    usage = Usage().plus(both)
    assert usage.holder(GPU) == "default/a"
    assert usage.users(GPU) == {"default/a", "default/b"}
    assert without(usage, both[0]) == Usage().plus(both[1:])


def test_share_that_was_never_taken_cannot_be_given_back() -> None:
    usage = Usage().plus([an_allocated_claim(a_share(share_id="a", memory="1"), name="first")])
    with pytest.raises(ValueError, match="default/second"):
        usage.remove([an_allocated_claim(a_share(share_id="a", memory="1"), name="second")])


def test_removing_what_is_not_held_changes_nothing() -> None:
    held, never_taken = an_allocated_claim("gpu-0", name="held"), an_allocated_claim("gpu-1", name="never-taken")
    usage = Usage().plus([held])
    with pytest.raises(ValueError, match="default/never-taken"):
        usage.remove([held, never_taken])
    assert usage == Usage().plus([held])


def test_copy_stays_as_it_is() -> None:
    first, second = an_allocated_claim("gpu-0"), an_allocated_claim(a_share("gpu-1", "a", memory="1"), name="second")
    usage = Usage().plus([first])
    copied = usage.copy()
    usage.add([second])
    usage.remove([first])
    assert copied == Usage().plus([first])


def test_device_in_use_is_skipped() -> None:
    snapshot = a_snapshot(a_slice("gpu-0", "gpu-1"), held=[an_allocated_claim("gpu-0")])
    assert names(decide(snapshot, a_claim())) == ["gpu-1"]


def test_device_in_use_on_another_node_of_the_pool_is_not_confused_with_one_of_its_name() -> None:
    snapshot = a_snapshot(a_slice("gpu-0"), held=[an_allocated_claim(a_result("gpu-0", pool="other"))])
    assert names(decide(snapshot, a_claim())) == ["gpu-0"]


def test_device_that_is_gone_but_still_allocated_counts_for_nothing() -> None:
    snapshot = a_snapshot(a_slice("gpu-0"), held=[an_allocated_claim("gone", a_result("x", pool="gone"))])
    assert names(decide(snapshot, a_claim())) == ["gpu-0"]


def test_device_held_by_admin_access_is_given() -> None:
    held = [an_allocated_claim(a_result("gpu-0", admin_access=True))]
    assert names(decide(a_snapshot(a_slice("gpu-0"), held=held), a_claim())) == ["gpu-0"]


def test_refusal_names_the_devices_in_use() -> None:
    snapshot = a_snapshot(a_slice(*devices(3)), held=[an_allocated_claim("gpu-000", "gpu-002")])
    outcome = decide(snapshot.with_allocated([an_allocated_claim("gpu-001", name="second")]), a_claim())
    assert funnel(shortage(outcome)) == [("are in use", ["gpu-000", "gpu-001", "gpu-002"])]


def test_all_fails_while_one_of_the_devices_is_in_use() -> None:
    snapshot = a_snapshot(a_slice(*devices(3)), held=[an_allocated_claim("gpu-001")])
    assert funnel(blocked(decide(snapshot, a_claim(all_devices())))) == [("are in use", ["gpu-001"])]
