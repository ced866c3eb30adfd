from math import inf

from scheduler.decision.time_limits import (
    BURST_S,
    FACTOR,
    FIRST_SLICE_S,
    FREE_S,
    LEAST_SLICE_S,
    MOST_DEBT_S,
    MOST_NAMESPACES,
    MOST_PRIORITIES,
    MOST_SLICE_S,
    TOGETHER,
    TOGETHER_MOST_S,
    NamespaceShare,
)


def test_namespace_whose_decisions_are_quick_never_waits() -> None:
    time = NamespaceShare()
    for _ in range(100):
        time.spent("quick", FREE_S, 10.0)
    assert time.waits_until("quick") == 0.0


def test_others_go_first_for_many_times_what_a_decision_took() -> None:
    time = NamespaceShare()
    time.spent("dear", FREE_S + BURST_S + 0.5, 10.0)
    assert time.waits_until("dear") == 10.0 + FACTOR * 0.5
    assert time.waits_until("other") == 0.0


def test_decisions_that_follow_one_another_add_up() -> None:
    time = NamespaceShare()
    time.spent("dear", FREE_S + BURST_S + 0.5, 10.0)
    time.spent("dear", FREE_S + 0.25, 10.6)
    assert time.waits_until("dear") == 10.0 + FACTOR * 0.75


def test_no_namespace_waits_longer_than_for_one_decision_that_has_taken_all_its_time() -> None:
    """It may be others who made its decisions long."""
    time = NamespaceShare()
    for _ in range(100):
        time.spent("good", 0.5, 10.0)
    assert time.waits_until("good") == 10.0 + MOST_DEBT_S


def test_namespace_whose_decision_fills_caches_does_not_wait_but_does_when_it_takes_as_long_again() -> None:
    time = NamespaceShare()
    for _ in range(2):
        assert time.waits_until("team") <= 10.0
        time.spent("team", FREE_S + BURST_S, 10.0)
    assert time.waits_until("team") == 10.0 + FACTOR * BURST_S


def test_expensive_namespaces_wait_together_for_cheap_ones_and_new_ones_hardly() -> None:
    time = NamespaceShare()
    time.spent("first", 1000.0, 10.0)
    assert time.waits_for_cheap_until("first") <= 10.0, "nobody is known for cheap decisions yet"
    time.spent("refused", 0.0, 10.0)
    time.spent("cheap", FREE_S, 10.0, is_placed=True)
    assert time.waits_for_cheap_until("first") <= 10.0
    time.spent("dear", 0.25, 10.0)
    waits = [time.waits_for_cheap_until(one) for one in ("cheap", "first", "dear", "new", "refused")]
    assert waits == [0.0] + 4 * [10.0 + TOGETHER * 0.25], "the first turn of a new one"
    time.spent("dear", 1.0, 20.0)
    waits = [time.waits_for_cheap_until(one) for one in ("first", "dear", "new")]
    assert waits == [20.0 + TOGETHER, 20.0 + TOGETHER, 10.0 + TOGETHER * 0.25], "it is new no more"
    time.spent("cheap", FREE_S + BURST_S, 10.0)
    assert time.is_cheap("cheap"), "it may have filled caches"
    time.spent("second", 0.0, 10.0, is_placed=True)
    time.spent("cheap", 1000.0, 10.0)
    assert not time.is_cheap("cheap")
    assert time.waits_for_cheap_until("cheap") == 10.0 + TOGETHER_MOST_S
    for number in range(2 * MOST_NAMESPACES):
        time.spent(f"namespace-{number}", 0.0, 20.0, is_placed=True)
    assert [time.is_cheap(f"namespace-{number}") for number in (0, 2 * MOST_NAMESPACES - 1)] == [False, True]


def test_first_turn_of_a_new_namespace_is_short_and_others_are_as_long_as_all_before() -> None:
    time = NamespaceShare()
    assert time.slice_s("team", 0.0) == FIRST_SLICE_S
    time.spent("team", FIRST_SLICE_S, 10.0)
    assert [time.slice_s("team", spent_s) for spent_s in (0.0, FIRST_SLICE_S, 0.5, 2.0)] == [
        LEAST_SLICE_S,
        LEAST_SLICE_S,
        0.5,
        MOST_SLICE_S,
    ]
    time.spent("team", 0.0, 10.0, is_placed=True)
    assert time.slice_s("team", 0.0) == LEAST_SLICE_S


def test_namespaces_that_wait_no_more_are_forgotten_once_there_are_many() -> None:
    time = NamespaceShare()
    for number in range(MOST_NAMESPACES + 1):
        time.spent(f"namespace-{number}", FREE_S + 0.01, 0.0)
    time.spent("last", FREE_S + BURST_S + 0.01, 1000.0)
    assert time.waits_until("namespace-0") == 0.0
    assert time.waits_until("last") > 1000.0


def test_of_each_namespace_it_is_known_when_another_one_of_such_a_priority_was_tried_last() -> None:
    time = NamespaceShare()
    assert time.others_tried_at("a") == -inf
    for namespace, priority, at in [("a", 0, 1.0), ("b", 0, 2.0), ("c", 9, 3.0), ("a", 0, 4.0), ("a", 0, 5.0)]:
        time.tried(namespace, priority, at)
    assert [time.others_tried_at(one) for one in ("a", "b", "c")] == [3.0, 5.0, 5.0]
    assert [time.others_tried_at("a", 9), time.others_tried_at("c", 9)] == [3.0, -inf]
    for number in range(MOST_PRIORITIES - 1):
        time.tried("d", 10 + number, 6.0)
    assert time.others_tried_at("d") == 5.0
