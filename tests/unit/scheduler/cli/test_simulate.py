"""`dra simulate`: what a person sees of it, and what is said of input that cannot be used."""

import csv
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli import run_scenarios, scenarios
from scheduler.simulation.compare import METRICS
from scheduler.simulation.result import Distribution, Measured, Scenario, SimulationResult, result_of
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import (
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_template,
    an_allocated_claim,
    volumes_of,
)


def a_trace(folder: Path, *lines: Any, name: str = "trace.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def an_arrival(time: float, name: str, **fields: Any) -> Json:
    return {"time": time, "pod": a_pod(name, template="one"), **fields}


def result(run: Run) -> SimulationResult:
    assert run.code == 0, run.err
    return result_of(run.out)


def measured_apart(found: SimulationResult) -> list[Scenario]:
    """All but what was measured."""
    return [replace(one, measured=Measured(0.0, Distribution())) for one in found.scenarios]


def only(run: Run) -> Scenario:
    (scenario,) = result(run).scenarios
    return scenario


def simulate(folder: Path, objects: Sequence[Json], *options: str | Path) -> Run:
    return dra("simulate", saved(folder, *objects), "-o", "json", *options)


def explained(scenario: Scenario) -> list[str]:
    return [f"{one.time_s:g} {one.pod.removeprefix('default/')} {one.node or one.reason}" for one in scenario.explained]


def test_pods_that_wait_are_placed_one_after_the_other_by_each_policy(tmp_path: Path) -> None:
    pods = [a_pod(name, template="one") for name in "abcde"]
    run = dra("simulate", saved(tmp_path, *a_cluster("n1", "n2"), *pods), "--policy", "pack", "--policy", "spread")
    assert run.code == 0
    header, pack, spread, _, shapes, shape = run.out.splitlines()
    assert header.split()[:4] == ["POLICY", "ARRIVED", "PLACED", "WAITING"]
    assert pack.split()[:5] == ["pack", "5", "4", "1", "100.00"]
    assert spread.split()[:5] == ["spread", "5", "4", "1", "100.00"]
    assert shapes.split()[-2:] == ["pack", "spread"]
    assert shape.split() == ["1", "gpu", "5", "80.00", "80.00"]


def test_the_mean_is_of_the_time_while_pods_arrive(tmp_path: Path) -> None:
    """Both devices are in use until the last pod arrives, which runs on alone for a day."""
    pods = [an_arrival(0, "a", duration=100), an_arrival(0, "b", duration=100), an_arrival(100, "c", duration=86_400)]
    one = only(simulate(tmp_path, a_cluster("n1"), "--trace", a_trace(tmp_path, *pods))).summary
    assert (one.mean_allocated_percent, one.end_s) == (100.0, 86_500.0)


def test_the_mean_is_of_all_the_time_if_all_pods_arrive_at_once(tmp_path: Path) -> None:
    pods = [an_arrival(0, "a", duration=100), an_arrival(0, "b", duration=200)]
    assert (
        only(simulate(tmp_path, a_cluster("n1"), "--trace", a_trace(tmp_path, *pods))).summary.mean_allocated_percent
        == 75
    )


def test_every_arrival_ends_up_in_one_place_and_the_same_input_gives_the_same_document(tmp_path: Path) -> None:
    objects = [*a_cluster("n1", "n2"), *(a_pod(f"p{n}", template="one") for n in range(9))]
    options = ("--inflate", "400", "--arrivals", "poisson:1.1", "--durations", "exp:30", "--seeds", "1-2")
    first, again = (result(simulate(tmp_path, objects, *options)) for _ in range(2))
    assert measured_apart(first) == measured_apart(again)
    assert first.scenarios[0].by_time != first.scenarios[1].by_time
    for scenario in first.scenarios:
        one = scenario.summary
        assert one.arrivals == 16
        assert one.arrivals == one.ended + one.running + one.waiting + one.refused + one.failed + one.withdrawn
        assert (one.placed, one.ended) == (16, 16)
        assert sum(shape.arrivals for shape in one.shapes) == 16
        assert scenario.by_time.time_s[-1] == pytest.approx(one.end_s, abs=0.01)


def test_a_trace_tells_what_happens(tmp_path: Path) -> None:
    """A pod with a duration, a copy with an end, a deletion, a node that is drained, and a driver that is late."""
    late = a_slice(node="n2", count=1)
    trace = a_trace(
        tmp_path,
        an_arrival(0, "first", duration=100),
        {"time": 1, "like": "first", "name": "second", "end": 301},
        "",
        {"time": 2, "like": "default/first", "name": "third"},
        {"time": 60, "apply": late},
        {"time": 80, "delete": "third"},
        {"time": 200, "change": "drain:n1"},
    )
    objects = [*a_cluster("n1", count=1), a_node("n2")]
    pods = [option for name in ("first", "second", "third") for option in ("--explain", name)]
    scenario = only(simulate(tmp_path, objects, "--trace", trace, *pods))
    lines = explained(scenario)
    assert lines[0] == "0 first n1"
    assert lines[1].startswith("1 second 0/2 nodes are available")
    assert lines[2].startswith("2 third 0/2 nodes are available")
    assert lines[3] == "60 second n2"
    assert scenario.summary.withdrawn == 1
    assert scenario.summary.ended == 2
    assert scenario.summary.end_s == 360
    assert scenario.summary.waiting_s.max == 59


def test_pods_of_a_node_that_fails_are_evicted_and_start_anew(tmp_path: Path) -> None:
    trace = a_trace(
        tmp_path,
        an_arrival(0, "first", duration=100),
        {"time": 50, "change": "fail:n1"},
        {"time": 70, "change": "recover:n1"},
    )
    scenario = only(simulate(tmp_path, a_cluster("n1", count=1), "--trace", trace, "--explain", "first"))
    assert [line.split()[0] for line in explained(scenario)] == ["0", "50", "70"]
    assert scenario.summary.evictions == 1
    assert scenario.summary.end_s == 170


def a_trace_of_priorities(folder: Path) -> Path:
    """A pod of higher priority comes to a full node; a bound pod of the lowest is on another one."""
    return a_trace(
        folder,
        an_arrival(2, "first", duration=100),
        {"time": 42, "pod": a_pod("urgent", template="one", priority=10), "duration": 20},
    )


def test_evictions_and_lost_time_are_in_the_document_the_table_and_the_page(tmp_path: Path) -> None:
    trace = a_trace_of_priorities(tmp_path)
    objects = a_cluster("n1", count=1)
    scenario = only(simulate(tmp_path, objects, "--trace", trace, "--explain", "urgent"))
    summary = scenario.summary
    assert explained(scenario) == ["42 urgent n1"]
    assert scenario.explained[0].reason == "evicts default/first"
    assert (summary.evictions, summary.preempted, summary.lost_s) == (1, 1, 40)
    assert (summary.ended, summary.end_s) == (2, 162)  # first runs for 100 s again, from 62 on
    table = dra("simulate", saved(tmp_path, *objects), "--trace", trace)
    header, row, *_ = table.out.splitlines()
    assert header.split()[-3:] == ["EVICTED", "PREEMPTED", "LOST"]
    assert row.split()[-3:] == ["1", "1", "40s"]
    page = dra("simulate", saved(tmp_path, *objects), "--trace", trace, "--explain", "urgent", "-o", "html").out
    assert all(text in page for text in ("Evicted for a higher priority", "Run in vain, s", "evicts default/first"))


def a_trace_that_needs_a_move(folder: Path) -> Path:
    """Two nodes of two devices have one in use each after 10 s, and a pod asks for two from 20 s on."""
    return a_trace(
        folder,
        an_arrival(0, "first", duration=10),
        an_arrival(1, "second", duration=10_000),
        an_arrival(2, "third", duration=10_000),
        {"time": 20, "pod": a_pod("wide", template="two"), "duration": 100},
    )


def test_pods_move_so_that_one_that_waits_has_a_place(tmp_path: Path) -> None:
    trace = a_trace_that_needs_a_move(tmp_path)
    objects = [*a_cluster("n1", "n2", count=2), a_template("two", a_request(count=2))]
    asked = (tmp_path, objects, "--trace", trace, "--policy", "spread", "--explain", "wide")
    alone = only(simulate(*asked))
    assert explained(alone)[-1] == "10001 wide n2"
    assert alone.summary.moved == 0
    moving = ("--defrag", "every=1m,max-moves=1", "--move-cost", "7")
    scenario = only(simulate(*asked, *moving))
    summary = scenario.summary
    assert (summary.evictions, summary.moved, summary.preempted) == (1, 1, 0)
    assert explained(scenario)[-1] == "60 wide n2"
    assert scenario.explained[-1].reason == "moves default/second"
    table = dra("simulate", saved(tmp_path, *objects), "--trace", trace, "--policy", "spread", *moving).out
    assert table.splitlines()[0].split()[-2:] == ["MOVED", "LOST"]
    assert summary.lost_s == 59
    assert summary.end_s == 60 + 10_000 + 7  # it starts anew, and runs longer by what its move costs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--defrag", "max-moves=1"], "does not say every=TIME"),
        (["--defrag", "every=0h"], "'0h': the time is not above 0"),
        (["--defrag", "every=1h,moves=3"], "moves is neither every nor max-moves"),
        (["--defrag", "every=1h,max-moves=0"], "max-moves is a number above 0"),
        (["--move-cost", "3"], "--move-cost needs --defrag"),
    ],
)
def test_terms_of_moves_that_mean_nothing_are_refused(tmp_path: Path, options: list[str], message: str) -> None:
    run = dra("simulate", saved(tmp_path, *a_cluster("n1", count=1)), *options)
    assert run.code == 2
    assert message in run.err


