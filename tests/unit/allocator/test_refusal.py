"""What a refusal knows: the first cause that explains it, its numbers, and who has what is missing."""

from dataclasses import replace

from allocator.model import DeviceID, PoolID, Taint
from allocator.outcome import ConstraintUnmet, NotEnough, NotTogether
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    POOL,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_request,
    a_result,
    a_slice,
    a_snapshot,
    all_devices,
    an_allocated_claim,
    an_alternative,
    devices,
    distinct,
    first_available,
    kubernetes,
    match,
    on_node,
    per_device,
)
from tests.unit.allocator.answers import blocked, conflict, decide, funnel, invalid_pools, shortage, unmet

NUMA = f"{DRIVER}/numa"
BIG = 'device.attributes["gpu.example"].big'


def test_shortage_reports_claim_request_and_numbers() -> None:
    found = shortage(decide(a_snapshot(a_slice(*devices(3))), a_claim(a_request("r", 4), name="train", namespace="ml")))
    assert found == NotEnough("ml/train", "r", 4, 3, (), 3)


def test_too_few_devices_are_refused_without_a_step() -> None:
    outcome = decide(
        a_snapshot(a_slice(*devices(3))), a_claim(a_request(count=2)), a_claim(a_request(count=4), name="b")
    )
    assert shortage(outcome).wanted == 4
    assert outcome.steps == 0


def test_stages_are_in_the_order_of_the_checks_and_each_device_falls_once() -> None:
    members = [
        a_device("odd", unknown_fields=("quantum",)),
        a_device("waiting", {"big": True}, binding_conditions=("ready",)),
        a_device("small", {"big": False}, taints=(Taint("k", effect="NoSchedule"),)),
        a_device("away", {"big": True}, reach=on_node("node-1")),
        a_device("tainted", {"big": True}, taints=(Taint("k", "v", "NoExecute"),)),
        a_device("held", {"big": True}),
        a_device("free", {"big": True}),
    ]
    placed = [device if device.name == "away" else replace(device, reach=on_node()) for device in members]
    snapshot = a_snapshot(
        a_slice(*placed, reach=per_device()),
        held=[an_allocated_claim("held", "tainted", "small")],
        features=kubernetes(DRADeviceBindingConditions=False),
    )
    found = shortage(decide(snapshot, a_claim(a_request("r", 2, BIG))))
    assert funnel(found) == [
        ("have unknown fields", ["odd"]),
        ("have binding conditions, and DRADeviceBindingConditions is off", ["waiting"]),
        (f"fail selector #0 of request r ({BIG})", ["small"]),
        ("are on other nodes", ["away"]),
        ("are tainted k=v:NoExecute", ["tainted"]),
        ("are in use", ["held"]),
    ]
    assert (found.total, found.left) == (7, 1)
    assert found.left + sum(len(refusal.devices) for refusal in found.refusals) == found.total


def test_each_selector_is_a_stage_of_its_own() -> None:
    members = [a_device(f"d{n}", {"a": n > 0, "b": n > 1}) for n in range(3)]
    a, b = (f'device.attributes["gpu.example"].{name}' for name in "ab")
    snapshot = a_snapshot(a_slice(*members), classes=[a_class("gpu", a)])
    found = shortage(decide(snapshot, a_claim(a_request("r", 2, b))))
    assert funnel(found) == [
        (f"fail selector #0 of class gpu ({a})", ["d0"]),
        (f"fail selector #0 of request r ({b})", ["d1"]),
    ]
    assert [refusal.category for refusal in found.refusals] == ["selector", "selector"]


def test_stage_names_the_request_of_the_claim_that_asks() -> None:
    snapshot = a_snapshot(a_slice("x"))
    for name in ("a", "b"):
        ((reason, _),) = funnel(shortage(decide(snapshot, a_claim(a_request(name, 1, "false")))))
        assert reason == f"fail selector #0 of request {name} (false)"


def test_devices_are_named_by_driver_pool_and_name() -> None:
    snapshot = a_snapshot(a_slice("x"), held=[an_allocated_claim("x")])
    (stage,) = shortage(decide(snapshot, a_claim())).refusals
    assert stage.devices == (DeviceID(DRIVER, POOL, "x"),)


def test_holders_of_devices_in_use_are_named_the_largest_first() -> None:
    held = [
        an_allocated_claim("gpu-003", name="b"),
        an_allocated_claim("gpu-000", name="c"),
        an_allocated_claim("gpu-001", "gpu-002", name="a", namespace="ml"),
        an_allocated_claim(a_result("elsewhere", pool="other"), name="away"),
    ]
    (stage,) = shortage(decide(a_snapshot(a_slice(*devices(4)), held=held), a_claim())).refusals
    assert stage.holders == (("ml/a", 2), ("default/b", 1), ("default/c", 1))


def test_capacity_that_every_share_takes_whole_is_reported() -> None:
    member = a_device("x", capacity={"memory": "4", "bandwidth": "10"}, allow_multiple_allocations=True)
    amounts = {"memory": Quantity.parse("1"), "bandwidth": Quantity.parse("10")}
    taken = a_result("x", share_id="s", consumed_capacity=amounts)
    snapshot = a_snapshot(a_slice(member), held=[an_allocated_claim(taken)])
    (stage,) = shortage(decide(snapshot, a_claim(a_request(capacity={"memory": Quantity.parse("1")})))).refusals
    assert (stage.reason, stage.category) == ("have too little capacity left", "capacity")
    assert [(short.capacity, short.devices, short.takes_all) for short in stage.short] == [("bandwidth", 1, True)]
    assert stage.holders == (("default/holder", 1),)


