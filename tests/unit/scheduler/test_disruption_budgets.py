"""Which evictions violate a PodDisruptionBudget."""

from dataclasses import replace
from typing import Any

import pytest

from allocator.model import Requirement
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import PodDisruptionBudget, decode_disruption_budget
from scheduler.state.pods_by_priority import DisruptionBudgets
from tests.builders import a_pod

WEB = (Requirement("app", "In", ("web",)),)


def a_budget(allowed: int = 0, name: str = "b", **more: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget("default", name, **{"selector": WEB, "disruptions_allowed": allowed, **more})


def web(name: str, **more: Any) -> Pod:
    return a_pod(name=name, **{"labels": {"app": "web"}, **more})


def violating(*budgets: PodDisruptionBudget, pods: list[Pod], empty_selects_all: bool = True) -> list[bool]:
    found = DisruptionBudgets(empty_selects_all=empty_selects_all)
    for one in budgets:
        found.set(one)
    return [bool(own) for own in found.violated([(pod,) for pod in pods])]


def test_budget_is_read_with_what_its_controller_has_written() -> None:
    raw = {
        "metadata": {"name": "b", "namespace": "a"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 2, "disruptedPods": {"gone": "2026-01-01T00:00:00Z"}},
    }
    found = PodDisruptionBudget("a", "b", WEB, 2, frozenset({"gone"}))
    assert decode_disruption_budget(raw) == (found, ())


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"metadata": {"name": "b"}, "status": {"disruptionsAllowed": "2"}}, "status.disruptionsAllowed"),
        ({"metadata": {"name": "b"}, "spec": {"selector": 1}}, "spec.selector"),
        ({"metadata": {"name": "no name"}}, "metadata.name"),
    ],
)
def test_error_names_the_field(raw: dict[str, object], path: str) -> None:
    found, errors = decode_disruption_budget(raw)
    assert found is None
    assert [error.path for error in errors] == [path]


def test_the_first_pods_use_up_what_is_allowed() -> None:
    assert violating(a_budget(1), pods=[web("x"), web("y"), web("z")]) == [False, True, True]


def test_every_budget_of_a_pod_loses_one() -> None:
    both = [a_budget(0), a_budget(1, "c")]
    assert violating(*both, pods=[web("x"), web("y")]) == [True, True]
    only = replace(a_budget(1, "c"), selector=(Requirement("tier", "In", ("1",)),))
    pods = [web("x", labels={"app": "web", "tier": "1"}), a_pod(name="y", labels={"tier": "1"})]
    assert violating(a_budget(0), only, pods=pods) == [True, True]


def test_pod_whose_eviction_is_counted_already_takes_nothing() -> None:
    assert violating(a_budget(0, disrupted=frozenset({"x"})), pods=[web("x")]) == [False]


def test_budget_of_another_namespace_or_without_selector_counts_nobody() -> None:
    elsewhere = replace(a_budget(), namespace="other")
    assert violating(elsewhere, a_budget(0, "c", selector=None), pods=[web("x")]) == [False]


def test_empty_selector_selects_all_from_1_38_on() -> None:
    everything = a_budget(selector=())
    assert violating(everything, pods=[web("x"), a_pod(name="y")]) == [True, True]
    assert violating(everything, pods=[web("x"), a_pod(name="y")], empty_selects_all=False) == [False, False]


def test_pods_without_labels_are_selected_from_1_38_on() -> None:
    absent = a_budget(selector=(Requirement("app", "DoesNotExist"),))
    assert violating(absent, pods=[a_pod(name="x")]) == [True]
    assert violating(absent, pods=[a_pod(name="x")], empty_selects_all=False) == [False]


def test_budget_that_is_gone_counts_no_more() -> None:
    budgets = DisruptionBudgets()
    budgets.set(a_budget())
    budgets.remove(a_budget())
    assert budgets.namespaces == {}
    assert budgets.of(web("x")) == ()