def test_nobody_is_evicted_for_a_priority_without_preemption_or_for_devices_in_strict_mode(tmp_path: Path) -> None:
    trace = a_trace_of_priorities(tmp_path)
    for option in ("--no-preemption", "--strict"):
        scenario = only(simulate(tmp_path, a_cluster("n1", count=1), "--trace", trace, "--explain", "urgent", option))
        assert (scenario.summary.evictions, scenario.summary.lost_s) == (0, 0)
        assert explained(scenario)[-1] == "102 urgent n1"
    table = dra("simulate", saved(tmp_path, *a_cluster("n1", count=1)), "--trace", trace, "--no-preemption").out
    assert table.splitlines()[0].split()[-1] == "EVICTED"


def test_a_pod_does_not_return_to_a_node_that_fails_though_it_tolerates_that_for_five_minutes(tmp_path: Path) -> None:
    patience = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    pod = a_pod("first", template="one", tolerations=[{"key": key, **patience} for key in keys])
    trace = a_trace(tmp_path, {"time": 0, "pod": pod, "duration": 100}, {"time": 50, "change": "fail:n1"})
    scenario = only(simulate(tmp_path, a_cluster("n1", "n2"), "--trace", trace, "--explain", "first"))
    assert explained(scenario) == ["0 first n1", "50 first n2"]


