"""The parts of the benchmark of decisions alone that need no Go: what is decided, whether it is right, the figures."""

import pytest

from allocator.policies import policy_of
from benchmarks.cycle import gangs, limits
from benchmarks.cycle.cases import CASES, cluster
from benchmarks.cycle.correctness import WrongChoice, check
from benchmarks.cycle.figures import WARM_UP, PolicyRun, Run, Times, policy_rows, policy_table, rows, table
from benchmarks.cycle.ours import NotDecided, cycle, loaded
from benchmarks.endtoend.figures import Range
from benchmarks.endtoend.workload import EVERY_FILTER, PLAIN, Asks
from scheduler.pod_groups.group_placer import place_group
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupPlaced

NODES, WAITING = 150, 30

every_case = pytest.mark.parametrize("asks", CASES.values(), ids=CASES)


def times(first_s: float, each_s: float) -> Times:
    return Times([first_s] * WARM_UP + [each_s] * 100)


@every_case
def test_our_decisions_are_right_in_every_case(asks: Asks) -> None:
    found, waiting = loaded(cluster(asks, NODES, WAITING))
    assert len(waiting) == WAITING
    check(asks, NODES, [cycle(found, pod) for pod in waiting])


@pytest.mark.parametrize("policy", ["fgd", "fill-value"])
def test_decisions_by_policies_are_right(policy: str) -> None:
    found, waiting = loaded(cluster(PLAIN, NODES, WAITING), policy_of(policy))
    check(PLAIN, NODES, [cycle(found, pod) for pod in waiting])


def test_limits_that_leave_enough_change_no_decision() -> None:
    found = limits.measured(NODES, WAITING)
    assert {case: len(each) for case, each in found.items()} == dict.fromkeys(limits.CASES, WAITING)
    assert len(limits.limits(NODES)) == limits.LIMITS


@every_case
def test_pods_on_nodes_are_right_before_anything_is_decided(asks: Asks) -> None:
    check(asks, NODES, [])


def test_all_pods_have_what_they_ask_for() -> None:
    case = cluster(EVERY_FILTER, NODES, WAITING)
    assert sum("nodeName" in pod["spec"] for pod in case["pods"]) == NODES
    assert sum("status" in claim for claim in case["resourceClaims"]) == NODES
    assert len(case["persistentVolumes"]) == len(case["persistentVolumeClaims"]) == NODES + WAITING
    assert cluster(Asks("nothing"), NODES, WAITING).keys() == {"nodes", "pods"}


def test_a_pod_that_gets_no_node_is_an_error() -> None:
    found, waiting = loaded(cluster(PLAIN, 1, 10))
    for pod in waiting[:9]:
        cycle(found, pod)
    with pytest.raises(NotDecided, match="pod default/pod-00010 is not placed"):
        cycle(found, waiting[9])


def test_a_choice_that_cannot_be_does_not_count() -> None:
    with pytest.raises(WrongChoice, match="there is no node node-9"):
        check(PLAIN, 3, ["node-9"])
    with pytest.raises(WrongChoice, match="11 pods on node-00000, which has 10 devices"):
        check(PLAIN, 3, ["node-00000"] * 10)
    with pytest.raises(WrongChoice, match="2 pods of app-000 on node 0"):
        check(EVERY_FILTER, 3, ["node-00000"])


def test_the_first_decisions_do_not_count_and_ratios_are_of_one_round() -> None:
    runs = [
        Run("every filter", 500, times(1.0, 0.001), times(1.0, 0.01), times(1.0, 0.02), 300),
        Run("every filter", 500, times(1.0, 0.002), times(1.0, 0.04), times(1.0, 0.06), 200),
    ]
    (row,) = rows(runs)
    assert (row.ours_ms, row.ours_first_ms, row.ours_p99_ms) == pytest.approx((1.5, 1000, 1.5))
    assert row.times_sampled == pytest.approx(Range(15, 10, 20))
    assert row.times_thorough == pytest.approx(Range(25, 20, 30))
    assert row.best == 200
    document = row.document()
    assert document["target"] == 5.0
    assert document["times_sampled"] == {"median": 15.0, "least": 10.0, "greatest": 20.0}


def test_the_table_has_a_line_for_each_size_and_case() -> None:
    same = times(1.0, 0.5)
    runs = [Run(case, nodes, same, same, same, best=7) for case in ("a", "b") for nodes in (500, 15_000)]
    lines = table(rows(runs)).splitlines()
    assert len(lines) == 2 + len(runs)
    assert lines[2] == "| 500 | a | 500; 500; 1e+03 | 500 | 1.0 (1.0 to 1.0) | 500 | 1.0 (1.0 to 1.0) | 7 |"


def test_policies_have_lines_of_their_own_with_their_longest_decision() -> None:
    runs = [PolicyRun("fgd", 5000, Times([*times(1.0, each_s).seconds, 0.5])) for each_s in (0.001, 0.003)]
    (row,) = policy_rows(runs)
    assert (row.mean_ms, row.longest_ms, row.first_ms) == pytest.approx((6.93, 500, 1000), rel=1e-3)
    assert row.document()["target_ms"] == 2.0
    assert policy_table([row]).splitlines()[2] == "| 5,000 | fgd | 6.93 | 2 | 500 | 1e+03 |"


@pytest.mark.parametrize("case", gangs.CASES)
def test_groups_that_are_measured_have_their_place_or_lack_one_node(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, members = (120, 32) if case == gangs.RACK else (40, 16)
    monkeypatch.setitem(gangs.CASES, case, (nodes, members, 8))
    cluster, group = gangs.gang(case)
    found = place_group(cluster, group)
    if case == gangs.REFUSED:
        assert isinstance(found, GroupNotPlaced)
        assert [len(one.largest) for one in found.domains] == [members - 1]
    else:
        assert isinstance(found, GroupPlaced)
        assert len({one.placed.node for one in found.members}) == members
        assert found.domain == ("rack-2" if case == gangs.RACK else "")
