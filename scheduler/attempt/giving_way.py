"""The outcome of an attempt that loses its devices to another claim, and when its pod is tried again."""

from allocator.explain.text import holders_text
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import ClaimKey
from scheduler.attempt.decision import Retry
from scheduler.state.rivals import Rival

JITTER_LEAST_S = 0.05
JITTER_MOST_S = 0.5
"""The bounds of the random time after which a pod is tried again whose rival may have given way at the same time."""


def lost_to(rival: Rival, claim: ClaimKey) -> Retry:
    """The rival was faster, and keeps the devices: our view has them as in use, so the next decision goes elsewhere."""
    reason = f"claim {claim}: {_named(rival, claim)} took its devices first"
    return Retry(reason, after_s=0.0, is_lost=True)


def given_up(rival: Rival, claim: ClaimKey, binder: Binder) -> Retry:
    """The rival came later, and does not give way. Two that met once shall not meet again."""
    reason = f"claim {claim}: {_named(rival, claim)} holds the same devices and does not give way"
    jitter_s = JITTER_LEAST_S + binder.time.random() * (JITTER_MOST_S - JITTER_LEAST_S)
    return Retry(reason, jitter_s, is_lost=True)


def _named(rival: Rival, claim: ClaimKey) -> str:
    return holders_text([(f"{rival.namespace}/{rival.name}", 1)], reader=claim.namespace, noun="claim ")