def test_a_request_for_all_devices_counts_as_many_as_a_node_has(tmp_path: Path) -> None:
    every = a_template("all", {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}})
    trace = a_trace(tmp_path, an_arrival(0, "one"), {"time": 1, "pod": a_pod("all", template="all")})
    scenario = only(simulate(tmp_path, [*a_cluster("n1", "n2", count=4), every], "--trace", trace))
    assert scenario.by_arrivals.arrived_percent == (12.5, 62.5)
    assert scenario.by_arrivals.allocated_percent == (12.5, 62.5)


def test_bound_pods_of_the_input_can_be_evicted_and_deleted(tmp_path: Path) -> None:
    user = {"resource": "pods", "name": "old", "uid": "u"}
    held = an_allocated_claim("held", "gpu-0", node="n1", reserved_for=[user])
    old = a_pod("old", claim="held", nodeName="n1", metadata={"uid": "u"})
    trace = a_trace(
        tmp_path, {"time": 5, "change": "drain:n1"}, {"time": 9, "delete": "old"}, an_arrival(10, "new", duration=1)
    )
    objects = [*a_cluster("n1", "n2", count=1), held, old]
    scenario = only(simulate(tmp_path, objects, "--trace", trace, "--explain", "old", "--explain", "new"))
    assert explained(scenario) == ["5 old n2", "10 new n2"]
    assert scenario.fleet.pods == 1


def test_a_dump_is_its_own_trace(tmp_path: Path) -> None:
    """Pods that have finished are placed again when they were created, for as long as they ran."""
    ran = {"state": {"terminated": {"finishedAt": "2026-01-01T00:01:40Z"}}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}
    done = a_pod(
        "done",
        template="one",
        metadata={"creationTimestamp": "2026-01-01T00:00:00Z"},
        status={"phase": "Succeeded", "conditions": [scheduled], "containerStatuses": [{"name": "c", **ran}]},
        nodeName="n1",
    )
    waits = a_pod("waits", template="one", metadata={"creationTimestamp": "2026-01-01T00:00:30Z"})
    unknown = a_pod("unknown", template="one")
    objects = [*a_cluster("n1", count=1), done, waits, unknown]
    run = simulate(tmp_path, objects, "--trace", "dump", "--explain", "done", "--explain", "waits")
    lines = explained(only(run))
    assert lines[0] == "0 done n1"
    assert lines[-1] == "90 waits n1"
    assert "1 pod is left out: metadata.creationTimestamp is missing or no time" in run.err


def test_what_ifs_run_beside_the_fleet_as_it_is(tmp_path: Path) -> None:
    objects = [*a_cluster("n1", count=1), *(a_pod(name, template="one") for name in "ab")]
    found = result(simulate(tmp_path, objects, "--set", "add:n1:1", "--set", "taint:n1:k=v:NoSchedule"))
    assert [(one.parameters, one.summary.placed) for one in found.scenarios] == [
        ({}, 1),
        ({"set": "add:n1:1"}, 2),
        ({"set": "taint:n1:k=v:NoSchedule"}, 0),
    ]
    other = saved(tmp_path, a_slice(node="n1", count=2), name="other.yaml")
    found = result(simulate(tmp_path, objects, "--set", str(other)))
    assert [one.summary.placed for one in found.scenarios] == [1, 2]


def test_an_overlay_of_allocate_takes_the_same_changes(tmp_path: Path) -> None:
    user = {"resource": "pods", "name": "old", "uid": "u"}
    held = an_allocated_claim("held", "gpu-0", node="n1", reserved_for=[user])
    old = a_pod("old", claim="held", nodeName="n1", metadata={"uid": "u"})
    path = saved(tmp_path, *a_cluster("n1", "n2", count=1), held, old)
    run = dra("allocate", path, "--overlay", "drain:n1", "-o", "json")
    assert run.code == 0
    (pod,) = [one for one in json.loads(run.out)["items"] if one["kind"] == "Pod"]
    assert pod["spec"]["nodeName"] == "n2"
    run = dra("allocate", path, "--overlay", "drain:n3")
    assert (run.code, run.err) == (2, "dra: --overlay there is no node 'n3'\n")


def test_the_fleet_is_scaled_by_leaving_out_nodes_or_copying_them(tmp_path: Path) -> None:
    objects = [*a_cluster("n1", "n2"), a_pod(template="one")]
    found = result(simulate(tmp_path, objects, "--nodes-scale", "0.5", "--nodes-scale", "1.5", "--nodes-scale", "2"))
    assert [(one.parameters, one.fleet.nodes, one.fleet.units) for one in found.scenarios] == [
        ({"nodes-scale": "0.5"}, 1, 2),
        ({"nodes-scale": "1.5"}, 3, 6),
        ({"nodes-scale": "2"}, 4, 8),
    ]


@pytest.mark.parametrize("copying", [("--nodes-scale", "2"), ("--set", "add:n1:1")])
def test_a_device_of_a_copied_node_goes_to_one_pod(tmp_path: Path, copying: tuple[str, str]) -> None:
    objects = [*a_cluster("n1"), *(a_pod(f"pod-{number}", template="one") for number in range(6))]
    found = result(simulate(tmp_path, objects, *copying))
    scenario = found.scenarios[-1]
    assert (scenario.fleet.units, scenario.summary.placed, scenario.summary.waiting) == (4, 4, 2)
    assert scenario.summary.allocated_percent == 100


def test_time_is_scaled_but_durations_are_not(tmp_path: Path) -> None:
    trace = a_trace(tmp_path, an_arrival(0, "a", duration=10), an_arrival(100, "b", duration=10))
    found = result(simulate(tmp_path, a_cluster("n1"), "--trace", trace, "--time-scale", "1", "--time-scale", "0.1"))
    assert [one.summary.end_s for one in found.scenarios] == [110, 20]


