"""`dra fit`: how many more copies of a pod, a claim or a template fit, where, and what stops the next one."""

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import click

from allocator.model import Claim
from allocator.words import agreeing, counted, listed_up_to, whole_number
from scheduler.cli import cluster_source
from scheduler.cli.cluster_source import ClusterSource, ShownObjects, source_options
from scheduler.cli.ending import BAD_INPUT, print_to_stderr, stop
from scheduler.cli.inputs import (
    DecidedBy,
    FileToFit,
    Input,
    deciding_options,
    groups_option,
    inventory_of,
    keep_going_option,
    kind_and_key,
    meant,
    overlay_option,
)
from scheduler.cli.printing import Progress, page_option, print_report
from scheduler.core_v1.label_selectors import selects
from scheduler.core_v1.node import PriorityClass
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.decision import filters
from scheduler.input.identity import claim_of_template
from scheduler.input.inventory import InputClaim
from scheduler.offline.copies import Copy, copies_of_claim, copies_of_pod, fit
from scheduler.offline.group_placement import fit_groups
from scheduler.offline.input_claims import Priorities, identified
from scheduler.offline.placement import Placement
from scheduler.output.difference_report import FitReport
from scheduler.output.group_report import DevicesOfPage, GroupFitReport
from scheduler.output.input_report import unchecked_namespaces
from scheduler.output.report import PAGE
from scheduler.pod_groups.group import GroupOfPods

MAX = "max"

SUBJECTS = ("pod", "claim", "template")
"""Kinds of which copies can be made."""

_EPILOG = """
\b
Exit codes: 0 if one more fits (with --replicas N: if N fit), 1 if not or if FILE requests claims that no known pod of
it uses, 2 for invalid input.

\b
Examples:
  dra fit train.yaml cluster.yaml              the pod of a manifest: Pod, Deployment, Job and so on
  dra fit pod/ml/train-0 cluster.yaml          pods like one of the cluster
  dra fit template/ml/gpus cluster.yaml        claims of a template, without pods
  dra fit claim/ml/shared cluster.yaml --replicas 10
  dra fit gang.yaml cluster.yaml               a group of pods, whole
"""


@dataclass(frozen=True, slots=True)
class Sought:
    """What is copied. text: in words. is_whole: nothing that it asks for is unknown."""

    text: str
    copies: Callable[[Placement], Copy]
    is_whole: bool = True


def _replicas(_context: click.Context, _option: click.Parameter, text: str) -> int | None:
    if text == MAX:
        return None
    number = whole_number(text, sys.maxsize)
    if not number:
        raise click.BadParameter(f"{text!r:.80} is neither a number above 0 nor {MAX}")
    return number


@click.command(name="fit", epilog=_EPILOG)
@click.argument("subject", metavar="FILE|POD|CLAIM|TEMPLATE|GROUP", shell_complete=cluster_source.pods)
@source_options
@click.option(
    "--replicas",
    "most",
    default=MAX,
    show_default=True,
    metavar="N|max",
    callback=_replicas,
    help="Stop after so many copies.",
)
@page_option
@overlay_option
@deciding_options
@groups_option
@keep_going_option
def command(  # noqa: PLR0913 - one for each option
    *,
    subject: str,
    source: ClusterSource,
    overlays: tuple[str, ...],
    most: int | None,
    output: str,
    decided_by: DecidedBy,
    group_kinds: tuple[str, ...],
    keep_going: bool,
) -> None:
    """Print how many more copies fit, on which nodes, and why the next one does not.

    FILE is a manifest with one pod, with one object that creates pods, or with a group of pods, which is then placed
    whole, as often as it fits (docs/groups.md); pods beside the group, such as an MPI launcher, are not copied. GROUP
    is group/NAMESPACE/NAME. POD is pod/NAMESPACE/NAME, CLAIM is claim/NAMESPACE/NAME, TEMPLATE is
    template/NAMESPACE/NAME. PATH is as in `dra allocate`.

    Copies are placed one after the other by the live scheduler's own decisions, on what is free now: pods that are
    pending are left out. Each copy of a pod gets claims of its own from its templates, and shares the claims that it
    names. Copies of a claim or a template are placed without pods: only devices count, not the CPU and memory of nodes.
    -l prints only nodes with these labels; copies on other nodes are counted all the same.
    """
    features, shown = source.features, source.shown
    file = FileToFit.of(subject)
    on_top = file.objects if file else ()
    inventory = inventory_of(source.objects(), overlays, features, keep_going=keep_going, on_top=on_top)
    given = Input.of(inventory, features, group_kinds=frozenset(group_kinds))
    placement = given.placement(features, decided_by=decided_by)
    if group := _group(given, placement, subject, source, file):
        before = given.devices_of(placement)[0] if output == PAGE else []
        with Progress(doing="fitting") as progress:
            groups = fit_groups(placement, group, most, progress.show)
        devices = DevicesOfPage(before, *given.devices_of(placement)) if output == PAGE else DevicesOfPage()
        print_report(GroupFitReport(f"group {group}", group, groups, devices), output, source.head)
        sys.exit(BAD_INPUT if inventory.errors else int(groups.number < (most or 1)))
    sought = of_file(given, file, source) if file else of_name(given, subject, shown)
    before = given.devices_of(placement)[0] if output == PAGE else []
    with Progress(doing="fitting") as progress:
        fitting = fit(placement, sought.copies(placement), most, progress.show)
    print_to_stderr(unchecked_namespaces(placement.unchecked, filters.LABEL))
    if shown.selector:
        fitting = fitting.on({node.name for node in inventory.nodes if selects(shown.selector, node.labels)})
    report = FitReport(sought.text, fitting)
    if output == PAGE:
        after, claims, cluster = given.devices_of(placement)
        report = replace(report, pools=(before, after), claims=claims, cluster=cluster)
    print_report(report, output, source.head)
    sys.exit(BAD_INPUT if inventory.errors else int(fitting.number < (most or 1) or not sought.is_whole))


