"""docs/extender.md has every field, flag, metric and trap as it is."""

from collections.abc import Iterator

import pytest

from scheduler.cli.extender import serve
from scheduler.extender.configuration import ExtenderConfiguration, Mode
from scheduler.extender.program import ExtenderMetrics, ExtenderReading
from scheduler.runtime.metrics import Point, PointStatus, Watch
from tests.unit.scheduler.documented import DOCS, exposed, rows, said, settings
from tests.unit.scheduler.extender.setups import OFF, a_document, found, profiles
from tests.unit.scheduler.manifests import Json

PAGE = "extender.md"
FIELDS = {field: (shown, reported) for field, shown, reported in rows(PAGE, "Configuration")}
DEFAULTS = list(settings(ExtenderConfiguration()))


@pytest.mark.parametrize(("field", "default", "text"), DEFAULTS)
def test_field_is_described_with_its_default(field: str, default: object, text: str) -> None:
    shown, reported = FIELDS[field]
    assert reported.startswith(text)
    assert shown == said(default)


def test_no_other_field_is_described() -> None:
    assert FIELDS.keys() == {field for field, _, _ in DEFAULTS}


def test_every_flag_is_described() -> None:
    flags = {option for parameter in serve.params for option in parameter.opts if option.startswith("--")}
    reported = (DOCS / PAGE).read_text()
    assert [flag for flag in sorted(flags) if f"`{flag}`" not in reported] == []


def test_metrics_are_those_that_are_exposed() -> None:
    watch = Watch("pods", objects=0, restarts=0, refused=0, failures=0, silence_s=0, is_alive=True)
    metrics = ExtenderMetrics(lambda: ExtenderReading([watch], 0, 0, {"Bind": 0}))
    metrics.called("filter", 200, 1)
    metrics.woke()
    metrics.passed("mine", Point.PRE_BIND, PointStatus.SUCCESS, 1)
    metrics.violated("I1")
    metrics.rolled_back("rival")
    metrics.swept("intent", 1)
    metrics.failed("sweep")
    assert {name for name, _ in rows(PAGE, "Endpoints")} == exposed(metrics)


WORST: Json = {
    "ignorable": True,
    "managedResources": [{"name": "x.io/gpu"}],
    "weight": 0,
    "nodeCacheCapable": False,
    "httpTimeout": "1s",
    "tlsConfig": {},
    **{f"{verb}Verb": "other" for verb in ("filter", "prioritize", "preempt", "bind")},
}


def every_path() -> Iterator[str]:
    """Where all the traps are found, in documents that have them all."""
    binder = {"urlPrefix": "https://extender:9443/v2", "bindVerb": "bind"}
    worst = a_document(extender=WORST, percentageOfNodesToScore=0, leaderElection=None, profiles=profiles({}))
    worst["extenders"].append(binder)
    insecure = a_document(extender={"urlPrefix": "https://e", "tlsConfig": {"insecure": True}}, profiles=None)
    default = a_document(profiles=[{"schedulerName": "default-scheduler", "plugins": OFF}])
    plain = a_document(
        Mode.ADVISORY, extender={"urlPrefix": "http://e", "preemptVerb": "preempt"}, profiles=profiles(OFF)
    )
    for raw in (worst, insecure, default, plain):
        yield from (trap.path for trap in found(raw, gates={}))


def test_every_trap_is_described() -> None:
    described = {field for field, *_ in rows(PAGE, "Traps")}
    names = {path.partition(" ")[0].rpartition(".")[2].partition("[")[0] for path in every_path()}
    assert len(names) > 15
    assert names - {"profiles"} <= described  # of a file without profiles: what it says of their plugins
