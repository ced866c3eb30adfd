"""`dra status`: what there is of devices, and who holds it."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from allocator.cluster.snapshot import Snapshot
from allocator.limit_use import LimitStatus, limit_status, limit_statuses
from allocator.limits import TenantLimit
from allocator.status import Membership, largest_claim, pool_statuses
from scheduler.cli.claims import claims_of, claims_report, print_claims
from scheduler.cli.cluster_source import ClusterSource, ShownObjects
from scheduler.cli.ending import BAD_INPUT, FilePath, NumberRange, print_to_stderr, stop
from scheduler.cli.inputs import Input, InputSource, decided_by, groups_option, input_options
from scheduler.cli.printing import after_delay, page_option, print_report
from scheduler.cli.watching import updates_of
from scheduler.decision.cluster import Cluster
from scheduler.input.inventory import Inventory
from scheduler.offline.group_placement import decide_group
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.output.group_report import DevicesOfPage, GroupsReport
from scheduler.output.report import PAGE, text_of
from scheduler.output.status_report import TABLES, ClassRoom, StatusReport
from scheduler.status import ClaimStatus, by_class, by_driver, by_namespace, by_node, held_by, tallies

CLAIM, LIMIT, GROUP = "claim", "limit", "group"

AGES_S = 10.0
"""How often --watch makes ages anew."""

_EPILOG = """
\b
Exit codes: 0 if the input could be read, 2 for invalid input.

\b
Examples:
  dra status cluster.yaml                   drivers, classes, the largest claims that fit, pools with problems
  dra status cluster.yaml --by node         a line for each node
  dra status cluster.yaml --by device       a line for each device, with the claims that hold it and their pods
  dra status cluster.yaml --by group        a line for each group of pods, and whether it fits now
  dra status --watch                        follow the live cluster
  dra status -n ml -l team=vision           what claims of a namespace with a label hold of the live cluster
  dra status must-gather/ -o json           everything, as JSON
  dra status cluster.yaml -o html > a.html  a page with a map of nodes and devices
