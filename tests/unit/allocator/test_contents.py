"""What is kept of nodes' contents, which must not grow with what users write."""

from allocator.cluster.reads import ReadKey
from allocator.fleet.fingerprint import MOST_LENSES, Contents


def reading(attribute: str) -> ReadKey:
    return ReadKey.of_programs((), [f"gpu.example/{attribute}"])


def test_shapes_that_read_the_same_share_a_lens() -> None:
    contents = Contents()
    assert contents.lens(reading("a")) is contents.lens(reading("a"))
    assert contents.lens(reading("a")) is not contents.lens(reading("b"))


def test_lens_that_was_not_asked_for_the_longest_is_forgotten() -> None:
    contents = Contents()
    first, second = contents.lens(reading("first")), contents.lens(reading("second"))
    for number in range(MOST_LENSES - 2):
        contents.lens(reading(f"other{number}"))
    assert contents.lens(reading("first")) is first
    contents.lens(reading("one-more"))
    assert contents.lens(reading("first")) is first
    assert contents.lens(reading("second")) is not second
