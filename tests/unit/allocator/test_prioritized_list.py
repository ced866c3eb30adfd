import pytest

from allocator.outcome import InvalidClaim
from tests.builders import (
    a_claim,
    a_class,
    a_device,
    a_request,
    a_slice,
    a_snapshot,
    an_allocated_claim,
    an_alternative,
    devices,
    first_available,
    kubernetes,
)
from tests.unit.allocator.answers import allocations, by_request, conflict, decide, shortage

BIG = 'device.attributes["gpu.example"].big'


def test_first_alternative_that_can_be_had_is_taken() -> None:
    request = first_available("r", an_alternative("two", count=2), an_alternative("one"))
    assert by_request(decide(a_snapshot(a_slice(*devices(2))), a_claim(request))) == {"r/two": ["gpu-000", "gpu-001"]}
    assert by_request(decide(a_snapshot(a_slice(*devices(1))), a_claim(request))) == {"r/one": ["gpu-000"]}


def test_request_none_of_whose_alternatives_can_be_had_is_refused() -> None:
    request = first_available("r", an_alternative("three", count=3), an_alternative("two", count=2))
    assert shortage(decide(a_snapshot(a_slice("x")), a_claim(request))).request == "r/three"


def test_alternatives_have_classes_and_selectors_of_their_own() -> None:
    members = a_device("small", {"big": False}), a_device("big", {"big": True})
    classes = [a_class("large", BIG), a_class("none", "false"), a_class()]
    request = first_available(
        "r",
        an_alternative("none", "none"),
        an_alternative("all", selectors=("false",)),
        an_alternative("large", "large"),
    )
    assert by_request(decide(a_snapshot(a_slice(*members), classes=classes), a_claim(request))) == {"r/large": ["big"]}


def test_later_alternative_is_taken_where_a_later_request_needs_the_device() -> None:
    members = a_device("big", {"big": True}), a_device("small", {"big": False})
    request = first_available(
        "r", an_alternative("large", selectors=(BIG,)), an_alternative("any", selectors=(f"!{BIG}",))
    )
    claim = a_claim(request, a_request("needy", 1, BIG))
    assert by_request(decide(a_snapshot(a_slice(*members)), claim)) == {"r/any": ["small"], "needy": ["big"]}


def test_later_alternative_is_taken_where_a_later_claim_needs_the_device() -> None:
    request = first_available("r", an_alternative("two", count=2), an_alternative("one"))
    outcome = decide(a_snapshot(a_slice(*devices(2))), a_claim(request, name="a"), a_claim(name="b"))
    first, second = allocations(outcome)
    assert [result.request for result in first.results] == ["r/one"]
    assert [result.device for result in second.results] == ["gpu-001"]


def test_preference_of_an_earlier_request_goes_before_that_of_a_later_one() -> None:
    requests = [first_available(r, an_alternative("two", count=2), an_alternative("one")) for r in ("a", "b")]
    given = by_request(decide(a_snapshot(a_slice(*devices(3))), a_claim(*requests)))
    assert {name: len(found) for name, found in given.items()} == {"a/two": 2, "b/one": 1}


def test_better_devices_of_an_earlier_request_go_before_a_better_alternative_of_a_later_one() -> None:
    members = a_device("big", {"big": True}), a_device("small", {"big": False})
    request = first_available("r", an_alternative("large", selectors=(BIG,)), an_alternative("any"))
    claim = a_claim(a_request("first"), request)
    assert by_request(decide(a_snapshot(a_slice(*members)), claim)) == {"first": ["big"], "r/any": ["small"]}


def test_all_over_nothing_turns_to_the_next_alternative() -> None:
    request = first_available("r", an_alternative("all", mode="All", selectors=("false",)), an_alternative("one"))
    assert by_request(decide(a_snapshot(a_slice("x")), a_claim(request))) == {"r/one": ["x"]}


