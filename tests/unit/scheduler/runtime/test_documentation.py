"""docs/scheduler.md has every field, flag and metric as it is."""

import pytest

from scheduler.runtime.configuration import Configuration
from scheduler.runtime.metrics import AttemptResult, Metrics, Point, PointStatus, Reading, Watch
from tests.unit.scheduler.documented import exposed, rows, said, settings

PAGE = "scheduler.md"
FIELDS = {field: (shown, reported) for field, shown, reported in rows(PAGE, "Configuration")}


@pytest.mark.parametrize(("field", "default", "text"), list(settings(Configuration())))
def test_field_is_described_with_its_default(field: str, default: object, text: str) -> None:
    shown, reported = FIELDS[field]
    assert reported.startswith(text)
    assert shown == said(default)


def test_metrics_are_those_that_are_exposed() -> None:
    watch = Watch("pods", objects=0, restarts=0, refused=0, failures=0, silence_s=0, is_alive=True)
    unschedulable = {("mine", "NodePorts"): 0}
    metrics = Metrics(
        lambda: Reading({"active": 0}, unschedulable, {"nodes": 0}, [watch], 0, 0, 0, 0, {"lease": True}, {"Bind": 0})
    )
    metrics.attempted("mine", AttemptResult.SCHEDULED, 1)
    metrics.scheduled(1, 1)
    metrics.decided(1)
    metrics.passed("mine", Point.PRE_BIND, PointStatus.SUCCESS, 1)
    metrics.queued("active", "PodAdd")
    metrics.violated("I1")
    metrics.rolled_back("rival")
    metrics.swept("intent", 1)
    metrics.failed("sweep")
    assert {name for name, _ in rows(PAGE, "Endpoints")} == exposed(metrics)