"""


@click.command(name="status", epilog=_EPILOG)
@input_options
@click.option(
    "--by",
    type=click.Choice([*TABLES, CLAIM, GROUP]),
    help="Print one table with a line for each of these. JSON and YAML contain all of them but claims and groups.",
)
@page_option
@groups_option
@click.option(
    "--config",
    type=FilePath(path_type=Path),
    metavar="FILE",
    help="Configuration file of the live scheduler, whose limits per tenant `--by limit` shows.",
)
@click.option(
    "-w", "--watch", "is_watched", is_flag=True, help="Follow a live cluster until Ctrl-C: print what changes."
)
@click.option(
    "--interval",
    type=NumberRange(min=0.1),
    default=1,
    show_default=True,
    metavar="SECONDS",
    help="How long --watch waits at least before it prints what has changed.",
)
@click.pass_context
def command(  # noqa: PLR0913 - one for each option
    context: click.Context,
    *,
    given: InputSource,
    by: str | None,
    output: str,
    group_kinds: tuple[str, ...],
    config: Path | None,
    is_watched: bool,
    interval: float,
) -> None:
    """Print how many devices there are, how many are free, and who holds the others.

    PATH is as in `dra allocate`. A device is counted in the first of these states that applies: allocated (a claim
    holds it alone), shared (claims hold shares of it), unusable (its pool is incomplete or contradicts itself, or the
    device needs a feature gate that is off), tainted (only for requests that tolerate the taint), blocked (devices in
    use have taken the counters that it consumes), or free. A device can belong to several classes. Claims with admin
    access do not take devices.

    The largest claim is the highest number of devices of the class that one claim without selectors gets on one node.
    With -n or -l, only devices held by claims in that namespace, or with those labels, are counted.
    """
    limits = decided_by(config, "").limits if config else ()
    if by == LIMIT and not limits:
        raise click.UsageError("--by limit shows the limits of a configuration: name it with --config.")
    if group_kinds and by != GROUP:
        raise click.UsageError("--groups-of says what a group is: use it with --by group.")
    if not is_watched and context.get_parameter_source("interval") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--interval says how often --watch prints: use it with --watch.")
    if is_watched:
        if by == GROUP:
            raise click.UsageError("--watch has no table of groups: leave out --by group.")
        if given.source.paths or given.overlays or output != "table":
            excluded = "PATH, --overlay and -o"
            raise click.UsageError(f"--watch follows a live cluster as a table: it cannot be combined with {excluded}.")
        _watch(given.source, by, limits, interval, has_colour=context.find_root().color is not False)
    sys.exit(_print(given, by, output, limits, frozenset(group_kinds)))


def _watch(
    source: ClusterSource, by: str | None, limits: Sequence[TenantLimit], interval_s: float, *, has_colour: bool
) -> None:
    """Follow the cluster until Ctrl-C."""
    from scheduler.cli.watched_cluster import Following, WatchedCluster  # with all that it takes to call a server

    def current(live: WatchedCluster) -> str:
        shown = source.shown.of_lists if by == CLAIM else source.shown
        claims = live.claims(lambda one: shown.has(one.claim.namespace, one.metadata.labels))
        if by == CLAIM:
            listed = claims_report(claims, shown)
            return text_of(listed) or listed.nothing()
        if limits:
            live.cluster.set_limits(limits)
        report = _report(live.cluster, claims, shown, by)
        return report.nothing() or text_of(report)

    Following(current, interval_s, AGES_S if by == CLAIM else math.inf).run(source, updates_of(has_colour=has_colour))


def _print(
    given: InputSource, by: str | None, output: str, limits: Sequence[TenantLimit], group_kinds: frozenset[str]
) -> int:
    """Print it once; the exit code."""
    inventory, source = given.inventory(), given.source
    if by == GROUP:
        _print_groups(inventory, source, output, group_kinds)
    elif by == CLAIM and output != PAGE:
        shown = source.shown.of_lists
        print_claims(claims_report(claims_of(Claims(inventory), inventory.pods, shown), shown), output)
    else:
        _print_status(inventory, source, by, output, limits)
    return BAD_INPUT if inventory.errors else 0


def _print_groups(inventory: Inventory, source: ClusterSource, output: str, group_kinds: frozenset[str]) -> None:
    """Each group of pods, and whether those of its pods that wait fit now."""
    given = Input.of(inventory, source.features, group_kinds=group_kinds)
    placement = given.placement(source.features)
    shown = source.shown.of_lists
    with after_delay("searching ..."):
        decided = [
            decide_group(placement, group)
            for group in given.groups(placement).groups
            if any(shown.has(pod.namespace, pod.labels) for pod in group.members)
        ]
    devices = DevicesOfPage((), *given.devices_of(placement)) if output == PAGE else DevicesOfPage()
    print_report(GroupsReport(decided, devices), output, source.head)


def _print_status(
    inventory: Inventory, source: ClusterSource, by: str | None, output: str, limits: Sequence[TenantLimit]
) -> None:
    if "ResourceSlice" not in inventory.kinds:
        stop("the input contains no ResourceSlice")
    if "ResourceClaim" not in inventory.kinds:
        print_to_stderr(["warning: the input contains no ResourceClaim: no device is shown as allocated"])
    claims = Claims(inventory)
    with after_delay("counting devices ..."):
        cluster = cluster_of(inventory, claims, inventory.pods, source.features, limits=limits)
        report = _report(cluster, claims_of(claims, inventory.pods, source.shown), source.shown, by)
    print_to_stderr(filter(None, [report.nothing()]))
    print_report(report, output, source.head)


def _report(cluster: Cluster, claims: Sequence[ClaimStatus], shown: ShownObjects, by: str | None) -> StatusReport:
    """What there is. claims: those that are shown."""
    snapshot = cluster.fleet.current
    pools = list(pool_statuses(snapshot))
    if not shown.is_everything:
        pools = list(held_by(pools, {str(one.claim) for one in claims}))
    environment = snapshot.features.environment
    members = [Membership(one, environment) for _, one in sorted(snapshot.classes.items())]
    return StatusReport(
        pools,
        drivers=tallies(pools, by_driver),
        classes=tallies(pools, by_class(members), [one.name for one in members] if shown.is_everything else ()),
        nodes=tallies(pools, by_node, cluster.names() if shown.is_everything else ()),
        namespaces=tallies(pools, by_namespace),
        rooms={one.name: ClassRoom(largest_claim(cluster.fleet, one.name), cluster.name_of) for one in members},
        claims=claims,
        by="" if by in (None, CLAIM) else by,
        shown="" if shown.is_everything else str(shown),
        cluster=cluster,
        limits=_shown_limits(snapshot, shown),
    )


def _shown_limits(snapshot: Snapshot, shown: ShownObjects) -> list[LimitStatus]:
    """With -n, only the limits that hold for the namespace."""
    if not shown.namespace:
        return list(limit_statuses(snapshot))
    return [limit_status(account, snapshot) for account in snapshot.limited.limits.of(shown.namespace)]
