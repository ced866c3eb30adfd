"""The intent: an annotation on a claim that says who is allocating it, and for which pod.

It is written before the allocation and stays as long as the allocation does. After a crash it shows what was begun. An
attempt that finds the intent of another attempt for its pod leaves the claim alone: it has been taken over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

ANNOTATION = "dra-scheduler.dev/intent"


@dataclass(frozen=True, slots=True)
class Intent:
    """One attempt for one pod.

    scheduler: its name. epoch: of the process, from when it began to write: not smaller than those of all processes
    before it. process: which one it is of those that have begun at the same time. podUID, node: what the claim is for.
    attempt: counts within the process. renewal: how often the attempt has written it again, to see whether the claim is
    still its own; it is no part of the identity.
    """

    scheduler: str
    epoch: int
    process: str
    podUID: str  # noqa: N815 - as the annotation spells it
    node: str
    attempt: int
    renewal: int = field(default=0, compare=False)

    def __str__(self) -> str:
        values = {name: getattr(self, name) for name in self.__slots__ if name != "renewal" or self.renewal}
        return orjson.dumps(values).decode()


def intent_of(claim: Mapping[str, Any]) -> Intent | None:
    """The intent that stands on the claim; None where there is none, or none that can be read."""
    return intent_in(claim["metadata"].get("annotations") or {})


def intent_in(annotations: Mapping[str, Any]) -> Intent | None:
    """The intent among a claim's annotations; None as for `intent_of`."""
    text = annotations.get(ANNOTATION)
    try:
        found = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        return None
    return _typed(found) if isinstance(found, dict) else None


def _typed(found: Mapping[str, object]) -> Intent | None:
    """The annotation is text that anybody may write: what is not of our form is no intent."""
    match found:
        case {
            "scheduler": str() as scheduler,
            "epoch": int() as epoch,
            "process": str() as process,
            "podUID": str() as uid,
            "node": str() as node,
            "attempt": int() as attempt,
        }:
            renewal = found.get("renewal")
            return Intent(scheduler, epoch, process, uid, node, attempt, renewal if isinstance(renewal, int) else 0)
        case _:
            return None


def is_of_another_attempt(claim: Mapping[str, Any], intent: Intent) -> bool:
    """Whether another attempt for the same pod has taken the claim over."""
    found = intent_of(claim)
    return found is not None and found.podUID == intent.podUID and found != intent
