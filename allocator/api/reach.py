"""Which nodes reach a slice or a device: a name, a selector, all, or a choice of each device.

Source: k8s.io/api resource/v1 ResourceSliceSpec and Device: nodeName, nodeSelector, allNodes, perDeviceNodeSelection.
"""

from collections.abc import Mapping
from functools import lru_cache

from allocator.api import names
from allocator.api.findings import Findings
from allocator.api.node_selector import NodeSelectorFields, build_node_selector, check_node_selector
from allocator.model import Reach


def check_reach(
    node_name: str | None,
    selector: NodeSelectorFields | None,
    flags: Mapping[str, bool | None],
    path: str,
    findings: Findings,
) -> list[str]:
    """The fields that select nodes, after the rules of each: set means not empty, not false.

    flags: allNodes, and in a slice perDeviceNodeSelection.
    """
    chosen = []
    if node_name:
        chosen.append("nodeName")
        if problem := names.long_name(node_name):
            findings.error(f"{path}.nodeName", node_name, problem)
    elif node_name is not None:
        findings.error(f"{path}.nodeName", node_name, "must be absent or not empty")
    if selector is not None:
        chosen.append("nodeSelector")
        check_node_selector(selector, f"{path}.nodeSelector", findings)
    for flag, value in flags.items():
        if value:
            chosen.append(flag)
        elif value is not None:
            findings.error(f"{path}.{flag}", value, "must be absent or true")
    return chosen


def build_reach(
    node_name: str | None,
    selector: NodeSelectorFields | None,
    *,
    all_nodes: bool | None,
    per_device: bool | None = None,
) -> Reach:
    """The fields in the order of the reference: a name takes precedence, then all nodes, then a selector."""
    if node_name or selector is None:
        return _shared(node_name or "", bool(all_nodes and not node_name), bool(per_device))
    return Reach("", build_node_selector(selector), bool(all_nodes), bool(per_device))


@lru_cache(maxsize=1 << 14)
def _shared(node_name: str, all_nodes: bool, per_device: bool) -> Reach:  # noqa: FBT001 - as in Reach
    return Reach(node_name=node_name, all_nodes=all_nodes, per_device=per_device)
