"""What the annotations of a pod, or of its PodGroup, say about where a group is placed.

The same on both. Other schedulers' names for the same wish are aliases; what other controllers have already written as
node selectors or affinity needs none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from allocator.api import names
from allocator.api.findings import FieldError

PREFIX = "dra-scheduler.dev/"

GROUP = f"{PREFIX}group"
"""The label that names the group of a pod where PodGroups are not served."""

MINIMUM = f"{PREFIX}group-min"
REQUIRED, PREFERRED = f"{PREFIX}topology-required", f"{PREFIX}topology-preferred"
SLICE, EXCLUSIVE = f"{PREFIX}topology-slice", f"{PREFIX}exclusive"
MATCH, DISTINCT = f"{PREFIX}match-attribute", f"{PREFIX}distinct-attribute"

KAI_REQUIRED, KAI_PREFERRED = "kai.scheduler/topology-required-placement", "kai.scheduler/topology-preferred-placement"
LEADER_SIZE = "leaderworkerset.sigs.k8s.io/size"
KUEUE_GROUP, KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
KUEUE_IS_GROUP = "kueue.x-k8s.io/is-group-workload"
"""On a Workload of Kueue's: it was made for a group of plain pods, and has the name of the group."""

_OF_PLACES = (REQUIRED, PREFERRED, SLICE, EXCLUSIVE, MATCH, DISTINCT, KAI_REQUIRED, KAI_PREFERRED)
READ = frozenset({MINIMUM, LEADER_SIZE, KUEUE_TOTAL, *_OF_PLACES})
"""The annotations that decide about groups."""

ANY_REQUEST = "*"

MOST_TERMS = 32
"""In one annotation: as many as a claim may have constraints."""

MOST_PODS = 2**31 - 1
_NO_NUMBER = f"must be a number of pods, from 1 to {MOST_PODS}"


@dataclass(frozen=True, slots=True)
class AttributeTerm:
    """An attribute of which the devices for a request have one value, or each its own. request: ANY_REQUEST for all."""

    request: str
    attribute: str


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """Where a group is placed."""

    required: str = ""
    """The node label of which all members see one value."""
    preferred: tuple[str, ...] = ()
    """Labels of which they should, the widest first."""
    slice_size: int = 0
    """So many members in order are together in one domain of `required`, and not all; 0 for all."""
    match: tuple[AttributeTerm, ...] = ()
    """What devices have in common."""
    distinct: tuple[AttributeTerm, ...] = ()
    """What they do not have in common."""
    exclusive: bool = False
    """No other group that says so is in the domain."""

    @property
    def attributes(self) -> frozenset[str]:
        """All that are named."""
        return frozenset(term.attribute for term in (*self.match, *self.distinct))


NO_TERMS = GroupTerms()


def annotations_read(annotations: object) -> Mapping[str, str]:
    """Those that decide about groups; none for what is no map."""
    if not isinstance(annotations, dict) or READ.isdisjoint(annotations):
        return {}
    return {name: text for name, text in annotations.items() if name in READ and isinstance(text, str)}


def group_terms(annotations: Mapping[str, str]) -> tuple[GroupTerms, tuple[FieldError, ...]]:
    """The terms, and what is wrong with them; a term with an error is not among them."""
    errors: list[FieldError] = []
    required = _one_label(annotations, errors)
    preferred = tuple(_terms(PREFERRED, annotations.get(PREFERRED) or annotations.get(KAI_PREFERRED) or "", errors))
    errors += (_error(PREFERRED, one, problem) for one in preferred if (problem := names.label_key(one)))
    size = annotations.get(SLICE, "")
    errors += _slice_errors(size, required)
    exclusive = annotations.get(EXCLUSIVE) or "false"
    if exclusive not in ("true", "false"):
        errors.append(_error(EXCLUSIVE, exclusive, "must be true or false"))
    elif exclusive == "true" and not required:
        errors.append(_error(EXCLUSIVE, exclusive, f"needs {REQUIRED}"))
    return GroupTerms(
        required,
        preferred,
        _number(size),
        tuple(_attribute_terms(MATCH, annotations, errors)),
        tuple(_attribute_terms(DISTINCT, annotations, errors)),
        exclusive == "true" and bool(required),
    ), tuple(errors)


def positive(annotations: Mapping[str, str], name: str) -> tuple[int, tuple[FieldError, ...]]:
    """The number of pods in an annotation; 0 where there is none, or an error."""
    text = annotations.get(name)
    if text is None:
        return 0, ()
    if not (number := _number(text)):
        return 0, (_error(name, text, _NO_NUMBER),)
    return number, ()


def _number(text: str) -> int:
    """As large as PodGroup's minCount can be; 0 for what is no such number."""
    # The length first: Python raises an error for more than 4,300 digits.
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_PODS))
    return int(text) if is_short and int(text) <= MOST_PODS else 0


def _one_label(annotations: Mapping[str, str], errors: list[FieldError]) -> str:
    text = annotations.get(REQUIRED) or annotations.get(KAI_REQUIRED) or ""
    if text and (problem := names.label_key(text)):
        errors.append(_error(REQUIRED, text, problem))
        return ""
    return text


def _slice_errors(size: str, required: str) -> Iterator[FieldError]:
    if size and not _number(size):
        yield _error(SLICE, size, _NO_NUMBER)
    elif size and not required:
        yield _error(SLICE, size, f"needs {REQUIRED}")


def _attribute_terms(name: str, annotations: Mapping[str, str], errors: list[FieldError]) -> Iterator[AttributeTerm]:
    for part in _terms(name, annotations.get(name, ""), errors):
        request, equals, attribute = part.partition("=")
        if not (request and equals and attribute.count("/") == 1):
            errors.append(_error(name, part, "must be REQUEST=DOMAIN/NAME, or *=DOMAIN/NAME for all requests"))
        elif problem := (request != ANY_REQUEST and names.short_name(request)) or names.fully_qualified_name(attribute):
            errors.append(_error(name, part, f"must be REQUEST=DOMAIN/NAME: {problem}"))
        else:
            yield AttributeTerm(request, attribute)


def _terms(name: str, text: str, errors: list[FieldError]) -> Iterator[str]:
    """What stands between commas; nothing where that is more than a decision may have to weigh."""
    if text.count(",") >= MOST_TERMS:
        errors.append(_error(name, text, f"must have at most {MOST_TERMS} terms"))
        return
    yield from filter(None, map(str.strip, text.split(",")))


def _error(name: str, value: str, problem: str) -> FieldError:
    return FieldError(f"metadata.annotations[{name}]", value, problem)
