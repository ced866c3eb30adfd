import pytest

from allocator.cluster.snapshot import Snapshot
from allocator.gates import Features
from allocator.model import Claim, Request, Slice, Taint
from allocator.outcome import InvalidClaim
from tests.builders import (
    DRIVER,
    a_claim,
    a_device,
    a_request,
    a_result,
    a_slice,
    a_snapshot,
    an_allocated_claim,
    an_alternative,
    kubernetes,
    match,
)
from tests.unit.allocator.answers import blocked, conflict, decide, names, results, shortage, unmet

STRICT = kubernetes(is_strict=True)


def as_admin(name: str = "admin", count: int = 1, *selectors: str) -> Request:
    return a_request(name, count, *selectors, admin_access=True)


def an_admin_claim(name: str = "admin", count: int = 1) -> Claim:
    return a_claim(as_admin(count=count), name=name)


def held(*slices: Slice, features: Features | None = None) -> Snapshot:
    return a_snapshot(*slices, held=[an_allocated_claim("x")], features=features or kubernetes())


def test_device_in_use_is_given_and_marked() -> None:
    (result,) = results(decide(held(a_slice("x")), an_admin_claim()))
    assert (result.device, result.admin_access) == ("x", True)


def test_first_device_is_given_whether_or_not_it_is_in_use() -> None:
    assert names(decide(held(a_slice("x", "y")), an_admin_claim())) == ["x"]


def test_all_is_given_though_a_device_is_in_use() -> None:
    claim = a_claim(Request("all", (an_alternative("all", mode="All", admin_access=True),)))
    assert names(decide(held(a_slice("x", "y")), claim)) == ["x", "y"]


def test_false_asks_for_no_admin_access() -> None:
    claim = a_claim(a_request(admin_access=False))
    assert shortage(decide(held(a_slice("x")), claim)).left == 0
    (result,) = results(decide(a_snapshot(a_slice("x")), claim))
    assert result.admin_access is False


def test_device_is_given_once_to_a_claim() -> None:
    assert conflict(decide(held(a_slice("x")), a_claim(as_admin("a"), as_admin("b"))))
    assert names(decide(held(a_slice("x", "y")), a_claim(as_admin("a"), as_admin("b")))) == ["x", "y"]
    assert shortage(decide(held(a_slice("x")), an_admin_claim(count=2)))


def test_requests_of_one_claim_with_and_without_admin_access_get_different_devices() -> None:
    for requests in ([as_admin(), a_request("plain")], [a_request("plain"), as_admin()]):
        assert names(decide(a_snapshot(a_slice("x", "y")), a_claim(*requests))) == ["x", "y"]
        assert conflict(decide(a_snapshot(a_slice("x")), a_claim(*requests)))


def test_two_admin_claims_share_a_device() -> None:
    assert names(decide(a_snapshot(a_slice("x", "y")), an_admin_claim("a"), an_admin_claim("b"))) == ["x", "x"]


def test_admin_claim_shares_the_device_of_an_earlier_claim() -> None:
    for features in (kubernetes(), STRICT):
        snapshot = a_snapshot(a_slice("x"), features=features)
        assert names(decide(snapshot, a_claim(name="plain"), an_admin_claim())) == ["x", "x"]


def test_admin_pick_blocks_a_later_claim_only_where_strict() -> None:
    claims = an_admin_claim(), a_claim(name="plain")
    assert names(decide(a_snapshot(a_slice("x")), *claims)) == ["x", "x"]
    assert conflict(decide(a_snapshot(a_slice("x"), features=STRICT), *claims))
    assert names(decide(a_snapshot(a_slice("x", "y"), features=STRICT), *claims)) == ["x", "y"]


def test_admin_pick_that_is_given_back_blocks_nobody_where_strict() -> None:
    members = [a_device("x", {"ok": True}), a_device("y", {"ok": False})]
    ok = f'device.attributes["{DRIVER}"].ok'
    claims = an_admin_claim(), a_claim(a_request("r", 1, ok), name="plain")
    assert names(decide(a_snapshot(a_slice(*members), features=STRICT), *claims)) == ["y", "x"]


def test_three_claims_in_turn() -> None:
    claims = a_claim(name="a"), an_admin_claim("b", 2), a_claim(name="c")
    assert names(decide(a_snapshot(a_slice("x", "y")), *claims)) == ["x", "x", "y", "y"]
    assert conflict(decide(a_snapshot(a_slice("x", "y"), features=STRICT), *claims))


def test_what_admin_access_holds_is_free() -> None:
    by_admin = an_allocated_claim(a_result("x", admin_access=True))
    assert names(decide(a_snapshot(a_slice("x"), held=[by_admin]), a_claim())) == ["x"]


def test_selectors_hold_for_admin_access() -> None:
    assert shortage(decide(a_snapshot(a_slice("x")), a_claim(as_admin("r", 1, "false")))).left == 0


def test_taints_hold_for_admin_access() -> None:
    tainted = a_device("x", taints=(Taint("k", effect="NoSchedule"),))
    assert shortage(decide(a_snapshot(a_slice(tainted)), an_admin_claim())).left == 0
    claim = a_claim(Request("all", (an_alternative("all", mode="All", admin_access=True),)))
    assert blocked(decide(a_snapshot(a_slice(tainted)), claim)).total == 1


def test_constraints_hold_for_admin_access() -> None:
    members = [a_device(f"d{n}", {"numa": n}) for n in range(2)]
    claim = a_claim(as_admin(count=2), constraints=[match(f"{DRIVER}/numa")])
    assert unmet(decide(a_snapshot(a_slice(*members)), claim)).best == 1


def test_failing_selector_on_a_device_in_use_ends_an_admin_attempt() -> None:
    claim = a_claim(as_admin("r", 1, f'device.attributes["{DRIVER}"].ok'))
    with pytest.raises(InvalidClaim, match="no such key: ok"):
        decide(held(a_slice("x")), claim)


@pytest.mark.parametrize("value", [True, False])
def test_field_is_refused_without_the_gate_whatever_it_says(value: object) -> None:
    snapshot = a_snapshot(a_slice("x"), features=kubernetes(DRAAdminAccess=False))
    with pytest.raises(InvalidClaim, match=r"request gpus: adminAccess is set, but DRAAdminAccess is off"):
        decide(snapshot, a_claim(a_request(admin_access=value)))
