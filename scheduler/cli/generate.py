"""`dra generate`: fleets and workloads from a seed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from math import inf
from pathlib import Path

import click
import orjson
from click.core import ParameterSource

from allocator.api import names
from allocator.api.versions import Json
from allocator.words import counted
from scheduler.cli.ending import FilePath, print_to_stderr, stop
from scheduler.core_v1.pod import DEFAULT_NAMESPACE
from scheduler.input.documents import STDIN
from scheduler.input.yaml_1_1 import dump
from scheduler.simulation.blueprint import Blueprint, InvalidLoad, InvalidMix, machines_of, shapes_of
from scheduler.simulation.catalogue import MACHINES, MIXES, PRESETS, Weights, shapes

MOST_NODES = 1_000_000
MOST_PODS = 10_000_000
"""What the names of nodes and pods have digits for."""

MOST_DEVICES = 64
"""Of a kind on a node: two for each of what a machine with 32 PCIe roots has."""

_WEIGHT_DIGITS = 9

_CHUNK = 1 << 20
"""Characters that are written at once."""


def _lines(found: Iterable[Json]) -> Iterator[str]:
    return (orjson.dumps(one, option=orjson.OPT_APPEND_NEWLINE).decode() for one in found)


def _list(found: Iterable[Json]) -> Iterator[str]:
    yield '{"apiVersion":"v1","kind":"List","items":['
    before = "\n"
    for raw in found:
        yield before + orjson.dumps(raw).decode()
        before = ",\n"
    yield "\n]}\n"


def _documents(found: Iterable[Json]) -> Iterator[str]:
    before = ""
    for raw in found:
        yield before + dump(raw)
        before = "---\n"


FORMATS = {"jsonl": _lines, "json": _list, "yaml": _documents}

_EPILOG = """
\b
Exit codes: 0 if everything was written, 2 if options cannot be used or the output cannot be written.

\b
Examples:
  dra generate --nodes 100 --pods 500 | dra allocate -
  dra generate --preset mig --nodes 20 --pods 0 -o yaml > fleet.yaml       a fleet alone
  dra generate --preset mixed --nodes 5000 --pods 0 > fleet.jsonl
  dra generate --preset mixed --nodes 0 --pods 20000 > pods.jsonl          a workload alone
  dra generate --preset mig --nodes 25 --devices 4 --pods 5000 --shapes skew-small
  dra generate --machines gpu-h100=3,gpu-a100=1 --shapes gpu-1=8,gpu-all=2
  dra generate --nodes 50 --pods 10000 --trace day.jsonl --load 0.95 > fleet.jsonl
  dra simulate fleet.jsonl --trace day.jsonl --policy first-fit --policy fgd
  dra generate --list                                                      machines and shapes for mixes
