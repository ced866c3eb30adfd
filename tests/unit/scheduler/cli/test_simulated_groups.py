"""`dra simulate`: groups of pods are placed whole, and how long they waited is told by their size."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core_v1.group_terms import GROUP, MINIMUM, PREFERRED, REQUIRED
from scheduler.simulation.result import Distribution, GroupSummary, Scenario, TogetherSummary
from tests.unit.scheduler.cli.command import dra, saved
from tests.unit.scheduler.cli.test_simulate import a_trace, explained, only, simulate
from tests.unit.scheduler.manifests import Json, a_class, a_cluster, a_node, a_pod, a_slice, a_template, an_object


def a_member(time: float, name: str, minimum: int, *, group: str = "g", **fields: Any) -> Json:
    """The arrival of a pod of a group; fields of its line, or of its pod in `pod`."""
    metadata = {"labels": {GROUP: group}, "annotations": {MINIMUM: str(minimum), **fields.pop("terms", {})}}
    return {"time": time, "pod": a_pod(name, template="one", metadata=metadata, **fields.pop("pod", {})), **fields}


def a_single(time: float, name: str, **fields: Any) -> Json:
    return {"time": time, "pod": a_pod(name, template="one", **fields.pop("pod", {})), **fields}


def happening(folder: Path, objects: Sequence[Json], *lines: Json, options: Sequence[str] = ()) -> Scenario:
    names = [line["pod"]["metadata"]["name"] for line in lines if "pod" in line]
    seen = [text for name in names for text in ("--explain", name)]
    return only(simulate(folder, objects, "--trace", a_trace(folder, *lines), *options, *seen))


def placed(scenario: Scenario) -> dict[str, tuple[float, str]]:
    """By pod, when it was first placed, and where."""
    found: dict[str, tuple[float, str]] = {}
    for one in scenario.explained:
        if one.node:
            found.setdefault(one.pod.removeprefix("default/"), (one.time_s, one.node))
    return found


def test_a_group_waits_for_its_members_and_is_placed_at_one_moment(tmp_path: Path) -> None:
    scenario = happening(
        tmp_path, a_cluster("n1", "n2"), *(a_member(10.0 * place, f"m{place}", 3, duration=50) for place in range(3))
    )
    assert {time for time, _ in placed(scenario).values()} == {20.0}
    assert len(placed(scenario)) == 3
    assert scenario.summary.end_s == 70  # they leave together
    assert scenario.summary.groups == (GroupSummary(3, 1, 1, 0, 0, Distribution(1, 0, 0, 0, 0, 0)),)


def test_nobody_of_a_group_holds_devices_while_it_waits_for_room(tmp_path: Path) -> None:
    """One device is free when a group of two comes: a single that comes later takes it."""
    scenario = happening(
        tmp_path,
        a_cluster("n1"),
        a_single(0, "long", duration=100),
        a_member(1, "m0", 2, duration=10),
        a_member(1, "m1", 2, duration=10),
        a_single(2, "short", duration=20),
    )
    assert placed(scenario) == {"long": (0, "n1"), "short": (2, "n1"), "m0": (100, "n1"), "m1": (100, "n1")}
    (group,) = scenario.summary.groups
    assert (group.minimum, group.placed, group.waiting_s.p50, group.waiting_s.p99) == (2, 1, 99, 99)
    refusals = [line for line in explained(scenario) if line.startswith("1 m0")]
    assert refusals[0].startswith("1 m0 pod group default/g does not fit: 2 of 2 pods have to fit at once: 1 of 2 fit")


def test_members_beyond_the_minimum_come_when_there_is_room(tmp_path: Path) -> None:
    scenario = happening(
        tmp_path,
        a_cluster("n1"),
        *(a_member(0, f"m{place}", 2, duration=30 + place) for place in range(3)),
    )
    assert sorted(time for time, _ in placed(scenario).values()) == [0, 0, 30]
    assert [(one.arrivals, one.placed, one.waiting) for one in scenario.summary.groups] == [(1, 1, 0)]


def test_groups_that_wait_at_the_end_are_told_by_size_and_whether_pods_are_missing(tmp_path: Path) -> None:
    scenario = happening(
        tmp_path,
        a_cluster("n1"),
        *(a_member(0, f"big{place}", 3, group="big") for place in range(3)),
        *(a_member(0, f"few{place}", 3, group="few") for place in range(2)),
        *(a_member(5, f"fits{place}", 2, group="fits") for place in range(2)),
    )
    assert scenario.summary.groups == (
        GroupSummary(2, 1, 1, 0, 0, Distribution(1, 0, 0, 0, 0, 0)),
        GroupSummary(3, 2, 0, 2, 1, Distribution()),
    )
    assert (scenario.summary.placed, scenario.summary.waiting) == (2, 5)


def racks(*nodes_by_rack: int) -> list[Json]:
    """Nodes with one device each, in racks of so many."""
    found: list[Json] = [a_class(), a_template()]
    for rack, count in enumerate(nodes_by_rack):
        for number in range(count):
            name = f"r{rack}-{number}"
            found += [a_node(name, labels={"rack": f"r{rack}"}), a_slice(node=name, count=1)]
    return found


@pytest.mark.parametrize(
    ("term", "nodes", "kept"), [(REQUIRED, (1, 2), 1), (PREFERRED, (1, 2), 1), (PREFERRED, (1, 1), 0)]
)
def test_groups_in_one_domain_are_counted_by_the_label_that_they_name(
    tmp_path: Path, term: str, nodes: tuple[int, ...], kept: int
) -> None:
    members = (a_member(0, f"m{place}", 2, terms={term: "rack"}) for place in range(2))
    scenario = happening(tmp_path, racks(*nodes), *members)
    assert scenario.summary.together == {"rack": TogetherSummary(1, kept, 100.0 * kept)}


def test_a_pod_group_of_the_input_is_read_and_one_without_is_no_group(tmp_path: Path) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    pod_group = {**an_object("scheduling.k8s.io/v1alpha2", "PodGroup", "g", "default"), "spec": spec}
    pods = [a_pod(f"m{place}", template="one", schedulingGroup={"podGroupName": "g"}) for place in range(2)]
    scenario = only(simulate(tmp_path, [*a_cluster("n1", count=1), pod_group, *pods]))
    assert [(one.minimum, one.placed, one.waiting) for one in scenario.summary.groups] == [(2, 0, 1)]
    alone = only(simulate(tmp_path, [*a_cluster("n1", count=1), *pods]))
    assert (alone.summary.placed, alone.summary.groups) == (1, ())


def test_members_of_a_dump_that_run_count_for_the_minimum(tmp_path: Path) -> None:
    """Two run when the third comes; as the node fails, all three wait, and come back together."""
    bound = [a_member(0, f"m{place}", 2)["pod"] for place in range(2)]
    for pod in bound:
        pod["spec"] = {"nodeName": "n1"}
    trace = a_trace(tmp_path, {"time": 1, "change": "fail:n1"}, {"time": 9, "change": "recover:n1"})
    seen = ("--explain", "m0", "--explain", "m1")
    scenario = only(simulate(tmp_path, [a_node("n1"), *bound], "--trace", trace, *seen))
    assert placed(scenario) == {"m0": (9, "n1"), "m1": (9, "n1")}
    assert scenario.summary.groups == (GroupSummary(2, 1, 1, 0, 0, Distribution(1, 8, 8, 8, 8, 8)),)


def test_pods_of_lower_priority_go_for_a_whole_group_or_stay(tmp_path: Path) -> None:
    low: Json = {"pod": {"priority": 1}}
    high: Json = {"pod": {"priority": 9}}
    small = [a_single(0, f"low{place}", duration=100, **low) for place in range(2)]
    pair = [a_member(5, f"m{place}", 2, duration=10, **high) for place in range(2)]
    scenario = happening(tmp_path, a_cluster("n1"), *small, *pair)
    assert (scenario.summary.preempted, placed(scenario)["m0"], placed(scenario)["m1"]) == (2, (5, "n1"), (5, "n1"))
    (told,) = {line for line in explained(scenario) if line.startswith("5 m")} and {
        one.reason for one in scenario.explained if one.node and one.pod.startswith("default/m")
    }
    assert told == "evicts default/low0, default/low1"
    three = [a_member(5, f"m{place}", 3, duration=10, **high) for place in range(3)]
    assert happening(tmp_path, a_cluster("n1"), *small, *three).summary.evictions == 0


def test_a_member_that_can_never_be_placed_is_given_up_and_the_others_wait_for_one_more(tmp_path: Path) -> None:
    broken = a_member(0, "broken", 2)
    broken["pod"]["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "missing"
    members = [a_member(0, "m0", 2), a_member(7, "m1", 2)]
    scenario = happening(tmp_path, a_cluster("n1"), broken, *members)
    assert placed(scenario) == {"m0": (7, "n1"), "m1": (7, "n1")}
    assert (scenario.summary.failed, scenario.summary.waiting) == (1, 0)


def test_a_member_with_gates_keeps_a_group_that_needs_it_waiting(tmp_path: Path) -> None:
    gated = a_member(0, "gated", 2, pod={"schedulingGates": [{"name": "quota"}]})
    scenario = happening(tmp_path, a_cluster("n1"), gated, a_member(0, "m0", 2))
    assert (scenario.summary.placed, scenario.summary.waiting) == (0, 2)


def test_a_pod_that_is_deleted_while_its_group_waits_is_no_member_any_more(tmp_path: Path) -> None:
    lines = [a_member(0, "m0", 2), {"time": 5, "delete": "m0"}, a_member(9, "m1", 2), a_member(11, "m2", 2)]
    scenario = happening(tmp_path, a_cluster("n1"), *lines)
    assert placed(scenario) == {"m1": (11, "n1"), "m2": (11, "n1")}


def test_refused_groups_are_given_up_whole_without_retries(tmp_path: Path) -> None:
    lines = [a_single(0, "s", duration=5), *(a_member(1, f"m{place}", 2) for place in range(2))]
    scenario = happening(tmp_path, a_cluster("n1"), *lines, options=("--no-retries",))
    assert (scenario.summary.refused, scenario.summary.placed) == (2, 1)
    assert [(one.placed, one.waiting) for one in scenario.summary.groups] == [(0, 1)]


def test_a_group_whose_marks_are_wrong_is_given_up_with_the_reason(tmp_path: Path) -> None:
    scenario = happening(tmp_path, a_cluster("n1"), a_member(0, "m0", 1), a_member(0, "m1", 2))
    assert scenario.summary.failed == 2
    (reason,) = {one.reason for one in scenario.explained if not one.node}
    assert "metadata.annotations[dra-scheduler.dev/group-min]" in reason


def test_the_table_has_a_line_for_each_size_and_policy(tmp_path: Path) -> None:
    lines = [a_member(0, f"m{place}", 2, terms={REQUIRED: "rack"}) for place in range(2)]
    trace = a_trace(tmp_path, *lines)
    run = dra("simulate", saved(tmp_path, *racks(1, 2)), "--trace", trace, "--policy", "pack", "--policy", "spread")
    assert run.code == 0, run.err
    told = [line.split() for line in run.out.splitlines()]
    at = next(place for place, line in enumerate(told) if line[:2] == ["GROUPS", "OF"])
    columns = "POLICY ARRIVED PLACED WAITING INCOMPLETE WAIT P50 P90 P99"
    assert told[at] == ["GROUPS", "OF", *columns.split()]
    assert told[at + 1 : at + 3] == [["2", name, "1", "1", "0", "0", "0s", "0s", "0s"] for name in ("pack", "spread")]
    assert ["rack", "100.00", "100.00"] in told
    page = dra("simulate", saved(tmp_path, *racks(1, 2)), "--trace", trace, "-o", "html").out
    assert "Groups in one domain, %" in page
    assert "Wait p99 of groups, s" in page
    figures = dra("simulate", saved(tmp_path, *racks(1, 2)), "--trace", trace, "-o", "csv").out
    assert "summary.groups.2.waitingS.p99" in figures


def test_a_workload_with_groups_is_not_inflated(tmp_path: Path) -> None:
    pods = [a_member(0, f"m{place}", 2)["pod"] for place in range(2)]
    run = simulate(tmp_path, [*a_cluster("n1"), *pods], "--inflate", "200")
    assert run.code == 2
    assert "--inflate: the workload has groups of pods, which it would take apart" in run.err


@settings(max_examples=25)
@given(data=st.data())
def test_no_group_ever_begins_below_its_minimum(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever comes and goes: of each group as many as its minimum are placed at the first moment of it, or nobody."""
    lines, sizes = [], {}
    for number in range(data.draw(st.integers(1, 4), "groups")):
        minimum = data.draw(st.integers(1, 3), "minimum")
        members = minimum + data.draw(st.integers(-1, 1), "more")
        sizes[f"g{number}"] = minimum
        lines += [
            a_member(
                data.draw(st.integers(0, 20), "time"),
                f"g{number}-{place}",
                minimum,
                group=f"g{number}",
                duration=data.draw(st.integers(1, 20), "duration"),
                pod={"priority": data.draw(st.just(number), "priority")},
            )
            for place in range(members)
        ]
    lines += [a_single(data.draw(st.integers(0, 20), "time"), f"s{place}", duration=7) for place in range(3)]
    scenario = happening(tmp_path_factory.mktemp("run"), a_cluster("n1", "n2"), *lines)
    times: dict[str, list[float]] = {}
    for pod, (time_s, _) in placed(scenario).items():
        times.setdefault(pod.partition("-")[0], []).append(time_s)
    for group, minimum in sizes.items():
        first = min(times.get(group, [0.0]))
        assert times.get(group, []).count(first) in {0, *range(minimum, minimum + 2)}, (group, times)
    # One whose pods have all ended is another group when others of it come.
    assert sum(one.placed for one in scenario.summary.groups) >= sum(group in times for group in sizes)