def test_first_request_that_falls_short_is_reported() -> None:
    claim = a_claim(a_request("a", 1), a_request("b", 9), a_request("c", 8))
    assert shortage(decide(a_snapshot(a_slice("x")), claim)).request == "b"


def test_first_alternative_of_a_request_that_falls_short_with_all_is_reported() -> None:
    request = first_available("r", an_alternative("five", count=5), an_alternative("four", count=4))
    assert shortage(decide(a_snapshot(a_slice(*devices(3))), a_claim(request))).request == "r/five"


def test_requests_that_want_more_together_than_there_is_are_named() -> None:
    """The first pair that does, or else all that compete."""
    own = a_request("own", 1, '"x" in device.attributes')

    def together(cause: NotTogether) -> tuple[tuple[str, ...], int, int]:
        return cause.requests, cause.wanted, cause.left

    snapshot = a_snapshot(a_slice(*devices(4)))
    pair = conflict(decide(snapshot, a_claim(a_request("a", 3), a_request("b", 1), a_request("c", 2))))
    assert together(pair) == (("a", "c"), 5, 4)
    every = conflict(decide(snapshot, a_claim(*(a_request(name, 2) for name in "abc"))))
    assert together(every) == (("a", "b", "c"), 6, 4)
    first, second = a_claim(a_request("a", 3), name="first"), a_claim(a_request("a", 2), name="second")
    assert together(conflict(decide(snapshot, first, second))) == (("a", "a"), 5, 4)
    assert shortage(decide(snapshot, a_claim(a_request("a", 4), own))).request == "own"


def test_claims_whose_requests_could_be_had_are_not_named_with_those_that_compete() -> None:
    first, idle, second = (a_claim(a_request("r", n), name=name) for name, n in {"a": 3, "idle": 1, "b": 2}.items())
    refused = conflict(decide(a_snapshot(a_slice(*devices(4))), first, idle, second))
    assert (refused.requests, refused.claims) == (("r", "r"), ("default/a", "default/b"))


def test_request_with_an_alternative_that_could_be_had_is_not_what_falls_short() -> None:
    request = first_available("r", an_alternative("five", count=5), an_alternative("two", count=2))
    claim = a_claim(a_request("a", 2), request)
    assert conflict(decide(a_snapshot(a_slice(*devices(3))), claim)).claims == ("default/claim",)


def test_devices_that_all_lacks_are_those_that_it_means() -> None:
    members = [
        a_device("away", reach=on_node("node-1")),
        a_device("held", reach=on_node()),
        a_device("tainted", reach=on_node(), taints=(Taint("k", effect="NoSchedule"),)),
        a_device("free", reach=on_node()),
    ]
    snapshot = a_snapshot(a_slice(*members, reach=per_device()), held=[an_allocated_claim("held")])
    found = blocked(decide(snapshot, a_claim(all_devices("r", "true"), name="all")))
    assert (found.claim, found.request, found.total) == ("default/all", "r", 3)
    assert funnel(found) == [("are tainted k:NoSchedule", ["tainted"]), ("are in use", ["held"])]


def test_constraint_that_no_value_can_satisfy_is_reported() -> None:
    members = [a_device(f"{kind}{n}", {"numa": n // 3, "gpu": kind == "g"}) for kind in "gn" for n in range(5)]
    is_gpu = 'device.attributes["gpu.example"].gpu'
    claim = a_claim(a_request("gpus", 2, is_gpu), a_request("nics", 3, f"!{is_gpu}"), constraints=[match(NUMA)])
    snapshot = a_snapshot(a_slice(*members), held=[an_allocated_claim("n0")])
    found = unmet(decide(snapshot, claim))
    assert found == ConstraintUnmet("default/claim", f"matchAttribute {NUMA}", ("gpus", "nics"), 5, 4)


def test_constraint_is_reported_with_what_is_free() -> None:
    members = [a_device(f"d{n}", {"numa": n // 3}) for n in range(6)]
    claim = a_claim(a_request("a", 3), constraints=[match(NUMA)])
    found = unmet(decide(a_snapshot(a_slice(*members), held=[an_allocated_claim("d0", "d4", "d5")]), claim))
    assert (found.best, found.wanted) == (2, 3)


def test_constraint_over_one_of_two_requests_names_that_one() -> None:
    members = [a_device(f"d{n}", {"numa": 0}) for n in range(4)]
    claim = a_claim(a_request("a"), a_request("b", 2), constraints=[distinct(NUMA, "b")])
    found = unmet(decide(a_snapshot(a_slice(*members)), claim))
    assert (found.requests, found.best, found.wanted) == (("b",), 1, 2)


def test_conflict_names_all_claims() -> None:
    found = conflict(decide(a_snapshot(a_slice("x")), a_claim(name="a"), a_claim(name="b", namespace="ml")))
    assert found.claims == ("default/a", "ml/b")


def test_invalid_pools_are_reported_beside_the_cause() -> None:
    snapshot = a_snapshot(a_slice("x", "x", pool="bad"), a_slice("y", "y", pool="worse"), a_slice("z"))
    found = invalid_pools(decide(snapshot, a_claim(a_request(count=2))))
    assert [pool for pool, _ in found.pools] == [PoolID(DRIVER, "bad"), PoolID(DRIVER, "worse")]
    assert isinstance(found.cause, NotEnough)
    assert (found.cause.wanted, found.cause.total) == (2, 1)


def test_invalid_pool_of_another_node_is_not_reported() -> None:
    snapshot = a_snapshot(a_slice("x", "x", reach=on_node("node-1")))
    shortage(decide(snapshot, a_claim(), node=a_node()))
