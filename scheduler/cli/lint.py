"""`dra lint`: what is wrong with classes, requests and devices before anybody runs a pod."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from allocator.allocate import BUDGET_STEPS
from allocator.gates import Features
from allocator.limits import TenantLimit
from allocator.status import pool_statuses
from scheduler.checks.lint import RULES
from scheduler.checks.manifests import Manifests
from scheduler.cli.checks import EXIT_CODES, fail_on_option, findings_option, report_findings
from scheduler.cli.cluster_source import ClusterSource, source_options
from scheduler.cli.ending import FilePath, print_to_stderr, stop
from scheduler.cli.inputs import decided_by, overlay_option, read_inventory
from scheduler.cli.printing import after_delay
from scheduler.input.inventory import Inventory
from scheduler.offline.evictions import evictions
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.offline.virtual_pods import expand
from scheduler.output.check_results import CLASS_MAP, class_map, switched_off
from scheduler.output.data_page import MapColumns, PageTable
from scheduler.output.input_report import evicted_pods
from scheduler.output.status_report import closed_nodes

_EPILOG = f"""{EXIT_CODES}
\b
Examples:
  dra lint cluster.yaml manifests/            manifests against the devices of a cluster
  dra lint must-gather/ -o sarif > dra.sarif  for code scanning
  dra lint cluster.yaml -o html > lint.html   a page with a map of devices and their classes
  dra lint cluster.yaml job.yaml --fail-on warning
"""


_CHECKED = frozenset(
    {
        "ResourceSlice",
        "DeviceClass",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "DeviceTaintRule",
        "Pod",
        "PodGroup",
        "CompositePodGroup",
    }
)


@click.command(name="lint", epilog=_EPILOG)
@source_options
@findings_option
@fail_on_option
@overlay_option
@click.option(
    "--config",
    type=FilePath(path_type=Path),
    metavar="FILE",
    help="Configuration file of the live scheduler, whose limits per tenant are checked.",
)
def command(
    *, source: ClusterSource, overlays: tuple[str, ...], output: str, fail_on: str, config: Path | None
) -> None:
    """Check classes, claims, templates, pods, taint rules and devices: each selector is compiled and run over devices.

    PATH is as in `dra allocate`: the manifests to check, and a dump with the ResourceSlices, DeviceClasses and Nodes
    that they are meant for. Without ResourceSlices, only what needs no devices is checked. docs/lint.md lists
    the rules.
    """
    limits = decided_by(config, "").limits if config else ()
    inventory = read_inventory(source.objects(), overlays, source.features)
    workloads_or_findings = (
        *inventory.errors,
        *inventory.workloads,
        *(one for one in inventory.warnings if one.subject),
    )
    read = {kind for kind, _, _ in (*inventory.versions, *inventory.faults)}
    if not workloads_or_findings and not read & _CHECKED:
        stop(f"the input contains no workload, no {', no '.join(sorted(_CHECKED))}: there is nothing to check")
    print_to_stderr(evicted_pods(evictions(inventory, source.features)))  # gates that are off are findings
    if "ResourceSlice" not in inventory.kinds:
        print_to_stderr(
            ["warning: the input contains no ResourceSlice: selectors are compiled, but run over no device"]
        )
    with after_delay("reading pools ..."):
        manifests = manifests_of(inventory, source.features, limits)
    code = report_findings(
        RULES,
        manifests,
        inventory,
        source.shown,
        name="dra lint",
        output=output,
        fail_on=fail_on,
        devices=_devices,
        head=source.head,
    )
    sys.exit(code)


def _devices(manifests: Manifests) -> tuple[MapColumns, Sequence[PageTable]]:
    cluster, pools = manifests.cluster, manifests.pools
    return CLASS_MAP, [class_map(pools, manifests.memberships, cluster), closed_nodes(cluster, pools=pools)]


def manifests_of(
    inventory: Inventory, features: Features, limits: Sequence[TenantLimit] = (), budget_steps: int = BUDGET_STEPS
) -> Manifests:
    """What the rules look at: with all that is in use taken away. budget_steps: as of `Cluster`."""
    unused = replace(inventory, claims={}, holders=[], pods=[])
    cluster = cluster_of(unused, Claims(unused), (), features, limits=limits, budget_steps=budget_steps)
    expanded = list(expand(inventory.workloads, inventory.pods, inventory.nodes))
    pools = list(pool_statuses(cluster.fleet.current))
    off = [line.removeprefix("warning: ") for line in switched_off(inventory, features)]
    return Manifests(inventory, features, pools, cluster, expanded, off, limits)