def test_poisson_arrivals_keep_their_load_whatever_the_scale_of_time(tmp_path: Path) -> None:
    trace = a_trace(tmp_path, *(an_arrival(number, f"pod-{number}", duration=10) for number in range(20)))
    options = ("--trace", trace, "--arrivals", "poisson:0.8", "--time-scale", "1", "--time-scale", "10")
    one, ten = result(simulate(tmp_path, a_cluster("n1"), *options)).scenarios
    assert one.summary.end_s > 0
    assert one.summary == ten.summary


def test_a_pod_can_be_deleted_when_it_arrives_but_not_before(tmp_path: Path) -> None:
    arrival = an_arrival(5, "late")
    trace = a_trace(tmp_path, arrival, {"time": 5, "delete": "late"})
    assert only(simulate(tmp_path, a_cluster("n1", count=1), "--trace", trace)).summary.running == 0
    trace = a_trace(tmp_path, {"time": 4, "delete": "late"}, arrival, name="early.jsonl")
    run = simulate(tmp_path, a_cluster("n1"), "--trace", trace)
    problem = 'delete: pod "default/late" arrives at 5, after the time 4'
    assert (run.code, run.err) == (2, f"dra: {trace}, line 1: {problem}\n")


def test_a_run_in_which_nothing_happens_is_an_error(tmp_path: Path) -> None:
    run = simulate(tmp_path, a_cluster("n1"))
    assert (run.code, run.out) == (2, "")
    assert run.err == "dra: nothing happens: no pod of the input is pending, and no trace has an event\n"


def test_a_what_if_that_evicts_pods_is_compared_with_a_fleet_on_which_nothing_happens(tmp_path: Path) -> None:
    running = a_pod("p", claim="c", metadata={"uid": "uid-p"}, nodeName="n1", status={"phase": "Running"})
    user = {"resource": "pods", "name": "p", "uid": "uid-p"}
    held = an_allocated_claim("c", "gpu-0", node="n1", reserved_for=[user])
    objects = [*a_cluster("n1", "n2", count=1), held, running]
    assert simulate(tmp_path, objects, "--set", "cordon:n1").code == 2
    found = result(simulate(tmp_path, objects, "--set", "drain:n1")).scenarios
    assert [(one.parameters, one.summary.arrivals, one.summary.placed) for one in found] == [
        ({}, 0, 0),
        ({"set": "drain:n1"}, 1, 1),
    ]


def test_the_table_says_why_pods_are_never_decided(tmp_path: Path) -> None:
    pods = [a_pod("p", template="nope"), a_pod("q", claim="gone"), a_pod("r", template="one")]
    run = dra("simulate", saved(tmp_path, *a_cluster("n1"), *pods))
    lines = run.out.splitlines()
    failed = lines[lines.index(next(one for one in lines if one.startswith("REFUSED ATTEMPTS"))) + 1 :]
    assert [one.split("   ")[0] for one in failed] == [
        "claim default/gone does not exist (the input contains no ResourceClaim at all)",
        "claim template default/nope does not exist",
    ]
    assert "REFUSED ATTEMPTS" not in dra("simulate", saved(tmp_path, *a_cluster("n1"), pods[2])).out


def test_arrivals_follow_the_order_of_a_file_and_so_do_equal_nodes(tmp_path: Path) -> None:
    objects = [*a_cluster("n1", "n2", count=1), *(a_pod(name, template="one") for name in "abc")]
    order = a_trace(tmp_path, {"seed": 7, "pods": [2, 0, 2], "nodes": [1, 0]}, name="order.jsonl")
    options = ("--arrivals", f"order:{order}", "--seeds", "7", "--no-scores", "--explain", "c", "--explain", "a")
    scenario = only(simulate(tmp_path, objects, *options))
    assert explained(scenario) == ["0 c n2", "1 a n1"]
    assert scenario.summary.arrivals == 3
    assert scenario.summary.waiting == 1


def test_copies_of_a_pod_have_claims_of_their_own(tmp_path: Path) -> None:
    objects = [*a_cluster("n1"), a_claim("own"), a_pod("a", claim="own")]
    order = a_trace(tmp_path, {"seed": 42, "pods": [0, 0, 0]}, name="order.jsonl")
    scenario = only(simulate(tmp_path, objects, "--arrivals", f"order:{order}"))
    assert (scenario.summary.placed, scenario.summary.waiting) == (2, 1)
    assert scenario.summary.allocated_percent == 100


def test_without_retries_a_refused_pod_is_given_up(tmp_path: Path) -> None:
    trace = a_trace(tmp_path, an_arrival(0, "a", duration=10), an_arrival(1, "b", duration=10))
    scenario = only(simulate(tmp_path, a_cluster("n1", count=1), "--trace", trace, "--no-retries"))
    assert (scenario.summary.placed, scenario.summary.refused, scenario.summary.refusals) == (1, 1, {"devices": 1})


def test_a_record_that_cannot_be_read_ends_the_run_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Scenario:
        raise AssertionError("it has begun")

    monkeypatch.setattr(run_scenarios, "run_case", never)
    absent = tmp_path / "absent.csv"
    run = simulate(tmp_path, a_cluster("n1"), "--compare", absent)
    assert (run.code, run.err) == (2, f"dra: {absent}: cannot be read: No such file or directory\n")


