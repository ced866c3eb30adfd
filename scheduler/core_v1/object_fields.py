"""Typed reading of the few fields that placement needs, by pydantic-core; other fields are ignored.

An error names the field in Kubernetes' notation and its value; all errors of an object are reported. Names are
validated with the API server's rules, because they are written to claims, tables and messages.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic_core import ValidationError, core_schema

from allocator.api import names
from allocator.api.findings import MAPS, FieldError, path_of
from allocator.api.metadata import finalizer_errors
from allocator.api.schema import CheckedBy, Reader, Timestamp
from allocator.model import NodeSelector, Requirement, Term

NamespacedName = tuple[str, str]
"""Namespace and name of an object."""

_MAPS = MAPS | {
    "allocatable",
    "annotations",
    "capacity",
    "limits",
    "matchLabels",
    "nodeSelector",
    "overhead",
    "requests",
}

_MESSAGES: Mapping[str, str] = {
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt:.10g}",
    "greater_than_equal": "must be at least {ge:.10g}",
    "less_than_equal": "must be at most {le:.10g}",
    "literal_error": "must be {expected}",
    "string_too_long": "must not be longer than {max_length} characters",
    "too_short": "must have at least {min_length} entry",
    "too_long": "must not have more than {max_length} entries",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "missing": "is required",
    "extra_forbidden": "unknown field",
}


Int32 = Annotated[int, CheckedBy(core_schema.int_schema(strict=True, ge=-(2**31), le=2**31 - 1))]
"""An integer as large as the API's are."""


class ObjectFields:
    """The base of all types that are read so: types as JSON has them, unknown fields unread."""

    reader: ClassVar[Reader[Any]]

    def __init_subclass__(cls) -> None:
        cls.reader = Reader(cls)


T = TypeVar("T", bound=ObjectFields)

MOST_ERRORS = 100
"""Errors of an object that are all reported; of more, the first of each list and map."""


class SelectorRequirementFields(ObjectFields):
    """An expression of a node selector term."""

    key: str
    operator: str
    values: list[str] | None = None


class SelectorTermFields(ObjectFields):
    """A node selector term."""

    matchExpressions: list[SelectorRequirementFields] | None = None  # noqa: N815 - the API's name
    matchFields: list[SelectorRequirementFields] | None = None  # noqa: N815 - the API's name


class OwnerFields(ObjectFields):
    """An entry of metadata.ownerReferences."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMetaFields(ObjectFields):
    """metadata, as far as placement needs it."""

    name: str = ""
    generateName: str | None = None  # noqa: N815 - the API's name
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815 - the API's name
    generation: int | None = None
    creationTimestamp: Timestamp | None = None  # noqa: N815 - the API's name
    deletionTimestamp: Timestamp | None = None  # noqa: N815 - the API's name
    labels: dict[str, str] | None = None
    ownerReferences: list[OwnerFields] | None = None  # noqa: N815 - the API's name
    finalizers: list[str] | None = None


class AnnotatedFields(ObjectMetaFields):
    """The same of objects whose annotations say something."""

    annotations: dict[str, str] | None = None


def typed(type_: type[T], raw: Mapping[str, object]) -> tuple[T | None, tuple[FieldError, ...]]:
    """The object with typed fields, or None with every error, as far as MOST_ERRORS."""
    try:
        return type_.reader.read(raw), ()
    except ValidationError as error:
        errors = field_errors(type_.reader.errors(raw, error, MOST_ERRORS))
        more = error.error_count() - len(errors)
        return None, (*errors, FieldError("", None, f"{more:,} more errors")) if more else errors


def first_errors(found: Iterable[FieldError]) -> tuple[FieldError, ...]:
    """The errors; of more than MOST_ERRORS the first, and that there are more."""
    first = tuple(islice(found, MOST_ERRORS + 1))
    return first if len(first) <= MOST_ERRORS else (*first[:MOST_ERRORS], FieldError("", None, "more errors"))


def field_errors(details: Iterable[Mapping[str, Any]]) -> tuple[FieldError, ...]:
    """What pydantic-core found, in the words of Kubernetes."""
    return tuple(map(_field_error, details))


def _field_error(detail: Mapping[str, object]) -> FieldError:
    kind = str(detail["type"])
    message, limits = _MESSAGES.get(kind), detail.get("ctx")
    message = message.format(**limits if isinstance(limits, dict) else {}) if message else str(detail["msg"])
    location = detail["loc"]
    assert isinstance(location, tuple)
    return FieldError(path_of(location, _MAPS), None if kind == "missing" else detail["input"], message)


def metadata_errors(metadata: ObjectMetaFields) -> Iterator[FieldError]:
    """The problems of the name, of the namespace, where there is one, and of the finalizers."""
    if problem := names.object_name(metadata.name, metadata.generateName or ""):
        yield FieldError("metadata.name", metadata.name or None, problem)
    if metadata.namespace:
        yield from name_error("metadata.namespace", metadata.namespace, names.short_name)
    yield from finalizer_errors(metadata.finalizers or ())


def name_error(path: str, name: str, rule: Callable[[str], str]) -> Iterator[FieldError]:
    """The error where the name breaks the rule, one of `allocator.api.names`."""
    if problem := rule(name):
        yield FieldError(path, name or None, problem)


def selector_of(terms: list[SelectorTermFields] | None) -> NodeSelector:
    """The node selector that the terms write."""
    return tuple(
        Term(requirements_of(term.matchExpressions), requirements_of(term.matchFields)) for term in terms or ()
    )


def requirements_of(fields: list[SelectorRequirementFields] | None) -> tuple[Requirement, ...]:
    """The requirements that the expressions write."""
    return tuple(Requirement(field.key, field.operator, tuple(field.values or ())) for field in fields or ())


# Times in the API server's format: RFC 3339 in UTC, in whole seconds or microseconds.
#
# Source: k8s.io/apimachinery meta/v1 Time and MicroTime.


def in_seconds(time: datetime) -> str:
    """As metav1.Time."""
    return f"{_in_utc(time).isoformat(timespec='seconds')}Z"


def in_microseconds(time: datetime) -> str:
    """As metav1.MicroTime."""
    return f"{_in_utc(time).isoformat(timespec='microseconds')}Z"


def _in_utc(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(tzinfo=None)


# The part of a pod's spec that decisions read: equal for all pods that a controller creates from one template.
#
# Names of claims, images, volumes and the node differ between pods. Environment variables, which clusters set for each
# pod, are not read.


MOST_CHARACTERS = 1 << 16
"""Of what is read of a pod's spec, as text. The API server takes twenty times as much, to be weighed for each node."""

