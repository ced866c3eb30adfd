from itertools import permutations

import pytest

from allocator.explain.text import inner_cause, node_text
from allocator.model import Claim, Constraint, Request, Slice
from allocator.outcome import InvalidClaim, InvalidPool, PoolNotWhole, Refused
from tests.builders import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_request,
    a_slice,
    a_snapshot,
    all_devices,
    an_allocated_claim,
    an_alternative,
    devices,
    everywhere,
    kubernetes,
    on_node,
)
from tests.unit.allocator.answers import (
    allocations,
    blocked,
    by_request,
    conflict,
    decide,
    funnel,
    names,
    refusal,
    shortage,
)

BIG = 'device.attributes["gpu.example"].big'
SMALL = f"!{BIG}"


# -- ExactCount


def test_first_devices_are_given() -> None:
    assert names(decide(a_snapshot(a_slice("c", "a", "b")), a_claim(a_request(count=2)))) == ["c", "a"]


def test_devices_of_a_request_are_distinct() -> None:
    assert shortage(decide(a_snapshot(a_slice("x")), a_claim(a_request(count=2)))).left == 1


def test_devices_of_two_requests_are_distinct() -> None:
    claim = a_claim(a_request("a"), a_request("b"))
    assert by_request(decide(a_snapshot(a_slice("x", "y")), claim)) == {"a": ["x"], "b": ["y"]}
    assert conflict(decide(a_snapshot(a_slice("x")), claim)).claims == ("default/claim",)


def test_devices_of_two_claims_are_distinct() -> None:
    claims = a_claim(name="a"), a_claim(name="b")
    outcome = decide(a_snapshot(a_slice("x", "y")), *claims)
    assert [[result.device for result in allocation.results] for allocation in allocations(outcome)] == [["x"], ["y"]]
    assert conflict(decide(a_snapshot(a_slice("x")), *claims)).claims == ("default/a", "default/b")


def test_claim_that_cannot_be_had_takes_the_others_with_it() -> None:
    claims = a_claim(name="a"), a_claim(a_request(count=9), name="b")
    assert shortage(decide(a_snapshot(a_slice("x", "y")), *claims)).claim == "default/b"


def test_earlier_request_gives_way_to_a_later_one_that_has_no_choice() -> None:
    members = a_device("big", {"big": True}), a_device("small", {"big": False})
    for names_in_order in permutations(members):
        claim = a_claim(a_request("any"), a_request("large", 1, BIG))
        assert by_request(decide(a_snapshot(a_slice(*names_in_order)), claim)) == {"any": ["small"], "large": ["big"]}


def test_earlier_claim_gives_way_to_a_later_one_that_has_no_choice() -> None:
    members = a_device("big", {"big": True}), a_device("small", {"big": False})
    claims = a_claim(name="any"), a_claim(a_request("large", 1, BIG), name="large")
    assert names(decide(a_snapshot(a_slice(*members)), *claims)) == ["small", "big"]


def test_earlier_request_gives_way_no_further_than_it_has_to() -> None:
    members = [a_device(f"d{n}", {"big": n in (0, 1, 3)}) for n in range(5)]
    claim = a_claim(a_request("any", 2), a_request("large", 2, BIG))
    assert by_request(decide(a_snapshot(a_slice(*members)), claim)) == {"any": ["d0", "d2"], "large": ["d1", "d3"]}


def test_devices_of_a_request_may_come_from_several_pools() -> None:
    slices = a_slice("x", pool="a"), a_slice("y", pool="b"), a_slice("z", pool="c")
    assert names(decide(a_snapshot(*slices), a_claim(a_request(count=3)))) == ["x", "y", "z"]


def test_claim_without_requests_gets_nothing() -> None:
    outcome = decide(a_snapshot(a_slice("x")), Claim("default", "claim", "uid"))
    assert allocations(outcome)[0].results == ()
    assert allocations(outcome)[0].node_selector is None


def test_no_claims_get_no_allocations() -> None:
    assert allocations(decide(a_snapshot(a_slice("x")))) == ()


def test_node_without_devices_refuses() -> None:
    assert shortage(decide(a_snapshot(), a_claim())).total == 0


# -- All


