"""What is kept of fingerprints must not grow with what users write."""

from allocator.cluster.snapshot import ReadKey
from allocator.fleet.alike import MOST_PROJECTIONS, Fingerprints


def reading(attribute: str) -> ReadKey:
    return ReadKey.of_programs((), [f"gpu.example/{attribute}"])


def test_questions_that_read_the_same_share_a_projection() -> None:
    fingerprints = Fingerprints()
    assert fingerprints.projection(reading("a")) is fingerprints.projection(reading("a"))
    assert fingerprints.projection(reading("a")) is not fingerprints.projection(reading("b"))


def test_least_recently_used_projection_is_forgotten() -> None:
    fingerprints = Fingerprints()
    first, second = fingerprints.projection(reading("first")), fingerprints.projection(reading("second"))
    for number in range(MOST_PROJECTIONS - 2):
        fingerprints.projection(reading(f"other{number}"))
    assert fingerprints.projection(reading("first")) is first
    fingerprints.projection(reading("one-more"))
    assert fingerprints.projection(reading("first")) is first
    assert fingerprints.projection(reading("second")) is not second
