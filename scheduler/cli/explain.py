"""`dra explain`: why a pod or a claim gets what it gets, or why it gets nothing and what would help."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import NoReturn

import click

from allocator.gates import Features
from allocator.model import Claim
from allocator.words import counted
from scheduler.checks.audit import problems_of
from scheduler.cli import cluster_source
from scheduler.cli.audit import state_of
from scheduler.cli.cluster_source import ClusterSource, ShownObjects, cluster_options
from scheduler.cli.ending import BAD_INPUT, print_to_stderr, stop
from scheduler.cli.inputs import (
    WORKLOADS,
    DecidedBy,
    Input,
    deciding_options,
    groups_option,
    inventory_of,
    is_kind,
    keep_going_option,
    kind_and_key,
    meant,
    overlay_option,
)
from scheduler.cli.printing import Progress, after_delay, output_option, print_blocks, print_report, print_reports
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.decision import filters
from scheduler.offline.evictions import evictions
from scheduler.offline.group_placement import decide_group, take_group
from scheduler.offline.placement import Placement, PodToPlace, order_of, unused_claims
from scheduler.offline.pod_explanation import Explanation, Verdict, explain
from scheduler.output.explanation_list import Explanations
from scheduler.output.explanation_report import KIND, ExplanationReport
from scheduler.output.group_report import DevicesOfPage, GroupReport
from scheduler.output.input_report import unchecked_namespaces
from scheduler.output.report import JSON, PAGE, TEXT, WIDE

_EPILOG = """
\b
Exit codes: 0 if it fits (with --all: everything fits), 1 if it does not or the answer is unknown, 2 for invalid input.

\b
Examples:
  dra explain ml/train-0 cluster.yaml pending.yaml         explain a pod
  dra explain deploy/ml/web cluster.yaml                   explain the first pending pod of a Deployment
  dra explain ml/train-0 must-gather/ --in-order           place the pods before it first
  dra explain ml/train-0 cluster.yaml --node gpu-07        explain why it does not fit on a node
  dra explain claim/ml/shared cluster.yaml -o json         explain a claim, as JSON
  dra explain group/ml/train cluster.yaml                  explain a group: where it goes, or what each domain lacks
  dra explain --all cluster.yaml pending.yaml              explain everything that is pending, for CI
  dra explain ml/train-0 cluster.yaml -o html > a.html     a page with a map of nodes and devices
