import pytest

from allocator.cluster.snapshot import Snapshot
from allocator.model import Claim, Constraint, Device, Request
from allocator.outcome import InvalidClaim
from tests.builders import (
    DRIVER,
    a_claim,
    a_device,
    a_request,
    a_slice,
    a_snapshot,
    an_allocated_claim,
    an_alternative,
    distinct,
    first_available,
    kubernetes,
    match,
)
from tests.unit.allocator.answers import by_request, decide, names, shortage, unmet

ON = kubernetes(DRADerivedAttributes=True)
NODE = "derived.example/node"
BY_NUMA = ((NODE, f'device.attributes["{DRIVER}"].numa / 2'),)


def numbered(*numas: int) -> list[Device]:
    return [a_device(f"d{n}", {"numa": numa}) for n, numa in enumerate(numas)]


def cluster(*members: Device) -> Snapshot:
    return a_snapshot(a_slice(*members), features=ON)


def a_pair(*constraints: Constraint, derived: tuple[tuple[str, str], ...] = BY_NUMA) -> Claim:
    return a_claim(a_request(count=2, derived_attributes=derived), constraints=constraints)


def test_constraint_compares_what_the_expression_gives() -> None:
    assert names(decide(cluster(*numbered(0, 2, 1)), a_pair(match(NODE)))) == ["d0", "d2"]
    assert names(decide(cluster(*numbered(0, 1, 2)), a_pair(distinct(NODE)))) == ["d0", "d2"]


def test_devices_of_two_drivers_are_compared_by_what_each_request_derives() -> None:
    gpus = a_slice(a_device("g0", {"numa": 0}), a_device("g1", {"numa": 1}))
    nics = a_slice(a_device("n0", {"socket": "one"}), driver="nic.example")
    of_gpu = ((NODE, f'device.attributes["{DRIVER}"].numa'),)
    of_nic = ((NODE, 'device.attributes["nic.example"].socket == "one" ? 1 : 0'),)
    claim = a_claim(
        a_request("gpu", 1, f'device.driver == "{DRIVER}"', derived_attributes=of_gpu),
        a_request("nic", 1, 'device.driver == "nic.example"', derived_attributes=of_nic),
        constraints=[match(NODE)],
    )
    assert by_request(decide(a_snapshot(gpus, nics, features=ON), claim)) == {"gpu": ["g1"], "nic": ["n0"]}


def test_derived_attribute_goes_before_the_published_one_of_its_name() -> None:
    members = [a_device(f"d{n}", {NODE: n, "numa": 0}) for n in range(2)]
    assert names(decide(cluster(*members), a_pair(match(NODE)))) == ["d0", "d1"]
    assert unmet(decide(cluster(*members), a_pair(match(NODE), derived=()))).best == 1


def test_derived_attribute_is_of_its_request_only() -> None:
    members = [a_device(f"d{n}", {NODE: 7, "numa": 0}) for n in range(2)]
    same, other = (
        a_claim(a_request("a", derived_attributes=((NODE, value),)), a_request("b"), constraints=[match(NODE)])
        for value in ("7", "8")
    )
    assert names(decide(cluster(*members), same)) == ["d0", "d1"]
    assert unmet(decide(cluster(*members), other)).wanted == 2


def test_values_of_different_kinds_do_not_match() -> None:
    claim = a_claim(
        a_request("int", derived_attributes=((NODE, "1"),)),
        a_request("string", derived_attributes=((NODE, '"1"'),)),
        constraints=[match(NODE)],
    )
    assert unmet(decide(cluster(*numbered(0, 0)), claim)).wanted == 2


def test_derived_list_is_compared_as_a_list() -> None:
    lists = kubernetes(DRADerivedAttributes=True, DRAListTypeAttributes=True)
    claim = a_claim(
        a_request("a", derived_attributes=((NODE, "[1, 2]"),)),
        a_request("b", derived_attributes=((NODE, "[2, 3]"),)),
        constraints=[match(NODE)],
    )
    assert names(decide(a_snapshot(a_slice("x", "y"), features=lists), claim)) == ["x", "y"]


def test_failing_expression_ends_the_attempt_where_its_device_is_met() -> None:
    members = [*numbered(0), a_device("odd"), a_device("fine", {"numa": 1})]
    words = r"request gpus: derived attribute derived.example/node on device gpu.example/pool-0/odd: CEL runtime error"
    with pytest.raises(InvalidClaim, match=words):
        decide(cluster(*members), a_pair(match(NODE)))


def test_failing_expression_on_a_device_behind_those_that_are_taken_stays_hidden() -> None:
    assert names(decide(cluster(*numbered(0, 1), a_device("odd")), a_pair(match(NODE)))) == ["d0", "d1"]


def test_failing_expression_on_a_device_in_use_stays_hidden() -> None:
    snapshot = cluster(a_device("odd"), *numbered(0, 1)).with_allocated([an_allocated_claim("odd")])
    assert names(decide(snapshot, a_pair(match(NODE)))) == ["d0", "d1"]


def test_expression_that_no_constraint_asks_for_is_not_worked_out() -> None:
    broken = ((NODE, "device.noSuchField"),)
    assert names(decide(cluster(*numbered(0, 1)), a_pair(derived=broken))) == ["d0", "d1"]
    with pytest.raises(InvalidClaim, match="CEL compile error"):
        decide(cluster(*numbered(0, 1)), a_pair(match(NODE), derived=broken))


def test_all_is_held_to_derived_attributes() -> None:
    request = Request("gpus", (an_alternative("gpus", mode="All", derived_attributes=BY_NUMA),))
    claim = a_claim(request, constraints=[match(NODE)])
    assert names(decide(cluster(*numbered(0, 1)), claim)) == ["d0", "d1"]
    assert unmet(decide(cluster(*numbered(0, 2)), claim)).best == 1


def test_alternatives_derive_each_their_own() -> None:
    request = first_available(
        "r",
        an_alternative("same", count=2, derived_attributes=((NODE, f'device.attributes["{DRIVER}"].numa'),)),
        an_alternative("half", count=2, derived_attributes=BY_NUMA),
    )
    claim = a_claim(request, constraints=[match(NODE)])
    assert by_request(decide(cluster(*numbered(0, 1)), claim)) == {"r/half": ["d0", "d1"]}
    assert by_request(decide(cluster(*numbered(0, 0)), claim)) == {"r/same": ["d0", "d1"]}


def test_selectors_do_not_see_derived_attributes() -> None:
    claim = a_claim(a_request("r", 1, '"node" in device.attributes["derived.example"]', derived_attributes=BY_NUMA))
    assert shortage(decide(cluster(*numbered(0)), claim)).left == 0


def test_empty_expression_is_an_error_and_no_published_attribute() -> None:
    claim = a_claim(a_request(derived_attributes=((f"{DRIVER}/numa", ""),)), constraints=[match(f"{DRIVER}/numa")])
    with pytest.raises(InvalidClaim, match=f"derived attribute {DRIVER}/numa"):
        decide(cluster(*numbered(0)), claim)


def test_derived_attributes_are_refused_without_the_gate() -> None:
    with pytest.raises(InvalidClaim, match=r"request gpus: derivedAttributes are set, but DRADerivedAttributes is off"):
        decide(a_snapshot(a_slice(*numbered(0, 1))), a_pair(match(NODE)))
