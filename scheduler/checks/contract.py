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
    """Something that a rule finds."""

    subject: ObjectName
    message: str
    field: str = ""
    """The path in the object, or empty."""
    claims: tuple[str, ...] = ()
    """The claims that it is about, as `namespace/name`, where the subject is a device."""
    place: Place | None = None
    """In the input, where it is not that of the subject: nothing is known of an object with errors, and of two of one
    name each has its own.
    """
    where: str = ""
    """The same in words, by the names of requests, such as `request gpu, selector #0`; empty for the whole object."""


@dataclass(frozen=True, slots=True)
class Check(Generic[Checked]):
    """A rule."""

    name: str
    """The name that users see, such as `device-allocated-twice`."""
    level: FindingLevel
    summary: str
    """A sentence on what is wrong then."""
    advice: str
    """What to do about it."""
    check: Callable[[Checked], Iterable[Observation]]
    """Finds every place. Cost of a check: O(what it looks at)."""


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
