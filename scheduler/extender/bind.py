"""bind: allocate the pod's claims on the node that kube-scheduler has chosen, write them, verify, bind the pod.

What filter has said is not trusted: the devices are chosen now, with all that is in flight, and reserved in memory
before anything is awaited. A call ends within its time, its writes done or taken back; asked again about a pod that is
bound to the node by then, it says so. Devices that have to be made ready are not waited for: the allocation stays, the
answer is an error, and kube-scheduler, which asks again after its backoff, is let through once they are ready.
Source: the bind verb of an extender; the write protocol, verification and rollback of `scheduler.binding`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from allocator.explain import node_text
from allocator.model import Allocation, Claim, DeviceID
from allocator.outcome import Allocated, AllocationError
from scheduler.binding import claim_calls, pod_calls
from scheduler.binding.bind_pod import bind_pod
from scheduler.binding.binder import Binder
from scheduler.binding.claim_objects import Json, allocation_of, consumers_of
from scheduler.binding.decision import Bound, ClaimPlan, Decision, Fatal, Outcome, Pending, PodKey, Retry
from scheduler.binding.post_filter import deallocate_one
from scheduler.binding.turns import Turns
from scheduler.cache.events import Undecodable
from scheduler.cache.kinds import pod_of
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.cycle.claim_index import AlreadyReserved
from scheduler.cycle.cluster import ASIDE_S, Cluster
from scheduler.cycle.decide import NOT_REACHED, Placed
from scheduler.cycle.hints import claim_keys
from scheduler.cycle.invariants import Violation
from scheduler.extender.configuration import ROLLBACK_S
from scheduler.extender.question import Hopeless, Needs, needs_of
from scheduler.extender.wire import INTERNAL, ExtenderBindingArgs

_LOG = logging.getLogger(__name__)


class NotBound(Exception):
    """The pod cannot be bound to the node, or not now; the message is for kube-scheduler's event."""


