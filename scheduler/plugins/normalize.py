"""Scales raw scores to 0 to MAX_SCORE, in kube-scheduler's integer arithmetic."""

from scheduler.state.masks import Numbers

MAX_SCORE = 100


def normalized(raw: Numbers, *, is_reversed: bool = False) -> Numbers:
    """The raw scores, none below 0, in proportion to the largest. is_reversed: the smallest is the best.

    Where all are 0 they stay so, or are the best when reversed.
    """
    largest = int(raw.max(initial=0))
    scaled = raw * MAX_SCORE // largest if largest else raw
    return MAX_SCORE - scaled if is_reversed else scaled
