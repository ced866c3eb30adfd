"""Which event may help which rejected pod, by the hints of its plugins and by changes of the pod itself.

Source: kube-scheduler's queueing hints (KEP-4247).
"""

from collections.abc import Iterable

from scheduler.core_v1.pod import Pod
from scheduler.plugins.default import PLUGINS
from scheduler.plugins.plugin import Reason, Refusal, RefusedPod
from scheduler.state.cluster_changes import ClaimChanged, Event, GivenBack, NodeChanged, PodChanged


def helps(pod: Pod, refusal: Refusal, event: Event) -> bool:
    """True where the event may make the refused pod fit. pod: as it is now."""
    if isinstance(event, PodChanged) and _is_of(event, pod):
        return event.old is not None and event.new is not None and asks_differently(event.old, event.new)
    if isinstance(event, GivenBack) and event.pod.uid == pod.uid:
        return False
    who = RefusedPod(pod, refusal)
    hints = (reason.hints.get(type(event)) for reason in refusal.reasons)
    return any(hint(who, event) for hint in hints if hint)


def concerned(event: Event, reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Those of the reasons that the event may matter to; pods whose own claim or own self it is aside."""
    if isinstance(event, ClaimChanged) and not event.is_released:
        return ()
    hinting = tuple(reason for reason in reasons if type(event) in reason.hints)
    if isinstance(event, PodChanged) and not event.is_less:
        return tuple(reason for reason in hinting if reason.counts_pods) if event.is_counted_differently else ()
    if isinstance(event, NodeChanged):
        return tuple(reason for reason in hinting if _may_matter(event, reason))
    return hinting


def asks_differently(old: Pod, new: Pod) -> bool:
    """True where anything has changed that decides where the pod can be."""
    return any(getattr(old, name) != getattr(new, name) for name in _POD_FIELDS)


def _is_of(event: PodChanged, pod: Pod) -> bool:
    return any(one.uid == pod.uid for one in (event.old, event.new) if one)


def _may_matter(event: NodeChanged, reason: Reason) -> bool:
    """False where nothing of the node has changed that the reason looks at: kubelets report often, mostly the same."""
    old, new = event.old, event.new
    if old is None or new is None:
        return True
    return any(getattr(old, name) != getattr(new, name) for name in reason.node_fields)


_POD_FIELDS = frozenset({"gates", "group"}.union(*(plugin.pod_fields for plugin in PLUGINS)))
