import gc
from collections.abc import Sequence
from dataclasses import replace

import pytest

import cel
from allocator.allocate import allocate
from allocator.bits import bits
from allocator.explain.text import OPERATOR, node_text
from allocator.fleet.alike import PER_ALTERNATIVE, SPARE, fingerprint_of
from allocator.fleet.fleet import Fleet
from allocator.memo import LEAST_CHANGES
from allocator.model import (
    Claim,
    Constraint,
    CounterConsumption,
    CounterSet,
    JointConstraint,
    Node,
    Reach,
    Slice,
    Taint,
)
from allocator.outcome import Allocated, ConstraintUnmet, NotEnough, Refused
from allocator.policies import policy_of
from cel import Cancelled
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_request,
    a_result,
    a_slice,
    a_snapshot,
    an_allocated_claim,
    an_alternative,
    devices,
    distinct,
    everywhere,
    first_available,
    kubernetes,
    labelled,
    match,
    on_node,
    where,
)

MANY = 40


def a_pool(number: int, count: int = 2) -> Slice:
    """The slice of a node's own pool."""
    reach = on_node(name_of(number))
    return a_slice(*devices(count), name=f"slice-{number:03}", pool=f"pool-{number:03}", reach=reach)


def name_of(number: int) -> str:
    return f"node-{number:03}"


def a_fleet(slices: Sequence[Slice], nodes: int = MANY, held: Sequence[Claim] = ()) -> Fleet:
    return Fleet(a_snapshot(*slices, held=held), [a_node(name_of(number)) for number in range(nodes)])


def alike(nodes: int = MANY) -> list[Slice]:
    return [a_pool(number) for number in range(nodes)]


@pytest.mark.parametrize("constraint", [match(f"{DRIVER}/numa"), distinct(f"{DRIVER}/card")], ids=["match", "distinct"])
def test_nodes_that_differ_only_in_what_a_constraint_reads_are_distinguished(constraint: Constraint) -> None:
    slices = [
        a_slice(*(a_device(f"gpu-{n}", values) for n, values in enumerate(members)), pool=name, reach=on_node(name))
        for name, members in (
            ("node-000", ({"numa": 0, "card": 0}, {"numa": 1, "card": 0})),
            ("node-001", ({"numa": 0, "card": 0}, {"numa": 0, "card": 1})),
        )
    ]
    fleet = a_fleet(slices, nodes=2)
    chosen = fleet.choose([a_claim(a_request(count=2), constraints=[constraint])], fleet.all)
    assert chosen is not None
    assert chosen.node.name == "node-001"


def place(fleet: Fleet, name: str) -> Claim | None:
    wanted = a_claim(name=name)
    chosen = fleet.choose([wanted], fleet.all)
    if chosen is None:
        return None
    held = replace(wanted, allocation=chosen.allocated.allocations[0])
    fleet.add_allocated([held])
    return held


def node_of(fleet: Fleet) -> str | None:
    chosen = fleet.choose([a_claim()], fleet.all)
    return chosen.node.name if chosen else None


def on(number: int, device: str = "gpu-000", name: str = "holder") -> Claim:
    return an_allocated_claim(a_result(device, pool=f"pool-{number:03}"), name=name)


# -- steps


def test_nodes_that_are_alike_are_asked_as_one() -> None:
    fleet = a_fleet(alike())
    assert fleet.able([a_claim()]).bit_count() == MANY
    assert fleet.asked == 1


def test_question_that_was_asked_before_costs_nothing() -> None:
    fleet = a_fleet(alike())
    fleet.able([a_claim(name="a")])
    before = fleet.asked
    fleet.able([a_claim(name="b")])
    assert fleet.asked == before


def test_pods_of_a_known_question_cost_no_allocation() -> None:
    fleet = a_fleet(alike())
    for number in range(2 * MANY):
        place(fleet, f"claim-{number}")
    asked_about_groups = 3
    assert fleet.asked == asked_about_groups
    assert fleet.gathered == MANY


