"""`dra whatif`: what a change of the cluster, or another policy, does to the placement of everything in the input."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from allocator.status import PoolStatus
from scheduler.cli.cluster_source import ClusterSource, ShownObjects, source_options
from scheduler.cli.ending import BAD_INPUT, print_to_stderr, stop
from scheduler.cli.inputs import (
    Input,
    config_option,
    decided_by,
    groups_option,
    inventories_of,
    keep_going_option,
    known_changes,
    meant,
    policy_option,
)
from scheduler.cli.printing import Progress, output_option, print_report
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.input.inventory import InputClaim, Inventory
from scheduler.offline.evictions import evictions
from scheduler.offline.placement import Placement, unused_claims
from scheduler.offline.placement_difference import DifferenceKind, PlaceDifference, Places, differences, places_of
from scheduler.offline.room_by_eviction import victims_by_pod
from scheduler.output.difference_report import DifferenceReport
from scheduler.output.report import JSON, PAGE, TEXT, WIDE, YAML
from scheduler.simulation.changes import claims_without, evicted_from
from scheduler.state.taints import Eviction
from scheduler.status import ClaimStatus

_EPILOG = """
\b
Exit codes: 0 if nothing loses its place, 1 if something does or an object of an unknown kind has claims, 2 for
invalid input.

\b
Examples:
  dra whatif cluster.yaml --overlay drain:gpu-07             do its pods fit elsewhere?
  dra whatif cluster.yaml --overlay add:gpu-07:4             do four more nodes like this one help?
  dra whatif cluster.yaml pending.yaml --overlay class.yaml  with an edited class
  dra whatif cluster.yaml pending.yaml --release ml/notebook-gpu --policy pack
"""


@click.command(name="whatif", epilog=_EPILOG)
@source_options
@click.option(
    "--overlay",
    "changes",
    multiple=True,
    callback=known_changes,
    metavar="CHANGE|PATH",
    help="drain:NODE, cordon:NODE, taint:NODE:KEY=VALUE:EFFECT, fail:NODE, add:NODE:COUNT, remove:node/NODE, or "
    "objects that replace others, as in `dra allocate` (docs/simulate.md). Can be repeated.",
)
@click.option(
    "--release",
    "released",
    multiple=True,
    metavar="NS/NAME",
    help="Release this claim: the pods that use it have ended. Can be repeated.",
)
@policy_option
@config_option
@groups_option
@output_option(TEXT, WIDE, JSON, YAML, PAGE)
@keep_going_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: ClusterSource,
    changes: tuple[str, ...],
    released: tuple[str, ...],
    policy: str,
    config: Path | None,
    group_kinds: tuple[str, ...],
    output: str,
    keep_going: bool,
) -> None:
    """Compare two placements of the input: as it is, and with the changes.

    PATH is as in `dra allocate`. Everything that is pending is placed twice, by the live scheduler's own decisions.
    Pods on nodes that are drained, fail or are removed become pending, and so do pods that a NoExecute taint of their
    node or of one of their devices evicts. For a pod that has no place afterwards, you see whom preemption would evict.
    --policy applies to the second placement.
    """
    if not (changes or released or policy):
        raise click.UsageError("Nothing is changed: use --overlay, --release or --policy.")
    features, shown = source.features, source.shown
    inventory, changed = inventories_of(source.objects(), changes, features, keep_going=keep_going)
    for name in released:
        changed = _released(changed, shown.key_of(name))
    ending, evicted = (evictions(one, features) for one in (inventory, changed))
    inventory, changed = evicted_from(inventory, _pods(ending)), evicted_from(changed, _pods(evicted))
    by = decided_by(config, ""), decided_by(config, policy)
    kinds = frozenset(group_kinds)
    given = Input.of(inventory, features, group_kinds=kinds)
    reported = (*given.warnings, *given.unchecked(given.pods))
    given.warn_of(given.pods)
    then = Input.of(changed, features, reported, kinds)
    print_to_stderr(line for line in then.unchecked(then.pods) if line not in reported)
    first = _placed(given, given.placement(features, decided_by=by[0]), shown, "placing, before the change")
    second = _placed(then, then.placement(features, decided_by=by[1]), shown, "placing, after the change")
    before, after = first.places, second.places
    if not before and not after:
        stop(f"nothing is compared: there is no pod with claims {shown} and no pending claim")
    causes = {f"pod {one.pod}": one.cause for one in evicted}
    moved = differences(before, after, {name: causes[name] for name in causes.keys() - set(_names(ending))})
    report = DifferenceReport(before, after, second.with_victims(moved))
    if output == PAGE:
        (pools, _, cluster), (pools_then, claims, cluster_then) = first.devices(), second.devices()
        report = replace(report, pools=(pools, pools_then), claims=claims, clusters=(cluster, cluster_then))
    print_report(report, output, source.head)
    lost = any(one.kind is DifferenceKind.LOST for one in moved)
    is_complete = not (inventory.unseen or changed.unseen)
    sys.exit(BAD_INPUT if inventory.errors or changed.errors else int(lost or not is_complete))


@dataclass(frozen=True, slots=True)
class _OnePlacement:
    """Where everything that is shown is, and the placement that says so."""

    given: Input
    placement: Placement
    places: Places

    def with_victims(self, found: Sequence[PlaceDifference]) -> list[PlaceDifference]:
        """The differences with who would be evicted for pods that have no place."""
        without = [one.after.refused.pod for one in found if one.after and one.after.refused and one.after.refused.pod]
        victims = {f"pod {pod}": one for pod, one in victims_by_pod(self.placement, without)}
        return [replace(one, victims=victims.get(one.name)) for one in found]

    def devices(self) -> tuple[list[PoolStatus], list[ClaimStatus], Cluster]:
        return self.given.devices_of(self.placement)


def _placed(given: Input, placement: Placement, shown: ShownObjects, doing: str) -> _OnePlacement:
    """Place everything."""
    running = [pod for pod in given.pods if pod.node_name and (pod.claims or given.extended.asked_by(pod))]
    with Progress(doing=doing) as progress:
        results = placement.run(given.pending, unused_claims(given.claims, given.pods), progress.show)
    pods = [pod for pod in running if shown.has(pod.namespace, pod.labels)]
    results = [one for one in results if given.is_shown(one, shown)]
    return _OnePlacement(given, placement, places_of(pods, placement.claims, results))


def _pods(found: Iterable[Eviction]) -> Iterator[Pod]:
    return (one.pod for one in found)


def _names(found: Iterable[Eviction]) -> Iterator[str]:
    return (f"pod {pod}" for pod in _pods(found))


def _released(inventory: Inventory, key: NamespacedName) -> Inventory:
    """The inventory when the pods that use the claim have ended."""
    claim_object = inventory.claims.get(key)
    if claim_object is None:
        stop(f"--release: claim {'/'.join(key)} is not in the input{meant(key, inventory.claims)}")
    users = [pod for pod in inventory.pods if pod.namespace == key[0] and _uses(pod, claim_object)]
    claims = claims_without(inventory, users)
    if key in claims:
        claims[key] = replace(claim_object, claim=replace(claim_object.claim, allocation=None), consumers=())
        claims[key] = replace(claims[key], decoded=replace(claim_object.decoded, reserved_for=()))
    ended = {id(pod) for pod in users}
    return replace(inventory, claims=claims, pods=[pod for pod in inventory.pods if id(pod) not in ended])


def _uses(pod: Pod, found: InputClaim) -> bool:
    return any(user.is_pod(pod.name, pod.uid) for user in found.reserved_for)
