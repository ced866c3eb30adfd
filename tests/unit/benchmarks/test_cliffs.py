"""The pure parts of `make cliffs`: the claims are the same each time and within the API's limits, and the figures."""

import pytest

from allocator.candidates import MAX_RESULTS
from allocator.outcome import Allocated, Exhausted, Refused
from benchmarks.cliffs.cases import MOST_OF_SLICE, HardCase, designed, drawn
from benchmarks.cliffs.figures import EXPLAIN, CliffRun, rows
from benchmarks.cliffs.run import SUBJECTS, measured


def test_claims_are_the_same_for_a_seed() -> None:
    assert list(drawn(1, 5)) == list(drawn(1, 5))
    assert list(drawn(1, 5)) != list(drawn(2, 5))
    assert designed() == designed()


@pytest.mark.parametrize("case", [*designed(), *drawn(3, 20)], ids=lambda case: case.name)
def test_claims_are_within_the_limits_of_the_api(case: HardCase) -> None:
    for slice_ in case.slices:
        assert len(slice_.devices) <= MOST_OF_SLICE
        assert all(len(device.attributes) + len(device.capacity) <= 32 for device in slice_.devices)
    names = [device.name for slice_ in case.slices for device in slice_.devices]
    assert len(set(names)) == len(names)
    for claim in case.claims:
        assert len(claim.requests) <= MAX_RESULTS
        assert len(claim.constraints) <= 32
        assert all(len(request.alternatives) <= 8 for request in claim.requests)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_an_attempt_is_measured_in_a_process_of_its_own(subject: str) -> None:
    case = next(one for one in designed() if one.name == "partitions of 64 sizes")
    run = measured(case, subject)
    assert run.outcome in {Allocated.__name__, Refused.__name__, Exhausted.__name__}
    assert (run.case, run.subject) == (case.name, subject)
    assert run.cpu_s > 0


def test_figures_have_the_worst_of_each_policy_and_of_the_explanation() -> None:
    runs = [
        CliffRun("one", "pack", "Refused", 20_000, 0.2, 10),
        CliffRun("two", "pack", "Exhausted", 500_000, 6.5, 20),
        CliffRun("one", EXPLAIN, "Refused", 20_000, 0.5, 30),
    ]
    found = {row.case: row for row in rows(runs)}
    assert found["pack: processor time of a step"].greatest == pytest.approx(13.0)
    assert found["pack: processor time"].greatest == pytest.approx(6.5)
    assert found["pack: not known"].ours == 1
    assert found["explain: processor time of a step"].greatest == pytest.approx(25.0)
