"""docs/guard.md has every field, flag and metric as it is."""

import pytest

from scheduler.cli.guard import serve
from scheduler.guard.configuration import GuardConfiguration
from scheduler.guard.reviewer import ANSWERS, GuardMetrics, GuardReading
from scheduler.runtime.metrics import Point, PointStatus, Watch
from tests.unit.scheduler.documented import DOCS, exposed, rows, said, settings

PAGE = "guard.md"
FIELDS = {field: (shown, told) for field, shown, told in rows(PAGE, "Configuration")}
DEFAULTS = list(settings(GuardConfiguration()))


@pytest.mark.parametrize(("field", "default", "text"), DEFAULTS)
def test_field_is_described_with_its_default(field: str, default: object, text: str) -> None:
    shown, told = FIELDS[field]
    assert told.startswith(text)
    assert shown == said(default)


def test_no_other_field_is_described() -> None:
    assert FIELDS.keys() == {field for field, _, _ in DEFAULTS}


def test_every_flag_is_described() -> None:
    flags = {option for parameter in serve.params for option in parameter.opts if option.startswith("--")}
    told = (DOCS / PAGE).read_text()
    assert [flag for flag in sorted(flags) if f"`{flag}`" not in told] == []


def test_metrics_are_those_that_are_exposed() -> None:
    watch = Watch("resourceclaims", objects=0, restarts=0, refused=0, failures=0, silence_s=0, is_alive=True)
    metrics = GuardMetrics(lambda: GuardReading([watch], 0, {"lease": True}))
    metrics.called("verb", 200, 1)
    metrics.violated("I5")
    metrics.failed("part")
    metrics.passed("profile", Point.PRE_BIND, PointStatus.SUCCESS, 1)
    metrics.rolled_back("never")
    metrics.swept("never", 1)
    found = exposed(metrics)
    of_schedulers = {
        "dra_scheduler_rollbacks_total",
        "dra_scheduler_swept_total",
        "scheduler_framework_extension_point_duration_seconds",
    }
    assert {name for name, _ in rows(PAGE, "Endpoints")} == found - of_schedulers


def test_every_answer_is_described() -> None:
    told = (DOCS / PAGE).read_text()
    assert [answer for answer in ANSWERS if f"`{answer}`" not in told] == []
