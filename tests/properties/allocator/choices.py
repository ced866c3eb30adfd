"""Random values from a sequence of choices, so that what failed can be made smaller by making the choices smaller.

The choices are uniform and cost next to nothing: a thousand small clusters take less time than the answers about them.
The first of the options is the simplest one, so a shorter sequence of smaller numbers is a simpler value.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")
Check = Callable[[T], None]


class Choices:
    """Choices that were recorded, then random ones, or the first where nothing is random. made: all of them."""

    def __init__(self, recorded: Sequence[int] = (), random: Random | None = None) -> None:
        self.made: list[int] = []
        self._recorded = recorded
        self._random = random

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        position = len(self.made)
        if position < len(self._recorded):
            chosen = self._recorded[position] % len(options)
        else:
            chosen = self._random.randrange(len(options)) if self._random else 0
        self.made.append(chosen)
        return options[chosen]

    def rarely(self, one_in: int) -> bool:
        """True in one of so many cases."""
        return self.pick((*(False,) * (one_in - 1), True))


class Values(Generic[T]):
    """Values made from choices. make: a value from choices."""

    def __init__(self, make: Callable[[Choices], T]) -> None:
        self._make = make

    def __call__(self, seed: str, number: int) -> Iterator[T]:
        """So many values, the same ones for one seed."""
        return (self._make(Choices(random=Random(f"{seed} {index}"))) for index in range(number))  # noqa: S311

    def hold_for(self, seed: str, number: int, check: Check[T]) -> None:
        """Checks so many values; raises the AssertionError of the simplest value that can be found to fail."""
        for index in range(number):
            choices = Choices(random=Random(f"{seed} {index}"))  # noqa: S311
            if self._error(choices, check) is not None:
                simplest = self._simplest(choices.made, check)
                value = self._make(Choices(simplest))
                raise AssertionError(f"seed {seed!r}, value {index}, made smaller: {value}") from self._error(
                    Choices(simplest), check
                )

    def _error(self, choices: Choices, check: Check[T]) -> AssertionError | None:
        value = self._make(choices)
        try:
            check(value)
        except AssertionError as error:
            return error
        return None

    def _simplest(self, failing: Sequence[int], check: Check[T]) -> Sequence[int]:
        """Shorter or smaller choices that fail as well, until none is found any more."""
        simpler = next((c for c in _simpler(failing) if self._error(Choices(c), check) is not None), None)
        return failing if simpler is None else self._simplest(simpler, check)


def _simpler(choices: Sequence[int]) -> Iterator[Sequence[int]]:
    for length in (32, 8, 4, 2, 1):
        for start in range(0, len(choices) - length + 1, max(1, length // 2)):
            yield [*choices[:start], *choices[start + length :]]
    for position, choice in enumerate(choices):
        if choice:
            yield [*choices[:position], 0, *choices[position + 1 :]]
            yield [*choices[:position], choice - 1, *choices[position + 1 :]]