def test_scenarios_that_the_record_does_not_have_are_listed(tmp_path: Path) -> None:
    objects = [*a_cluster("n1"), a_pod(template="one")]
    recorded = tmp_path / "recorded.csv"
    recorded.write_text(simulate(tmp_path, objects, "-o", "csv").out)
    run = simulate(tmp_path, objects, "--seeds", "42-43", "--compare", recorded)
    assert run.code == 0
    assert f"first-fit 43: {recorded} has no curve of it" in run.err


def test_a_run_is_compared_with_a_recorded_one(tmp_path: Path) -> None:
    path = saved(tmp_path, *a_cluster("n1", "n2"), *(a_pod(name, template="one") for name in "abcde"))
    recorded = tmp_path / "recorded.csv"
    recorded.write_text(dra("simulate", path, "-o", "csv").out)
    assert recorded.read_text().splitlines()[0].startswith("metric,policy,seed,parameters,value,0,1,")
    run = dra("simulate", path, "--compare", recorded)
    assert (run.code, run.err) == (0, f"{len(METRICS)} curves equal, 0 differ\n")
    lines = [line for line in recorded.read_text().splitlines() if line.startswith(("metric", "allocation"))]
    other = tmp_path / "recorded-allocation.csv"
    other.write_text("\n".join(line.partition(",")[2].replace("100.0", "99.0") for line in lines))
    run = dra("simulate", path, "--compare", other)
    assert run.code == 1
    assert run.err.splitlines() == [
        "first-fit 42 allocation: 2 of 5 columns differ, first 100: 100.0, recorded 99.0",
        "0 curves equal, 1 differ",
    ]
    run = dra("simulate", path, "--compare", recorded, "--compare", other)
    assert (run.code, run.err.splitlines()[-1]) == (1, f"{len(METRICS)} curves equal, 1 differ")
    run = dra("simulate", path, "--seeds", "1", "--compare", recorded)
    assert (run.code, run.err) == (2, f"dra: {recorded}: holds no row of these policies, seeds and parameters\n")


def test_csv_has_every_curve_over_arrivals_and_every_figure_of_the_summary(tmp_path: Path) -> None:
    path = saved(tmp_path, *a_cluster("n1", "n2"), *(a_pod(name, template="one") for name in "abcde"))
    options = ("--policy", "pack", "--policy", "fgd", "--set", "drain:n1", "--seeds", "1,2")
    rows = list(csv.DictReader(dra("simulate", path, *options, "-o", "csv").out.splitlines()))
    document = json.loads(dra("simulate", path, *options, "-o", "json").out)
    for one in document["scenarios"]:
        parameters = " ".join(f"{name}={value}" for name, value in one["parameters"].items())
        own = (one["policy"], str(one["seed"]), parameters)
        of = {row["metric"]: row for row in rows if (row["policy"], row["seed"], row["parameters"]) == own}
        series = one["byArrivals"]
        percents = [str(round(percent)) for percent in series["arrivedPercent"]]
        for metric, column in METRICS.items():
            values = series[re.sub("_(.)", lambda letter: letter[1].upper(), column)]
            assert [float(of[metric][percent]) for percent in percents] == values
        summary = {name: value for name, value in one["summary"].items() if isinstance(value, int | float)}
        assert {name: float(of[f"summary.{name}"]["value"]) for name in summary} == summary
        for name, value in [*one["summary"]["waitingS"].items()]:
            assert float(of[f"summary.waitingS.{name}"]["value"]) == value
        for shape in one["summary"]["shapes"]:
            assert float(of[f"summary.shapes.{shape['shape']}.placed"]["value"]) == shape["placed"]
        for reason, count in one["summary"]["refusals"].items():
            assert float(of[f"summary.refusals.{reason}"]["value"]) == count
    assert len({(row["policy"], row["seed"], row["parameters"]) for row in rows}) == len(document["scenarios"]) == 8


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is not JSON: "),
        ('{"time": NaN, "delete": "a"}', "is not JSON: "),
        ({"time": None, "delete": "a"}, "time: null is not a number of seconds, from 0 to 1e+10"),
        ({"time": 1e300, "delete": "a"}, "time: 1e+300 is not a number of seconds, from 0 to 1e+10"),
        ({"time": "2026-01-01T00:00:00Z", "delete": "a"}, 'time: "2026-01-01T00:00:00Z" is not a number of seconds'),
        (an_arrival(1, "b", duration=10**30), "duration: 1e+30 is not a number of seconds, from 0 to 1e+10"),
        ({"time": 1, "like": "a", "name": "x/y"}, 'name: "x/y" must be a DNS subdomain: '),
        ([1], "a list of 1 entry is not an object"),
        ({"time": 1}, "has none of the fields pod, like, delete, change, apply"),
        ({"time": 1, "delete": "a", "change": "x"}, "has delete and change of the fields pod, "),
        ({"delete": "a"}, "time: is required"),
        ({"time": -1, "delete": "a"}, "time: -1 is not a number of seconds, from 0 to 1e+10"),
        ({"time": True, "delete": "a"}, "time: true is not a number of seconds, from 0 to 1e+10"),
        (an_arrival(1, "b", duration="x"), 'duration: "x" is not a number of seconds, from 0 to 1e+10'),
        (an_arrival(5, "b", end=4), "end: 4 is before the time 5"),
        (an_arrival(5, "b", end=7, duration=2), "end: stands beside duration: one of them says when the pod ends"),
        (an_arrival(5, "b", durations=2), "durations: is no field of a line with pod; did you mean duration?"),
        ({"time": 1, "pod": 3}, "pod: 3 is not an object"),
        ({"time": 1, "pod": a_pod("B")}, "pod: Pod default/B: metadata.name: must be a DNS subdomain: "),
        ({"time": 1, "pod": a_node()}, "pod: is not a Pod"),
        ({"time": 1, "pod": a_pod("b", nodeName="n1")}, 'pod.spec.nodeName: "n1": a pod that arrives has no node yet'),
        (an_arrival(1, "a"), 'pod.metadata.name: "default/a" is the name of another pod'),
        ({"time": 1, "like": "c", "name": "d"}, 'like: pod "default/c" is neither in the input nor in the trace'),
        ({"time": 1, "like": "a"}, "name: is required"),
        ({"time": 1, "delete": ""}, 'delete: "" is not text'),
        ({"time": 1, "change": "drop:n1"}, "change: 'drop:n1': 'drop' is not among drain, cordon, "),
        ({"time": 1, "change": "drain:n7"}, "change: there is no node 'n7'"),
        ({"time": 1, "change": "add:n1:0"}, "change: count '0' is not a whole number from 1 to 1000000"),
        ({"time": 1, "change": "taint:n1:k"}, "change: taint 'k' is not KEY=VALUE:EFFECT or KEY:EFFECT"),
        ({"time": 1, "change": "taint:n1:a b:NoExecute"}, "change: key 'a b' of a taint: must consist of "),
        ({"time": 1, "change": "taint:n1:k=-:NoExecute"}, "change: value '-' of a taint: must consist of "),
        ({"time": 1, "change": "taint:n1:k:No"}, "change: effect 'No' is not one of NoSchedule, PreferNoSchedule, "),
        ({"time": 1, "change": "remove:pod/a"}, "change: 'pod/a' is neither node/NAME nor resourceslice/NAME"),
        ({"time": 1, "apply": a_pod("b")}, "apply: Pod is not a Node, ResourceSlice, DeviceClass or DeviceTaintRule"),
        ({"time": 1, "apply": a_node("N")}, "apply: Node N: metadata.name: must be a DNS subdomain: "),
    ],
)
def test_an_error_of_a_trace_names_file_line_field_and_value(tmp_path: Path, line: Any, problem: str) -> None:
    trace = a_trace(tmp_path, an_arrival(0, "a"), line)
    run = simulate(tmp_path, a_cluster("n1"), "--trace", trace)
    assert run.code == 2
    assert run.err.startswith(f"dra: {trace}, line 2: {problem}"), run.err


