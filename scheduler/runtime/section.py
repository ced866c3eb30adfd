"""The base class of configuration objects: strict, in camel case, described by the docstrings of fields."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from allocator.api import names
from allocator.api.findings import FieldError
from scheduler.core_v1.label_selectors import InvalidLabelQuery, requirements
from scheduler.core_v1.object_fields import field_errors

# Typed reading of configurations and messages, by pydantic: values by keyword, defaults, and back to JSON.
#
# Objects that are read by the thousand use `ObjectFields` instead, without which `dra` would start later.


class Fields(BaseModel):
    """The base of all types that are read so: types as JSON has them, unknown fields unread."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


T = TypeVar("T", bound=Fields)


def typed(type_: type[T], raw: Mapping[str, object]) -> tuple[T | None, tuple[FieldError, ...]]:
    """The object with typed fields, or None with every error."""
    try:
        return type_.model_validate(raw), ()
    except ValidationError as error:
        return None, field_errors(error.errors(include_url=False))


def _spelled(name: str) -> str:
    """A field's name in the file: the unit is written out."""
    return to_camel(f"{name.removesuffix('_s')}_seconds" if name.endswith("_s") else name)


class Section(Fields):
    """A part of the file."""

    model_config = ConfigDict(extra="forbid", alias_generator=_spelled, use_attribute_docstrings=True)


def refused(problem: str) -> PydanticCustomError:
    """What a validator raises: the value of the field is refused."""
    return PydanticCustomError("refused", "{problem}", {"problem": problem})


def object_name(name: str) -> str:
    """The name, of an object or a scheduler. Raises what is wrong with it."""
    if problem := names.long_name(name):
        raise refused(problem)
    return name


def label_query(text: str) -> str:
    """The text, which is a label selector as kubectl takes it. Raises what is wrong with it."""
    try:
        requirements(text)
    except InvalidLabelQuery as error:
        raise refused(str(error)) from error
    return text
