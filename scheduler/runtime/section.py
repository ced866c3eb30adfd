"""The base class of configuration objects: strict, in camel case, described by the docstrings of fields."""

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from allocator.api import names
from scheduler.input.keyword_fields import Fields


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
