"""The four verbs, from the body of a call to the body of its answer.

If anything is wrong with a call, its answer says so where kube-scheduler shows it, and never that a node fits.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from scheduler.core_v1.pod import Pod, decode_pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.decision_time_limit import TooLong
from scheduler.decision.namespace_time import DecisionTime
from scheduler.extender import wire
from scheduler.extender.bind import Binds
from scheduler.extender.filter import EVERY_NODE, Filtered, Undecided, filter_nodes
from scheduler.extender.held_answers import HeldAnswers
from scheduler.extender.poke import Poke
from scheduler.extender.preempt import kept_nodes
from scheduler.extender.prioritize import prioritize
from scheduler.extender.sampling import Sampling
from scheduler.runtime.server import Malformed
from scheduler.ui.decision_log import DecisionLog

MOST_ERRORS = 16
"""Of a pod that cannot be read, of which the caller is told."""


def is_ours(pod: Pod, schedulers: Collection[str]) -> bool:
    """Whether the extender allocates the pod's claims. schedulers: the profiles that it allocates for."""
    return bool(pod.claims) and pod.scheduler_name in schedulers


class Verbs:
    """What the extender answers.

    schedulers: the profiles whose pods it allocates for; those of all others pass. unready: why there is no answer yet,
    empty where there is. binds: None where kube-scheduler allocates itself and only asks for advice. poke:
    learns who is refused. decisions: keeps the last answers, for people. sampling: how many nodes pass. clock: seconds
    that only go forward. processor: seconds that this thread has had of it.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and how
        self,
        cluster: Cluster,
        schedulers: Collection[str],
        unready: Callable[[], str],
        binds: Binds | None,
        poke: Poke,
        *,
        decisions: DecisionLog,
        sampling: Sampling = EVERY_NODE,
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self._cluster = cluster
        self._schedulers = frozenset(schedulers)
        self._unready = unready
        self._binds = binds
        self._poke = poke
        self._decisions = decisions
        self._sampling = sampling
        self._answers = HeldAnswers()
        self._clock, self._processor = clock, processor
        self._time = DecisionTime()

    async def filter(self, body: bytes) -> bytes:
        """An ExtenderFilterResult for ExtenderArgs."""
        try:
            args = wire.read(wire.ExtenderArgs, body)
            pod = self._pod(args.Pod)
            if self._binds is not None and is_ours(pod, self._schedulers):
                await self._binds.expected.before(pod)
            found = self._filtered(pod, wire.names_of(args))
        except (Malformed, Undecided, TooLong) as problem:
            return wire.error_result(str(problem))
        return wire.filter_result(args, found.passed, found.failed, found.unresolvable)

    def prioritize(self, body: bytes) -> bytes:
        """A HostPriorityList for ExtenderArgs. Raises Malformed."""
        args = wire.read(wire.ExtenderArgs, body)
        pod, names = self._pod(args.Pod), wire.names_of(args)
        is_asked = is_ours(pod, self._schedulers) and not self._unready()
        with self._counted(pod.namespace):
            scores = prioritize(self._cluster, pod, names) if is_asked else dict.fromkeys(names, 0)
        return wire.host_priorities(scores)

    def preempt(self, body: bytes) -> bytes:
        """An ExtenderPreemptionResult for ExtenderPreemptionArgs. Raises Malformed."""
        args = wire.read(wire.ExtenderPreemptionArgs, body)
        pod, victims = self._pod(args.Pod), wire.meta_victims(args)
        if not is_ours(pod, self._schedulers):
            return wire.preemption_result(victims)
        if self._unready():
            return wire.preemption_result({})
        uids = {node: [victim.UID for victim in one.Pods or ()] for node, one in victims.items()}
        with self._counted(pod.namespace):
            kept = kept_nodes(self._cluster, pod, uids)
        return wire.preemption_result({node: victims[node] for node in kept})

    async def bind(self, body: bytes) -> bytes:
        """An ExtenderBindingResult for ExtenderBindingArgs."""
        try:
            args = wire.read(wire.ExtenderBindingArgs, body)
        except Malformed as problem:
            return wire.error_result(str(problem))
        assert self._binds is not None, "kube-scheduler binds itself"
        self._answers.called()
        error = self._unready() or await self._binds.bind(args)
        result = "not bound" if error else "bound"
        self._decisions.answered(time.time(), f"{args.PodNamespace}/{args.PodName}", result, error, args.Node)
        await self._answers.wait()
        return wire.error_result(error)

    def _pod(self, raw: Mapping[str, Any]) -> Pod:
        """The pod of a call, as the watch has decoded it if it is of the same version. Raises Malformed."""
        metadata = raw.get("metadata")
        uid, version = (
            (metadata.get("uid"), metadata.get("resourceVersion")) if isinstance(metadata, dict) else ("", "")
        )
        shown = self._cluster.pods.known(uid) if isinstance(uid, str) else None
        if shown is not None and version and version == shown.resource_version:
            return shown
        pod, errors = decode_pod(raw, keeps_raw=False)
        if pod is None:
            raise Malformed("; ".join(f"Pod.{error}" for error in errors[:MOST_ERRORS]))
        return pod

    def _filtered(self, pod: Pod, names: Sequence[str]) -> Filtered:
        if not is_ours(pod, self._schedulers):
            return Filtered(names)
        if unready := self._unready():
            raise Undecided(unready)
        if self._binds is not None and self._binds.is_under_way(pod.uid):
            raise Undecided(f"pod {pod} is being bound")
        if self._lets_others_go_first(pod.namespace):
            raise Undecided(
                f"decisions for pods of namespace {pod.namespace} take long: pods of other namespaces go first"
            )
        with self._counted(pod.namespace), self._cluster.time_limit.limited():
            found = filter_nodes(self._cluster, pod, names, self._sampling)
        self._note(pod, names, found)
        return found

    def _lets_others_go_first(self, namespace: str) -> bool:
        """Whether the namespace has used its share of time, and others need it.

        kube-scheduler asks about one pod at a time, so that others need it as soon as they have pending pods.
        """
        if self._time.waits_until(namespace) <= self._clock():
            return False
        pending = self._cluster.pods.pending()
        return any(one.namespace != namespace and is_ours(one, self._schedulers) for one in pending)

    @contextmanager
    def _counted(self, namespace: str) -> Iterator[None]:
        """Counts the time that the context is open for the namespace."""
        began = self._processor()
        try:
            yield
        finally:
            self._time.spent(namespace, self._processor() - began, self._clock())

    def _note(self, pod: Pod, names: Sequence[str], found: Filtered) -> None:
        result = f"{len(found.passed)} of {len(names)} nodes pass"
        self._decisions.answered(time.time(), str(pod), result, _first_reason(found))
        if found.passed:
            self._poke.passed(pod.uid)
            if self._binds is not None:
                self._binds.expected.passed(pod)
        else:
            self._poke.refused(pod)
            if self._binds is not None:
                self._binds.refused(pod.uid)
        # Asked about the nominated node alone, kube-scheduler asks about all others next.
        is_about_all = not pod.nominated_node or list(names) != [pod.nominated_node]
        if self._binds is not None and found.stuck and is_about_all:
            self._binds.free(pod, found.stuck)


def _first_reason(found: Filtered) -> str:
    """Why one of the nodes does not pass; there may be thousands, which say the same."""
    for refused in (found.unresolvable, found.failed):
        for name, reason in refused.items():
            return f"{name}: {reason}"
    return ""
