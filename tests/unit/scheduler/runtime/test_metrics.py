"""What is told is what is read, under the names that dashboards know."""

from collections.abc import Mapping
from itertools import pairwise
from typing import get_args

from prometheus_client.parser import text_string_to_metric_families

from scheduler import VERSION
from scheduler.repair import Leftover
from scheduler.runtime.core import Reporter
from scheduler.runtime.metrics import AttemptResult, Metrics, Point, PointStatus, Reading, Watch

PROFILE = "mine"
WATCH = Watch("pods", objects=7, restarts=2, refused=1, failures=3, silence_s=0.5, is_alive=True)
READING = Reading(
    queues={"active": 1, "backoff": 2, "unschedulable": 3, "gated": 4},
    unschedulable={(PROFILE, "NodeResourcesFit"): 3},
    cache={"nodes": 5, "pods": 6, "assumed_pods": 1},
    watches=[WATCH],
    bindings=8,
    prescheduled=9,
    events_dropped=10,
    events_failed=11,
    leading={"lease": True},
    steps={"Bind": 12},
)


def exposed(metrics: Metrics) -> Mapping[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples, by name and labels."""
    body, content_type = metrics.exposition("")
    assert content_type.startswith("text/plain")
    families = text_string_to_metric_families(body.decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return exposed(metrics)[name, tuple(sorted(labels.items()))]


def some() -> Metrics:
    return Metrics(lambda: READING)


def test_what_is_swept_is_counted_by_kind() -> None:
    metrics = some()
    leftovers: tuple[Leftover, ...] = get_args(Leftover)
    for number, leftover in enumerate(leftovers, 1):
        Reporter(metrics).swept(leftover, number)
    name = "dra_scheduler_swept_total"
    assert [value(metrics, name, leftover=leftover) for leftover in leftovers] == [1, 2]


def test_attempts_are_counted_and_timed_by_result() -> None:
    metrics = some()
    for result in (AttemptResult.SCHEDULED, AttemptResult.SCHEDULED, AttemptResult.ERROR):
        metrics.attempted(PROFILE, result, 0.003)
    assert value(metrics, "scheduler_schedule_attempts_total", result="scheduled", profile=PROFILE) == 2
    assert value(metrics, "scheduler_schedule_attempts_total", result="error", profile=PROFILE) == 1
    duration = "scheduler_scheduling_attempt_duration_seconds"
    assert value(metrics, f"{duration}_bucket", result="scheduled", profile=PROFILE, le="0.002") == 0
    assert value(metrics, f"{duration}_bucket", result="scheduled", profile=PROFILE, le="0.004") == 2


def test_profiles_are_counted_apart() -> None:
    metrics = some()
    for profile in ("first", "second", "second"):
        metrics.attempted(profile, AttemptResult.SCHEDULED, 0.003)
        metrics.passed(profile, Point.BIND, PointStatus.SUCCESS, 0.001)
    point = {"extension_point": "Bind", "status": "Success"}
    for name, labels in (
        ("scheduler_schedule_attempts_total", {"result": "scheduled"}),
        ("scheduler_scheduling_attempt_duration_seconds_count", {"result": "scheduled"}),
        ("scheduler_framework_extension_point_duration_seconds_count", point),
    ):
        assert [value(metrics, name, profile=one, **labels) for one in ("first", "second")] == [1, 2]


def test_bound_pods_are_timed_by_their_number_of_attempts_of_which_many_are_one() -> None:
    metrics = some()
    for attempts in (1, 3, 16, 200):
        metrics.scheduled(attempts, 1.0)
    count = "scheduler_pod_scheduling_sli_duration_seconds_count"
    assert value(metrics, count, attempts="3") == 1
    assert value(metrics, count, attempts="16+") == 2
    assert value(metrics, "scheduler_pod_scheduling_attempts_count") == 4


def test_parts_of_attempts_and_decisions_are_timed() -> None:
    metrics = some()
    metrics.decided(0.0005)
    metrics.passed(PROFILE, Point.PRE_BIND, PointStatus.ERROR, 0.01)
    assert value(metrics, "scheduler_scheduling_algorithm_duration_seconds_count") == 1
    labels = {"extension_point": "PreBind", "status": "Error", "profile": PROFILE}
    assert value(metrics, "scheduler_framework_extension_point_duration_seconds_count", **labels) == 1


def test_decisions_are_timed_finely_where_they_are_and_with_all_bounds_of_kube_scheduler() -> None:
    metrics = some()
    metrics.decided(0.0011)
    name = "scheduler_scheduling_algorithm_duration_seconds_bucket"
    bounds = {dict(labels)["le"]: number for (found, labels), number in exposed(metrics).items() if found == name}
    assert (bounds["0.001"], bounds["0.00125"]) == (0, 1)
    assert {str(0.001 * 2**power) for power in range(15)} <= bounds.keys()
    fine = sorted(bound for bound in map(float, bounds) if 0.0001 <= bound <= 0.02)
    assert all(upper <= 1.3 * lower for lower, upper in pairwise(fine))


def test_own_counters_are_reported_by_their_label() -> None:
    metrics = some()
    metrics.queued("active", "PodAdd")
    metrics.violated("I1")
    metrics.rolled_back("rival")
    metrics.swept("intent", 2)
    assert value(metrics, "scheduler_queue_incoming_pods_total", queue="active", event="PodAdd") == 1
    assert value(metrics, "dra_scheduler_invariant_violations_total", invariant="I1") == 1
    assert value(metrics, "dra_scheduler_rollbacks_total", reason="rival") == 1
    assert value(metrics, "dra_scheduler_swept_total", leftover="intent") == 2
    assert value(metrics, "dra_scheduler_build_info", version=VERSION) == 1


def test_counters_are_there_before_they_first_count() -> None:
    metrics = some()
    metrics.started("sweep")
    assert value(metrics, "dra_scheduler_rollbacks_total", reason="retry") == 0
    assert value(metrics, "dra_scheduler_swept_total", leftover="allocation") == 0
    assert value(metrics, "dra_scheduler_failed_parts_total", part="sweep") == 0


def test_what_is_so_now_is_asked_for_at_each_reading() -> None:
    readings = [READING]
    metrics = Metrics(lambda: readings[-1])
    assert value(metrics, "scheduler_pending_pods", queue="gated") == 4
    assert value(metrics, "scheduler_unschedulable_pods", plugin="NodeResourcesFit", profile=PROFILE) == 3
    assert value(metrics, "scheduler_cache_size", type="assumed_pods") == 1
    assert exposed(metrics)["leader_election_master_status", (("name", "lease"),)] == 1
    readings.append(Reading({"gated": 0}, {}, {}, [], 0, 0, 0, 0, {}, {}))
    assert value(metrics, "scheduler_pending_pods", queue="gated") == 0


def test_watches_are_reported_by_resource() -> None:
    samples = exposed(some())
    label = (("resource", "pods"),)
    reported = {
        name.removeprefix("dra_scheduler_watch_"): number for (name, own), number in samples.items() if own == label
    }
    assert reported == {
        "objects": 7,
        "refused_objects": 1,
        "silence_seconds": 0.5,
        "alive": 1,
        "restarts_total": 2,
        "failed_changes_total": 3,
    }


def test_single_numbers_are_reported_without_labels() -> None:
    metrics = some()
    names = ("bindings_in_flight", "prescheduled_pods", "events_dropped_total", "events_failed_total")
    assert [value(metrics, f"dra_scheduler_{name}") for name in names] == [8, 9, 10, 11]


def test_open_metrics_are_given_to_who_asks_for_them() -> None:
    body, content_type = some().exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_two_schedulers_in_one_process_count_apart() -> None:
    first, second = some(), some()
    first.decided(0.1)
    assert value(second, "scheduler_scheduling_algorithm_duration_seconds_count") == 0


def test_what_cannot_be_reported_at_the_moment_costs_itself_alone() -> None:
    metrics = Metrics(lambda: 1 // 0)  # type: ignore[arg-type,return-value] # it never returns
    metrics.decided(0.1)
    assert value(metrics, "scheduler_scheduling_algorithm_duration_seconds_count") == 1
    assert value(metrics, "dra_scheduler_failed_parts_total", part="metrics") >= 1
