"""Errors of selectors that a placed pod does not come to here, and at which kube-scheduler gives it up.

Here a bound may show first that a node has no answer, so that the node is refused and the pod goes to another one
(docs/differences.md). kube-scheduler evaluates the selector, and ends the attempt on every node. Pods that ask for the
same are told of once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from allocator.allocate import allocate
from allocator.cluster.selectors import selectors_of
from allocator.cluster.snapshot import Snapshot
from allocator.fleet.questions import DeviceQuestion
from allocator.model import Claim, DeviceID
from allocator.outcome import AllocationError
from allocator.search.rules import Mask, bits
from allocator.status.matching import OrderedAnswers
from scheduler.core_v1.pod import Pod
from scheduler.decision.able import EligibleNodes, cycle_of, reached_by_all
from scheduler.decision.cluster import Cluster
from scheduler.decision.node_answers import requirements_of
from scheduler.state.pod_requests import pod_requests


@dataclass(slots=True)
class HiddenError:
    """At which node kube-scheduler gives up, and why. subject: the first that asks so. number: of all that do."""

    subject: str
    node: str
    reason: str
    number: int = 1

    def __str__(self) -> str:
        others = f" and {self.number - 1} like it" if self.number > 1 else ""
        return f"kube-scheduler gives up {self.subject}{others} at node {self.node}: {self.reason}"


@dataclass(slots=True)
class _Suspects:
    """The nodes that reach a device on which a selector fails. seen: when they were asked last."""

    nodes: Mask
    seen: tuple[int, int] = (-1, -1)
    error: HiddenError | None = None


@dataclass(eq=False)
class HiddenErrors:
    """The errors that are hidden so far."""

    cluster: Cluster
    _by_question: dict[object, _Suspects] = field(default_factory=dict)
    _answers: OrderedAnswers | None = None

    @property
    def found(self) -> Iterator[HiddenError]:
        """What was found, in the order in which it was."""
        return (one.error for one in self._by_question.values() if one.error)

    def look(self, pod: Pod | None, claims: Sequence[Claim]) -> HiddenError | None:
        """Look for an error before the pod, or a claim that no pod uses, is placed.

        Cost: O(devices) for each new question, and an allocation for each suspicious node that has changed.
        """
        pending = [claim for claim in claims if claim.allocation is None]
        if not pending or self.cluster.fleet.features.is_strict:
            return None
        question = DeviceQuestion.of(pending, self.cluster.fleet.classes)
        suspects = self._by_question.get(question.key)
        if suspects is None:
            suspects = self._by_question[question.key] = _Suspects(self._suspicious(pending))
        if suspects.error:
            suspects.error.number += 1
        elif suspects.nodes:
            suspects.error = self._error(pod, claims, suspects)
        return suspects.error

    def _suspicious(self, pending: Sequence[Claim]) -> Mask:
        failing = self._failing(pending)
        if not failing:
            return 0
        fleet, found = self.cluster.fleet, 0
        for number in bits(fleet.all):
            found |= (not failing.isdisjoint(fleet.reached_by(fleet.node(number)))) << number
        return found

    def _failing(self, pending: Sequence[Claim]) -> set[DeviceID]:
        """The devices on which a selector of the claims fails, after those before it accepted them."""
        fleet = self.cluster.fleet
        if self._answers is None:
            devices = [one for slices in fleet.slices.by_pool.values() for slice_ in slices for one in slice_.devices]
            self._answers = OrderedAnswers(devices, fleet.features.environment)
        alternatives = [one for claim in pending for request in claim.requests for one in request.alternatives]
        found: set[DeviceID] = set()
        for alternative in alternatives:
            if device_class := fleet.classes.get(alternative.class_name):
                chain = tuple(expression for _, _, expression in selectors_of(device_class, alternative))
                for number in range(len(chain)):
                    found.update(device.id for device in self._answers.of(chain[: number + 1]).failing)
        return found

    def _error(self, pod: Pod | None, claims: Sequence[Claim], suspects: _Suspects) -> HiddenError | None:
        fleet = self.cluster.fleet
        suspects.seen, changed = fleet.changed_nodes(suspects.seen)
        nodes = suspects.nodes if changed is None else suspects.nodes & sum(1 << number for number in set(changed))
        now = fleet.current
        strict = Snapshot(fleet.features.strictly(), now.slices, now.classes, now.usage, now.selectors)
        for pending, number in self._asked(pod, claims, nodes):
            try:
                allocate(strict, fleet.node(number), pending, budget_steps=fleet.budget_steps)
            except AllocationError as error:
                subject = f"pod {pod}" if pod else f"claim {claims[0]}"
                return HiddenError(subject, fleet.node(number).name, str(error).partition("\n")[0])
        return None

    def _asked(self, pod: Pod | None, claims: Sequence[Claim], nodes: Mask) -> Iterator[tuple[Sequence[Claim], int]]:
        """(claims to be allocated, node) of those of the nodes for which kube-scheduler would ask."""
        cluster = self.cluster
        for required in requirements_of(cluster, pod, claims):
            allowed = required.nodes
            if pod is not None:
                cycle = cycle_of(cluster, pod, pod_requests(pod))
                allowed = EligibleNodes.of(cluster, cycle, required).allowed & reached_by_all(cluster, claims)
            for number in bits(allowed & nodes):
                yield required.pending, number