def test_what_of_a_trace_is_not_used_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "MAX_REPORTED", 1)
    slices = [{"time": time, "apply": a_slice(node=f"n{time}", unknown=1)} for time in range(1, 4)]
    trace = a_trace(tmp_path, an_arrival(0, "a"), *slices)
    run = simulate(tmp_path, a_cluster("n1"), "--trace", trace)
    unused = "ResourceSlice n1-gpu.example: spec.unknown: unknown field; the object that contains it is not used"
    assert run.err.splitlines() == [
        f"warning: {trace}, line 2: apply: {unused}",
        f"warning: {trace}: and 2 more",
    ]


def test_what_pods_ask_for_and_the_input_says_nothing_about_is_a_warning_once(tmp_path: Path) -> None:
    waiting = a_pod("waits", template="one", volumes=volumes_of("data"))
    arriving = {"time": 1, "pod": a_pod("arrives", template="one", volumes=volumes_of("more"))}
    trace = a_trace(tmp_path, arriving)
    options = ("--trace", trace, "--policy", "first-fit", "--policy", "fgd", "--seeds", "1-2", "--set", "drain:n2")
    run = simulate(tmp_path, [*a_cluster("n1", "n2"), waiting], *options)
    unseen = "no PersistentVolume, no PersistentVolumeClaim, no StorageClass"
    assert run.err.splitlines() == [
        f"warning: the input contains {unseen}: volumes of 2 pods are not checked against them"
    ]
    assert run.code == 0


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (b"", ": holds no event"),
        (b" \n\n", ": holds no event"),
        (b'\n{"time": 1, "delete": "\xe9"}', ", line 2: is not UTF-8: byte 24 is 0xe9"),
        ('{"time": 1}'.encode("utf-16"), ", line 1: is not UTF-8: byte 1 is 0xff"),
        (gzip.compress(b'{"time": 1, "delete": "a"}', mtime=0), ": is compressed: decompress it with gunzip"),
        (b'{"time": 1, "delete": "a"}\x00', ", line 1: is not JSON: "),
        (b'{"time": 1, "delete": "a", "time": 2}', ", line 1: the key 'time' appears twice in one object\n"),
        (b'\n{"time": 1.5, "pod": {"spec": {"a": 1, "a": 1}}}', ", line 2: the key 'a' appears twice in one object\n"),
        (b'{"time": 1, "delete": "a"}\n' * 2, ', line 2: delete: pod "default/a" is deleted twice'),
    ],
)
def test_a_trace_that_is_no_text_of_json_lines_is_reported(tmp_path: Path, written: bytes, problem: str) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(written)
    run = simulate(tmp_path, [*a_cluster("n1"), a_pod("a", template="one")], "--trace", trace)
    assert run.code == 2
    assert run.err.startswith(f"dra: {trace}{problem}")


