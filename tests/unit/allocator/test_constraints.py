from itertools import permutations

import pytest

from allocator.cluster.snapshot import Snapshot
from allocator.constraints import covers, lookup
from allocator.gates import Features
from allocator.model import Attribute, Constraint, Device
from allocator.outcome import Allocated, InvalidClaim, Refused
from tests.builders import (
    DRIVER,
    Scalar,
    a_claim,
    a_device,
    a_request,
    a_slice,
    a_snapshot,
    all_devices,
    an_allocated_claim,
    an_alternative,
    distinct,
    first_available,
    kubernetes,
    match,
    strings,
    version,
)
from tests.unit.allocator.answers import by_request, conflict, decide, names, refusal, unmet

NUMA = f"{DRIVER}/numa"
ROOT = "std.example/root"
NO_VALUE: Attribute = ("", None)
LISTS = kubernetes(DRAListTypeAttributes=True)


def numas(*values: Scalar | Attribute | None) -> Snapshot:
    """Devices d0, d1, ... with these values of `numa`, None for none."""
    return a_snapshot(a_slice(*with_numas(*values)))


def with_numas(*values: Scalar | Attribute | None) -> list[Device]:
    return [a_device(f"d{n}", {} if value is None else {"numa": value}) for n, value in enumerate(values)]


# -- lookup


def test_attribute_is_found_by_its_full_name() -> None:
    assert lookup(a_device("x", {ROOT: "left"}), ROOT) == ("string", "left")


def test_short_name_counts_under_the_domain_of_the_driver_only() -> None:
    device = a_device("x", {"numa": 1})
    assert lookup(device, NUMA) == ("int", 1)
    assert lookup(device, "std.example/numa") is None
    assert lookup(device, f"sub.{NUMA}") is None


def test_full_name_goes_before_the_short_one() -> None:
    assert lookup(a_device("x", {"numa": 1, NUMA: 2}), NUMA) == ("int", 2)


def test_devices_of_two_drivers_match_by_the_full_name() -> None:
    gpu = a_slice(a_device("g0", {ROOT: "left"}), a_device("g1", {ROOT: "right"}))
    nic = a_slice(a_device("n0", {ROOT: "right"}), driver="nic.example")
    claim = a_claim(
        a_request("gpu", 1, 'device.driver == "gpu.example"'),
        a_request("nic", 1, 'device.driver == "nic.example"'),
        constraints=[match(ROOT)],
    )
    assert by_request(decide(a_snapshot(gpu, nic), claim)) == {"gpu": ["g1"], "nic": ["n0"]}


def test_short_name_of_another_driver_does_not_count() -> None:
    gpu, nic = (a_slice(a_device(name, {"numa": 0}), driver=name) for name in (DRIVER, "nic.example"))
    claim = a_claim(a_request(count=2), constraints=[match(NUMA)])
    assert unmet(decide(a_snapshot(gpu, nic), claim)).best == 1


# -- which requests


@pytest.mark.parametrize(
    ("requests", "name", "is_covered"),
    [
        ((), "r", True),
        ((), "r/s", True),
        (("r",), "r", True),
        (("r",), "r/s", True),
        (("r/s",), "r/s", True),
        (("r/s",), "r/t", False),
        (("r/s",), "r", False),
        (("other",), "r", False),
        (("other", "r"), "r", True),
    ],
)
def test_constraint_covers(requests: tuple[str, ...], name: str, *, is_covered: bool) -> None:
    assert covers(match(NUMA, *requests), an_alternative(name)) is is_covered


def test_constraint_over_some_requests_leaves_the_others_alone() -> None:
    claim = a_claim(a_request("a"), a_request("b"), a_request("c"), constraints=[match(NUMA, "a", "c")])
    assert by_request(decide(numas(0, 1, 0), claim)) == {"a": ["d0"], "b": ["d1"], "c": ["d2"]}


def test_requests_under_one_constraint_share_its_value() -> None:
    claim = a_claim(a_request("a"), a_request("b", 2), constraints=[match(NUMA)])
    assert by_request(decide(numas(0, 1, 0, 1, 1), claim)) == {"a": ["d1"], "b": ["d3", "d4"]}


def test_each_constraint_has_a_value_of_its_own() -> None:
    claim = a_claim(a_request("a", 2), a_request("b", 2), constraints=[match(NUMA, "a"), match(NUMA, "b")])
    assert by_request(decide(numas(0, 1, 1, 0), claim)) == {"a": ["d0", "d3"], "b": ["d1", "d2"]}


