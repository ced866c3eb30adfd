"""The pure parts of the extender's benchmark: what is asked, what changes meanwhile, and what the figures come to."""

import json
from collections import Counter
from itertools import islice

import pytest

from benchmarks.endtoend.workload import DEVICES_OF_NODE, Json, node_name
from benchmarks.extender.cases import (
    CASES,
    CHANGED,
    PODS,
    SHAPES,
    Case,
    asked_claims,
    body,
    change,
    changed_claims,
    held_claims,
    packed,
    pod,
)
from benchmarks.extender.client import ClientWrongAnswer, check
from benchmarks.extender.figures import TARGET_MS, Called, Round, Row, percentile, rows, table
from scheduler.extender.wire import ExtenderArgs, read
from scheduler.kinds import claim_of, pod_of

SMALL = Case("44 nodes", 44, packed)
ANSWER = {"NodeNames": ["a"], "FailedNodes": {"b": "why"}, "FailedAndUnresolvableNodes": {"c": "why"}, "Error": ""}


def devices_of(claim: Json) -> list[tuple[str, str]]:
    allocation = claim.get("status", {}).get("allocation", {"devices": {"results": []}})
    return [(result["pool"], result["device"]) for result in allocation["devices"]["results"]]


def a_round(*calls_s: float, first_s: float = 0.5) -> Round:
    return Round("a case", [first_s], Called(calls_s, 0.004, 100.0, 99.0), [0.002] * 3, [0.001] * 3)


def a_row(found: list[Row], name: str) -> Row:
    return next(row for row in found if row.case == f"a case: {name}")


@pytest.mark.parametrize(("name", "states"), [("packed", 11), ("scattered", 1024)])
def test_nodes_are_in_as_many_states_as_the_case_is_named_for(name: str, states: int) -> None:
    case = CASES[name]
    assert len({case.in_use(number) for number in range(case.nodes)}) == states
    assert f"{states:,} states" in case.name


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_device_is_given_twice_and_each_claim_gives_back_what_it_has_before_it_gets_another(case: Case) -> None:
    in_use = Counter(device for claim in held_claims(case) for device in devices_of(claim))
    changed = {claim["metadata"]["name"]: devices_of(claim) for claim in changed_claims()}
    for number in range(6 * CHANGED):
        claim = change(case, number)
        name, found = claim["metadata"]["name"], devices_of(claim)
        assert bool(found) != bool(changed[name])
        in_use.subtract(changed[name])
        in_use.update(found)
        changed[name] = found
        assert all(in_use[device] == 1 for device in found)
    assert in_use.keys() <= {(node_name(n), f"gpu-{d}") for n in range(case.nodes) for d in range(DEVICES_OF_NODE)}


def test_a_call_is_one_that_the_extender_reads_about_a_pod_whose_claim_is_there() -> None:
    args = read(ExtenderArgs, body(SMALL, PODS - 1))
    assert args.NodeNames == [node_name(number) for number in range(44)]
    (entry,) = pod_of(args.Pod).claims
    assert entry.claim_name in {claim["metadata"]["name"] for claim in asked_claims()}


def test_pods_of_all_claims_come_in_turn() -> None:
    wanted = [claim_of(claim).claim.requests for claim in islice(asked_claims(), len(SHAPES))]
    assert len(set(map(str, wanted))) == len(SHAPES)
    assert pod_of(pod(0)).uid != pod_of(pod(len(SHAPES))).uid


def test_answer_has_to_report_every_node() -> None:
    check(200, json.dumps(ANSWER).encode(), 3)


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (503, ANSWER, "status 503"),
        (200, {**ANSWER, "Error": "not yet"}, "not yet"),
        (200, {**ANSWER, "NodeNames": []}, "2 of 3 nodes"),
    ],
)
def test_another_answer_is_none_to_be_measured(status: int, answer: Json, said: str) -> None:
    with pytest.raises(ClientWrongAnswer, match=said):
        check(status, json.dumps(answer).encode(), 3)


def test_percentile_is_one_of_the_times_that_enough_do_not_exceed() -> None:
    times = [float(number) for number in range(100, 0, -1)]
    assert [percentile(times, part) for part in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert percentile([3.0], 0.99) == 3.0


def test_figures_are_medians_of_the_rounds_with_their_spread_and_one_has_a_target() -> None:
    found = rows([a_round(0.004, 0.005, 0.030), a_round(0.004, 0.006, 0.010), a_round(0.004, 0.007, 0.012)])
    p99 = a_row(found, "filter over mutual TLS, p99")
    assert (p99.unit, p99.target) == ("ms", TARGET_MS)
    assert (p99.ours, p99.least, p99.greatest) == pytest.approx((12.0, 10.0, 30.0))
    assert a_row(found, "the allocator alone, p99").ours == pytest.approx(1.0)
    assert [row.case for row in found if row.target is not None] == [p99.case]


def test_first_calls_are_those_of_the_first_round_alone() -> None:
    found = rows([a_round(0.001, first_s=0.5), a_round(0.001, first_s=0.5)])
    assert a_row(found, "the first call ever for new claims, greatest").ours == pytest.approx(500.0)


def test_the_table_says_what_has_to_be_met() -> None:
    lines = table(rows([a_round(0.004, 0.005, 0.0061)])).splitlines()
    assert lines[0] == "| case | unit | ours | least to greatest | target |"
    assert "| a case: filter over mutual TLS, p99 | ms | 6.1 | 6.1 to 6.1 | under 20 |" in lines
    assert "| a case: filter over mutual TLS, median | ms | 5 | 5 to 5 | - |" in lines
