"""InterPodAffinity: pods that are there already may keep a pod away from their nodes and the domains of these.

What the pod in hand itself requires of other pods is refused by name (`unsupported`) before filters are asked.
"""

from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import Cycle, Dynamic, Plugin, Reason, RefusedPod
from scheduler.state.changes import GivenBack, NamespaceChanged, NodeChanged, PodChanged


def _refused(cycle: Cycle) -> Mask:
    return cycle.infos.anti_affinity.kept_from(cycle.pod)


def _kept_away(who: RefusedPod, event: PodChanged) -> bool:
    """A pod goes that may have kept this one away."""
    return event.is_less and event.old is not None and _keeps_away(event.old, who.pod)


def _kept_away_in_vain(who: RefusedPod, event: GivenBack) -> bool:
    return _keeps_away(event.pod, who.pod)


def _keeps_away(holder: Pod, pod: Pod) -> bool:
    """False where it certainly does not; the labels of a namespace are not known here."""
    return bool(holder.anti_affinity) and holder.uid != pod.uid


def _is_in_other_domain(_who: RefusedPod, event: NodeChanged) -> bool:
    """A node comes, goes or changes its labels, and so do the domains that it is in and those of the pods on it."""
    return event.old is None or event.new is None or event.old.labels != event.new.labels


def _is_in_namespace(who: RefusedPod, event: NamespaceChanged) -> bool:
    return any(one.name == who.pod.namespace for one in (event.old, event.new) if one)


INTER_POD_AFFINITY = Plugin(
    "InterPodAffinity",
    (
        Reason(
            "InterPodAffinity",
            {
                NodeChanged: _is_in_other_domain,
                PodChanged: _kept_away,
                NamespaceChanged: _is_in_namespace,
                GivenBack: _kept_away_in_vain,
            },
            node_fields=("labels",),
        ),
    ),
    pod_fields=("labels",),
    dynamic=Dynamic.of("node(s) didn't satisfy existing pods anti-affinity rules", _refused),
)
