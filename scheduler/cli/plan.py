"""`dra plan`: how many nodes of which group to add so that everything that is pending fits."""

import sys
from dataclasses import replace
from pathlib import Path

import click

from scheduler.cli.cluster_source import ClusterSource, source_options
from scheduler.cli.ending import BAD_INPUT, print_to_stderr, stop
from scheduler.cli.inputs import DecidedBy, Input, deciding_options, inventory_of, keep_going_option, overlay_option
from scheduler.cli.printing import page_option, print_report
from scheduler.cli.progress import Progress
from scheduler.input.inventory import Inventory
from scheduler.offline.placement import unused_claims
from scheduler.output.plan_report import PlanReport
from scheduler.output.report import PAGE
from scheduler.planning.node_groups import InvalidGroups, groups_of
from scheduler.planning.node_plan import NodePlanner, Objective, World

_EPILOG = """
\b
Exit codes: 0 if everything that is pending fits with the plan, 1 if something does not, 2 for invalid input.

\b
Examples:
  dra plan cluster.yaml queue.yaml --node-groups groups.yaml
  dra plan cluster.yaml queue.yaml --like gpu-07               more nodes like one of the cluster
  dra plan cluster.yaml --node-groups groups.yaml --objective nodes -o json
"""


@click.command(name="plan", epilog=_EPILOG)
@source_options
@click.option(
    "--node-groups",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Kinds of nodes that can be had, each with a price, least and most (docs/plan.md).",
)
@click.option(
    "--like", multiple=True, metavar="NODE", help="Nodes like this one of the input can be had. Can be repeated."
)
@click.option(
    "--objective",
    type=click.Choice([one.value for one in Objective]),
    default=Objective.PRICE.value,
    show_default=True,
    help="What to need least of.",
)
@page_option
@overlay_option
@deciding_options
@keep_going_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: ClusterSource,
    file: Path | None,
    like: tuple[str, ...],
    objective: str,
    output: str,
    overlays: tuple[str, ...],
    decided_by: DecidedBy,
    keep_going: bool,
) -> None:
    """Print how many nodes of which group to add so that all pending pods and claims fit, at the least price.

    PATH is as in `dra allocate`. A plan holds if the scheduler's own decision, by --policy or the profiles of --config,
    places all of them on the cluster with the added nodes. Beside it stands what every plan costs at least. A pod that
    no node of any group can take is named, with the group that comes closest and what it lacks.
    """
    features = source.features
    inventory = inventory_of(source.objects(), overlays, features, keep_going=keep_going)
    try:
        groups = groups_of(file, like, inventory, features)
    except InvalidGroups as invalid:
        stop(*invalid.args)
    given = Input.of(inventory, features)
    given.warn_of(given.pods)
    if not given.pending and not unused_claims(given.claims, given.pods):
        print_to_stderr(["nothing is pending: no node is needed"])

    def world_of(of: Inventory) -> World:
        enlarged = Input.of(of, features, given.warnings)
        placement = enlarged.placement(features, decided_by=decided_by)
        return World(placement, enlarged.pending, unused_claims(enlarged.claims, enlarged.pods))

    with Progress(doing="planning") as progress:
        plan = NodePlanner(
            inventory, groups, Objective(objective), world_of, lambda tried: progress.show(tried, tried)
        ).plan()
    report = PlanReport(plan, Objective(objective))
    if output == PAGE:
        before, _, _ = given.devices_of(given.placement(features, decided_by=decided_by))
        after, claims, cluster = given.devices_of(plan.world.placement)
        report = replace(report, pools=(before, after), claims=claims, cluster=cluster)
    print_report(report, output, source.head)
    sys.exit(BAD_INPUT if inventory.errors else int(bool(plan.never or plan.unplaced)))
