"""bind: allocate the pod's claims on the node that kube-scheduler selected, write and verify them, bind the pod.

The answer of filter is not trusted: devices are selected now, with everything in flight, and reserved in memory before
the first await. A call ends within its time limit, with its writes completed or undone. If kube-scheduler asks again
about a pod that is bound to the node by then, the call succeeds. bind does not wait for devices that have to become
ready: the allocation stays and the answer is an error. kube-scheduler asks again after its backoff, and succeeds once
they are ready.
Source: the bind verb of an extender; the write protocol, verification and rollback of `scheduler.attempt`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from allocator.api.versions import Json
from allocator.explain.text import node_text
from allocator.model import Allocation, Claim
from allocator.outcome import Allocated, AllocationError
from scheduler.attempt import claim_calls, pod_calls
from scheduler.attempt.attempts import INTERNAL, Attempts, Reserved
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import allocation_of, consumers_of
from scheduler.attempt.decision import Bound
from scheduler.attempt.slots import KeyLocks
from scheduler.client.errors import CallFailed
from scheduler.client.watch_states import Undecodable
from scheduler.core_v1.pod import Pod, claim_keys
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import NOT_REACHED, PodCycle
from scheduler.decision.schedule_result import Placed
from scheduler.extender.configuration import ROLLBACK_S
from scheduler.extender.question import Hopeless, needs_of
from scheduler.extender.wire import ExtenderBindingArgs
from scheduler.kinds import pod_of
from scheduler.state.claims import AlreadyReserved, ClaimObject

# After filter, the call of bind: the next call of filter waits for it.
#
# kube-scheduler lets a pod be bound while it asks about the next one, and the two calls come on two connections, in any
# order. Without the devices of the pod before, filter would pass a node that has none left, and bind would refuse it.


EXPECTED_S = 0.1
"""For so long bind is waited for at most. It does not come where another plugin of kube-scheduler holds the pod."""


class ExpectedBind:
    """The pod that passed filter last, until its devices are reserved. expected_s: for so long at most.

    Once a call has not come in time, none is expected until another one comes.
    """

    def __init__(self, expected_s: float = EXPECTED_S) -> None:
        self._expected_s = expected_s
        self._do_come = False
        self._pod_uid = ""
        self._came: asyncio.Future[None] | None = None

    def passed(self, pod: Pod) -> None:
        """Some node has passed for the pod. Where its volumes may have to be bound before, bind is not expected."""
        self._end()
        if self._do_come and not pod.volumes.claims:
            self._pod_uid, self._came = pod.uid, asyncio.get_running_loop().create_future()

    def came(self, pod_uid: str) -> None:
        """Bind has come for the pod, and its devices are reserved, or it is refused."""
        self._do_come = True
        if pod_uid == self._pod_uid:
            self._end()

    async def before(self, pod: Pod) -> None:
        """Wait before filter answers about the pod."""
        if self._came is None or pod.uid == self._pod_uid:
            return
        timer = asyncio.get_running_loop().call_later(self._expected_s, self._give_up)
        try:
            await asyncio.shield(self._came)
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self._do_come = False
        self._end()

    def _end(self) -> None:
        if self._came is not None:
            self._came.set_result(None)
            self._came = None


_LOG = logging.getLogger(__name__)


class NotBound(Exception):
    """The pod cannot be bound to the node, or not now; the message is for kube-scheduler's event."""