def trickle(count: int) -> list[Json]:
    """Singles that run for 20 s and come every 10 s: there is never room for two pods more on a node of two devices."""
    return [a_single(10.0 * place, f"s{place}", duration=20) for place in range(count)]


@pytest.mark.parametrize(("held", "at"), [("0s", 420), ("60s", 80)])
def test_a_group_that_waits_for_long_holds_what_frees_if_it_is_said(tmp_path: Path, held: str, at: int) -> None:
    pair = [a_member(5, f"m{place}", 2, duration=10) for place in range(2)]
    lines = sorted([*trickle(41), *pair], key=lambda line: line["time"])
    scenario = happening(tmp_path, a_cluster("n1"), *lines, options=["--group-reservation", held])
    assert {placed(scenario)[name][0] for name in ("m0", "m1")} == {at}
    assert scenario.summary.waiting == 0  # whoever waited meanwhile has a place afterwards


def test_a_group_that_holds_room_in_vain_gives_it_up(tmp_path: Path) -> None:
    """The pod that has the other device never ends: a single that waits has its place after the group's time."""
    pair = [a_member(5, f"m{place}", 2) for place in range(2)]
    short = [a_single(time, f"s{time}", duration=20) for time in (50, 69, 72)]
    lines = [a_single(0, "endless"), *pair, *short]
    scenario = happening(tmp_path, a_cluster("n1"), *lines, options=["--group-reservation", "60s"])
    assert (placed(scenario)["s50"][0], scenario.summary.waiting) == (50, 2)
    assert placed(scenario)["s72"][0] >= 130
