"""Why a pod, or a claim that no pod uses, gets its node and devices, or gets none: all of it, as data.

What every node says, and all details of one of them: the node that is chosen, the one that came
closest, or the one that was asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from allocator.bits import union
from allocator.explain.barren_selectors import BarrenSelector
from allocator.explain.node_explanation import NodeExplanation, explain_on
from allocator.explain.text import has_matching_devices, nearest_of
from allocator.gates import Features
from allocator.model import Claim
from allocator.outcome import Allocated, AllocationError, Exhausted, Refused
from scheduler.core_v1.pod import Pod
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.decision.why_not import (
    NodeAnswer,
    PluginRefusal,
    answers_of,
    nearest_refusing,
    plugin_refusal,
    refusal_on,
    refusing_plugins,
    same_answers,
    with_devices,
)
from scheduler.offline.placement import HiddenError, PlacedPod, Placement, PodToPlace
from scheduler.preemption.eviction_answers import EvictionAnswers, eviction_answers

Verdict = Literal["Fits", "DoesNotFit", "NotKnown", "CannotRun"]
"""NotKnown: the budget of steps was spent on a node, and no other node can. CannotRun: a pod has a node, but not its
devices, or it cannot stay there."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What becomes of a pod, or of a claim that no pod uses, and why."""

    pod: Pod | None
    claims: tuple[Claim, ...]
    features: Features
    policy: str
    verdict: Verdict
    """The verdict on the node that was asked for, else on all nodes."""
    summary: str = ""
    """What holds whatever the nodes say, else empty."""
    answers: Mapping[str, NodeAnswer] | None = None
    """What each node says, in the order of their names."""
    node: str = ""
    """The node with details; empty if there is none."""
    is_asked_for: bool = False
    on_node: NodeExplanation | None = None
    """What becomes of its devices on that node; None where it requests none."""
    refusal: PluginRefusal | None = None
    """Why a plugin refuses that node, where one does."""
    plugins: Mapping[str, str] = field(default_factory=dict)
    """The plugin that refuses each node for another reason than devices, by the name of the node."""
    updating: tuple[str, ...] = ()
    """Pools whose devices could not be had, in words."""
    kept: str = ""
    """Which volume keeps the pod on one node, in words."""
    hidden: HiddenError | None = None
    """An error for which kube-scheduler gives up a pod that fits here."""
    barren: tuple[BarrenSelector, ...] = ()
    """Selectors of several parts that no device of any node passes."""
    evictions: EvictionAnswers | None = None
    """What evictions could do for a pod that fits nowhere."""


def explain(
    placement: Placement, look: PodToPlace, asked_for: str = "", *, is_brief: bool = False, preemption_off: str = ""
) -> Explanation:
    """Explain what becomes of the pod or claim as things are now. asked_for: a node, or empty.

    preemption_off: why nobody is evicted for the pod, or empty.

    is_brief: of the nodes that lack devices, only the nearest names devices and holders, and nodes that lack the same
    share their answer. Cost: as `answers_of`, and what `explain_on` costs on one node.
    """
    fleet = placement.cluster.fleet_of(look.pod)
    about = (look.pod, look.claims, fleet.features, fleet.policy.name)
    if isinstance(look.result, PlacedPod):
        return Explanation(*about, "Fits", f"is on node {look.result.node}", node=look.result.node)
    if look.result:
        return Explanation(*about, "DoesNotFit", look.result.reason)
    if look.pod is None and not look.pending:
        return Explanation(*about, "Fits", _holding(placement, look.claims[0]))
    decided = placement.decide(look)
    if isinstance(decided, NotPlaced) and decided.everywhere:
        return Explanation(*about, "DoesNotFit", decided.everywhere)
    cycle = placement.cycle(look)
    answers = dict(answers_of(cycle, names_devices=not is_brief))
    nearest = _nearest(answers)
    if is_brief and nearest:
        answers[nearest] = _named(cycle, nearest)
    answers = placement.with_guilty_operands(cycle, answers)
    chosen = decided.node if isinstance(decided, Placed) else _most_informative(cycle, answers, nearest)
    reported = asked_for or chosen
    verdict = _verdict({reported: answers[reported]} if asked_for else answers)
    updating = placement.updating(lacking_devices(answers))
    hidden = placement.hidden_errors.look(look.pod, look.claims) if isinstance(decided, Placed) else None
    return Explanation(
        *about,
        verdict,
        answers=answers,
        node=reported,
        is_asked_for=bool(asked_for),
        on_node=_explain_devices(placement, cycle, reported),
        refusal=_plugin_refusal(cycle, reported),
        plugins=refusing_plugins(cycle),
        updating=updating,
        kept=cycle.kept_by_a_volume(),
        hidden=hidden,
        barren=() if verdict == "Fits" else tuple(placement.barren_selectors.of(look.pending)),
        evictions=_evictions(cycle, decided, preemption_off, of_nodes=not is_brief)
        if isinstance(decided, NotPlaced)
        else None,
    )


