"""Numbers that have changed, for those who follow them."""

from random import Random

from allocator.memo import LEAST_CHANGES, ChangedNumbers


def test_numbers_that_have_changed_since_are_named_once_in_their_order() -> None:
    changes = ChangedNumbers()
    for row in (7, 3, 7):
        changes.note(row, 10)
    seen = changes.now
    assert changes.numbers_since(0) == [3, 7]
    assert changes.numbers_since(seen) == []
    changes.note(1, 10)
    assert changes.numbers_since(seen) == [1]


def test_who_has_missed_a_change_looks_at_all_and_nobody_misses_any() -> None:
    draw, changes, made = Random(1), ChangedNumbers(), list[int]()  # noqa: S311 - no secret
    for _ in range(20 * LEAST_CHANGES):
        made.append(draw.randrange(8))
        changes.note(made[-1], 8)
        seen = len(made) - draw.randrange(1, LEAST_CHANGES // 2)
        if seen >= 0:
            assert changes.numbers_since(seen) == sorted(set(made[seen:]))
    assert changes.numbers_since(0) is None
    assert changes.now == len(made)
