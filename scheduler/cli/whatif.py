"""`dra whatif`: what a change of the cluster, or another policy, does to the placement of everything in the input."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from allocator.gates import Features
from allocator.status.pool_status import PoolStatus
from scheduler.cli.claims import PAGE, output_or_page_option, print_object
from scheduler.cli.ending import BAD_INPUT, stop
from scheduler.cli.inputs import (
    Input,
    Key,
    Source,
    config_option,
    feature_options,
    inventories_of,
    keep_going_option,
    key_of,
    policy_option,
    profiles_of,
    source_options,
)
from scheduler.cli.progress import Progress
from scheduler.input.inventory import Inventory
from scheduler.offline.placement import Placement, unused_claims
from scheduler.offline.placement_difference import DifferenceKind, Places, differences, places_of
from scheduler.output.difference_page import difference_page
from scheduler.output.difference_report import difference_object, difference_table
from scheduler.plugins.profile import Profile
from scheduler.simulation.changes import claims_without
from scheduler.status.claim_status import ClaimStatus

_EPILOG = """
\b
Exit codes: 0 if nothing loses its place, 1 if something does, 2 for invalid input.

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
@output_or_page_option
@feature_options
@keep_going_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: Source,
    changes: tuple[str, ...],
    released: tuple[str, ...],
    policy: str,
    config: Path | None,
    output: str,
    features: Features,
    keep_going: bool,
) -> None:
    """Compare two placements of the input: as it is, and with the changes.

    PATH is as in `dra allocate`. Everything that is pending is placed twice, by the live scheduler's own decisions.
    Pods on nodes that are drained, fail or are removed become pending. --policy applies to the second placement.
    """
    if not (changes or released or policy):
        raise click.UsageError("Nothing is changed: use --overlay, --release or --policy.")
    inventory, changed = inventories_of(source, changes, features, keep_going=keep_going)
    for name in released:
        changed = _released(changed, key_of(name))
    first = _placed(inventory, features, profiles_of(config, ""), "placing, before the change", warns=True)
    second = _placed(changed, features, profiles_of(config, policy), "placing, after the change")
    before, after = first.places, second.places
    if not before and not after:
        stop("nothing is compared: the input contains no pod with claims and no claim that is pending")
    found = differences(before, after)
    if output == PAGE:
        (pools, _), (pools_then, claims) = first.devices(), second.devices()
        click.echo(difference_page((before, after), found, (pools, pools_then), claims), nl=False)
    elif output == "table":
        click.echo(difference_table(before, after, found))
    else:
        print_object(difference_object(before, after, found), output)
    lost = any(one.kind is DifferenceKind.LOST for one in found)
    sys.exit(BAD_INPUT if inventory.errors or changed.errors else int(lost))


@dataclass(frozen=True, slots=True)
class _OnePlacement:
    """Where everything is, and the placement that says so."""

    given: Input
    placement: Placement
    places: Places

    def devices(self) -> tuple[list[PoolStatus], list[ClaimStatus]]:
        return self.given.devices_of(self.placement)


def _placed(
    inventory: Inventory, features: Features, profiles: Sequence[Profile], doing: str, *, warns: bool = False
) -> _OnePlacement:
    """Place everything. warns: of what is not looked at, once for both."""
    given = Input.of(inventory, features)
    if warns:
        given.warn_of(given.pods)
    running = [pod for pod in given.pods if pod.node_name]
    placement = given.placement(features, profiles=profiles)
    with Progress(doing=doing) as progress:
        results = placement.run(given.pending, unused_claims(given.claims, given.pods), progress.show)
    return _OnePlacement(given, placement, places_of(running, placement.claims, results))


def _released(inventory: Inventory, key: Key) -> Inventory:
    """The inventory when the pods that use the claim have ended."""
    found = inventory.claims.get(key)
    if found is None:
        stop(f"--release: claim {'/'.join(key)} is not in the input")
    uids = {user.uid for user in found.reserved_for}
    users = [pod for pod in inventory.pods if pod.uid in uids]
    claims = claims_without(inventory, users)
    if key in claims:
        claims[key] = replace(found, claim=replace(found.claim, allocation=None), consumers=())
        claims[key] = replace(claims[key], decoded=replace(found.decoded, reserved_for=()))
    ended = {id(pod) for pod in users}
    return replace(inventory, claims=claims, pods=[pod for pod in inventory.pods if id(pod) not in ended])