class Binds:
    """The calls of bind, each beside the others, one at a time for a pod.

    is_ours: whether the extender allocates the claims of a pod. timeout_s: how long a caller waits for an answer.
    wake: lets kube-scheduler ask again about pods that it keeps waiting. expected: the call that comes next.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and how
        self,
        cluster: Cluster,
        binder: Binder,
        attempts: Attempts,
        *,
        is_ours: Callable[[Pod], bool],
        timeout_s: float,
        wake: Callable[[], None],
    ) -> None:
        self.expected = ExpectedBind()
        self._cluster = cluster
        self._binder = binder
        self._is_ours = is_ours
        self._time_limit_s = timeout_s - ROLLBACK_S
        self._wake = wake
        self._attempts = attempts
        self._pod_locks: KeyLocks[str, None] = KeyLocks()
        self._freeing: set[str] = set()

    def refused(self, pod_uid: str) -> None:
        """No node passes for the pod: it shows no more that no pod can be bound, for as long as it waits."""
        self._attempts.refused(pod_uid)

    def is_under_way(self, pod_uid: str) -> bool:
        """Whether a call about the pod has not ended."""
        return pod_uid in self._pod_locks

    async def bind(self, args: ExtenderBindingArgs) -> str:
        """Why the pod is not bound; empty where it is, whoever has bound it to that node."""
        task = self._attempts.start(self._one_at_a_time(args))
        await asyncio.wait({task}, timeout=self._time_limit_s)
        reason = self._binder.progress.reason(args.PodUID)  # before it is taken back
        if not task.done():
            task.cancel()  # once: it goes on until what it wrote is taken back, though nobody may wait so long
            await asyncio.wait({task}, timeout=ROLLBACK_S)
        if task.done() and not task.cancelled():
            return task.result()
        late = f"pod {args.PodNamespace}/{args.PodName} was not bound within {self._time_limit_s:.0f} s"
        return f"{late}: {reason}" if reason else late

    def free(self, pod: Pod, claims: Sequence[Claim]) -> None:
        """Deallocate one of the claims that keep the pod from every node, in the background.

        Nothing happens while a call or another deallocation for the pod is under way.
        """
        if pod.uid in self._freeing or self.is_under_way(pod.uid):
            return
        objects = [
            claim_object for one in claims if (claim_object := self._cluster.claims.get(one.namespace, one.name))
        ]
        self._freeing.add(pod.uid)
        self._attempts.start(self._free(pod, objects))

    async def _free(self, pod: Pod, claims: Sequence[ClaimObject]) -> None:
        try:
            freed = await self._attempts.free(pod, claims)
        finally:
            self._freeing.discard(pod.uid)
        if freed.problem:
            self._wake()  # nothing has changed by which kube-scheduler would ask again

    async def _one_at_a_time(self, args: ExtenderBindingArgs) -> str:
        try:
            async with self._pod_locks.of(args.PodUID):
                await self._bind(args)
        except NotBound as reason:
            return str(reason)
        except CallFailed as error:
            return f"pod {args.PodNamespace}/{args.PodName}: {error}"
        except Exception:  # noqa: BLE001 - whatever it is, this pod is not bound, and the others go on
            _LOG.exception("bind failed", extra={"pod": f"{args.PodNamespace}/{args.PodName}", "node": args.Node})
            return INTERNAL
        return ""

    async def _bind(self, args: ExtenderBindingArgs) -> None:
        """Returns once the pod is bound to the node. Raises NotBound and CallFailed."""
        try:
            namespace = args.PodNamespace
            if problem := self._attempts.slots.slowness(namespace) or self._attempts.objection(namespace):
                raise NotBound(problem)
            reserved = self._reserved_at_once(args)
        finally:
            self.expected.came(args.PodUID)
        slot = await self._attempts.slot(args.PodNamespace, reserved)
        try:
            reserved = reserved or await self._reserved(args)
            outcome = await self._attempts.carry_out(reserved, slot) if reserved else Bound(args.Node)
        finally:
            slot.give_back()
        if not isinstance(outcome, Bound):
            raise NotBound(outcome.reason)
        _LOG.debug("bound", extra={"pod": f"{args.PodNamespace}/{args.PodName}", "node": outcome.node})

    def _reserved_at_once(self, args: ExtenderBindingArgs) -> Reserved | None:
        """What the pod gets on the node, reserved in memory; None if only the API server can tell. Raises as `_bind`.

        kube-scheduler asks about the next pod while this one waits for a slot: it must not be offered these devices.
        """
        pod = self._shown(args)
        return self._reserve(pod, self._placed(pod, args.Node)) if pod else None

    async def _reserved(self, args: ExtenderBindingArgs) -> Reserved | None:
        """As `_reserved_at_once`, of a pod that the API server is asked for; None where it is on the node already."""
        raw = await pod_calls.get(self._binder.api, args.PodNamespace, args.PodName, args.PodUID)
        pod = _to_bind(raw, args)
        if pod is None:
            return None
        if not self._is_ours(pod):
            await self._look_at_claims(pod)
            placed = Placed(args.Node, (), ())
        else:
            placed = self._placed(pod, args.Node)
        return self._reserve(pod, placed)

    def _reserve(self, pod: Pod, placed: Placed) -> Reserved:
        try:
            return self._attempts.reserve(pod, placed)
        except AlreadyReserved as error:
            raise NotBound(INTERNAL) from error

    def _shown(self, args: ExtenderBindingArgs) -> Pod | None:
        """The pod as the watch shows it, if it is to be bound; None if only the API server knows what became of it.

        Little depends on how old it is: claims and pod are written with the versions that are seen here. But
        kube-scheduler may know already what the claims of the pod are called, and we not yet.
        """
        pod = self._cluster.pods.known(args.PodUID)
        if pod is None or pod.node_name or pod.is_deleting or not self._is_ours(pod) or _lacks_claims(pod):
            return None
        return pod if (pod.namespace, pod.name) == (args.PodNamespace, args.PodName) else None

    def _placed(self, pod: Pod, node: str) -> Placed:
        """The devices for the pod on the node, as things are now."""
        number = self._cluster.number_of(node)
        if number is None:
            raise NotBound(f"node {node} is not known yet to the extender")
        try:
            needs = needs_of(self._cluster, pod)
            self._cluster.fleet.refresh()
            with self._cluster.time_limit.limited():
                allocations = self._allocations(pod, node, number, needs)
        except (Hopeless, AllocationError) as error:
            raise NotBound(str(error)) from error
        return Placed(node, tuple(needs.claims), allocations)

    def _allocations(self, pod: Pod, node: str, number: int, needs: PodCycle) -> tuple[Allocation, ...]:
        if not needs.reached >> number & 1:
            raise NotBound(f"{NOT_REACHED} {node}")
        if not needs.pending:
            return ()
        outcome = self._cluster.fleet.allocate(number, needs.pending)
        if not isinstance(outcome, Allocated):
            reason = node_text(outcome, reader=pod.namespace)
            raise NotBound(f"node {node} can no longer provide the devices of pod {pod}: {reason}")
        return outcome.allocations

    async def _look_at_claims(self, pod: Pod) -> None:
        """Raises NotBound where a claim that somebody else was to allocate for the pod is not allocated for it."""
        if _lacks_claims(pod):
            raise NotBound(f'pod "{pod}": ResourceClaim not created yet')
        for namespace, name in claim_keys(pod):
            claim = await claim_calls.find(self._binder, namespace, name)
            if claim is None:
                raise NotBound(f'could not find ResourceClaim "{namespace}/{name}"')
            if allocation_of(claim) is None or pod.uid not in consumers_of(claim):
                raise NotBound(
                    f"claim {namespace}/{name} is not allocated for pod {pod}: its schedulerName {pod.scheduler_name} "
                    "is none of the extender's schedulerNames, and its own scheduler has not allocated it"
                )


def is_tried(cluster: Cluster, pod_uid: str) -> bool:
    """Whether kube-scheduler may still ask for the pod to be bound."""
    return cluster.pods.is_shown(pod_uid) and cluster.pods.bound(pod_uid) is None


def _lacks_claims(pod: Pod) -> bool:
    """Whether a claim for the pod is still to be made, as the pod says."""
    return any(not entry.claim_name and pod.claim_statuses.get(entry.name, "") == "" for entry in pod.claims)


def _to_bind(raw: Json | None, args: ExtenderBindingArgs) -> Pod | None:
    """The pod, None where it is on the node already. Raises NotBound where it can not come there."""
    name = f"{args.PodNamespace}/{args.PodName}"
    if raw is None:
        raise NotBound(f"pod {name} with uid {args.PodUID} no longer exists")
    node = raw["spec"].get("nodeName")
    if node == args.Node:
        return None
    if node:
        raise NotBound(f"pod {name} is on node {node} already")
    if raw["metadata"].get("deletionTimestamp"):
        raise NotBound(f"pod {name} is being deleted")
    try:
        pod = pod_of(raw)
    except Undecodable as error:
        raise NotBound(f"pod {name}: {error}") from error
    if pod.is_finished:  # the API server would bind it, and nobody would ever take its devices away
        raise NotBound(f"pod {name} has ended: {pod.phase}")
    return pod
