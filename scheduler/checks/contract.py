"""What a rule is, and what it finds."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from scheduler.input.documents import Place

Checked = TypeVar("Checked")
"""What the rules of a command look at."""


class FindingLevel(StrEnum):
    """How bad it is, in the words of SARIF."""

    ERROR = "error"
    """Wrong: the exit code is 1."""
    WARNING = "warning"
    """Probably wrong, or wrong soon."""
    NOTE = "note"
    """Good to know."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The object that something is wrong with. namespace: empty for objects of the cluster."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that a rule finds. field: the path in the object, or empty.

    where: the same in words, by the names of requests, such as `request gpu, selector #0`; empty for the whole object.
    claims: those that it is about, as `namespace/name`, where the subject is a device. place: in the input, where it is
    not that of the subject: nothing is known of an object with errors, and of two of one name each has its own.
    """

    subject: ObjectName
    message: str
    field: str = ""
    claims: tuple[str, ...] = ()
    place: Place | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class Check(Generic[Checked]):
    """A rule. name: as users see it, such as `device-allocated-twice`. summary: a sentence on what is wrong then.

    advice: what to do. check: finds every place. Cost of a check: O(what it looks at).
    """

    name: str
    level: FindingLevel
    summary: str
    advice: str
    check: Callable[[Checked], Iterable[Observation]]


@dataclass(frozen=True, slots=True)
class CheckFinding(Generic[Checked]):
    """An observation with the rule that made it."""

    rule: Check[Checked]
    observation: Observation


def run(rules: Sequence[Check[Checked]], checked: Checked) -> Iterator[CheckFinding[Checked]]:
    """All that the rules find, in their order."""
    for rule in rules:
        for observation in rule.check(checked):
            yield CheckFinding(rule, observation)
