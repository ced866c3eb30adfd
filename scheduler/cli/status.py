"""`dra status`: what there is of devices, and who holds it."""

import sys

import click

from allocator.gates import Features
from allocator.search.rules import bits
from allocator.status.largest_claim import largest_claim
from allocator.status.matching import Membership
from allocator.status.pool_status import pool_statuses
from scheduler.cli.claims import PAGE, claims_of, output_or_page_option, print_claims, print_object
from scheduler.cli.cluster_source import ClusterSource, ShownObjects, source_options
from scheduler.cli.ending import BAD_INPUT, print_to_stderr, stop
from scheduler.cli.inputs import (
    inventory_of,
    keep_going_option,
    overlay_option,
)
from scheduler.cli.progress import after_delay
from scheduler.cli.watching import follow
from scheduler.decision.cluster import Cluster
from scheduler.input.inventory import Inventory
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.output.status_page import status_page
from scheduler.output.status_report import TABLES, ClassRoom, StatusReport, object_of, overview
from scheduler.status.held_devices import held_by
from scheduler.status.tally import by_class, by_driver, by_namespace, by_node, tallies

CLAIM = "claim"

_EPILOG = """
\b
Exit codes: 0 if the input could be read, 2 for invalid input.

\b
Examples:
  dra status cluster.yaml                   drivers, classes, the largest claims that fit, pools with problems
  dra status cluster.yaml --by node         a line for each node
  dra status cluster.yaml --by device       a line for each device, with the claims that hold it and their pods
  dra status --watch                        follow the live cluster
  dra status -n ml -l team=vision           what claims of a namespace with a label hold of the live cluster
  dra status must-gather/ -o json           everything, as JSON
  dra status cluster.yaml -o html > a.html  a page with a map of nodes and devices
"""


@click.command(name="status", epilog=_EPILOG)
@source_options
@click.option(
    "--by",
    type=click.Choice([*TABLES, CLAIM]),
    help="Print one table with a line for each of these. JSON and YAML contain all of them but claims, HTML all.",
)
@output_or_page_option
@click.option(
    "-w", "--watch", "is_watched", is_flag=True, help="Follow a live cluster until Ctrl-C: print what changes."
)
@click.option(
    "--interval",
    type=click.FloatRange(min=1),
    default=5,
    show_default=True,
    metavar="SECONDS",
    help="How long --watch waits before it reads the cluster again.",
)
@overlay_option
@keep_going_option
@click.pass_context
def command(  # noqa: PLR0913 - one for each option
    context: click.Context,
    *,
    source: ClusterSource,
    overlays: tuple[str, ...],
    by: str | None,
    output: str,
    keep_going: bool,
    is_watched: bool,
    interval: float,
) -> None:
    """Print how many devices there are, how many are free, and who holds the others.

    PATH is as in `dra allocate`. A device is counted in the first of these states that applies: allocated (a claim
    holds it alone), shared (claims hold shares of it), unusable (its pool is incomplete or contradicts itself), tainted
    (only for requests that tolerate the taint), blocked (devices in use have taken the counters that it consumes), or
    free. A device can belong to several classes. Claims with admin access do not take devices.

    The largest claim is the highest number of devices of the class that one claim without selectors gets on one node.
    With -n or -l, only devices are counted that claims of the namespace, or with the labels, hold.
    """
    if is_watched:
        if source.paths or output != "table":
            raise click.UsageError("--watch follows a live cluster as a table: it cannot be combined with PATH and -o.")
        latest = source.latest

        def show() -> None:
            if code := _print(latest(), overlays, by, output, keep_going=keep_going):
                sys.exit(code)

        follow(show, interval, has_colour=_has_colour(context))
    sys.exit(_print(source, overlays, by, output, keep_going=keep_going))


def _has_colour(context: click.Context) -> bool:
    return context.find_root().color is not False


def _print(source: ClusterSource, overlays: tuple[str, ...], by: str | None, output: str, *, keep_going: bool) -> int:
    """Print it once; the exit code."""
    inventory = inventory_of(source.objects(), overlays, source.features, keep_going=keep_going)
    if by == CLAIM and output != PAGE:
        print_claims(claims_of(inventory, source.shown), output, str(source.shown))
    else:
        _print_status(inventory, source, by, output)
    return BAD_INPUT if inventory.errors else 0


def _print_status(inventory: Inventory, source: ClusterSource, by: str | None, output: str) -> None:
    if "ResourceSlice" not in inventory.kinds:
        stop("the input contains no ResourceSlice")
    if "ResourceClaim" not in inventory.kinds:
        print_to_stderr(["warning: the input contains no ResourceClaim: no device is shown as allocated"])
    with after_delay("counting devices ..."):
        report = _report(inventory, source.features, source.shown)
    if not report.pools and not source.shown.is_everything:
        print_to_stderr([f"no claim {source.shown} holds a device"])
    if output == PAGE:
        shown = "" if source.shown.is_everything else str(source.shown)
        click.echo(status_page(report, shown), nl=False)
    elif output != "table":
        print_object(object_of(report), output)
    else:
        click.echo(TABLES[by](report) if by else overview(report))


def _report(inventory: Inventory, features: Features, shown: ShownObjects) -> StatusReport:
    claims_of_input = Claims(inventory)
    cluster = cluster_of(inventory, claims_of_input, inventory.pods, features)
    pools = list(pool_statuses(cluster.fleet.current))
    claims = claims_of(inventory, shown)
    if not shown.is_everything:
        pools = list(held_by(pools, {str(one.claim) for one in claims}))
    members = [Membership(one, features.environment) for one in sorted(inventory.classes, key=lambda one: one.name)]
    return StatusReport(
        pools,
        drivers=tallies(pools, by_driver),
        classes=tallies(pools, by_class(members), [one.name for one in members] if shown.is_everything else ()),
        nodes=tallies(pools, by_node, [node.name for node in inventory.nodes] if shown.is_everything else ()),
        namespaces=tallies(pools, by_namespace),
        rooms={one.name: _room(cluster, one.name) for one in members},
        claims=claims,
    )


def _room(cluster: Cluster, class_name: str) -> ClassRoom:
    largest = largest_claim(cluster.fleet, class_name)
    return ClassRoom(largest, tuple(sorted(cluster.name_of(number) for number in bits(largest.nodes))))