def test_a_trace_may_begin_with_a_mark_of_its_encoding_and_have_lines_of_windows(tmp_path: Path) -> None:
    lines = [json.dumps(an_arrival(time, name)) for time, name in ((0, "a"), (1, "b"))]
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes("\ufeff{}\r\n\r\n{}\r\n".format(*lines).encode())
    assert only(simulate(tmp_path, a_cluster("n1"), "--trace", trace)).summary.placed == 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", ": holds no order"),
        ("{", ", line 1: is not JSON: "),
        ([1], ", line 1: a list of 1 entry is not an object"),
        ({"pods": [0]}, ", line 1: seed: is required"),
        ({"seed": "42", "pods": [0]}, ', line 1: seed: "42" is not a whole number'),
        ({"seed": 42}, ", line 1: pods: is required"),
        ({"seed": 42, "pods": []}, ", line 1: pods: is empty"),
        ({"seed": 42, "pods": 3}, ", line 1: pods: 3 is not a list"),
        ({"seed": 42, "pods": [0, -1]}, ", line 1: pods[1]: -1 is not a row"),
        ({"seed": 42, "pods": ["a"]}, ', line 1: pods[0]: "a" is not a row'),
        ({"seed": 42, "pods": [0], "nodes": [0, 0]}, ", line 1: nodes[1]: 0 is there twice"),
        ({"seed": 42, "pods": [0], "node": [0]}, ", line 1: node: is no field of an order; did you mean nodes?"),
        ({"seed": 7, "pods": [0]}, ": has no line with seed 42, only 7"),
        ('{"seed": 42, "pods": [0]}\n{"seed": 42, "pods": [1]}', ", line 2: seed: 42 is the seed of an earlier line"),
    ],
)
def test_an_order_of_arrivals_that_cannot_be_used_is_reported(tmp_path: Path, line: Any, problem: str) -> None:
    order = a_trace(tmp_path, line, name="order.jsonl")
    objects = [*a_cluster("n1"), *(a_pod(name, template="one") for name in "ab")]
    run = simulate(tmp_path, objects, "--arrivals", f"order:{order}", "--arrivals", "trace")
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith(f"dra: {order}{problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ": holds no curve"),
        ("{}", ": holds no curve"),
        ("metric,policy,seed,0\nfoo,first-fit,42,0\n", ", line 2: metric: 'foo' is not one of allocation, "),
        ("metric,policy,seed,0\nallocation,first-fit,4.2,0\n", ", line 2: seed: '4.2' is not a whole number"),
        (f"metric,policy,seed,0\nallocation,first-fit,{'9' * 5000},0\n", ", line 2: seed: '9999999"),
        ("metric,policy,seed,0\nallocation,first-fit,42,nan\n", ", line 2: 0: 'nan' is not a number"),
        ("metric,policy,seed,0\nallocation,first-fit,42,1,2\n", ", line 2: has more values than there are columns"),
        ("metric,policy,seed,0,0\nallocation,first-fit,42,1,2\n", ", line 1: column '0' is there twice"),
        (
            "metric,policy,seed,0\n" + "allocation,first-fit,42,1\n" * 2,
            ", line 3: has the allocation of ",
        ),
        ("metric,policy,seed,\u00b2\nallocation,first-fit,42,1\n", ", line 2: has no value for any arrived percent"),
    ],
)
def test_a_record_that_cannot_be_used_is_reported_before_the_run(tmp_path: Path, text: str, problem: str) -> None:
    recorded = tmp_path / "recorded.csv"
    recorded.write_text(text)
    run = simulate(tmp_path, [*a_cluster("n1"), a_pod("a", template="one")], "--compare", recorded)
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith(f"dra: {recorded}{problem}")


@pytest.mark.parametrize(
    "second", [("--set", "drain:n2"), ("--nodes-scale", "0.1", "--nodes-scale", "1"), ("--set", "broken.yaml")]
)
def test_a_fleet_that_cannot_be_made_ends_the_run_before_it_begins(
    second: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Scenario:
        raise AssertionError("it has begun")

    monkeypatch.setattr(run_scenarios, "run_case", never)
    monkeypatch.chdir(tmp_path)
    Path("broken.yaml").write_text("a: [b")
    run = simulate(tmp_path, [*a_cluster("n1"), a_pod("a", template="one")], *second)
    assert (run.code, run.out) == (2, "")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--seeds", "9" * 30), "is neither a whole number nor a range such as 42-51"),
        (("--inflate", "1e9"), "dra: --inflate: this takes 2e+07 pods, more than 10,000,000"),
        (("--nodes-scale", "1e9"), "dra: --nodes-scale 1 nodes x 1e+09 are more than 1000000"),
        (("--nodes-scale", "0.1"), "dra: --nodes-scale 1 nodes x 0.1 are none"),
        (("--durations", "exp:1e300"), "dra: the last event is at "),
        (("--results", "."), "'.' is no folder of its own"),
        (("--set", ""), "'' is neither a file nor a change (drain, cordon, "),
        (("--set", "drain:n1,"), "'' is neither a file nor a change (drain, cordon, "),
        (("--set", "drian:n1"), "'drian:n1' is neither a file nor a change (drain, cordon, uncordon, taint, untaint, "),
        (("--seeds", "x"), "'x' is neither a whole number nor a range such as 42-51"),
        (("--seeds", "5-2"), "'5-2' is empty, or more than 10000 seeds"),
        (("--arrivals", "poisson:0"), "'poisson:0': the load '0' is not a number above 0"),
        (("--arrivals", "order:"), "'order:' is not one of trace, poisson:LOAD, order:FILE"),
        (("--durations", "3"), "'3' is not one of trace, exp:SECONDS, none"),
        (("--inflate", "nan"), "'nan' is not a number above 0"),
        (("--policy", "firstfit"), "'firstfit' is not among the policies: "),
        (("--resume",), "dra: --resume needs --results DIR"),
        (("--arrivals", "poisson:1"), "dra: pod default/a has no duration, which Poisson arrivals need"),
        (("--explain", "aa"), "dra: pod default/aa is neither in the input nor in the trace; did you mean default/a?"),
        (("--set", "drain:n2"), "dra: --set there is no node 'n2'"),
        (("--trace", "none.jsonl"), "dra: none.jsonl: cannot be read: No such file or directory"),
        (("--trace", "dump"), "dra: no pod of the input has a metadata.creationTimestamp: it holds no trace"),
        (("--compare", "none.csv"), "dra: none.csv: cannot be read: No such file or directory"),
        (("--arrivals", "order:none.jsonl"), "dra: none.jsonl: cannot be read: No such file or directory"),
    ],
)
def test_an_option_that_cannot_be_used_is_told_with_its_value(
    tmp_path: Path, options: Sequence[str], problem: str
) -> None:
    run = simulate(tmp_path, [*a_cluster("n1"), a_pod("a", template="one")], *options)
    assert run.code == 2
    assert problem in run.err


