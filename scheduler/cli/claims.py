"""`dra claims`: each claim, with what it holds and for whom."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click
import orjson

from allocator.status import pool_statuses
from scheduler.cli.cluster_source import ShownObjects
from scheduler.cli.ending import BAD_INPUT, print_to_stderr
from scheduler.cli.inputs import InputSource, input_options
from scheduler.core_v1.pod import Pod
from scheduler.input.yaml_1_1 import dump
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.output.status_report import claim_table, claims_page, list_of
from scheduler.status import ClaimStatus, claim_statuses, held_by
from scheduler.terminal_text import json_of

FORMATS = ("table", "json", "yaml")
PAGE = "html"
"""A page of its own, of the subcommands that have one."""

_EPILOG = """
\b
Exit codes: 0 if the input could be read, 2 for invalid input.

\b
Examples:
  dra claims cluster.yaml                   all claims
  dra claims cluster.yaml -n ml             the claims of a namespace
  dra claims -l app=train                   the claims with a label, of the live cluster
  dra claims must-gather/ -o json           with the request, share and capacity of each device
  dra claims cluster.yaml -o html > a.html  a page with a map of the devices that claims hold
"""

output_option = click.option(
    "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Output format."
)
output_or_page_option = click.option(
    "-o",
    "--output",
    type=click.Choice([*FORMATS, PAGE]),
    default="table",
    show_default=True,
    help="Output format. html: one page with a map of nodes and devices (docs/ui.md).",
)


@click.command(name="claims", epilog=_EPILOG)
@input_options
@output_or_page_option
def command(*, given: InputSource, output: str) -> None:
    """Print each claim with its state, devices, node, users and age.

    PATH is as in `dra allocate`. The state is that of `kubectl get resourceclaims`: pending, or allocated, also
    reserved for its users, also deleted.
    """
    inventory, source = given.inventory(), given.source
    claims = Claims(inventory)
    found = claims_of(claims, inventory.pods, source.shown)
    if output == PAGE:
        pools = pool_statuses(cluster_of(inventory, claims, inventory.pods, source.features).fleet.current)
        held = list(held_by(pools, {str(one.claim) for one in found}))
        click.echo(claims_page(found, held, str(source.shown)), nl=False)
    else:
        print_claims(found, output, str(source.shown))
    sys.exit(BAD_INPUT if inventory.errors else 0)


def claims_of(claims: Claims, pods: Iterable[Pod], shown: ShownObjects) -> list[ClaimStatus]:
    """The claims of the input that are shown. pods: of the input."""
    chosen = [one for one in claims.objects.values() if shown.has(one.claim.namespace, one.metadata.labels)]
    return claim_statuses(chosen, pods)


def print_claims(found: Sequence[ClaimStatus], output: str, where: str) -> None:
    """Print them in that format, or that there are none. where: in words, such as `in namespace ml`."""
    if output != "table":
        print_object(list_of(found), output)
    elif found:
        click.echo(claims_text(found, where))
    if not found:
        print_to_stderr([_nothing(where)])


def claims_text(found: Sequence[ClaimStatus], where: str) -> str:
    """The claims as a table with their ages, or that there are none."""
    return claim_table(found, datetime.now(UTC)) if found else _nothing(where)


def _nothing(where: str) -> str:
    return f"there is no ResourceClaim {where}"


def print_object(found: dict[str, object], output: str) -> None:
    """Print it as JSON or YAML."""
    if output == "json":
        click.echo(json_of(found, orjson.OPT_INDENT_2))
    else:
        click.echo(dump(found), nl=False)