class Binds:
    """The calls of bind, each beside the others, one at a time for a pod.

    is_ours: whether the extender allocates the claims of a pod. timeout_s: how long a caller waits for an answer.
    concurrency: pods that are written at the same time. given_back: told of a node whose devices were reserved in vain,
    or of None where a pod has to be asked about again for another reason. violated: told where two attempts meet that
    never should.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and how
        self,
        cluster: Cluster,
        binder: Binder,
        *,
        is_ours: Callable[[Pod], bool],
        timeout_s: float,
        concurrency: int,
        given_back: Callable[[str | None], None],
        violated: Callable[[Violation], None],
    ) -> None:
        self._trouble = ("", "")
        self._cluster = cluster
        self._binder = binder
        self._is_ours = is_ours
        self._patience_s = timeout_s - ROLLBACK_S
        self._writing = asyncio.Semaphore(concurrency)
        self._given_back = given_back
        self._violated = violated
        self._numbers = count(1)
        self._turns: Turns[str, None] = Turns()
        self._tasks: set[asyncio.Task[str]] = set()
        self._freeing: dict[str, asyncio.Task[None]] = {}

    @property
    def number(self) -> int:
        """Pods that are being bound."""
        return len(self._tasks)

    @property
    def trouble(self) -> str:
        """Why no pod can be bound before an operator acts; empty while one can, or none is there that shows it."""
        uid, reason = self._trouble
        pods = self._cluster.pods
        return reason if pods.is_shown(uid) and pods.bound(uid) is None else ""

    def refused(self, pod_uid: str) -> None:
        """No node passes for the pod: it shows no more that no pod can be bound, for as long as it waits."""
        if self._trouble[0] == pod_uid:
            self._trouble = ("", "")

    def is_under_way(self, pod_uid: str) -> bool:
        """Whether a call about the pod has not ended."""
        return pod_uid in self._turns

    async def bind(self, args: ExtenderBindingArgs) -> str:
        """Why the pod is not bound; empty where it is, whoever has bound it to that node."""
        task = asyncio.get_running_loop().create_task(self._within_turn(args))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.wait({task}, timeout=self._patience_s)
        if not task.done():
            task.cancel()  # once: it goes on until what it wrote is taken back, though nobody may wait so long
            await asyncio.wait({task}, timeout=ROLLBACK_S)
        if task.done() and not task.cancelled():
            return task.result()
        return f"pod {args.PodNamespace}/{args.PodName} was not bound within {self._patience_s:.0f} s"

    def free(self, pod: Pod, claims: Sequence[Claim]) -> None:
        """Deallocate one of the claims that keep the pod from every node, in the background.

        Nothing happens while a call or another deallocation for the pod is under way.
        """
        if pod.uid in self._freeing or self.is_under_way(pod.uid):
            return
        objects = [found for one in claims if (found := self._cluster.claims.get(one.namespace, one.name))]
        decision = self._decision(pod, "", [ClaimPlan(one.raw) for one in objects])
        task = asyncio.get_running_loop().create_task(self._free(decision))
        self._freeing[pod.uid] = task
        task.add_done_callback(lambda _: self._freeing.pop(pod.uid, None))

    async def _free(self, decision: Decision) -> None:
        try:
            async with self._writing:
                freed = await deallocate_one(self._binder, decision)
        except CallFailed as error:
            _LOG.warning("a claim could not be deallocated: %s", error, extra={"pod": str(decision.pod)})
            self._given_back(None)  # nothing has changed by which kube-scheduler would ask again
        except Exception:  # noqa: BLE001 - nobody waits for it: the next call of filter tries again
            _LOG.exception("a claim could not be deallocated", extra={"pod": str(decision.pod)})
        else:
            if freed is not None:
                _LOG.info("claim deallocated: it cannot serve its pod", extra={"pod": str(decision.pod)})

    async def finish(self, patience_s: float) -> None:
        """Let the calls under way end; what does not within patience_s is cancelled and takes back what it wrote."""
        tasks = [*self._tasks, *self._freeing.values()]
        if not tasks:
            return
        late = (await asyncio.wait(tasks, timeout=patience_s))[1]
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=ROLLBACK_S)

    async def _within_turn(self, args: ExtenderBindingArgs) -> str:
        try:
            async with self._turns.of(args.PodUID), self._writing:
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
        raw = await pod_calls.get(self._binder.api, args.PodNamespace, args.PodName, args.PodUID)
        pod = _to_bind(raw, args)
        if pod is None:
            return
        if not self._is_ours(pod):
            await self._look_at_claims(pod)
            placed = Placed(args.Node, (), ())
        else:
            placed = self._placed(pod, args.Node)
        try:
            allocations = self._cluster.reserve(pod, placed)
        except AlreadyReserved as error:
            self._violated(Violation("I6", f"pod {pod}", str(error)))
            raise NotBound(INTERNAL) from error
        plans = [ClaimPlan(claim.raw, allocation) for claim, allocation in allocations]
        await self._carry_out(pod, self._decision(pod, args.Node, plans))

    def _decision(self, pod: Pod, node: str, plans: Iterable[ClaimPlan]) -> Decision:
        return Decision(PodKey.of(pod), node, tuple(plans), next(self._numbers), is_patient=False)

    def _placed(self, pod: Pod, node: str) -> Placed:
        """The devices for the pod on the node, as things are now."""
        number = self._cluster.number_of(node)
        if number is None:
            raise NotBound(f"node {node} is not known to the extender yet")
        try:
            needs = needs_of(self._cluster, pod)
            with self._cluster.patience.limited():
                allocations = self._allocations(pod, node, number, needs)
        except (Hopeless, AllocationError) as error:
            raise NotBound(str(error)) from error
        return Placed(node, needs.claims, allocations)

    def _allocations(self, pod: Pod, node: str, number: int, needs: Needs) -> tuple[Allocation, ...]:
        if not needs.reached >> number & 1:
            raise NotBound(f"{NOT_REACHED} {node}")
        if not needs.pending:
            return ()
        outcome = self._cluster.fleet.allocate(number, needs.pending)
        if not isinstance(outcome, Allocated):
            raise NotBound(f"node {node} cannot give pod {pod} its devices any more: {node_text(outcome)}")
        return outcome.allocations

    async def _carry_out(self, pod: Pod, decision: Decision) -> None:
        """Write and bind what is reserved. Raises NotBound and CallFailed."""
        outcome: Outcome | None = None
        try:
            outcome = await bind_pod(self._binder, decision)
        finally:
            match outcome:
                case Bound():
                    self._trouble = ("", "")
                    self._cluster.bound(pod.uid)
                case Pending():
                    self._cluster.bound(pod.uid)
                    self._cluster.pods.forget(pod.uid)
                case _:
                    self._cluster.unreserve(pod.uid)
                    self._given_back(decision.node)
        if isinstance(outcome, Retry):
            self._set_aside(outcome.failed, decision.node)
        if isinstance(outcome, Fatal):
            self._trouble = (pod.uid, outcome.reason)
            _LOG.error("no pod can be bound", extra={"pod": str(pod), "reason": outcome.reason})
        if isinstance(outcome, Bound):
            _LOG.debug("bound", extra={"pod": str(pod), "node": outcome.node})
        else:
            raise NotBound(outcome.reason)

    def _set_aside(self, devices: Sequence[DeviceID], node: str) -> None:
        """Keep devices that could not be made ready from everybody for a while: they would be chosen again at once."""
        if devices:
            asyncio.get_running_loop().call_later(ASIDE_S, self._put_back, self._cluster.set_aside(devices), node)

    def _put_back(self, aside: Claim, node: str) -> None:
        self._cluster.put_back(aside)
        self._given_back(node)

    async def _look_at_claims(self, pod: Pod) -> None:
        """Raises NotBound where a claim that somebody else was to allocate for the pod is not allocated for it."""
        if any(not entry.claim_name and pod.claim_statuses.get(entry.name, "") == "" for entry in pod.claims):
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
        return pod_of(raw)
    except Undecodable as error:
        raise NotBound(f"pod {name}: {error}") from error
