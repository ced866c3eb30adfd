"""Findings about kube-scheduler's configuration, as text and as a JSON object that docs/extender.md describes."""

from collections.abc import Iterator, Sequence

from allocator.api.findings import shown
from scheduler.kube_scheduler.traps import EXTENDED_RESOURCE, Judged, Severity, Trap

API_VERSION = "dra-scheduler.dev/v1alpha1"
KIND = "KubeSchedulerConfigurationReview"

Json = dict[str, object]


def line_of(trap: Trap) -> str:
    """Place, value and consequence."""
    return f"{_place(trap)}: {trap.consequence}; instead: {trap.remedy}"


def text_of(judged: Judged, traps: Sequence[Trap]) -> str:
    """A paragraph for each, and how many there are."""
    return "\n".join([*(line for trap in traps for line in _paragraph(trap)), _summary(judged, traps)])


def _paragraph(trap: Trap) -> Iterator[str]:
    yield f"{trap.severity}: {_place(trap)}"
    yield f"    {trap.consequence}"
    yield f"    instead: {trap.remedy}"


def _place(trap: Trap) -> str:
    return trap.path if trap.value is None else f"{trap.path}: {shown(trap.value)}"


def _summary(judged: Judged, traps: Sequence[Trap]) -> str:
    errors = sum(trap.severity is Severity.ERROR for trap in traps)
    counts = ", ".join(f"{number} {word}{'' if number == 1 else 's'}" for number, word in _counted(errors, traps))
    return f"{judged.path()} ({judged.mode}): {counts or 'nothing found'}"


def _counted(errors: int, traps: Sequence[Trap]) -> list[tuple[int, str]]:
    return [(number, word) for number, word in ((errors, "error"), (len(traps) - errors, "warning")) if number]


def unjudged(judged: Judged) -> list[str]:
    """The gates that were not judged, since the flags are not known."""
    is_unknown = judged.is_authoritative and judged.gates is None
    return [EXTENDED_RESOURCE] if is_unknown else []


def object_of(judged: Judged, traps: Sequence[Trap]) -> Json:
    """The same for a program."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "extender": judged.path(),
        "mode": judged.mode,
        "findings": [_finding(trap) for trap in traps],
        "notJudged": unjudged(judged),
    }


def _finding(trap: Trap) -> Json:
    return {
        "severity": trap.severity,
        "field": trap.path,
        "value": trap.value,
        "consequence": trap.consequence,
        "remedy": trap.remedy,
    }
