"""`dra defrag`: which pods to move so that a pod or claim fits, a class has a larger block, or nodes are empty."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import click

from allocator.model import Requirement
from allocator.status import PoolStatus
from allocator.words import counted, did_you_mean
from scheduler.cli import cluster_source
from scheduler.cli.cluster_source import ClusterSource, ShownObjects, source_options
from scheduler.cli.ending import BAD_INPUT, NumberRange, print_to_stderr, stop
from scheduler.cli.fit import SUBJECTS, of_file, of_name
from scheduler.cli.inputs import (
    DecidedBy,
    FileToFit,
    Input,
    deciding_options,
    inventory_of,
    keep_going_option,
    kind_and_key,
    overlay_option,
)
from scheduler.cli.printing import page_option, print_report
from scheduler.core_v1.label_selectors import InvalidLabelQuery, requirements
from scheduler.decision import filters
from scheduler.decision.cluster import Cluster
from scheduler.defrag.movable import MoveRules
from scheduler.defrag.search import Defragmentation, MovePlan, SearchLimits, as_planned, refused_answer
from scheduler.defrag.targets import ToFit, Way
from scheduler.offline.placement import Placement, PodToPlace, UnplacedPod
from scheduler.output.defrag_report import DefragReport
from scheduler.output.input_report import unchecked_namespaces
from scheduler.output.report import PAGE, TEXT
from scheduler.state.pods_by_priority import priority_of
from scheduler.status import ClaimStatus, claim_statuses

_EPILOG = """
\b
Exit codes: 0 if there is a plan, or nothing has to move; 1 if there is none; 2 for invalid input.

\b
Examples:
  dra defrag cluster.yaml --for ml/train-0                which pods to move so that this one fits
  dra defrag cluster.yaml --for template/ml/four-gpus --replicas 2
  dra defrag cluster.yaml --largest gpu.example.com       the largest block that moves can win
  dra defrag cluster.yaml --free-nodes 1 --movable app=web
  dra defrag --for ml/train-0 --apply                     carry it out on the cluster of the kubeconfig
