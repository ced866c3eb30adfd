"""`dra claims`: each claim, with what it holds and for whom."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import click

from allocator.status import pool_statuses
from scheduler.cli.cluster_source import ShownObjects
from scheduler.cli.ending import BAD_INPUT, print_to_stderr
from scheduler.cli.inputs import InputSource, input_options
from scheduler.cli.printing import page_option, print_report
from scheduler.core_v1.pod import Pod
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.output.report import PAGE
from scheduler.output.status_report import ClaimsReport
from scheduler.status import ClaimStatus, claim_statuses, held_by

_EPILOG = """
\b
Exit codes: 0 if the input could be read, 2 for invalid input.

\b
Examples:
  dra claims cluster.yaml                   all claims
  dra claims cluster.yaml -n ml             the claims of a namespace
  dra claims -l app=train                   the claims with a label, of the live cluster
  dra claims must-gather/ -o json           with the request, share and capacity of each device
  dra claims cluster.yaml -o html > a.html  a page with a map of the devices that claims hold
"""


@click.command(name="claims", epilog=_EPILOG)
@input_options
@page_option
def command(*, given: InputSource, output: str) -> None:
    """Print each claim with its state, devices, node, users and age.

    PATH is as in `dra allocate`. The state is that of `kubectl get resourceclaims`: pending, or allocated, also
    reserved for its users, also deleted.
    """
    inventory, source = given.inventory(), given.source
    claims = Claims(inventory)
    shown = source.shown.of_lists
    report = claims_report(claims_of(claims, inventory.pods, shown), shown)
    if output == PAGE:
        cluster = cluster_of(inventory, claims, inventory.pods, source.features)
        held = held_by(pool_statuses(cluster.fleet.current), {str(one.claim) for one in report.claims})
        report = replace(report, pools=list(held), cluster=cluster)
    print_claims(report, output, source.head)
    sys.exit(BAD_INPUT if inventory.errors else 0)


def claims_of(claims: Claims, pods: Iterable[Pod], shown: ShownObjects) -> list[ClaimStatus]:
    """The claims of the input that are shown. pods: of the input."""
    chosen = [one for one in claims.objects.values() if shown.has(one.claim.namespace, one.metadata.labels)]
    return claim_statuses(chosen, pods)


def claims_report(found: Sequence[ClaimStatus], shown: ShownObjects) -> ClaimsReport:
    """The claims as they are now."""
    return ClaimsReport(found, str(shown), datetime.now(UTC))


def print_claims(report: ClaimsReport, output: str, head: Sequence[str] = ()) -> None:
    """Print them in that format, or that there are none. head: of a page."""
    print_report(report, output, head)
    if not report.claims and output != PAGE:
        print_to_stderr([report.nothing()])