MOST_ENTRIES = 128
"""Of each list of a pod's spec that names other objects, which are looked at whenever one of these changes."""

_NAMING_OBJECTS = ("resourceClaims", "volumes")


class SpecRead:
    """The raw spec of a pod, reduced to what is read; equal to another that says the same.

    read, read_of_containers: the names of fields that are read. sizes: how many characters of the text each has.
    """

    __slots__ = ("raw", "sizes", "text")

    def __init__(self, spec: Mapping[str, object], read: frozenset[str], read_of_containers: frozenset[str]) -> None:
        self.raw = {name: _reduced(name, value, read_of_containers) for name, value in spec.items() if name in read}
        texts = {name: _text(value) for name, value in self.raw.items()}
        self.sizes = {name: len(text) for name, text in texts.items()}
        self.text = str(texts) if all(texts.values()) else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpecRead) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def exceeding_fields(spec: Mapping[str, object], read: SpecRead) -> Mapping[str, str]:
    """What a pod's spec has more of than is looked at: by field the reason to refuse the pod.

    spec: raw; read: what is read of it. Without these fields the rest is within the limits.
    """
    exceeding = {}
    for name in _NAMING_OBJECTS:
        if isinstance(entries := spec.get(name), list) and len(entries) > MOST_ENTRIES:
            exceeding[name] = f"spec.{name} has {len(entries):,} entries; at most {MOST_ENTRIES:,} are looked at"
    left = number = sum(read.sizes.values())
    if number <= MOST_CHARACTERS:
        return exceeding
    weighed = (name for name, value in read.raw.items() if isinstance(value, list | dict))
    by_size = sorted(((read.sizes[name], name) for name in weighed), reverse=True)
    for size, name in by_size:
        if left > MOST_CHARACTERS:
            exceeding[name] = exceeding.get(name) or (
                f"its spec has {number:,} characters that decide where it runs, {size:,} of these in spec.{name}; "
                f"at most {MOST_CHARACTERS:,} are looked at"
            )
            left -= size
    return exceeding


def _text(raw: object) -> str:
    """The quickest text that distinguishes 1 from true and from 1.0; "" where there is none."""
    try:
        return repr(raw)
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return ""


def _reduced(name: str, value: object, read_of_containers: frozenset[str]) -> object:
    if not isinstance(value, list):
        return value
    if name in ("containers", "initContainers"):
        return [_with_fields(one, read_of_containers) for one in value]
    if name == "resourceClaims":
        return [_entry(one) if isinstance(one, dict) else one for one in value]
    return value


def _with_fields(raw: object, names: frozenset[str]) -> object:
    return {name: value for name, value in raw.items() if name in names} if isinstance(raw, dict) else raw


def _entry(raw: Mapping[object, object]) -> object:
    """An entry of resourceClaims with its name, which containers use; the pod's decoder reads the rest."""
    return {"name": raw.get("name"), "resourceClaimName": "any"}