_GROUP = "group/"


def _group(
    given: Input, placement: Placement, subject: str, source: ClusterSource, file: FileToFit | None
) -> GroupOfPods | None:
    """The group that is named, or the only one in the file; None where there is none. Pods beside it are not copied."""
    groups = given.groups(placement)
    if file is None:
        if not subject.startswith(_GROUP):
            return None
        key = source.shown.key_of(subject.removeprefix(_GROUP))
        if named := groups.named(key):
            return named[0]
        known = {(group.key.namespace, group.key.name) for group in groups.groups}
        stop(f"group {'/'.join(key)} has no pod in the input{meant(key, known)}")
    inside = file.inventory(source.features)
    names = {(pod.namespace, pod.name) for pod in Input.of(inside, source.features).pods}
    inside_groups = {
        str(group.key): group for pod in given.pods for group in [groups.of(pod)] if group and _is_in(pod, names)
    }
    if not inside_groups:
        return None
    if len(inside_groups) > 1:
        listed = listed_up_to(sorted(inside_groups), 3)
        first = f"{_GROUP}{min(inside_groups)}"
        stop(f"{subject} contains {len(inside_groups)} groups of pods ({listed}): name one of them, such as {first}")
    [group] = inside_groups.values()
    if alone := len(names - {(pod.namespace, pod.name) for pod in group.members}):
        text = f"{counted(alone, 'pod')} of {subject} {agreeing(alone, 'is', 'are')} not in group {group}"
        print_to_stderr([f"warning: {text}, and not copied"])
    return group


def _is_in(pod: Pod, names: Collection[NamespacedName]) -> bool:
    return (pod.namespace, pod.name) in names


def of_file(given: Input, file: FileToFit, source: ClusterSource) -> Sought:
    """The only pod of the file, or that of the only object in it that creates pods."""
    path, inside = file.path, file.inventory(source.features)
    named = {str(workload): workload.template for workload in inside.workloads}
    named |= {f"pod {pod}": pod for pod in inside.pods}
    if len(named) != 1:
        listed = f"{len(named)} ({', '.join(sorted(named)[:3])} ...)" if named else "none"
        stop(f"{path} must contain one pod, one object that creates pods or one group of pods, but contains {listed}")
    [(text, template)] = named.items()
    if source.shown.namespace not in ("", template.namespace):
        stop(f"{path}: {text} is not in the namespace of -n, {source.shown.namespace}")
    [pod] = identified([template], Priorities(given.inventory.of(PriorityClass)).of)
    given.warn_of([pod])
    return Sought(text, lambda placement: copies_of_pod(placement, pod), is_whole=not inside.unseen)


def of_name(given: Input, subject: str, shown: ShownObjects) -> Sought:
    """The pod, claim or template of that name; the command ends where there is none."""
    if "/" not in subject and Path(subject).suffix:
        stop(f"{subject} does not exist")
    kind, key = kind_and_key(subject, shown, SUBJECTS, "pod, claim or template")
    text = f"{kind or 'pod'} {'/'.join(key)}"
    if kind in ("", "pod"):
        pod = given.pod(key)
        given.warn_of([replace(pod, node_name="")])
        return Sought(text, lambda placement: copies_of_pod(placement, pod))
    if kind == "claim":
        claim_object = given.claims.objects.get(key)
        if claim_object is None:
            stop(f"{text} is not in the input{meant(key, given.claims.objects)}")
        return Sought(text, lambda placement: copies_of_claim(placement, claim_object))
    template = given.inventory.templates.get(key)
    if template is None:
        stop(f"{text} is not in the input{meant(key, given.inventory.templates)}")
    decoded = claim_of_template(template)
    if not isinstance(decoded.object, Claim):
        stop(f"{text}: no claim can be created from it: {decoded.errors[0]}")
    made = InputClaim(decoded.object, decoded)
    return Sought(text, lambda placement: copies_of_claim(placement, made))
