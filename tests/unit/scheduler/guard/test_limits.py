"""What the guard says of an update that would have more than a limit of its namespace leaves."""

from allocator.limits import ONE_DEVICE, CountedDevices, Namespaces, TenantLimit
from scheduler.guard.ledger import LIMIT, Denial, Ledger, Update
from tests.properties.guard.guarded_world import a_result
from tests.properties.state.claim_world import an_object
from tests.unit.scheduler.guard.test_ledger import a_cluster, cause, with_devices


def most(number: int, *, soft: bool = False, name: str = "few") -> TenantLimit:
    return TenantLimit(name, Namespaces(frozenset({"default"})), CountedDevices(), number * ONE_DEVICE, soft=soft)


def a_ledger(*limits: TenantLimit, held: tuple[str, ...] = (), shown: str = "") -> Ledger:
    """Of four devices. held: by one claim, as the watch shows it. shown: a claim that it shows without devices."""
    cluster = a_cluster("a", "b", "c", "d")
    cluster.set_limits(limits)
    if held:
        cluster.set_claim(an_object(with_devices("held", *map(a_result, held))), 3)
    if shown:
        cluster.set_claim(an_object(with_devices(shown)), 4)
    return Ledger(cluster)


def test_update_beyond_a_limit_is_refused_by_its_name() -> None:
    ledger = a_ledger(most(2), held=("a",), shown="new")
    assert cause(ledger, "new", a_result("b")) == ""
    refusal = ledger.refusal(Update(with_devices("new", a_result("b"), a_result("c")), 5))
    assert refusal == Denial(LIMIT, "claim default/new: limit few: 1 of 2 in use, 2 more requested")


def test_claim_that_may_be_invented_is_not_told_what_its_namespace_uses() -> None:
    refusal = a_ledger(most(1), held=("a",)).refusal(Update(with_devices("new", a_result("b")), 5))
    assert refusal == Denial(LIMIT, "claim default/new: a limit of its namespace leaves too little")


def test_allowed_update_counts_before_the_watch_shows_it() -> None:
    ledger = a_ledger(most(1))
    assert ledger.admit(Update(with_devices("one", a_result("a")), 5), 100.0) is None
    assert cause(ledger, "two", a_result("b")) == LIMIT
    assert cause(ledger, "one", a_result("b")) == ""  # of the updates of one claim, one can be stored
    ledger.expire(100.0)
    assert cause(ledger, "two", a_result("b")) == ""


def test_refused_update_counts_for_nothing() -> None:
    ledger = a_ledger(most(1))
    assert cause(ledger, "one", a_result("a"), a_result("b")) == LIMIT
    assert cause(ledger, "two", a_result("a")) == ""


def test_claim_keeps_what_it_has_although_the_limit_is_exceeded_already() -> None:
    ledger = a_ledger(most(1), held=("a", "b"))
    assert cause(ledger, "held", a_result("a"), a_result("b")) == ""
    assert cause(ledger, "held", a_result("a"), a_result("c")) == ""
    assert cause(ledger, "held", a_result("a"), a_result("b"), a_result("c")) == LIMIT


def test_soft_limit_refuses_nothing() -> None:
    assert cause(a_ledger(most(1, soft=True), held=("a",)), "new", a_result("b")) == ""
