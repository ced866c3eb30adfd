"""`dra audit`: what must not be in a cluster: devices given twice, allocations for nobody, pods without devices."""

import sys
from collections.abc import Sequence

import click

from allocator.gates import Features
from allocator.status import pool_statuses
from scheduler.checks.audit import RULES, ClusterState
from scheduler.cli.checks import EXIT_CODES, fail_on_option, findings_option, report_findings
from scheduler.cli.ending import BAD_INPUT, print_to_stderr, stop
from scheduler.cli.inputs import InputSource, input_options
from scheduler.cli.printing import after_delay
from scheduler.input.inventory import Inventory
from scheduler.offline.evictions import evictions
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.output.data_page import MapColumns, PageTable
from scheduler.output.status_report import MAP, closed_nodes, device_map
from scheduler.state.taints import Eviction
from scheduler.status import claim_statuses

_EPILOG = f"""{EXIT_CODES}
\b
Examples:
  dra audit cluster.yaml                      all rules
  dra audit must-gather/ -o junit > audit.xml     for CI
  dra audit cluster.yaml --fail-on warning    warnings fail as well
"""

_NEEDED = ("ResourceSlice", "ResourceClaim")


@click.command(name="audit", epilog=_EPILOG)
@input_options
@findings_option
@fail_on_option
def command(*, given: InputSource, output: str, fail_on: str) -> None:
    """Check that devices, claims and pods agree: no device allocated twice, no pod without its devices, and so on.

    PATH is as in `dra allocate`, and should be a dump of one moment: ResourceSlices, ResourceClaims and Pods of all
    namespaces. docs/audit.md lists the rules. Between the parts of a dump, a cluster may have changed: what is found
    once may be gone in the next dump.
    """
    inventory, source = given.inventory(), given.source
    ending = evictions(inventory, source.features)
    if missing := [kind for kind in _NEEDED if kind not in inventory.kinds]:
        without = f"the input contains no {' and no '.join(missing)}"
        if not ending:
            stop(f"{without}: there is nothing to audit")
        print_to_stderr([f"warning: {without}: only evicted pods are found"])
    if "Pod" not in inventory.kinds:
        print_to_stderr(["warning: the input contains no Pod: pods are not checked"])
    with after_delay("reading pools ..."):
        state = state_of(inventory, source.features, ending)
    code = report_findings(
        RULES,
        state,
        inventory,
        source.shown,
        name="dra audit",
        output=output,
        fail_on=fail_on,
        devices=_devices,
        head=source.head,
    )
    sys.exit(BAD_INPUT if inventory.errors else code)


def _devices(state: ClusterState) -> tuple[MapColumns, Sequence[PageTable]]:
    devices = device_map(state.pools, claim_statuses(state.claims.values(), state.pods), state.cluster)
    return MAP, [devices, closed_nodes(state.cluster, pools=state.pools)]


def state_of(inventory: Inventory, features: Features, ending: Sequence[Eviction]) -> ClusterState:
    """What the rules look at."""
    claims = Claims(inventory)
    cluster = cluster_of(inventory, claims, inventory.pods, features)
    pools = list(pool_statuses(cluster.fleet.current))
    nodes = {node.name: node for node in inventory.nodes} if "Node" in inventory.kinds else {}
    return ClusterState(pools, inventory.claims, inventory.pods, "Pod" in inventory.kinds, ending, nodes, cluster)
