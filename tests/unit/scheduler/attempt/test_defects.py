"""Whom a missing right concerns: a namespace at once, the program only if it lasts and no pod is bound meanwhile."""

import pytest

from scheduler.attempt.write_outcome import PROBE_S, Defects
from scheduler.client.errors import LASTS_S

REASON = "403 Forbidden: it is forbidden"


@pytest.fixture
def tried() -> set[str]:
    """The pods that wait, by uid."""
    return {"uid-a", "uid-b"}


@pytest.fixture
def defects(tried: set[str]) -> Defects:
    return Defects(lambda uid: uid in tried)


def test_namespace_where_a_right_is_missing_is_tried_with_one_pod_a_second(defects: Defects) -> None:
    defects.found("a", "uid-a", REASON, 0.0)
    assert defects.objection("a", PROBE_S / 2) == REASON
    assert defects.objection("a", PROBE_S) == ""
    assert defects.objection("a", PROBE_S) == REASON


def test_namespaces_where_a_right_is_missing_share_the_one_pod_a_second(defects: Defects) -> None:
    defects.found("a", "uid-a", REASON, 0.0)
    defects.found("b", "uid-b", REASON, 0.0)
    assert defects.objection("a", PROBE_S) == ""
    assert defects.objection("b", PROBE_S) == REASON


def test_other_namespaces_are_tried_as_always(defects: Defects) -> None:
    defects.found("a", "uid-a", REASON, 0.0)
    assert defects.objection("b", 0.0) == ""


def test_pods_are_told_the_same_for_as_long_as_it_lasts(defects: Defects) -> None:
    defects.found("a", "uid-a", REASON, 0.0)
    defects.found("a", "uid-b", "another pod's path in it", 1.0)
    assert defects.objection("a", 1.0) == REASON


def test_what_passes_within_seconds_is_not_the_programs(defects: Defects) -> None:
    """As of an API server that has just started."""
    defects.found("a", "uid-a", REASON, 0.0)
    assert defects.trouble == ""
    defects.found("a", "uid-a", REASON, LASTS_S - 1)
    assert defects.trouble == ""
    defects.found("a", "uid-a", REASON, LASTS_S)
    assert defects.trouble == REASON


def test_it_is_not_the_programs_while_pods_of_other_namespaces_are_bound(defects: Defects) -> None:
    for moment in range(0, 60, 2):
        defects.found("a", "uid-a", REASON, moment)
        defects.bound("b", moment + 1)
        assert defects.trouble == ""
    defects.found("a", "uid-a", REASON, 59 + LASTS_S)
    assert defects.trouble == REASON


def test_once_a_pod_that_lacked_the_right_is_bound_all_namespaces_are_tried_again(defects: Defects) -> None:
    defects.found("a", "uid-a", REASON, 0.0)
    defects.found("b", "uid-b", REASON, LASTS_S)
    defects.bound("a", LASTS_S)
    assert [defects.objection(one, LASTS_S) for one in "ab"] == ["", ""]


@pytest.mark.parametrize("is_refused", [True, False])
def test_pod_that_waits_for_something_else_or_has_gone_shows_nothing(
    defects: Defects, tried: set[str], *, is_refused: bool
) -> None:
    defects.found("a", "uid-a", REASON, 0.0)
    defects.found("a", "uid-a", REASON, LASTS_S)
    if is_refused:
        defects.refused("uid-a")
    else:
        tried.remove("uid-a")
    assert defects.trouble == ""
    assert defects.objection("a", LASTS_S) == ""


def test_nothing_is_kept_of_pods_that_have_gone() -> None:
    defects = Defects(lambda uid: uid == "uid-99999")
    for number in range(100_000):
        defects.found(f"namespace-{number}", f"uid-{number}", REASON, 0.0)
    assert len(defects) == 1