"""


def _query(_context: click.Context, _option: click.Parameter, text: str) -> Sequence[Requirement]:
    try:
        return requirements(text)
    except InvalidLabelQuery as error:
        raise click.BadParameter(str(error)) from error


movable_option = click.option(
    "--movable",
    default="",
    metavar="QUERY",
    callback=_query,
    help="Move only pods with these labels, as -l of kubectl takes them.",
)
jobs_option = click.option("--move-jobs", is_flag=True, help="Move pods of Jobs too; they lose their run so far.")


@click.command(name="defrag", epilog=_EPILOG)
@source_options
@click.option(
    "--for",
    "subject",
    default="",
    metavar="POD|CLAIM|template/NAME|FILE",
    shell_complete=cluster_source.pods,
    help="What room is made for: a pending pod or claim, a claim template, or the pod of a manifest.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 10_000),  # each set of pods that is tried decides all of them
    default=1,
    show_default=True,
    metavar="N",
    help="Make room for so many of it.",
)
@click.option(
    "--largest", "class_name", default="", metavar="CLASS", help="Win the largest block of this class on one node."
)
@click.option(
    "--free-nodes",
    type=click.IntRange(1),
    metavar="N",
    help="Empty nodes with devices until so many have no pods but those of DaemonSets and static ones.",
)
@movable_option
@click.option("--max-moves", type=click.IntRange(0), default=5, show_default=True, metavar="N", help="Moves at most.")
@jobs_option
@click.option("--any-priority", is_flag=True, help="Move pods of higher priority than the target's too.")
@click.option(
    "--apply",
    "applies",
    is_flag=True,
    help="Carry the plan out on the cluster, one eviction at a time; `dra scheduler run` has to place the target.",
)
@click.option("--yes", is_flag=True, help="With --apply: do not ask before the first eviction.")
@click.option(
    "--timeout",
    "timeout_s",
    type=NumberRange(0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="With --apply: how long a step may take until the pod is bound in its new place.",
)
@page_option
@overlay_option
@deciding_options
@keep_going_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: ClusterSource,
    subject: str,
    replicas: int,
    class_name: str,
    free_nodes: int | None,
    movable: Sequence[Requirement],
    max_moves: int,
    move_jobs: bool,
    any_priority: bool,
    applies: bool,
    yes: bool,
    timeout_s: float,
    output: str,
    overlays: tuple[str, ...],
    decided_by: DecidedBy,
    keep_going: bool,
) -> None:
    """Print the fewest pods to move so that the target fits, where each goes, and in which order.

    Each move is verified: the live scheduler's own decision finds the pod's new place, while the place of the target
    is kept from the first eviction on. Pods move that their controllers make again and whose claims come from
    templates. Pods of Jobs, DaemonSets and static pods stay, and so do those with local storage, of higher priority,
    or whose PodDisruptionBudget allows no disruption (docs/defrag.md lists all rules). With -n, only pods in this
    namespace move. PATH is as in `dra allocate`. Nothing is written without --apply.
    """
    if bool(subject) + bool(class_name) + (free_nodes is not None) != 1:
        raise click.UsageError("Name what to make room for: one of --for, --largest and --free-nodes.")
    if replicas > 1 and not subject:
        raise click.UsageError("--replicas needs --for.")
    if source.shown.query:
        raise click.UsageError("-l selects nothing here: --movable selects the pods that may move.")
    if applies and (source.paths or overlays or not subject or replicas > 1 or output != TEXT):
        raise click.UsageError("--apply takes one pod of a cluster (--for), and no PATH, --overlay, --replicas or -o.")
    file = FileToFit.of(subject) if subject else None
    on_top = file.objects if file else ()
    inventory = inventory_of(source.objects(), overlays, source.features, keep_going=keep_going, on_top=on_top)
    given = Input.of(inventory, source.features)
    placement = given.placement(source.features, decided_by=decided_by)
    looks = _asked(given, placement, subject, replicas, source, file=file) if subject else []
    asked = [ToFit(one.pod, one.claims, one.full) for one in looks]
    classes = placement.cluster.fleet.classes
    if class_name and class_name not in classes:
        stop(f"--largest: there is no DeviceClass {class_name}{did_you_mean(class_name, classes)}")
    pods = [one.pod for one in asked if one.pod is not None]
    most_priority = min(map(priority_of, pods)) if pods and not any_priority else None
    rules = MoveRules(move_jobs, most_priority, tuple(movable), source.shown.namespace)
    before = given.devices_of(placement)[0] if output == PAGE else []
    defrag = Defragmentation(placement.cluster, rules, SearchLimits(max_moves))
    if subject:
        refused = next((one.result.reason for one in looks if isinstance(one.result, UnplacedPod)), "")
        text, answer = _words(subject, asked), refused_answer(refused) if refused else defrag.fit(asked)
    elif class_name:
        answer = defrag.largest(class_name)
        more = "" if answer.plan is not None else "more than "
        text = f"{more}{counted(answer.size, 'device')} of {class_name} on one node"
    else:
        assert free_nodes is not None
        text, answer = f"{counted(free_nodes, 'empty node')}", defrag.empty(free_nodes)
    print_to_stderr(unchecked_namespaces(placement.unchecked, filters.LABEL))
    report = DefragReport(text, answer, max_moves)
    print_report(_with_page(report, given, placement, before) if output == PAGE else report, output, source.head)
    if applies and answer.plan is not None and answer.plan.moves and not inventory.errors:
        sys.exit(_applied(source, answer.plan, timeout_s, asks=not yes))
    sys.exit(BAD_INPUT if inventory.errors else int(answer.plan is None or bool(inventory.unseen)))


def _applied(source: ClusterSource, plan: MovePlan, timeout_s: float, *, asks: bool) -> int:
    """The exit code after the plan was carried out, or the user did not want it."""
    from scheduler.cli.apply_moves import carry_out  # with all that it takes to call a server

    (place, *_) = plan.way.places
    if place.asked.pod is None:
        stop("--apply needs a pod as the target: room is kept for a pod alone")
    number = counted(len(plan.moves), "pod")
    if asks and not click.confirm(f"Evict {number} for pod {place.asked.pod}?", err=True):
        print_to_stderr(["dra: nothing is evicted"])
        return 1
    return int(not carry_out(source.access, plan, timeout_s, click.echo))


def _words(subject: str, asked: Sequence[ToFit]) -> str:
    first = asked[0]
    name = f"pod {first.pod}" if first.pod is not None else f"claim {first.claims[0]}"
    return name if len(asked) == 1 else f"{len(asked)} of {subject}"


def _asked(  # noqa: PLR0913 - what is read, and what of it is asked for
    given: Input, placement: Placement, subject: str, replicas: int, source: ClusterSource, *, file: FileToFit | None
) -> list[PodToPlace]:
    """The pods and claims that are to fit, decided where a node can be asked."""
    looks = [] if file else _looks(given, placement, subject, source.shown)
    if replicas > len(looks):
        sought = of_file(given, file, source) if file else of_name(given, subject, source.shown)
        looks += map(sought.copies(placement), range(replicas - len(looks)))
    for look in looks:
        if look.result is None:
            placement.decide(look)
    return looks


def _looks(given: Input, placement: Placement, subject: str, shown: ShownObjects) -> list[PodToPlace]:
    """The pods and claims of the input that the name stands for; none for a template."""
    kind, key = kind_and_key(subject, shown, SUBJECTS, "pod, claim or template")
    if kind in ("", "pod"):
        pod = given.pod(key)
        if pod.node_name:
            stop(f"pod {pod} is on node {pod.node_name} already")
        given.warn_of([pod])
        return [placement.look(pod)]
    if kind == "template":
        return []
    pods, claims = given.users(key)
    if given.claims.objects[key].claim.allocation is not None:
        stop(f"claim {'/'.join(key)} has its devices already")
    given.warn_of(pods)
    return [*map(placement.look, pods), *map(placement.look_at_claim, claims)]


def _with_page(report: DefragReport, given: Input, placement: Placement, before: Sequence[PoolStatus]) -> DefragReport:
    """The report with the devices before and after."""
    plan = report.answer.plan or MovePlan((), Way())
    after, claims, cluster = devices_after(plan, given, placement)
    return replace(report, pools=(before, after), claims=claims, cluster=cluster)


def devices_after(
    plan: MovePlan, given: Input, placement: Placement
) -> tuple[Sequence[PoolStatus], Sequence[ClaimStatus], Cluster]:
    """Pools and claims after the plan, and the cluster that they are in."""
    objects = dict(placement.claims.objects)
    nodes: dict[str, str] = {}
    for move in plan.moves:
        nodes[str(move.mover.pod)] = move.placed.node
        for claim in move.again[1]:
            if claim_object := objects.get((claim.namespace, claim.name)):
                objects[claim.namespace, claim.name] = replace(claim_object, claim=claim)
    pods = [pod.changed(node_name=nodes.get(str(pod), pod.node_name)) for pod in given.pods]
    with as_planned(placement.cluster, plan):
        pools, _, cluster = given.devices_of(placement)
    return pools, claim_statuses(objects.values(), pods), cluster
