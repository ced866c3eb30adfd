"""What is growth of a program, and what is not."""

import pytest

from tests.chaos.growth import LOOKED_AT, OF_CONNECTION, ROOM, WARM, Use, grown, own_use

ROUNDS = WARM + 2 * LOOKED_AT


def _of(descriptors: float, *, leads: bool) -> Use:
    return Use(100.0, descriptors, 8.0, leads)


@pytest.mark.parametrize("name", ROOM)
def test_what_grows_in_a_long_life_is_found(name: str) -> None:
    steady = [Use(100.0 + number % 3, 40, 20) for number in range(ROUNDS)]
    assert list(grown(steady)) == []
    growing = [one._replace(**{name: 100.0 + 10 * number}) for number, one in enumerate(steady)]  # type: ignore[arg-type]
    (found,) = grown(growing)
    assert found.startswith(f"{name} has grown from 200 to ")


def test_standby_that_leads_later_has_not_grown() -> None:
    """As guard-0 in round 633: it led for the last rounds of its life, and had 29 descriptors in place of 19."""
    life = [_of(19.0, leads=False)] * ROUNDS + [_of(29.0, leads=True)] * ROUNDS
    assert not [text for number in range(len(life)) for text in grown(life[: number + 1])]


def test_leader_that_grows_has_grown_however_long_it_waited_before() -> None:
    waited = [_of(19.0, leads=False)] * ROUNDS
    life = [*waited, *(_of(20.0 + 3 * number, leads=True) for number in range(ROUNDS))]
    assert list(grown(life)) == ["descriptors has grown from 50 to 65 in 18 rounds"]


def test_nothing_is_said_of_a_short_life() -> None:
    assert not list(grown([_of(20.0 + 9 * number, leads=True) for number in range(ROUNDS - 1)]))


def test_connections_of_others_are_not_counted() -> None:
    few, many = ({OF_CONNECTION: number, "Loop.run": 8} for number in (1, 40))
    assert own_use(100.0, 21, few, leads=True) == own_use(100.0, 60, many, leads=True) == Use(100.0, 20, 8, leads=True)