"""


@dataclass(frozen=True, slots=True)
class _Subject:
    """The pod to explain, or a claim that no pending pod uses."""

    pod: Pod | None
    claim: NamespacedName | None


@click.command(name="explain", epilog=_EPILOG)
@click.argument(
    "arguments",
    nargs=-1,
    metavar="[POD|CLAIM|WORKLOAD|GROUP] [PATH...]",
    shell_complete=cluster_source.pods_or_files,
)
@click.option("--all", "is_all", is_flag=True, help="Explain all pending pods and claims, each after those before it.")
@click.option("--node", default="", metavar="NAME", help="Describe this node, and whether the pod fits there.")
@click.option("--in-order", is_flag=True, help="First place the pods and claims that come before it.")
@output_option(TEXT, WIDE, JSON, PAGE)
@cluster_options
@overlay_option
@deciding_options
@groups_option
@keep_going_option
def command(  # noqa: PLR0913 - one for each option
    *,
    arguments: tuple[str, ...],
    source: ClusterSource,
    overlays: tuple[str, ...],
    node: str,
    output: str,
    decided_by: DecidedBy,
    group_kinds: tuple[str, ...],
    in_order: bool,
    is_all: bool,
    keep_going: bool,
) -> None:
    """Explain why a pod or claim gets its node and devices, or why it gets none and what would help.

    POD is NAME, NAMESPACE/NAME, pod/NAME or `pod NAME`. CLAIM is claim/NAME or its name alone, for the
    first pending pod that uses it. WORKLOAD is deploy/NAME, sts/NAME, job/NAME and so on, for its first pending pod.
    GROUP is group/NAME, by the name of its PodGroup or its label. PATH is as in `dra allocate`.

    The output describes one node: the selected node, the nearest one, or --node. For each request it shows how many
    devices each check removes and who holds them; for each constraint, the devices of each value; then the smallest set
    of conflicting requests and constraints, and changes that would make the pod fit, each verified. Other nodes follow
    by reason. docs/explain.md describes the JSON.
    """
    if is_all and (node or in_order):
        raise click.UsageError(
            "--all explains everything in order and on all nodes: it cannot be combined with --node and --in-order"
        )
    if not is_all and not arguments:
        raise click.UsageError("Missing argument 'POD|CLAIM': name one, or use --all.")
    name, paths = ("", arguments) if is_all else _named(arguments)
    source = source.at(paths)
    if source.shown.selector and not is_all:
        raise click.UsageError("-l selects which of --all are explained: without --all, one pod or claim is named.")
    inventory = inventory_of(source.objects(), overlays, source.features, keep_going=keep_going)
    given = Input.of(inventory, source.features, group_kinds=frozenset(group_kinds))
    placement = given.placement(source.features, decided_by=decided_by)
    if is_all:
        fits = _explain_all(given, placement, source, output, decided_by)
        sys.exit(BAD_INPUT if inventory.errors else int(not fits or bool(inventory.unseen)))
    if name.startswith(_GROUP):
        if node or in_order:
            raise click.UsageError("--node and --in-order are of pods and claims: a group is placed whole.")
        _end_with_group(given, placement, source, name.removeprefix(_GROUP), output)
    subject = _subject(given, name, source.shown)
    if node:
        given.require_node(node)
    if subject.pod:
        given.warn_of([subject.pod])
        print_to_stderr(_of_group(given, placement, subject.pod))
    if in_order:
        _place_before(given, placement, subject)
    with after_delay("asking every node ..."):
        off = decided_by.preemption_off(subject.pod)
        explanation = explain(placement, _look(placement, subject), node, preemption_off=off)
    if subject.pod and subject.pod.node_name:
        explanation = _as_bound(explanation, subject.pod, given, source.features)
    print_to_stderr(unchecked_namespaces(placement.unchecked, filters.LABEL))
    if explanation.answers and explanation.verdict == "Fits" and not in_order:
        print_to_stderr(_passed_by(given, subject))
    shown = given.devices_of(placement) if output == PAGE else ((), (), None)
    print_report(ExplanationReport(explanation, *shown), output, source.head)
    sys.exit(BAD_INPUT if inventory.errors else int(explanation.verdict != "Fits"))


_GROUP = "group/"


def _end_with_group(given: Input, placement: Placement, source: ClusterSource, name: str, output: str) -> NoReturn:
    """Explain where a group goes, or what it lacks, and end."""
    groups, key = given.groups(placement), source.shown.key_of(name)
    named = groups.named(key)
    if not named:
        known = {(group.key.namespace, group.key.name) for group in groups.groups}
        stop(f"group {'/'.join(key)} has no pod in the input{meant(key, known)}")
    group = next((one for one in named if one.waiting), named[0])
    if not group.waiting:
        stop(f"group {group} has no pod that waits: {counted(len(group.bound), 'is', 'are')} bound")
    given.warn_of(group.waiting)
    with after_delay("searching ..."):
        report = GroupReport(decide_group(placement, group))
    if output == PAGE:
        before = given.devices_of(placement)[0]
        list(take_group(placement, group))
        report = replace(report, devices=DevicesOfPage(before, *given.devices_of(placement)))
    print_report(report, output, source.head)
    sys.exit(BAD_INPUT if given.inventory.errors else int(report.answer != "Fits"))


def _of_group(given: Input, placement: Placement, pod: Pod) -> Iterator[str]:
    """A line on the group of the pod, which is placed whole."""
    group = given.groups(placement).of(pod)
    if group is not None and not pod.node_name:
        yield f"explained on its own: group/{group} explains the group that it is placed with"


def _explain_all(given: Input, placement: Placement, source: ClusterSource, output: str, decided_by: DecidedBy) -> bool:
    """Explain each pod and claim that waits on what those before it leave; whether all of them fit."""
    shown = source.shown.of_lists
    given.warn_of(given.pods)
    pods = sorted(given.pending, key=order_of)
    claims = sorted(unused_claims(given.claims, given.pods), key=lambda claim: (claim.namespace, claim.name))
    numbers: Counter[Verdict] = Counter()
    told = Explanations(is_page=output == PAGE)
    with Progress() as progress:

        def explained() -> Iterator[ExplanationReport]:
            looks = chain(map(placement.look, pods), map(placement.look_at_claim, claims))
            for number, look in enumerate(looks, start=1):
                if given.is_shown(look, shown):
                    off = decided_by.preemption_off(look.pod)
                    explanation = explain(placement, look, is_brief=True, preemption_off=off)
                    numbers[explanation.verdict] += 1
                    yield ExplanationReport(explanation)
                placement.take(look)
                progress.show(number, len(pods) + len(claims))

        if output in (WIDE, JSON):
            print_reports(explained(), KIND, output, progress)
        else:
            for report in explained():
                told.add(report)
    print_to_stderr(unchecked_namespaces(placement.unchecked, filters.LABEL))
    fitting, every = numbers["Fits"], numbers.total()
    counted = f"{fitting} of {every} fit{'' if every else f': no pending pod or claim {shown}'}"
    if output == PAGE:
        click.echo(told.html(counted, *given.devices_of(placement), source.head), nl=False)
    elif output == TEXT:
        print_blocks(told.blocks())
    print_to_stderr([counted])
    return fitting == every


def _named(arguments: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The name, also of `pod NAME`, and the paths after it."""
    first, *paths = arguments
    if paths and is_kind(first) and not Path(paths[0]).exists():
        return f"{first}/{paths[0]}", tuple(paths[1:])
    return first, tuple(paths)


