"""`dra dump`: one file with everything that the other subcommands need, which can be attached to an issue."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from allocator.api.versions import Json
from scheduler.cli.cluster_source import ClusterSource, source_options
from scheduler.cli.ending import BAD_INPUT, FilePath, print_to_stderr, stop
from scheduler.cli.printing import after_delay
from scheduler.core_v1.pod import DEFAULT_NAMESPACE
from scheduler.input.documents import STDIN, Finding, RawObject
from scheduler.input.inventory import is_in_no_namespace, is_object, no_object_error
from scheduler.offline.redaction import Redaction
from scheduler.offline.shareable_dump import changed_selectors, shareable
from scheduler.output.report import json_text

_EPILOG = """
\b
Exit codes: 0 if everything was read and written, 2 if not.

\b
Examples:
  dra dump -o cluster.json                        the cluster of the kubeconfig
  dra dump --redact -o issue.json                 with other names, to be attached to an issue
  dra dump --redact must-gather/ > issue.json     of files
  dra status issue.json
"""


@click.command(name="dump", epilog=_EPILOG)
@source_options
@click.option("--redact", "is_redacted", is_flag=True, help="Replace names, addresses, labels and uids.")
@click.option("-o", "--output", type=FilePath(allow_dash=True), default=STDIN, metavar="FILE", help="File to write.")
def command(*, source: ClusterSource, is_redacted: bool, output: str) -> None:
    """Write one JSON file with all that is read of a cluster.

    PATH is as in `dra allocate`. Secrets, ConfigMaps and other kinds that no decision depends on are left out, and so
    are the environment, commands and volumes of containers, addresses, managed fields and annotations.

    With --redact, every name and address is replaced, and so are labels, images, uids, and texts of attributes that
    tell devices apart: the same text by the same text everywhere, also in CEL selectors. What devices are stays:
    drivers, models, amounts, names of attributes, and all numbers, also in attributes. The other subcommands give
    the same answers on the file, with other names. A warning names each selector that no longer selects the same
    devices, such as one that matches a pattern.
    """
    if not source.shown.is_everything:
        raise click.UsageError("A dump holds all namespaces, since all of them hold devices: -n and -l cannot be used.")
    with after_delay("reading the input ..."):
        kept = list(_kept(source.objects()))
    if not kept:
        stop("the input contains no objects that count")
    if is_redacted:
        kept = [_with_namespace(one) for one in kept]
        kept = _redacted(kept)
    _write({"apiVersion": "v1", "kind": "List", "items": kept}, output)
    print_to_stderr([f"{len(kept)} objects written{'' if output == STDIN else f' to {output}'}"])


def _redacted(objects: list[Json]) -> list[Json]:
    """The objects with other names; what they answer otherwise is warned of."""
    redaction = Redaction(objects)
    redacted = [redaction.object(one) for one in objects]
    print_to_stderr(
        f"warning: {place} no longer selects the same devices" for place in changed_selectors(objects, redacted)
    )
    return redacted


def _kept(objects: Iterable[RawObject | Finding]) -> Iterator[Json]:
    """What is kept of the objects; what is not is counted, and the command ends at what cannot be read."""
    errors, left_out = list[Finding](), Counter[str]()
    for raw in objects:
        if isinstance(raw, Finding):
            errors += [] if raw.is_warning else [raw]
        elif not is_object(raw.raw) and (error := no_object_error(raw)):
            errors.append(error)
        elif (kept := shareable(raw.raw)) is not None:
            yield kept
        else:
            left_out[str(raw.raw.get("kind"))] += 1
    if errors:
        stop(*map(str, errors))
    if left_out:
        listed = ", ".join(f"{number} {kind}" for kind, number in sorted(left_out.items()))
        print_to_stderr([f"left out, as nothing depends on them: {listed}"])


def _with_namespace(raw: Mapping[str, Any]) -> Json:
    """The object with the namespace that it is in, which no field has to say."""
    metadata = raw.get("metadata")
    if is_in_no_namespace(raw) or not isinstance(metadata, dict) or metadata.get("namespace"):
        return dict(raw)
    return {**raw, "metadata": {**metadata, "namespace": DEFAULT_NAMESPACE}}


def _write(found: Json, output: str) -> None:
    text = json_text(found) + "\n"
    if output == STDIN:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text)
    except OSError as error:
        print_to_stderr([f"dra: {output}: {error.strerror or error}"])
        sys.exit(BAD_INPUT)