def test_all_takes_every_device_that_is_meant() -> None:
    members = [a_device(f"d{n}", {"big": n % 2 == 0}) for n in range(5)]
    assert names(decide(a_snapshot(a_slice(*members)), a_claim(all_devices("r", BIG)))) == ["d0", "d2", "d4"]


def test_all_goes_over_pools() -> None:
    slices = a_slice("x", pool="b"), a_slice("y", pool="a"), a_slice("z", driver="a.example")
    assert names(decide(a_snapshot(*slices), a_claim(all_devices()))) == ["z", "y", "x"]


def test_all_over_nothing_is_a_plain_refusal() -> None:
    members = [a_device("small", {"big": False})]
    assert shortage(decide(a_snapshot(a_slice(*members)), a_claim(all_devices("r", BIG)))).wanted == 1
    assert shortage(decide(a_snapshot(), a_claim(all_devices()))).wanted == 1


def test_all_fails_where_an_earlier_request_has_one_of_the_devices() -> None:
    claim = a_claim(a_request("one"), all_devices("all"))
    assert conflict(decide(a_snapshot(a_slice("x", "y")), claim))


def test_all_leaves_nothing_for_a_later_request() -> None:
    members = a_device("a", {"big": True}), a_device("b", {"big": False})
    snapshot = a_snapshot(a_slice(*members))
    claim = a_claim(all_devices("all", BIG), a_request("one"))
    assert by_request(decide(snapshot, claim)) == {"all": ["a"], "one": ["b"]}
    assert conflict(decide(snapshot, a_claim(all_devices("all"), a_request("one"))))


def test_earlier_request_gives_way_to_all() -> None:
    members = a_device("a", {"big": True}), a_device("b", {"big": False})
    claim = a_claim(a_request("one"), all_devices("all", BIG))
    assert by_request(decide(a_snapshot(a_slice(*members)), claim)) == {"one": ["b"], "all": ["a"]}


def test_all_fails_while_any_of_its_devices_is_held() -> None:
    snapshot = a_snapshot(a_slice(*devices(3)), held=[an_allocated_claim("gpu-001")])
    found = blocked(decide(snapshot, a_claim(all_devices())))
    assert (found.total, funnel(found)) == (3, [("are in use", ["gpu-001"])])


@pytest.mark.parametrize(
    "bad", [a_slice("x", "x", pool="bad"), a_slice("x", driver="bad.example", pool="bad", slice_count=2)]
)
def test_all_beside_a_pool_that_cannot_be_trusted_ends_the_attempt(bad: Slice) -> None:
    snapshot = a_snapshot(a_slice("y"), bad)
    with pytest.raises(InvalidPool, match=r"^claim default/claim, request gpus: asks for all devices, but .*/bad is"):
        decide(snapshot, a_claim(all_devices()))
    assert names(decide(snapshot, a_claim())) == ["y"]


@pytest.mark.parametrize(
    "bad", [a_slice("x", "x", pool="bad"), a_slice("x", driver="bad.example", pool="bad", slice_count=2)]
)
def test_all_beside_such_a_pool_refuses_the_node_since_1_38(bad: Slice) -> None:
    snapshot = a_snapshot(a_slice("y"), bad, features=kubernetes("1.38"))
    found = decide(snapshot, a_claim(all_devices()))
    assert isinstance(found, Refused)
    assert inner_cause(found) == PoolNotWhole("default/claim", "gpus")
    assert node_text(found, reader="").startswith("request gpus needs all devices, and a pool is being updated or inv")
    assert names(decide(snapshot, a_claim())) == ["y"]


def test_all_beside_an_incomplete_pool_says_how_it_is() -> None:
    with pytest.raises(InvalidPool, match=r"being updated \(1 of 2 slices of generation 1 exist\)"):
        decide(a_snapshot(a_slice("x", slice_count=2)), a_claim(all_devices()))


def test_all_beside_an_invalid_pool_says_what_is_wrong() -> None:
    with pytest.raises(InvalidPool, match=r"is invalid: device name x is published more than once"):
        decide(a_snapshot(a_slice("x", "x")), a_claim(all_devices()))