def test_a_fleet_of_the_openb_trace_takes_changes_but_no_objects(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,8000,1024,2,A\nn2,8000,1024,1,A\n")
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1000,10,1,1000,\n")
    arguments = ("simulate", nodes, "--trace", pods, "-o", "json")
    assert only(dra(*arguments)).fleet.units == 3
    assert only(dra(*arguments, "--overlay", "remove:node/n1")).fleet.units == 1
    extra = saved(tmp_path, a_node("n3"))
    for option, value, problem in (
        ("--overlay", "drain:n3", "--overlay there is no node 'n3'"),
        ("--overlay", extra, f"{extra}: a fleet of the openb trace takes changes, such as drain:NODE, no objects"),
        ("--set", extra, f"{extra}: a fleet of the openb trace takes changes, such as drain:NODE, no objects"),
    ):
        run = dra(*arguments, option, value)
        assert (run.code, run.err) == (2, f"dra: {problem}\n")


def test_pod_with_extended_resources_waits_where_no_node_is_left(tmp_path: Path) -> None:
    limits = {"example.com/gpu": "1"}
    pod = a_pod("p", containers=[{"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}])
    node, slice_, *_ = a_cluster()
    objects = [node, slice_, a_class(extendedResourceName="example.com/gpu"), pod]
    run = simulate(tmp_path, objects, "--set", "remove:node/*", "--explain", "default/p")
    assert [explained(one) for one in result(run).scenarios] == [
        ["0 p node-1"],
        ["0 p no nodes available to schedule pods"],
    ]


def test_power_fills_what_draws_already_and_watts_and_energy_are_reported(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\na,96000,1024,2,P100\nb,96000,1024,2,T4\n")
    pods.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
        "first,1000,10,1,400,,0,3600\nsecond,1000,10,1,400,,0,3600\n"
    )
    options = ("--trace", pods, "--no-scores", "-o", "json", "--jobs=1")
    run = dra("simulate", nodes, *options, "--policy=power", "--policy=best-fit+power:0.9")
    assert run.code == 0, run.err
    for scenario in result(run).scenarios:
        assert max(scenario.by_time.watts) == (2 * 25 + 3 * 15) + (10 + 70 + 20 + 165)
        assert scenario.summary.watts == (2 * 25 + 3 * 15) + (2 * 10 + 2 * 20)
        assert scenario.summary.energy_wh == 360


WATTS = {
    "apiVersion": "dra-scheduler.dev/v1alpha1",
    "kind": "PowerModels",
    "gpus": {"H100": {"idle": 60, "full": 700, "cpu": "8480"}, "T4": {"idle": 8, "full": 72}},
    "cpus": {"8480": {"idle": 40, "full": 350, "cores": 48}},
}


def test_watts_of_ones_own_models_count_for_the_policy_and_the_figures(tmp_path: Path) -> None:
    nodes, pods, models = tmp_path / "nodes.csv", tmp_path / "pods.csv", saved(tmp_path, WATTS, name="watts.yaml")
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\na,96000,1024,1,H100\nb,96000,1024,1,T4\n")
    pods.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
        "first,1000,10,1,400,,0,3600\n"
    )
    options = ("--trace", pods, "--no-scores", "-o", "json", "--jobs=1", "--policy=power")
    run = dra("simulate", nodes, *options, "--power-models", models)
    assert run.code == 0, run.err
    [scenario] = result(run).scenarios
    t4_cpus = (2 * 20, 20 + 205)  # beside a T4 that names none: those of nodes without GPUs, 26 cores a socket
    assert scenario.summary.watts == 60 + 40 + 8 + t4_cpus[0]
    assert max(scenario.by_time.watts) == 60 + 40 + 72 + t4_cpus[1]  # on the T4: the H100 would rise by more
    assert not max(result(dra("simulate", nodes, *options)).scenarios[0].by_time.watts)  # one model is not known


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"gpus": {"A": {"idle": 9, "full": 8}}}, "gpus.A: idle 9 is more than full 8"),
        ({"gpus": {"A": {"idle": 1, "full": 8, "cpu": "8481"}}}, "gpus.A.cpu: '8481' is not one of cpus; did you mean"),
        ({"cpuAlone": "x"}, "cpuAlone: 'x' is not one of cpus"),
        ({"gpus": {"A": {"idle": -1, "full": 8}}}, "gpus.A.idle"),
        ({"cpus": {"8480": {"idle": 1, "full": 8, "cores": 0}}}, "cpus.8480.cores"),
        ({"kind": "Watts"}, "kind"),
    ],
)
def test_models_that_cannot_be_used_are_refused_with_file_and_field(tmp_path: Path, change: Json, problem: str) -> None:
    models = saved(tmp_path, {**WATTS, **change}, name="watts.yaml")
    run = dra("simulate", saved(tmp_path, a_node("a")), "--power-models", models)
    assert run.code == 2
    assert f"{models}: {problem}" in run.err
