"""How long to wait after failures in a row: one rule for pods, writes and watches."""

_DOUBLINGS_MAX = 60
"""Beyond any longest wait, and no number that overflows."""


def backoff_s(failures: int, first_s: float, most_s: float) -> float:
    """first_s after the first failure, doubled with each further one, most_s at the most; 0 before any."""
    return min(first_s * 2.0 ** min(failures - 1, _DOUBLINGS_MAX), most_s) if failures > 0 else 0.0
