"""NodePorts: the host ports of a pod have to be free on its node."""

from collections.abc import Iterator, Mapping, Sequence

from allocator.bits import Mask, union
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import (
    MOST_TERMS,
    Change,
    Cycle,
    Dynamic,
    Plugin,
    Reason,
    RefusedPod,
    RefusingNode,
    is_added,
)
from scheduler.state.cluster_changes import GivenBack, NodeChanged, PodChanged
from scheduler.state.node_infos import Promised, UsedPorts


def _refused(cycle: Cycle) -> Mask:
    ports = cycle.pod.host_ports
    return cycle.infos.ports.clashes(ports) if ports else 0


def _kept_by(cycle: Cycle, promised: Mapping[int, Sequence[Promised]]) -> Mask:
    ports = cycle.pod.host_ports
    if not ports:
        return 0
    return union(1 << number for number, pods in promised.items() if any(one.ports.clashes(ports) for one in pods))


def _frees_ports(who: RefusedPod, event: PodChanged) -> bool:
    return event.is_gone and event.old is not None and _may_clash(event.old, who.pod)


def _gives_back_ports(who: RefusedPod, event: GivenBack) -> bool:
    return _may_clash(event.pod, who.pod)


def _may_clash(one: Pod, other: Pod) -> bool:
    return len(one.host_ports) + len(other.host_ports) > MOST_TERMS or _clash(one, other)


def _clash(one: Pod, other: Pod) -> bool:
    held = UsedPorts()
    held.add(0, one.host_ports)
    return bool(held.clashes(other.host_ports))


def _changes(cycle: Cycle, place: RefusingNode) -> Iterator[Change]:
    yield Change.without([(number, other) for number, other in place.own if _clash(other, cycle.pod)])


NODE_PORTS = Plugin(
    "NodePorts",
    (Reason("NodePorts", {NodeChanged: is_added, PodChanged: _frees_ports, GivenBack: _gives_back_ports}),),
    pod_fields=("host_ports",),
    dynamic=Dynamic.of("node(s) didn't have free ports for the requested pod ports", _refused, _kept_by),
    changes=_changes,
)
