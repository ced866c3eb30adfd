"""The pure parts of the end-to-end benchmark: what is placed, whether it is right, and what the figures come to."""

import itertools
import re
from collections.abc import Sequence

import pytest

from benchmarks.endtoend.correctness import WrongState, check, check_places
from benchmarks.endtoend.figures import (
    CEILING,
    OURS,
    PEER,
    Decisions,
    Range,
    Row,
    Run,
    decisions_in,
    rate,
    rate_together,
    reported_rate,
    rows,
    table,
)
from benchmarks.endtoend.filters import misplaced
from benchmarks.endtoend.workload import (
    EVERY_FILTER,
    PLAIN,
    SIZES,
    Asks,
    Json,
    Size,
    node_name,
    nodes,
    place,
    pod_name,
    pods,
    size_of,
    slices,
    volume_claims,
    volumes,
)
from scheduler.runtime.metrics import Metrics, Reading

SIZE = Size(100, 3)
NOTHING = Reading({}, {}, {}, [], 0, 0, 0, 0, {}, {})


def a_run(column: str, bound_s: Sequence[float], decisions: Decisions | None = None, asks: Asks = PLAIN) -> Run:
    reported = 0 if column == CEILING else 3
    return Run(
        column, SIZE, asks.name, bound_s, reported, bound_s[-1] + 1, peak_mib=50, cpu_s=0.03, decisions=decisions
    )


def a_row(found: Sequence[Row], name: str) -> Row:
    return next(row for row in found if row.case == f"100 nodes, 3 pods: {name}")


def test_rate_is_of_the_bindings_alone_whatever_it_took_to_start() -> None:
    assert rate(a_run(OURS, [10.0, 10.5, 12.0])) == 1.5


def test_rate_of_several_schedulers_together_leaves_out_what_was_bound_while_one_was_starting() -> None:
    alone = a_run(OURS, [10.0, 10.5, 12.0, 13.0, 14.0])
    assert rate_together(alone) is None
    assert rate_together(alone._replace(begun_s=12.0)) == 1.5


def test_a_rate_that_leaves_its_events_for_later_shows() -> None:
    assert reported_rate(a_run(OURS, [10.0, 10.5, 12.0])) == 1.0
    assert reported_rate(a_run(CEILING, [10.0, 10.5, 12.0])) is None


def test_ratios_are_of_the_same_round_and_above_one_where_ours_is_better() -> None:
    ours = [a_run(OURS, [1.0, 1.5, 2.0]), a_run(OURS, [2.0, 2.1, 4.0])]
    peer = [a_run(PEER, [2.0, 3.0, 4.0]), a_run(PEER, [2.0, 3.0, 12.0])]
    found = rows([ours[0], peer[0], ours[1], peer[1]], [PEER, OURS])
    bound = a_row(found, "bound")
    assert bound.medians == {OURS: 2.25, PEER: 0.9, CEILING: None}
    assert bound.ratio == Range(3.5, 2.0, 5.0)
    assert bound.of_ceiling is None
    assert a_row(found, "start to first binding").ratio == Range(1.5, 1.0, 2.0)


def test_a_rate_is_also_reported_as_a_part_of_the_ceiling() -> None:
    found = rows([a_run(OURS, [0.0, 1.0, 4.0]), a_run(CEILING, [0.0, 1.0, 3.0])], [OURS, CEILING])
    assert a_row(found, "bound").of_ceiling == Range(0.75, 0.75, 0.75)
    assert a_row(found, "peak memory").of_ceiling is None


def test_pods_that_ask_for_more_have_lines_of_their_own_and_are_a_part_of_the_plain_rate() -> None:
    found = rows(
        [
            a_run(OURS, [0.0, 1.0, 2.0]),
            a_run(OURS, [0.0, 1.0, 4.0], asks=EVERY_FILTER),
            a_run(PEER, [0.0, 1.0, 6.0]),
            a_run(PEER, [0.0, 1.0, 12.0], asks=EVERY_FILTER),
        ],
        [PEER, OURS],
    )
    assert a_row(found, "bound").ratio == Range(3.0, 3.0, 3.0)
    filtered = next(row for row in found if row.case == "100 nodes, 3 pods, every filter: bound")
    assert (filtered.medians[OURS], filtered.ratio) == (0.75, Range(3.0, 3.0, 3.0))
    part = next(row for row in found if row.case.endswith("every filter: bound, of the rate of plain pods"))
    assert part.medians == {PEER: 0.5, OURS: 0.5, CEILING: None}


def test_a_row_has_the_fields_that_a_script_judges_by() -> None:
    decided = Decisions(0.001, 0.002)
    found = rows([a_run(PEER, [1.0, 2.0, 5.0]), a_run(OURS, [1.0, 1.5, 2.0], decided)], [PEER, OURS])
    assert a_row(found, "bound").document() == {
        "case": "100 nodes, 3 pods: bound",
        "unit": "pods/s",
        "ours": 3.0,
        "peer": 0.75,
        "ceiling": None,
        "ratio": 4.0,
        "least": 4.0,
        "greatest": 4.0,
        "of_ceiling": None,
        "of_ceiling_least": None,
        "of_ceiling_greatest": None,
    }
    p99 = a_row(found, "decision, p99 at most").document()
    assert (p99["unit"], p99["ours"], p99["peer"], p99["ratio"]) == ("ms", 2.0, None, None)


def test_the_table_names_contenders_and_leaves_out_what_was_not_measured() -> None:
    found = rows([a_run(PEER, [1.0, 2.0, 5.0]), a_run(OURS, [1.0, 1.5, 2.0])], [PEER, OURS])
    lines = table(found, {PEER: "kube-scheduler", OURS: "dra-scheduler"}).splitlines()
    assert lines[0].startswith("| case | unit | kube-scheduler | dra-scheduler | times better")
    assert lines[2] == "| 100 nodes, 3 pods: bound | pods/s | 0.75 | 3 | 4.00 (4.00 to 4.00) | - |"