def test_constraints_of_two_claims_do_not_meet() -> None:
    claims = [a_claim(a_request(count=2), name=name, constraints=[match(NUMA)]) for name in "ab"]
    assert names(decide(numas(0, 1, 1, 0), *claims)) == ["d0", "d3", "d1", "d2"]


def test_constraint_on_a_parent_covers_the_subrequest_that_is_chosen() -> None:
    request = first_available("gpus", an_alternative("two", count=2), an_alternative("one"))
    by_parent = a_claim(request, constraints=[match(NUMA, "gpus")])
    assert by_request(decide(numas(0, 1), by_parent)) == {"gpus/one": ["d0"]}


def test_constraint_on_a_subrequest_covers_no_other() -> None:
    request = first_available("gpus", an_alternative("three", count=3), an_alternative("two", count=2))
    claim = a_claim(request, constraints=[match(NUMA, "gpus/three")])
    assert by_request(decide(numas(0, 1, 0), claim)) == {"gpus/two": ["d0", "d1"]}


# -- matchAttribute


@pytest.mark.parametrize(
    ("one", "other"),
    [(0, 1), ("left", "right"), (True, False), (version("1.0.0"), version("1.0.1")), (1, True), (1, "1")],
)
def test_devices_with_different_values_do_not_match(one: Scalar, other: Scalar) -> None:
    assert unmet(decide(numas(one, other), a_claim(a_request(count=2), constraints=[match(NUMA)]))).best == 1


@pytest.mark.parametrize("value", [0, -1, "left", "", True, False, version("1.0.0")])
def test_devices_with_one_value_match(value: Scalar) -> None:
    assert names(decide(numas(value, value), a_claim(a_request(count=2), constraints=[match(NUMA)]))) == ["d0", "d1"]


def test_version_and_string_of_one_text_do_not_match() -> None:
    claim = a_claim(a_request(count=2), constraints=[match(NUMA)])
    assert unmet(decide(numas(version("1.0.0"), "1.0.0"), claim)).best == 1


def test_versions_match_as_they_are_written() -> None:
    """To selectors the two are equal: the build is no part of the order of versions."""
    claim = a_claim(a_request(count=2), constraints=[match(NUMA)])
    assert unmet(decide(numas(version("1.0.0+a"), version("1.0.0+b")), claim)).best == 1


def test_device_without_the_attribute_matches_nothing_not_even_alone() -> None:
    claim = a_claim(a_request(), constraints=[match(NUMA)])
    assert names(decide(numas(None, 0), claim)) == ["d1"]
    assert unmet(decide(numas(None, None), claim)).best == 0


def test_first_value_with_devices_enough_is_taken() -> None:
    claim = a_claim(a_request(count=2), constraints=[match(NUMA)])
    assert names(decide(numas(0, 1, 2, 2, 1), claim)) == ["d1", "d4"]


def test_value_is_tried_no_more_where_a_later_request_finds_none_of_it() -> None:
    snapshot = a_snapshot(
        a_slice(*(a_device(f"g{n}", {ROOT: "abc"[n], "gpu": True}) for n in range(3)), name="a", slice_count=2),
        a_slice(a_device("n0", {ROOT: "c", "gpu": False}), name="b", slice_count=2),
    )
    is_gpu = 'device.attributes["gpu.example"].gpu'
    claim = a_claim(a_request("gpu", 1, is_gpu), a_request("nic", 1, f"!{is_gpu}"), constraints=[match(ROOT)])
    assert by_request(decide(snapshot, claim)) == {"gpu": ["g2"], "nic": ["n0"]}


def test_device_in_use_leaves_its_value_short() -> None:
    snapshot = numas(0, 0, 1, 1).with_allocated([an_allocated_claim("d0")])
    assert names(decide(snapshot, a_claim(a_request(count=2), constraints=[match(NUMA)]))) == ["d2", "d3"]


def test_two_constraints_have_to_hold_together() -> None:
    members = [a_device(f"d{n}", {"a": a, "b": b}) for n, (a, b) in enumerate([(0, 0), (0, 1), (1, 1), (0, 1)])]
    claim = a_claim(a_request(count=2), constraints=[match(f"{DRIVER}/a"), match(f"{DRIVER}/b")])
    assert names(decide(a_snapshot(a_slice(*members)), claim)) == ["d1", "d3"]


# -- distinctAttribute


def test_devices_with_different_values_are_distinct() -> None:
    claim = a_claim(a_request(count=3), constraints=[distinct(NUMA)])
    assert names(decide(numas(0, 0, 1, 1, 2), claim)) == ["d0", "d2", "d4"]