def test_refusal_by_many_nodes_in_few_groups_costs_no_allocation() -> None:
    fleet = a_fleet(alike(), held=[on(number, name=f"held-{number}") for number in range(0, MANY, 2)])
    wanted = [a_claim(a_request(count=3))]
    assert fleet.choose(wanted, fleet.all) is None
    asked = fleet.asked
    refused = list(fleet.unable(wanted, fleet.all))
    assert [nodes.bit_count() for _, nodes in refused] == [MANY // 2, MANY // 2]
    assert fleet.asked == asked == 2


def test_slice_that_changes_lets_the_nodes_of_its_pool_alone_be_gathered() -> None:
    slices = alike()
    fleet = a_fleet(slices)
    fleet.able([a_claim()])
    fleet.remove_slice(slices[7])
    fleet.add_slice(replace(slices[7], devices=()))
    assert list(bits(fleet.all & ~fleet.able([a_claim()]))) == [7]
    assert fleet.gathered == MANY + 1


def test_slice_for_labelled_nodes_lets_these_alone_be_gathered() -> None:
    fleet = a_fleet(alike())
    fleet.set_node(3, a_node(name_of(3), {"zone": "a"}))
    fleet.able([a_claim()])
    before = fleet.gathered
    fleet.add_slice(a_slice("x", name="new", pool="new", reach=where(labelled(zone="a"))))
    fleet.able([a_claim()])
    assert fleet.gathered == before + 1


def test_taints_and_resources_of_a_node_cost_nothing() -> None:
    fleet = a_fleet(alike())
    fleet.able([a_claim()])
    changed = a_node(name_of(5), taints=(Taint("key"),), allocatable={"cpu": Quantity.parse("4")})
    fleet.set_node(5, changed)
    chosen = fleet.choose([a_claim()], 1 << 5)
    assert chosen is not None
    assert chosen.node is changed
    assert fleet.gathered == MANY


def test_events_between_two_questions_are_worked_out_once() -> None:
    slices = alike()
    fleet = a_fleet(slices)
    fleet.able([a_claim()])
    slice_ = slices[0]
    for _ in range(10):
        fleet.remove_slice(slice_)
        slice_ = replace(slice_)
        fleet.add_slice(slice_)
    fleet.able([a_claim()])
    assert fleet.gathered == MANY + 1


# -- events


def test_device_that_is_given_back_is_given_again() -> None:
    fleet = a_fleet([a_pool(0, 1)], 1)
    held = place(fleet, "first")
    assert held is not None
    assert place(fleet, "second") is None
    fleet.remove_allocated([held])
    assert place(fleet, "third") is not None


def test_device_that_two_claims_hold_is_in_use_until_both_are_gone() -> None:
    both = [on(0, name="first"), on(0, name="second")]
    fleet = a_fleet([a_pool(0, 1)], 1, held=both)
    fleet.remove_allocated(both[:1])
    assert node_of(fleet) is None
    fleet.remove_allocated(both[1:])
    assert node_of(fleet) == name_of(0)


def test_giving_back_what_is_not_held_is_an_error_that_names_the_claim() -> None:
    fleet = a_fleet([a_pool(0, 1)], 1)
    with pytest.raises(ValueError, match="default/holder"):
        fleet.remove_allocated([on(0)])


def test_number_of_a_node_that_is_gone_serves_another() -> None:
    fleet = a_fleet([a_pool(0), a_pool(1)], 1)
    assert node_of(fleet) == name_of(0)
    fleet.remove_node(0)
    assert node_of(fleet) is None
    fleet.set_node(0, a_node(name_of(1)))
    assert node_of(fleet) == name_of(1)


def test_node_may_take_the_number_of_another_without_a_word_in_between() -> None:
    fleet = a_fleet([a_pool(0), a_pool(1)], 1)
    assert node_of(fleet) == name_of(0)
    fleet.set_node(0, a_node(name_of(1)))
    assert node_of(fleet) == name_of(1)


def test_one_name_under_two_numbers_is_refused() -> None:
    fleet = a_fleet([], 1)
    with pytest.raises(ValueError, match=f"node {name_of(0)} has number 0 already, and is given 1"):
        fleet.set_node(1, a_node(name_of(0)))


def test_lowest_number_is_taken_whatever_the_name() -> None:
    fleet = Fleet(a_snapshot(a_pool(0), a_pool(1)))
    fleet.set_node(5, a_node(name_of(0)))
    fleet.set_node(2, a_node(name_of(1)))
    assert node_of(fleet) == name_of(1)


def test_new_label_lets_a_node_reach_a_slice() -> None:
    fleet = Fleet(a_snapshot(a_slice("x", reach=where(labelled(zone="a")))), [a_node(name_of(0))])
    assert node_of(fleet) is None
    fleet.set_node(0, a_node(name_of(0), {"zone": "a"}))
    assert node_of(fleet) == name_of(0)


def test_newer_generation_on_another_node_makes_the_old_one_useless() -> None:
    fleet = a_fleet([a_slice("x", reach=on_node(name_of(0)))], 2)
    assert node_of(fleet) == name_of(0)
    fleet.add_slice(a_slice("y", name="newer", generation=2, reach=on_node(name_of(1))))
    assert node_of(fleet) == name_of(1)


def test_class_that_comes_and_goes_is_noticed() -> None:
    fleet = a_fleet([a_pool(0)], 1)
    assert fleet.able([a_claim()])
    fleet.set_class(a_class("gpu", "false"))
    assert not fleet.able([a_claim()])
    fleet.remove_class("gpu")
    assert node_of_or_error(fleet) == "device class gpu does not exist"
    fleet.set_class(a_class("gpu"))
    assert node_of_or_error(fleet) == name_of(0)


def node_of_or_error(fleet: Fleet) -> str | None:
    try:
        return node_of(fleet)
    except Exception as error:  # noqa: BLE001 - its text is what is asked for
        return str(error).rpartition(": ")[2]


def test_device_that_all_nodes_reach_is_in_use_for_all_of_them() -> None:
    fleet = a_fleet([a_slice("x", reach=everywhere())])
    assert fleet.able([a_claim()]) == fleet.all
    held = place(fleet, "first")
    assert held is not None
    assert fleet.able([a_claim()]) == 0
    fleet.remove_allocated([held])
    assert fleet.able([a_claim()]) == fleet.all


def test_use_of_pools_that_a_claim_looks_at_nowhere_costs_it_no_question() -> None:
    """Each node has another device in use, so that there are as many groups as nodes, and all reach one fabric."""
    ports = [f"port-{number}" for number in range(8)]
    fabric = a_slice(*ports, name="fabric", driver="fabric.example", pool="fabric", reach=everywhere())
    local = f'device.driver == "{DRIVER}"'
    classes = [a_class("local", local), a_class("port", 'device.driver == "fabric.example"')]
    nodes, held = range(4), [on(number, f"gpu-{number:03}", f"holder-{number}") for number in range(4)]
    slices = [*(a_pool(number, 8) for number in nodes), fabric]
    fleet = Fleet(a_snapshot(*slices, classes=classes, held=held), [a_node(name_of(number)) for number in nodes])
    one_local, one_port = (a_claim(a_request(class_name=name), name=name) for name in ("local", "port"))
    assert fleet.able([one_local]) == fleet.able([one_port]) == fleet.all
    asked = fleet.asked
    for port in ports:
        result = a_result(port, driver="fabric.example", pool="fabric")
        fleet.add_allocated([an_allocated_claim(result, name=port)])
        assert fleet.able([one_local]) == fleet.all
    assert fleet.asked == asked
    assert fleet.able([one_port]) == 0
    assert fleet.asked == asked + 1


def test_use_of_one_node_of_a_pool_is_not_taken_for_that_of_another() -> None:
    slices = [a_slice(f"gpu-{n}", name=f"slice-{n}", slice_count=2, reach=on_node(name_of(n))) for n in range(2)]
    fleet = a_fleet(slices, 2, held=[an_allocated_claim("gpu-0")])
    assert list(bits(fleet.able([a_claim()]))) == [1]


def test_what_all_nodes_reach_makes_no_node_fuller_wherever_its_pool_stands() -> None:
    """The pool of one node stands before the one that all reach, that of the other behind it."""
    own = [
        a_slice("gpu", name=name, pool=name, reach=Reach(node_selector=(labelled(zone=name),))) for name in ("a", "z")
    ]
    fabric = a_slice("gpu", name="m", pool="m", reach=everywhere())
    nodes = [a_node("n-0", {"zone": "z"}), a_node("n-1", {"zone": "a"})]
    fleet = Fleet(a_snapshot(*own, fabric), nodes, policy=policy_of("pack"))
    taken = {pool: an_allocated_claim(a_result("gpu", pool=pool), name=f"holder-{pool}") for pool in ("z", "m")}
    fleet.add_allocated([taken["z"]])
    assert node_of(fleet) == "n-0"  # the fuller one
    fleet.remove_allocated([taken["z"]])
    fleet.add_allocated([taken["m"]])
    assert node_of(fleet) == "n-0"  # the first of two that are empty


def test_counters_that_are_used_on_another_node_count() -> None:
    consumes = (CounterConsumption("set", {"slots": Quantity.parse("1")}),)
    counters = (CounterSet("set", {"slots": Quantity.parse("1")}),)
    slices = [
        a_slice(a_device(f"gpu-{n}", consumes_counters=consumes), name=f"slice-{n}", slice_count=3, reach=on_node(node))
        for n, node in enumerate((name_of(0), name_of(1)))
    ]
    sets = a_slice(name="sets", slice_count=3, counter_sets=counters, reach=on_node(name_of(2)))
    fleet = a_fleet([*slices, sets], 3)
    assert list(bits(fleet.able([a_claim()]))) == [0, 1]
    fleet.add_allocated([an_allocated_claim("gpu-0")])
    assert fleet.able([a_claim()]) == 0


# -- what is told


def test_scores_count_how_early_the_chosen_subrequests_stand() -> None:
    big = [a_pool(0, 2), a_pool(1, 1)]
    fleet = a_fleet(big, 2)
    wanted = first_available("gpus", an_alternative("two", count=2), an_alternative("one"))
    assert fleet.scores([a_claim(wanted)], fleet.all) == {(8, ()): 0b01, (7, ()): 0b10}


def test_refusal_of_a_node_names_its_own_devices_and_holders() -> None:
    fleet = a_fleet(alike(3), 3, [on(number, name=f"held-{number}") for number in range(3)])
    wanted = a_claim(a_request(count=2), name="wanted")
    assert fleet.choose([wanted], fleet.all) is None
    outcome = fleet.refusal([wanted], 2)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.cause, NotEnough)
    assert outcome.cause.claim == "default/wanted"
    (stage,) = outcome.cause.refusals
    assert [device.pool for device in stage.devices] == ["pool-002"]
    assert stage.holders == (("default/held-2", 1),)