def test_all_with_a_device_in_use_turns_to_the_next_alternative() -> None:
    request = first_available("r", an_alternative("all", mode="All"), an_alternative("one"))
    snapshot = a_snapshot(a_slice("x", "y"), held=[an_allocated_claim("x")])
    assert by_request(decide(snapshot, a_claim(request))) == {"r/one": ["y"]}


def test_all_as_an_alternative_takes_everything() -> None:
    request = first_available("r", an_alternative("all", mode="All"), an_alternative("one"))
    assert by_request(decide(a_snapshot(a_slice("x", "y")), a_claim(request))) == {"r/all": ["x", "y"]}


def test_smallest_alternative_counts_for_the_limit() -> None:
    many = first_available("many", an_alternative("40", count=40), an_alternative("30", count=30))
    snapshot = a_snapshot(a_slice(*devices(64)))
    given = by_request(decide(snapshot, a_claim(many, a_request("two", 2))))
    assert {name: len(found) for name, found in given.items()} == {"many/30": 30, "two": 2}
    with pytest.raises(InvalidClaim, match=r"request three: its 3 devices with the 30 of the requests before"):
        decide(snapshot, a_claim(many, a_request("three", 3)))


def test_alternatives_that_exceed_the_limit_together_give_way() -> None:
    requests = [first_available(r, an_alternative("20", count=20), an_alternative("10", count=10)) for r in ("a", "b")]
    given = by_request(decide(a_snapshot(a_slice(*devices(64))), a_claim(*requests)))
    assert {name: len(found) for name, found in given.items()} == {"a/20": 20, "b/10": 10}


def test_device_that_cannot_be_judged_is_not_met_where_the_limit_sends_back_to_an_alternative_before() -> None:
    members = [a_device(f"d{n:02}", {"big": True} if n != 21 else {}) for n in range(40)]
    snapshot = a_snapshot(a_slice(*members), features=kubernetes(is_strict=True))
    requests = (
        first_available("a", an_alternative("20", count=20), an_alternative("2", count=2)),
        a_request("b", 1, BIG),
        a_request("c", 18),
    )
    given = by_request(decide(snapshot, a_claim(*requests)))
    assert {name: len(found) for name, found in given.items()} == {"a/2": 2, "b": 1, "c": 18}


def test_alternatives_too_many_for_the_devices_are_a_conflict() -> None:
    requests = [first_available(r, an_alternative("two", count=2), an_alternative("one")) for r in ("a", "b")]
    assert conflict(decide(a_snapshot(a_slice("x")), a_claim(*requests)))


def test_fault_of_any_alternative_ends_the_attempt() -> None:
    request = first_available("r", an_alternative("one"), an_alternative("odd", "missing"))
    with pytest.raises(InvalidClaim, match=r"request r/odd: device class missing does not exist"):
        decide(a_snapshot(a_slice("x")), a_claim(request))


def test_failing_selector_of_a_later_alternative_stays_hidden_where_an_earlier_one_is_had() -> None:
    request = first_available("r", an_alternative("one"), an_alternative("odd", selectors=("device.noSuchField",)))
    assert by_request(decide(a_snapshot(a_slice("x")), a_claim(request))) == {"r/one": ["x"]}
    first = an_alternative("none", selectors=("false",))
    broken = an_alternative("odd", selectors=("device.noSuchField",))
    with pytest.raises(InvalidClaim, match=r"request r/odd: selector #0.*CEL compile error"):
        decide(a_snapshot(a_slice("x")), a_claim(first_available("r", first, broken)))


def test_first_available_is_refused_without_its_gate() -> None:
    snapshot = a_snapshot(a_slice("x"), features=kubernetes(DRAPrioritizedList=False))
    with pytest.raises(InvalidClaim, match=r"request r: firstAvailable is set, but DRAPrioritizedList is off"):
        decide(snapshot, a_claim(first_available("r", an_alternative("one"))))