def test_too_few_values_are_not_distinct_enough() -> None:
    found = unmet(decide(numas(0, 0, 1, 1), a_claim(a_request(count=3), constraints=[distinct(NUMA)])))
    assert (found.best, found.wanted) == (2, 3)


def test_values_of_different_kinds_are_distinct() -> None:
    claim = a_claim(a_request(count=4), constraints=[distinct(NUMA)])
    assert names(decide(numas(1, True, "1", version("1.0.0")), claim)) == ["d0", "d1", "d2", "d3"]


def test_versions_are_distinct_as_they_are_written() -> None:
    claim = a_claim(a_request(count=2), constraints=[distinct(NUMA)])
    assert names(decide(numas(version("1.0.0+a"), version("1.0.0+b")), claim)) == ["d0", "d1"]


def test_device_without_the_attribute_is_distinct_from_nothing() -> None:
    claim = a_claim(a_request(count=2), constraints=[distinct(NUMA)])
    assert names(decide(numas(0, None, 1), claim)) == ["d0", "d2"]
    assert unmet(decide(numas(None, 0), claim)).best == 1


def test_distinct_holds_over_requests() -> None:
    claim = a_claim(a_request("a", 2), a_request("b"), constraints=[distinct(NUMA)])
    assert by_request(decide(numas(0, 0, 1, 1, 2), claim)) == {"a": ["d0", "d2"], "b": ["d4"]}


def test_match_and_distinct_hold_together() -> None:
    pairs = [(0, 0), (0, 0), (1, 0), (1, 1)]
    members = [a_device(f"d{n}", {"numa": numa, "card": card}) for n, (numa, card) in enumerate(pairs)]
    claim = a_claim(a_request(count=2), constraints=[match(NUMA), distinct(f"{DRIVER}/card")])
    assert names(decide(a_snapshot(a_slice(*members)), claim)) == ["d2", "d3"]


def test_distinct_is_not_known_to_the_allocator_that_is_chosen_where_no_newer_gate_is_on() -> None:
    claim = a_claim(a_request(), constraints=[distinct(NUMA)])
    oldest = a_snapshot(a_slice(*with_numas(0)), features=kubernetes("1.34"))
    with pytest.raises(InvalidClaim, match="#0: distinctAttribute is set, but DRAConsumableCapacity is off"):
        decide(oldest, claim)
    assert names(decide(oldest, a_claim(a_request(), constraints=[match(NUMA)]))) == ["d0"]


# -- lists


def test_list_matches_nothing_but_alone_without_its_gate() -> None:
    snapshot = numas(strings("a"), strings("a"), "a")
    assert names(decide(snapshot, a_claim(a_request(), constraints=[match(NUMA)]))) == ["d0"]
    assert unmet(decide(snapshot, a_claim(a_request(count=2), constraints=[match(NUMA)]))).best == 1


def test_list_is_distinct_as_the_first_device_only_without_its_gate() -> None:
    claim = a_claim(a_request(count=2), constraints=[distinct(NUMA)])
    assert names(decide(numas(strings("a"), "b", strings("c")), claim)) == ["d0", "d1"]
    assert names(decide(numas("b", strings("c"), "b"), claim)) == ["d1", "d2"]
    assert refusal(decide(numas("b", strings("c")), claim))


def test_attribute_without_a_value_counts_like_a_list_without_the_gate() -> None:
    assert names(decide(numas(1, NO_VALUE, 1), a_claim(a_request(count=2), constraints=[distinct(NUMA)]))) == [
        "d1",
        "d2",
    ]
    assert unmet(decide(numas(NO_VALUE, NO_VALUE), a_claim(a_request(count=2), constraints=[match(NUMA)]))).best == 1


def with_lists(*values: Scalar | Attribute, features: Features = LISTS) -> Snapshot:
    return a_snapshot(a_slice(*with_numas(*values)), features=features)


def test_lists_match_where_all_have_one_value_in_common() -> None:
    claim = a_claim(a_request(count=3), constraints=[match(NUMA)])
    assert names(decide(with_lists(strings("a", "b"), strings("b", "c"), strings("c", "b")), claim)) == [
        "d0",
        "d1",
        "d2",
    ]


def test_chain_of_lists_without_a_common_value_does_not_match() -> None:
    chain = [strings("a", "b"), strings("b", "c"), strings("c", "a")]
    claim = a_claim(a_request(count=3), constraints=[match(NUMA)])
    for order in permutations(chain):
        assert unmet(decide(with_lists(*order), claim)).best == 2


