"""Typed reading of configurations and messages, by pydantic: values by keyword, defaults, and back to JSON.

Objects that are read by the thousand use `ObjectFields` instead, without which `dra` would start later.
"""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from allocator.api.findings import FieldError
from scheduler.core_v1.object_fields import field_errors


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