def test_refusal_of_another_claim_of_the_question_names_that_claim() -> None:
    fleet = a_fleet(alike(2), 2)
    for name in ("first", "second"):
        wanted = a_claim(a_request(count=3), name=name)
        for number in range(2):
            assert f"default/{name}" in str(fleet.refusal([wanted], number))


@pytest.mark.parametrize(("selectors", "slices"), [(40, 1), (1, 40)])
def test_a_look_at_the_time_comes_before_each_selector_is_compiled_and_each_slice_read(
    selectors: int, slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Selectors may be a megabyte for each claim, and devices have thousands of amounts."""
    done: list[str] = []
    compile_ = cel.compile

    def compiled(text: str, environment: cel.Environment) -> cel.Program:
        done.append("work")
        return compile_(text, environment)

    def is_cancelled() -> bool:
        done.append("look")
        return False

    monkeypatch.setattr(cel, "compile", compiled)
    own = [
        a_slice(
            a_device(f"d{n}", capacity={"c": str(n + 1)}), name=f"s{n}", slice_count=slices, reach=on_node(name_of(0))
        )
        for n in range(slices)
    ]
    fleet = Fleet(a_snapshot(*own), [a_node(name_of(0))], is_cancelled=is_cancelled)
    texts = [f"device.driver != '{number}'" for number in range(selectors)]
    fleet.choose([a_claim(a_request("r", 1, *texts))], fleet.all)
    assert done.count("look") >= selectors + slices
    compiled_first = [at for at, what in enumerate(done) if what == "work"][: selectors - 1]
    assert all(done[at - 1] == "look" for at in compiled_first)


def test_refusal_of_a_constraint_over_several_claims_names_those_of_the_question() -> None:
    fleet = a_fleet(alike(2), 2)
    joint = (JointConstraint(Constraint(match_attribute=f"{DRIVER}/none")),)
    for name in ("first", "second"):
        wanted = [replace(a_claim(a_request(), name=f"{name}-{part}"), joint=joint) for part in "ab"]
        for number in range(2):
            outcome = fleet.refusal(wanted, number)
            assert isinstance(outcome, Refused)
            assert isinstance(outcome.cause, ConstraintUnmet)
            assert outcome.cause.claim == f"default/{name}-a, default/{name}-b"


def test_refusals_count_devices_and_only_that_of_one_node_names_them() -> None:
    held = an_allocated_claim(a_result("gpu-000", pool="pool-000"), name="held")
    fleet = a_fleet(alike(1), nodes=1, held=[held])
    claims = [a_claim(a_request(count=2))]
    [(counted, _)] = fleet.unable(claims, fleet.all)
    named = fleet.refusal(claims, 0)
    assert isinstance(counted, Refused)
    assert isinstance(named, Refused)
    assert isinstance(counted.cause, NotEnough)
    assert isinstance(named.cause, NotEnough)
    assert [(one.number, one.devices, one.holders) for one in counted.cause.refusals] == [(1, (), ())]
    assert [(one.number, len(one.devices), one.holders) for one in named.cause.refusals] == [(1, 1, ((str(held), 1),))]
    assert node_text(counted, reader=OPERATOR).split(" (")[0] == node_text(named, reader=OPERATOR).split(" (")[0]


def test_nodes_of_which_other_devices_are_in_use_but_as_many_are_reported_together() -> None:
    fleet = a_fleet(alike(3), 3, [on(0, "gpu-000", "a"), on(1, "gpu-001", "b")])
    claims = [a_claim(a_request(count=2))]
    assert fleet.able(claims) == 0b100
    before = fleet.asked
    [(outcome, nodes)] = fleet.unable(claims, fleet.all)
    assert (nodes, fleet.asked) == (0b011, before)
    assert node_text(outcome, reader=OPERATOR) == "request gpus needs 2 devices, 1 is left (2 devices: 1 is in use)"


def test_each_node_names_the_contradictory_pools_that_are_its_own() -> None:
    twice = [replace(slice_, devices=(*slice_.devices, slice_.devices[0])) for slice_ in alike(3)[:2]]
    fleet = a_fleet([*twice, alike(3)[2]], 3)
    claims = [a_claim(a_request(count=2))]
    assert fleet.able(claims) == 0b100
    before = fleet.asked
    reported = {
        nodes: node_text(outcome, reader=OPERATOR) for outcome, nodes in fleet.unable_by_node(claims, fleet.all)
    }
    assert reported.keys() == {0b001, 0b010}
    assert "pool gpu.example/pool-000 is invalid" in reported[0b001]
    assert "pool gpu.example/pool-001 is invalid" in reported[0b010]
    assert [node_text(fleet.refusal(claims, number), reader=OPERATOR) for number in range(2)] == [
        reported[0b001],
        reported[0b010],
    ]
    assert fleet.asked == before


def test_nodes_with_contradictory_pools_are_reported_together_by_what_the_first_says() -> None:
    twice = [replace(slice_, devices=(*slice_.devices, slice_.devices[0])) for slice_ in alike(3)[:2]]
    fleet = a_fleet([*twice, alike(3)[2]], 3)
    [(outcome, nodes)] = fleet.unable([a_claim(a_request(count=2))], 0b011)
    assert nodes == 0b011
    assert "pool gpu.example/pool-000 is invalid" in node_text(outcome, reader=OPERATOR)


def test_reasons_are_kept_as_nodes_come_to_have_others() -> None:
    fleet = a_fleet(alike(3), 3)
    claims = [a_claim(a_request(count=3))]
    assert [nodes for _, nodes in fleet.unable(claims, fleet.all)] == [0b111]
    fleet.add_allocated([on(1, name="held")])
    assert [nodes for _, nodes in fleet.unable(claims, fleet.all)] == [0b101, 0b010]
    fleet.remove_allocated([on(1, name="held")])
    assert [nodes for _, nodes in fleet.unable(claims, fleet.all)] == [0b111]


def test_conflict_is_shown_of_the_claims_that_were_asked_for() -> None:
    fleet = a_fleet([a_pool(0, 3)], 1)
    for name in ("first", "second"):
        claims = [a_claim(a_request("a", 2), a_request("b", 2), name=name)]
        assert not fleet.able(claims)
        [(outcome, _)] = fleet.unable(claims, fleet.all)
        assert f"claims default/{name})" in node_text(outcome, reader=OPERATOR)


def test_unknown_fields_make_another_question() -> None:
    plain = a_claim()
    assert fingerprint_of([plain]) != fingerprint_of([replace(plain, unknown_fields=("spec.quantum",))])
    odd = replace(plain.requests[0], unknown_fields=("quantum",))
    assert fingerprint_of([plain]) != fingerprint_of([replace(plain, requests=(odd,))])


def test_allocation_on_a_node_is_that_of_the_node() -> None:
    fleet = a_fleet(alike(3), 3)
    outcome = fleet.allocate(2, [a_claim()])
    assert isinstance(outcome, Allocated)
    assert outcome.allocations[0].results[0].pool == "pool-002"


def test_node_is_asked_as_if_claims_were_gone_which_stay() -> None:
    fleet = a_fleet(alike(3), 3)
    held = [an_allocated_claim(a_result(name, pool="pool-002"), name=name) for name in ("gpu-000", "gpu-001")]
    fleet.add_allocated(held)
    assert isinstance(fleet.allocate(2, [a_claim()], freed=held[:1]), Allocated)
    assert not isinstance(fleet.allocate(2, [a_claim()]), Allocated)
    assert fleet.able([a_claim()]) == 0b011


def test_question_that_is_cancelled_goes_on_where_it_was_also_when_things_have_changed_in_between() -> None:
    left, uuid = 0, 'device.attributes["gpu.example"].uuid'

    def is_cancelled() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    slices = [
        a_slice(a_device("gpu-0", {"uuid": name_of(n)}), pool=name_of(n), reach=on_node(name_of(n))) for n in range(40)
    ]
    nodes = [a_node(name_of(number)) for number in range(40)]
    fleet = Fleet(a_snapshot(*slices), nodes, is_cancelled=is_cancelled)
    claim, times = a_claim(a_request("gpus", 1, f'{uuid} != "{name_of(7)}" && {uuid} != ""')), 0
    while True:
        left = 10
        try:
            able = fleet.able([claim])
        except Cancelled:
            times += 1
            fleet.remove_slice(slices[times])
        else:
            break
    assert 2 < times < 20
    assert able == Fleet(a_snapshot(slices[0], *slices[times + 1 :]), nodes).able([claim])


# -- what belongs to whom


def test_snapshot_stays_as_it_is_whatever_happens_to_the_fleet() -> None:
    given = a_snapshot(a_pool(0))
    fleet = Fleet(given, [a_node(name_of(number)) for number in range(3)])
    taken = fleet.snapshot
    used = taken.with_allocated([an_allocated_claim(a_result("gpu-000", pool="pool-000"))])
    fleet.add_slice(a_pool(1))
    between = fleet.snapshot
    fleet.remove_slice(given.by_pool["gpu.example", "pool-000"][0])  # type: ignore[index]
    fleet.add_slice(a_pool(2))
    assert fleet.able([a_claim()]) == 0b110
    for snapshot, able in ((given, 0b001), (taken, 0b001), (used, 0b001), (between, 0b011), (fleet.snapshot, 0b110)):
        answers = [allocate(snapshot, a_node(name_of(number)), [a_claim()]) for number in range(3)]
        assert [isinstance(answer, Allocated) for answer in answers] == [bool(able >> n & 1) for n in range(3)]
        assert Fleet(snapshot, [a_node(name_of(number)) for number in range(3)]).able([a_claim()]) == able


def test_snapshot_stays_as_it_is_whatever_is_in_use_afterwards() -> None:
    claim = an_allocated_claim(a_result("gpu-000", pool="pool-000"))
    fleet = Fleet(a_snapshot(a_pool(0, 1)), [a_node(name_of(0))])
    free = fleet.snapshot
    fleet.add_allocated([claim])
    used = fleet.snapshot
    fleet.remove_allocated([claim])
    found = [allocate(snapshot, a_node(name_of(0)), [a_claim()]) for snapshot in (free, used, fleet.snapshot)]
    assert [isinstance(one, Allocated) for one in found] == [True, False, True]


def test_two_fleets_of_one_snapshot_live_apart() -> None:
    snapshot = a_snapshot(a_pool(0))
    nodes = [a_node(name_of(number)) for number in range(2)]
    first, second = Fleet(snapshot, nodes), Fleet(snapshot, nodes)
    first.add_slice(a_pool(1))
    assert (first.able([a_claim()]), second.able([a_claim()])) == (0b11, 0b01)


SELECTIVE = a_claim(a_request("gpus", 1, 'device.attributes["gpu.example"].uuid != ""'))


def varied(number: int, count: int = 50) -> Slice:
    members = [a_device(f"gpu-{n:03}", {"uuid": f"{number}-{n}"}) for n in range(count)]
    return a_slice(*members, name=name_of(number), pool=name_of(number), reach=on_node(name_of(number)))


def test_cancellation_belongs_to_one_fleet() -> None:
    snapshot = a_snapshot(varied(0))
    cancelled = Fleet(snapshot, [a_node(name_of(0))], is_cancelled=lambda: True)
    patient = Fleet(snapshot, [a_node(name_of(0))])
    with pytest.raises(Cancelled):
        cancelled.able([SELECTIVE])
    assert patient.able([SELECTIVE]) == 1


@pytest.mark.parametrize("derives", [False, True])
def test_decision_is_given_up_between_the_evaluations_of_its_expressions(derives: bool) -> None:  # noqa: FBT001
    asked = 0

    def is_cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > 10

    claim = SELECTIVE
    if derives:
        request = a_request(derived_attributes=(("gpu.example/half", 'device.attributes["gpu.example"].uuid'),))
        claim = a_claim(request, constraints=(match("gpu.example/half"),))
    snapshot = a_snapshot(varied(0), features=kubernetes(DRADerivedAttributes=True))
    with pytest.raises(Cancelled):
        allocate(snapshot, a_node(name_of(0)), [claim], is_cancelled=is_cancelled)
    assert asked == 11


# -- memory


def test_no_more_expressions_are_kept_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocator.cluster.snapshot.MOST_EXPRESSIONS", 5)
    snapshot = a_snapshot(a_pool(0))
    for number in range(20):
        expression = f"{number} == {number}"
        assert isinstance(allocate(snapshot, a_node(name_of(0)), [a_claim(a_request("g", 1, expression))]), Allocated)
    assert len(snapshot.selectors._known) == snapshot.selectors.kept == 5


def test_nothing_is_kept_of_slices_that_are_gone() -> None:
    slice_ = a_pool(0)
    fleet = a_fleet([slice_], 1)
    for number in range(3 * SPARE):
        fleet.remove_slice(slice_)
        slice_ = replace(slice_, devices=(a_device(f"gpu-{number}", {"uuid": str(number)}, pool="pool-000"),))
        fleet.add_slice(slice_)
        assert fleet.able([a_claim(a_request("gpus", 1, 'device.attributes["gpu.example"].uuid != ""'))])
    fingerprints = fleet._nodes.fingerprints
    assert len(fingerprints._known) == 1
    assert max(len(fingerprints._of_nodes), len(fingerprints._of_slices)) <= 2 * SPARE
    assert fleet.snapshot.selectors.kept == len(fleet.snapshot.selectors._slices) == 1


def test_nothing_is_kept_of_what_was_in_use() -> None:
    fleet = a_fleet([a_pool(0, 8)], 1)
    for number in range(3 * SPARE):
        held = [on(0, f"gpu-{bit:03}", name=f"{bit}") for bit in range(8) if number >> bit & 1]
        fleet.add_allocated(held)
        fleet.able([a_claim()])
        fleet.remove_allocated(held)
    assert len(fleet.snapshot.usage.holders) == 0
    assert len(fleet._nodes.groups) == 1
    assert all(len(answers.of_group) <= 2 * SPARE for answers in fleet._answers._by_question.values())


def unlike(nodes: int) -> list[Slice]:
    """A device each, of which no two have the same uuid."""
    return [
        a_slice(
            a_device("gpu-000", {"uuid": number}),
            name=f"slice-{number:03}",
            pool=f"pool-{number:03}",
            reach=on_node(name_of(number)),
        )
        for number in range(nodes)
    ]


NODE_AND_OTHERS = 2
"""What is asked where one node has the uuid: that node, and one of the others."""


def with_uuid(number: int) -> Claim:
    return a_claim(a_request("gpus", 1, f'device.attributes["gpu.example"].uuid == {number}'))


def test_answers_are_kept_up_to_a_limit_over_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocator.fleet.answer_cache.MOST_ANSWERS", 10 * MANY)
    monkeypatch.setattr("allocator.fleet.answer_cache.LEAST_QUESTIONS", 1)
    fleet = a_fleet(unlike(MANY))
    for number in range(MANY):
        assert fleet.able([with_uuid(number)]) == 1 << number
        assert fleet.kept == sum(answers.kept for answers in fleet._answers._by_question.values()) <= 10 * MANY
    assert len(fleet._answers._by_question) == 4  # an answer is kept by group, and what is seen of each projection
    asked = fleet.asked
    assert fleet.able([with_uuid(MANY - 4)]) == 1 << MANY - 4
    assert fleet.asked == asked
    assert fleet.able([with_uuid(0)]) == 1
    assert fleet.asked == asked + NODE_AND_OTHERS


def test_answers_of_the_question_that_is_asked_for_are_kept_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocator.fleet.answer_cache.MOST_ANSWERS", 1)
    monkeypatch.setattr("allocator.fleet.answer_cache.LEAST_QUESTIONS", 0)
    fleet = a_fleet(unlike(MANY))
    for _ in range(2):
        assert fleet.able([with_uuid(7)]) == 1 << 7
    assert fleet.asked == NODE_AND_OTHERS
    assert fleet.able([with_uuid(8)]) == 1 << 8
    assert len(fleet._answers._by_question) == 1


def test_questions_of_many_requests_leave_room_for_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of pods that are gone, each with hundreds of requests of its own names, took a gigabyte."""
    monkeypatch.setattr("allocator.fleet.answer_cache.MOST_TEXT", 100 * PER_ALTERNATIVE)
    fleet = a_fleet(alike(2), 2)
    for number in range(20):
        assert fleet.able([a_claim(*(a_request(f"r{number}-{one}", 0) for one in range(30)))]) == fleet.all
    assert len(fleet._answers._by_question) == 3
    assert len(fleet._kinds) <= 3


def test_what_is_remembered_by_the_kind_of_a_node_does_not_keep_the_claims() -> None:
    """There are thousands of such answers, of claims that may be gone."""
    kinds = a_fleet(alike(2)).kinds([a_claim(a_request("gpus", 1))])
    assert kinds.of(0) == kinds.of(0)
    assert kinds not in gc.get_referents(kinds.of(0))


def test_questions_with_long_expressions_leave_room_for_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocator.fleet.answer_cache.MOST_TEXT", 1000)
    monkeypatch.setattr("allocator.fleet.alike.PER_ALTERNATIVE", 0)
    fleet = a_fleet(alike(2), 2)
    claims = [a_claim(a_request("gpus", 1, f"{number} != -1".ljust(400))) for number in range(5)]
    for claim in claims:
        assert fleet.able([claim]) == fleet.all
        assert fleet._answers._text == sum(answers.text for answers in fleet._answers._by_question.values()) <= 1000
    asked = fleet.asked
    assert fleet.able([claims[-1]]) == fleet.able([claims[-2]]) == fleet.all
    assert fleet.asked == asked
    assert fleet.able([claims[0]]) == fleet.all
    assert fleet.asked == asked + 1


def test_as_many_questions_are_kept_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocator.fleet.answer_cache.MOST_QUESTIONS", 2)
    fleet = a_fleet(alike(2), 2)
    for count in (1, 2, 3):
        fleet.able([a_claim(a_request(count=count))])
    asked = fleet.asked
    for count in (2, 3):
        fleet.able([a_claim(a_request(count=count))])
    assert (len(fleet._answers._by_question), fleet.asked) == (2, asked)


def test_some_questions_are_kept_however_large_the_fleet_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocator.fleet.answer_cache.MOST_ANSWERS", 1)
    monkeypatch.setattr("allocator.fleet.answer_cache.LEAST_QUESTIONS", 3)
    fleet = a_fleet(unlike(MANY))
    for _ in range(2):
        for number in range(3):
            assert fleet.able([with_uuid(number)]) == 1 << number
    assert fleet.asked == 3 * NODE_AND_OTHERS


def test_nodes_that_are_refused_for_the_same_reason_keep_one_refusal() -> None:
    fleet = a_fleet(unlike(MANY))
    fleet.able([with_uuid(-1)])
    (answers,) = fleet._answers._by_question.values()
    assert (len(answers.of_group), len(answers.worked_out)) == (MANY, 1)
    assert len({id(answer) for answer in answers.of_group.values()}) == 1
    reported = fleet.refusal([with_uuid(-1)], 3)
    assert isinstance(reported, Refused)
    assert isinstance(reported.cause, NotEnough)
    assert [str(device) for device in reported.cause.refusals[0].devices] == ["gpu.example/pool-003/gpu-000"]


def test_question_that_missed_too_many_changes_is_right_again() -> None:
    fleet = a_fleet([a_pool(0, 1), a_pool(1, 1)], 2)
    assert fleet.able([a_claim()]) == 0b11
    other = a_claim(a_request(count=2))
    for _ in range(LEAST_CHANGES):
        fleet.add_allocated([on(0)])
        fleet.able([other])
        fleet.remove_allocated([on(0)])
        fleet.able([other])
    missed, asked = fleet._answers._by_question.values()
    assert not missed.of_group
    assert asked.of_group
    assert fleet.kept == missed.kept + asked.kept
    fleet.add_allocated([on(1)])
    assert fleet.able([a_claim()]) == 0b01


def test_node_without_slices_gives_nothing() -> None:
    fleet = Fleet(a_snapshot(), [Node("lonely")])
    assert fleet.able([a_claim()]) == 0


@pytest.mark.parametrize("asked_in_between", [1, LEAST_CHANGES])
def test_policies_share_what_happens_and_have_answers_of_their_own(asked_in_between: int) -> None:
    """However much has happened since one of them was asked."""
    first = a_fleet([a_pool(number, count=3) for number in range(4)], 4)
    packing, spreading = first.by(policy_of("pack")), first.by(policy_of("spread"))
    assert [fleet.policy.name for fleet in (first, packing, spreading)] == ["first-fit", "pack", "spread"]
    held = [on(2, f"gpu-00{n}", f"holder-{n}") for n in range(2)]
    packing.add_allocated(held[:1])
    assert [node_of(fleet) for fleet in (first, packing, spreading)] == ["node-000", "node-002", "node-000"]
    for _ in range(asked_in_between):
        first.add_allocated(held[1:])
        assert node_of(first) == "node-000"
        first.remove_allocated(held[1:])
    spreading.add_allocated([on(0, name="another")])
    assert [node_of(fleet) for fleet in (first, packing, spreading)] == ["node-000", "node-000", "node-001"]
    first.remove_allocated(held[:1])
    spreading.remove_node(0)
    assert [node_of(fleet) for fleet in (first, packing, spreading)] == ["node-001"] * 3


def of(test: str) -> str:
    return f'device.attributes["{DRIVER}"].{test}'


def test_kinds_are_what_claims_read_and_not_what_else_devices_have() -> None:
    models = ("A", "B", "A")
    slices = [
        a_slice(
            a_device("gpu-0", {"model": models[number], "uuid": f"GPU-{number}"}),
            name=name_of(number),
            pool=name_of(number),
            reach=on_node(name_of(number)),
        )
        for number in range(3)
    ]
    fleet = a_fleet(slices, 4)
    of_model = [a_claim(a_request("gpu", 1, of('model == "A"')))]
    first, second, third, empty = (fleet.kinds(of_model).of(number) for number in range(4))
    assert first == third
    assert len({first, second, empty}) == 3
    any_model = fleet.kinds([a_claim(a_request("gpu"))])
    assert any_model.of(0) == any_model.of(1) != any_model.of(3)
    by_uuid = fleet.kinds([a_claim(a_request("gpu", 1, of('uuid == "GPU-1"')))])
    assert len({by_uuid.of(number) for number in range(4)}) == 4


def test_nodes_are_alike_that_have_equal_devices_with_the_same_in_use() -> None:
    fleet = a_fleet(alike(3), 4, held=[on(1, "gpu-000")])
    assert sorted(fleet.alike(0b1111)) == [0b0010, 0b0101, 0b1000]
    assert sorted(fleet.alike(0b1110)) == [0b0010, 0b0100, 0b1000]
    fleet.remove_allocated([on(1, "gpu-000")])
    assert sorted(fleet.alike(-1)) == [0b0111, 0b1000]


def test_kinds_stay_until_a_class_that_is_named_changes() -> None:
    fleet = a_fleet(alike(2), 2)
    kinds = fleet.kinds([a_claim(a_request("gpu"))])
    fleet.set_class(a_class("other"))
    assert fleet.are_current(kinds)
    assert fleet.kinds([a_claim(a_request("gpu"))]) is kinds
    fleet.set_class(a_class())
    assert not fleet.are_current(kinds)
    assert fleet.kinds([a_claim(a_request("gpu"))]) is not kinds