def _evictions(cycle: PodCycle, refused: NotPlaced, off: str, *, of_nodes: bool) -> EvictionAnswers | None:
    """None for a claim that no pod uses, and for a pod that has its node."""
    if cycle.pod is None or cycle.pod.node_name:
        return None
    # Differs from kube-scheduler, which evicts nobody for devices.
    wins_devices = not cycle.fleet.features.is_strict
    try:
        return eviction_answers(cycle, refused, wins_devices=wins_devices, of_nodes=of_nodes, off=off)
    except AllocationError as error:  # of a device that is asked about only where somebody else has gone
        return EvictionAnswers(str(error).partition("\n")[0])


def _plugin_refusal(cycle: PodCycle, name: str) -> PluginRefusal | None:
    node, number = cycle.cluster.node(name), cycle.cluster.number_of(name)
    return None if node is None or number is None else plugin_refusal(cycle, node, number)


def lacking_devices(answers: Mapping[str, NodeAnswer]) -> list[str]:
    """The nodes that lack devices."""
    return [name for name, answer in answers.items() if isinstance(answer, Refused | Exhausted)]


_SINGULAR = {"pods": "pod", "podgroups": "podgroup"}


def _holding(placement: Placement, claim: Claim) -> str:
    """The description of an allocated claim."""
    input_claim = placement.claims.objects[claim.namespace, claim.name]
    state = "is being deleted, and still allocated" if input_claim.metadata.deletion_timestamp else "is allocated"
    names = ", ".join(
        sorted(
            f"{_SINGULAR.get(consumer.resource, consumer.resource)} {consumer.name}"
            for consumer in input_claim.reserved_for
        )
    )
    return f"{state}, reserved for {names or 'nobody'}"


def _nearest(answers: Mapping[str, NodeAnswer]) -> str:
    """The nearest of the nodes that lack devices; empty where there is none."""
    first = {names[0]: one for one, names in same_answers(answers) if isinstance(one, Refused | Exhausted)}
    return nearest_of(first) if first else ""


def _named(cycle: PodCycle, name: str) -> NodeAnswer:
    """The same answer with devices and holders."""
    number = cycle.cluster.number_of(name)
    assert number is not None
    return refusal_on(cycle, number)


def _most_informative(cycle: PodCycle, answers: Mapping[str, NodeAnswer], nearest: str) -> str:
    """The first node that ends the attempt, else the nearest: where devices match, if not all that are needed.

    Without such a node one goes before that has the devices, and refuses the pod for another reason.
    """
    errors = [name for name, answer in answers.items() if isinstance(answer, AllocationError)]
    if errors:
        return errors[0]
    answer = answers.get(nearest)
    if cycle.pod is None or (isinstance(answer, Refused | Exhausted) and has_matching_devices(answer)):
        return nearest
    beside = [name for name, answer in answers.items() if isinstance(answer, str)]
    refusing = union(1 << number for number in cycle.cluster.numbers_of(beside))
    if nearest:
        refusing &= with_devices(cycle)
    return cycle.cluster.name_of(nearest_refusing(cycle, refusing)) if refusing else nearest


def _verdict(answers: Mapping[str, NodeAnswer]) -> Verdict:
    on_nodes = list(answers.values())
    if any(isinstance(answer, AllocationError) for answer in on_nodes):
        return "DoesNotFit"
    if any(isinstance(answer, Allocated) for answer in on_nodes):
        return "Fits"
    return "NotKnown" if any(isinstance(answer, Exhausted) for answer in on_nodes) else "DoesNotFit"


def _explain_devices(placement: Placement, cycle: PodCycle, name: str) -> NodeExplanation | None:
    cluster, fleet = cycle.cluster, cycle.fleet
    node, number = cluster.node(name), cluster.number_of(name)
    assert node is not None
    assert number is not None
    pending = cycle.asks_of(number).pending
    if not pending:
        return None
    held = {str(claim): claim for claim in placement.claims.allocated}
    try:
        policy = cycle.policy_on(number, pending) or fleet.policy
    except AllocationError:  # an attempt there ends before the policy is asked
        policy = fleet.policy
    return explain_on(fleet.snapshot, node, pending, held, budget_steps=fleet.budget_steps, policy=policy)