def _subject(given: Input, name: str, shown: ShownObjects) -> _Subject:
    wanted = "pod, claim or workload, the kinds that can be explained"
    kind, key = kind_and_key(name, shown, ("pod", "claim", *WORKLOADS.values()), wanted)
    kind = kind or _kind_of(given, key)
    if kind == "pod":
        return _Subject(given.pod(key), None)
    if kind != "claim":
        pods = given.pods_of(kind, key)
        others = f", the first of {len(pods)} pods" if len(pods) > 1 else ""
        print_to_stderr([f"{kind} {'/'.join(key)}: pod {pods[0]} is explained{others}"])
        return _Subject(pods[0], None)
    users, _ = given.users(key)
    if not users:
        return _Subject(None, key)
    pod = min(users, key=order_of)
    print_to_stderr([f"claim {'/'.join(key)}: pod {pod}, which uses it, is explained"])
    return _Subject(pod, None)


def _kind_of(given: Input, key: NamespacedName) -> str:
    """The kind of what has that name: a pod goes before a claim."""
    is_pod = any((pod.namespace, pod.name) == key for pod in given.pods)
    is_claim = key in given.claims.objects
    if is_pod and is_claim:
        name = "/".join(key)
        print_to_stderr([f"pod {name} is explained; claim/{name} explains the claim of that name"])
    return "claim" if is_claim and not is_pod else "pod"


def _as_bound(explanation: Explanation, pod: Pod, given: Input, features: Features) -> Explanation:
    """The explanation of a pod that has its node: it says so if the pod cannot start or stay there."""
    state = state_of(given.inventory, features, evictions(given.inventory, features))
    if problems := "; ".join(problems_of(pod, state)):
        return replace(explanation, verdict="CannotRun", summary=problems)
    return explanation


def _look(placement: Placement, subject: _Subject) -> PodToPlace:
    if subject.pod:
        return placement.look(subject.pod)
    assert subject.claim
    return placement.look_at_claim(placement.claims.objects[subject.claim].claim)


def _place_before(given: Input, placement: Placement, subject: _Subject) -> None:
    """Place what comes before it."""
    with Progress() as progress:
        placement.run(*_before(given, subject), progress.show)


def _before(given: Input, subject: _Subject) -> tuple[list[Pod], list[Claim]]:
    """What comes before it: pods that go first, then claims that no pod uses, by name."""
    if subject.pod:
        turn = order_of(subject.pod)
        return [pod for pod in given.pending if order_of(pod) < turn], []
    unused = unused_claims(given.claims, given.pods)
    return given.pending, [claim for claim in unused if (claim.namespace, claim.name) < (subject.claim or ("", ""))]


def _passed_by(given: Input, subject: _Subject) -> Iterator[str]:
    """A line on those that `dra allocate` would place first, whose devices are counted as free."""
    pods, claims = _before(given, subject)
    if number := len(pods) + len(claims):
        others = counted(number, "other is pending and comes", "others are pending and come")
        yield f"explained on its own: {others} before it (--in-order places them first)"