"""


def _weights(_context: click.Context, _option: click.Parameter, text: str | None) -> Weights:
    weights: dict[str, int] = {}
    for part in () if text is None else text.split(","):
        name, _, weight = part.partition("=")
        if not (weight.isascii() and weight.isdigit() and len(weight) <= _WEIGHT_DIGITS):
            raise click.BadParameter(
                f"{part!r} is not NAME=WEIGHT with a whole number of at most {_WEIGHT_DIGITS} digits as the weight"
            )
        if name in weights:
            raise click.BadParameter(f"{name!r} is there twice")
        weights[name] = int(weight)
    return weights


def _shape_weights(context: click.Context, option: click.Parameter, text: str | None) -> Weights:
    """By the name of a mix, or as for machines."""
    if text is not None and text in MIXES:
        return MIXES[text]
    try:
        return _weights(context, option, text)
    except click.BadParameter as error:
        raise click.BadParameter(f"{error.message}, nor a mix: {', '.join(MIXES)}") from error


def _namespace(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if names.short_name(name):
        raise click.BadParameter(f"{name!r} is no name of a namespace")
    return name


def _above_zero(_context: click.Context, _option: click.Parameter, value: float) -> float:
    if not 0 < value < inf:
        raise click.BadParameter(f"{value:g} is not a number above 0")
    return value


def _not_stdout(_context: click.Context, _option: click.Parameter, file: Path | None) -> Path | None:
    if file == Path(STDIN):
        raise click.BadParameter(f"{STDIN} is not a file: standard output is for the fleet")
    return file


@contextmanager
def _refused(option: str) -> Iterator[None]:
    """A mix that cannot be made is the option's fault."""
    try:
        yield
    except InvalidMix as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _printed_catalogue(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:  # noqa: FBT001 - click's
    if is_asked:
        click.echo("\n".join(_catalogue()))
        context.exit()


def _catalogue() -> Iterator[str]:
    """All presets with their weights, machines and shapes."""
    yield "PRESETS"
    for name, preset in PRESETS.items():
        yield f"  {name:14} {preset.summary}"
        yield f"  {'':14}   --machines {_text(preset.machines)}"
        yield f"  {'':14}   --shapes {_text(preset.shapes)}"
    yield from ("", "MACHINES")
    yield from (f"  {name:14} {machine.summary}" for name, machine in MACHINES.items())
    yield from ("", "SHAPES")
    yield from (f"  {name:14} {shape.summary}" for name, shape in shapes(MOST_DEVICES).items())
    yield from ("", "MIXES OF SHAPES")
    yield from (f"  {name:14} --shapes {_text(weights)}" for name, weights in MIXES.items())


def _text(weights: Weights) -> str:
    return ",".join(f"{name}={weight}" for name, weight in weights.items())


@click.command(name="generate", epilog=_EPILOG)
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    default="gpu",
    show_default=True,
    help="Machines and shapes of pods, by weight: "
    + "; ".join(f"{name}: {preset.summary}" for name, preset in PRESETS.items())
    + ".",
)
@click.option(
    "--nodes", type=click.IntRange(0, MOST_NODES), default=10, show_default=True, help="Number of nodes. 0: no fleet."
)
@click.option(
    "--devices",
    type=click.IntRange(1, MOST_DEVICES),
    default=8,
    show_default=True,
    help="Devices of each kind on a node: GPUs, and NICs if it has any. CPU and memory grow with them.",
)
@click.option(
    "--pods", type=click.IntRange(0, MOST_PODS), default=20, show_default=True, help="Number of pods. 0: no workload."
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of random values. The same seed gives the same objects on every machine.",
)
@click.option(
    "--machines",
    "machine_weights",
    metavar="NAME=WEIGHT,...",
    callback=_weights,
    help="Kinds of nodes, in place of the preset's.",
)
@click.option(
    "--shapes",
    "shape_weights",
    metavar="NAME=WEIGHT,...|MIX",
    callback=_shape_weights,
    help="Shapes of pods, in place of the preset's. A shape is what a pod requests. MIX, for fleets of --preset mig: "
    + ", ".join(MIXES)
    + ".",
)
@click.option("--claims", "own_claims", is_flag=True, help="A ResourceClaim for each pod in place of templates.")
@click.option(
    "--namespace",
    "-n",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    metavar="NAME",
    callback=_namespace,
    help="Namespace of the pods.",
)
@click.option(
    "--trace",
    type=FilePath(path_type=Path, dir_okay=False),
    callback=_not_stdout,
    metavar="FILE",
    help="Write the pods to FILE as arrivals for `dra simulate --trace`, and print only their templates.",
)
@click.option(
    "--load",
    type=float,
    default=0.9,
    show_default=True,
    callback=_above_zero,
    help="Share of the fleet's GPUs that the pods of --trace request on average. Above 1: more than there are.",
)
@click.option(
    "--mean-duration",
    "duration_s",
    type=float,
    default=3600,
    show_default=True,
    metavar="SECONDS",
    callback=_above_zero,
    help="How long pods of --trace run on average; durations are distributed exponentially.",
)
@click.option(
    "-o", "--output", type=click.Choice(list(FORMATS)), default="jsonl", show_default=True, help="Output format."
)
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_printed_catalogue,
    help="List presets, machines and shapes, and exit.",
)
def command(  # noqa: PLR0913 - one for each option
    *,
    preset: str,
    nodes: int,
    devices: int,
    pods: int,
    seed: int,
    machine_weights: Weights,
    shape_weights: Weights,
    own_claims: bool,
    namespace: str,
    trace: Path | None,
    load: float,
    duration_s: float,
    output: str,
) -> None:
    """Print a fleet and a workload of any size: nodes, ResourceSlices, DeviceClasses, claim templates and pods.

    `dra allocate` reads them from a file or from standard input, and a Kubernetes 1.36 API server accepts them.

    Nodes and pods are drawn at random from the seed, in proportion to the weights. The fleet does not depend on the
    workload. With the same seed, a smaller fleet is the beginning of a larger one, and so is a smaller workload.
    """
    if not nodes + pods:
        raise click.UsageError("--nodes and --pods are both 0: nothing to print")
    if not trace:
        _refuse_options_of_a_trace(click.get_current_context())
    with _refused("--machines"):
        machines = machines_of(PRESETS[preset], machine_weights)
    with _refused("--shapes"):
        chosen = shapes_of(PRESETS[preset], shape_weights, devices)
    blueprint = Blueprint(seed, machines, nodes, devices, chosen, pods, namespace, own_claims)
    if trace:
        _write_trace(trace, blueprint, load, duration_s)
    written: Counter[str] = Counter()
    objects = chain(blueprint.fleet(), blueprint.templates()) if trace else blueprint.objects()
    _write(FORMATS[output](_counted(objects, written)))
    print_to_stderr([", ".join(_counts_in_words(written))])


def _refuse_options_of_a_trace(context: click.Context) -> None:
    for option, name in (("--load", "load"), ("--mean-duration", "duration_s")):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} is for the pods of --trace, which is missing")


def _write_trace(file: Path, blueprint: Blueprint, load: float, duration_s: float) -> None:
    """The command ends where it cannot be written."""
    if not (blueprint.nodes and blueprint.pods):
        raise click.UsageError("--trace needs nodes and pods")
    if blueprint.own_claims:
        raise click.UsageError("--trace and --claims exclude each other: pods of a trace use templates")
    try:
        lines = _lines(blueprint.trace(load, duration_s))
        with file.open("w") as written:
            written.writelines(lines)
    except InvalidLoad as error:
        raise click.BadParameter(str(error), param_hint="--load") from error
    except OSError as error:
        stop(f"{file}: {error.strerror}")


def _counted(found: Iterable[Json], written: Counter[str]) -> Iterator[Json]:
    for raw in found:
        written[raw["kind"]] += 1
        yield raw


def _counts_in_words(written: Mapping[str, int]) -> Iterator[str]:
    for kind, number in written.items():
        yield counted(number, kind, f"{kind}es" if kind.endswith("s") else "")


def _write(texts: Iterable[str]) -> None:
    """To standard output, many at a time."""
    kept, size = [], 0
    for text in texts:
        kept.append(text)
        size += len(text)
        if size >= _CHUNK:
            click.echo("".join(kept), nl=False)
            kept, size = [], 0
    click.echo("".join(kept), nl=False)
