"""`dra allocate`: the main job on files."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from allocator.api import allocation_to_v1
from allocator.model import Claim
from scheduler.cli import cluster_source
from scheduler.cli.cluster_source import ClusterSource, ShownObjects, source_options
from scheduler.cli.ending import BAD_INPUT, print_to_stderr, stop
from scheduler.cli.inputs import (
    Input,
    inventory_of,
    keep_going_option,
    overlay_option,
    profile_options,
)
from scheduler.cli.progress import Progress
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import POD_SCHEDULED
from scheduler.decision import filters
from scheduler.input.inventory import InputClaim
from scheduler.input.yaml_1_1 import dump
from scheduler.offline.input_claims import Claims, statuses_of, uid_of_pod
from scheduler.offline.placement import PlacedPod, Placement, Result, unused_claims
from scheduler.output.input_report import unchecked_namespaces
from scheduler.output.report import json_text
from scheduler.output.table import reason_of, table
from scheduler.plugins.profile import Profile
from scheduler.state.claims import FINALIZER, Waiting

# Results as API objects: claims with their status and pods with their node, as they would be written.
#
# Timestamps of allocations and conditions are omitted, because nothing has been written. A pod that is not placed has
# the reason in its condition PodScheduled. Source: KEP-4381 (finalizer, reservedFor); the resource claim controller
# (resourceClaimStatuses).


def list_of(results: Sequence[Result], claims: Claims) -> object:
    """A v1 List: the claims of the results by namespace and name, then the pods likewise."""
    wanted = {(claim.namespace, claim.name) for result in results for claim in result.claims}
    items: list[object] = [claim_object(claims.objects[key]) for key in sorted(wanted)]
    pods = [(result.pod, result) for result in results if result.pod]
    pods.sort(key=lambda pair: (pair[0].namespace, pair[0].name))
    items.extend(pod_object(pod, result, claims) for pod, result in pods)
    return {"apiVersion": "v1", "kind": "List", "items": items}


def claim_object(found: InputClaim) -> dict[str, object]:
    """The claim with its allocation, reserved for its consumers, and protected from deletion once allocated."""
    raw, claim = found.raw, found.claim
    metadata = {**_shown(raw["metadata"]), "namespace": claim.namespace, "uid": claim.uid}
    status = dict(raw.get("status") or {})
    if claim.allocation is not None:
        if "allocation" not in status:
            status["allocation"] = allocation_to_v1(claim.allocation)
        metadata["finalizers"] = list(dict.fromkeys([*(metadata.get("finalizers") or ()), FINALIZER]))
    reserved = list(status.get("reservedFor") or ())
    reserved += [{"resource": one.resource, "name": one.name, "uid": one.uid} for one in found.consumers]
    if reserved:
        status["reservedFor"] = reserved
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": metadata, **_rest(raw), "status": status}


def pod_object(pod: Pod, result: Result, claims: Claims) -> dict[str, object]:
    """The pod with its node, where it has one, and with the names of its generated claims."""
    raw = dict(pod.raw)
    metadata, spec, status = raw.get("metadata"), raw.get("spec"), raw.get("status")
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    raw["metadata"] = {**_shown(metadata), "namespace": pod.namespace, "uid": uid_of_pod(pod)}
    if isinstance(result, PlacedPod):
        raw["spec"] = {**spec, "nodeName": result.node}
    before = status if isinstance(status, dict) else {}
    if reported := {**_reported(pod, result, claims), **_conditions(before, pod, result)}:
        raw["status"] = {**before, **reported}
    return raw


def _conditions(status: Mapping[str, object], pod: Pod, result: Result) -> dict[str, object]:
    """The pod's conditions, where PodScheduled is another one than it was."""
    before = status.get("conditions")
    conditions = before if isinstance(before, list) else []
    others = [one for one in conditions if not (isinstance(one, dict) and one.get("type") == POD_SCHEDULED)]
    if isinstance(result, PlacedPod):
        if len(others) == len(conditions):
            return {}
        return {"conditions": [*others, {"type": POD_SCHEDULED, "status": "True"}]}
    reason = "SchedulingGated" if pod.gates else "Unschedulable"
    own = {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": reason_of(result)}
    return {"conditions": [*others, own]}


def _reported(pod: Pod, result: Result, claims: Claims) -> dict[str, object]:
    """The fields of pod.status that name generated claims."""
    statuses = _claim_statuses(pod, claims)
    reported: dict[str, object] = {"resourceClaimStatuses": statuses} if statuses else {}
    if isinstance(result, PlacedPod) and result.extended:
        reported["extendedResourceClaimStatus"] = result.extended.status
    return reported


def _claim_statuses(pod: Pod, claims: Claims) -> list[dict[str, object]]:
    found = claims.of(pod)
    if isinstance(found, Waiting):
        return []
    names = statuses_of(pod, found)
    return [
        {"name": entry.name, **({"resourceClaimName": names[entry.name]} if names[entry.name] else {})}
        for entry in pod.claims
        if entry.name in names
    ]


def _shown(metadata: Mapping[str, Any]) -> dict[str, Any]:  # Any: fields of whoever wrote them
    """The metadata without managedFields, which kubectl does not print either, and a dump does not contain."""
    return {key: value for key, value in metadata.items() if key != "managedFields"}


def _rest(raw: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in raw.items() if key not in ("apiVersion", "kind", "metadata", "status")}


FORMATS = ("table", "wide", "json", "yaml", "name")

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
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Output format.")
@overlay_option
@profile_options
@keep_going_option
def command(
    *,
    source: ClusterSource,
    overlays: tuple[str, ...],
    output: str,
    profiles: Sequence[Profile],
    keep_going: bool,
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
    """
    inventory = inventory_of(source.objects(), overlays, source.features, keep_going=keep_going)
    given = Input.of(inventory, source.features)
    placement = given.placement(source.features, names["node"], profiles, shows_every_node=output == "wide")
    pods, claims = _chosen(given, source.shown, names["pod"], names["claim"])
    given.warn_of(pods if names["pod"] or names["claim"] else given.pods)
    found = _place(placement, pods, claims)
    results = [one for one in found if given.is_shown(one, source.shown)]
    if text := _rendered(results, placement, output):
        click.echo(text, nl=not text.endswith("\n"))
    placed = sum(isinstance(result, PlacedPod) for result in results)
    print_to_stderr(
        [f"{placed} of {len(results)} placed{'' if results else f': no pending pod or claim {source.shown}'}"]
    )
    is_complete = placed == len(results) and (names["pod"] or names["claim"] or not inventory.unseen)
    sys.exit(BAD_INPUT if inventory.errors else int(not is_complete))


def _place(placement: Placement, pods: Sequence[Pod], claims: Sequence[Claim]) -> list[Result]:
    """What becomes of the pods, and of claims that no pod uses."""
    placement.tells_hidden_errors = True
    with Progress() as progress:
        results = placement.run(pods, claims, progress.show)
    print_to_stderr(unchecked_namespaces(placement.unchecked, filters.LABEL))
    print_to_stderr(f"warning: {one}" for one in placement.hidden_errors.found)
    return results


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


def _rendered(results: Sequence[Result], placement: Placement, output: str) -> str:
    match output:
        case "json":
            return json_text(list_of(results, placement.claims))
        case "yaml":
            return dump(list_of(results, placement.claims))
        case "name":
            return "\n".join(_names(results))
        case _:
            return table(results, is_wide=output == "wide", width=_columns())


def _columns() -> int | None:
    """The width of the terminal that reads the table; None where it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _names(results: Sequence[Result]) -> list[str]:
    """The placed pods and claims, as `kind/namespace/name`."""
    placed = [result for result in results if isinstance(result, PlacedPod)]
    names = {f"pod/{result.pod}" for result in placed if result.pod}
    names |= {f"resourceclaim.resource.k8s.io/{claim}" for result in placed for claim in result.claims}
    return sorted(names)
