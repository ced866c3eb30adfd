"""Typed reading of configurations and messages, by pydantic: values by keyword, defaults, and back to JSON.

What is read by the thousand has a base of its own, `ObjectFields`, without which `dra` would start later.
"""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from allocator.api.findings import FieldError
from scheduler.core_v1.fields import field_errors


class Fields(BaseModel):
    """The base of all shapes here: types as JSON has them, unknown fields unread."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


Shape = TypeVar("Shape", bound=Fields)


def typed(shape: type[Shape], raw: Mapping[str, object]) -> tuple[Shape | None, tuple[FieldError, ...]]:
    """The object in its shape, or None with every error."""
    try:
        return shape.model_validate(raw), ()
    except ValidationError as error:
        return None, field_errors(error)