@pytest.mark.parametrize("release", ["1.36", "1.37", "1.38"])
def test_common_values_are_restored_when_a_device_is_given_back(release: str) -> None:
    values = [strings("a", "b"), strings("a"), strings("b"), strings("b")]
    claim = a_claim(a_request(count=3), constraints=[match(NUMA)])
    features = kubernetes(release, DRAListTypeAttributes=True)
    assert names(decide(with_lists(*values, features=features), claim)) == ["d0", "d2", "d3"]


def test_single_value_matches_a_list_that_holds_it() -> None:
    claim = a_claim(a_request(count=2), constraints=[match(NUMA)])
    assert names(decide(with_lists("a", strings("b", "a")), claim)) == ["d0", "d1"]
    assert unmet(decide(with_lists(1, strings("1")), claim)).best == 1


def test_lists_are_distinct_where_no_two_share_a_value() -> None:
    claim = a_claim(a_request(count=2), constraints=[distinct(NUMA)])
    assert names(decide(with_lists(strings("a", "b"), strings("b", "c"), strings("c", "d")), claim)) == ["d0", "d2"]
    assert names(decide(with_lists(("ints", (1, 2)), strings("1", "2")), claim)) == ["d0", "d1"]
    assert names(decide(with_lists(strings("a", "b"), "b", "c"), claim)) == ["d0", "d2"]


def test_attribute_without_a_value_never_matches_with_the_gate_for_lists() -> None:
    for constraint in (match(NUMA), distinct(NUMA)):
        assert unmet(decide(with_lists(NO_VALUE), a_claim(a_request(), constraints=[constraint]))).best == 0


def test_repeated_value_of_a_list_counts_once() -> None:
    claim = a_claim(a_request(count=2), constraints=[distinct(NUMA)])
    assert names(decide(with_lists(strings("a", "a"), strings("b", "b")), claim)) == ["d0", "d1"]


# -- unknown kinds, and All


def test_constraint_of_an_unknown_kind_is_an_error() -> None:
    claim = a_claim(a_request(), constraints=[match(NUMA), Constraint(("gpus",))])
    with pytest.raises(InvalidClaim, match=r"claim default/claim, constraint #1: neither"):
        decide(numas(0), claim)


def test_constraint_with_both_attributes_matches() -> None:
    both = Constraint(match_attribute=NUMA, distinct_attribute=NUMA)
    assert names(decide(numas(0, 1, 0), a_claim(a_request(count=2), constraints=[both]))) == ["d0", "d2"]


def test_all_that_violates_a_constraint_fails_unless_strict_where_it_ends_the_attempt() -> None:
    claim = a_claim(all_devices(), constraints=[match(NUMA)])
    assert unmet(decide(numas(0, 1), claim)).best == 1
    strict = a_snapshot(a_slice(*with_numas(0, 1)), features=kubernetes(is_strict=True))
    with pytest.raises(
        InvalidClaim,
        match=r"request gpus: cannot add device gpu.example/pool-0/d1, since constraint #0 \(gpu.example/numa\) would",
    ):
        decide(strict, claim)


def test_all_that_violates_a_constraint_turns_to_the_next_alternative_unless_strict() -> None:
    request = first_available("gpus", an_alternative("all", mode="All"), an_alternative("one"))
    claim = a_claim(request, constraints=[match(NUMA)])
    assert by_request(decide(numas(0, 1), claim)) == {"gpus/one": ["d0"]}
    strict = a_snapshot(a_slice(*with_numas(0, 1)), features=kubernetes(is_strict=True))
    with pytest.raises(InvalidClaim, match="cannot add device"):
        decide(strict, claim)


def test_all_that_satisfies_its_constraint_is_given() -> None:
    for features in (kubernetes(), kubernetes(is_strict=True)):
        snapshot = a_snapshot(a_slice(*with_numas(0, 0)), features=features)
        assert names(decide(snapshot, a_claim(all_devices(), constraints=[match(NUMA)]))) == ["d0", "d1"]


def test_all_with_a_device_in_use_fails_before_its_constraint_is_asked() -> None:
    strict = a_snapshot(a_slice(*with_numas(0, 1)), features=kubernetes(is_strict=True))
    held = strict.with_allocated([an_allocated_claim("d0")])
    assert refusal(decide(held, a_claim(all_devices(), constraints=[match(NUMA)])))


