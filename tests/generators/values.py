"""Random texts of quantities and versions, most of them valid, with digits enough to leave every fixed size."""

from random import Random

_SIGNS = ("", "", "", "+", "-")
_SUFFIXES = ("", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_EXPONENTS = ("e3", "E3", "e-3", "e+2", "E-12", "e18", "e-11")
_NO_SUFFIXES = ("e", "ki", "K", "mi", " ", "x", "e1e", "i")
_DIGITS_BEFORE_POINT = (0, 1, 1, 2, 3, 5, 10, 18, 19, 20, 25)
_DIGITS_AFTER_POINT = (0, 1, 2, 3, 6, 9, 10, 12, 20)

_NUMBERS = ("0", "1", "10", "2", "10", "0", "1", "18446744073709551615")
_NO_NUMBERS = ("01", "", "18446744073709551616", "-1", "x")
_IDENTIFIERS = ("rc", "1", "a-b", "0", "beta", "10", "x2")
_NO_IDENTIFIERS = ("01", "", "é", "x_")
_SHARE_OF_MISTAKES = 0.04


def quantity_text(rng: Random) -> str:
    """A quantity such as `1.5Gi` or `0012e3`."""
    places = rng.choice(_DIGITS_AFTER_POINT)
    fraction = f".{_digits(rng, places)}" if rng.random() < 0.4 else ""
    suffix = rng.choice(_slip(rng, _SUFFIXES + _EXPONENTS, _NO_SUFFIXES))
    return f"{rng.choice(_SIGNS)}{_digits(rng, rng.choice(_DIGITS_BEFORE_POINT))}{fraction}{suffix}"


def version_text(rng: Random) -> str:
    """A version such as `1.0.0-rc.1+build`."""
    core = ".".join(_word(rng, _NUMBERS, _NO_NUMBERS) for _ in range(rng.choice((2, 3, 3, 3, 3, 3, 3, 4))))
    return core + _identifiers(rng, "-", 0.6) + _identifiers(rng, "+", 0.3)


def _identifiers(rng: Random, mark: str, share: float) -> str:
    if rng.random() >= share:
        return ""
    return mark + ".".join(_word(rng, _IDENTIFIERS, _NO_IDENTIFIERS) for _ in range(rng.choice((1, 2, 3))))


def _word(rng: Random, good: tuple[str, ...], bad: tuple[str, ...]) -> str:
    return rng.choice(_slip(rng, good, bad))


def _slip(rng: Random, good: tuple[str, ...], bad: tuple[str, ...]) -> tuple[str, ...]:
    return bad if rng.random() < _SHARE_OF_MISTAKES else good


def _digits(rng: Random, count: int) -> str:
    return "".join(rng.choices("0123456789", k=count))