def test_percentile_of_decisions_is_the_bound_that_it_is_surely_within() -> None:
    metrics = Metrics(lambda: NOTHING)
    for seconds in (*[0.0005] * 98, 0.0018, 4.9492):
        metrics.decided(seconds)
    found = decisions_in(metrics.exposition("")[0].decode())
    assert found
    assert found.mean_s == pytest.approx(0.05)
    assert found.p99_at_most_s == 0.002


def test_metrics_without_decisions_report_nothing() -> None:
    assert decisions_in("") is None
    assert decisions_in("# TYPE up gauge\nup 1\n") is None


def test_no_two_pods_have_the_same_place_and_all_places_exist() -> None:
    size = Size(3, 30)
    places = [place(number, size.nodes) for number in range(size.pods)]
    published = {(s["spec"]["nodeName"], device["name"]) for s in slices(size) for device in s["spec"]["devices"]}
    assert len(set(places)) == 30
    assert set(map(tuple, places)) == published


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_there_are_devices_for_all_pods_of_each_size(size: Size) -> None:
    assert size_of(f"{size.nodes}:{size.pods}") == size
    assert sum(1 for _ in nodes(size)) == size.nodes
    assert sum(1 for _ in pods(size)) == size.pods


@pytest.mark.parametrize("text", ["100", "1:11", "5:1", "a:b", ""])
def test_a_size_that_cannot_be_measured_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        size_of(text)


def the_pod(number: int, asks: Asks) -> Json:
    return next(itertools.islice(pods(Size(50, 200), asks=asks), number, None))


def test_plain_pods_ask_for_a_device_alone() -> None:
    spec = the_pod(0, PLAIN)["spec"]
    assert spec.keys() == {"schedulerName", "containers", "resourceClaims"}


def test_pods_for_every_filter_look_at_their_app_and_the_one_before() -> None:
    pod = the_pod(150, EVERY_FILTER)
    app, spec = pod["metadata"]["labels"], pod["spec"]
    (spread,) = spec["topologySpreadConstraints"]
    (apart,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (near,) = spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert spread["labelSelector"] == apart["labelSelector"] == {"matchLabels": app}
    assert near["podAffinityTerm"]["labelSelector"] == {"matchLabels": the_pod(50, PLAIN)["metadata"]["labels"]}


def test_each_pod_with_a_volume_has_the_claim_that_the_volume_is_for() -> None:
    size = Size(50, 200)
    found = {claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in volume_claims(size)}
    meant = {volume["spec"]["claimRef"]["name"]: volume["metadata"]["name"] for volume in volumes(size)}
    (disk,) = the_pod(150, EVERY_FILTER)["spec"]["volumes"]
    assert disk["persistentVolumeClaim"]["claimName"] in found
    assert found == meant
    assert len(found) == 200


@pytest.mark.parametrize(
    ("asks", "nodes", "problem"),
    [
        (EVERY_FILTER, [0, 1, 2, 3], ""),
        (EVERY_FILTER, [0, 1, 2, 2], "2 pods of app-000 on node 2"),
        (EVERY_FILTER, [0, 3, 1, 4], "app-000 has .* more than one apart"),
        (PLAIN, [0, 0, 0, 0], ""),
    ],
)
def test_pods_lie_over_zones_and_apart_where_they_ask_for_it(asks: Asks, nodes: Sequence[int], problem: str) -> None:
    found = misplaced(asks, enumerate(nodes))
    assert re.search(problem, found) if problem else not found


def test_pods_that_lie_where_they_did_not_ask_for_do_not_count() -> None:
    bound = [{"metadata": {"name": pod_name(n)}, "spec": {"nodeName": node_name(0)}} for n in range(2)]
    check_places(PLAIN, bound)
    with pytest.raises(WrongState, match="2 pods of app-000 on node 0"):
        check_places(EVERY_FILTER, bound)


def a_placed_pod(name: str, node: str) -> Json:
    statuses = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    metadata = {"name": name, "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"resourceClaimStatuses": statuses}}


def its_claim(name: str, pool: str, device: str, consumer: str = "") -> Json:
    results = [{"request": "gpu", "driver": "x", "pool": pool, "device": device}]
    reserved = [{"resource": "pods", "name": name, "uid": consumer or f"uid-{name}"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return {"metadata": {"name": f"{name}-gpu"}, "status": status}


def test_pods_with_devices_of_their_own_are_right() -> None:
    check(
        [a_placed_pod("a", "node-1"), a_placed_pod("b", "node-2"), a_placed_pod("c", "node-2")],
        [its_claim("a", "node-1", "gpu-0"), its_claim("b", "node-2", "gpu-0"), its_claim("c", "node-2", "gpu-1")],
    )


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (its_claim("b", "node-1", "gpu-0"), "more than once"),
        (its_claim("b", "node-2", "gpu-1"), "pod b on node node-1: .*'node-2'"),
        (its_claim("b", "node-1", "gpu-1", consumer="uid-a"), "reserved for .*uid-a"),
        ({"metadata": {"name": "b-gpu"}}, "has the devices \\[\\]"),
    ],
)
def test_a_placement_that_is_wrong_does_not_count(claim: Json, said: str) -> None:
    with pytest.raises(WrongState, match=said):
        check(
            [a_placed_pod("a", "node-1"), a_placed_pod("b", "node-1")],
            [its_claim("a", "node-1", "gpu-0"), claim],
        )