def test_devices_of_an_earlier_request_go_before_a_better_alternative_of_a_later_one() -> None:
    request = first_available("gpus", an_alternative("near", count=2), an_alternative("any", count=2))
    claim = a_claim(a_request("one"), request, constraints=[match(NUMA, "one", "gpus/near")])
    assert by_request(decide(numas(0, 1, 1, 1), claim)) == {"one": ["d0"], "gpus/any": ["d1", "d2"]}
    assert by_request(decide(numas(0, 1, 0, 0), claim)) == {"one": ["d0"], "gpus/near": ["d2", "d3"]}


def test_conflict_is_reported_where_each_constraint_alone_could_be_met() -> None:
    pairs = [(0, 0), (0, 0), (1, 1)]
    members = [a_device(f"d{n}", {"numa": numa, "card": card}) for n, (numa, card) in enumerate(pairs)]
    claim = a_claim(a_request(count=2), constraints=[match(NUMA), distinct(f"{DRIVER}/card")])
    assert conflict(decide(a_snapshot(a_slice(*members)), claim)).claims == ("default/claim",)


# -- since 1.38


V1_38 = kubernetes("1.38")
V1_38_LISTS = kubernetes("1.38", DRAListTypeAttributes=True)


@pytest.mark.parametrize("features", [V1_38, V1_38_LISTS])
@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [("1.0.0", "1.0.0+b", True), ("1.0.0-rc.1+a", "1.0.0-rc.1+z", True), ("1.0.0", "1.0.0-rc.1", False)],
)
def test_versions_compare_by_precedence_since_1_38(one: str, other: str, are_equal: bool, features: Features) -> None:  # noqa: FBT001
    snapshot = a_snapshot(a_slice(*with_numas(version(one), version(other))), features=features)
    for constraint, expected in ((match(NUMA), are_equal), (distinct(NUMA), not are_equal)):
        found = decide(snapshot, a_claim(a_request(count=2), constraints=[constraint]))
        assert isinstance(found, Allocated) is expected


def test_elements_of_lists_compare_by_precedence_since_1_38() -> None:
    lists = ("versions", ("1.0.0+a", "2.0.0")), ("versions", ("1.0.0+b",))
    snapshot = a_snapshot(a_slice(*with_numas(*lists)), features=V1_38_LISTS)
    assert names(decide(snapshot, a_claim(a_request(count=2), constraints=[match(NUMA)]))) == ["d0", "d1"]


@pytest.mark.parametrize("constraint", [match(NUMA), distinct(NUMA)])
@pytest.mark.parametrize(
    ("value", "features"),
    [
        (NO_VALUE, V1_38),
        (("version", "1.x"), V1_38),
        (("strings", ("a",)), V1_38),
        (("strings", ()), V1_38_LISTS),
        (("versions", ("1.0.0", "x")), V1_38_LISTS),
    ],
)
def test_a_device_with_a_value_that_cannot_be_compared_ends_the_attempt_since_1_38(
    value: Attribute, features: Features, constraint: Constraint
) -> None:
    snapshot = a_snapshot(a_slice(*with_numas("a", value)), features=features.strictly())
    assert names(decide(snapshot, a_claim(constraints=[constraint]))) == ["d0"]
    with pytest.raises(InvalidClaim, match=rf"attribute {NUMA} on device {DRIVER}/\S+/d1: unsupported attribute value"):
        decide(snapshot, a_claim(a_request(count=2), constraints=[constraint]))


@pytest.mark.parametrize("features", [V1_38, V1_38_LISTS])
def test_a_constraint_without_domain_finds_nothing_since_1_38(features: Features) -> None:
    members = with_numas("a", "a")
    claim = a_claim(constraints=[match("numa")])
    assert isinstance(decide(a_snapshot(a_slice(*members), features=features), claim), Refused)
    assert names(decide(a_snapshot(a_slice(*members)), claim)) == ["d0"]


@pytest.mark.parametrize(
    ("count", "constraint", "is_allocated"),
    [
        (1, match(NUMA), True),
        (2, match(NUMA), False),
        (2, distinct(NUMA), True),
    ],
)
def test_a_derived_list_of_none_has_nothing_in_common_since_1_38(
    count: int,
    constraint: Constraint,
    is_allocated: bool,  # noqa: FBT001
) -> None:
    features = kubernetes("1.38", DRAListTypeAttributes=True, DRADerivedAttributes=True)
    request = a_request(count=count, derived_attributes=((NUMA, "[].filter(x, x == 1)"),))
    snapshot = a_snapshot(a_slice(*with_numas("a", "b")), features=features)
    found = decide(snapshot, a_claim(request, constraints=[constraint]))
    assert isinstance(found, Allocated) is is_allocated