def test_pool_of_another_node_does_not_trouble_all() -> None:
    away = a_slice("x", pool="away", slice_count=2, reach=on_node("node-1"))
    assert names(decide(a_snapshot(a_slice("y"), away), a_claim(all_devices()))) == ["y"]


# -- limits


def test_32_devices_are_given_to_a_claim() -> None:
    snapshot = a_snapshot(a_slice(*devices(40)))
    assert len(names(decide(snapshot, a_claim(a_request("a", 16), a_request("b", 16))))) == 32
    assert len(names(decide(a_snapshot(a_slice(*devices(32))), a_claim(all_devices())))) == 32


def test_more_than_32_devices_end_the_attempt_naming_the_request_that_is_too_much() -> None:
    words = r"^claim default/claim, request b: its 20 devices with the 20 of the requests before exceed the limit of 32"
    with pytest.raises(InvalidClaim, match=words):
        decide(a_snapshot(), a_claim(a_request("a", 20), a_request("b", 20)))


def test_limit_holds_for_all() -> None:
    with pytest.raises(InvalidClaim, match=r"request gpus: its 33 devices with the 0"):
        decide(a_snapshot(a_slice(*devices(33))), a_claim(all_devices()))
    with pytest.raises(InvalidClaim, match=r"request all: its 32 devices with the 1"):
        decide(a_snapshot(a_slice(*devices(32))), a_claim(a_request("one"), all_devices("all")))


def test_limit_is_of_each_claim() -> None:
    claims = [a_claim(a_request(count=20), name=name) for name in "ab"]
    assert len(names(decide(a_snapshot(a_slice(*devices(40))), *claims))) == 40


def test_all_over_nothing_adds_nothing_to_the_limit() -> None:
    claim = a_claim(a_request("a", 32), all_devices("none", "false"))
    assert shortage(decide(a_snapshot(a_slice(*devices(40))), claim)).request == "none"


def test_enormous_counts_do_not_overflow() -> None:
    for counts in ((2**63 - 1,), (1, 2**63 - 1), (2**62, 2**62)):
        claim = a_claim(*(a_request(f"r{n}", count) for n, count in enumerate(counts)))
        with pytest.raises(InvalidClaim, match="exceed the limit of 32"):
            decide(a_snapshot(a_slice("x")), claim)


# -- what cannot be decided


def test_class_that_does_not_exist_ends_the_attempt() -> None:
    with pytest.raises(InvalidClaim, match=r"^claim default/claim, request r: device class nix does not exist$"):
        decide(a_snapshot(), a_claim(a_request("r", class_name="nix")))


def test_request_without_a_class_ends_the_attempt() -> None:
    with pytest.raises(InvalidClaim, match=r"request r: no device class is named"):
        decide(a_snapshot(), a_claim(a_request("r", class_name="")))


def test_unknown_mode_ends_the_attempt() -> None:
    with pytest.raises(InvalidClaim, match=r"request r: unknown allocationMode 'Some'"):
        decide(a_snapshot(), a_claim(a_request("r", mode="Some")))


def test_selector_of_an_unknown_kind_ends_the_attempt() -> None:
    with pytest.raises(InvalidClaim, match=r"request r, selector #1: no CEL expression"):
        decide(a_snapshot(), a_claim(a_request("r", 1, "true", None)))
    with pytest.raises(InvalidClaim, match=r"class gpu, selector #0: no CEL expression"):
        decide(a_snapshot(classes=[a_class("gpu", None)]), a_claim())


def test_request_that_asks_for_nothing_ends_the_attempt() -> None:
    with pytest.raises(InvalidClaim, match=r"request r: neither exactly nor firstAvailable is set"):
        decide(a_snapshot(), a_claim(Request("r", ())))


def test_first_fault_in_order_of_claims_and_requests_is_reported() -> None:
    missing, broken = a_request("missing", class_name="nix"), a_request("broken", mode="Some")
    for first, second, words in ((missing, broken, "nix"), (broken, missing, "Some")):
        with pytest.raises(InvalidClaim, match=words):
            decide(a_snapshot(), a_claim(first, second))
        with pytest.raises(InvalidClaim, match=words):
            decide(a_snapshot(), a_claim(first, name="a"), a_claim(second, name="b"))


