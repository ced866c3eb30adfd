"""`dra allocate`: the main job on files."""

import sys
from collections.abc import Sequence

import click

from allocator.limit_use import exceeded_text, limit_statuses
from allocator.model import Claim
from allocator.words import counted
from scheduler.cli import cluster_source
from scheduler.cli.cluster_source import ClusterSource, ShownObjects, source_options
from scheduler.cli.ending import BAD_INPUT, print_to_stderr, stop
from scheduler.cli.inputs import (
    DecidedBy,
    Input,
    deciding_options,
    groups_option,
    inventory_of,
    keep_going_option,
    overlay_option,
)
from scheduler.cli.printing import Progress, output_option, print_report
from scheduler.core_v1.pod import Pod
from scheduler.decision import filters
from scheduler.offline.placement import PlacedPod, Placement, Result, unused_claims
from scheduler.offline.room_by_eviction import PodEvictions, RoomByEviction
from scheduler.output.input_report import unchecked_namespaces
from scheduler.output.placement_report import NAME, PlacementReport
from scheduler.output.report import JSON, TEXT, WIDE, YAML

_EPILOG = """
\b
Exit codes: 0 if everything was placed, 1 if something was not or an object of an unknown kind has claims, 2 for
invalid input.

\b
Examples:
  dra allocate cluster.yaml pending.yaml        a dump of a cluster, and what is pending
  dra allocate must-gather/                     all .yaml, .yml and .json files below a folder
  kubectl get resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates,nodes,pods -A -o yaml \\
    | dra allocate -                            directly from a cluster
  dra allocate cluster.yaml job.yaml --pod ml/train-0     one pod, as if it were the first
  dra allocate cluster.yaml pending.yaml -o yaml          the resulting claims and pods
  dra allocate cluster.yaml --overlay edited.yaml         with edited objects in place of the cluster's
  dra allocate cluster.yaml job.yaml --preempt            evict pods of lower priority if there is no room
  dra allocate cluster.yaml pending.yaml --policy topology:gpu.example.com/board     devices on one board
"""


@click.command(name="allocate", epilog=_EPILOG)
@source_options
@click.option("--pod", default="", metavar="NS/NAME", shell_complete=cluster_source.pods, help="Place only this pod.")
@click.option(
    "--claim",
    default="",
    metavar="NS/NAME",
    help="Place only the pods that use this claim, or the claim if no pod uses it.",
)
@click.option("--node", default="", metavar="NAME", help="Consider only this node.")
@click.option(
    "--preempt", is_flag=True, help="Evict pods of lower priority for pods that fit nowhere, and show which ones."
)
@output_option(TEXT, WIDE, JSON, YAML, NAME)
@overlay_option
@deciding_options
@groups_option
@keep_going_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: ClusterSource,
    overlays: tuple[str, ...],
    output: str,
    decided_by: DecidedBy,
    group_kinds: tuple[str, ...],
    keep_going: bool,
    preempt: bool,
    **names: str,
) -> None:
    """Print the nodes and devices that pending pods and claims would get from kube-scheduler.

    PATH is a file, a folder (read recursively; a must-gather works), or - for standard input: YAML or JSON, manifests
    or dumps, in any order. Without PATH, the cluster of the kubeconfig is read. The input should contain the
    ResourceSlices, DeviceClasses and Nodes of the cluster, and the ResourceClaims, ResourceClaimTemplates and Pods.
    Deployments, StatefulSets, ReplicaSets, DaemonSets, Jobs and CronJobs stand for the pods that they would create, and
    so does any other object with pod templates: MPIJob, JobSet, LeaderWorkerSet, RayCluster and so on. Allocated claims
    keep their devices.

    Each decision is the live scheduler's own, with every default filter and score of kube-scheduler: node selector and
    affinity, taints, cordoned nodes, host ports, CPU, memory and other resources, volumes, affinity between pods,
    topology spread, and the nodes that allocated claims reach. Extended resources of device classes become claims.
    Pods of a group (docs/groups.md) are placed together: at least its minimum, or none.
    """
    inventory = inventory_of(source.objects(), overlays, source.features, keep_going=keep_going)
    given = Input.of(inventory, source.features, group_kinds=frozenset(group_kinds))
    placement = given.placement(source.features, names["node"], decided_by, shows_every_node=output == "wide")
    is_named = bool(names["pod"] or names["claim"])
    shown = source.shown if is_named else source.shown.of_lists
    pods, claims = _chosen(given, shown, names["pod"], names["claim"])
    given.warn_of(pods if is_named else given.pods)
    room = RoomByEviction(placement) if preempt else None
    placement.makes_room = room.place if room else None
    placement.makes_group_room = room.for_group if room else None
    placements = _place(placement, pods, claims)
    results = [one for one in placements if given.is_shown(one, shown)]
    if names["pod"]:
        results = [one for one in results if one.pod is not None and one.pod.name == pods[0].name]
    evictions = _shown_evictions(results, room.made) if room else None
    print_report(PlacementReport(results, placement.claims, evictions), output)
    placed = sum(isinstance(result, PlacedPod) for result in results)
    gone = f", {counted(sum(len(one.victims) for one in evictions), 'pod')} evicted" if evictions else ""
    none = "" if results else f": no pending pod or claim {shown}"
    print_to_stderr([f"{placed} of {len(results)} placed{gone}{none}"])
    is_complete = placed == len(results) and (is_named or not inventory.unseen)
    sys.exit(BAD_INPUT if inventory.errors else int(not is_complete))


def _place(placement: Placement, pods: Sequence[Pod], claims: Sequence[Claim]) -> list[Result]:
    """What becomes of the pods, and of claims that no pod uses."""
    placement.tells_hidden_errors = True
    with Progress() as progress:
        results = placement.run(pods, claims, progress.show)
    print_to_stderr(unchecked_namespaces(placement.unchecked, filters.LABEL))
    print_to_stderr(f"warning: {one}" for one in placement.hidden_errors.found)
    every = limit_statuses(placement.cluster.fleet.current)
    print_to_stderr(f"warning: {exceeded_text(one)}" for one in every if one.is_exceeded)
    return results


def _shown_evictions(results: Sequence[Result], made: Sequence[PodEvictions]) -> list[PodEvictions]:
    """Those for pods whose results are shown."""
    shown = {result.pod.uid for result in results if result.pod is not None}
    return [one for one in made if one.pod.uid in shown]


def _chosen(given: Input, shown: ShownObjects, pod_name: str, claim_name: str) -> tuple[list[Pod], list[Claim]]:
    """The pods to place, and the claims that no pod uses."""
    if pod_name:
        pod, key = given.pod(shown.key_of(pod_name)), shown.key_of(claim_name)
        if claim_name and not given.uses(pod, key):
            stop(f"pod {pod} does not use claim {'/'.join(key)}")
        return [pod], []
    if claim_name:
        return given.users(shown.key_of(claim_name))
    return given.pending, unused_claims(given.claims, given.pods)
