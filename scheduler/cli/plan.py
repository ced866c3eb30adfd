"""`dra plan`: how many nodes of which group to add so that everything that is pending fits, or which nodes could go."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from allocator.model import Requirement
from scheduler.cli.cluster_source import ClusterSource, source_options
from scheduler.cli.defrag import devices_after, jobs_option, movable_option
from scheduler.cli.ending import BAD_INPUT, FilePath, print_to_stderr, stop
from scheduler.cli.inputs import DecidedBy, Input, deciding_options, inventory_of, keep_going_option, overlay_option
from scheduler.cli.printing import Progress, page_option, print_report
from scheduler.decision import filters
from scheduler.defrag.movable import MoveRules
from scheduler.defrag.search import MovePlan
from scheduler.defrag.targets import Way
from scheduler.input.inventory import Inventory
from scheduler.offline.placement import PlacedPod, unused_claims
from scheduler.output.input_report import unchecked_namespaces, unseen_pods
from scheduler.output.plan_report import PlanReport, RemovalReport
from scheduler.output.report import PAGE
from scheduler.planning.node_groups import InvalidGroups, groups_of
from scheduler.planning.node_plan import NodePlanner, Objective, World
from scheduler.planning.node_removal import NodeRemover

_EPILOG = """
\b
Exit codes: 0 if everything that is pending fits with the plan, or a node can go; 1 if something does not fit, no
node can go, or an object of an unknown kind has claims; 2 for invalid input.

\b
Examples:
  dra plan cluster.yaml queue.yaml --node-groups groups.yaml
  dra plan cluster.yaml queue.yaml --like gpu-07               more nodes like one of the cluster
  dra plan cluster.yaml --node-groups groups.yaml --objective nodes -o json
  dra plan cluster.yaml --remove                               nodes whose pods all have another place
"""


@click.command(name="plan", epilog=_EPILOG)
@source_options
@click.option(
    "--node-groups",
    "file",
    type=FilePath(path_type=Path, dir_okay=False),
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
    help="What the plan keeps lowest.",
)
@click.option("--remove", is_flag=True, help="Name the nodes that could go, with all their pods placed elsewhere.")
@movable_option
@jobs_option
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
    remove: bool,
    movable: Sequence[Requirement],
    move_jobs: bool,
    output: str,
    overlays: tuple[str, ...],
    decided_by: DecidedBy,
    keep_going: bool,
) -> None:
    """Print how many nodes of which group to add so that all pending pods and claims fit, at the least price.

    PATH is as in `dra allocate`. A plan holds if the scheduler's own decision, by --policy or the profiles of --config,
    places all of them on the cluster with the added nodes. Beside it stands what every plan costs at least. A pod that
    no node of any group can take is named, with the group that comes closest and what it lacks.

    --remove names the nodes that could go, how their pods move, and what keeps each other node. Pods move by the rules
    of `dra defrag`; with -n, only those in this namespace.
    """
    if remove and (file or like or objective != Objective.PRICE):
        raise click.UsageError("--remove takes nodes away: leave out --node-groups, --like and --objective.")
    if not remove and (movable or move_jobs):
        raise click.UsageError("--movable and --move-jobs need --remove: no pod moves to nodes that are added.")
    if not remove and not source.shown.is_everything:
        raise click.UsageError("A plan is for all that is pending: -n needs --remove, and -l selects nothing.")
    if source.shown.query:
        raise click.UsageError("-l selects nothing here: --movable selects the pods that may move.")
    features = source.features
    inventory = inventory_of(source.objects(), overlays, features, keep_going=keep_going)
    if remove:
        rules = MoveRules(move_jobs, None, tuple(movable), source.shown.namespace)
        is_any = _removed(Input.of(inventory, features), source, rules, decided_by, output)
        sys.exit(BAD_INPUT if inventory.errors else int(not is_any or bool(inventory.unseen)))
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
        plan = NodePlanner(inventory, groups, Objective(objective), world_of, progress.show).plan()
    report = PlanReport(plan, Objective(objective))
    if output == PAGE:
        before, _, _ = given.devices_of(given.placement(features, decided_by=decided_by))
        after, claims, cluster = given.devices_of(plan.world.placement)
        report = replace(report, pools=(before, after), claims=claims, cluster=cluster)
    print_report(report, output, source.head)
    is_whole = not (plan.never or plan.unplaced or inventory.unseen)
    sys.exit(BAD_INPUT if inventory.errors else int(not is_whole))


def _removed(given: Input, source: ClusterSource, rules: MoveRules, decided_by: DecidedBy, output: str) -> bool:
    """Print which nodes could go; whether there is any."""
    given.warn_of(given.pods)
    print_to_stderr(unseen_pods(has_bound_pods=given.inventory.has_bound_pods))
    placement = given.placement(source.features, decided_by=decided_by)
    results = placement.run(given.pending, [], lambda _done, _all: None)
    placed = [one.pod for one in results if isinstance(one, PlacedPod) and one.pod is not None]
    # Pods that had a node, and waited for devices of a claim alone, are where they are.
    bound = {pod.uid for pod in given.pods if pod.node_name}
    pending = frozenset(pod.uid for pod in placed) - bound
    before = given.devices_of(placement)[0] if output == PAGE else []
    with Progress(doing="looking for nodes that can go") as progress:
        plan = NodeRemover(placement.cluster, rules, pending, report=progress.show).plan()
    print_to_stderr(unchecked_namespaces(placement.unchecked, filters.LABEL))
    report = RemovalReport(plan)
    if output == PAGE:
        after, claims, cluster = devices_after(MovePlan(plan.moves, Way()), given, placement)
        report = replace(report, pools=(before, after), claims=claims, cluster=cluster)
    print_report(report, output, source.head)
    return bool(plan.removed)
