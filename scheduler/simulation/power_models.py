"""What hardware draws by model, from a file in place of the published watts (docs/simulate.md)."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from allocator.policies.power import PUBLISHED, CpuModel, PowerModels, Watts
from allocator.words import did_you_mean
from scheduler.runtime.configuration import InvalidConfiguration, the_object
from scheduler.runtime.section import Section, typed

_MOST_WATTS = 1_000_000
_MOST_CORES = 10_000

WattsField = Annotated[int, Field(ge=0, le=_MOST_WATTS)]


class InvalidPowerModels(ValueError):
    """A file that cannot be used; each line has file, field and value."""


class GpuFields(Section):
    """A GPU, as the file has it."""

    idle: WattsField
    full: WattsField
    cpu: str = ""
    """The model of the CPUs beside it; those of nodes without GPUs, if it says nothing."""


class CpuFields(Section):
    """A socket, as the file has it."""

    idle: WattsField
    full: WattsField
    cores: Annotated[int, Field(ge=1, le=_MOST_CORES)]


class PowerModelsFields(Section):
    """The file."""

    api_version: Literal["dra-scheduler.dev/v1alpha1"]
    kind: Literal["PowerModels"]
    gpus: dict[str, GpuFields] = Field(default={})
    cpus: dict[str, CpuFields] = Field(default={})
    cpu_alone: str = ""
    """The model of the CPUs of nodes without GPUs; the published one, if it says nothing."""


@lru_cache(maxsize=2)
def read_power_models(file: Path) -> PowerModels:
    """The published models, those of the file added or in their place. Raises InvalidPowerModels."""
    try:
        fields, errors = typed(PowerModelsFields, the_object(file, "PowerModels"))
    except InvalidConfiguration as invalid:
        raise InvalidPowerModels("\n".join(invalid.problems)) from invalid
    if fields is None:
        raise InvalidPowerModels("\n".join(f"{file}: {error}" for error in errors))
    known = {name: CpuModel(_watts(one), one.cores) for name, one in fields.cpus.items()}
    if problems := list(_problems(fields)):
        raise InvalidPowerModels("\n".join(f"{file}: {problem}" for problem in problems))
    alone = known.get(fields.cpu_alone, PUBLISHED.cpu_alone)
    return PowerModels(
        {**PUBLISHED.gpus, **{name: _watts(one) for name, one in fields.gpus.items()}},
        {**PUBLISHED.cpus, **{name: known.get(one.cpu, alone) for name, one in fields.gpus.items()}},
        alone,
    )


def _problems(fields: PowerModelsFields) -> Iterator[str]:
    watts: dict[str, GpuFields | CpuFields] = {f"gpus.{name}": one for name, one in fields.gpus.items()}
    watts |= {f"cpus.{name}": one for name, one in fields.cpus.items()}
    for field, drawn in watts.items():
        if drawn.idle > drawn.full:
            yield f"{field}: idle {drawn.idle} is more than full {drawn.full}"
    named = {f"gpus.{name}.cpu": one.cpu for name, one in fields.gpus.items()}
    for field, name in {**named, "cpuAlone": fields.cpu_alone}.items():
        if name and name not in fields.cpus:
            yield f"{field}: {name!r} is not one of cpus{did_you_mean(name, fields.cpus)}"


def _watts(fields: GpuFields | CpuFields) -> Watts:
    return Watts(fields.idle, fields.full)