def test_fault_of_a_later_claim_ends_an_attempt_that_has_too_few_devices_anyway() -> None:
    with pytest.raises(InvalidClaim, match="nix"):
        decide(a_snapshot(), a_claim(name="a"), a_claim(a_request(class_name="nix"), name="b"))


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (a_claim(unknown_fields=("spec.quantum",)), r"claim default/claim.*spec.quantum"),
        (a_claim(Request("r", (an_alternative("r"),), unknown_fields=("quantum",))), "request r.*quantum"),
        (a_claim(a_request("r", unknown_fields=("quantum",))), "request r.*quantum"),
        (a_claim(constraints=[Constraint(match_attribute=f"{DRIVER}/a", unknown_fields=("q",))]), "constraint #0.*q"),
    ],
)
def test_unknown_field_of_a_claim_ends_the_attempt(claim: Claim, words: str) -> None:
    with pytest.raises(InvalidClaim, match=words):
        decide(a_snapshot(a_slice(a_device("x", {"a": 1}))), claim)


def test_unknown_field_of_a_class_ends_the_attempt() -> None:
    with pytest.raises(InvalidClaim, match=r"device class gpu has unknown fields: spec.quantum"):
        decide(a_snapshot(classes=[a_class(unknown_fields=("spec.quantum",))]), a_claim())


def test_device_with_an_unknown_field_is_not_used() -> None:
    snapshot = a_snapshot(a_slice(a_device("odd", unknown_fields=("quantum",)), "x"))
    assert names(decide(snapshot, a_claim())) == ["x"]
    found = shortage(decide(snapshot, a_claim(a_request(count=2))))
    assert funnel(found) == [("have unknown fields", ["odd"])]


def test_devices_of_a_slice_with_an_unknown_field_are_not_used() -> None:
    slices = a_slice("odd", pool="a", unknown_fields=("spec.quantum",)), a_slice("x", pool="b")
    assert names(decide(a_snapshot(*slices), a_claim())) == ["x"]


def test_unknown_fields_are_not_seen_where_strict() -> None:
    device = a_device("odd", unknown_fields=("quantum",))
    odd_class = a_class(unknown_fields=("spec.quantum",))
    snapshot = a_snapshot(a_slice(device), classes=[odd_class], features=kubernetes(is_strict=True))
    assert names(decide(snapshot, a_claim(a_request("r", unknown_fields=("quantum",))))) == ["odd"]


def test_counts_below_one_need_no_device_and_a_claim_of_negative_ones_ends_the_attempt() -> None:
    assert names(decide(a_snapshot(a_slice("x")), a_claim(a_request("a", 0), a_request("b", 1)))) == ["x"]
    assert names(decide(a_snapshot(a_slice("x")), a_claim(a_request("a", -1), a_request("b", 1)))) == ["x"]
    with pytest.raises(InvalidClaim, match="the counts of its requests are negative"):
        decide(a_snapshot(a_slice("x")), a_claim(a_request("a", -2), a_request("b", 1)))


# -- nodes


def test_each_node_gets_its_own_devices() -> None:
    snapshot = a_snapshot(a_slice("here"), a_slice("there", pool="away", reach=on_node("node-1")))
    assert names(decide(snapshot, a_claim())) == ["here"]
    assert names(decide(snapshot, a_claim(), node=a_node("node-1"))) == ["there"]
    assert refusal(decide(snapshot, a_claim(), node=a_node("node-2")))


def test_fault_of_one_node_is_not_one_of_another() -> None:
    local = a_slice("y", reach=everywhere(), pool="fine")
    snapshot = a_snapshot(a_slice("x", "x"), local)
    with pytest.raises(InvalidPool):
        decide(snapshot, a_claim(all_devices()))
    assert names(decide(snapshot, a_claim(all_devices()), node=a_node("node-1"))) == ["y"]


def test_outcome_names_the_features_in_force() -> None:
    strict = kubernetes("1.36", is_strict=True)
    assert decide(a_snapshot(a_slice("x"), features=strict), a_claim()).features == strict
    assert decide(a_snapshot(features=strict), a_claim()).features == strict
    assert decide(a_snapshot(a_slice("x"), features=strict), a_claim(), budget_steps=0).features == strict
