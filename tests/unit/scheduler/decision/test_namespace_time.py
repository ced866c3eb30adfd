from scheduler.decision.schedule_result import (
    BURST_S,
    FACTOR,
    FREE_S,
    GROUPS_MOST_S,
    MOST_NAMESPACES,
    REST_FACTOR,
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


def test_namespace_whose_decision_fills_caches_does_not_wait_but_does_when_it_takes_as_long_again() -> None:
    time = NamespaceShare()
    for _ in range(2):
        assert time.waits_until("team") <= 10.0
        time.spent("team", FREE_S + BURST_S, 10.0)
    assert time.waits_until("team") == 10.0 + FACTOR * BURST_S


def test_namespaces_that_wait_no_more_are_forgotten_once_there_are_many() -> None:
    time = NamespaceShare()
    for number in range(MOST_NAMESPACES + 1):
        time.spent(f"namespace-{number}", FREE_S + 0.01, 0.0)
    time.spent("last", FREE_S + BURST_S + 0.01, 1000.0)
    assert time.waits_until("namespace-0") == 0.0
    assert time.waits_until("last") > 1000.0


def test_namespace_yields_for_the_cheapest_group_and_need_not_wait_for_it() -> None:
    time = NamespaceShare()
    time.spent_on_group("team", 0.01, 10.0)
    assert (time.yields_until("team"), time.waits_until("team")) == (10.0 + FACTOR * 0.01, 0.0)
    time.spent_on_group("team", 0.01, 10.0)
    assert time.yields_until("team") == 10.0 + FACTOR * 0.01 + FACTOR * 0.01
    assert time.yields_until("other") == 0.0


def test_what_groups_took_while_nobody_else_was_there_is_not_paid_for_long() -> None:
    time = NamespaceShare()
    for second in range(100):
        time.spent_on_group("team", 1.0, float(second))
    assert time.yields_until("team") == 99.0 + GROUPS_MOST_S


def test_others_get_as_long_as_a_decision_about_a_group_took() -> None:
    time = NamespaceShare()
    time.rest(0.5, 10.0)
    assert time.rests_until == 10.0 + REST_FACTOR * 0.5


def test_namespaces_that_yield_no_more_are_forgotten_once_there_are_many() -> None:
    time = NamespaceShare()
    for number in range(MOST_NAMESPACES + 1):
        time.spent_on_group(f"namespace-{number}", 0.01, 0.0)
    time.spent_on_group("last", 0.01, 1000.0)
    assert time.yields_until("namespace-0") == 0.0
    assert time.yields_until("last") > 1000.0
